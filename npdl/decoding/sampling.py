"""Greedy decoding takes the most probable token at each step, and sampling a random one."""

import contextlib
import math

import numpy as np

from npdl.decoding.scorer import Ranking, check_eos, checked_scores, has_ended
from npdl.init import generator
from npdl.options import require_fraction, require_number, require_positive
from npdl.threads import ONE_BLAS_THREAD


def greedy(scorer, max_len, eos=None, on_token=None):
    """Return a Hypothesis for each prompt, with the most probable token at each step.

    `scorer` is a Scorer (npdl.decoding.scorer), which returns the log-probabilities of the next
    tokens. A Tree is a Scorer, too. Of equally probable tokens the lower one is chosen. A sequence
    ends with `eos` (a token, or a tuple of tokens), at a leaf of a Tree, or after `max_len` tokens.
    If `on_token` is given, on_token(sequence, token) is called for each new token.
    """
    return _generate(scorer, max_len, eos, 1, lambda rows, *_: rows.argmax(1), on_token)


def sample(scorer, max_len, rng, eos=None, count=1, temperature=1.0, top_k=None, top_p=None,
           on_token=None):
    """Return `count` random continuations of each prompt, as a list of Hypothesis.

    `rng` is a Generator or a seed. At each step, one random number is drawn for each sequence, also
    for those that have ended. So a sequence does not depend on when other sequences end. The
    log_prob of a Hypothesis is computed without temperature, top_k and top_p (see
    `filter_probabilities`). The other arguments are those of `greedy`.
    """
    require_positive(count=count)
    rng = generator(rng)

    def choose(rows, active, num_sequences):
        uniform = rng.random(num_sequences)[active]
        cumulative = np.cumsum(filter_probabilities(rows, temperature, top_k, top_p), axis=1)
        drawn = (cumulative <= uniform[:, None] * cumulative[:, -1:]).sum(1)
        last = (cumulative < cumulative[:, -1:]).sum(1)     # the last token with a probability
        return np.minimum(drawn, last)

    filter_probabilities(np.zeros((1, 1)), temperature, top_k, top_p)   # checks the options
    return _generate(scorer, max_len, eos, count, choose, on_token)


def filter_probabilities(log_probs, temperature=1.0, top_k=None, top_p=None):
    """Return softmax(log_probs / temperature) (n, V), in which improbable tokens get 0.

    If top_k is given, only the top_k most probable tokens keep their probabilities. If top_p is
    given, only the smallest set of most probable tokens with a sum of at least top_p keeps its
    probabilities. Of equally probable tokens, the lower one comes first. Each row is then divided
    by its sum. Raises InputError for a temperature that is not above 0, top_k < 1, and top_p
    outside (0, 1].
    """
    require_number("temperature", temperature, lambda value: 0 < value < math.inf,
                   "above 0; for greedy decoding call npdl.decoding.greedy")
    if top_k is not None:
        require_positive(top_k=top_k)
    if top_p is not None:
        require_fraction(top_p=top_p)
    scaled = log_probs - log_probs.max(1, keepdims=True)    # exp cannot overflow
    with np.errstate(over="ignore"):                        # -inf is right: probability 0
        p = np.exp(scaled / temperature)
    top_p = 1 if top_p is None else top_p
    if top_k is None and top_p == 1:
        return p / p.sum(1, keepdims=True)
    order = argsort_largest(scaled, p.shape[1] if top_k is None else top_k)
    ranked = np.take_along_axis(p, order, axis=1)
    if top_p < 1:
        before = np.cumsum(ranked, axis=1) - ranked         # sum of the more probable tokens
        ranked[before >= top_p * ranked.sum(1, keepdims=True)] = 0
    kept = np.zeros_like(p)
    np.put_along_axis(kept, order, ranked, axis=1)
    return kept / kept.sum(1, keepdims=True)


def argsort_largest(rows, count):
    """Return the indices (n, min(count, V)) of the largest numbers of each row, the largest first.

    Of equal numbers, the one with the lower index comes first. If `count` is below V, only columns
    that contain one of these numbers are sorted.
    """
    V = rows.shape[1]
    columns = np.arange(V)
    if count < V:
        least = np.partition(rows, V - count, axis=1)[:, V - count]
        columns = np.flatnonzero((rows >= least[:, None]).any(0))
    order = np.argsort(-rows[:, columns], axis=1, kind="stable")
    return columns[order[:, :count]]


def _generate(scorer, max_len, eos, count, choose, on_token):
    """Return a list of `count` continuations of every prompt, all extended in one batch.

    choose(rows, active, num_sequences) returns a token for each row. Row i belongs to the sequence
    number active[i], of `num_sequences` in all.
    """
    ranking = Ranking(max_len)
    rows, state = checked_scores(scorer.start())
    check_eos(eos, rows)
    row_of = np.repeat(np.arange(len(rows)), count)         # the row of each active sequence
    active = np.arange(len(row_of))                         # numbers of the active sequences
    sequences = [[] for _ in active]
    totals, complete = np.zeros(len(active)), np.zeros(len(active), bool)
    one_thread = scorer.one_thread and len(active) == 1
    with ONE_BLAS_THREAD if one_thread else contextlib.nullcontext():
        for length in range(1, max_len + 1):
            has_next = (rows.max(1) > -math.inf)[row_of]    # a Tree may have no next token
            active, row_of = active[has_next], row_of[has_next]
            if not len(active):
                break
            no_copy = np.array_equal(row_of, np.arange(len(rows)))
            tokens = choose(rows if no_copy else rows[row_of], active, len(sequences))
            totals[active] += rows[row_of, tokens]
            for number, token in zip(active, tokens, strict=True):
                sequences[number].append(token)
                if on_token is not None:
                    on_token(int(number), int(token))
            ended = has_ended(scorer, state, row_of, tokens, length, max_len, eos)
            complete[active] = ended
            if length == max_len or ended.all():
                break
            rows, state = checked_scores(scorer.advance(state, row_of[~ended], tokens[~ended]))
            active, row_of = active[~ended], np.arange(len(rows))
    return [ranking.make_hypothesis(tokens, total, bool(done))
            for tokens, total, done in zip(sequences, totals, complete, strict=True)]
