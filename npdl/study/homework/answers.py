"""Run layers on test cases, and award points for the gradients that they compute.

The answers are the arrays that a layer computes for the test cases. npdl's own layer runs in the
grader's process. A student's class runs in a separate process (`child`), or in the tests at home
(`home`).
"""

import codecs
import copy
import linecache
import sys
import traceback

import numpy as np

from npdl.study.blame.exceptions import describe_read_arrays
from npdl.study.containment import format_exception
from npdl.study.relative_error import relative_error
from npdl.study.trace.statements import make_watched_function
from npdl.study.trees import copy_tree, leaves, match_gradients_to_inputs

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


class InvalidFile(Exception):
    """A student's file can't be run. The text says why, and the student reads it."""


def use_student_class(test_cases, content, file, class_name):
    """Run a student's file, and make the layers of the test cases instances of its class.

    test_cases  {name: test case} (Exercise.make_test_cases)
    content     the content of the file, as bytes
    class_name  the name of the class
    Raises InvalidFile if the file can't be run, or has no such class.
    """
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # some editors write UTF-16
        content = content.decode("utf-16", "replace").encode()
    lines = content.decode("utf-8", "replace").splitlines(True)
    linecache.cache[file] = (0, None, lines, file)      # tracebacks then show its lines
    found = {"__name__": class_name}
    try:
        exec(compile(content, file, "exec", dont_inherit=True), found)
    except (Exception, SystemExit) as error:
        text = describe_student_error(error, file)
        raise InvalidFile(f"the file can't be run: {text}") from error
    if not isinstance(found.get(class_name), type):
        raise InvalidFile(f"the file has no class {class_name}; define this class as in the "
                          "exercise")
    for case in test_cases.values():
        case["layer"].__class__ = found[class_name]


def describe_student_error(error, file):
    """Return an exception as one line of text, which quotes the line of the student's file.

    For a ValueError, the text also has the shapes of the arrays that this line reads.
    """
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {error.msg} (Python {sys.version.split()[0]})"
    if isinstance(error, NotImplementedError) and str(error).startswith("write "):
        return BLANK
    text = format_exception(error)
    for frame, number in list(traceback.walk_tb(error.__traceback__))[::-1]:
        if frame.f_code.co_filename == file:
            function = make_watched_function(frame.f_code)
            statement = function and function.find_statement(number)
            may_be_shape_error = statement and isinstance(error, ValueError)
            read = describe_read_arrays(statement, frame.f_locals) if may_be_shape_error else ""
            source = linecache.getline(file, number).strip()
            text = f"line {number}, `{source}`{f' with {read}' * bool(read)}: {text}"
            break
    return f"{text}. {IMPORTS}" if isinstance(error, ImportError) else text


def compute_answers(test_cases, file=""):
    """Run a layer on test cases and return its answers, {"case/kind.name": array}.

    test_cases  {name: test case} (Exercise.make_test_cases)
    There are three kinds of arrays:

        gradient  the gradients after the first backward
        again     the gradients after a second backward
        after     the arguments of forward and backward, after both have run

    If the code raises an exception, the value of "case/error" describes the exception.
    """
    found = {}
    for name, case in copy.deepcopy(test_cases).items():
        try:
            with np.errstate(all="ignore"):
                for path, array in _compute_answer_arrays(**case):
                    found[f"{name}/{path}"] = np.array(array, float)
        except (Exception, SystemExit) as error:
            found[f"{name}/error"] = describe_student_error(error, file)
    return found


def _compute_answer_arrays(layer, inputs, options, dy, names):
    """Run backward twice and yield ("kind.name", array) for the answers of one test case."""
    _, cache = layer.forward(*inputs, **options)
    is_float = [any(leaves(value)) for value in inputs]
    for kind in ("gradient", "again"):
        given = copy_tree(dy)
        returned = match_gradients_to_inputs(layer.backward(given, cache), is_float)
        gradients = {name: param.grad for name, param in layer.params()}
        after = {f"{name}.data": param.data for name, param in layer.params()}
        yield from leaves({
            kind: dict(zip(names, returned, strict=False)) | gradients,
            "after": {"dy": given} | dict(zip(names, inputs, strict=False)) | after})


def compare_answers(student_answers, npdl_answers):
    """Return {point: reason} for a student's answers; the reason is "" if the point is earned.

    student_answers  the student's answers (`compute_answers`)
    npdl_answers     the answers of npdl's own layer
    Each gradient of the first case gives one point. All other cases together give one point. The
    last point is for the conventions: arguments are not modified, and gradients accumulate.
    """
    points, other, violations = {}, [], []
    for path, array in npdl_answers.items():
        case, _, place = path.partition("/")
        kind, _, name = place.partition(".")
        given = student_answers.get(path)
        wrong = describe_difference(given, array)
        if kind == "gradient":
            added = npdl_answers[f"{case}/again.{name}"] - array    # 0 for an input
            if wrong and added.any() and not describe_difference(given, added):
                violations.append(f"{name}.grad is overwritten. {ADD}")
                wrong = ""
            if given is None:
                wrong = str(student_answers.get(f"{case}/error", wrong))
            if case == FIRST:
                points[f"gradient of {name}"] = wrong
            else:
                option = f" with {case}" * (case != SECOND)
                other += [f"gradient of {name}{option}: {wrong}"] * bool(wrong)
        elif kind == "after" and given is not None and not np.array_equal(given, array):
            violations.append(f"{name} is modified. {KEEP}")
        elif kind == "again" and given is not None and wrong and not any(points.values()):
            violations.append(f"a second backward gives another gradient of {name}. {KEEP}")
    error = str(student_answers.get(f"{FIRST}/error", ""))
    if error and set(points.values()) == {error}:       # the code raised an exception
        other, violations = [error], [error]
    elif any(points.values()):
        violations = violations or ["not judged, because a gradient is wrong"]
    elif error:                                         # the second backward raised it
        violations = [error]
    return points | {"other sizes and options": "".join(other[:1]),
                     "conventions": "".join(violations[:1])}


def describe_difference(given, expected):
    """Return a text on the difference of two arrays, or "" if they agree."""
    if not isinstance(given, np.ndarray):
        return "missing; `backward` must compute it, as an array of floats"
    if given.shape != expected.shape:
        return f"has shape {given.shape} instead of {expected.shape}"
    if not np.isfinite(given).all():
        return "has entries that are NaN or infinite"
    error, (low, high) = relative_error(given, expected, SMALLEST), FLOAT32_ROUNDING
    if error <= TOLERANCE:
        return ""
    hint = " (as large as float32 rounding: is something converted to float32?)"
    return f"wrong, relative error {error:.2g}{hint * (low < error < high)}"


def explain_lost_points(points):
    """List the reason for each lost point, or one reason if it is the same for all points."""
    if len(set(points.values())) == 1:
        return [reason for reason in set(points.values()) if reason]
    return [f"{point}: {reason}" for point, reason in points.items() if reason]
