"""What a report is made of: sections of paragraphs, tables and figures, and verdicts on claims.

A module of the report gives a Section. Its figures are drawn from their `data` alone, so that the
digest of the data, which stands in the report and in the picture, says whether a picture is up to
date without a look at its pixels.
"""

import dataclasses
import hashlib
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from npdl.errors import InputError
from npdl.files import write_atomically

HOLDS = "holds"
FAILS = "fails"
CONTRADICTED = "contradicted by the document itself"
DEPENDS = "depends on what is meant"
OPEN = "not decided by these seeds"
MISSING = "not decided: runs missing"
NO_CLAIM = "no claim"               # a caption that names its figure and says nothing of it
AGAIN = "said before"               # a claim that another place makes, too: counted there
VERDICTS = (HOLDS, FAILS, CONTRADICTED, DEPENDS, OPEN, MISSING, NO_CLAIM, AGAIN)
DECIDED = (HOLDS, FAILS, CONTRADICTED)

DPI = 80
COLOURS = (256, 64, 16)             # of a picture's palette: fewer where a file gets too large
LARGEST = 90_000                    # bytes of a picture
DIGITS = 6                          # of the numbers that go into a digest


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The judgement of one claim.

    where    its place in the document: "Figure 12", "5 (c)", "table of 2"
    claim    what is claimed, in our words, or the name of a number
    document what the document says or prints
    ours     the numbers that decide
    verdict  one of VERDICTS
    beside   what it is at other thresholds, by other readings
    recipes  {recipe: the verdict by its runs}, of the other recipes
    seeds    {seed: whether it is true}, for what is looked at within each seed
    """

    where: str
    claim: str
    document: str
    ours: str
    verdict: str
    beside: str = ""
    recipes: dict = dataclasses.field(default_factory=dict)
    seeds: dict = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        if self.verdict not in VERDICTS:
            raise InputError(f"verdict {self.verdict!r}: choose one of {'; '.join(VERDICTS)}")

    @property
    def otherwise(self):
        """What it is by any other measure, in words."""
        recipes = [f"{recipe}: {verdict}" for recipe, verdict in self.recipes.items()]
        return "; ".join(filter(None, [self.beside, *recipes]))


@dataclasses.dataclass(frozen=True)
class Table:
    """A table with its caption; every row has as many cells as the heading. Cells are Markdown.

    left     how many columns, from the left, hold words; the others are aligned as numbers
    """

    caption: str
    heading: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1

    def __post_init__(self):
        for row in self.rows:
            if len(row) != len(self.heading):
                raise InputError(f"table {self.caption[:40]!r}: a row has {len(row)} cells, the "
                                 f"heading {len(self.heading)}; give as many")


@dataclasses.dataclass(frozen=True)
class Figure:
    """A picture: results/figures/<name>.png.

    label    "12" for the document's Figure 12, or a label of our own, as "A1"
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


@dataclasses.dataclass
class Section:
    """A chapter of the report: paragraphs (str, Markdown), Tables and Figures in order."""

    title: str
    parts: list = dataclasses.field(default_factory=list)
    verdicts: list[Verdict] = dataclasses.field(default_factory=list)

    def figures(self):
        return [part for part in self.parts if isinstance(part, Figure)]


def rounded(value):
    """The same value with every float to DIGITS digits, tuples as lists, keys as text."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {str(key): rounded(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(part) for part in value]
    return value


# --- Markdown -----------------------------------------------------------------------------------
def section_markdown(section, folder="results/figures"):
    """A section as Markdown; `folder` is where its pictures lie, seen from the report."""
    blocks = [f"## {section.title}"]
    blocks += [part_markdown(part, folder) for part in section.parts]
    if section.verdicts:
        blocks.append(part_markdown(verdict_table(section.verdicts)))
    return "\n\n".join(blocks)


def part_markdown(part, folder="results/figures"):
    """A paragraph, a Table or a Figure as Markdown."""
    if isinstance(part, Table):
        return f"*{part.caption}*\n\n{table_markdown(part)}"
    if isinstance(part, Figure):
        return (f"![Figure {part.label}]({folder}/{part.name}.png)\n\n"
                f"*Figure {part.label}. {part.caption}* <!-- data {part.digest()} -->")
    return part


def table_markdown(table):
    """The rows of a Table as Markdown."""
    marks = ["---" if i < table.left else "---:" for i in range(len(table.heading))]
    lines = [table.heading, marks, *table.rows]
    return "\n".join("| " + " | ".join(map(cell, line)) + " |" for line in lines)


def cell(text):
    """Text as a table's cell: one line, bars escaped."""
    return " ".join(str(text).split()).replace("|", "\\|")


def verdict_table(verdicts, caption="Verdicts of this section."):
    """The Table of some verdicts."""
    rows = [(v.where, v.claim, v.document, v.ours, f"**{v.verdict}**", v.otherwise)
            for v in verdicts]
    return Table(caption, ("where", "claim", "document", "ours", "verdict", "otherwise"), rows,
                 left=6)


# --- pictures -----------------------------------------------------------------------------------
def write_png(figure, folder):
    """Draw a Figure into <folder>/<name>.png, which carries the digest of its data.

    The same data give the same bytes for the same versions of matplotlib and Pillow.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas
    from PIL import Image

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
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    facts, file = PngInfo(), io.BytesIO()
    facts.add_text("data", digest)
    image.quantize(colours, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
        file, format="png", optimize=True, pnginfo=facts)       # keeps a thin line's colour, too
    return file.getvalue()


def digest_of(path):
    """The digest that a picture carries, or None where there is no such picture."""
    from PIL import Image

    try:
        with Image.open(path) as image:
            return image.info.get("data")
    except OSError:
        return None
