"""Check every numbered equation: evaluate its printed TeX with a layer's numbers.

A check is code that computes values and calls `holds(dx=dx, ...)`. This evaluates the equation
above the code, with these values for its symbols (see docs.book.equations). Variables of the code
need not be passed. Other properties are checked by `assert close(a, b)`. For an inequality, call
holds once with values for which both sides are equal, and once with others. If a sum counts from
1, pass `dict(enumerate(steps, 1))`: in a list, index -1 would hide a wrong range.

The directive {said} checks the formulas with a relation in the text above it. There
`holds("how the formula begins", ...)` selects a formula. Its code has its own variables.

The checks of a chapter share variables, in order. Predefined are np, rng, holds, close, slope,
numeric, ready, inside, every layer of npdl, and all names that npdl exports. A check fails if it
does not evaluate every statement of its equation, or if it would still pass with a relative error
of 1e-6.
"""

import linecache
import re
import traceback
import zlib
from types import SimpleNamespace

import numpy as np

import npdl
from docs.book.equations.holds import Close, Equation
from docs.book.equations.tex import NotRead
from npdl.errors import InputError
from npdl.study.check.samples import find_layer_classes
from npdl.study.check.subjects import randomise
from npdl.study.trace.watch import profile_calls


def derivative_at_0(f, spacing=1e-3):
    """Return df/dt of f(t) at 0, by fourth-order finite differences."""
    return (8 * (f(spacing) - f(-spacing)) - (f(2 * spacing) - f(-2 * spacing))) / (12 * spacing)


def numerical_gradient(f, x, upstream):
    """Return the numerical gradient of sum(f(x) * upstream) at x."""
    x = np.array(x, "float64")
    dx = np.zeros_like(x)
    for at in np.ndindex(x.shape):
        unit = np.zeros_like(x)
        unit[at] = 1.0
        dx[at] = derivative_at_0(lambda t, unit=unit: np.sum(f(x + t * unit) * upstream))
    return dx


def run_and_get_locals(function, *args, of=None, **options):
    """Return (the result of function(*args), its local variables as attributes of an object).

    If `of` is a function that it calls, return these variables of each call of `of`, in a list.
    """
    code, calls = getattr(of or function, "__func__", of or function).__code__, []

    def record_return(frame, event, arg):
        if event == "return" and frame.f_code is code:
            calls.append(SimpleNamespace(**frame.f_locals))

    with profile_calls(record_return):
        found = function(*args, **options)
    return found, calls if of else calls[-1]


def make_namespace(chapter_name):
    """Return {name: value} of the names predefined in a chapter's checks. Its name seeds `rng`."""
    rng = np.random.default_rng(zlib.crc32(chapter_name.encode()))

    def randomise_layer(layer):
        """Return the layer in float64 with random parameters, including gains and biases."""
        layer = layer.astype("float64")
        randomise(layer, rng)
        return layer

    found = find_layer_classes() | {n: getattr(npdl, n) for n in npdl.__all__}
    return found | {"np": np, "rng": rng, "numeric": numerical_gradient, "slope": derivative_at_0,
                    "inside": run_and_get_locals, "ready": randomise_layer, "__name__": "checks"}


def run_checks(chapter):
    """Run every check and {said} of a chapter; return {label: Close} and the checks' variables.

    Raises BookError for the first check that fails.
    """
    space = make_namespace(chapter.name)
    return {part.given: run_check(chapter, part, chapter.formulas[part.given], space)
            for part in chapter.find_directives("equation", "said")}, space


def evaluate_expression(expression, names):
    """Return the value of a Python expression. Raises InputError if it can't be computed."""
    try:
        return eval(expression, dict(names))
    except Exception as error:
        raise InputError(f"{expression}: {type(error).__name__}: {error}") from error


def fill_in_values(text, names):
    """Replace each {expression} or {expression::format} in a text by its value."""
    def evaluate_match(match):
        expression, _, form = match[1].partition("::")
        return evaluate_expression(f"format({expression}, {form!r})", names)
    return re.sub(r"\{([^{}]+)\}", evaluate_match, text)


def run_check(chapter, part, formulas, namespace):
    """Run one check of the equations {name: TeX}. Return its Close, or raise BookError."""
    if part.name == "said":
        namespace = namespace | {"rng": np.random.default_rng(part.line)}
    equations = {}
    for name, tex in formulas.items():
        try:
            equations[name] = Equation(tex, namespace)
        except NotRead as error:
            chapter.fail(part.line + 1, f"equation {name}: {error}")

    def check_formula(begin, names=None, /, **values):
        found = [one for tex, one in equations.items() if tex.startswith(begin)]
        if len(found) != 1:
            raise NotRead(f"{len(found)} formulas of the text above begin with {begin!r}")
        return found[0](names, **values)

    namespace["close"] = Close()
    namespace["holds"] = check_formula if part.name == "said" else equations[part.given]
    _execute_check(chapter, part, namespace)
    for name, equation in equations.items():
        _require_complete(chapter, part, name, equation)
    closes = [namespace["close"], *(equation.close for equation in equations.values())]
    return Close(sum(one.count for one in closes), max(one.worst for one in closes))


def _require_complete(chapter, part, name, equation):
    """Raise BookError if a check does not evaluate every statement, or could not fail."""
    def fail_check(reason):
        chapter.fail(part.line, f"check {name} {reason}")
    silent = set(range(1, len(equation.statements) + 1)) - equation.evaluated
    if silent:
        fail_check(f"does not evaluate statement {min(silent)} of its equation: call holds(...)")
    if not equation.close.sharp:
        fail_check("cannot fail: the compared values are zero, or its tolerance is too large")
    for number, seen in equation.bounds.items():
        for case in {"tight", "strict"} - seen:
            fail_check(f"has no {case} case of inequality {number}: call holds(...) with such "
                       "values")


def _execute_check(chapter, part, namespace):
    """Run a check's code with the line numbers of the chapter's file."""
    file = str(chapter.path)
    linecache.checkcache(file)
    try:
        with np.errstate(invalid="raise"):
            exec(compile("\n" * part.line_before_code + part.code, file, "exec"), namespace)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [one.lineno for one in frames if one.filename == file]
        line = [part.line_before_code, *lines, *filter(None, [getattr(error, "lineno", None)])][-1]
        said = str(error) or linecache.getline(file, line).strip()
        chapter.fail(line, f"check {part.given} fails: {type(error).__name__}: {said}")
