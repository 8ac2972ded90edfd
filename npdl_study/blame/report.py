"""What `blame` found, and how it says so."""

import linecache
import os
import textwrap
from dataclasses import dataclass, field

import numpy as np

from npdl.exceptions import printable
from npdl_study.blame.show_blame import blame_html, shown
from npdl_study.containment import message
from npdl_study.deviation import deviation
from npdl_study.trace.source import original_file

# What a Blame of no single line begins with, by its kind; what the kinds of changes say.
HEADS = {"blank": "not written yet:", "unchecked": "not checked:", "random": "not checked:",
         "manners": "wrong, though every gradient agrees with its numerical value:"}
SAYS = {"overwritten": "the gradient is overwritten where it must be added to (+=)",
        "eps": "forward adds a small number here, and backward does not",
        "sign": "the sign is wrong", "transposed": "a transpose is missing or too many",
        "missing sum": "a sum is missing", "missing term": "a term is missing",
        "missing factor": "a factor is missing", "axis": "the axis is wrong",
        "factor": "a factor is missing or wrong", "number": "the number is wrong",
        "operator": "the operation is wrong", "function": "a function is missing",
        "argument": "an argument is missing",
        "name": "another array is meant", "extra part": "a factor or a term is one too many",
        "extra sum": "a sum is one too many", "extra line": "this line is one too many",
        "reversed": "a reversal is missing or too many", "moved": "another part is meant",
        "comparison": "the mask is not that of the forward",
        "order": "the order is wrong", "step": "another step is meant",
        "part": "another part of the array is meant", "count": "the number is wrong",
        "brackets": "the brackets are elsewhere", "slope": "it is the slope of another function",
        "window": "another part of the array is meant",
        "subscripts": "the subscripts are those of another order",
        "expression": "it should be another expression",
        "repeated": "an index that comes twice is added once only",
        "otherwise": "forward computes it otherwise",
        "in place": "what the cache still needs is changed in place",
        "lost": "its value is kept nowhere: a return, or a name and =, is missing",
        "missing line": "a line is missing after it",
        "begins": "it has to begin with zeros", "shape": "it has another shape"}


@dataclass(repr=False)
class Blame:
    """What `blame` found. `right` is True when every gradient is.

    When it is not: `file`, `line`, `function` and `source` name the statement, `iteration` the
    loop variables then, `computed` and `wanted` its value and the right one (None where that is
    not known), `new` the line after which every gradient is right, `diagnosis` says how they
    differ; `either` are the lines of which each alone could mend every gradient, where there are
    several; `second` is another that is wrong too. `unreached` are the choices of a right layer
    that take one side only at its inputs.
    """

    right: bool
    finals: list = field(default_factory=list)
    notes: list = field(default_factory=list)
    file: str = ""
    line: int = 0
    function: str = ""
    source: str = ""
    name: str = ""
    iteration: tuple = ()
    computed: object = None
    wanted: object = None
    diagnosis: str = ""
    kind: str = ""
    new: str = ""
    error: object = None
    either: tuple = ()
    second: int = 0
    unreached: list = field(default_factory=list)

    @property
    def head(self):
        """What the line is, and by how much it is wrong."""
        said = "the first line that can mend it" if self.either else "the first wrong line"
        sizes = [row.error for row in self.finals if row.right is False and np.isfinite(row.error)]
        if self.wanted is not None:
            sizes = [deviation(self.computed, self.wanted)]
        return f"{said}, off by {max(sizes):.1g} of its size" if sizes and np.isfinite(
            max(sizes)) else said

    @property
    def turn_text(self):
        """What follows the line's place: the turn of its loops, if it is in any."""
        turns = ", ".join(f"{n} = {v}" for turn in self.iteration for n, v in turn)
        return f", first at {turns}" if turns else ""

    @property
    def others(self):
        """The lines that may be mended in place of this one."""
        return [n for n in self.either if n != self.line]

    def __repr__(self):
        return describe(self)

    def _repr_html_(self):
        return blame_html(self)


def describe(report):
    """A Blame as text."""
    if report.right:
        lines = _right(report)
    elif report.kind in HEADS:
        place = [f"  {_where(report)}", ""] if report.line else []
        lines = [HEADS[report.kind], *place, textwrap.fill(
            report.diagnosis, 92, initial_indent="  ", subsequent_indent="  ")]
    else:
        lines = [*_located(report), *_wrong(report)]
    return printable("\n".join([*lines, *(f"note: {note}" for note in report.notes)]), "\n")


def _right(report):
    worst = max((row.error for row in report.finals if row.right), default=0.0)
    count = sum(bool(row.right) for row in report.finals)
    agree = f"{count} gradients agree with their numerical values (worst error {worst:.1e})"
    missed = "; ".join(f"{_near(c.file)}:{c.line}, {c}" for c in report.unreached)
    return [f"right at these inputs; not reached: {missed}; give inputs that do",
            f"  {agree}"] if missed else [f"right: {agree}"]


def _located(report):
    """The line at fault, its numbers, and the lines that may be meant in its place."""
    if not report.line:
        raised = f"it raised {message(report.error)}; " if report.error is not None else ""
        return [f"wrong, but {raised}{report.diagnosis}"]
    lines = [f"{report.head}:", f"  {_where(report)}{report.turn_text}", "",
             *("    " + line.strip() for line in report.source.splitlines()), ""]
    if report.error is not None:
        lines.append(f"  raised     {message(report.error)}")
    if report.name and report.computed is not None:
        lines += [f"  {word:<10} {report.name} {shown(value)}" for word, value in
                  numbers(report)]
    if report.diagnosis:
        lines.append(f"  diagnosis  {report.diagnosis}")
    if report.either:
        lines.append(f"  or line {', '.join(map(str, report.others))}: each of these alone can "
                     "mend every gradient that is wrong, and only one need be")
        lines += [f"    {n}  {linecache.getline(report.file, n).strip()}" for n in report.others]
    return lines


def numbers(report):
    """[(word, array)]: what was computed, and should be; of two that look alike the difference."""
    found = [("computed", report.computed), ("should be", report.wanted)]
    if report.wanted is not None and shown(report.computed) == shown(report.wanted):
        found = [("computed", report.computed), ("too large by", report.computed - report.wanted)]
    return found


def _where(report):
    return f"{_near(report.file)}:{report.line} in {report.function}"


def _near(file):
    """A file as it is seen from the folder that one is in."""
    near = os.path.relpath(file)
    return file if near.startswith("..") else near


def _wrong(report):
    names = [f"{row.name} ({row.reason or f'error {row.error:.1e}'})" for row in report.finals
             if row.right is False]
    return [f"  so these gradients are wrong: {', '.join(names)}"] if names else []


def source_of(line):
    """{field: value} of a Blame that names a Line."""
    function = line.function
    return {"file": original_file(function.code.co_filename), "line": line.first,
            "function": function.qualname, "source": line.source}
