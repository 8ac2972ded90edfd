"""Run layers on the grader's questions, and award points for the arrays that they compute.

The reference runs in the grader's process, a student's class in a process of its own (child) and in
the tests at home.
"""

import codecs
import copy
import linecache
import sys
import traceback

import numpy as np

from npdl.study.deviation import deviation
from npdl.study.trees import by_input, copied, leaves

LIMIT = 60.0            # seconds for a layer
BLANK = "not written yet"
FIRST, SECOND = "the first sizes", "other sizes"        # what the first two cases are called
TOLERANCE = 1e-11       # relative errors up to here are right; larger: finite differences are, too
SMALLEST = 1e-3         # errors are relative to the largest entry, or to this if that is smaller
FLOAT32_ROUNDING = 1e-9, 1e-5       # relative errors between which float32 is the likely cause
ADD = "Accumulate the gradients of parameters: `self.W.grad += ...`"
KEEP = "Don't modify `dy`, inputs, parameters and the cache"


class Refused(Exception):
    """A file can't be graded; the text is the reason, for the student."""


def as_class(questions, cls):
    """Return the grader's questions, {case: question}, about layers of a student's class."""
    for question in questions.values():
        question["layer"].__class__ = cls
    return questions


def load_class(text, file, name):
    """Return the class `name` of a student's file, whose content is given as bytes.

    Raises Refused if the file can't be run or has no such class.
    """
    if text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):     # as some editors write
        text = text.decode("utf-16", "replace").encode()
    lines = text.decode("utf-8", "replace").splitlines(True)
    linecache.cache[file] = (0, None, lines, file)      # so that nobody has to read the file again
    found = {"__name__": name}
    try:
        exec(compile(text, file, "exec", dont_inherit=True), found)
    except (Exception, SystemExit) as error:
        raise Refused(f"the file can't be run: {describe(error, file)}") from error
    if not isinstance(found.get(name), type):
        raise Refused(f"the file has no class {name}")
    return found[name]


def describe(error, file):
    """Return an exception as one line, with the last line of the student's file it came through."""
    if isinstance(error, SyntaxError):
        return (f"line {error.lineno}: {error.msg} (Python {sys.version_info[0]}."
                f"{sys.version_info[1]} reads it, and knows no newer syntax)")
    if isinstance(error, NotImplementedError) and str(error).startswith("write "):
        return BLANK
    lines = [f"line {frame.lineno}, `{frame.line}`: "
             for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f"{''.join(lines[-1:])}{type(error).__name__}: {str(error)[:500]}".rstrip(": ")


def answer_all(questions, file=""):
    """Return {"case/kind/name": array} that the layers of {case: question} compute.

    Kinds: gradient; again, the gradients after a second backward; after, the arrays that forward
    and backward were given. "case/error" is a sentence, if the code raised.
    """
    found = {}
    for case, question in copy.deepcopy(questions).items():
        try:
            with np.errstate(all="ignore"):
                for path, array in _answers(**question):
                    found[f"{case}/{path}"] = array
        except (Exception, SystemExit) as error:
            found[f"{case}/error"] = describe(error, file)
    return found


def _answers(layer, inputs, options, dy, names):
    _, cache = layer.forward(*inputs, **options)
    is_float = [any(True for _ in leaves(value)) for value in inputs]
    for kind in ("gradient", "again"):
        given = copied(dy)
        returned = by_input(layer.backward(given, cache), is_float)
        yield from _arrays(kind, dict(zip(names, returned, strict=False)))
        yield from _arrays(kind, {name: param.grad for name, param in layer.params()})
        yield from _arrays("after", {"dy": given, **dict(zip(names, inputs, strict=False))})
        yield from _arrays("after", {f"{name}.data": p.data for name, p in layer.params()})


def _arrays(kind, nests):
    for name, nest in nests.items():
        for path, array in leaves(nest, name):
            yield f"{kind}/{path}", np.array(array, float)


def answer_right(asked):
    """Return {path: array}: what the layers in the questions compute, and their first gradients."""
    starts = {f"{case}/start/{name}": param.grad.copy() for case, question in asked.items()
              for name, param in question["layer"].params()}
    return starts | answer_all(asked)


def award(found, wanted):
    """Return {point: ""}, or the reason why the point is lost, for a student's answers.

    One point for each gradient of the first case, one for the other cases, and one for the
    conventions, if all gradients of the first case are right.
    """
    points, other, violations = {}, [], []
    for path, array in wanted.items():
        case, kind, name = path.split("/", 2)
        given, start = found.get(path), wanted.get(f"{case}/start/{name}")
        wrong = difference(given, array)
        if kind == "gradient":
            if wrong and start is not None and not difference(given, array - start):
                violations.append(f"{name}.grad is overwritten. {ADD}")
                wrong = ""
            if given is None:
                wrong = str(found.get(f"{case}/error", wrong))
            if case == FIRST:
                points[f"gradient of {name}"] = wrong
            else:
                other += [f"gradient of {name} with {case}: {wrong}"] * bool(wrong)
        elif kind == "after" and given is not None and not np.array_equal(given, array):
            violations.append(f"{name} is modified. {KEEP}")
        elif kind == "again" and given is not None and wrong:
            violations.append(f"a second backward gives another gradient of {name}. {KEEP}")
    error = str(found.get(f"{FIRST}/error", ""))
    if error and set(points.values()) == {error}:       # the code raised, so nothing is there
        other, violations = [error], [error]
    elif any(points.values()):
        violations = ["only judged if every gradient is right"]
    elif error:                                         # in the second backward
        violations = [error]
    return points | {"other sizes and options": "".join(other[:1]),
                     "conventions": "".join(violations[:1])}


def difference(given, wanted):
    """Return what is wrong with an array, or "" if it is right."""
    if not isinstance(given, np.ndarray):
        return "missing, or not an array of floats"
    if given.shape != wanted.shape:
        return f"has shape {given.shape} instead of {wanted.shape}"
    if not np.isfinite(given).all():
        return "has NaN or infinity in it"
    error, (low, high) = deviation(given, wanted, SMALLEST), FLOAT32_ROUNDING
    if error <= TOLERANCE:
        return ""
    hint = " (as large as float32 rounding: is something converted to float32?)"
    return f"wrong, relative error {error:.1e}{hint * (low < error < high)}"


def list_reasons(points):
    """Return why points are lost, as lines; a reason that all have in common is one line."""
    if len(set(points.values())) == 1:
        return [reason for reason in set(points.values()) if reason]
    return [f"{point}: {reason}" for point, reason in points.items() if reason]
