"""Find errors of a backward that its gradients alone do not show.

`side_effects(check)` runs the backward of a Check under other conditions and compares: with a
non-contiguous upstream gradient, a second time on one cache, and after another forward. It also
looks whether backward modifies its arguments. Each fault is a sentence.
"""

import numpy as np

from npdl.study.check.adapters import InSelf
from npdl.study.trees import copied, mapped, restored, same, shifted

CLOSE = 1e-9                    # allowed error, relative to the gradient's largest entry
FLOOR = 1e-3                    # smaller gradients are compared as if their largest entry were this
                                # part of the layer's largest, or of 1


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
        if not _is_empty(subject.run()[1]):
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
    return faults


def _is_empty(cache):
    return cache is None or isinstance(cache, (tuple, list, dict)) and not cache


def gradients(subject, dout, times=1, between=False):
    """Return {name: gradient} of the last of `times` backwards on one cache.

    With `between`, forward runs on other inputs before backward.
    """
    with restored(subject.params.values(), subject.inputs), np.errstate(all="ignore"):
        _, cache = subject.run()
        if between:
            _run_on_others(subject)
        for given in (*[copied(dout) for _ in range(times - 1)], dout):
            found = subject.backward(given, cache)
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
        arrays |= {"the upstream gradient": given}
        before = copied(arrays)
        _, cache = subject.run()
        subject.layer.backward(given, cache)
        return [name for name, array in arrays.items() if not same(array, before[name])]


def differing(plain, other):
    """Return the names of the gradients that differ."""
    largest = max([1.0, *(np.abs(a).max(initial=0) for a in plain.values() if a is not None)])
    return [name for name, array in plain.items() if array is not None and not (
        np.shape(other.get(name)) == np.shape(array) and np.allclose(
            other[name], array, 0, CLOSE * max(np.abs(array).max(initial=0), FLOOR * largest),
            equal_nan=True))]


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
