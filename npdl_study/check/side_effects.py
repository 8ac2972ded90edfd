"""What a backward does beside its gradients, which no gradient shows.

`side_effects(check)` runs the backward of a Check in other ways and compares: with an upstream
gradient that is not contiguous, a second time on one cache, after another forward, in float32, on
inputs with one more axis; and it looks whether the backward writes into what it was handed. Each
fault is a sentence.
"""

import copy
import re

import numpy as np

from npdl_study.check.adapters import Functions, ObjectRun
from npdl_study.check.verdicts import Check
from npdl_study.trees import cast, copied, leaves, mapped, restored, same

CLOSE = 1e-9                    # float64, relative to the largest entry of a gradient
CLOSE_32 = 2e-3                 # float32 against float64
FLOOR = 1e-3                    # of the largest gradient, or of 1: as large the smaller are taken
MOVED = 1e-7                    # what float32 does to a number, and to all that comes after it
FEW = 8                         # entries of each array that are looked at, with an axis more
PROMISE = re.compile(r"\(\.\.\.,|\blast axis")
HANDED = "the gradient that it is handed"


def side_effects(check):
    """Sentences about what a Check's backward does beside: its faults. What is none, and worth
    knowing, is added to the Check's notes."""
    subject, dout = check.subject, check.dout
    written = written_into(subject, dout)
    faults = [f"backward changes {what} in place: write into a new array" for what in written]
    plain = gradients(subject, copied(dout))
    ways = {"the upstream gradient is not contiguous (a transpose, a slice)":
            lambda: gradients(subject, strided(dout))}
    _, cache = subject.run()
    cache = next(iter(cache.cache), None) if isinstance(cache, ObjectRun) else cache
    graph = any(hasattr(one, "grad") for one in (cache if isinstance(cache, tuple) else [cache]))
    if set(written) <= {HANDED} and not (graph or getattr(subject.layer, "updates", False)):
                                    # else a second run sees that fault again, or nodes add up
        ways["it runs a second time on one cache: it changes the cache"] = \
            lambda: gradients(subject, copied(dout), times=2)
    empty = cache is None or isinstance(cache, (tuple, list, dict)) and not cache
    if not empty:                                       # a cache in self: there is but one
        ways["forward ran again in between, on other inputs: it reads from self what belongs in "
             "the cache"] = lambda: gradients(subject, copied(dout), between=True)
    for how, run in ways.items():
        try:
            wrong = differing(plain, run())
        except Exception as error:
            faults.append(f"it raises {type(error).__name__}: {error} when {how}")
            continue
        if wrong:
            faults.append(f"the gradient of {', '.join(wrong)} is wrong when {how}")
    return faults + in_float32(check) + with_an_axis_more(check)


def gradients(subject, dout, times=1, between=False):
    """{name: gradient} of the last of so many backwards on one cache."""
    with restored(subject.params.values(), subject.inputs), np.errstate(all="ignore"):
        _, cache = subject.run()
        if between:
            run_elsewhere(subject)
        for handed in (*[copied(dout) for _ in range(times - 1)], dout):    # it may write into it
            found, _ = subject.backward(handed, cache)
    return found


def run_elsewhere(subject):
    """A forward on new arrays, with other numbers; the layer may refuse them."""
    inputs = subject.inputs
    try:
        subject.inputs = moved(inputs)
        subject.run()
    except Exception:
        pass
    finally:
        subject.inputs = inputs


def written_into(subject, dout):
    """What the backward changes of what it was handed: "input x", "parameter W"."""
    handed = copied(dout)
    with restored(subject.params.values(), subject.inputs), np.errstate(all="ignore"):
        updates = getattr(subject.layer, "updates", False)
        arrays = {name if name.startswith("input ") else f"parameter {name}": array
                  for name, array in subject.arrays.items()
                  if name.startswith("input ") or not updates}
        before = copied(list(arrays.values()))
        _, cache = subject.run()
        subject.layer.backward(handed, cache)
        found = [name for (name, a), b in zip(arrays.items(), before, strict=True)
                 if not same(np.asarray(a), np.asarray(b))]
    whole = all(same(a, b) for (_, a), (_, b) in zip(leaves(handed), leaves(dout), strict=True))
    return found if whole else [HANDED, *found]


def in_float32(check):
    """A fault where the gradients in float32 are none, from the same numbers, in a list.

    What is allowed is what float32 does to a gradient, and what the layer makes of as small a
    change of its numbers: near a step or a kink, much.
    """
    subject = check.subject
    try:
        single = in_dtype(subject, "float32")
        double = in_dtype(single, "float64")
        dout = cast(cast(check.dout, "float32"), "float64")
        plain = gradients(double, copied(dout))
        found = gradients(single, cast(dout, "float32"))
        for name, array in double.arrays.items():
            rng = np.random.default_rng(len(name))
            array *= 1 + MOVED * rng.choice([-1.0, 1.0], array.shape)
        shaken = gradients(double, dout)
    except Exception as error:
        return [f"it raises {type(error).__name__}: {error} when all is float32"]
    wrong = differing(plain, found, CLOSE_32, shaken)
    return [f"the gradient of {', '.join(wrong)} is wrong when all is float32 (right in float64)"
            ] if wrong else []


def in_dtype(subject, dtype):
    """The Subject with everything in another dtype."""
    twin = copy.copy(subject)
    twin.layer, twin.inputs = subject.layer.astype(dtype), cast(subject.inputs, dtype)
    twin.options = {name: cast(value, dtype) for name, value in subject.options.items()}
    twin.arrays = twin.named_arrays()
    return twin


def differing(plain, other, limit=CLOSE, shaken=None):
    """The names of the gradients that differ."""
    found = []
    largest = max(1.0, *(np.abs(a).max(initial=0) for a in plain.values() if a is not None))
    for name, array in plain.items():
        if array is None:
            continue
        allowed = limit * max(np.abs(array).max(initial=0), FLOOR * largest)
        if shaken is not None:
            allowed += 10 * np.abs(shaken[name] - array).max(initial=0)
        if name not in other or np.shape(other[name]) != np.shape(array) or not (
                (np.abs(other[name] - array) <= allowed) | np.isnan(array)).all():
            found.append(name)
    return found


def strided(nest):
    """The same numbers in arrays with gaps, their axes in the other order in memory."""
    def change(leaf):
        if not isinstance(leaf, np.ndarray) or not leaf.ndim:
            return leaf
        gaps = np.full((*leaf.shape[::-1], 2), np.nan)
        view = gaps[..., 0].transpose()
        view[...] = leaf
        return view

    return mapped(nest, change)


def moved(nest):
    """New arrays with other numbers."""
    def change(leaf):
        if not isinstance(leaf, np.ndarray) or leaf.dtype.kind != "f":
            return copied(leaf)
        return leaf + 0.1 + 0.1 * np.cos(np.arange(leaf.size)).reshape(leaf.shape)

    return mapped(nest, change)


def with_an_axis_more(check):
    """The fault of a backward that is wrong on inputs with one more axis in front, in a list. Where
    forward takes them, but its layer does not promise (..., D), it is a note of the Check."""
    twin = with_another_axis(check.subject)
    if twin is None:
        return []
    try:
        wrong = [row.name for row in Check(twin, entries=FEW).verdict().wrong]
        what = f"the gradient of {', '.join(wrong)} is wrong" if wrong else ""
    except Exception as error:
        what = f"backward raises {type(error).__name__}: {error}"
    if not what:
        return []
    where = " and ".join(str(a.shape) for a in twin.inputs if isinstance(a, np.ndarray))
    if any(PROMISE.search(cls.__doc__ or "") for cls in type(check.subject.layer).__mro__):
        return [f"with an axis more, {where}, {what}"]
    check.notes.append(f"with an axis more, {where}, which forward takes, {what}")
    return []


def with_another_axis(subject):
    """The Subject on inputs with one more axis in front, of a size that no other has; None where
    forward does not take them: does not make of each what it would make of it alone."""
    arrays = [a for a in subject.inputs if isinstance(a, np.ndarray)]
    sizes = {n for a in arrays for n in a.shape}
    if isinstance(subject.layer, Functions) or not sizes:
        return None
    size = next((k for k in (2, 3, 5, 4) if k not in sizes), 6)
    twin = copy.copy(subject)
    try:
        apart = []
        with np.errstate(all="ignore"):
            for i in range(size):
                twin.inputs = slice_of(subject.inputs, i, size)
                apart.append(twin.outputs())
            twin.inputs = more(subject.inputs, size)
            outputs, _ = twin.run()
    except Exception:
        return None
    for (_, found), *alone in zip(leaves(outputs), *apart, strict=True):
        if np.shape(alone[0]) and (np.shape(found) != (size, *np.shape(alone[0]))
                                   or not np.allclose(found, alone)):
            return None
    twin.set_up(outputs)
    return twin


def more(nest, size):
    """Arrays with one more axis in front: the same numbers, a little larger each, or rolled."""
    def change(leaf):
        if not isinstance(leaf, np.ndarray) or not leaf.ndim:
            return leaf
        if leaf.dtype.kind != "f":
            return np.stack([np.roll(leaf, i) for i in range(size)])
        return np.stack([leaf * factor for factor in np.linspace(0.7, 1.3, size)])

    return mapped(nest, change)


def slice_of(nest, i, size):
    """The i-th slice of what `more` returns."""
    return mapped(nest, lambda leaf: more(leaf, size)[i] if (
        isinstance(leaf, np.ndarray) and leaf.ndim) else leaf)
