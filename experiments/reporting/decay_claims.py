"""What the document says on weight decay (question 7), and the tests of it."""

import math

from experiments.reporting.jumps import ROUNDED, jumps
from experiments.reporting.measures import (
    GENERAL,
    MEMORISED,
    accuracies,
    falls,
    losses,
    mean,
    relaxed,
    steps,
)
from experiments.reporting.records import GRID, variant
from experiments.reporting.rules import Statement

DECAYS = (0.25, 0.5, 0.75, 1.0)
T = 40001
CONFIGS = {decay: variant("lstm", weight_decay=decay, steps=T) for decay in DECAYS}
L_VAL, A_VAL, A_TRAIN = "validation_loss", "validation_accuracy", "train_accuracy"
SETTLED = 0.1           # a norm that stays within this share of its mean is stable
EARLY = 0.1             # quickly: within this share of the steps


def statements():
    def claim(where, words, document, test, contradiction="", **more):
        return Statement(where, words, document, CONFIGS, test, contradiction, **more)

    rise_again = "answer 7 (c) has L_val rise again beyond 0.7"
    read = "(read as 0.75: 0.7 was not run)"
    return [
        claim("Figure 33", "decay 0.75 and 1 generalise sooner than 0.25 and 0.5",
              "converge faster", high_sooner, threshold=True),
        claim("Figure 33", "decay 0.75 and 1 reach lower L_val than 0.25 and 0.5",
              "generalise better", high_lower),
        claim("Figure 33", "decay 0.25 overfits", "overfitting", low_overfits,
              threshold=("A_val", "A_train")),
        claim("Figure 33", "decay 0.25 is the least steady", "instability", low_unsteady),
        claim("Figure 34", "L_val falls with every step of the decay", "loss decreases",
              always_lower, rise_again),
        claim("Figure 34", "A_val rises with the decay", "accuracy improves", accuracy_improves),
        claim("Figure 34", "decay 0.5 and 0.75 generalise sooner than 0.25",
              "moderate decay speeds up generalisation", moderate_sooner, threshold=True),
        claim("7 (c)", "L_val falls up to 0.75 and rises slightly beyond",
              f"up to 0.7, then slightly increases {read}", turns_at_three_quarters,
              "Figure 34 has the loss decrease with higher decay"),
        claim("7 (c)", "A_val is near-perfect from 0.5 on, and lower below", "from 0.5 onward",
              near_perfect, threshold=True),
        claim("7 (c)", "t_f(L_val) is largest at 0.75", f"peaks at 0.7 {read}", peak),
        claim("7 (c)", "t_f(A_val) falls with every step of the decay", "decreases steadily",
              steadily_sooner),
        claim("7 (d)", "with decay 0.25 the norm stays the highest", "stays high", norm_high),
        claim("7 (d)", "with decay 0.25 the norm fluctuates most", "fluctuates", norm_fluctuates),
        claim("7 (d)", "with decay 0.25 generalisation is the slowest, or fails",
              "slower or fails", low_slowest, threshold=True),
        claim("7 (d)", "with decay 0.5 to 1 the norm drops quickly and stays",
              "drops quickly and stabilises", drops_and_settles,
              threshold=("the spread", "the steps")),
        claim("7 (d)", "the more decay, the smaller the norm and the sooner the generalisation",
              "decay shrinks the norm and helps to avoid overfitting", norm_and_general,
              threshold=True),
    ]


# --- tests ----------------------------------------------------------------------------------------
def best(runs, metric):
    return [runs[decay].best(metric) for decay in DECAYS]


def general(runs, times=1):
    return [runs[decay].reach(A_VAL, relaxed(GENERAL, times)) for decay in DECAYS]


AT = "for decay 0.25, 0.5, 0.75, 1"


def high_sooner(runs, times=1):
    found = general(runs, times)
    return max(found[2:]) < min(found[:2]), f"A_val ≥ 0.9 {AT} at {steps(found)}"


def high_lower(runs):
    found = best(runs, L_VAL)
    return max(found[2:]) < min(found[:2]), f"L_val {AT}: {losses(found)}"


def low_overfits(runs, times=1, memorised=1):
    run = runs[0.25]
    found = run.best(A_TRAIN), run.best(A_VAL)
    return found[0] >= relaxed(MEMORISED, memorised) and found[1] < relaxed(GENERAL, times), (
        f"A_train {found[0]:.3f}, A_val {found[1]:.3f} (overfits: at least {MEMORISED:g}, below "
        f"{GENERAL:g})")


def low_unsteady(runs):
    lost = [runs[decay].shortfall() for decay in DECAYS]
    return lost[0] > max(lost[1:]), f"mean shortfall of A_val {AT}: {losses(lost)}"


def always_lower(runs):
    found = best(runs, L_VAL)
    return falls(found), f"L_val {AT}: {losses(found)}"


def accuracy_improves(runs):
    found = best(runs, A_VAL)
    return found == sorted(found) and found[-1] > found[0], f"A_val {AT}: {accuracies(found)}"


def moderate_sooner(runs, times=1):
    found = general(runs, times)
    return max(found[1:3]) < found[0], f"A_val ≥ 0.9 {AT} at {steps(found)}"


def turns_at_three_quarters(runs):
    found = best(runs, L_VAL)
    return falls(found[:3]) and found[3] > found[2], f"L_val {AT}: {losses(found)}"


def near_perfect(runs, times=1):
    found = best(runs, A_VAL)
    return min(found[1:]) >= relaxed(0.99, times) and found[0] < min(found[1:]), (
        f"A_val {AT}: {accuracies(found)}")


def peak(runs):
    found = [runs[decay].first(L_VAL) for decay in DECAYS]
    return found[2] > max(found[0], found[1], found[3]), f"t_f(L_val) {AT}: {steps(found)}"


def steadily_sooner(runs):
    found = [runs[decay].first(A_VAL) for decay in DECAYS]
    return falls(found), f"t_f(A_val) {AT}: {steps(found)}"


def calm(runs):
    """Up to which step no run of a seed has jumped from the lowest losses (section on jumps)."""
    return min((jump.before["step"] for run in runs.values() for jump in jumps(run)
                if jump.before["train_loss"] < ROUNDED), default=T)


def norms(run, first, last):
    """The norms on the grid of evaluations from one step to another."""
    return [v for t, v in run.points("l2_norm") if t % GRID == 0 and first <= t <= last]


def late(runs):
    """{decay: norms} in the later half of the steps before the first jump, and those steps."""
    end = calm(runs)
    found = {decay: norms(runs[decay], end / 2, end) for decay in DECAYS}
    return found, f"steps {end // 2} to {end}"


def norm_high(runs):
    found, when = late(runs)
    means = [mean(values) for values in found.values()]
    return means[0] > max(means[1:]), f"mean norm in {when} {AT}: {losses_of_norm(means)}"


def losses_of_norm(values):
    return ", ".join(f"{value:.1f}" for value in values)


def wandering(values):
    """Mean change of the norm between evaluations, as a share of it."""
    return mean(abs(b - a) for a, b in zip(values, values[1:], strict=False)) / mean(values)


def norm_fluctuates(runs):
    values, when = late(runs)
    found = [wandering(of) for of in values.values()]
    return found[0] > max(found[1:]), (
        f"mean change in 100 steps in {when} {AT}: " + ", ".join(f"{v:.2%}" for v in found))


def low_slowest(runs, times=1):
    found = general(runs, times)
    return found[0] > max(found[1:]), f"A_val ≥ 0.9 {AT} at {steps(found)}"


def drops_and_settles(runs, times=1, quickly=1):
    true, words, end, early = True, [], calm(runs), EARLY * quickly
    for decay in DECAYS[1:]:
        start, after = runs[decay].points("l2_norm")[0][1], norms(runs[decay], early * T, end)
        spread = (max(after) - min(after)) / mean(after)
        true &= after[0] < start and spread <= SETTLED * times
        words.append(f"decay {decay:g}: {start:.1f} at step 1, {after[0]:.1f} at {early:g} T, "
                     f"then {min(after):.1f} to {max(after):.1f}")
    return true, "; ".join(words) + f", up to step {end}"


def norm_and_general(runs, times=1):
    values, when = late(runs)
    means, found = [mean(of) for of in values.values()], general(runs, times)
    return falls(means) and falls(found) and math.isfinite(found[-1]), (
        f"norm {losses_of_norm(means)} in {when}, A_val ≥ 0.9 at {steps(found)} {AT}")
