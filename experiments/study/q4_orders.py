"""Question 4: sums of two and of three numbers modulo 11, learned together."""

import math

import numpy as np

from experiments.study.figures import TITLES, Figure, loss_accuracy_panels, make_grid, metric_panel
from experiments.study.runs import A_TRAIN, A_VAL, GENERAL, LABELS, MEMORISED, METRICS, NAMES
from experiments.study.text import format_mean_std, format_median, format_table
from experiments.study.verdict import SAME_FACTOR, log_ratio_effect, margin_effects

TITLE = "Question 4: sums of two and of three numbers"
RUNS, SEEDS = {"p": 11, "orders": "2 3"}, (0, 42, 1, 2, 3, 4, 5, 6, 7, 8)
ORDERS = {2: "binary", 3: "ternary"}
WHICH = {"": "all equations", "_order2": "binary equations", "_order3": "ternary equations"}
LIMITS = {A_TRAIN: MEMORISED, A_VAL: GENERAL}


def first_steps_by_order(runs, metric):
    """Return the first steps at which a metric reaches its value in LIMITS: (2 orders, n)."""
    return np.stack([runs.first_step_at(f"{metric}_order{order}", LIMITS[metric])
                     for order in ORDERS])


def compute_effects(study, lstm_recipe):
    """Return {claim in claims.csv: its effects} (see verdict.py), for one recipe of the LSTM."""
    lstm, gpt = study.curves_of_both(lstm_recipe, **RUNS)

    def binary_lead(runs, metric):
        return log_ratio_effect(*np.minimum(first_steps_by_order(runs, metric), runs.step[-1]))

    binary, ternary = (gpt.fall_below_best(f"{A_VAL}_order{order}") for order in ORDERS)
    alike = [part for metric in LIMITS
             for part in margin_effects(binary_lead(lstm, metric), math.log10(SAME_FACTOR))]
    return {
        "the GPT memorises binary equations sooner than ternary ones":
            [binary_lead(gpt, A_TRAIN)],
        "the GPT generalises on binary equations sooner than on ternary ones":
            [binary_lead(gpt, A_VAL)],
        "the GPT's A_val is steadier on binary equations": [ternary - binary],
        "the LSTM's learning is less steady than the GPT's":
            [lstm.fall_below_best() - gpt.fall_below_best()],
        "the LSTM has no clear preference for either order": alike,
    }


def make_figures(study):
    panels, split = [], []
    for suffix, which in WHICH.items():
        for model, name in NAMES.items():
            panels += loss_accuracy_panels(study.curves(model, **RUNS), f"{name}, {which}", suffix)
    for metric in (A_TRAIN, A_VAL):
        for model, name in NAMES.items():
            runs = study.curves(model, **RUNS)
            split.append(metric_panel(f"{name}: {TITLES[metric]}", metric, [
                (words, runs.step, runs.values[f"{metric}_order{order}"])
                for order, words in ORDERS.items()]))
    return [Figure("fig06-11-mixed", "6 to 11", "p = 11: loss L and accuracy A over the training "
                   "steps, on all equations (Figures 6, 7), on binary ones (8, 10) and on ternary "
                   "ones (9, 11).", make_grid(panels, 4), (15, 9)),
            Figure("mixed-orders", "Q4", "Accuracy on binary and on ternary equations, p = 11.",
                   make_grid(split, 2), (10, 6.2))]


def make_tables(study):
    rows = [(NAMES[model], which, *(format_mean_std(metric, study.curves(model, **RUNS).best(
        metric + suffix)) for metric in METRICS)) for model in NAMES
        for suffix, which in WHICH.items()]
    steps = []
    for model, recipe in (("gpt", "default"), ("lstm", "default"), ("lstm", "release")):
        runs = study.curves(model, recipe, **RUNS)
        cells = [format_median(steps, "{:.0f}") for m in LIMITS
                 for steps in first_steps_by_order(runs, m)]
        steps.append((NAMES[model], recipe, *cells, ternary_first_count(runs)))
    heading = [f"{name}, {LABELS[metric]} ≥ {limit:g}" for metric, limit in LIMITS.items()
               for name in ORDERS.values()]
    return [("The table shows best values: mean ± standard deviation over seeds.",
             format_table(("model", "equations", *(LABELS[m] for m in METRICS)), rows, 2)),
            ("The table shows the first step with this accuracy: median (least to largest) over "
             "seeds. The last column counts the runs in which A_val ≥ 0.9 comes first on ternary "
             "equations.", format_table(("model", "recipe", *heading, "ternary first"), steps, 2))]


def ternary_first_count(runs):
    binary, ternary = first_steps_by_order(runs, A_VAL)
    return f"{np.sum(ternary < binary)} of {len(binary)}"


def lowest_accuracy_once_general(runs):
    """Return the lowest A_val on binary or ternary equations after it has reached 0.9 on them."""
    lowest = []
    for order, steps in zip(ORDERS, first_steps_by_order(runs, A_VAL), strict=True):
        values = runs.values[f"{A_VAL}_order{order}"]
        lowest += [one[runs.step >= step].min() for one, step in zip(values, steps, strict=True)
                   if np.isfinite(step)]
    return min(lowest)


def make_answer(study):
    gpt, lstm = study.curves("gpt", **RUNS), study.curves("lstm", **RUNS)
    held_out = round(11**2 * 0.5)
    return f"""
**(c) Do the models learn the sums of two numbers (binary equations) or of three numbers (ternary
equations) sooner?** In {ternary_first_count(gpt)} runs, the GPT generalises on ternary equations
first. For the LSTM the order differs between seeds: ternary equations come first in
{ternary_first_count(lstm)} runs, and in
{ternary_first_count(study.curves("lstm", "release", **RUNS))} with Glorot gates. Both models
memorise binary and ternary equations at about the same time. The GPT memorises the binary ones at
most one evaluation (100 steps) sooner. The GPT's A_val is unsteady: after it has reached 0.9 on
binary or on ternary equations, it falls to {lowest_accuracy_once_general(gpt):.2f} at the lowest.

The assignment says that the GPT learns binary equations faster and more stably than ternary ones,
and more stably than the LSTM; these runs show the opposite. The experiment cannot separate the
number of operands from the amount of data: there are eleven ternary equations for each binary one,
and the validation set has only {held_out} binary equations."""
