"""The data of the study's pictures, and the tables that are alike in several questions."""

import re

from experiments.study.figures import Figure, draw_panels
from experiments.study.measures import deviation, mean
from experiments.study.pages import Table
from npdl_train.runs.metrics import METRICS

LABELS = {"train_loss": "L_train", "validation_loss": "L_val",
          "train_accuracy": "A_train", "validation_accuracy": "A_val", "l2_norm": "‖θ‖₂"}
TITLES = {"train_loss": "training loss", "validation_loss": "validation loss",
          "train_accuracy": "training accuracy", "validation_accuracy": "validation accuracy",
          "l2_norm": "l2 norm of all parameters"}
SCALES = {"loss": "log", "accuracy": "accuracy", "norm": "linear"}
SHOWN = {"loss": " (log scale)", "accuracy": " (widened near 1)", "norm": ""}
EMPTY = {"title": "", "y": "", "scale": "none", "lines": []}        # a panel that is left out


def kind(metric):
    """"loss", "accuracy" or "norm", of a metric of one order too."""
    return metric.partition("_order")[0].rpartition("_")[2]


def panel(title, metric, lines):
    return {"title": title, "y": LABELS[metric.partition("_order")[0]] + SHOWN[kind(metric)],
            "scale": SCALES[kind(metric)], "lines": lines}


def curve(store, config, metric):
    """{x, seeds}: the steps that every run of a setting has evaluated, and its seeds' values."""
    runs = [dict(run.points(metric)) for run in store.runs(config).values()]
    steps = [step for step in (runs[0] if runs else ()) if all(step in run for run in runs)]
    return {"x": steps, "seeds": [[run[step] for step in steps] for run in runs]}


def steps_axis(last):
    return {"label": "training step t (root scale)", "scale": "steps", "values": [0, last]}


def both_parts(store, config, suffix=""):
    """Data of a loss and an accuracy panel, training beside validation, of one setting."""
    panels = []
    for what in ("loss", "accuracy"):
        lines = [{"label": name, **curve(store, config, f"{part}_{what}{suffix}")}
                 for part, name in (("train", "training"), ("validation", "validation"))]
        one = panel(what, f"train_{what}", lines)
        panels.append({**one, "y": one["y"].replace("_train", "")})
    return {"shape": [1, 2], "x": steps_axis(config.steps), "bar": None, "panels": panels}


def family(store, columns, bar, metrics=METRICS, shape=(2, 2)):
    """Data of a figure of curves over steps, one colour for each value of a setting.

    columns   {name of a column of panels, "" for none: {value: Config}}
    """
    configs = next(iter(columns.values()))
    panels = [panel(f"{name}: {TITLES[metric]}" if name else TITLES[metric], metric,
                    [{"value": value, **curve(store, config, metric)}
                     for value, config in found.items()])
              for metric in metrics for name, found in columns.items()]
    return {"shape": list(shape), "x": steps_axis(next(iter(configs.values())).steps),
            "bar": {"label": bar, "values": list(configs)}, "panels": panels}


def summary_line(store, configs, metric, first, until=None):
    """{x, seeds} of the best value, or of the step that first reached it, for {x: Config}: the
    seeds that every one of the settings has."""
    found = {x: store.runs(config) for x, config in configs.items()}
    common = [seed for seed in next(iter(found.values()))
              if all(seed in runs for runs in found.values())]
    return {"x": list(found) if common else [], "seeds": [
        [runs[seed].first(metric, until) if first else runs[seed].best(metric, until)
         for runs in found.values()] for seed in common]}


def eight(store, lines, x, bar=None):
    """Data of the eight panels against a setting: each best value, and beside it its step.

    lines   [(label or value, {x: Config})]; x is {label, scale}
    """
    x = {**x, "values": sorted({value for _, configs in lines for value in configs})}
    panels = []
    for metric in METRICS:
        for first in (False, True):
            found = [{"value" if bar else "label": name,
                      **summary_line(store, configs, metric, first)} for name, configs in lines]
            panels.append(steps_panel(metric, found) if first else
                          panel(LABELS[metric], metric, found))
    bar = {"label": bar, "values": [name for name, _ in lines]} if bar else None
    return {"shape": [4, 2], "x": x, "bar": bar, "panels": panels}


def steps_panel(metric, lines):
    """The panel of first steps; those of A_train span a factor of a hundred."""
    scale = "log" if metric == "train_accuracy" else "linear"
    return {"title": f"t_f({LABELS[metric]})", "y": "training step", "scale": scale,
            "lines": lines}


MEANT = {"L_": "L: a loss.", "A_": "A: an accuracy, on a scale widened near 1.",
         "t_f": "t_f: the first step that reached the best value.",
         "‖θ‖₂": "‖θ‖₂: the l2 norm of all parameters.",
         "P": "P: the parameters without embeddings.", "B": "B: the batch size.",
         "C =": "C: the training compute.", "α": "α: the fraction of all steps T."}


def meant(data):
    """What the symbols of a figure's labels mean, and its lines, as its caption says it."""
    said = " ".join([data["x"]["label"], data["bar"]["label"] if data["bar"] else "", *(
        f"{one['title']} {one['y']}" for one in data["panels"])])
    found = [words for symbol, words in MEANT.items() if re.search(rf"(?<![\w‖]){symbol}", said)]
    seeds = max(len(line["seeds"]) for one in data["panels"] for line in one["lines"])
    return " ".join([*found, f"Line and band: mean and deviation of {seeds} seeds."])


def figure(name, label, caption, data, size):
    """A Figure of panels, its caption with what its symbols mean; a panel of nothing but ones says
    so."""
    caption = f"{caption} {meant(data)}".strip()
    for i, one in enumerate(data["panels"]):
        values = {value for line in one["lines"] for of in line["seeds"] for value in of}
        if one["scale"] == "accuracy" and values == {1}:
            data["panels"][i] = {**EMPTY, "note": f"{one['title']} = 1 everywhere"}
    return Figure(name, label, caption, data, draw_panels, size)


# --- numbers as text ------------------------------------------------------------------------------
def number(metric, value):
    """A loss to two digits, an accuracy to four decimals, a step as it is."""
    if metric.startswith("t_f"):
        return f"{value:.1f}".removesuffix(".0")
    return f"{value:.4f}" if "accuracy" in metric else f"{value:.2g}"


def plus_minus(metric, values):
    """mean ± population deviation, or "not run"; with one run, the value alone."""
    values = list(values)
    if len(values) < 2:
        return f"{number(metric, values[0])} (1 run)" if values else "not run"
    return f"{number(metric, mean(values))} ± {number(metric, deviation(values))}"


def best_table(store, words, rows):
    """The best values and first steps of settings; the best of a column is bold.

    rows   [(a cell for each of `words`, Config)]
    """
    columns = [(metric, first) for first in (False, True) for metric in METRICS]
    cells = [list(row[:-1]) for row in rows]
    for metric, first in columns:
        found = [[run.first(metric) if first else run.best(metric)
                  for run in store.runs(row[-1]).values()] for row in rows]
        means = [mean(values) for values in found if values]
        better = min if first or "loss" in metric else max
        best = better(means) if len(set(means)) > 1 else None
        for row, values in zip(cells, found, strict=True):
            text = plus_minus(f"t_f_{metric}" if first else metric, values)
            row.append(f"**{text}**" if values and mean(values) == best else text)
    heading = [*words, *(f"t_f({LABELS[m]})" if first else LABELS[m] for m, first in columns)]
    return Table(heading, cells, left=len(words))
