"""Beam search that always expands `width` unfinished hypotheses, as fairseq and transformers do."""

from npdl.decoding.beam import BeamResult, expansions, extended
from npdl.decoding.scorer import Hypothesis, Ranking, checked, ends, start_one
from npdl.errors import require_positive


def full_beam_search(scorer, width, max_len, eos=None, length_power=0.0):
    """Keep up to `width` unfinished hypotheses at each step, and return a BeamResult.

    At each step the expansions by one token are ranked. Among the first `width`, those that end
    with `eos` are finished. Of the others, the best `width` are expanded in the next step. So a
    finished hypothesis takes no place in the beam, unlike in `beam_search`. At `max_len`,
    unfinished and finished hypotheses are ranked together. If `eos` is None, hypotheses finish at
    leaves of a Tree, and each takes a place in the beam.

    The search ends when `width` hypotheses have finished and the best unfinished hypothesis does
    not score higher at its current length than the worst of them. This is the default rule of
    transformers. The result has no Steps. Raises InputError for sizes below 1, if `eos` is out of
    range, and if the scorer has several prompts.
    """
    require_positive(width=width)
    ranking = Ranking(max_len, length_power)
    rows, state = start_one(scorer, eos)
    live, finished, reason = [Hypothesis()], [], "max_len"
    for length in range(1, max_len + 1):
        parents, tokens, totals = expansions(live, rows, width * _expansions_needed(eos))
        ended = ends(scorer, state, parents, tokens, length, max_len, eos)
        every = extended(ranking, live, parents, tokens, totals, ended)
        finished += [hypothesis for hypothesis in every[:width] if hypothesis.complete]
        finished = sorted(finished, key=ranking.key)[:width]
        going = [i for i, hypothesis in enumerate(every) if not hypothesis.complete][:width]
        live = [every[i] for i in going]
        if not live or length == max_len:
            reason = reason if live else "empty"
            break
        if len(finished) == width and live[0].score <= finished[-1].score:
            reason = "bound"
            break
        rows, state = checked(scorer.advance(state, parents[going], tokens[going]))
    if length == max_len:
        finished, live = sorted(finished + live, key=ranking.key)[:width], []
    return BeamResult(finished, live, [], reason)


def _expansions_needed(eos):
    """Return 1 + the number of end tokens: so many expansions of a hypothesis can't all end."""
    return 1 + (len(eos) if isinstance(eos, tuple) else eos is not None)
