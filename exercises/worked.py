"""A worked solution: its steps as data, and how a terminal shows them.

A Solution is read with a pencil in hand: a small example, the steps in order, each with its
formula and the same formula with the example's numbers, the answer in one line, and how it was
checked. Formulae are Unicode mathematics, one to a line: sub- and superscripts as letters where
they exist (x₁, hₜ₋₁, W², Qᵀ), else after _ or ^ (h_T). Every number comes from a computation, set
into its line by num(), vec() or as an array or a table.
"""

import math
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from npdl.errors import InputError

WIDTH = 100


@dataclass(frozen=True)
class Table:
    """Rows under their heads; a cell is a string or a number."""

    heads: tuple
    rows: tuple
    digits: int = 3

    def __post_init__(self):
        if any(len(row) != len(self.heads) for row in self.rows):
            raise InputError(f"a row of the table has not the {len(self.heads)} cells of its heads "
                             f"{', '.join(map(str, self.heads))}")


@dataclass(frozen=True)
class Step:
    """One step: what is done and why, the formula, and the formula with the example's numbers."""

    text: str
    formula: str = ""                       # lines of Unicode mathematics
    numbers: str = ""                       # the same lines with numbers
    arrays: Mapping = field(default_factory=dict)  # {name: vector or matrix}, set side by side
    table: Table | None = None
    digits: int = 3                         # of the arrays' entries


@dataclass(frozen=True)
class Check:
    """How the answer was checked, and whether it held."""

    text: str
    holds: bool


@dataclass
class Solution:
    """The worked solution of one question, written statement by statement: step(), answer, check().

    number as in TITLES, "2.4a"; example, what it is worked on, in words; given {name: vector or
    matrix} of the example; picture, what --figures shows of it, where it shows anything.
    """

    number: str
    example: str = ""
    given: Mapping = field(default_factory=dict)
    picture: str = ""
    steps: list = field(default_factory=list)
    answer: str = ""                        # one line
    checks: list = field(default_factory=list)

    def step(self, *told, **named):
        """Add a Step."""
        self.steps.append(Step(*told, **named))

    def check(self, text, holds):
        """Add a Check."""
        self.checks.append(Check(text, bool(holds)))

    def whole(self):
        """The solution; raises InputError where a part of it is missing."""
        if not self.steps or not self.checks:
            raise InputError(f"solution of {self.number}: it needs a step and a check, or more")
        if not self.answer.strip() or "\n" in self.answer:
            raise InputError(f"solution of {self.number}: the answer must be one line")
        return self


def num(value, digits=3):
    """A number as it is written: 4, 14/9, −0.667; a float with `digits` after the point."""
    if isinstance(value, (bool, np.bool_)):
        raise InputError(f"{value} is no number")
    if isinstance(value, (int, Fraction, np.integer)):
        text = str(value)
    elif np.isinf(value):
        text = "-∞" if value < 0 else "∞"
    else:
        text = f"{value:.{digits}f}"
        if float(text) == 0:
            text = text.lstrip("-")
    return text.replace("-", "−")


def vec(values, digits=3):
    """Numbers one after the other: (0.5, −1.0)."""
    return "(" + ", ".join(num(value, digits) for value in values) + ")"


def below(error, limit=1e-9):
    """ "below 1e-09" for an error under `limit`: its last digits differ between machines."""
    return f"below {limit:.0e}" if error < limit else f"{error:.1e}"


def listing(values, spec=".2f", around="[]"):
    """The values one after the other, each by its format: [2.25, 3.00]."""
    return around[0] + ", ".join(format(value, spec) for value in values) + around[1]


def share(successes, trials):
    """A share with its standard error, as a percentage: 41.2 % +- 0.5 %."""
    p = successes / trials
    percent, error = 100 * p, 100 * math.sqrt(p * (1 - p) / trials)
    return f"{percent:.1f} % +- {error:.1f} %"


def sub(text):
    """A subscript: sub(12) is ₁₂, sub("T") is _T, sub("T-1") is _(T-1)."""
    text = str(text)
    if text.isdigit():
        return text.translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))
    return f"_{text}" if text.isalnum() else f"_({text})"


def terms(values, digits=3):
    """Numbers added up: 0.5 − 1.0 + 2.0."""
    first, *rest = values
    return num(first, digits) + "".join(
        (" − " if value < 0 else " + ") + num(abs(value), digits) for value in rest)


def paragraph(text, indent=0, hang=0, width=WIDTH):
    """text wrapped for a terminal; the lines after the first are `hang` columns further in."""
    if "\n" in text.strip():
        return "\n".join(paragraph(line, indent, hang, width) for line in text.strip().split("\n"))
    first, later = " " * indent, " " * (indent + hang)
    return textwrap.fill(text, width, initial_indent=first, subsequent_indent=later)


def solution_text(solution, title="", width=WIDTH):
    """The solution for a terminal."""
    heading = f"Worked solution of {solution.number}" + (title and f": {title}")
    lines = [heading, "-" * len(heading)]
    if solution.example:
        lines += [paragraph(solution.example, width=width)]
    if solution.given:
        lines += ["     " + line for line in side_by_side(
            [array_lines(name, value, 3) for name, value in solution.given.items()])]
    for place, step in enumerate(solution.steps, 1):
        lines += ["", paragraph(f"{place}. {step.text}", 0, 3, width), *step_lines(step)]
    lines += ["", paragraph(f"Answer: {solution.answer}", 0, 8, width)]
    for check in solution.checks:
        mark = "Check:" if check.holds else "OUR COMPUTATION FAILED:"
        lines.append(paragraph(f"{mark}  {check.text}", 0, 8, width))
    if solution.picture:
        lines.append(f"Picture: {solution.picture} (--figures DIR)")
    return "\n".join(lines)


def step_lines(step):
    """What stands below a step's sentence, set in from the left."""
    blocks = [text.strip("\n").split("\n") for text in (step.formula, step.numbers) if text]
    if step.arrays:
        blocks.append(side_by_side([array_lines(name, value, step.digits)
                                    for name, value in step.arrays.items()]))
    if step.table:
        blocks.append(table_lines(step.table))
    return [("     " + line).rstrip() for block in blocks for line in block]


def table_lines(table):
    """The table in columns, numbers to the right."""
    rows = [[cell if isinstance(cell, str) else num(cell, table.digits) for cell in row]
            for row in table.rows]
    columns = list(zip(table.heads, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    right = [any(not isinstance(row[i], str) for row in table.rows) for i in range(len(columns))]
    return ["  ".join(cell.rjust(w) if r else cell.ljust(w)
                      for cell, w, r in zip(row, widths, right, strict=True)).rstrip()
            for row in (table.heads, ["─" * w for w in widths], *rows)]


def array_lines(name, value, digits):
    """A matrix, or a vector as a column, in brackets after its name; no digits but those needed."""
    array = np.asarray(value)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or not array.size:
        raise InputError(f"{name} has shape {array.shape}: a vector or a matrix can be shown")
    if array.dtype.kind == "f":
        digits = next((few for few in range(digits)
                       if np.allclose(array.round(few), array, rtol=0, atol=1e-12)), digits)
    cells = [[num(entry, digits) for entry in row] for row in array]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    rows = ["  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)) for row in cells]
    last = len(rows) - 1
    pairs = ["[]"] if not last else ["⎡⎤", *["⎢⎥"] * (last - 1), "⎣⎦"]
    heads = [name + " = " if i == last // 2 else " " * (len(name) + 3) for i in range(last + 1)]
    return [f"{head}{left} {row} {right}"
            for head, (left, right), row in zip(heads, pairs, rows, strict=True)]


def side_by_side(blocks, gap=3, width=WIDTH - 5):
    """Blocks of lines beside each other, in as many bands as the width needs."""
    bands, used = [[]], 0
    for block in blocks:
        wide = max(map(len, block)) + gap
        if bands[-1] and used + wide > width + gap:
            bands.append([])
            used = 0
        bands[-1].append(block)
        used += wide
    lines = []
    for band in bands:
        height = max(map(len, band))
        padded = []
        for block in band:
            top = (height - len(block)) // 2
            wide = max(map(len, block))
            padded.append([" " * wide] * top + [line.ljust(wide) for line in block]
                          + [" " * wide] * (height - len(block) - top))
        lines += [(" " * gap).join(parts).rstrip() for parts in zip(*padded, strict=True)]
    return lines
