"""Pictures as SVG: plots by matplotlib, and drawings of boxes and arrows.

Their colours are the page's, so they hold in light and in dark. They are as wide as a phone.
"""

import io
import re
from html import escape

import matplotlib
import numpy as np
from matplotlib.colors import LinearSegmentedColormap, to_rgba
from matplotlib.figure import Figure

WIDTH = 350
INK, BLUE, PAPER = "#010101", "#2962ff", "#fefefe"      # in a plot, for these colours of the page:
COLOURS = {INK: "currentColor", BLUE: "var(--color-brand-primary, #2962ff)",
           PAPER: "var(--color-background-primary, #fff)"}
SHADES = LinearSegmentedColormap.from_list("shades", [to_rgba(BLUE, 0.02), to_rgba(BLUE, 1)])
PLOT = {"svg.fonttype": "none", "font.size": 12, "font.family": "sans-serif", "text.color": INK,
        "axes.titlesize": 12, "axes.edgecolor": INK, "axes.labelcolor": INK, "xtick.color": INK,
        "ytick.color": INK, "xtick.labelsize": 12, "ytick.labelsize": 12, "legend.frameon": False,
        "axes.spines.top": False, "axes.spines.right": False, "lines.linewidth": 1.4,
        "axes.prop_cycle": matplotlib.cycler(color=[INK, BLUE], linestyle=["-", "--"])}
STYLE = """
.drawing { color: currentColor; font-family: sans-serif; }
.drawing text { fill: currentColor; font-size: 15px; }
.drawing text.small { font-size: 12px; }
.drawing polyline { fill: none; stroke: currentColor; stroke-width: 1.4; }
.drawing polygon { fill: currentColor; }
.drawing rect, .drawing circle { fill: var(--color-code-background, #f4f4f4);
  stroke: currentColor; stroke-width: 1.2; }
.drawing rect.cell { fill: var(--color-brand-primary, #2962ff); stroke: none; }
.drawing rect.hot { fill: var(--color-brand-primary, #2962ff); fill-opacity: .28; }
.drawing .thin { stroke-opacity: .35; stroke-dasharray: 3 3; }
.drawing polyline.back { stroke: var(--color-brand-primary, #2962ff); stroke-dasharray: 5 3; }
.drawing polygon.back { fill: var(--color-brand-primary, #2962ff); }
"""


def shown(draw, *arguments):
    """Return (SVG, caption) of draw(*arguments): (a figure of matplotlib or a Drawing, caption)."""
    with matplotlib.rc_context(PLOT):
        made, caption = draw(*arguments)
        return (made.svg(caption) if isinstance(made, Drawing) else _svg(made, caption)), caption


def figure(height, rows=1, columns=1, **options):
    """Return (a figure of WIDTH x height pixels, its axes)."""
    made = Figure((WIDTH / 72, height / 72), layout="constrained")
    return made, made.subplots(rows, columns, **options)


def _svg(made, caption):
    """Return a figure as SVG in the colours of the page."""
    file = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": caption}):          # the same ids each time
        made.savefig(file, format="svg", transparent=True)
    text = re.sub(r"^.*?(?=<svg)|<metadata>.*?</metadata>", "", file.getvalue(), flags=re.S)
    text = re.sub(r'(width|height)="([\d.]+)pt"', r'\1="\2"', text, count=2)
    used = set(re.findall(r"#([\w-]+)[\")]", text))     # other ids would be twice on a page
    text = re.sub(r' id="([^"]*)"', lambda m: m[0] if m[1] in used else "", text)
    for colour, by in COLOURS.items():
        text = text.replace(colour, by)
    return text.replace("<svg", f'<svg role="img" aria-label="{escape(caption)}"', 1)


def matrix(axes, values, rows=(), columns=(), low=0.0, high=1.0):
    """Draw a matrix of squares, the fuller the nearer a value is to `high`."""
    axes.imshow(values, cmap=SHADES, vmin=low, vmax=high, interpolation="none")
    height, width = np.shape(values)
    axes.set(yticks=range(len(rows)), yticklabels=rows, xticks=range(len(columns)),
             xticklabels=columns)
    axes.set_xticks(np.arange(1, width) - 0.5, minor=True)
    axes.set_yticks(np.arange(1, height) - 0.5, minor=True)
    axes.grid(which="minor", color=PAPER, linestyle="-", linewidth=1.5)
    axes.tick_params(which="both", length=0, labelbottom=False, labeltop=True)
    axes.spines[:].set_visible(False)


def write_values(axes, values):
    """Write its value into each square of a matrix."""
    for (row, column), value in np.ndenumerate(np.round(values, 2)):
        if value:
            axes.text(column, row, f"{value:g}", ha="center", va="center")


class Drawing:
    """A picture of WIDTH by `height` units, y downwards.

    Kinds of lines and arrows: "" a value, "back" a gradient, "thin" a help line.
    """

    def __init__(self, height):
        self.height, self.parts = height, []

    def svg(self, label):
        """Return the picture; `label` says what it shows."""
        return (f'<svg viewBox="0 0 {WIDTH} {self.height}" width="{WIDTH}" height="{self.height}" '
                f'role="img" class="drawing" aria-label="{escape(label)}">'
                f'<style>{STYLE}</style>{"".join(self.parts)}</svg>')

    def text(self, x, y, words, kind="", anchor="middle"):
        self.parts.append(f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}" '
                          f'dominant-baseline="central">{escape(words)}</text>')

    def box(self, x, y, words="", width=64, height=30, kind=""):
        """A box around its middle (x, y)."""
        self.parts.append(f'<rect x="{x - width / 2:g}" y="{y - height / 2:g}" width="{width:g}" '
                          f'height="{height:g}" rx="5" class="{kind}"/>')
        if words:
            self.text(x, y, words)

    def dot(self, x, y, sign):
        """A circle with an operation in it."""
        self.parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="12"/>')
        self.text(x, y, sign)

    def line(self, points, kind=""):
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        self.parts.append(f'<polyline points="{path}" class="{kind}"/>')

    def arrow(self, *points, kind=""):
        """A line through points, with a head at the last."""
        self.line(points, kind)
        (x0, y0), (x, y) = points[-2:]
        length = ((x - x0) ** 2 + (y - y0) ** 2) ** 0.5
        u, v = (x - x0) / length, (y - y0) / length
        tips = [(x, y), (x - 8 * u + 4 * v, y - 8 * v - 4 * u), (x - 8 * u - 4 * v,
                                                                  y - 8 * v + 4 * u)]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in tips)
        self.parts.append(f'<polygon points="{path}" class="{kind}"/>')

    def cell(self, x, y, weight, size=26):
        """A square of a matrix, the fuller the larger its weight in [0, 1]."""
        self.parts.append(f'<rect x="{x:g}" y="{y:g}" width="{size - 2:g}" height="{size - 2:g}" '
                          f'class="cell" fill-opacity="{weight:.3f}"/>')
