"""The style of all pictures: plots by matplotlib, and drawings of boxes and arrows, as SVG.

They use the colours of the page's theme, so they are readable in light and dark mode. Their width
is that of a phone. The style of drawings is in static/book.css.
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
        "grid.alpha": 0.35, "grid.linestyle": ":", "grid.color": INK,
        "axes.prop_cycle": matplotlib.cycler(color=[INK, BLUE, INK], linestyle=["-", "--", ":"])}


def as_svg(draw, *arguments, label):
    """Return the Figure draw(*arguments) as SVG; `label` is a description for screen readers."""
    with matplotlib.rc_context(PLOT | {"svg.hashsalt": label}):         # the same ids each time
        file = io.StringIO()
        draw(*arguments).savefig(file, format="svg", transparent=True)
    text = re.sub(r"^.*?(?=<svg)|<metadata>.*?</metadata>", "", file.getvalue(), flags=re.S)
    text = re.sub(r'(width|height)="([\d.]+)pt"', r'\1="\2"', text, count=2)
    used = set(re.findall(r"#([\w-]+)[\")]", text))     # other ids would be twice on a page
    text = re.sub(r' id="([^"]*)"', lambda m: m[0] if m[1] in used else "", text)
    for colour, by in COLOURS.items():
        text = text.replace(colour, by)
    return add_label(text, label)


def add_label(svg, label):
    """Return an SVG with a description for screen readers."""
    return svg.replace("<svg", f'<svg role="img" aria-label="{escape(label)}"', 1)


def make_figure(height, rows=1, columns=1, **options):
    """Return (a matplotlib Figure of WIDTH x height pixels, its axes)."""
    made = Figure((WIDTH / 72, height / 72), layout="constrained")
    return made, made.subplots(rows, columns, **options)


def draw_curves(x, lines, **options):
    """Return a Figure with the curves {name: values} over x, and a legend above them."""
    made, axis = make_figure(264)
    for name, values in lines.items():
        axis.plot(x, values, label=name)
    made.legend(loc="outside upper center", ncols=len(lines))
    axis.set(**options)
    axis.grid()
    return made


def draw_matrix(axes, values, rows=(), columns=(), low=0.0):
    """Draw a matrix of coloured squares on `axes`, from white for `low` to blue for 1."""
    axes.imshow(values, cmap=SHADES, vmin=low, vmax=1.0, interpolation="none")
    height, width = np.shape(values)
    axes.set(yticks=range(len(rows)), yticklabels=rows, xticks=range(len(columns)),
             xticklabels=columns)
    axes.set_xticks(np.arange(1, width) - 0.5, minor=True)
    axes.set_yticks(np.arange(1, height) - 0.5, minor=True)
    axes.grid(which="minor", color=PAPER, linestyle="-", linewidth=1.5, alpha=1)
    axes.tick_params(which="both", length=0, labelbottom=False, labeltop=True)
    axes.spines[:].set_visible(False)


def draw_matrices(height, matrices, rows=(), columns=(), **options):
    """Draw the matrices {title: values} side by side; return (Figure, axes)."""
    made, axes = make_figure(height, 1, len(matrices))
    for axis, (title, values) in zip(axes, matrices.items(), strict=True):
        draw_matrix(axis, values, rows, columns)
        axis.set(title=title, **options)
    return made, axes


def draw_table(height, values, rows, columns, printed_numbers=(), **options):
    """Return a Figure of one matrix; `printed_numbers` are shown in its squares."""
    made, axis = make_figure(height)
    draw_matrix(axis, values, rows, columns)
    axis.set(**options)
    for (row, column), value in np.ndenumerate(np.round(printed_numbers, 2)):
        if value:
            axis.text(column, row, f"{value:g}", ha="center", va="center")
    return made


class Drawing:
    """An SVG drawing of WIDTH x height units; y grows downwards.

    The kind of an arrow is "" for a value, and "back" for a gradient.
    """

    def __init__(self, height):
        self.height, self.parts = height, []

    def format_svg(self, label):
        """Return the SVG text; `label` is the description for screen readers."""
        size = f'width="{WIDTH}" height="{self.height}"'
        return add_label(f'<svg viewBox="0 0 {WIDTH} {self.height}" {size} class="drawing">'
                         f'{"".join(self.parts)}</svg>', label)

    def add_element(self, tag, words="", **attributes):
        """Add an SVG element with these attributes; `kind` is its class."""
        given = " ".join(f'{"class" if name == "kind" else name}="{value}"'
                         for name, value in attributes.items())
        self.parts.append(f"<{tag} {given}>{escape(words)}</{tag}>")

    def text(self, x, y, words, kind=""):
        """Write text centred at (x, y)."""
        self.add_element("text", words, x=f"{x:g}", y=f"{y:g}", kind=kind)

    def arrow(self, *points, kind):
        """Draw a line through points, with an arrowhead at the last."""
        self.add_element("polyline", points=" ".join(f"{x:g},{y:g}" for x, y in points), kind=kind)
        tip, before = np.array(points[-1]), np.array(points[-2])
        along = 8 * (tip - before) / np.linalg.norm(tip - before)
        across = np.array([-along[1], along[0]]) / 2
        self.add_element("polygon", kind=kind, points=" ".join(
            f"{x:.1f},{y:.1f}" for x, y in (tip, tip - along + across, tip - along - across)))
