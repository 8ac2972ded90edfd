"""Scorer, Hypothesis and Ranking, which all decoding methods use."""

import math
from dataclasses import dataclass

import numpy as np

from npdl.errors import InputError, checked_ids
from npdl.options import LARGEST_INTEGER, is_integer, require_number, require_positive


class Scorer:
    """Base class of Scorers, which return the scores of the next tokens for each hypothesis.

    The scores are log-probabilities, one row for each hypothesis (a sequence of tokens). A Scorer
    returns them with a state, from which `advance` computes the next scores. Row i of a state
    belongs to row i of the scores. A state is never changed, so a search can go back to an earlier
    state. All arrays are NumPy arrays. Log-probabilities are in double precision, so that sums of
    different hypotheses are seldom equal by rounding.

    If `one_thread` is True, `greedy` and `sample` extend a single sequence with one BLAS thread.
    The product of one row and a matrix takes as long as reading the matrix. Two threads make it
    slower, because they wait for each other.
    """

    one_thread = False

    def start(self):
        """Return the log-probabilities (B, V) of the first token for B prompts, and a state."""
        raise NotImplementedError

    def advance(self, state, parents, tokens):
        """Append tokens[i] to the hypothesis in row parents[i] of a state.

        Returns the log-probabilities (n, V) of the next tokens, and a state with n rows. `parents`
        and `tokens` are integers (n,). A parent may occur several times or not at all.
        """
        raise NotImplementedError

    def is_leaf(self, state, parents, tokens):
        """Return bools (n,), True for each hypothesis to which no further token can be appended.

        Hypothesis i is the one in row parents[i] of the state, with tokens[i] appended.
        """
        return np.zeros(len(tokens), bool)


@dataclass(frozen=True)
class Hypothesis:
    """The tokens after the prompt, the sum of their log-probabilities, and their score.

    `complete` is True if the last token is the end token. In a search without an end token, it is
    True if there are max_len tokens, or if the last token is at a leaf of a Tree.
    """

    tokens: tuple = ()
    log_prob: float = 0.0
    score: float = 0.0
    complete: bool = False


class Ranking:
    """score = log_prob / length^length_power. A higher score is better.

    With length_power 0 the score is the log-probability, and with 1 the mean log-probability of a
    token. Hypotheses with equal scores are ordered by their length, and then by their tokens, as
    words in a dictionary.
    """

    def __init__(self, max_len, length_power=0.0):
        require_positive(max_len=max_len)
        require_number("length_power", length_power, lambda value: abs(value) <= 10,
                       "between -10 and 10")
        self.max_len = max_len
        self.length_power = length_power

    def make_hypothesis(self, tokens, log_prob, complete):
        tokens, log_prob = tuple(int(token) for token in tokens), float(log_prob)
        return Hypothesis(tokens, log_prob, self._score(log_prob, len(tokens)), complete)

    def sort_key(self, hypothesis):
        """Return a key for sorting. The best hypothesis has the smallest key."""
        return -hypothesis.score, len(hypothesis.tokens), hypothesis.tokens

    def score_bound(self, hypothesis):
        """Return a score that no completion of this unfinished hypothesis can exceed.

        The log-probability can only become smaller, and for a fixed log-probability the score is
        monotone in the length. So the score is highest if the log-probability stays the same and
        the hypothesis ends at the next step or, for length_power > 0, at max_len. A hypothesis of
        length max_len can't be completed any more, so the bound is -inf.
        """
        log_prob, length = hypothesis.log_prob, len(hypothesis.tokens)
        if length >= self.max_len:
            return -math.inf
        return max(self._score(log_prob, length + 1), self._score(log_prob, self.max_len))

    def _score(self, log_prob, length):
        return log_prob / max(length, 1) ** self.length_power if self.length_power else log_prob


def start_search(scorer, eos):
    """Return scorer.start(). Raise InputError for several prompts or an invalid `eos`."""
    rows, state = checked_scores(scorer.start())
    if len(rows) != 1:
        raise InputError(f"a search starts from one prompt, but this scorer has {len(rows)}; "
                         "make a scorer for each prompt")
    check_eos(eos, rows)
    return rows, state


def checked_scores(scores_and_state):
    """Return the pair (rows, state). Raise InputError unless the rows are log-probabilities."""
    if not (scores_and_state[0] <= 0).all():                # also for NaN
        raise InputError("the scorer returned a log-probability above 0 or NaN; "
                         "check that the model's parameters are finite")
    return scores_and_state


def has_ended(scorer, state, parents, tokens, length, max_len, eos):
    """Return bools (n,), True for each hypothesis that its last token, tokens[i], completes."""
    if eos is not None:
        return np.isin(tokens, eos)
    if length == max_len:
        return np.ones(len(tokens), bool)
    return scorer.is_leaf(state, parents, tokens)


def check_eos(eos, rows):
    """Raise InputError unless eos is None, a token, or a tuple of tokens."""
    V = rows.shape[1]
    tokens = eos if isinstance(eos, tuple) else () if eos is None else (eos,)
    if any(not is_integer(token) or not 0 <= token < V for token in tokens):
        raise InputError(f"eos = {eos!r}; it must be a token (0 to {V - 1}), a tuple of tokens, or "
                         "None")


def checked_prompt(prompt):
    """Return a prompt (S,) or (B, S) as ids (B, S). Raise InputError if it is invalid or empty."""
    ids = np.atleast_2d(checked_ids(prompt, LARGEST_INTEGER, "the prompt's tokens"))
    if ids.ndim != 2 or 0 in ids.shape:
        raise InputError(f"the prompt has shape {np.shape(prompt)}; it must be (S,) or (B, S), and "
                         "not empty")
    return ids.astype(np.int64)
