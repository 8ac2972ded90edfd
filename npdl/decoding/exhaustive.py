"""Exhaustive search, which scores every complete sequence, depth first."""

import bisect
import math
from dataclasses import dataclass

import numpy as np

from npdl.decoding.scorer import Ranking, check_eos, checked, ends, start_one
from npdl.errors import require_positive


@dataclass(frozen=True)
class ExhaustiveResult:
    """The best complete hypotheses `finished`, best first, and the `count` of all complete ones."""

    finished: list
    count: int

    @property
    def best(self):
        return self.finished[0] if self.finished else None


def exhaustive_search(scorer, max_len, eos=None, length_power=0.0, n_best=1):
    """Score every complete sequence of at most `max_len` tokens, and return an ExhaustiveResult.

    For T = `max_len` and V tokens this takes V^T steps. Only one path is in memory at a time, with
    the scores and states of the V children of each of its T nodes. `beam_search` describes when a
    sequence is complete and how sequences are ranked. The children of a node are scored together.
    """
    require_positive(n_best=n_best)
    ranking = Ranking(max_len, length_power)
    best, count = [], 0
    for tokens, log_prob in complete_sequences(scorer, max_len, eos):
        count += 1
        hypothesis = ranking.hypothesis(tokens, log_prob, True)
        if len(best) < n_best or ranking.key(hypothesis) < ranking.key(best[-1]):
            bisect.insort(best, hypothesis, key=ranking.key)
            del best[n_best:]
    return ExhaustiveResult(best, count)


class _Node:
    """A node of the path: its incomplete children, and the index of the next one to visit."""

    def __init__(self, tokens, totals, rows, state):
        self.tokens, self.totals = tokens, totals           # (k,) last tokens, log-probabilities
        self.rows, self.state = rows, state                 # (k, V) log-probs of next tokens
        self.next = 0


def complete_sequences(scorer, max_len, eos=None):
    """Yield (tokens, log-probability) of every complete sequence, depth first."""
    rows, state = start_one(scorer)
    check_eos(eos, rows)
    path, stack = [], [_Node([None], [0.0], rows, state)]
    while stack:
        node = stack[-1]
        if node.next == len(node.tokens):
            stack.pop()
            continue
        i, node.next = node.next, node.next + 1
        if len(stack) > 1:                                  # the root has no token
            path[len(stack) - 2 :] = [node.tokens[i]]
        tokens = np.flatnonzero(node.rows[i] > -math.inf)
        totals = node.totals[i] + node.rows[i, tokens]
        parents = np.full(len(tokens), i)
        length = len(path) + 1
        ended = ends(scorer, node.state, parents, tokens, length, max_len, eos)
        for token, total in zip(tokens[ended], totals[ended], strict=True):
            yield (*path, int(token)), float(total)
        if length < max_len and not ended.all():
            going = tokens[~ended]
            rows, state = checked(scorer.advance(node.state, parents[~ended], going))
            stack.append(_Node(going.tolist(), totals[~ended].tolist(), rows, state))
