"""The check of every numbered equation: the printed TeX itself, evaluated with a layer's numbers.

A check is code that makes the numbers and calls `holds(dx=dx, ...)`: the equation above it, with
these values for its symbols (docs.book.equations). A name of the code need not be handed over.
Whatever else there is to say of a layer stands beside it as `assert close(a, b)`. An inequality is
to be asked for numbers where it is an equality, and for others. Number what a sum goes over by
`dict(enumerate(steps, 1))`: `steps[t - 1]` is the last one at 0, so a wrong range has the same sum.

What the text says between two $, with a relation, is checked by an {said} below it, whose
`holds("how the formula begins", ...)` is that equation. Its names are its own.

The checks of a chapter share one namespace, in order. It begins with np, rng, holds, close, slope,
numeric, ready, inside, every layer of npdl and all that npdl exports. A check is refused that
leaves out a statement of its equation, or would not notice that what it compares is a millionth
off.
"""

import ast
import linecache
import traceback
import zlib

import numpy as np

import npdl
from docs.book.equations.holds import Close, Equation
from docs.book.equations.measured import inside, numeric, slope
from docs.book.equations.tex import NotRead
from npdl.errors import InputError
from npdl.study.check.samples import find_layer_classes
from npdl.study.check.subjects import randomise


def namespace(name):
    """Return the names that are defined when a chapter's checks begin."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))

    def ready(layer):
        """Return the layer in float64 with random parameters, including gains and biases."""
        layer = layer.astype("float64")
        randomise(layer, rng)
        return layer

    found = find_layer_classes() | {n: getattr(npdl, n) for n in npdl.__all__}
    return found | {"np": np, "rng": rng, "numeric": numeric, "slope": slope, "inside": inside,
                    "ready": ready, "__name__": "checks"}


def run(chapter, space=None):
    """Run every check and {said} of a chapter, and return {label: Close}.

    `space`, an empty dictionary, takes the names that the checks define. Raises BookError for the
    first check that fails.
    """
    space = {} if space is None else space
    space |= namespace(chapter.name)
    return {part.given: check(chapter, part, chapter.formulas[part.given], space)
            for part in chapter.directives("equation", "said")}


def value(expression, names):
    """Return the value of an expression. Raises InputError if it can't be computed."""
    try:
        return eval(expression, dict(names))
    except Exception as error:
        raise InputError(f"{expression}: {type(error).__name__}: {error}") from error


def check(chapter, part, texts, space):
    """Run one check of the equations {name: TeX}, and return its Close.

    Raises BookError if the check fails.
    """
    if part.name == "said":
        space = space | {"rng": np.random.default_rng(part.line)}
    equations = {}
    for name, tex in texts.items():
        try:
            equations[name] = Equation(tex, space)
        except NotRead as error:
            chapter.fail(part.line + 1, f"equation {name}: {error}")

    def holds(begin, names=None, /, **values):
        found = [one for tex, one in equations.items() if tex.startswith(begin)]
        if len(found) != 1:
            raise NotRead(f"{len(found)} formulas of the text above begin with {begin!r}")
        return found[0](names, **values)

    space["close"] = Close()
    space["holds"] = holds if part.name == "said" else equations[part.given]
    _execute(chapter, part, space)
    for name, equation in equations.items():
        _whole(chapter, part, name, equation)
    closes = [space["close"], *(equation.close for equation in equations.values())]
    return Close(sum(one.count for one in closes), max(one.worst for one in closes))


def _whole(chapter, part, name, equation):
    """Refuse a check that leaves out a part of an equation, or could not fail."""
    def fail(what):
        chapter.fail(part.line, f"check {name} {what}")
    silent = set(range(1, len(equation.statements) + 1)) - equation.told
    if silent:
        fail(f"does not evaluate statement {min(silent)} of its equation: call holds(...)")
    if not equation.close.sharp:
        fail("compares nothing: what it compares is zero, or its tolerance too large")
    for number, seen in equation.bounds.items():
        for case in {"tight", "strict"} - seen:
            fail(f"has no {case} case of inequality {number}: call holds(...) for one")


def _execute(chapter, part, space):
    """Run a check's code with the line numbers of the chapter's file."""
    file = str(chapter.path)
    try:
        tree = ast.parse(part.code, file)
    except SyntaxError as error:
        chapter.fail(part.code_line + (error.lineno or 1), f"check {part.given}: {error.msg}")
    linecache.checkcache(file)
    code = compile(ast.increment_lineno(tree, part.code_line), file, "exec")
    try:
        with np.errstate(invalid="raise"):
            exec(code, space)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        line = [part.code_line, *(one.lineno for one in frames if one.filename == file)][-1]
        said = str(error) or linecache.getline(file, line).strip()
        chapter.fail(line, f"check {part.given} fails: {type(error).__name__}: {said}")
