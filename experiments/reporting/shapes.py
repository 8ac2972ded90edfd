"""The data of the report's pictures, and the tables that are alike in several questions."""

from experiments import study
from experiments.reporting.draw import WINDOW, draw_panels
from experiments.reporting.parts import Figure, Table
from experiments.reporting.records import NAMES, missing_words
from npdl.training.metrics import METRICS

LABELS = {"train_loss": "L_train", "validation_loss": "L_val",
          "train_accuracy": "A_train", "validation_accuracy": "A_val", "l2_norm": "‖θ‖₂"}
TITLES = {"train_loss": "training loss", "validation_loss": "validation loss",
          "train_accuracy": "training accuracy", "validation_accuracy": "validation accuracy",
          "l2_norm": "l2 norm of all parameters"}
STEP = "training step t (root scale)"
EMPTY = {"title": "", "y": "", "scale": "none", "lines": []}        # a panel that is left out


def steps_axis(last):
    """The x axis of curves over the steps 1 to `last`."""
    return {"label": STEP, "scale": "steps", "values": [0, last]}


def scale_of(metric):
    if "accuracy" in metric:
        return "accuracy"
    return "log" if "loss" in metric else "linear"


def title_of(metric):
    """The title of a panel; of a metric of one order too."""
    name, _, order = metric.partition("_order")
    return TITLES[name] + {"": "", "2": ", binary", "3": ", ternary"}[order]


def y_of(metric):
    scale = " (log scale)" if "loss" in metric else (
        " (widened near 1)" if "accuracy" in metric else "")
    return LABELS[metric.partition("_order")[0]] + scale


def step_scale(metric):
    """The scale of first steps: those of A_train span a factor of a hundred."""
    return "log" if metric == "train_accuracy" else "linear"


def step_y(metric):
    return "training step" + (" (log scale)" if step_scale(metric) == "log" else "")


def curves(store, configs, metric):
    """The lines of a panel of curves: those of the seeds over steps, for {value: Config}."""
    return [{"value": value, **store.curve(config, metric)} for value, config in configs.items()]


def family(store, configs, bar, metrics=METRICS, shape=(2, 2), models=None):
    """Data of a figure of curves over steps, one colour for each value of a setting.

    configs   {value: Config}, or {model: {value: Config}} with `models`, one column for each
    """
    if models is None:
        panels = [(configs, metric, title_of(metric)) for metric in metrics]
    else:
        panels = [(configs[model], metric, f"{NAMES[model]}: {title_of(metric)}")
                  for metric in metrics for model in models]
    values = list(configs if models is None else configs[models[0]])
    last = next(iter((configs if models is None else configs[models[0]]).values())).steps
    return {"shape": list(shape), "x": steps_axis(last),
            "bar": {"label": bar, "values": values},
            "panels": [{"title": title, "y": y_of(metric), "scale": scale_of(metric),
                        "lines": curves(store, chosen, metric)}
                       for chosen, metric, title in panels]}


def summary_line(store, configs, metric, first, until=None):
    """{x, seeds} of the best value, or of the step that first reached it, for {x: Config}: the
    seeds that every one of the settings has."""
    found = {x: store.runs(config) for x, config in configs.items() if store.runs(config)}
    common = [seed for seed in study.SEEDS if all(seed in runs for runs in found.values())]
    return {"x": list(found) if common else [], "seeds": [
        [runs[seed].first(metric, until) if first else runs[seed].best(metric, until)
         for runs in found.values()] for seed in common]}


def eight(store, lines, x, bar=None, shape=(2, 4)):
    """Data of the eight panels: the four best values and the four steps, against a setting.

    lines   [(label or value, {x: Config})]; x is {label, scale}
    """
    x = {**x, "values": sorted({value for _, configs in lines for value in configs})}
    key = "value" if bar else "label"
    panels = []
    for first in (False, True):
        for metric in METRICS:
            panels.append({
                "title": f"t_f({LABELS[metric]})" if first else LABELS[metric],
                "y": step_y(metric) if first else y_of(metric),
                "scale": step_scale(metric) if first else scale_of(metric),
                "lines": [{key: name, **summary_line(store, configs, metric, first)}
                          for name, configs in lines],
            })
    bar = {"label": bar, "values": [name for name, _ in lines]} if bar else None
    return {"shape": list(shape), "x": x, "bar": bar, "panels": panels}


def figure(store, label, name, caption, data, configs, called, size):
    """A Figure whose caption also names the runs that are missing."""
    seeds = sorted({seed for config in configs for seed in store.runs(config)})
    data = {**data, "panels": [noted(panel) if all_ones(panel) else panel
                               for panel in data["panels"]]}
    words = [caption, seeds_words(seeds, data["x"]["scale"] == "steps"),
             missing_words(store, configs, called)]
    return Figure(name, label, " ".join(filter(None, words)), data, draw_panels, size)


def all_ones(panel):
    """Whether a panel shows nothing but accuracies of 1."""
    values = {value for line in panel["lines"] for of in line["seeds"] for value in of}
    return panel["scale"] == "accuracy" and values == {1}


def noted(panel):
    """What stands in the place of a panel of nothing but ones."""
    return {**EMPTY, "note": f"{panel['title']} = 1 everywhere"}


def seeds_words(seeds, curves):
    """How the lines of a figure tell its seeds apart, and what those of curves are."""
    if not seeds:
        return ""
    words = f"Seed {seeds[0]}."
    if len(seeds) > 1:
        words = (f"Seeds {', '.join(map(str, seeds))}: lines full and dashed"
                 + ("." if curves else ", marks filled and hollow."))
    return words + (f" Strong: the median of {WINDOW} evaluations around a step; faint: each "
                    "evaluation." if curves else "")


# --- numbers as text ----------------------------------------------------------------------------
def number(metric, value):
    """A loss to two digits, an accuracy to four decimals, a step as it is."""
    if metric.startswith("t_f"):
        return f"{value:.1f}".removesuffix(".0")
    return f"{value:.4f}" if "accuracy" in metric else f"{value:.2g}"


def plus_minus(metric, spread):
    """mean ± deviation, or "not run"; with one run, the value alone."""
    if not spread.values:
        return "not run"
    if len(spread.values) == 1:
        return f"{number(metric, spread.mean)} (1 run)"
    return f"{number(metric, spread.mean)} ± {number(metric, spread.std)}"


def best_table(store, caption, words, rows, metrics=METRICS):
    """Rows [(a cell for each of `words`, Config)]: best values and first steps; the best of a
    column is bold."""
    columns = [(metric, first) for first in (False, True) for metric in metrics]
    spreads = [[store.spread(row[-1], lambda run, m=metric, f=first: run.first(m) if f
                             else run.best(m)) for metric, first in columns] for row in rows]
    cells = [list(row[:-1]) for row in rows]
    for i, (metric, first) in enumerate(columns):
        means = [found[i].mean for found in spreads if found[i].values]
        better = min if first or "loss" in metric else max
        best = better(means) if len(set(means)) > 1 else None
        for row, found in zip(cells, spreads, strict=True):
            text = plus_minus(f"t_f_{metric}" if first else metric, found[i])
            row.append(f"**{text}**" if best is not None and found[i].mean == best else text)
    heading = [*words, *(f"t_f({LABELS[m]})" if first else LABELS[m] for m, first in columns)]
    return Table(caption, heading, cells, left=len(words))

