"""Beam search, which stops when no active hypothesis can win any more."""

import math
from dataclasses import dataclass, field

import numpy as np

from npdl.decoding.scorer import Hypothesis, Ranking, check_eos, checked, ends, is_eos, start_one
from npdl.errors import require_positive


@dataclass(frozen=True, eq=False)
class Step:
    """One step: the beams it expanded, those it kept, and what it knows about stopping.

    parents    the live hypotheses that were expanded, best first
    log_probs  (n, V) of each next token after each parent
    kept       the beam B_t, best first, finished hypotheses among them
    best       the best finished hypothesis so far, or None
    bound      no live hypothesis can still score higher than this; -inf if none is live
    """

    parents: list
    log_probs: np.ndarray
    kept: list
    best: Hypothesis | None
    bound: float
    ranking: Ranking = field(repr=False)
    eos: int | tuple | None = None

    @property
    def length(self):
        """Return the number of tokens of the kept hypotheses."""
        return len(self.parents[0].tokens) + 1

    @property
    def finished(self):
        """Return the kept hypotheses that are complete and so are not expanded."""
        return [hypothesis for hypothesis in self.kept if hypothesis.complete]

    @property
    def pruned(self):
        """Return the expansions that were not kept, best first (complete if they end in `eos`)."""
        places, tokens, totals = expansions(self.parents, self.log_probs)
        every = extended(self.ranking, self.parents, places, tokens, totals,
                         is_eos(tokens, self.eos))
        return every[len(self.kept) :]


@dataclass(frozen=True, eq=False)
class BeamResult:
    """The result of a beam search.

    finished, unfinished  hypotheses, best first
    steps                 every Step
    reason                why the search ended: "bound" (the stopping rule), "empty" (nothing left
                          to expand) or "max_len"
    """

    finished: list
    unfinished: list
    steps: list
    reason: str

    @property
    def best(self):
        """Return the best finished hypothesis or, if none has finished, the best unfinished one."""
        return (self.finished or self.unfinished or [None])[0]


def beam_search(scorer, width, max_len, eos=None, length_power=0.0, n_best=1, stop=True,
                keep_steps=True):
    """Keep the `width` best expansions at each step; return a BeamResult.

    The beam starts as one empty hypothesis (`width` copies of it would all expand alike). B_t
    holds the best expansions of B_{t-1}; one that ends in `eos` takes its place in B_t, is
    recorded as finished, and is not expanded, so the next step has `width` places again. Without
    `eos`, hypotheses finish at leaves and at `max_len`. Equal log-probabilities: the
    hypothesis whose first differing token is lower comes first.

    length_power  finished hypotheses are ranked by log_prob / length^length_power
    n_best, stop  stop when the n_best-th finished hypothesis scores at least what any
                  active one can still reach (Ranking.bound): the first n_best are then the same
                  as at the end. With length_power 0 and n_best 1, the search stops when the best
                  active log-probability is no higher than the best finished one. The active
                  hypotheses' own normalised scores would be no bound: they can still rise.
    keep_steps    False: the result has no Steps, whose log-probabilities are width x V numbers
                  each: of a real model's search, more memory than all the rest
    Raises InputError for sizes below 1, eos out of range, a scorer with several prompts.
    """
    require_positive(width=width, n_best=n_best)
    ranking = Ranking(max_len, length_power)
    rows, state = start_one(scorer)
    check_eos(eos, rows)
    live, finished, steps, reason = [Hypothesis()], [], [], "max_len"
    for length in range(1, max_len + 1):
        parents, tokens, totals = expansions(live, rows, width)
        ended = ends(scorer, state, parents, tokens, length, max_len, eos)
        kept = extended(ranking, live, parents, tokens, totals, ended)
        going = [hypothesis for hypothesis in kept if not hypothesis.complete]
        finished += [hypothesis for hypothesis in kept if hypothesis.complete]
        finished.sort(key=ranking.key)
        bound = ranking.bound(going[0]) if going else -math.inf
        best = finished[0] if finished else None
        if keep_steps:
            steps.append(Step(live, rows, kept, best, bound, ranking, eos))
        live = going
        if not live or length == max_len:
            reason = reason if live else "empty"
            break
        if stop and len(finished) >= n_best and finished[n_best - 1].score >= bound:
            reason = "bound"
            break
        rows, state = checked(scorer.advance(state, parents[~ended], tokens[~ended]))
    return BeamResult(finished, live, steps, reason)


def extended(ranking, live, parents, tokens, totals, ended):
    """Return the Hypothesis of each expansion."""
    return [
        ranking.hypothesis((*live[p].tokens, token), total, bool(end))
        for p, token, total, end in zip(parents, tokens, totals, ended, strict=True)
    ]


def expansions(live, rows, limit=None):
    """Return (parent, token, log-probability) of the best expansions as arrays, best first."""
    totals = np.array([hypothesis.log_prob for hypothesis in live])[:, None] + rows
    parents, tokens = np.nonzero(totals > -math.inf)
    totals = totals[parents, tokens]
    if limit is not None and len(totals) > limit:
        near = totals >= np.partition(totals, -limit)[-limit]
        parents, tokens, totals = parents[near], tokens[near], totals[near]
    alphabetical = sorted(range(len(live)), key=lambda i: live[i].tokens)
    rank = np.empty(len(live), int)
    rank[alphabetical] = np.arange(len(live))
    order = np.lexsort((tokens, rank[parents], -totals))[:limit]
    return parents[order], tokens[order], totals[order]
