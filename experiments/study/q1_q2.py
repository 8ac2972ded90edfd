"""Questions 1 and 2: training with the default settings, and the assignment's printed numbers."""

import math

import numpy as np

from experiments.study.figures import Figure, loss_accuracy_panels, make_grid
from experiments.study.runs import A_TRAIN, A_VAL, GRID, L_TRAIN, L_VAL, LABELS, METRICS, NAMES
from experiments.study.text import format_mean, format_mean_std, format_metric, format_table
from experiments.study.verdict import SAME_FACTOR, log_ratio_effect

TITLE = "Questions 1 and 2: training with the default settings"
RUNS = {}
# The assignment's numbers: (mean, standard deviation) of its two runs.
DOCUMENT = {
    "lstm": {"L_train": (0.0001, 0.0), "L_val": (0.0008, 0.0004), "A_train": (1.0, 0.0),
             "A_val": (1.0, 0.0), "t_f(L_train)": (10001, 0), "t_f(L_val)": (10001, 0),
             "t_f(A_train)": (300, 0), "t_f(A_val)": (7850, 350), "Δt(L)": (0,),
             "Δt(A)": (7550,)},
    "gpt": {"L_train": (0.0001, 0.0), "L_val": (0.0035, 0.0031), "A_train": (1.0, 0.0),
            "A_val": (0.9979, 0.0021), "t_f(L_train)": (9750, 150), "t_f(L_val)": (9100, 500),
            "t_f(A_train)": (82.5, 5.5), "t_f(A_val)": (8400, 200), "Δt(L)": (-650,),
            "Δt(A)": (8318,)},
}
CLAIMS = ("The assignment prints these numbers, m ± s. A claim holds if our number lies between "
          "m - s and m + s, widened on both sides by a margin, which is 0.05 for an accuracy. The "
          "column *the claim holds by* shows the distance from our number to the nearer end of "
          "this range.")
ROUNDING = 0.00005          # of the printed losses and accuracies
MARGIN_ACCURACY = 0.05      # an accuracy agrees within one equation in twenty
MARGIN_LOSS = 2.0           # a loss agrees within this factor
COLUMNS = (("lstm", "default"), ("lstm", "release"), ("lstm", "stated"), ("gpt", "default"),
           ("gpt", "stated"))


def values_by_row(runs):
    """Return {row of the assignment's table: values (n seeds,)} of some runs."""
    rows = {LABELS[m]: runs.best(m) for m in METRICS}
    rows |= {f"t_f({LABELS[m]})": runs.best_step(m) for m in METRICS}
    return rows | {"Δt(L)": runs.best_step(L_VAL) - runs.best_step(L_TRAIN),
                   "Δt(A)": runs.best_step(A_VAL) - runs.best_step(A_TRAIN)}


def agreement_effects(row, printed, ours):
    """Return two effects: our numbers are not below, and not above, the assignment's range.

    The range is mean - std to mean + std, widened by a margin (an equivalence test).
    """
    mean, std = printed
    low, high = mean - std, mean + std
    if row.startswith("A"):
        margin = ROUNDING + MARGIN_ACCURACY
        return [ours - (low - margin), (high + margin) - ours]
    if row.startswith("L"):
        low, high = (low - ROUNDING) / MARGIN_LOSS, (high + ROUNDING) * MARGIN_LOSS
    else:                       # at least one and a half evaluations on either side
        step = 1.5 * (GRID if mean > GRID else 1)
        low, high = min(low / SAME_FACTOR, low - step), max(high * SAME_FACTOR, high + step)
    return [log_ratio_effect(low, ours), log_ratio_effect(ours, high)]


def compute_effects(study, lstm_recipe):
    """Return {claim: effects} for each number that the assignment prints."""
    recipes = {"lstm": lstm_recipe, "gpt": "default"}
    return {f"{NAMES[model]}: {row}": agreement_effects(row, value, values_by_row(
                study.curves(model, recipes[model]))[row])
            for model, printed in DOCUMENT.items() for row, value in printed.items()
            if not row.startswith("Δ")}


def make_figures(study):
    panels = [panel for model, name in NAMES.items()
              for panel in loss_accuracy_panels(study.curves(model), name)]
    return [Figure("fig01-02-default", "1 and 2", "Loss L and accuracy A of the LSTM and the GPT "
                   "over the training steps, on the training and the validation set.",
                   make_grid(panels, 2), (10, 7))]


def make_tables(study):
    heading, columns = [""], []
    best = {model: {row: values.mean()
                    for row, values in values_by_row(study.curves(model)).items()}
            for model in NAMES}
    for model, recipe in COLUMNS:
        runs = study.curves(model, recipe)
        heading.append(f"{NAMES[model]}, {recipe} ({len(runs.seeds)} seeds)")
        other = best["gpt" if model == "lstm" else "lstm"]
        column = []
        for row, values in values_by_row(runs).items():
            text, mine = format_mean_std(row, values), best[model][row]
            better = mine > other[row] if row.startswith("A") else mine < other[row]
            bold = recipe == "default" and not row.startswith("Δ") and better
            column.append(f"**{text}**" if bold else text)
        columns.append(column)
        if recipe == "stated":
            heading.append(f"{NAMES[model]}, assignment")
            columns.append([" ± ".join(format_metric(row, v) if not row.startswith("L")
                                       else f"{v:.4f}"
                                       for v in value) for row, value in DOCUMENT[model].items()])
    return [("The table shows mean ± standard deviation over seeds. The better model with the "
             "default recipe is bold.",
             format_table(heading, zip(values_by_row(study.curves("gpt")), *columns, strict=True)))]


def make_answer(study):
    lstm, gpt = study.curves("lstm"), study.curves("gpt")
    release, stated = study.curves("lstm", "release"), study.curves("gpt", "stated")
    rows = [(name, format_mean(runs.memorisation_step(), "{:.0f}"),
             format_mean(runs.generalisation_step(), "{:.0f}"),
             format_mean(runs.best(L_VAL), logarithmic=True))
            for name, runs in (("GPT", gpt), ("LSTM", lstm))]
    heading = ("model", "step of memorisation", "step of generalisation", "geometric mean of L_val")
    return f"""
**How well do both models learn, and when do they memorise and generalise?** With all
{len(gpt.seeds)} seeds, both models first memorise the training set, and generalise thousands of
steps later. The GPT memorises much earlier than the LSTM.

{format_table(heading, rows)}

**With which recipe were the printed numbers made?** The assignment's GPT was probably trained with
clipping: without it (*stated*), the GPT's lowest L_train is about
{math.floor(np.mean(stated.best(L_TRAIN)) / 1e-4 + 0.5):.0f} times the printed value. The evidence
on the LSTM's initialisation is mixed. On one side, t_f(A_train) is 300 steps in the assignment and
in {np.sum(release.best_step(A_TRAIN) == 300)} of {len(release.seeds)} runs with Glorot gates
(*release*), but in {np.sum(lstm.best_step(A_TRAIN) == 300)} of {len(lstm.seeds)} runs with the
default recipe. On the other side, L_val is nearer to the printed value with the default recipe."""
