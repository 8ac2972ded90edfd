"""Apply the mistakes of a {mistakes} directive to npdl's source, and run `blame` on each.

A mistake in an update rule or a search changes no gradient. Then a line `> expression` is
evaluated with the names of the chapter's checks, once without and once with the mistake.
"""

import contextlib
import inspect
import linecache
import warnings
from dataclasses import dataclass
from types import FunctionType
from unittest import mock

import numpy as np

from docs.book.checks import evaluate_expression
from docs.book.sources import ROOT, find_object, normalise_code
from npdl.errors import InputError
from npdl.study.blame import blame as blaming
from npdl.study.check.samples import make_example_call
from npdl.study.check.target import find_class
from npdl.study.trace.source import find_code, patch_code
from npdl.study.trace.statements import make_watched_function


@dataclass
class Mistake:
    """The statement `was` is replaced by `now`, which is wrong because of `why`.

    `said` is the report of `blame`, or, if `asked` is an expression, its values. `other` is the
    reason why blame rightly names another line first.
    """

    line: int
    was: str
    now: str
    why: str = ""
    other: str = ""
    asked: str = ""
    said: str = ""


def try_mistakes(chapter, part, namespace):
    """Return the Mistakes of a directive, with the result of `blame` or of their expression.

    Raises BookError if `blame` finds nothing, or first names another line without a reason.
    """
    made, (target, *layer) = read_mistakes(chapter, part), part.given.split()
    for mistake in made:
        try:
            function, statement = find_statement(find_object(target), mistake.was)
            mistake_made = replaced_statement(function, statement, mistake.now)
            if mistake.asked:
                mistake.said = _compare_values(mistake, namespace, mistake_made)
            else:
                name = layer[0] if layer else target.partition(":")[2]
                mistake.said = _check_blame(mistake, name, function, statement, mistake_made)
        except InputError as error:
            chapter.fail(mistake.line, str(error))
    return made


def _check_blame(mistake, class_name, function, expected_statement, mistake_made):
    """Return the report of `blame` on a layer with a mistake, as text.

    The time limit is 10 minutes, so that the usual limit of work ends the search, and the answer
    does not depend on the machine's speed. Raises InputError if blame first names another line and
    the mistake has no reason for this.
    """
    with mistake_made, contextlib.chdir(ROOT), warnings.catch_warnings(), mock.patch.object(
            blaming, "SECONDS", 600.0):
        warnings.simplefilter("ignore")
        layer, inputs, options = make_example_call(find_class(class_name))
        report = blaming.blame(layer, *inputs, **options)
    if report.right:
        raise InputError(f"blame finds nothing wrong with {mistake.now!r}")
    named = report.file, report.function, report.line
    meant = function.__code__.co_filename, function.__qualname__, expected_statement.first_line
    if named != meant and not mistake.other:
        raise InputError(f"blame first names line {report.line} of {report.function}, not "
                         f"{mistake.now!r}: improve blame, or say why that line is rightly the "
                         "first, in a line below: ! why")
    if named == meant and mistake.other:
        raise InputError(f"blame first names {mistake.now!r} itself: remove the ! line")
    return str(report)


def _compare_values(mistake, namespace, mistake_made):
    """Return text with the value of the mistake's expression, without and with the mistake."""
    values = []
    with np.errstate(all="ignore"), np.printoptions(precision=4, suppress=True):
        for way in (contextlib.nullcontext(), mistake_made):
            with way:
                values.append(str(evaluate_expression(mistake.asked, namespace)))
    if values[0] == values[1]:
        raise InputError(f"{mistake.asked} is {values[0]} with {mistake.now!r}, too")
    return "as it is:         {}\nwith the mistake: {}".format(*(
        text.replace("\n", "\n" + 18 * " ") for text in values))


def read_mistakes(chapter, part):
    """Return the Mistakes that a directive lists, without results."""
    made = []
    for i, text in enumerate(part.body.split("\n"), part.line + 1):
        if text.startswith((":", ">", "!")):
            if not made:
                chapter.fail(i, "a reason comes before its mistake; first write old -> new")
            field = {":": "why", ">": "asked", "!": "other"}[text[0]]
            setattr(made[-1], field, f"{getattr(made[-1], field)} {text[1:].strip()}".strip())
        elif text.strip():
            was, arrow, now = text.partition(" -> ")
            if not arrow or not was.strip() or not now.strip():
                chapter.fail(i, f"{text!r}: a mistake is written old -> new")
            made.append(Mistake(i, was.strip(), now.strip()))
    if not made:
        chapter.fail(part.line, "no mistakes: write old -> new")
    return made


def find_statement(target, code):
    """Return (function, statement) of the statement `code` in `target`, a function or class.

    Raises InputError if there is none.
    """
    functions = [target] if isinstance(target, FunctionType) else [
        f for f in vars(target).values() if isinstance(f, FunctionType)]
    for function in functions:
        planned = make_watched_function(inspect.unwrap(function).__code__)
        for statement in planned.statements if planned else ():
            if normalise_code(statement.source) == normalise_code(code):
                return inspect.unwrap(function), statement
    raise InputError(f"{code!r} is not a statement of {target.__qualname__}; copy one")


@contextlib.contextmanager
def replaced_statement(function, statement, new_code):
    """Return a context in which `function` has `new_code` in place of the statement.

    linecache then holds the edited file, so reports show the lines that ran.
    """
    file = function.__code__.co_filename
    lines = linecache.getlines(file)
    indent = " " * statement.node.col_offset
    edited = [indent + new_code + "\n"] + ["\n"] * (statement.last_line - statement.first_line)
    text = lines[: statement.first_line - 1] + edited + lines[statement.last_line:]
    code = find_code(compile("".join(text), file, "exec"), function.__qualname__)
    with patch_code(function, code), mock.patch.dict(linecache.cache, {
            file: (len("".join(text)), None, text, file)}):
        yield
