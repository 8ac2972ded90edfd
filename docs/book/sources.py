"""A function of npdl beside its mathematics: each line, its formula, the equations it comes from.

The formula of a line is the one that `npdl.study.step.maths` reads out of it, as on the step page.
"""

import ast
import functools
import importlib
import inspect
import linecache
from dataclasses import dataclass, field
from pathlib import Path

from docs.book.chapter import labels
from npdl.study.step import maths
from npdl.study.step.fold import is_checking
from npdl.study.trace.statements import lines_of

ROOT = Path(__file__).resolve().parents[2]
PLUMBING = "-- plumbing:"


@dataclass
class Line:
    """A statement: its source without comment, `comment`, MathML, the labels it comes from.

    `above` are the lines between the statement before and this one, such as "else:".
    """

    statement: object
    code: str
    comment: str
    formula: str
    said: str
    above: list
    cited: list = field(default_factory=list)


@dataclass
class Listing:
    """A function: `name` LSTMCell.backward, `file` from the root, its first line, its Lines."""

    name: str
    module: str
    first: int
    head: str
    lines: list

    @property
    def text(self):
        """Return the function as it is printed, without its docstring and its comments."""
        return "\n".join([self.head, *(code for line in self.lines
                                       for code in (*line.above, line.code))])


def find(target):
    """Return the object named "package.module:Class.method". Raises LookupError without one."""
    module, _, path = target.partition(":")
    try:
        found = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise LookupError(f"{target} is not there ({error}); write module:Class.method") from error
    return found


def listing(target):
    """Return the Listing of "module:Class.method", without citations."""
    function = inspect.unwrap(find(target))
    planned = lines_of(function.__code__)
    source = linecache.getlines(function.__code__.co_filename)
    start, body = planned.node.lineno, planned.node.body[0].lineno
    indent = len(source[start - 1]) - len(source[start - 1].lstrip())
    head = "".join(source[start - 1: body - 1]).strip("\n")
    first = function.__code__.co_firstlineno
    ends = [_docstring_end(planned.node), *(one.last for one in planned.lines)]
    lines = [Line(one, _code(source, one, indent), one.comment,
                  maths.mathml(one.node) if one.is_simple else "",
                  maths.text(one.node) if one.is_simple else "",
                  _between(source, end, one.first, indent))
             for end, one in zip(ends, planned.lines, strict=False)]
    text = "\n".join(line[indent:] for line in head.split("\n"))
    module = function.__module__
    return Listing(function.__qualname__, module, first, text, lines)


def _docstring_end(function):
    """Return the last line of a function's docstring, or the line before its body."""
    first = function.body[0]
    return first.end_lineno if ast.get_docstring(function) else first.lineno - 1


def _between(source, end, first, indent):
    """Return the lines of code after line `end` and before line `first`, without comments."""
    lines = (line[indent:] for line in source[end: first - 1])
    return [line for line in (line[:_comment_at(line)].rstrip() for line in lines) if line]


def _code(source, statement, indent):
    """Return a statement's lines without their comments, indented as in the function."""
    found = []
    for n in range(statement.first, statement.last + 1):
        line = source[n - 1].rstrip("\n")[indent:]
        if statement.comment:
            at = _comment_at(line)
            line = line[:at].rstrip()
        if line.strip():
            found.append(line)
    return "\n".join(found)


def _comment_at(line):
    """Return the index of a line's first # outside strings, or the line's length."""
    quote = ""
    for i, letter in enumerate(line):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter == "#":
            return i
    return len(line)


def cited(chapter, part):
    """Return the Listing of a {source} directive, its lines with their citations.

    Raises BookError for a line that is not in the source, and for a statement of a backward that is
    neither cited nor listed as plumbing.
    """
    try:
        found = listing(part.given)
    except LookupError as error:
        chapter.fail(part.line, str(error))
    told, plumbing, marks = set(), False, {}
    for i, text in enumerate(part.body.split("\n"), part.line + 1):
        text = text.strip()
        if text.startswith(PLUMBING):
            plumbing, text = True, text.removeprefix(PLUMBING).strip()
        if not text:
            continue
        code, arrow, names = text.partition("<-")
        if not plumbing and not arrow:
            chapter.fail(i, f"{code.strip()!r} cites nothing: write <- and the equation's label, "
                            f"or list it after {PLUMBING}")
        at = _place(found, code.strip(), told)
        if at is None:
            chapter.fail(i, f"{code.strip()!r} is no line of {found.name}; copy it from "
                            f"{found.module}, lines {found.first} on")
        told.add(at)
        marks[at] = labels(names)
    asked = "backward" in found.name
    for i, line in enumerate(found.lines):
        line.cited = marks.get(i, [])
        if asked and i not in told and not _may_be_silent(line.statement):
            chapter.fail(part.line, f"{found.name}: {line.code.strip()!r} cites no equation; give "
                                    f"it one (<- label), or list it after {PLUMBING}")
    return found


def _place(found, code, told):
    """Return the index of the first statement that equals `code` and is not in `told`, or None."""
    wanted = _plain(code)
    return next((i for i, line in enumerate(found.lines)
                 if i not in told and wanted in (_plain(line.code), _plain(line.statement.source))),
                None)


@functools.lru_cache(maxsize=4096)
def _plain(code):
    """Return a statement, or the head of one, in a normal form."""
    code = "\n".join(line[:_comment_at(line)] for line in code.split("\n")).strip()
    for tail in ("", " pass"):
        try:
            return ast.unparse(ast.parse(code + tail))
        except SyntaxError:
            continue
    return " ".join(code.split())


def _may_be_silent(statement):
    """Return True if a statement needs no equation.

    This holds for checks, for heads of loops, for reading fields of the cache, and for returning
    variables.
    """
    node = statement.node
    if not statement.is_simple or is_checking(node):
        return True
    if isinstance(node, ast.Assign):
        value = node.value
        parts = value.elts if isinstance(value, ast.Tuple) else [value]
        return all(isinstance(p, ast.Attribute) and ast.unparse(p).startswith("cache.")
                   for p in parts)
    if isinstance(node, ast.Return) and node.value is not None:
        return all(isinstance(n, (ast.Name, ast.Tuple, ast.Load)) for n in ast.walk(node.value))
    return not isinstance(node, (ast.AugAssign, ast.Return, ast.Expr))
