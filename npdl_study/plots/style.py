"""How npdl's pictures look, and how they are written."""

import textwrap
from pathlib import Path

from npdl.files import write_atomically
from npdl_train.console import note

# Okabe and Ito's palette: apart for every kind of colour vision.
BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE = "#E69F00"
INK, SOFT, GRID = "#333333", "#777777", "#e4e4e4"
SEQUENTIAL = "cividis"          # reads the same in grey and for every kind of colour vision
LINES = (BLUE, VERMILION, GREEN, PURPLE, ORANGE)
# What tells lines apart without colour.
DASHES = ("-", (0, (4, 1.5)), (0, (1, 1.5)), (0, (6, 1.5, 1, 1.5)), (0, (2, 3)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")


def figure(width, height, title, note=""):
    """A white Figure of inches width x height, with a title and a line of small print."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # a second to load, and 30 MB,
    from matplotlib.figure import Figure  # which no benchmark may bear

    made = Figure(figsize=(width, height), dpi=110, layout="constrained", facecolor="white")
    FigureCanvasAgg(made)
    made.get_layout_engine().set(w_pad=0.1, h_pad=0.08, wspace=0.04, hspace=0.04)
    made.suptitle(textwrap.fill(title, int(9 * width)), color=INK, fontsize=13, parse_math=False)
    if note:
        made.supxlabel(note, color=SOFT, fontsize=8.5, parse_math=False)
    return made


def dress(axes, x, y, title="", grid="both"):
    """Labels, a light grid behind, no frame."""
    axes.set_xlabel(x, color=INK)
    axes.set_ylabel(y, color=INK)
    if title:
        axes.set_title(title, color=INK, fontsize=11, loc="left", parse_math=False)
    if grid:
        axes.grid(True, axis=grid, color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#999999")
    axes.tick_params(which="both", color="#999999", labelcolor=INK, labelsize=9)


def readable(texts):
    """(labels, font families) that show texts in any script: with further fonts of this machine for
    what the usual one lacks, and with code points, U+4E2D, for what none has, which a line says."""
    from matplotlib.font_manager import findfont, fontManager, get_font

    families = ["DejaVu Sans"]
    missing = lacks(get_font(findfont(families[0])), set("".join(texts)))
    for font in fontManager.ttflist:
        if missing and not font.name.startswith("Last Resort"):     # which draws boxes for all
            left = lacks(get_font(font.fname), missing)
            families += [font.name] * (left < missing)
            missing = left
    if missing:
        note(f"no font of this machine has {' '.join(sorted(missing))}: shown as code points; "
             "install one that has, such as Noto Sans CJK")
    return ["".join(f"U+{ord(c):04X}" if c in missing else c for c in text)
            for text in texts], families


def lacks(font, characters):
    return {c for c in characters if not font.get_char_index(ord(c))}


def save(made, path):
    """Write a Figure as a PNG; the same figure gives the same bytes."""
    path = Path(path)
    write_atomically(
        path, lambda file: made.savefig(file, format="png", metadata={"Software": None},
                                        pil_kwargs={"optimize": True})
    )
    return path
