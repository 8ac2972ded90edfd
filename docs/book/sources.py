"""List a function of npdl by statements, each with the labels of the equations it implements."""

import ast
import functools
import inspect
import linecache
import pkgutil
from dataclasses import dataclass
from pathlib import Path

from npdl.errors import InputError
from npdl.study.trace.statements import make_watched_function

ROOT = Path(__file__).resolve().parents[2]
CHECKS = {"check_gradient", "checked_gradients"}        # they check an upstream gradient
COMPUTING = (ast.BinOp, ast.UnaryOp, ast.Call, ast.Compare, ast.Slice, ast.AugAssign)


@dataclass
class Line:
    """A statement and its code, including a line such as "else:" before it.

    `cited` are the labels of its equations, or None if the chapter does not list it.
    """

    statement: object
    code: str
    cited: list = None


@dataclass
class Listing:
    """A function without its docstring: `name` LSTMCell.backward, `first` its line in the file."""

    name: str
    module: str
    first: int
    head: str
    lines: list


def find_object(target):
    """Return the object "package.module:Class.method". Raises InputError if it does not exist."""
    try:
        return pkgutil.resolve_name(target)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"{target} does not exist ({error}); write module:Class.method") from error


def make_listing(target):
    """Return the Listing of the function "module:Class.method", without citations."""
    function = inspect.unwrap(find_object(target))
    planned = make_watched_function(function.__code__)
    source, node = linecache.getlines(function.__code__.co_filename), planned.node
    end = node.body[0].end_lineno if ast.get_docstring(node) else node.body[0].lineno - 1
    head = _dedented(source[node.lineno - 1: node.body[0].lineno - 1], node.col_offset)
    lines = []
    for one in planned.statements:
        lines.append(Line(one, _dedented(source[end: one.last_line], node.col_offset)))
        end = one.last_line
    return Listing(function.__qualname__, function.__module__, function.__code__.co_firstlineno,
                   head, lines)


def _dedented(lines, indent):
    return "\n".join(line[indent:].rstrip() for line in lines if line.strip())


def make_cited_listing(chapter, part):
    """Return the Listing of a {source} directive, with the citations of its lines.

    Raises InputError if npdl has no such function, and BookError for a line that is not in the
    source, and for a statement of a backward that computes something and is not listed.
    """
    found = make_listing(part.given)
    for i, text in enumerate(part.body.split("\n"), part.line + 1):
        code, arrow, names = map(str.strip, text.partition("<-"))
        if not code:
            continue
        if not arrow:
            chapter.fail(i, f"{code!r} cites nothing: write <- and the equation's label, or only "
                            "<- if it has none")
        line = next((line for line in found.lines if line.cited is None
                     and normalise_code(line.statement.source) == normalise_code(code)), None)
        if line is None:
            chapter.fail(i, f"{code!r} is not a line of {found.name}; copy it from {found.module}, "
                            f"lines {found.first} on")
        line.cited = names.split()
    for line in found.lines:
        if "backward" in found.name and line.cited is None and _needs_equation(line.statement):
            chapter.fail(part.line, f"{found.name}: {line.code.strip()!r} cites no equation: list "
                                    "it with <- and the equation's label, or with <- alone")
    return found


@functools.lru_cache(maxsize=4096)
def normalise_code(code):
    """Return a statement, or the head of a block, in the format of ast.unparse."""
    for tail in ("", "\n pass"):
        try:
            return ast.unparse(ast.parse(code.strip() + tail))
        except SyntaxError:
            continue
    return " ".join(code.split())


def _needs_equation(statement):
    """Return True if a statement computes more than x[i], and does more than check a gradient."""
    parts = list(ast.walk(statement.node))
    called = {getattr(part.func, "id", "") for part in parts if isinstance(part, ast.Call)}
    return statement.is_simple and not called & CHECKS and any(
        isinstance(part, COMPUTING) for part in parts)
