"""Bad arrays to every layer, loss and model: refused by name, or taken because they are right.

Each gradient-check case gives a layer and right inputs; here one array of them is spoilt. What is
no array of real numbers must be refused. Any other array is refused too, or else it works: then
backward takes it as well, and gives every input a gradient of its own shape.
"""

import re

import numpy as np
import pytest

from npdl.errors import InputError
from npdl.layers.transformer import Same
from npdl_study.trees import leaves
from tests.tools.cases import all_cases
from tests.tools.running import build

SPOILT = {                                      # of an array `a`; None where it is no change
    "objects": lambda a: a.astype(object),
    "text": lambda a: a.astype("U8"),
    "complex numbers": lambda a: a.astype(complex),
    "one number": lambda a: np.array(a.ravel()[0]) if a.size and a.ndim else None,
    "an empty array": lambda a: a[:0] if a.ndim else None,
    "no steps": lambda a: a[:, :0] if a.ndim > 1 else None,
    "no width": lambda a: a[..., :0] if a.ndim else None,
    "an axis more": lambda a: a[None],
    "an axis less": lambda a: a[0] if a.ndim and len(a) else None,
    "a narrower array": lambda a: a[..., :-1] if a.ndim else None,
    "a wider array": lambda a: np.concatenate([a, a], -1) if a.ndim else None,
    "fewer rows": lambda a: a[:-1] if a.ndim else None,
    "more rows": lambda a: np.concatenate([a, a]) if a.ndim else None,
    "floats for integers": lambda a: a.astype(float) if a.dtype.kind in "iub" else None,
    "integers for floats": lambda a: a.astype(int) if a.dtype.kind == "f" else None,
    "bools": lambda a: a.astype(bool) if a.dtype.kind != "b" else None,
    "negative numbers": lambda a: -1 - a if a.dtype.kind == "i" else None,
    "large numbers": lambda a: a + 10**6 if a.dtype.kind == "i" else None,
}
NEVER = ("objects", "text", "complex numbers")


def arrays_of(nest, path=()):
    """Yield (path, array) for every array of a nest of tuples, lists and dicts."""
    if isinstance(nest, np.ndarray):
        yield path, nest
    elif isinstance(nest, (tuple, list, dict)) and not hasattr(nest, "_fields"):
        for key, item in nest.items() if isinstance(nest, dict) else enumerate(nest):
            yield from arrays_of(item, (*path, key))


def with_other(nest, path, value):
    """The same nest with another value at one place."""
    if not path:
        return value
    if isinstance(nest, dict):
        return {**nest, path[0]: with_other(nest[path[0]], path[1:], value)}
    return tuple(with_other(item, path[1:], value) if i == path[0] else item
                 for i, item in enumerate(nest))


def given_to(built):
    """Everything that a user hands to a forward."""
    return {**dict(enumerate(built.inputs)), **built.options}


def chosen_cases():
    """Of each layer as many cases as have another number or kind of inputs."""
    found, cases = {}, all_cases()
    plain = {case.layer_class for case in cases if case.forward is None}
    for case in cases:
        direct = case.forward is None or case.layer_class not in plain
        if direct and case.layer_class is not Same:     # it hands on whatever it is given
            kinds = tuple((path, a.dtype.kind, a.ndim) for path, a in
                          arrays_of(given_to(build(case))))
            found.setdefault((case.layer_class, kinds), case)
    return list(found.values())


CASES = chosen_cases()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_spoilt_arrays(case):
    places = [place for place, _ in arrays_of(given_to(build(case)))]
    bad = [f"{what} for {place}: {problem}" for place in places for what in SPOILT
           if (problem := tried(case, place, what)) is not None]
    assert not bad, "\n" + "\n".join(bad)


def tried(case, place, what):
    """What is wrong with how a layer takes a spoilt array, or None."""
    built = build(case)
    with np.errstate(invalid="ignore"):                 # a cast of NaN to an integer
        value = SPOILT[what](dict(arrays_of(given_to(built)))[place])
    if value is None:
        return None
    given = with_other(given_to(built), place, value)
    built.inputs = tuple(given[i] for i in range(len(built.inputs)))
    built.options = {name: given[name] for name in built.options}
    try:
        with np.errstate(all="ignore"):
            outputs, cache = built.forward()
    except InputError as error:
        said = re.search(r"\d|\(\)|dtype", str(error))     # a shape, a number, of what kind
        return None if said and "\n" not in str(error) else f"does not say what came: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:90]}"
    if what in NEVER:
        return "was taken"
    return undone(built, outputs, cache)


def undone(built, outputs, cache):
    """What is wrong with the backward after an input that was taken, or None."""
    if not list(leaves(outputs)):
        return None                             # integers came out: nothing has a gradient
    try:
        with np.errstate(all="ignore"):
            returned = built.layer.backward(built.upstream(outputs), cache)
    except Exception as error:
        return f"was taken, but backward: {type(error).__name__}: {str(error)[:90]}"
    returned = returned if isinstance(returned, tuple) else (returned,)
    for i, (value, gradient) in enumerate(zip(built.inputs, returned, strict=False)):
        if isinstance(value, np.ndarray) and isinstance(gradient, np.ndarray):
            if value.shape != gradient.shape:
                return f"was taken, but input {i} {value.shape} has gradient {gradient.shape}"
    return None
