"""Define the colours, labels and files of npdl's plots."""

import textwrap

from npdl.files import write_atomically

# Okabe and Ito's palette can be told apart with every kind of colour vision.
BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE = "#E69F00"
INK, SOFT, GRID = "#333333", "#777777", "#e4e4e4"
SEQUENTIAL = "cividis"          # also ordered when it is printed in grey
LINES = (BLUE, VERMILION, GREEN, PURPLE, ORANGE)
DASHES = ("-", (0, (4, 1.5)), (0, (1, 1.5)), (0, (6, 1.5, 1, 1.5)), (0, (2, 3)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")


def make_figure(width, height, title, note=""):
    """Return a white Figure of width x height inches with a title and a note below."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # slow to import, and 30 MB, which
    from matplotlib.figure import Figure  # would disturb benchmarks

    figure = Figure(figsize=(width, height), dpi=110, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.08, wspace=0.04, hspace=0.04)
    figure.suptitle(textwrap.fill(title, int(9 * width)), color=INK, fontsize=13, parse_math=False)
    if note:
        figure.supxlabel(note, color=SOFT, fontsize=8.5, parse_math=False)
    return figure


def label_axes(axes, x_label, y_label, title="", grid="both"):
    """Set labels and a title, draw a light grid, and remove the frame."""
    axes.set_xlabel(x_label, color=INK)
    axes.set_ylabel(y_label, color=INK)
    if title:
        axes.set_title(title, color=INK, fontsize=11, loc="left", parse_math=False)
    if grid:
        axes.grid(True, axis=grid, color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#999999")
    axes.tick_params(which="both", color="#999999", labelcolor=INK, labelsize=9)


def escape_token(token):
    """Return a token as a plot shows it, for example ␣ for a space."""
    return "␣" if token == " " else token if token.isprintable() else repr(token)[1:-1]


def save_figure(figure, path):
    """Write a Figure as a PNG file whose bytes depend on the figure alone."""
    write_atomically(path, lambda file: figure.savefig(
        file, format="png", metadata={"Software": None}, pil_kwargs={"optimize": True}))
