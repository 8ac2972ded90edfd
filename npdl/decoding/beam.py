"""Two rules of beam search, which extends several hypotheses (the beam) token by token.

`beam_search` stops when no active hypothesis can become the best one. `full_beam_search` always
expands `width` unfinished hypotheses, as fairseq and transformers do.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from npdl.decoding.scorer import Hypothesis, Ranking, checked_scores, has_ended, start_search
from npdl.options import require_positive


@dataclass(frozen=True, eq=False)
class BeamStep:
    """One step of a beam search.

    parents    the active hypotheses that were expanded, best first
    log_probs  (n, V), the log-probability of each next token after each parent
    kept       the beam B_t after the step, best first, with active and finished hypotheses
    best       the best finished hypothesis so far, or None
    bound      the highest score that an active hypothesis can still reach; -inf if none is active
    """

    parents: list
    log_probs: np.ndarray
    kept: list
    best: Hypothesis | None
    bound: float
    ranking: Ranking = field(repr=False)
    eos: int | tuple | None = None

    @property
    def pruned(self):
        """Return the expansions that were not kept, best first."""
        parents, tokens, totals = best_expansions(self.parents, self.log_probs)
        ended = np.isin(tokens, () if self.eos is None else self.eos)
        every = extend_hypotheses(self.ranking, self.parents, parents, tokens, totals, ended)
        return every[len(self.kept) :]


@dataclass(frozen=True, eq=False)
class BeamResult:
    """The result of a beam search.

    finished, unfinished  hypotheses, best first
    steps                 the list of all BeamSteps
    reason                why the search ended: "bound" (by the stopping rule), "empty" (there was
                          no active hypothesis) or "max_len"
    """

    finished: list
    unfinished: list
    steps: list
    reason: str

    @property
    def best(self):
        """Return the best finished hypothesis. If none has finished, return the best unfinished."""
        return (self.finished or self.unfinished or [None])[0]


def beam_search(scorer, width, max_len, eos=None, length_power=0.0, n_best=1, stop=True,
                keep_steps=True):
    """Keep the `width` best expansions at each step, and return a BeamResult.

    `scorer` is a Scorer (npdl.decoding.scorer), which returns the log-probabilities of the next
    tokens. A Tree is a Scorer, too. The beam B_0 is one empty hypothesis. B_t has the `width` best
    expansions, by one token, of the active hypotheses in B_{t-1}. An expansion that ends with `eos`
    takes a place in B_t and is finished, so it is not expanded again. If `eos` is None, hypotheses
    finish at leaves of a Tree and at `max_len`. Hypotheses with equal log-probabilities are ordered
    by their tokens, as words in a dictionary.

    length_power  finished hypotheses are ranked by log_prob / length^length_power
    n_best, stop  if `stop` is True, the search ends when n_best finished hypotheses score at least
                  as high as any active hypothesis can still score (Ranking.score_bound). A longer
                  search would find the same n_best hypotheses. With length_power 0 and n_best 1,
                  the search ends when no active hypothesis has a higher log-probability than the
                  best finished one
    keep_steps    if False, no BeamSteps are kept; each stores width x V log-probabilities,
                  which take most of the memory if V is large
    Raises InputError for sizes below 1, if `eos` is out of range, and if the scorer has several
    prompts.
    """
    require_positive(width=width, n_best=n_best)
    ranking = Ranking(max_len, length_power)
    rows, state = start_search(scorer, eos)
    active, finished, steps, reason = [Hypothesis()], [], [], "max_len"
    for length in range(1, max_len + 1):
        parents, tokens, totals = best_expansions(active, rows, width)
        ended = has_ended(scorer, state, parents, tokens, length, max_len, eos)
        kept = extend_hypotheses(ranking, active, parents, tokens, totals, ended)
        unfinished = [hypothesis for hypothesis in kept if not hypothesis.complete]
        finished += [hypothesis for hypothesis in kept if hypothesis.complete]
        finished.sort(key=ranking.sort_key)
        bound = ranking.score_bound(unfinished[0]) if unfinished else -math.inf
        best = finished[0] if finished else None
        if keep_steps:
            steps.append(BeamStep(active, rows, kept, best, bound, ranking, eos))
        active = unfinished
        if not active or length == max_len:
            reason = reason if active else "empty"
            break
        if stop and len(finished) >= n_best and finished[n_best - 1].score >= bound:
            reason = "bound"
            break
        rows, state = checked_scores(scorer.advance(state, parents[~ended], tokens[~ended]))
    return BeamResult(finished, active, steps, reason)


def full_beam_search(scorer, width, max_len, eos=None, length_power=0.0):
    """Keep up to `width` unfinished hypotheses at each step, and return a BeamResult.

    At each step the expansions by one token are ranked. Among the first `width`, those that end
    with `eos` are finished. Of all that don't end, the best `width` are expanded in the next step.
    So a finished hypothesis takes no place in the beam, unlike in `beam_search`. At `max_len`,
    unfinished and finished hypotheses are ranked together. If `eos` is None, hypotheses finish at
    leaves of a Tree, and each takes a place in the beam.

    The search ends when `width` hypotheses have finished and the best unfinished hypothesis, at its
    current length, does not score higher than the worst finished one. This is the default rule of
    transformers. The result has no BeamSteps. Raises InputError for sizes below 1, if `eos` is out
    of range, and if the scorer has several prompts.
    """
    require_positive(width=width)
    ranking = Ranking(max_len, length_power)
    rows, state = start_search(scorer, eos)
    active, finished, reason = [Hypothesis()], [], "max_len"
    num_ends = 0 if eos is None else np.size(eos)
    for length in range(1, max_len + 1):
        parents, tokens, totals = best_expansions(active, rows, width * (1 + num_ends))
        ended = has_ended(scorer, state, parents, tokens, length, max_len, eos)
        every = extend_hypotheses(ranking, active, parents, tokens, totals, ended)
        finished += [hypothesis for hypothesis in every[:width] if hypothesis.complete]
        finished = sorted(finished, key=ranking.sort_key)[:width]
        unfinished = [i for i, hypothesis in enumerate(every) if not hypothesis.complete][:width]
        active = [every[i] for i in unfinished]
        if not active or length == max_len:
            reason = reason if active else "empty"
            break
        if len(finished) == width and active[0].score <= finished[-1].score:
            reason = "bound"
            break
        rows, state = checked_scores(scorer.advance(state, parents[unfinished], tokens[unfinished]))
    if length == max_len:
        finished, active = sorted(finished + active, key=ranking.sort_key)[:width], []
    return BeamResult(finished, active, [], reason)


def extend_hypotheses(ranking, hypotheses, parents, tokens, totals, ended):
    """Return the results of `best_expansions` as Hypotheses. ended[i] is True for complete ones."""
    return [ranking.make_hypothesis((*hypotheses[p].tokens, token), total, bool(end))
            for p, token, total, end in zip(parents, tokens, totals, ended, strict=True)]


def best_expansions(hypotheses, log_probs, limit=None):
    """Return the best ways to extend one of `hypotheses` by one token, the best first.

    The result is three arrays: the index of the extended hypothesis, the token, and the new
    log-probability. `log_probs` (n, V) are the log-probabilities of the next tokens. If `limit` is
    given, at most `limit` expansions are returned.
    """
    totals = np.array([hypothesis.log_prob for hypothesis in hypotheses])[:, None] + log_probs
    parents, tokens = np.nonzero(totals > -math.inf)
    totals = totals[parents, tokens]
    if limit is not None and len(totals) > limit:
        near = totals >= np.partition(totals, -limit)[-limit]
        parents, tokens, totals = parents[near], tokens[near], totals[near]
    alphabetical = sorted(range(len(hypotheses)), key=lambda i: hypotheses[i].tokens)
    rank = np.empty(len(hypotheses), int)
    rank[alphabetical] = np.arange(len(hypotheses))
    order = np.lexsort((tokens, rank[parents], -totals))[:limit]
    return parents[order], tokens[order], totals[order]
