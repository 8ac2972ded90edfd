"""Pictures: a Figure, its file, and panels of curves, each with a mark that the legend names.

A figure is drawn from its `data` alone, so that the digest of the data, which stands in the
picture's file, says whether it is up to date without a look at its pixels.
"""

import dataclasses
import hashlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator, NullFormatter
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from npdl.errors import InputError
from npdl.files import write_atomically
from npdl_study.plots import style

DPI = 80
COLOURS = (256, 64, 16)             # of a picture's palette: fewer where a file gets too large
LARGEST = 90_000                    # bytes of a picture
DIGITS = 6                          # of the numbers that go into a digest

MARKED = 5                          # places along a curve where its mark stands
NARROW = 3                          # a log scale spans at least such a factor
MANY = 20                           # points from which a line is a curve
WINDOW = 11                         # evaluations whose median is a curve's strong line
BAND = 0.15                         # opacity of the band of a deviation over seeds
NEAR_ONE = 1e-3                     # what an accuracy scale adds to 1 - A, for A = 1
SHARES = (0, 0.5, 0.9, 0.99, 1)     # the ticks of that scale
TIGHT = 0.13                        # of the width, between two ticks of the steps' scale
STEPS = (0, 100, 500, 1000, 2500, 5000, 10_000, 20_000, 40_000)     # of the steps' scale


@dataclasses.dataclass(frozen=True)
class Figure:
    """A picture: results/figures/<name>.png.

    label    "12" for the document's Figure 12, or a name of our own
    data     all that is drawn, as JSON can hold it
    draw     draw(figure, data) fills an empty matplotlib Figure
    size     inches, at 80 dots each
    """

    name: str
    label: str
    caption: str
    data: Any
    draw: Callable
    size: tuple[float, float] = (10.0, 5.0)

    def digest(self):
        """Twelve hexadecimal digits that change with the data."""
        text = json.dumps(rounded(self.data), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def rounded(value):
    """The same value with every float to DIGITS digits, tuples as lists, keys as text."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {str(key): rounded(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(part) for part in value]
    return value


def write_png(figure, folder):
    """Draw a Figure into <folder>/<name>.png, which carries the digest of its data.

    The same data give the same bytes for the same versions of matplotlib and Pillow.
    """
    canvas = Canvas(figsize=figure.size, dpi=DPI, layout="constrained", facecolor="white")
    FigureCanvasAgg(canvas)
    figure.draw(canvas, rounded(figure.data))
    full = io.BytesIO()
    canvas.savefig(full, format="png", metadata={"Software": None})
    image = Image.open(full).convert("RGB")
    data = next((png for colours in COLOURS
                 if len(png := reduced(image, colours, figure.digest())) <= LARGEST), None)
    if data is None:
        raise InputError(f"figure {figure.name}: more than {LARGEST} bytes; give it a smaller size")
    Path(folder).mkdir(parents=True, exist_ok=True)
    write_atomically(Path(folder) / f"{figure.name}.png", lambda file: file.write(data))


def reduced(image, colours, digest):
    """A picture (Pillow) as the bytes of a PNG with a palette, and the digest as its text."""
    facts, file = PngInfo(), io.BytesIO()
    facts.add_text("data", digest)
    image.quantize(colours, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
        file, format="png", optimize=True, pnginfo=facts)       # keeps a thin line's colour, too
    return file.getvalue()


def digest_of(path):
    """The digest that a picture carries, or None where there is no such picture."""
    try:
        with Image.open(path) as image:
            return image.info.get("data")
    except OSError:
        return None


# --- panels of curves -----------------------------------------------------------------------------
def draw_panels(figure, data):
    """Fill a Figure with `data`:

    shape    [rows, columns] of the panels
    x        {label, scale: linear | whole (numbers) | log | log2 | steps, values}: all values
             that the setting takes, run or not
    bar      {label, values}: lines are told apart by their "value"; or None: by their "label"
    panels   [{title, y, scale: linear | log | accuracy, lines: [{x, seeds: [values], ...}]}]:
             the seeds' mean in a band of their deviation, of many points the mean of running
             medians;
             one with the scale none has its "note" in its place, or nothing
    """
    rows, columns = data["shape"]
    figure.get_layout_engine().set(w_pad=0.08, h_pad=0.08, hspace=0.05, wspace=0.03)
    drawn = [panel["scale"] != "none" for panel in data["panels"]]
    heights = [1 if any(drawn[row * columns:][:columns]) else 0.15 for row in range(rows)]
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, height_ratios=heights)
    looks = looks_of(data)
    for number, (axes, panel) in enumerate(zip(grid.flat, data["panels"], strict=True)):
        if not drawn[number]:
            axes.set_axis_off()
            write_in(axes, panel.get("note", ""))
            continue
        lowest = not any(drawn[number + columns::columns])
        style.dress(axes, data["x"]["label"] if lowest else "", panel["y"], panel["title"])
        axes.tick_params(labelbottom=True)
        draw_lines(axes, panel["lines"], looks, panel["scale"] == "log")
        scale_y(axes, panel["scale"])
        scale_x(axes, data["x"])
        if not any(line["x"] for line in panel["lines"]):
            axes.tick_params(left=False, labelleft=False)
            write_in(axes, "not run")
    name_lines(figure, data, looks)


def write_in(axes, words):
    """Words in the middle of a panel that has no lines."""
    axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center", va="center",
              color=style.SOFT)


def looks_of(data):
    """{value or label of a line: (its colour, its mark, its number)}."""
    bar = data["bar"]
    names = bar["values"] if bar else list(dict.fromkeys(
        line["label"] for panel in data["panels"] for line in panel["lines"]))
    colours = [colormaps["plasma"](place) for place in np.linspace(0.0, 0.8, len(names))] if (
        bar) else style.LINES
    return {name: (colour, mark, number) for number, (name, colour, mark) in enumerate(
        zip(names, colours, style.MARKERS, strict=False))}


def draw_lines(axes, lines, looks, log):
    for line in lines:
        if not line["x"]:
            continue
        colour, mark, number = looks[line["value"] if "value" in line else line["label"]]
        x, curve = line["x"], len(line["x"]) >= MANY
        seeds = [running_median(values) for values in line["seeds"]] if curve else line["seeds"]
        middle, low, high = mean_and_deviation(seeds, log)
        axes.fill_between(x, low, high, color=colour, alpha=BAND, linewidth=0, zorder=0)
        axes.plot(x, middle, color=colour, linewidth=1.3, marker=mark, markersize=4.5,
                  markevery=marked(x, number / len(looks)) if curve else None)


def mean_and_deviation(seeds, log):
    """(mean, mean less and mean plus the population deviation) over seeds, as the tables have it;
    on a log scale of the logarithms."""
    values = np.log(seeds) if log else np.array(seeds, float)
    middle, deviation = values.mean(0), values.std(0)
    found = middle, middle - deviation, middle + deviation
    return tuple(map(np.exp, found)) if log else found


def marked(x, share):
    """Where a curve's marks stand: evenly over the width of the steps' scale, `share` of a place
    farther right, so that no two curves have theirs at the same steps."""
    return np.searchsorted(x, x[-1] * ((np.arange(MARKED) + share) / MARKED) ** 2).tolist()


def running_median(values):
    """Of the WINDOW values around each, of fewer at the ends. As many before as after: a curve
    that only rises or falls stays as it is."""
    half = WINDOW // 2
    return [np.median(values[max(0, i - half) : i + half + 1]) for i in range(len(values))]


def scale_y(axes, scale):
    if scale == "log":
        low, high = axes.dataLim.intervaly
        if 0 < low <= high <= low * (1 + 1e-9):     # of one value no scale can be chosen
            axes.set_ylim(low / NARROW, high * NARROW)
        axes.set_yscale("log", nonpositive="mask")
        low, high = axes.get_ylim()
        if high < NARROW * low:                     # a single value, or nearly: room around it
            axes.set_ylim(low / NARROW, high * NARROW)
    elif scale == "accuracy":
        axes.set_yscale("function", functions=(
            lambda a: -np.log10(np.maximum(1 - a, -0.9 * NEAR_ONE) + NEAR_ONE),
            lambda f: 1 + NEAR_ONE - 10.0**-f))
        axes.set_ylim(-0.1, 1.0003)
        axes.yaxis.set_major_locator(FixedLocator(SHARES))
        axes.yaxis.set_major_formatter(FixedFormatter([f"{share:g}" for share in SHARES]))
    else:
        low, high = axes.get_ylim()
        axes.set_ylim(min(low, 0), 1.05 * high)
        axes.yaxis.set_major_formatter("{x:,.0f}")


def scale_x(axes, x):
    scale, values = x["scale"], x["values"]
    low, high = min(values), max(values)
    if scale == "steps":                            # a root: the late half has a third of the width
        axes.set_xscale("function", functions=(lambda t: np.sqrt(np.maximum(t, 0)), np.square))
        axes.set_xlim(0, high)
        ticks = []
        for step in reversed([step for step in STEPS if step <= 1.01 * high]):
            if not ticks or (ticks[0] / high) ** 0.5 - (step / high) ** 0.5 > TIGHT:
                ticks.insert(0, step)
        axes.xaxis.set_major_locator(FixedLocator(ticks))
        axes.xaxis.set_major_formatter(FixedFormatter([f"{step:g}" for step in ticks]))
        return
    if scale in ("linear", "whole"):
        axes.set_xlim(low - 0.05 * (high - low), high + 0.05 * (high - low))
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=scale == "whole"))
        return
    axes.set_xscale("log", base=2 if scale == "log2" else 10)
    margin = (high / low) ** 0.05
    axes.set_xlim(low / margin, high * margin)
    if scale == "log2":
        axes.xaxis.set_major_locator(FixedLocator(values))
        axes.xaxis.set_major_formatter(FixedFormatter([f"{value:g}" for value in values]))
        axes.xaxis.set_minor_formatter(NullFormatter())


def name_lines(figure, data, looks):
    """One legend above all panels: the lines' colours and marks."""
    bar = data["bar"]
    title = bar["label"].partition(" (")[0] if bar else ""
    keys = [Line2D([], [], color="none", label=f"{title}:")] if bar else []
    keys += [Line2D([], [], color=colour, marker=mark, markersize=5,
                    label=f"{name:g}" if bar else name)
             for name, (colour, mark, _) in looks.items()]
    figure.legend(handles=keys, loc="outside upper center", ncols=len(keys), frameon=False,
                  labelcolor=style.INK, handlelength=1.8, columnspacing=1.0, fontsize=9)
