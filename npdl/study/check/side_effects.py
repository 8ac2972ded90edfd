"""Find errors of a backward that its gradients alone do not show.

`side_effects(check)` runs the backward of a Check under other conditions and compares: with a
non-contiguous upstream gradient, a second time on one cache, after another forward, and in float32.
It also looks whether backward modifies its arguments. Each fault is a sentence.
"""

import copy

import numpy as np

from npdl.study.check.adapters import InSelf
from npdl.study.trees import cast, copied, leaves, mapped, restored, same, shifted

CLOSE = 1e-9                    # allowed error in float64, relative to the gradient's largest entry
CLOSE_32 = 2e-3                 # allowed error in float32
FLOOR = 1e-3                    # smaller gradients are compared as if their largest entry were this
                                # part of the layer's largest, or of 1
MOVED = 1e-7                    # the relative rounding of float32


def side_effects(check):
    """Return sentences about the side effects of a Check's backward."""
    subject, dout = check.subject, check.dout
    written = written_into(subject, dout)
    faults = [f"backward changes {what} in place; write into a new array" for what in written]
    plain = gradients(subject, copied(dout))
    ways = {"the upstream gradient is not contiguous (a transpose, a slice)":
            lambda: gradients(subject, strided(dout))}
    if not isinstance(subject.layer, InSelf):
        if not written or written == ["the upstream gradient"]:     # a second run would differ
            ways["it runs a second time on one cache, because it changes the cache"] = \
                lambda: gradients(subject, copied(dout), times=2)
        _, cache = subject.run()
        if cache is not None and not (isinstance(cache, (tuple, list, dict)) and not cache):
            ways["forward ran again in between, because it reads from self what belongs in the "
                 "cache"] = lambda: gradients(subject, copied(dout), between=True)
    for how, run in ways.items():
        try:
            wrong = differing(plain, run())
        except Exception as error:
            faults.append(f"it raises {type(error).__name__}: {error} when {how}")
            continue
        if wrong:
            faults.append(f"the gradient of {', '.join(wrong)} is wrong when {how}")
    return faults + in_float32(check)


def gradients(subject, dout, times=1, between=False):
    """Return {name: gradient} of the last of `times` backwards on one cache.

    With `between`, forward runs on other inputs before backward.
    """
    with restored(subject.params.values(), subject.inputs), np.errstate(all="ignore"):
        _, cache = subject.run()
        if between:
            _run_on_others(subject)
        for given in (*[copied(dout) for _ in range(times - 1)], dout):
            found, _ = subject.backward(given, cache)
    return found


def _run_on_others(subject):
    """Run forward on other inputs; the layer may raise an exception for them."""
    inputs = subject.inputs
    try:
        subject.inputs = shifted(inputs)
        subject.run()
    except Exception:
        pass
    finally:
        subject.inputs = inputs


def written_into(subject, dout):
    """Return what backward modifies: "the upstream gradient", "input x", "parameter W"."""
    given = copied(dout)
    with restored(subject.params.values(), subject.inputs), np.errstate(all="ignore"):
        arrays = {name if name.startswith("input ") else f"parameter {name}": array
                  for name, array in subject.arrays.items()}
        before = copied(list(arrays.values()))
        _, cache = subject.run()
        subject.layer.backward(given, cache)
        found = [name for (name, a), b in zip(arrays.items(), before, strict=True)
                 if not same(np.asarray(a), np.asarray(b))]
    kept = all(same(a, b) for (_, a), (_, b) in zip(leaves(given), leaves(dout), strict=True))
    return found if kept else ["the upstream gradient", *found]


def in_float32(check):
    """Return a fault, in a list, if the gradients in float32 are wrong.

    The allowed error is that of float32, plus the effect of equally small changes of the inputs
    and parameters, which is large near a step or a kink.
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
        perturbed = gradients(double, dout)
    except Exception as error:
        return [f"it raises {type(error).__name__}: {error} when all arrays are float32"]
    wrong = differing(plain, found, CLOSE_32, perturbed)
    return [f"the gradient of {', '.join(wrong)} is wrong when all arrays are float32 (right in "
            "float64)"] if wrong else []


def in_dtype(subject, dtype):
    """Return the Subject with everything in another dtype."""
    twin = copy.copy(subject)
    twin.layer, twin.inputs = subject.layer.astype(dtype), cast(subject.inputs, dtype)
    twin.options = {name: cast(value, dtype) for name, value in subject.options.items()}
    twin.arrays = twin.named_arrays()
    return twin


def differing(plain, other, limit=CLOSE, perturbed=None):
    """Return the names of the gradients that differ."""
    found = []
    largest = max([1.0, *(np.abs(a).max(initial=0) for a in plain.values() if a is not None)])
    for name, array in plain.items():
        if array is None:
            continue
        allowed = limit * max(np.abs(array).max(initial=0), FLOOR * largest)
        if perturbed is not None:
            allowed += 10 * np.abs(perturbed[name] - array).max(initial=0)
        if name not in other or np.shape(other[name]) != np.shape(array) or not (
                (np.abs(other[name] - array) <= allowed) | np.isnan(array)).all():
            found.append(name)
    return found


def strided(nest):
    """Return the same numbers in arrays with gaps and reversed axes in memory."""
    def change(leaf):
        if not isinstance(leaf, np.ndarray) or not leaf.ndim:
            return leaf
        gaps = np.full((*leaf.shape[::-1], 2), np.nan)
        view = gaps[..., 0].transpose()
        view[...] = leaf
        return view

    return mapped(nest, change)
