"""The check of every numbered equation: the printed TeX itself, evaluated with a layer's numbers.

A check is code that makes the numbers and calls `holds(dx=dx, ...)`: the equation above it, with
these values for its symbols (npdl_study.equations). A name of the code need not be handed over.
Whatever else there is to say of a layer stands beside it as `assert close(a, b)`.

The checks of a chapter share one namespace, in order. It begins with np, rng, holds, close, slope,
numeric, ready, inside and everything of npdl. A check is refused that leaves out a statement of its
equation, or would not notice that what it compares is a millionth off.
"""

import ast
import linecache
import zlib

import numpy as np

import npdl
from npdl_study.check.subjects import randomise
from npdl_study.equations.holds import Equation
from npdl_study.equations.measured import inside, numeric, slope
from npdl_study.equations.tex import NotRead


def seed(name):
    """A chapter's own."""
    return zlib.crc32(name.encode())


def ready(layer, rng):
    """The layer in float64, its parameters random (gains and biases too)."""
    layer = layer.astype("float64")
    randomise(layer, rng)
    return layer


def namespace(name):
    """What the checks of a chapter begin with."""
    rng = np.random.default_rng(seed(name))
    found = {n: getattr(npdl, n) for n in npdl.__all__}
    return found | {"np": np, "rng": rng, "numeric": numeric, "slope": slope, "inside": inside,
                    "ready": lambda layer: ready(layer, rng), "__name__": "checks"}


def run(chapter, space=None):
    """{label: Close} of every check of a chapter; BookError for the first that fails.

    `space`, an empty dictionary, takes the names that the checks leave behind.
    """
    found, space = {}, {} if space is None else space
    space |= namespace(chapter.name)
    for part in chapter.of("check"):
        equation = chapter.equations[part.given]
        try:
            holds = Equation(equation.body, space)
        except NotRead as error:
            chapter.fail(equation.line + 1, f"equation {part.given}: {error}")
        code = _compiled(chapter, part)
        found[part.given] = space["close"] = holds.close
        space["holds"] = holds
        _execute(chapter, part, code, space)
        silent = set(range(1, len(holds.statements) + 1)) - holds.told
        if silent:
            chapter.fail(part.line, f"check {part.given} does not evaluate statement "
                                    f"{min(silent)} of its equation: call holds(...)")
        if not holds.close.sharp:
            chapter.fail(part.line, f"check {part.given} compares nothing: what it compares is "
                                    "zero, or its tolerance too large")
    return found


def _compiled(chapter, part):
    """The check's code, its lines numbered as in the chapter's file."""
    file = str(chapter.path)
    try:
        tree = ast.parse(part.body, file)
    except SyntaxError as error:
        chapter.fail(part.line + (error.lineno or 1), f"check {part.given}: {error.msg}")
    linecache.checkcache(file)
    return compile(ast.increment_lineno(tree, part.line), file, "exec")


def _execute(chapter, part, code, space):
    try:
        with np.errstate(invalid="raise"):
            exec(code, space)
    except Exception as error:
        line, at = part.line, error.__traceback__
        while at is not None:
            if at.tb_frame.f_code.co_filename == str(chapter.path):
                line = at.tb_lineno
            at = at.tb_next
        said = str(error) or linecache.getline(str(chapter.path), line).strip()
        chapter.fail(line, f"check {part.given} fails: {type(error).__name__}: {said}")
