"""The points for what a student's layer answers."""

import copy

import numpy as np

from npdl.study.deviation import deviation
from npdl.study.homework.answers import answer_all
from npdl.study.homework.exercise import FIRST

TOLERANCE = 1e-11       # relative errors up to here are right; larger: finite differences are, too
SMALLEST = 1e-3         # errors are relative to the largest entry, or to this if that is smaller
FLOAT32_ROUNDING = 1e-9, 1e-5       # relative errors between which float32 is the likely cause
OTHER, CONVENTIONS = "other sizes and options", "conventions"
ADD = "Accumulate the gradients of parameters: `self.W.grad += ...`"
KEEP = "Don't modify `dy`, inputs, parameters and the cache"


def answer_right(asked):
    """Return {path: array}: what the layers in the questions compute, and their first gradients."""
    starts = {f"{case}/start/{name}": param.grad.copy() for case, question in asked.items()
              for name, param in question["layer"].params()}
    return starts | answer_all(copy.deepcopy(asked))


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
    return points | {OTHER: "".join(other[:1]), CONVENTIONS: "".join(violations[:1])}


def difference(given, wanted):
    """Return what is wrong with an array, or "" if it is right."""
    if not isinstance(given, np.ndarray):
        return "missing"
    if given.shape != wanted.shape:
        return f"has shape {given.shape} instead of {wanted.shape}"
    if not np.isfinite(given).all():
        return "has NaN or infinity in it"
    error, (low, high) = deviation(given, wanted, SMALLEST), FLOAT32_ROUNDING
    hint = " (as large as float32 rounding: is something converted to float32?)"
    return f"wrong, relative error {error:.1e}{hint * (low < error < high)}" * (error > TOLERANCE)
