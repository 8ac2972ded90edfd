"""The report's summary figure: how far each setting moves the validation loss, seed by seed."""

import math

import numpy as np

from experiments.reporting import compute_claims, data_size, decay_claims, model_size, sanity
from experiments.reporting.parts import Figure
from experiments.reporting.records import NAMES
from npdl_study.plots import style

L_VAL = "validation_loss"
COLOURS = {"lstm": style.BLUE, "gpt": style.VERMILION}


def change(store, before, after, until=(None, None)):
    """[log10 of L_val after over before] of the seeds that both settings have."""
    a, b = store.all_runs(before), store.all_runs(after)
    return [math.log10(b[seed].best(L_VAL, until[1]) / a[seed].best(L_VAL, until[0]))
            for seed in a if seed in b]


def means(store, pairs):
    """The same, averaged over pairs of settings, seed by seed where all pairs have as many."""
    found = [change(store, *pair) for pair in pairs]
    return [sum(row) / len(row) for row in zip(*found, strict=True)] if all(found) else []


def effects(store):
    """[(question, what is changed, {model: [decades of L_val of each seed]})]."""
    sizes, compute = model_size.CONFIGS, compute_claims.CONFIGS
    T = compute_claims.T

    def each(configs, of):
        every = [c for found in configs.values() for c in found.values()]
        view = store.chosen(every)
        return {model: of(view, found) for model, found in configs.items()}

    return [
        ("2", "the default recipe, ours over the document's", {
            model: [math.log10(run.best(L_VAL) / sanity.DOCUMENT[model][L_VAL][0])
                    for run in store.chosen([c], ("default",)).all_runs(c).values()]
            for model, c in sanity.CONFIGS.items()}),
        ("3", "r_train from 0.5 to 0.8", each(
            data_size.CONFIGS, lambda v, c: change(v, c[0.5], c[0.8]))),
        ("5", "width from 64 to 256, mean over L", each(sizes, lambda v, c: means(
            v, [(c[L, 64], c[L, 256]) for L in model_size.LAYERS]))),
        *(("5", f"layers from 1 to 3, d = {d}", each(
            sizes, lambda v, c, d=d: change(v, c[1, d], c[3, d]))) for d in model_size.WIDTHS),
        *(("6", f"batch from 32 to 512, {low:.0%} of the steps", each(
            compute, lambda v, c, low=low: change(v, c[32], c[512], (low * T, low * T))))
          for low in compute_claims.LOWS),
        ("6", "batch from 32 to 512, all steps", each(
            compute, lambda v, c: change(v, c[32], c[512]))),
        ("7", "weight decay from 0.25 to 1", each(
            {"lstm": decay_claims.CONFIGS}, lambda v, c: change(v, c[0.25], c[1.0]))),
    ]


def summary_figure(store):
    data = [{"label": f"{question}: {what}", "models": models}
            for question, what, models in effects(store)]
    return Figure("summary", "S", "What each setting does to the lowest validation loss, in "
                  "decades (-1: ten times lower), question by question. A mark is a seed; a bar "
                  "spans them. Left of the line the loss falls. The first row, set apart, changes "
                  "nothing: it has our runs of the default recipe over the document's printed "
                  "mean. Question 7 is of the LSTM alone.", data, draw, (10, 6.2))


def draw(figure, data):
    axes = figure.subplots()
    rows = [0.5, *-np.arange(1.0, len(data))]           # the first is no change: it stands apart
    for row, one in zip(rows, data, strict=True):
        for model, values in one["models"].items():
            y = row + (0.16 if model == "lstm" else -0.16)
            if values:
                axes.plot([min(values), max(values)], [y, y], color=COLOURS[model], linewidth=2.5,
                          alpha=0.4, solid_capstyle="round")
                axes.plot(values, [y] * len(values), "o", color=COLOURS[model], markersize=6,
                          label=NAMES[model] if row == rows[0] else None)
    axes.axvline(0, color=style.INK, linewidth=0.8)
    axes.axhline(-0.25, color=style.INK, linewidth=0.8, linestyle="--")
    axes.set_yticks(rows, [one["label"] for one in data])
    style.dress(axes, "change of log10 L_val", "", "")
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        axes.legend(handles, labels, frameon=False, loc="best")
