"""Exhaustive search, which scores every complete sequence, depth first."""

import bisect
import math
from dataclasses import dataclass

import numpy as np

from npdl.decoding.scorer import Ranking, checked_scores, has_ended, start_search
from npdl.options import require_positive


@dataclass(frozen=True)
class ExhaustiveResult:
    """The best complete hypotheses (`finished`), and the number of all complete ones (`count`)."""

    finished: list
    count: int

    @property
    def best(self):
        return self.finished[0] if self.finished else None


def exhaustive_search(scorer, max_len, eos=None, length_power=0.0, n_best=1):
    """Score every complete sequence of at most `max_len` tokens, and return an ExhaustiveResult.

    For T = `max_len` and V tokens this takes V^T steps. The sequences form a tree, and the V
    children of a node are scored together. Only one path is in memory at a time, with the scores
    and states of the children of its T nodes. `beam_search` describes `scorer`, when a sequence is
    complete, and how sequences are ranked.
    """
    require_positive(n_best=n_best)
    ranking = Ranking(max_len, length_power)
    best, count = [], 0
    for tokens, log_prob in yield_complete_sequences(scorer, max_len, eos):
        count += 1
        hypothesis = ranking.make_hypothesis(tokens, log_prob, True)
        if len(best) < n_best or ranking.sort_key(hypothesis) < ranking.sort_key(best[-1]):
            bisect.insort(best, hypothesis, key=ranking.sort_key)
            del best[n_best:]
    return ExhaustiveResult(best, count)


def yield_complete_sequences(scorer, max_len, eos=None):
    """Yield (tokens, log-probability) of every complete sequence, depth first."""
    def extend(path, total_log_prob, log_probs, state, row):
        """Yield the sequences that begin with the tokens `path`, whose state is row `row`."""
        tokens = np.flatnonzero(log_probs > -math.inf)
        totals, parents = total_log_prob + log_probs[tokens], np.full(len(tokens), row)
        ended = has_ended(scorer, state, parents, tokens, len(path) + 1, max_len, eos)
        for token, total in zip(tokens[ended], totals[ended], strict=True):
            yield (*path, int(token)), float(total)
        unfinished = np.flatnonzero(~ended)
        if len(unfinished) and len(path) + 1 < max_len:
            rows, state = checked_scores(
                scorer.advance(state, parents[unfinished], tokens[unfinished]))
            for i, j in enumerate(unfinished):
                yield from extend((*path, int(tokens[j])), totals[j], rows[i], state, i)

    rows, state = start_search(scorer, eos)
    yield from extend((), 0.0, rows[0], state, 0)
