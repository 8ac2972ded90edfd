"""The answer to the document's question 7: on weight decay and the norm of the weights."""

import math

from experiments.reporting import decay_claims
from experiments.reporting.decay_claims import A_TRAIN, A_VAL, L_VAL
from experiments.reporting.jumps import jumps
from experiments.reporting.measures import GENERAL, MEMORISED, accuracies, losses, mean, span, steps
from experiments.reporting.wording import both, factor, per_seed, seeds_of

NEAR = 1000                 # steps around a moment, before it and after it
SAME = 0.05                 # norms that are that near are as small
BEFORE = 300                # steps before a jump that still belong to it


def decay_answer(store):
    configs = decay_claims.CONFIGS
    rows = seeds_of(store.chosen(list(configs.values())), configs)
    every = [run for runs in rows.values() for run in runs.values()]
    turns = [turn for run in every if (turn := around(run))]
    sooner = all(runs[1.0].reach(A_VAL, GENERAL) < runs[0.25].reach(A_VAL, GENERAL)
                 for runs in rows.values())
    fall = [math.log10(runs[1.0].best(L_VAL) / runs[0.25].best(L_VAL)) for runs in rows.values()]

    def each(of, words):
        return per_seed({seed: words([of(run) for run in runs.values()])
                         for seed, runs in rows.items()})

    return (
        f"**With decay 1 the LSTM generalises {'sooner' if sooner else 'not always sooner'} than "
        f"with 0.25{f', {both(len(rows))}' * sooner}. {norm_head(turns)}** (c) For decay "
        f"{', '.join(f'{d:g}' for d in configs)} the lowest L_val is "
        f"{each(lambda run: run.best(L_VAL), losses)}: from the first to the last it "
        f"{factor(fall)}. A_val is {each(lambda run: run.best(A_VAL), accuracies)}; it "
        f"reaches {GENERAL:g} at step {each(lambda run: run.reach(A_VAL, GENERAL), steps)}, its "
        f"highest value at {each(lambda run: run.first(A_VAL), steps)}; L_val is lowest at "
        f"{each(lambda run: run.first(L_VAL), steps)}. {jump_words(every)} (d) "
        f"{norm_words(every, turns)}"
        + (f" {late_norms(rows)} {explanation(turns)}" if turns else ""))


def norm_at(run, step):
    """The norm at the first evaluation from a step on; NaN without one."""
    return next((v for t, v in run.points("l2_norm") if t >= step), math.nan)


def around(run):
    """(step, norm, its relative change from NEAR steps before to NEAR after, steps that it has
    been as small without a break) when a run generalises; None where it does not."""
    at = run.reach(A_VAL, GENERAL)
    if math.isinf(at):
        return None
    norm = norm_at(run, at)
    points = run.points("l2_norm")
    ends = [norm_at(run, min(step, points[-1][0])) for step in (at - NEAR, at + NEAR)]
    over = max((t for t, v in points if t < at and v > norm * (1 + SAME)), default=0)
    return at, norm, abs(ends[1] / ends[0] - 1), at - next(t for t, _ in points if t > over)


def norm_head(turns):
    if not turns:
        return "No run generalises."
    at, norms, _, waited = zip(*turns, strict=True)
    return (f"When it generalises, at step {span(at, '{:.0f}')}, the norm of its weights is "
            f"{span(norms, '{:.0f}')}, for decays "
            f"{max(decay_claims.DECAYS) / min(decay_claims.DECAYS):g}-fold apart, and has stayed "
            f"as small (within {SAME:.0%}) for the last {span(waited, '{:.0f}')} steps.")


def norm_words(every, turns):
    """Where the norm goes before a run generalises, and meanwhile."""
    start = [run.points("l2_norm")[0][1] for run in every]
    known = [norm_at(run, at) for run in every
             if math.isfinite(at := run.reach(A_TRAIN, MEMORISED))]
    words = (f"The norm is {span(start, '{:.0f}')} at the start and {span(known, '{:.0f}')} when "
             "the training set is known.")
    if not turns:
        return words
    _, norms, moved, _ = zip(*turns, strict=True)
    before = ("It falls" if max(norms) < min(known) else "It does not always fall")
    return (f"{words} {before} before the model generalises; from {NEAR} steps before that to "
            f"{NEAR} after it changes by {span([100 * m for m in moved], '{:.1f}')} %.")


def explanation(turns):
    waited = max(turn[-1] for turn in turns)
    return ("An explanation that fits in part, and is not tested here: among the solutions that "
            "know the training set the general one needs the smaller weights, and decay brings "
            "the weights there, the more of it the sooner."
            + (f" But small weights are not enough: one run had them for {waited:.0f} steps before "
               "it generalised." if waited > NEAR else ""))


def late_norms(rows):
    found = {seed: decay_claims.late(runs) for seed, runs in rows.items()}
    norm = {seed: f"{steps(map(mean, norms.values()))} in {when}"
            for seed, (norms, when) in found.items()}
    done = sum(run.reach(A_VAL, GENERAL) <= decay_claims.calm(runs) / 2
               for runs in rows.values() for run in runs.values())
    ordered = sum(decay_claims.norm_and_general(runs)[0] for runs in rows.values())
    return ("Its mean in the steps that the decays of a seed share, before any of them jumps, is "
            f"{per_seed(norm)} ({done} of {sum(map(len, rows.values()))} runs have generalised "
            "before these steps): smaller norm and sooner generalisation with every step of the "
            f"decay in {ordered} of {len(rows)} seeds.")


def jump_words(runs):
    """What the jumps of the training loss have to do with these numbers."""
    cut = sum(any(0 <= jump.before["step"] - run.first(L_VAL) <= BEFORE for jump in jumps(run))
              for run in runs)
    after = sum(any(jump.before["step"] < run.reach(A_VAL, GENERAL) < math.inf
                    for jump in jumps(run)) for run in runs)
    return (f"Jumps of the training loss (below) have a part in this: in {cut} of {len(runs)} runs "
            f"L_val is lowest in the {BEFORE} steps before one, and in {after} A_val reaches "
            f"{GENERAL:g} only after one." if cut or after else "")
