"""Hold the answer of `blame`, and print it as text and as HTML."""

import ast
import html
import os
import re
import textwrap
from dataclasses import dataclass, field

import numpy as np

from npdl.exceptions import to_printable
from npdl.study.containment import format_exception

# The first line of an answer that names no incorrect line. The keys are values of Blame.kind.
HEADS = {"blank": "not written yet:", "unchecked": "not checked:",
         "side effect": "incorrect, although every gradient agrees with its numerical value:"}
REMAINS = "another incorrect line remains; correct this line, and run blame again"
SHOWN = 4               # entries that are listed if two arrays look alike when they are printed; a
                        # larger number makes the report longer


@dataclass(repr=False)
class Blame:
    """The answer of `blame`: the incorrect line, what is wrong with it, and a fix.

    right         True if all gradients are correct
    rows          the comparison of each gradient, a Row (npdl.study.check.verdicts)
    notes         sentences that are printed at the end
    kind          "raised" if the line raises an exception, or "blank", "unchecked", "side effect"
                  (see HEADS), or ""
    diagnosis     a description of the mistake, such as "wrong sign"
    file, line, function, source    the incorrect statement; line is 0 if none was found
    iteration     pairs (name, value) of the loop variables
    name          the variable that the statement assigns, or "return value"
    computed      the value that the statement computed
    expected      the value that it should have computed, or None if it is unknown
    fix           a statement that replaces the incorrect one, or ""
    verified      a sentence that says which gradients are correct with the fix, or ""
    alternatives  (line, source, fix) of other statements whose fix would be enough instead
    edit          the Fix (npdl.study.blame.repair) whose text is `fix`, or None
    error         the exception that the code raised, or None
    """

    right: bool
    rows: list = field(default_factory=list)
    notes: list = field(default_factory=list)
    kind: str = ""
    diagnosis: str = ""
    file: str = ""
    line: int = 0
    function: str = ""
    source: str = ""
    iteration: tuple = ()
    name: str = ""
    computed: object = None
    expected: object = None
    fix: str = ""
    verified: str = ""
    alternatives: tuple = ()
    edit: object = None
    error: object = None

    @property
    def location(self):
        """Return the file, the line number, the function and the loop variables as text."""
        turns = ", ".join(f"{n} = {v}" for n, v in self.iteration)
        place = f"{shorten_path(self.file)}:{self.line} in {self.function}"
        return f"{place}, first at {turns}" if turns else place

    def __repr__(self):
        """Return the text that is printed."""
        if self.right:
            worst = max((row.error for row in self.rows if row.right), default=0.0)
            count = sum(bool(row.right) for row in self.rows)
            lines = [f"correct: {count} of {len(self.rows)} gradients agree with their numerical "
                     f"values (largest relative error {worst:.1e})"]
        elif self.kind in HEADS or not self.line:
            head = HEADS.get(self.kind, "incorrect, but no line was found:")
            lines = [head, *([f"  {self.location}", ""] if self.line else []), textwrap.fill(
                self.diagnosis, 92, initial_indent="  ", subsequent_indent="  ",
                break_long_words=False, break_on_hyphens=False),        # a path stays whole
                *_format_wrong_gradient_lines(self)]
        else:
            head = "this line raises an exception:" if self.kind == "raised" else \
                "incorrect line:" if self.verified else "most likely incorrect line:"
            lines = [head, f"  {self.location}", "",
                     *("    " + line.strip() for line in self.source.splitlines()), ""]
            lines += [*_format_value_lines(self), *_format_fix_lines(self),
                      *_format_wrong_gradient_lines(self)]
        return to_printable("\n".join([*lines, *(f"note: {note}" for note in self.notes)]), "\n")

    def _repr_html_(self):
        """Return HTML for a notebook, in which the incorrect line is marked."""
        colour = "#2e7d3233" if self.right else "#c6282833"
        text, line = html.escape(str(self)), html.escape(self.source.strip())
        marked = f'<mark style="background:{colour};color:inherit">{line}</mark>'
        text = text.replace(line, marked, 1) if line else text
        return f'<pre style="border-left:.4em solid {colour};padding:.2em .8em">{text}</pre>'


def make_blame(verdict, statement=None, edit=None, **fields):
    """Make a Blame from gradcheck's Verdict, the incorrect Statement, a Fix and other fields."""
    fields |= make_statement_fields(statement)
    fields |= {"edit": edit, "fix": edit.text, "diagnosis": edit.kind} if edit else {}
    return Blame(False, verdict.rows, verdict.notes, error=verdict.error, **fields)


def make_statement_fields(statement):
    """Return the fields of a Blame that name a Statement, as a dict; for None, this is {}."""
    return {} if statement is None else {
        "file": statement.function.file, "function": statement.function.qualname,
        "line": statement.first_line, "source": statement.source}


def set_candidate_values(report, localization, candidate):
    """Set `name`, `computed`, `expected` and `iteration` of a Blame, and return the Blame."""
    report.notes = [*report.notes, *[REMAINS] * bool(candidate.rest)]
    statement, key = candidate.statement, candidate.first_key_to_change
    node = statement.node
    targets = [*getattr(node, "targets", []), getattr(node, "target", None)]
    names = [ast.unparse(t) for t in targets if t is not None]
    report.name = "return value" if isinstance(node, ast.Return) else (
        names or [localization.runs.watch.expressions[key[0]].text])[0]
    report.computed = candidate.values[key]
    report.expected = candidate.expected.get(key) if candidate.unique else None
    frame = localization.frames.get(key, {})
    report.iteration = tuple(
        (n.id, int(frame[n.id])) for loop in statement.loops
        for n in ast.walk(getattr(loop, "target", loop))
        if isinstance(n, ast.Name) and isinstance(frame.get(n.id), int))
    return report


def _format_value_lines(report):
    """Return lines of text with the exception, the values and the diagnosis."""
    lines = [f"  raised     {format_exception(report.error)}"] * (report.error is not None)
    if report.name and report.computed is not None:
        lines.append(f"  computed   {report.name} {format_array(report.computed)}")
        lines += _format_expected_lines(report) if report.expected is not None else [
            "  expected   unknown: blame found no correct value of this shape, or several"]
    return lines + [f"  diagnosis  {report.diagnosis}"] * bool(report.diagnosis)


def _format_expected_lines(report):
    """Yield lines with the expected array. If both arrays print alike, list entries that differ."""
    if format_array(report.expected) != format_array(report.computed):
        yield f"  expected   {report.name} {format_array(report.expected)}"
        return
    computed, expected = np.asarray(report.computed), np.asarray(report.expected)
    far = np.abs(computed - expected) > 1e-6 * np.abs(expected).max(initial=0)
    entries = [tuple(map(int, at)) for at in np.argwhere(far)]
    yield f"  expected   {report.name} differs in {len(entries)} of {far.size} entries"
    for at in entries[:SHOWN]:
        yield f"    {list(at)}: computed {computed[at]:.4g}, expected {expected[at]:.4g}"


def _format_fix_lines(report):
    """Return lines of text with the fix and the alternatives."""
    gap = " " * 13
    if not report.fix:
        return [] if report.kind == "raised" else [
            "  fix        none found: blame tried small edits; none makes all gradients correct"]
    deleted = {"pass": "delete this line"}
    lines = [f"  fix        {deleted.get(report.fix, report.fix)}", gap + (report.verified or (
        "not verified: gradients are correct at these inputs, but not at others"))]
    for line, source, fix in report.alternatives:
        lines += [f"  or         line {line} instead: {' '.join(source.split())}",
                  f"{gap}fix: {deleted.get(fix, fix)}",
                  gap + "correcting one of these two lines is enough"]
    return lines


def _format_wrong_gradient_lines(report):
    """Return [text] with the relative errors of the wrong gradients, or [] if none is wrong."""
    wrong = [row for row in report.rows if row.right is False]
    names = [f"{row.name} (relative error {row.error:.1e})" for row in wrong if not row.kind]
    texts = [f"gradient{'s' * (len(names) > 1)} of {', '.join(names)}"] * bool(names)
    texts += [f"gradient of {row.name} {row.reason}" for row in wrong if row.kind]
    return [f"  wrong      {'; '.join(texts)}"] if wrong else []


def format_array(value):
    """Return an array as text, with its shape and the first and last entries of each axis."""
    array, shape = np.asarray(value), f"{np.shape(value)}"
    if array.ndim > 3 and array.size:                   # its brackets would fill the screen
        array = array.reshape(-1, array.shape[-1])
        shape += f", printed as {array.shape}"
    small = array.dtype.kind == "f" and np.abs(array).max(initial=0) < 1e-3
    text = re.sub(r"-0\.(?=[ \]])", " 0.", np.array2string(            # no sign of a zero
        array, precision=4, suppress_small=not small, threshold=12, edgeitems=2, max_line_width=68))
    return f"{shape} {text}" if "\n" not in text else f"{shape}\n{textwrap.indent(text, '    ')}"


def shorten_path(file):
    """Return a path relative to the current folder, or unchanged if the file is outside of it."""
    near = os.path.relpath(file)
    return file if near.startswith("..") else near
