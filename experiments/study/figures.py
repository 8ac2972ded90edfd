"""The figures of the report: grids of panels with lines, which are means over seeds."""

import dataclasses
import io
from collections.abc import Callable

import numpy as np
from matplotlib import colormaps
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullFormatter, NullLocator
from PIL import Image

from experiments.study.runs import LABELS, METRICS
from npdl.files import write_atomically
from npdl.train import style

DPI = 80
COLOURS = 64                # of a PNG's palette; more make larger files
MANY = 20                   # a line with so many points is drawn as a smoothed curve
WINDOW = 11                 # evaluations of the running median of such a curve
MARKS = 5                   # markers along a curve
TICKS = (0, 0.5, 0.9, 0.99, 1)                                      # of accuracies
STEPS = (0, 100, 500, 1000, 2500, 5000, 10_000, 20_000, 40_000)     # of training steps
STEPS_LABEL = "training step t (square root scale)"
TITLES = {"train_loss": "training loss", "validation_loss": "validation loss",
          "train_accuracy": "training accuracy", "validation_accuracy": "validation accuracy",
          "l2_norm": "l2 norm of all parameters"}


@dataclasses.dataclass(frozen=True)
class Figure:
    """A picture, results/figures/<name>.png. `draw(canvas)` draws it into a matplotlib Figure."""

    name: str
    label: str
    caption: str
    draw: Callable
    size: tuple[float, float]

    def write(self, folder):
        canvas = style.make_figure(*self.size, "")
        self.draw(canvas)
        full, small = io.BytesIO(), io.BytesIO()
        canvas.savefig(full, format="png", dpi=DPI)
        Image.open(full).convert("RGB").quantize(
            COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
            small, format="png", optimize=True)
        write_atomically(folder / f"{self.name}.png", lambda file: file.write(small.getvalue()))


@dataclasses.dataclass(frozen=True)
class Panel:
    """One pair of axes.

    scale   scale of the y axis: "log", "accuracy" (wider near 1) or "linear"
    lines   (name, x (k,), values (n seeds, k)) of each line
    """

    title: str
    y: str
    scale: str
    lines: list


def metric_panel(title, metric, lines):
    """Return a Panel with the label and scale of a metric."""
    kind = metric.removesuffix("_order2").removesuffix("_order3")
    if "loss" in kind:
        return Panel(title, f"{LABELS[kind]} (log scale)", "log", lines)
    if "accuracy" in kind:
        return Panel(title, f"{LABELS[kind]} (wider near 1)", "accuracy", lines)
    return Panel(title, LABELS[kind], "linear", lines)


def curve_panels(curves_by_name, metrics=METRICS, prefix="", suffix=""):
    """Return a Panel for each metric, with its values over the training steps.

    curves_by_name  {name of a line: Curves (n, E)}
    suffix          the end of the metrics' names: "", "_order2" or "_order3"
    """
    return [metric_panel(prefix + TITLES[metric], metric, [
        (name, runs.step, runs.values[metric + suffix]) for name, runs in curves_by_name.items()])
        for metric in metrics]


def loss_accuracy_panels(runs, prefix, suffix=""):
    """Return a Panel of losses and one of accuracies, on the training and the validation set."""
    return [Panel(f"{prefix}: {what}", f"{symbol} ({scale})", kind, [
        (name, runs.step, runs.values[f"{part}_{what}{suffix}"])
        for part, name in (("train", "training"), ("validation", "validation"))])
        for what, symbol, scale, kind in (("loss", "L", "log scale", "log"),
                                          ("accuracy", "A", "wider near 1", "accuracy"))]


def best_panels(x, curves_by_name):
    """Return eight Panels over a setting: each best value, and the step t_f that reached it.

    curves_by_name  {name of a line: Curves (k, n, E)}, or {name: (its own x, Curves)} if x is None
    """
    panels = []
    for metric in METRICS:
        lines = [(name, x, runs) if x is not None else (name, *runs)
                 for name, runs in curves_by_name.items()]
        panels.append(metric_panel(LABELS[metric], metric, [
            (name, at, runs.best(metric).T) for name, at, runs in lines]))
        scale = "log" if metric == "train_accuracy" else "linear"   # t_f varies a hundredfold
        panels.append(Panel(f"t_f({LABELS[metric]})", "training step", scale, [
            (name, at, runs.best_step(metric).T) for name, at, runs in lines]))
    return panels


# --- drawing --------------------------------------------------------------------------------------
def make_grid(panels, columns, legend="", x=STEPS_LABEL, scale="steps"):
    """Return a function that draws panels, row by row, into a matplotlib Figure.

    legend   the setting whose values the lines show; "" if words name the lines
    x        label of the x axes
    scale    scale of the x axes: "steps", "linear", "whole", "log" or "log2"
    """
    def draw_panels(canvas):
        rows = -(-len(panels) // columns)
        axes = canvas.subplots(rows, columns, squeeze=False)
        names = list(dict.fromkeys(name for panel in panels for name, _, _ in panel.lines))
        line_styles = choose_line_styles(names, bool(legend))
        for i, place in enumerate(axes.flat):
            if i >= len(panels):
                place.set_axis_off()
                continue
            lowest = i + columns >= len(panels)
            style.label_axes(place, x if lowest else "", panels[i].y, panels[i].title)
            draw_panel(place, panels[i], line_styles, scale)
        keys = [Line2D([], [], color="none", label=f"{legend}:")] if legend else []
        keys += [Line2D([], [], color=colour, marker=mark, markersize=5, label=str(name))
                 for name, (colour, mark, _) in line_styles.items()]
        if len(keys) > 1:
            canvas.legend(handles=keys, loc="outside upper center", ncols=len(keys), fontsize=9,
                          frameon=False, labelcolor=style.INK, handlelength=1.8, columnspacing=1)
    return draw_panels


def choose_line_styles(names, are_numbers):
    """Return {name of a line: (colour, marker, offset of the markers along the line)}.

    If `are_numbers` is True, the names are numbers, and get colours in the same order.
    """
    colours = colormaps["plasma"](np.linspace(0, 0.8, len(names))) if are_numbers else style.LINES
    return {name: (colour, mark, i / len(names)) for i, (name, colour, mark) in enumerate(
        zip(names, colours, style.MARKERS, strict=False))}


def draw_panel(axes, panel, line_styles, scale):
    ones = True
    for name, x, values in panel.lines:
        colour, mark, offset = line_styles[name]
        values, curve = np.asarray(values, float), len(x) >= MANY
        ones &= bool((values == 1).all())
        if curve:
            values = running_median(values)
        values = np.log(values) if panel.scale == "log" else values
        mean, deviation = values.mean(0), values.std(0)
        band = mean - deviation, mean, mean + deviation
        low, middle, high = map(np.exp, band) if panel.scale == "log" else band
        places = np.searchsorted(x, x[-1] * ((np.arange(MARKS) + offset) / MARKS) ** 2).tolist()
        axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0, zorder=0)
        axes.plot(x, middle, color=colour, linewidth=1.3, marker=mark, markersize=4.5,
                  markevery=places if curve else None)
    set_y_scale(axes, panel.scale)
    set_x_scale(axes, scale, panel.lines)
    if panel.scale == "accuracy" and ones:
        axes.text(0.5, 0.5, "1 everywhere", transform=axes.transAxes, ha="center", color=style.SOFT)


def running_median(values):
    """Return the running median of values (n, E) over up to WINDOW evaluations."""
    half, padded = WINDOW // 2, np.pad(values, ((0, 0), (WINDOW // 2,) * 2), constant_values=np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1, axis=1)
    return np.nanmedian(windows, -1)


def set_y_scale(axes, scale):
    if scale == "log":
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        if high < 3 * low:                      # nearly constant: leave room around the line
            axes.set_ylim(low / 3, high * 3)
    elif scale == "accuracy":
        axes.set_yscale("function", functions=(
            lambda a: -np.log10(np.maximum(1 - a, -9e-4) + 1e-3), lambda f: 1.001 - 10.0**-f))
        axes.set_ylim(-0.1, 1.0003)
        axes.yaxis.set_major_locator(FixedLocator(TICKS))
        axes.yaxis.set_major_formatter("{x:g}")
    else:
        axes.set_ylim(0, 1.05 * axes.get_ylim()[1])
        axes.yaxis.set_major_formatter("{x:,.0f}")


def set_x_scale(axes, scale, lines):
    values = sorted({float(x) for _, xs, _ in lines for x in xs})
    high = values[-1]
    if scale == "steps":                        # square root: the second half gets a third
        axes.set_xscale("function", functions=(lambda t: np.sqrt(np.maximum(t, 0)), np.square))
        axes.set_xlim(0, high)
        shown = []
        for t in reversed([t for t in STEPS if t <= 1.01 * high]):
            if not shown or (shown[-1] / high) ** 0.5 - (t / high) ** 0.5 > 0.13:
                shown.append(t)
        axes.xaxis.set_major_locator(FixedLocator(shown))
        axes.xaxis.set_major_formatter("{x:g}")
    elif scale in ("log", "log2"):
        axes.set_xscale("log", base=2 if scale == "log2" else 10)
        if scale == "log2":
            axes.xaxis.set_major_locator(FixedLocator(values))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
            axes.xaxis.set_minor_locator(NullLocator())
            axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=scale == "whole"))
