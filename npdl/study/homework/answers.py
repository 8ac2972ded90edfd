"""Run layers on the grader's questions, and award points for the arrays that they compute.

npdl's own layer runs in the grader's process. A student's class runs in a separate process (child),
or in the tests at home.
"""

import codecs
import copy
import linecache
import sys
import traceback

import numpy as np

from npdl.study.blame.exceptions import describe_arrays
from npdl.study.containment import format_exception
from npdl.study.deviation import deviation
from npdl.study.trace.statements import parse_lines
from npdl.study.trees import copy_tree, leaves, match_inputs

LIMIT = 60.0            # time limit for a layer, in seconds
BLANK = "not written yet"
FIRST, SECOND = "the first sizes", "other sizes"        # the names of the first two cases
TOLERANCE = 1e-11       # allowed relative error; with a much larger one, finite differences would
                        # be accepted as a backward
SMALLEST = 1e-3         # if the largest entry is smaller, errors are relative to this number
FLOAT32_ROUNDING = 1e-9, 1e-5       # relative errors between which float32 is the likely cause
ADD = "Accumulate the gradients of parameters: `self.W.grad += ...`"
IMPORTS = "Import only NumPy, math, itertools and functools"
KEEP = "Don't modify `dy`, inputs, parameters and the cache"


class Refused(Exception):
    """A student's file can't be run. The text says why, and the student reads it."""


def load_class(questions, text, file, name):
    """Give the layers of the questions, {case: question}, the class `name` of a student's file.

    `text` is the content of the file, as bytes. Raises Refused if the file can't be run, or has no
    such class.
    """
    if text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):     # some editors write UTF-16
        text = text.decode("utf-16", "replace").encode()
    lines = text.decode("utf-8", "replace").splitlines(True)
    linecache.cache[file] = (0, None, lines, file)      # tracebacks then show its lines
    found = {"__name__": name}
    try:
        exec(compile(text, file, "exec", dont_inherit=True), found)
    except (Exception, SystemExit) as error:
        raise Refused(f"the file can't be run: {describe_student_error(error, file)}") from error
    if not isinstance(found.get(name), type):
        raise Refused(f"the file has no class {name}")
    for question in questions.values():
        question["layer"].__class__ = found[name]


def describe_student_error(error, file):
    """Return an exception as one line of text, which quotes the line of the student's file.

    If the exception is a ValueError, the text has the shapes of the arrays that the line reads.
    """
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {error.msg} (Python {sys.version.split()[0]})"
    if isinstance(error, NotImplementedError) and str(error).startswith("write "):
        return BLANK
    text = format_exception(error)
    for frame, number in list(traceback.walk_tb(error.__traceback__))[::-1]:
        if frame.f_code.co_filename == file:
            function = parse_lines(frame.f_code)
            line = function and function.at(number)
            read = describe_arrays(line, frame.f_locals) if line and isinstance(
                error, ValueError) else ""              # the shapes may not fit
            source = linecache.getline(file, number).strip()
            text = f"line {number}, `{source}`{f' with {read}' * bool(read)}: {text}"
            break
    return f"{text}. {IMPORTS}" if isinstance(error, ImportError) else text


def answer_all(questions, file=""):
    """Run the layers of the questions, {case: question}, and return {"case/kind/name": array}.

    There are three kinds of arrays:

        gradient  the gradients after the first backward
        again     the gradients after a second backward
        after     the arguments of forward and backward, after both have run

    If the code raises an exception, the value of "case/error" describes the exception.
    """
    found = {}
    for case, question in copy.deepcopy(questions).items():
        try:
            with np.errstate(all="ignore"):
                for path, array in _answers(**question):
                    found[f"{case}/{path}"] = array
        except (Exception, SystemExit) as error:
            found[f"{case}/error"] = describe_student_error(error, file)
    return found


def _answers(layer, inputs, options, dy, names):
    _, cache = layer.forward(*inputs, **options)
    is_float = [any(True for _ in leaves(value)) for value in inputs]
    for kind in ("gradient", "again"):
        given = copy_tree(dy)
        returned = match_inputs(layer.backward(given, cache), is_float)
        yield from _arrays(kind, dict(zip(names, returned, strict=False)))
        yield from _arrays(kind, {name: param.grad for name, param in layer.params()})
        yield from _arrays("after", {"dy": given, **dict(zip(names, inputs, strict=False))})
        yield from _arrays("after", {f"{name}.data": p.data for name, p in layer.params()})


def _arrays(kind, nests):
    for name, nest in nests.items():
        for path, array in leaves(nest, name):
            yield f"{kind}/{path}", np.array(array, float)


def award_points(found, wanted):
    """Return {point: reason} for a student's answers; the reason is "" if the point is earned.

    `found` are the student's answers, and `wanted` are those of npdl's own layer. Each gradient of
    the first case gives one point, and the other cases together give one point. The last point is
    for conventions (nothing is modified, gradients are added); it needs every gradient right.
    """
    points, other, violations = {}, [], []
    for path, array in wanted.items():
        case, kind, name = path.split("/", 2)
        given = found.get(path)
        wrong = describe_difference(given, array)
        if kind == "gradient":
            added = wanted[f"{case}/again/{name}"] - array      # 0 for an input
            if wrong and added.any() and not describe_difference(given, added):
                violations.append(f"{name}.grad is overwritten. {ADD}")
                wrong = ""
            if given is None:
                wrong = str(found.get(f"{case}/error", wrong))
            if case == FIRST:
                points[f"gradient of {name}"] = wrong
            else:
                option = f" with {case}" * (case != SECOND)
                other += [f"gradient of {name}{option}: {wrong}"] * bool(wrong)
        elif kind == "after" and given is not None and not np.array_equal(given, array):
            violations.append(f"{name} is modified. {KEEP}")
        elif kind == "again" and given is not None and wrong and not any(points.values()):
            violations.append(f"a second backward gives another gradient of {name}. {KEEP}")
    error = str(found.get(f"{FIRST}/error", ""))
    if error and set(points.values()) == {error}:       # the code raised an exception
        other, violations = [error], [error]
    elif any(points.values()):
        violations = violations or ["only judged if every gradient is right"]
    elif error:                                         # the second backward raised it
        violations = [error]
    return points | {"other sizes and options": "".join(other[:1]),
                     "conventions": "".join(violations[:1])}


def describe_difference(given, wanted):
    """Return a text on the error of an array, or "" if the array is right."""
    if not isinstance(given, np.ndarray):
        return "missing; `backward` must compute it, as an array of floats"
    if given.shape != wanted.shape:
        return f"has shape {given.shape} instead of {wanted.shape}"
    if not np.isfinite(given).all():
        return "has entries that are NaN or infinite"
    error, (low, high) = deviation(given, wanted, SMALLEST), FLOAT32_ROUNDING
    if error <= TOLERANCE:
        return ""
    hint = " (as large as float32 rounding: is something converted to float32?)"
    return f"wrong, relative error {error:.2g}{hint * (low < error < high)}"


def list_reasons(points):
    """Return lines that say why points are lost, or one line if all points have the same reason."""
    if len(set(points.values())) == 1:
        return [reason for reason in set(points.values()) if reason]
    return [f"{point}: {reason}" for point, reason in points.items() if reason]
