"""What is searched (Scorer), what is found (Hypothesis), and which is better (Ranking)."""

import contextlib
import math
from dataclasses import dataclass

import numpy as np

from npdl.errors import InputError, is_integer, require_number, require_positive


class Scorer:
    """Gives log-probabilities of next tokens for a set of hypotheses, one row each.

    A state belongs to the rows that came with it and is never changed, so a search may go back
    to an old one. All arrays are NumPy arrays, log-probabilities in double precision: a search
    compares sums of them, and ties must be real ones.
    """

    def start(self):
        """Return (log-probabilities (B, V) of the first token, state), a row for each prompt."""
        raise NotImplementedError

    def advance(self, state, parents, tokens):
        """Append tokens[i] to the hypothesis in row parents[i]; return the same as `start`.

        parents and tokens (n,) integers; a parent may occur several times or not at all.
        """
        raise NotImplementedError

    def is_leaf(self, state, parents, tokens):
        """Return (n,), True where nothing can follow tokens[i] after row parents[i]."""
        return np.zeros(len(tokens), bool)

    def settings(self, rows):
        """Return the context in which `rows` sequences are extended token by token."""
        return contextlib.nullcontext()


@dataclass(frozen=True)
class Hypothesis:
    """Tokens after the prompt, the sum of their log-probabilities, and the score they rank by.

    `complete`: the last token is the end token; without an end token, nothing can follow or the
    greatest length is reached.
    """

    tokens: tuple = ()
    log_prob: float = 0.0
    score: float = 0.0
    complete: bool = False


class Ranking:
    """score = log_prob / length^length_power; a higher score is better.

    length_power 0 compares probabilities, 1 the mean log-probability of a token. Equal scores:
    the shorter hypothesis first, then the one whose first differing token is lower.
    """

    def __init__(self, max_len, length_power=0.0):
        require_positive(max_len=max_len)
        require_number("length_power", length_power, lambda value: abs(value) <= 10,
                       "between -10 and 10")
        self.max_len = max_len
        self.length_power = length_power

    def hypothesis(self, tokens, log_prob, complete):
        tokens, log_prob = tuple(int(token) for token in tokens), float(log_prob)
        return Hypothesis(tokens, log_prob, self._score(log_prob, len(tokens)), complete)

    def key(self, hypothesis):
        """Return the key to sort by: the best hypothesis has the least key."""
        return -hypothesis.score, len(hypothesis.tokens), hypothesis.tokens

    def bound(self, hypothesis):
        """Return a score that no completion of this unfinished hypothesis can exceed.

        Its log-probability can only fall, and the score of a fixed log-probability is monotone in
        the length. So the best it can do is to keep the log-probability and end at the next step,
        or (length_power > 0) as late as possible. At max_len it is too late: -inf.
        """
        log_prob, length = hypothesis.log_prob, len(hypothesis.tokens)
        if length >= self.max_len:
            return -math.inf
        return max(self._score(log_prob, length + 1), self._score(log_prob, self.max_len))

    def _score(self, log_prob, length):
        return log_prob / max(length, 1) ** self.length_power if self.length_power else log_prob


def start_one(scorer):
    """Return scorer.start(), for a search that begins with a single hypothesis."""
    rows, state = checked(scorer.start())
    if len(rows) != 1:
        raise InputError(f"a search starts from one prompt; this scorer has {len(rows)}")
    return rows, state


def checked(scored):
    """Return (rows, state) of a scorer. Raises InputError unless rows are log-probabilities."""
    rows, _ = scored
    if not (rows <= 0).all():                               # NaN fails as well
        raise InputError("a scorer gave a log-probability that is above 0 or not a number; "
                         "check that the model's parameters are finite")
    return scored


def ends(scorer, state, parents, tokens, length, max_len, eos):
    """Return (n,), True where tokens[i], as token number `length`, completes its hypothesis."""
    if eos is not None:
        return is_eos(tokens, eos)
    if length == max_len:
        return np.ones(len(tokens), bool)
    return scorer.is_leaf(state, parents, tokens)


def check_eos(eos, rows):
    """Raise InputError unless eos is None, a token, or a tuple of tokens."""
    V = rows.shape[1]
    tokens = eos if isinstance(eos, tuple) else () if eos is None else (eos,)
    if any(not is_integer(token) or not 0 <= token < V for token in tokens):
        raise InputError(f"eos = {eos!r}; it must be a token, 0 to {V - 1}, a tuple of tokens, or "
                         "None")


def is_eos(tokens, eos):
    """Return (n,), True where tokens[i] is `eos`, or one of several."""
    return np.isin(tokens, () if eos is None else eos)


def total_probability(log_probs):
    """Return sum exp(log_probs), for checks of trees."""
    return math.fsum(math.exp(value) for value in log_probs)
