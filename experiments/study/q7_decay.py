"""Question 7: weight decay of the LSTM, and the norm of its parameters."""

import math

from experiments.study.judge import JUDGED, Claim
from experiments.study.measures import (
    A_TRAIN,
    A_VAL,
    GENERAL,
    L_VAL,
    MEMORISED,
    SETTLED,
    STEADY,
    TENTH,
    each_step,
    lower,
    mean,
    middle,
    only_overfits,
    sooner,
    span,
    when,
)
from experiments.study.pages import Table
from experiments.study.panels import EMPTY, best_table, eight, family, figure
from experiments.study.records import GRID, SEEDS, variant
from npdl_train.runs.metrics import METRICS

DECAYS = (0.25, 0.5, 0.75, 1.0)
T = 40001
CONFIGS = {decay: variant("lstm", weight_decay=decay, steps=T) for decay in DECAYS}
RUNS = [variant("lstm", weight_decay=decay, steps=T, seed=seed) for seed in SEEDS
        for decay in DECAYS]
FACTOR = 100                # a training loss that rises by this factor between two evaluations
ROUNDED = 4 * 2.0**-23      # a float32 loss of which each token's part is mostly rounding
AT = "for decay 0.25, 0.5, 0.75, 1"


# --- jumps ----------------------------------------------------------------------------------------
def jump_places(columns):
    """The places in a run's columns after which the training loss of a memorised set jumps."""
    losses = columns["train_loss"]
    known = next((i for i, accuracy in enumerate(columns["train_accuracy"])
                  if accuracy >= MEMORISED), len(losses))
    return [i for i, (before, after) in enumerate(zip(losses, losses[1:], strict=False))
            if i >= known and None not in (before, after) and after > FACTOR * before > 0]


def calm(runs):
    """Up to which step no run of a seed has jumped from a loss that is mostly rounding: norms are
    compared before that alone."""
    return min((run.columns["step"][i] for run in runs.values() for i in jump_places(run.columns)
                if run.columns["train_loss"][i] < ROUNDED), default=T)


# --- claims ---------------------------------------------------------------------------------------
def claims():
    def claim(where, words, document, test, numbers, against=""):
        return Claim(where, words, document, CONFIGS, test, f"{numbers} {AT}", against=against)

    steps, read = "steps to A_val ≥ 0.9", "(read as 0.75: 0.7 was not run)"
    return [
        claim("Figure 33", "decay 0.75 and 1 generalise sooner than 0.25 and 0.5",
              "converge faster", high_sooner, steps),
        claim("Figure 33", "decay 0.75 and 1 reach lower L_val than 0.25 and 0.5",
              "generalise better", high_lower, "L_val"),
        claim("Figure 33", "decay 0.25 overfits", "overfitting", low_overfits,
              "A_train and A_val of the first"),
        claim("Figure 33", "decay 0.25 is the least steady", "instability", low_unsteady,
              "mean shortfall"),
        claim("Figure 34", "L_val falls with every step of the decay", "loss decreases",
              always_lower, "L_val", "answer 7 (c): it rises again beyond 0.7"),
        claim("Figure 34", "A_val rises with the decay", "accuracy improves", accuracy_improves,
              "A_val"),
        claim("Figure 34", "decay 0.5 and 0.75 generalise sooner than 0.25",
              "moderate decay speeds up generalisation", moderate_sooner, steps),
        claim("7 (c)", "L_val falls up to 0.75 and rises slightly beyond",
              f"up to 0.7, then slightly increases {read}", loss_turns_at_three_quarters, "L_val",
              "Figure 34: the loss decreases with higher decay"),
        claim("7 (c)", "A_val is near-perfect from 0.5 on, and lower below", "from 0.5 onward",
              near_perfect, "A_val"),
        claim("7 (c)", "t_f(L_val) is largest at 0.75", f"peaks at 0.7 {read}", peak, "t_f(L_val)"),
        claim("7 (c)", "t_f(A_val) falls with every step of the decay", "decreases steadily",
              steadily_sooner, "t_f(A_val)"),
        claim("7 (d)", "with decay 0.25 the norm stays the highest", "stays high", norm_high,
              "mean norm before the first jump"),
        claim("7 (d)", "with decay 0.25 the norm fluctuates most", "fluctuates", norm_fluctuates,
              "mean change in 100 steps, as a share,"),
        claim("7 (d)", "with decay 0.25 generalisation is the slowest, or fails",
              "slower or fails", low_decay_is_slowest, steps),
        claim("7 (d)", "with decay 0.5 to 1 the norm drops quickly and stays",
              "drops quickly and stabilises", drops_and_settles,
              "norm at the start, at 0.1 T, its least and largest then,"),
        claim("7 (d)", "the more decay, the smaller the norm and the sooner the generalisation",
              "decay shrinks the norm and helps to avoid overfitting", norm_and_general,
              "mean norm, then steps,"),
    ]


def best(runs, metric):
    return [runs[decay].best(metric) for decay in DECAYS]


def general(runs):
    return [runs[decay].reach(A_VAL, GENERAL) for decay in DECAYS]


def times(steps):
    return [when(step, T) for step in steps]


def high_sooner(runs):
    found = general(runs)
    return [sooner(a, b) for a in times(found)[2:] for b in times(found)[:2]], found


def high_lower(runs):
    found = best(runs, L_VAL)
    return [lower(a, b) for a in found[2:] for b in found[:2]], found


def low_overfits(runs):
    run = runs[0.25]
    return only_overfits(run), [run.best(A_TRAIN), run.best(A_VAL)]


def low_unsteady(runs):
    lost = [runs[decay].shortfall() for decay in DECAYS]
    return [lost[0] - other for other in lost[1:]], lost


def always_lower(runs):
    return each_step(best(runs, L_VAL), lower), best(runs, L_VAL)


def accuracy_improves(runs):
    """No step of the decay lowers it, and all of them raise it."""
    found = best(runs, A_VAL)
    return [*each_step(found, lambda b, a: b - a + STEADY), found[-1] - found[0]], found


def moderate_sooner(runs):
    found = general(runs)
    return [sooner(a, times(found)[0]) for a in times(found)[1:3]], found


def loss_turns_at_three_quarters(runs):
    found = best(runs, L_VAL)
    return [*each_step(found[:3], lower), lower(found[2], found[3])], found


def near_perfect(runs):
    found = best(runs, A_VAL)
    return [*(value - MEMORISED for value in found[1:]), min(found[1:]) - found[0]], found


def peak(runs):
    found = [runs[decay].first(L_VAL) for decay in DECAYS]
    return [sooner(times(found)[i], times(found)[2]) for i in (0, 1, 3)], found


def steadily_sooner(runs):
    found = [runs[decay].first(A_VAL) for decay in DECAYS]
    return each_step(times(found), sooner), found


def norms(run, first, last):
    """The norms on the grid of evaluations from one step to another."""
    return [v for t, v in run.points("l2_norm") if t % GRID == 0 and first <= t <= last]


def late(runs):
    """The norms of each decay in the later half of the steps before the first jump."""
    end = calm(runs)
    return [norms(runs[decay], end / 2, end) for decay in DECAYS]


def norm_high(runs):
    means = [mean(values) for values in late(runs)]
    return [lower(other, means[0]) for other in means[1:]], means


def wandering(values):
    """Mean change of the norm between evaluations, as a share of it."""
    return mean(abs(b - a) for a, b in zip(values, values[1:], strict=False)) / mean(values)


def norm_fluctuates(runs):
    found = [wandering(values) for values in late(runs)]
    return [found[0] - other for other in found[1:]], found


def low_decay_is_slowest(runs):
    found = general(runs)
    return [sooner(other, times(found)[0]) for other in times(found)[1:]], found


def drops_and_settles(runs):
    parts, numbers, end = [], [], calm(runs)
    for decay in DECAYS[1:]:
        start, after = runs[decay].points("l2_norm")[0][1], norms(runs[decay], TENTH * T, end)
        spread = (max(after) - min(after)) / mean(after)
        parts += [lower(after[0], start), SETTLED - spread]
        numbers += [start, after[0], min(after), max(after)]
    return parts, numbers


def norm_and_general(runs):
    means, found = [mean(values) for values in late(runs)], general(runs)
    return each_step(means, lower) + each_step(times(found), sooner), means + found


# --- figures, tables, numbers ---------------------------------------------------------------------
NEAR = 1000                 # steps around a moment, before it and after it


def figures(store):
    curves = family(store, {"": CONFIGS}, "weight decay", (*METRICS, "l2_norm"), (3, 2))
    curves["panels"].append(EMPTY)
    return [figure("fig33-decay-curves", "33", "Loss, accuracy and the l2 norm of the parameters "
                   "over the training steps, the weight decay by colour and mark.", curves,
                   (10, 8.5)),
            figure("fig34-decay-compared", "34", "Best losses and accuracies, and the first steps "
                   "t_f that reached them, against the weight decay.",
                   eight(store, [("LSTM", CONFIGS)], {"label": "weight decay", "scale": "linear"}),
                   (10, 10))]


def table(store):
    return best_table(store, ("weight decay",), [(f"{decay:g}", config)
                                                 for decay, config in CONFIGS.items()])


def answers_table(store):
    """What 7 (c) asks for."""
    measures = (("L_val", "{:.2g}", lambda run: run.best(L_VAL)),
                ("A_val", "{:.4g}", lambda run: run.best(A_VAL)),
                ("t_f(L_val)", "{:.0f}", lambda run: run.first(L_VAL)),
                ("t_f(A_val)", "{:.0f}", lambda run: run.first(A_VAL)),
                ("A_val ≥ 0.9 at", "{:.0f}", lambda run: run.reach(A_VAL, GENERAL)))
    rows = [(recipe, f"{decay:g}", *(middle(map(of, store.runs(config, recipe).values()), form)
                                     for _, form, of in measures))
        for recipe in JUDGED["lstm"] for decay, config in CONFIGS.items()]
    return Table(("recipe", "decay", *(name for name, _, _ in measures)), rows)


def norm_at(run, step):
    """The norm at the first evaluation from a step on; infinity without one."""
    return next((v for t, v in run.points("l2_norm") if t >= step), math.inf)


def turns(store):
    """[(norm when memorised, when generalised, its relative change around that)] of the runs that
    generalise."""
    made = []
    for recipe in JUDGED["lstm"]:
        for config in CONFIGS.values():
            for run in store.runs(config, recipe).values():
                at = run.reach(A_VAL, GENERAL)
                if math.isfinite(at):
                    last = min(at + NEAR, run.config.steps)
                    change = norm_at(run, last) / norm_at(run, max(1, at - NEAR)) - 1
                    made.append((norm_at(run, run.reach(A_TRAIN, MEMORISED)), norm_at(run, at),
                                 abs(change)))
    return made


def values(store):
    known, then, change = zip(*turns(store), strict=True)
    runs = [run for recipe in JUDGED["lstm"] for config in CONFIGS.values()
            for run in store.runs(config, recipe).values()]
    start = [run.points("l2_norm")[0][1] for run in runs]
    ends = [(by[0.25], by[1.0]) for by in by_recipe(store)]
    least = min(run.best(A_VAL) for run in runs if run.config.weight_decay != 0.25)
    return {"7 table": answers_table(store), "7 from half": f"{least:.3f}",
            "7 general": f"{len(known)} of {len(runs)}",
            "7 start": span(start, "{:.0f}"), "7 known": span(known, "{:.0f}"),
            "7 then": span(then, "{:.0f}"), "7 change": f"{100 * max(change):.0f}",
            "7 falls": span((float(f"{a.best(L_VAL) / b.best(L_VAL):.2g}") for a, b in ends),
                            "{:,.0f}"),
            "7 sooner": span((b.first(A_VAL) / a.first(A_VAL) for a, b in ends), "{:.0%}"),
            "7 jumps": f"{sum(bool(jump_places(run.columns)) for run in runs)} of {len(runs)}"}


def by_recipe(store, recipes=JUDGED["lstm"]):
    """[{decay: Run}] of every recipe and seed."""
    return [runs for recipe in recipes
            for runs in store.by_seed(CONFIGS, {"lstm": recipe}).values()]


def facts(store):
    seeds = by_recipe(store)
    known, then, change = zip(*turns(store), strict=True)
    return {"the norm hardly moves (11 % at most) around generalising": max(change) <= 0.11,
            "decay 1 generalises sooner than 0.25 with every run": all(
                general(runs)[-1] < general(runs)[0] for runs in seeds),
            "decay 1 has the lower L_val with every run": all(
                best(runs, L_VAL)[-1] < best(runs, L_VAL)[0] for runs in seeds),
            "A_val is above 0.99 from decay 1/2 on, and not with 1/4 in every run": all(
                min(best(runs, A_VAL)[1:]) > 0.99 for runs in seeds) and any(
                    best(runs, A_VAL)[0] < 0.9 for runs in seeds),
            "t_f(A_val) is sooner with decay 1 than with 1/4 with every run": all(
                runs[1.0].first(A_VAL) < runs[0.25].first(A_VAL) for runs in seeds),
            "t_f(L_val) with every run by default, and not by release": [
                all(runs[1.0].first(L_VAL) < runs[0.25].first(L_VAL)
                    for runs in by_recipe(store, [recipe])) for recipe in JUDGED["lstm"]] == [
                        True, False],
            "the norm falls before a run generalises": all(
                b < a for a, b in zip(known, then, strict=True))}
