"""A mistake made in npdl's own source, and what `blame` says of it.

Where no gradient tells, in an update or a search, a number does: `> expression` is computed from
what the chapter's checks have left, as the source is and with the mistake.
"""

import contextlib
import inspect
import linecache
import warnings
from dataclasses import dataclass
from types import FunctionType
from unittest import mock

import numpy as np

from docs.book.checks import value
from docs.book.sources import ROOT, find, plain
from npdl.errors import InputError
from npdl.study.blame import blame as blaming
from npdl.study.check.samples import sample
from npdl.study.check.target import find_class
from npdl.study.trace.source import find_code, patch_code
from npdl.study.trace.statements import describe_function


@dataclass
class Mistake:
    """`was` became `now`, because of `why`. It is blamed, or the expression `asked` is computed.

    `said` is the result; `other` says why blame is right to name another line first.
    """

    line: int
    was: str
    now: str
    why: str = ""
    other: str = ""
    asked: str = ""
    said: str = ""


def mistakes(chapter, part, space):
    """Make each of a directive's Mistakes, and run `blame` on it or compute with it.

    `space` holds the names of the chapter's checks. Raises BookError if `blame` finds nothing, or
    first names another line and the chapter does not say why.
    """
    made, (target, *layer) = read_mistakes(chapter, part), part.given.split()
    for mistake in made:
        try:
            function, statement = changed(find(target), mistake.was)
            edit = edited(function, statement, mistake.now)
            if mistake.asked:
                mistake.said = _computed(mistake, space, edit)
            else:
                name = layer[0] if layer else target.partition(":")[2]
                mistake.said = _blamed(mistake, name, function, statement, edit)
        except InputError as error:
            chapter.fail(mistake.line, str(error))
    return made


def _blamed(mistake, name, function, statement, edit):
    """Return what blame says of a layer.

    The limit of time is 10 minutes, so that the limit of work, which is as usual, ends the search:
    the answer then doesn't depend on how fast or busy the machine is. Raises InputError if blame
    names another line without a reason.
    """
    with edit, contextlib.chdir(ROOT), warnings.catch_warnings(), mock.patch.object(
            blaming, "SECONDS", 600.0):
        warnings.simplefilter("ignore")
        layer, inputs, options = sample(find_class(name))
        report = blaming.blame(layer, *inputs, **options)
    if report.right:
        raise InputError(f"blame finds nothing wrong with {mistake.now!r}")
    named = report.file, report.function, report.line
    meant = function.__code__.co_filename, function.__qualname__, statement.first_line
    if named != meant and not mistake.other:
        raise InputError(f"blame first names line {report.line} of {report.function}, not "
                         f"{mistake.now!r}: improve blame, or say why that line is rightly the "
                         "first, in a line below: ! why")
    if named == meant and mistake.other:
        raise InputError(f"blame first names {mistake.now!r} itself: take the ! line out")
    return str(report)


def _computed(mistake, space, edit):
    """Return the value of the mistake's expression, with the source as it is and changed."""
    values = []
    with np.errstate(all="ignore"), np.printoptions(precision=4, suppress=True):
        for way in (contextlib.nullcontext(), edit):
            with way:
                values.append(str(value(mistake.asked, space)))
    if values[0] == values[1]:
        raise InputError(f"{mistake.asked} is {values[0]} with {mistake.now!r} too")
    return "as it is:         {}\nwith the mistake: {}".format(*(
        text.replace("\n", "\n" + 18 * " ") for text in values))


def read_mistakes(chapter, part):
    """Return the Mistakes that a directive lists, without making them."""
    made = []
    for i, text in enumerate(part.body.split("\n"), part.line + 1):
        if text.startswith((":", ">", "!")):
            if not made:
                chapter.fail(i, "a reason before its mistake: write old -> new first")
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


def changed(found, code):
    """Return (function, statement) of the statement `code` in a function or a class.

    A class's backward is searched first, and its forward last. Raises InputError for no statement.
    """
    own = [found] if isinstance(found, FunctionType) else [
        f for f in vars(found).values() if isinstance(f, FunctionType)]
    for function in sorted(own, key=lambda f: (f.__name__ != "backward", f.__name__ == "forward")):
        planned = describe_function(inspect.unwrap(function).__code__)
        for statement in planned.lines if planned else ():
            if plain(statement.source) == plain(code):
                return inspect.unwrap(function), statement
    raise InputError(f"{code!r} is no statement of {found.__qualname__}; copy one")


@contextlib.contextmanager
def edited(function, statement, now):
    """Run a function with `now` in place of the statement in the block.

    linecache holds the edited file, so that a report shows the lines that ran.
    """
    file = function.__code__.co_filename
    lines = linecache.getlines(file)
    indent = " " * statement.node.col_offset
    edited = [indent + now + "\n"] + ["\n"] * (statement.last_line - statement.first_line)
    text = lines[: statement.first_line - 1] + edited + lines[statement.last_line:]
    code = find_code(compile("".join(text), file, "exec"), function.__qualname__)
    with patch_code(function, code), mock.patch.dict(linecache.cache, {
            file: (len("".join(text)), None, text, file)}):
        yield
