"""In what way a value is wrong, in words: sign, factor, transposed, missing sum or term."""

import ast
import linecache
import math
import os
import textwrap
from dataclasses import dataclass, field

import numpy as np

from npdl.core import Cache
from npdl_study.containment import message
from npdl_study.trace.lines import owner
from npdl_study.trace.trace import is_helper, original_file

CLOSE = 1e-5
# What a Blame of no single line begins with, by its kind; what the kinds of edits say.
HEADS = {"blank": "not written yet:", "unchecked": "not checked:", "random": "not checked:",
         "manners": "wrong, though every gradient agrees with its numerical value:"}
SAYS = {"overwritten": "the gradient is overwritten where it must be added to (+=)",
        "sign": "the sign is wrong", "transposed": "a transpose is missing or too many",
        "missing sum": "a sum is missing", "missing term": "a term is missing",
        "missing factor": "a factor is missing", "axis": "the axis is wrong",
        "factor": "a factor is missing or wrong", "number": "the number is wrong",
        "operator": "the operation is wrong", "function": "a function is missing",
        "swapped": "two arrays are exchanged", "name": "another array is meant",
        "reversed": "a reversal is missing or too many",
        "comparison": "the mask is not that of the forward", "power": "a power is missing",
        "order": "the order is wrong", "step": "another step is meant",
        "part": "only a part of the array is used", "count": "the number is wrong",
        "brackets": "the brackets are elsewhere", "slope": "it is the slope of another function",
        "complement": "one minus it is meant", "window": "another part of the array is meant",
        "subscripts": "the subscripts are those of another order",
        "room": "a term is missing: it begins with zeros",
        "repeated": "an index that comes twice is added once only"}


@dataclass(repr=False)
class Blame:
    """What `blame` found. `right` is True when every gradient is.

    When it is not: `file`, `line`, `function` and `source` name the statement, `iteration` the
    loop variables then, `computed` and `wanted` its value and the right one (None where that is
    not known), `diagnosis` says how they differ, `lines` are all the lines that may be at fault;
    `either` are those of which each alone could mend every gradient, where there are several.
    `unreached` are the choices of a right layer that take one side only at its inputs.
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
    lines: list = field(default_factory=list)
    error: object = None
    either: tuple = ()
    unreached: list = field(default_factory=list)

    @property
    def head(self):
        return "the first line that can mend it" if self.either else "the first wrong line"

    @property
    def first_at(self):
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
        from npdl_study.blame.show_blame import blame_html

        return blame_html(self)


def ended(layer, recording, notes=()):
    """The Blame for a walk that an exception ended: the line that raised it, best in the user's
    own file. A NotImplementedError is a place that is still to be written (kind "blank").
    """
    error = recording.error
    blank = isinstance(error, NotImplementedError)
    found = Blame(False, [], list(notes), error=error, kind="blank" if blank else "raised")
    raising = [s for s in recording.steps if s.error is not None]
    if not raising and not blank:
        raising = recording.steps[-1:]                  # what it returned could not be used
    for step in sorted(raising, key=is_npdls)[:1]:
        found.file = original_file(step.call.code.co_filename)
        found.line, found.function = step.statement.first, step.call.function.qualname
        found.source, found.iteration = step.statement.source.strip(), step.iteration
    found.diagnosis = "the backward can be checked when the forward runs to its end"
    if blank:
        name = "backward(self, dout, cache)" if recording.cache is not None else "forward(self, x)"
        found.diagnosis = message(error).partition(": ")[2] or (
            "this is yours to write" if raising else f"{type(layer).__name__} has no {name} yet")
    return found


def is_npdls(step):
    return is_helper(original_file(step.call.code.co_filename))


def similar(a, b):
    """Whether two arrays of one shape agree."""
    if np.shape(a) != np.shape(b):
        return False
    scale = max(float(np.abs(b).max(initial=0)), 1e-9)
    return bool((np.abs(np.asarray(a) - b) < CLOSE * scale).all())


class Diagnosis:
    """`kind` in one word and `text` in one sentence, from an edit that helps, or from numbers."""

    def __init__(self, computed, wanted, found, step, search, explanation=None):
        self.kind, self.text = "", ""
        if found is not None:
            self._from_edit(found, computed, wanted)
        elif explanation is not None:
            self.kind, self.text = explanation.kind, explanation.text
        elif step.error is not None:
            self.kind, self.text = "raised", _what_it_read(step, search.recording)
        elif isinstance(computed, np.ndarray) and isinstance(wanted, np.ndarray):
            self._from_values(computed, wanted)
            if self.kind == "part":
                self.text += _in_parts(step, search.recording, computed, wanted)
        if self.kind != "overwritten":
            self._overwritten(search, step)

    def _from_edit(self, found, computed, wanted):
        edit = found.edit
        self.kind = edit.kind
        outcome = "every gradient" if found.everywhere else "this line"
        change = f"with `{edit.now}` in place of `{edit.was}` {outcome} is right"
        if edit.kind in ("number", "operator", "name", "extra part", "order", "count"):
            numbers = compare(computed, wanted)
            if numbers:
                self.kind, says = numbers
                change = f"{says}; {change}"
        what = SAYS.get(self.kind)
        if isinstance(found.statement.node, (ast.For, ast.While)):
            what = "the loop does not take every turn, or takes one too many"
        self.text = f"{what}; {change}" if what and not change.startswith(what) else change

    def _from_values(self, computed, wanted):
        found = compare(computed, wanted) or where_wrong(computed, wanted)
        if found:
            self.kind, self.text = found

    def _overwritten(self, search, step):
        """`self.W.grad = ...` where += belongs."""
        for source in step.statement.changes:
            if source.endswith(".grad") and isinstance(step.statement.node, ast.Assign):
                param = owner(source, step)
                for name, own in search.check.layer.params():
                    if own is param:
                        self.kind = self.kind or "overwritten"
                        self.text += "; " * bool(self.text) + (
                            f"the gradient of {name} is overwritten where it must be added to (+=)")


def compare(computed, wanted):
    """(kind, sentence) for two arrays that differ in a known way, else None."""
    if not isinstance(computed, np.ndarray) or not isinstance(wanted, np.ndarray):
        return None
    if computed.size == 0:
        return None
    if not np.isfinite(computed).all():
        return "not finite", "it has entries that are not finite, or never written"
    if similar(computed, -wanted) and np.abs(wanted).max() > 0:
        return "sign", "the sign is wrong"
    if computed.ndim >= 2 and similar(computed.swapaxes(-1, -2), wanted):
        return "transposed", "it is transposed"
    if computed.size > wanted.size:
        found = summed_axes(computed, wanted)
        if found is not None:
            return "missing sum", f"a sum over axis {found} is missing"
    if computed.shape != wanted.shape:
        return "shape", f"its shape is {computed.shape}; it must be {wanted.shape}"
    ratio = factor(computed, wanted)
    if ratio is not None:
        return "factor", f"it is {ratio} times what it should be"
    return None


def where_wrong(computed, wanted):
    """("part", sentence) when only some places along an axis are wrong, else None."""
    if computed.shape != wanted.shape or not computed.ndim:
        return None
    bad = np.abs(computed - wanted) > CLOSE * max(np.abs(wanted).max(initial=0), 1e-9)
    for axis, at in enumerate(map(np.unique, np.nonzero(bad))):
        if 0 < at.size < bad.shape[axis]:
            nothing = " (nothing arrives there)" if not computed[bad].any() else ""
            return "part", (f"it is wrong at {', '.join(map(str, at[:6]))} along axis {axis} only"
                            f"{nothing}")
    return None


def _in_parts(step, recording, computed, wanted):
    """Which names of np.concatenate([a, b]) hold what is wrong: ": in `b`"; "" for other lines."""
    value = getattr(step.statement.node, "value", None)
    parts = getattr(value.args[0], "elts", ()) if isinstance(value, ast.Call) and value.args else ()
    held = _held(step, recording)
    arrays = [held.get(ast.unparse(part)) for part in parts]
    if not arrays or any(array is None or array.ndim != computed.ndim for array in arrays):
        return ""
    for axis in range(computed.ndim):
        ends = np.cumsum([array.shape[axis] for array in arrays])
        if ends[-1] == computed.shape[axis] != arrays[0].shape[axis]:
            pairs = zip(*(np.split(a, ends[:-1], axis) for a in (computed, wanted)), parts,
                        strict=True)
            return ": in " + ", ".join(f"`{ast.unparse(part)}`" for one, other, part in pairs
                                       if not similar(one, other))
    return ""


def _held(step, recording):
    """{name: array} that the call of a step wrote before it."""
    return {w.name: w.value for s in recording.steps[: step.index] if s.call is step.call
            for w in s.writes if isinstance(w.value, np.ndarray)}


def summed_axes(computed, wanted):
    """The axis whose sum turns one array into the other, or None."""
    for axis in range(computed.ndim):
        for keep in (False, True):
            if similar(computed.sum(axis, keepdims=keep), wanted):
                return axis
    return None


def factor(computed, wanted):
    """The one number by which two arrays differ, in a readable form, or None."""
    top = np.abs(wanted).argmax()
    if wanted.flat[top] == 0 or computed.flat[top] == 0:
        return None
    ratio = float(computed.flat[top] / wanted.flat[top])
    if not similar(computed, ratio * wanted) or math.isclose(ratio, 1, rel_tol=1e-6):
        return None
    for whole in range(1, 65):
        if math.isclose(ratio, whole, rel_tol=1e-6):
            return str(whole)
        if math.isclose(ratio, 1 / whole, rel_tol=1e-6):
            return f"1/{whole}"
    return f"{ratio:.4g}"


def _what_it_read(step, recording):
    """The shapes of what a statement read, or the fields of a cache that lacks one."""
    holds = getattr(step.error, "obj", None)
    if isinstance(step.error, AttributeError) and isinstance(holds, Cache):
        return f"the cache has no {step.error.name}; it has: {', '.join(vars(holds)) or 'nothing'}"
    arrays = step.call.arguments | _held(step, recording)
    read = [f"{n} {arrays[n].shape}" for n in sorted(step.statement.reads)
            if isinstance(arrays.get(n), np.ndarray)]
    return f"the line read {', '.join(read)}" if read else "the line did not run to its end"


def shown(value, width=68):
    """An array in a line or two, its shape first."""
    if value is None:
        return "not known"
    if isinstance(value, tuple):
        return ", ".join(shown(item, width) for item in value if item is not None)
    array = np.asarray(value)
    text = np.array2string(array, precision=4, suppress_small=True, threshold=12, edgeitems=2,
                           max_line_width=width)
    return f"{array.shape} {text}" if "\n" not in text else \
        f"{array.shape}\n" + "\n".join("    " + line for line in text.splitlines())


def describe(report):
    """A Blame as text."""
    if report.right:
        lines = _right(report)
    elif report.kind in HEADS:
        place = [f"  {_where(report)}", ""] if report.kind == "blank" and report.line else []
        lines = [HEADS[report.kind], *place, textwrap.fill(
            report.diagnosis, 92, initial_indent="  ", subsequent_indent="  ")]
    else:
        lines = [*_located(report), *_wrong(report)]
    return "\n".join([*lines, *(f"note: {note}" for note in report.notes)])


def _right(report):
    worst = max((f.error for f in report.finals if not f.kink), default=0.0)
    agree = (f"{len(report.finals)} gradients agree with their numerical values (worst error "
             f"{worst:.1e})")
    missed = "; ".join(f"{_near(c.file)}:{c.line}, {c}" for c in report.unreached)
    return [f"right at these inputs; not reached: {missed}; give inputs that do",
            f"  {agree}"] if missed else [f"right: {agree}"]


def _located(report):
    """The line at fault, its numbers, and the lines that may be meant in its place."""
    if not report.line:
        raised = f"it raised {message(report.error)}; " if report.error is not None else ""
        return [f"wrong, but {raised}{report.diagnosis}"]
    lines = [f"{report.head}:", f"  {_where(report)}{report.first_at}", "",
             *("    " + line.strip() for line in report.source.splitlines()), ""]
    if report.error is not None:
        lines.append(f"  raised     {message(report.error)}")
    if report.name and report.computed is not None:
        lines.append(f"  computed   {report.name} {shown(report.computed)}")
        lines.append(f"  should be  {report.name} {shown(report.wanted)}")
    if report.diagnosis:
        lines.append(f"  diagnosis  {report.diagnosis}")
    if report.either:
        lines.append(f"  or line {', '.join(map(str, report.others))}: each of these alone can "
                     "mend every gradient that is wrong, and only one need be")
        lines += [f"    {n}  {linecache.getline(report.file, n).strip()}" for n in report.others]
    before = [f"{n} ({f})" for f, n in report.lines if (f, n) != (report.function, report.line)]
    if before and not report.kind and not report.either:
        lines.append(f"  or one of the lines that lead to it: {', '.join(before)}")
    return lines


def _where(report):
    return f"{_near(report.file)}:{report.line} in {report.function}"


def _near(file):
    """A file as it is seen from the folder that one is in."""
    near = os.path.relpath(file)
    return file if near.startswith("..") else near


def _wrong(report):
    names = [f"{f.name} ({f.note or f'error {f.error:.1e}'})" for f in report.finals
             if not f.right and not f.kink]
    return [f"  so these gradients are wrong: {', '.join(names)}"] if names else []
