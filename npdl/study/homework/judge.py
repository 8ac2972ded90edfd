"""The questions of an exercise, and the points for the answers."""

import copy
import inspect

import numpy as np

from npdl.backend import stream
from npdl.errors import InputError
from npdl.study.check.samples import as_float64
from npdl.study.deviation import deviation
from npdl.study.homework.answers import answer_all
from npdl.study.homework.exercise import FIRST
from npdl.study.trees import cast, upstream

# Relative errors up to which an array is right; larger: finite differences are right as well.
TOLERANCE, TOLERANCE_FLOAT32 = 1e-11, 1e-3
SMALLEST = 1e-3         # errors are relative to the largest entry, or to this if that is smaller
FLOAT32_ROUNDING = 1e-9, 1e-5       # relative errors between which float32 is the likely cause
OTHER, CONVENTIONS, FLOAT32 = "other sizes and options", "conventions", "float32"
ADD = "Accumulate the gradients of parameters: `self.W.grad += ...`"
KEEP = "Don't modify `dy`, inputs, parameters and the cache"
DTYPE = "Return float32 for float32"


def ask(exercise, seed):
    """Return {case: question}: a layer with random parameters and gradients, inputs, options."""
    asked = {case: _question(*as_float64(layer, inputs, seed), options, seed)
             for case, (layer, inputs, options) in exercise.draw(seed).items()}
    first = asked[FIRST]
    return asked | {FLOAT32: _question(first["layer"], first["inputs"], first["options"], seed,
                                       "float32")}


def _question(layer, inputs, options, seed, dtype="float64"):
    layer, inputs, rng = layer.astype(dtype), cast(inputs, dtype), stream(seed, 17)
    with np.errstate(all="ignore"):
        outputs, _ = copy.deepcopy(layer).forward(*copy.deepcopy(inputs), **options)
    for _, param in layer.params():     # gradients that a backward has to add to
        param.grad = rng.standard_normal(param.shape).astype(dtype)
    return {"layer": layer, "inputs": inputs, "options": options,
            "dy": cast(upstream(outputs, stream(seed, 78)), dtype),
            "names": list(inspect.signature(type(layer).forward).parameters)[1:]}


def answer_right(asked):
    """Return {path: array}: what the layers in the questions compute, and their first gradients."""
    starts = {f"{case}/start/{name}": param.grad.copy() for case, question in asked.items()
              for name, param in question["layer"].params()}
    answers = answer_all(copy.deepcopy(asked))
    if errors := [str(answers[f"{case}/error"]) for case in asked if f"{case}/error" in answers]:
        raise InputError(f"the layer to compare with can't be run: {errors[0]}")
    return starts | answers


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
            elif case != FLOAT32:
                other += [f"gradient of {name} with {case}: {wrong}"] * bool(wrong)
            elif wrong or given.dtype != array.dtype:
                violations.append(f"gradient of {name} in a float32 layer: "
                                  f"{wrong or f'it is {given.dtype}. {DTYPE}'}")
        elif kind == "after" and given is not None and not np.array_equal(given, array):
            violations.append(f"{name} is modified. {KEEP}")
        elif kind == "again" and given is not None and wrong:
            violations.append(f"a second backward gives another gradient of {name}. {KEEP}")
    if set(points.values()) == {error := str(found.get(f"{FIRST}/error"))}:
        other, violations = [error], [error]                # the code raised, so nothing is there
    elif any(points.values()):
        violations = ["only judged if every gradient is right"]
    return points | {OTHER: "".join(other[:1]), CONVENTIONS: "".join(violations[:1])}


def difference(given, wanted):
    """Return what is wrong with an array, or "" if it is right."""
    if given is None:
        return "missing"
    if given.shape != wanted.shape:
        return f"has shape {given.shape} instead of {wanted.shape}"
    if not np.isfinite(given).all():
        return "has NaN or infinity in it"
    error, is_double = deviation(given, wanted, SMALLEST), wanted.dtype == np.float64
    if error <= (TOLERANCE if is_double else TOLERANCE_FLOAT32):
        return ""
    low, high = FLOAT32_ROUNDING
    hint = " (as large as float32 rounding: is something converted to float32?)"
    return f"wrong, relative error {error:.1e}{hint * (is_double and low < error < high)}"
