"""Question 6: batch sizes, and fractions of a training. The claims on it are in q6_claims."""

import math
import statistics

from experiments.study.measures import A_VAL, L_VAL, middle, span
from experiments.study.pages import Table
from experiments.study.panels import (
    LABELS,
    family,
    figure,
    panel,
    plus_minus,
    steps_panel,
    summary_line,
)
from experiments.study.records import BASE, GRID, NAMES, SEEDS, parameters, variant
from npdl_train.runs.metrics import METRICS

BATCHES = (32, 64, 128, 256, 512)
ALPHAS = tuple(round(0.1 * i, 1) for i in range(1, 11))
T = 20001
CONFIGS = {m: {B: variant(m, batch=B, steps=T) for B in BATCHES} for m in NAMES}
RUNS = [variant(m, batch=B, steps=T, seed=seed) for seed in SEEDS for B in BATCHES for m in NAMES]
TRAINED = int(BASE.r_train * BASE.p**2)     # equations in the training set
LAST = 10                   # evaluations before a moment, whose median stands for it


def until(alpha):
    """alpha T, at the nearest evaluation."""
    return GRID * round(alpha * T / GRID) + (alpha == 1)


def after(run, metric, alpha):
    """Where a run stands after alpha T steps: a best value over more steps cannot get worse."""
    return statistics.median([v for t, v in run.points(metric) if t <= until(alpha)][-LAST:])


# --- figures, tables, numbers ---------------------------------------------------------------------
BAR = "batch size B (log2 scale)"
# metric, t_f: the document's Figures 24 to 31, two to a row; its caption of 27 repeats that of 26,
# and that of 32 the one of 31
FRACTIONS = (("train_accuracy", True), ("train_loss", True),
             ("validation_loss", True), ("validation_accuracy", True),
             ("train_accuracy", False), ("train_loss", False),
             ("validation_accuracy", False), ("validation_loss", False))
SPOKEN = (("lstm", "default"), ("lstm", "release"), ("gpt", "default"))


def figures(store):
    columns = {NAMES[m]: found for m, found in CONFIGS.items()}
    made = [figure(f"fig{label}-compute-{part}", label, f"{name} loss and accuracy over the "
                   "training steps for batch sizes from 32 to 512, by colour and mark.",
                   family(store, columns, BAR, (f"{part}_loss", f"{part}_accuracy")), (10, 6.2))
            for label, part, name in (("22", "train", "Training"),
                                      ("23", "validation", "Validation"))]
    return [*made, fractions(store), budget(store)]


def fractions(store):
    """Figures 24 to 31 on one page: a row for each metric, the LSTM beside the GPT."""
    panels = []
    for label, (metric, first) in enumerate(FRACTIONS, 24):
        for model, configs in CONFIGS.items():
            lines = [{"value": alpha, **summary_line(store, configs, metric, first, alpha * T)}
                     for alpha in ALPHAS]
            one = steps_panel(metric, lines) if first else panel(LABELS[metric], metric, lines)
            panels.append({**one, "title": f"{label} {NAMES[model]}: {one['title']}",
                           "scale": "linear" if first else one["scale"], "y": one["y"]})
    data = {"shape": [8, 2], "x": {"label": BAR, "scale": "log2", "values": list(BATCHES)},
            "bar": {"label": "fraction α of the steps", "values": list(ALPHAS)}, "panels": panels}
    return figure("fig24-31-compute-fractions", "24 to 31", "Against the batch size, each of the "
                  "ten α by colour and mark: the first steps that reach the best values within the "
                  "first α T steps (24 to 27), and those values (28 to 31).", data, (10, 18))


def budget(store):
    """L_val and A_val against C = P B alpha T, a line for each batch size."""
    panels = []
    for metric in (L_VAL, A_VAL):
        for model, configs in CONFIGS.items():
            lines = [{"value": B, "x": [parameters(config) * B * a * T for a in ALPHAS],
                      "seeds": [[run.best(metric, a * T) for a in ALPHAS]
                                for run in store.runs(config).values()]}
                     for B, config in configs.items()]
            panels.append(panel(NAMES[model], metric, lines))
    ends = [parameters(CONFIGS[m][B]) * B * a * T for m in CONFIGS
            for B, a in ((BATCHES[0], ALPHAS[0]), (BATCHES[-1], ALPHAS[-1]))]
    data = {"shape": [2, 2], "x": {"label": "compute C = P B α T (log scale)", "scale": "log",
                                   "values": [min(ends), max(ends)]},
            "bar": {"label": BAR, "values": list(BATCHES)}, "panels": panels}
    return figure("fig32-compute-budget", "32", "L_val and A_val against the compute, the batch "
                  "size by colour and mark, each of the ten fractions α marked.", data, (10, 6.2))


def table(store):
    """Best validation values within the first α T steps."""
    shown, rows = (0.1, 0.5, 1.0), []
    for model, configs in CONFIGS.items():
        for B, config in configs.items():
            runs = store.runs(config).values()
            rows.append([NAMES[model], str(B), *(
                plus_minus(m, [run.best(m, a * T) for run in runs])
                for m in METRICS[1::2] for a in shown)])
    return Table(("model", "B", *(f"{LABELS[m]}, α = {a:g}" for m in METRICS[1::2]
                                  for a in shown)), rows, left=2)


ENDS = ((L_VAL, 0.1), (L_VAL, 0.3), (L_VAL, 1.0), (A_VAL, 0.1), (A_VAL, 0.3))


def ends_table(store):
    """The smallest and the largest batch, after few steps and after all: the answer to 6 (c)."""
    rows = []
    for model, recipe in SPOKEN:
        for B in (BATCHES[0], BATCHES[-1]):
            runs = store.runs(CONFIGS[model][B], recipe).values()
            rows.append((NAMES[model], recipe, str(B), *(
                middle((run.best(m, a * T) for run in runs), "{:.2g}" if m == L_VAL else "{:.3f}")
                for m, a in ENDS)))
    return Table(("model", "recipe", "B", *(f"{LABELS[m]}, α = {a:g}" for m, a in ENDS)), rows,
                 left=2)


def changes(store, alpha):
    """{(model, recipe): [log10 of L_val with B = 512 over that with 32, after alpha T steps]}."""
    made = {}
    for model, recipe in SPOKEN:
        few, many = (store.runs(CONFIGS[model][B], recipe) for B in (BATCHES[0], BATCHES[-1]))
        made[model, recipe] = [math.log10(many[seed].best(L_VAL, alpha * T)
                                          / few[seed].best(L_VAL, alpha * T)) for seed in few]
    return made


def gains(store):
    """By what factor L_val, as the median of the last evaluations, falls from a tenth of the steps
    to all of them: of every run."""
    return [after(run, L_VAL, 0.1) / after(run, L_VAL, 1.0) for model, recipe in SPOKEN
            for config in CONFIGS[model].values() for run in store.runs(config, recipe).values()]


def values(store):
    few = {model: [run.best(A_VAL, T / 10) for recipe in ("default", "release")
                   for run in store.runs(CONFIGS[model][512], recipe).values()]
           for model in CONFIGS}
    few_changes = [change > 0 for found in changes(store, 0.1).values() for change in found]
    whole = [run.best(A_VAL) for model, recipe in SPOKEN
             for run in store.runs(CONFIGS[model][32], recipe).values()]
    least = min(run.best(A_VAL) for model, recipe in SPOKEN
                for config in CONFIGS[model].values()
                for run in store.runs(config, recipe).values())
    return {"6 table": ends_table(store),
            "6 gains": span((float(f"{gain:.2g}") for gain in gains(store)), "{:,.0f}"),
            "6 least": f"{least:.3f}", "6 higher": f"{sum(few_changes)} of {len(few_changes)}",
            "6 times": str(TRAINED // BATCHES[0]),
            **{f"6 {m} few": span(few[m], "{:.2f}") for m in few},
            "6 whole": span(whole, "{:.2f}")}


def facts(store):
    whole = changes(store, 1.0)
    return {"more steps help at every batch size": min(gains(store)) > 1,
            "after a tenth of the steps the larger batch lowers L_val by a tenth at most": all(
                10 ** min(found) >= 0.9 for found in changes(store, 0.1).values()),
            "after all of them the lower one for the GPT and the default LSTM": max(
                max(whole["gpt", "default"]), max(whole["lstm", "default"])) < 0,
            "and by seed the higher or the lower one for the release LSTM": len(
                {change > 0 for change in whole["lstm", "release"]}) == 2}
