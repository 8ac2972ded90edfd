"""Question 5: layers and width.

Arrays have the axes (L, d, seeds). The assignment's captions call the width d a batch size, but the
batch size is always 512.
"""

import math

import numpy as np

from experiments.study import runs as stored
from experiments.study.figures import Figure, best_panels, curve_panels, make_grid
from experiments.study.runs import A_TRAIN, A_VAL, GENERAL, L_TRAIN, L_VAL, NAMES, count_parameters
from experiments.study.text import best_table, format_mean, format_table
from experiments.study.verdict import SAME_ACCURACY, SAME_FACTOR, fit_slope, rise_effects, spearman

TITLE = "Question 5: layers and width"
LAYERS, WIDTHS = (1, 2, 3), (64, 128, 256)
RUNS = {"layers": LAYERS, "width": WIDTHS}
FAST = 0.1                  # "fast", "quickly": within this fraction of all steps
SMOOTH = 0.1                # a loss is smooth up to this mean roughness (log10)


class Sizes:
    """The measures of one model that the claims compare, each (3, 3, n): layers, widths, seeds."""

    def __init__(self, model, runs):
        self.runs, self.last = runs, runs.step[-1]
        self.l_train, self.l_val = (np.log10(runs.best(m)) for m in (L_TRAIN, L_VAL))
        self.a_val, self.a_train = runs.best(A_VAL), runs.best(A_TRAIN)
        self.shortfall = runs.fall_below_best()
        self.general = runs.log10_generalisation_step()
        self.memorised = np.log10(np.minimum(runs.memorisation_step(), self.last))
        self.P = np.array([[count_parameters(model, L, d) for d in WIDTHS] for L in LAYERS]).ravel()
        self.by_size = np.argsort(self.P)

    def sort_by_size(self, values):
        """Return values (9, n) of the nine sizes, sorted by the number of parameters P."""
        return values.reshape(9, -1)[self.by_size]

    def size_correlation(self, values):
        """Return the rank correlation of values with P, for each seed."""
        return spearman(self.P[self.by_size], self.sort_by_size(values))

    def size_slope(self, values):
        """Return the least-squares slope of values over log10 P, for each seed."""
        return fit_slope(np.log10(self.P[self.by_size]), self.sort_by_size(values))

    def fast_memorisation_effects(self, layer_index):
        """Return an effect for each width: above 0 if it memorises within a tenth of the steps."""
        return list(math.log10(FAST * self.last) - self.memorised[layer_index])


def width_rise(values):
    """Return the increase of values from d = 64 to d = 256, averaged over L."""
    return (values[:, 2] - values[:, 0]).mean(0)


def depth_rise(values):
    """Return the increase of values from L = 1 to L = 3, averaged over d."""
    return (values[2] - values[0]).mean(0)


def compute_effects(study, lstm_recipe):
    """Return {claim in claims.csv: its effects} (see verdict.py), for one recipe of the LSTM."""
    lstm, gpt = (Sizes(model, runs) for model, runs in zip(
        NAMES, study.curves_of_both(lstm_recipe, **RUNS), strict=True))
    return {**depth_caption_effects(lstm, gpt), **lstm_caption_effects(lstm),
            **gpt_caption_effects(gpt), **shape_answer_effects(lstm, gpt),
            **parameter_answer_effects(lstm, gpt)}


def depth_caption_effects(lstm, gpt):
    """Return {claim: effects} for the captions of Figures 12 to 17."""
    trends = [values[:, 2] - values[:, 0] for values in (gpt.l_val, gpt.a_val, gpt.shortfall)]
    noise = lstm.shortfall.mean(1)
    return {
        "GPT, L = 1: it converges fastest for small d":
            list(gpt.general[0, 1:] - gpt.general[0, 0]),
        "GPT, L = 1: A_val is least steady for d = 256":
            list(gpt.shortfall[0, 2] - gpt.shortfall[0, :2]),
        "GPT, L = 2: steady for all d, with high accuracy":
            [*(SAME_ACCURACY - gpt.shortfall[1]), *(gpt.a_val[1] - GENERAL)],
        "GPT, L = 2: L_val falls smoothly": list(SMOOTH - gpt.runs.rise_above_best(L_VAL)[1]),
        "GPT, L = 3: width changes L_val, A_val and its steadiness as with L = 2":
            [np.sign(t[1] * t[2]) * np.sqrt(np.abs(t[1] * t[2])) for t in trends],
        "GPT, L = 3: A_val saturates for all d": list(gpt.a_val[2] - stored.MEMORISED),
        "LSTM, L = 1: the loss drops fast": lstm.fast_memorisation_effects(0),
        "LSTM, L = 1: A_val improves with d": rise_effects(lstm.a_val[0]),
        "LSTM, L = 2: it converges fast": lstm.fast_memorisation_effects(1),
        "LSTM: L_val is lower with two layers than with one, for all d":
            list(lstm.l_val[0] - lstm.l_val[1]),
        "LSTM: three layers are noisier than fewer": list(noise[2] - noise[:2]),
        "LSTM, L = 3: high accuracy for all d": list(lstm.a_val[2] - GENERAL),
    }


def lstm_caption_effects(lstm):
    """Return {claim: effects} for the captions of Figures 18 and 19."""
    first = np.log10(lstm.runs.best_step(A_VAL))
    speed = lstm.size_correlation(first)
    memory = lstm.size_correlation(lstm.runs.best_step(A_TRAIN))
    steadiness = lstm.shortfall.std(1)
    return {
        "LSTM: both losses fall with P":
            [-lstm.size_correlation(lstm.l_train), -lstm.size_correlation(lstm.l_val)],
        "LSTM: accuracy is high in all nine settings": list(lstm.a_val.reshape(9, -1) - GENERAL),
        "LSTM: larger ones reach their best A_val sooner": [-speed],
        "LSTM: size speeds up A_val more than A_train": [-speed, memory - speed],
        "LSTM: but not every larger one is sooner": rise_effects(lstm.sort_by_size(first)),
        "LSTM: deeper ones have lower loss and no less accuracy, for all d":
            [*(lstm.l_val[0] - lstm.l_val[2]), *(lstm.a_val[2] - lstm.a_val[0] + SAME_ACCURACY)],
        "LSTM: training gains from larger d": rise_effects(-lstm.memorised.mean(0)),
        "LSTM: how steady A_val is varies more for fewer layers": [steadiness[0] - steadiness[2]],
    }


def gpt_caption_effects(gpt):
    """Return {claim: effects} for the captions of Figures 20 and 21."""
    def std_over_sizes(values):
        return values.reshape(9, -1).std(0)

    return {
        "GPT: both losses fall with P":
            [-gpt.size_correlation(gpt.l_train), -gpt.size_correlation(gpt.l_val)],
        "GPT: larger ones reach their best A_val sooner":
            [-gpt.size_correlation(gpt.runs.best_step(A_VAL))],
        "GPT: A_val rises with P": [gpt.size_correlation(gpt.a_val)],
        "GPT: validation metrics vary more over the settings than training's":
            [std_over_sizes(gpt.a_val) - std_over_sizes(gpt.a_train),
             std_over_sizes(gpt.l_val) - std_over_sizes(gpt.l_train)],
        "GPT: both losses fall with L":
            [*rise_effects(-gpt.l_train.mean(1)), *rise_effects(-gpt.l_val.mean(1))],
        "GPT: accuracy is 100 % in all nine settings":
            list(gpt.a_val.reshape(9, -1) - stored.ALL_RIGHT),
        "GPT: training gains from larger d": rise_effects(-gpt.memorised.mean(0)),
    }


def shape_answer_effects(lstm, gpt):
    """Return {claim: effects} for answer 5 (c) on d and L."""
    doublings = [(np.diff(s.l_val, axis=1) < 0).sum((0, 1)) for s in (lstm, gpt)]
    return {
        "in A_val the GPT scales better with d": [width_rise(gpt.a_val) - width_rise(lstm.a_val)],
        "in L_val the GPT scales better with d": [width_rise(lstm.l_val) - width_rise(gpt.l_val)],
        "larger d makes the GPT's generalisation steadier": [-width_rise(gpt.shortfall)],
        "the LSTM improves less consistently with d": [doublings[1] - doublings[0]],
        "the LSTM becomes unsteady, or overfits, as d grows":
            [width_rise(lstm.shortfall), -width_rise(lstm.a_val)],
        "deeper GPTs have higher A_val": [depth_rise(gpt.a_val)],
        "deeper GPTs have lower L_val, for all d": list(gpt.l_val[0] - gpt.l_val[2]),
        "with depth the LSTM becomes less steady": [depth_rise(lstm.shortfall)],
        "with depth the LSTM's validation performance stays or worsens":
            [math.log10(SAME_FACTOR) + depth_rise(lstm.l_val),
             SAME_ACCURACY - depth_rise(lstm.a_val)],
        "in L_val the GPT scales better with L": [depth_rise(lstm.l_val) - depth_rise(gpt.l_val)],
        "in A_val the GPT scales better with L": [depth_rise(gpt.a_val) - depth_rise(lstm.a_val)],
    }


def parameter_answer_effects(lstm, gpt):
    """Return {claim: effects} for answer 5 (c) on P."""
    logs = lstm.sort_by_size(lstm.l_val)
    smallest = [1 + s.sort_by_size(s.l_val).argmin(0) for s in (lstm, gpt)]
    scatter = []
    for sizes in (lstm, gpt):
        log_P = np.log10(sizes.P[sizes.by_size])[:, None]
        scatter.append((sizes.sort_by_size(sizes.l_val)
                        - sizes.size_slope(sizes.l_val) * log_P).std(0))
    return {
        "in L_val the GPT's gains with P are the smoother ones":
            [lstm.size_correlation(lstm.l_val) - gpt.size_correlation(gpt.l_val)],
        "in A_val the GPT's gains with P are the smoother ones":
            [gpt.size_correlation(gpt.a_val) - lstm.size_correlation(lstm.a_val)],
        "LSTM: L_val falls from the three smallest P to the next three":
            [logs[:3].mean(0) - logs[3:6].mean(0)],
        "the LSTM saturates at a smaller P than the GPT": [smallest[1] - smallest[0]],
        "the LSTM's L_val depends more on how P is made of L and d": [scatter[0] - scatter[1]],
        "the GPT's L_val falls faster with P":
            [lstm.size_slope(lstm.l_val) - gpt.size_slope(gpt.l_val)],
    }


# --- figures, tables, answer ----------------------------------------------------------------------
def make_figures(study):
    found = []
    for model, name, first in (("gpt", "GPT", 12), ("lstm", "LSTM", 15)):
        runs = study.curves(model, **RUNS)
        panels = [panel for i, L in enumerate(LAYERS) for panel in curve_panels(
            dict(zip(WIDTHS, runs[i], strict=True)), prefix=f"L = {L}: ")]
        found.append(Figure(f"fig{first}-{first + 2}-size-{model}", f"{first} to {first + 2}",
                            f"{name}: loss and accuracy over the training steps. Each row has a "
                            "number of layers L, and each width d has a colour and a marker.",
                            make_grid(panels, 4, "d"), (16, 9)))
    for model, name, label in (("lstm", "LSTM", 18), ("gpt", "GPT", 20)):
        runs = study.curves(model, **RUNS)
        by_P = {f"L = {L}": ([count_parameters(model, L, d) for d in WIDTHS], runs[i])
                for i, L in enumerate(LAYERS)}
        by_L = {d: runs[:, j] for j, d in enumerate(WIDTHS)}
        what = f"{name}: best losses and accuracies, and their first steps t_f, against "
        found += [
            Figure(f"fig{label}-size-{model}-parameters", str(label), f"{what}the number of "
                   "parameters P without embeddings.",
                   make_grid(best_panels(None, by_P), 2, x="P (log)", scale="log"), (10, 10)),
            Figure(f"fig{label + 1}-size-{model}-layers", str(label + 1), f"{what}the number of "
                   "layers L. Each width d has a colour and a marker.",
                   make_grid(best_panels(LAYERS, by_L), 2, "d", "L", "whole"), (10, 10))]
    return found


def measure_gains(model, runs):
    """Return {growth in words: (factors of ten by which L_val falls, rise of A_val)}, each (n,)."""
    sizes = Sizes(model, runs)
    rows = {f"d from 64 to 256, L = {L}": [
        (values[i, 2] - values[i, 0]) for values in (-sizes.l_val, sizes.a_val)]
        for i, L in enumerate(LAYERS)}
    rows |= {f"L from 1 to 3, d = {d}": [
        (values[2, j] - values[0, j]) for values in (-sizes.l_val, sizes.a_val)]
        for j, d in enumerate(WIDTHS)}
    return rows | {"P by a factor of ten": [sizes.size_slope(values)
                                            for values in (-sizes.l_val, sizes.a_val)]}


def make_tables(study):
    columns = {(model, recipe): measure_gains(model, study.curves(model, recipe, **RUNS))
               for model, recipe in (("lstm", "default"), ("lstm", "release"), ("gpt", "default"))}
    rows = [(increase, name,
             *(format_mean(column[increase][i], form) for column in columns.values()))
            for increase in columns["gpt", "default"]
            for i, (name, form) in enumerate((("log10 fall of L_val", "{:+.2f}"),
                                              ("rise of A_val", "{:+.3f}")))]
    return [("The table shows what larger models gain: mean over seeds (90 % interval). If log10 "
             "of L_val falls by 1, L_val falls to a tenth.",
             format_table(("increase", "gain", *(f"{NAMES[m]}, {r}" for m, r in columns)),
                          rows, 2)),
            ("The table shows best values and first steps: mean ± standard deviation over seeds.",
             best_table(("model", "L", "d", "P"), [
                 ((NAMES[model], L, d, f"{count_parameters(model, L, d):,}"),
                  study.curves(model, layers=L, width=d))
                 for model in NAMES for L in LAYERS for d in WIDTHS]))]


def make_answer(study):
    lstm, gpt = (Sizes(model, runs) for model, runs in zip(
        NAMES, study.curves_of_both("default", **RUNS), strict=True))
    third = np.concatenate([(study.curves("lstm", recipe, **RUNS).best(L_VAL)[2]
                             > study.curves("lstm", recipe, **RUNS).best(L_VAL)[1]).ravel()
                            for recipe in ("default", "release")])
    rows = [(growth, *(format_mean(10 ** change(sizes), "{:.2g}", True) for sizes in (gpt, lstm)))
            for growth, change in (("from d = 64 to d = 256", lambda s: width_rise(s.l_val)),
                                   ("from one to three layers", lambda s: depth_rise(s.l_val)),
                                   ("with ten times the parameters",
                                    lambda s: s.size_slope(s.l_val)))]
    more = np.sum(gpt.size_slope(gpt.l_val) < lstm.size_slope(lstm.l_val))
    narrow = [f"{sizes.a_val[:, 0].mean():.2f}" for sizes in (gpt, lstm)]
    return f"""
**(c) How do both models scale with the width d, the number of layers L and the number of parameters
P?** On average, the GPT's L_val gains more than the LSTM's from every kind of growth. The GPT gains
more from parameters with {more} of {len(gpt.runs.seeds)} seeds. Depth does not help the LSTM
reliably: a third layer raises its L_val in {third.sum()} of {third.size} comparisons.

{format_table(("L_val is multiplied by", "GPT", "LSTM"), rows)}

In A_val the picture is less clear, because most models are near 1 and cannot gain. At d = 64 mean
A_val is {narrow[0]} for the GPT and {narrow[1]} for the LSTM, so the LSTM has more to gain from
width. The study covers nine sizes and one learning rate."""
