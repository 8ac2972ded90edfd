"""Find errors of a backward that its gradients do not show.

`find_side_effects(check)` tests if backward modifies its arguments. It also runs backward a second
time on the same cache, and after another forward. It returns a sentence for each error.
"""

import contextlib

import numpy as np

from npdl.study.check.adapters import Adapter
from npdl.study.relative_error import relative_error
from npdl.study.trees import copy_tree, is_equal, restore_values, shift_values

CLOSE = 1e-9                    # allowed error, relative to the gradient's largest entry
FLOOR = 1e-3                    # if a gradient's largest entry is smaller than this fraction of the
                                # layer's largest gradient entry (or of 1), errors are relative to
                                # that fraction


@np.errstate(all="ignore")
def find_side_effects(check):
    """Return a list of sentences, one for each side effect of the backward in a Check."""
    subject, dout = check.subject, check.dout
    written = find_modified_arrays(subject, dout)
    faults = [f"backward changes {what} in place; write into a new array" for what in written]
    if isinstance(subject.layer, Adapter) and not subject.layer.has_cache:
        return faults
    ways = {}
    if not set(written) - {"the upstream gradient"}:    # a changed cache changes a second run
        ways["backward runs a second time on the same cache, because it changes the cache"] = True
    cache = subject.run()[1]
    own = cache[1][0] if isinstance(subject.layer, Adapter) else cache      # the student's cache
    if own is not None and not (isinstance(own, (tuple, list, dict)) and not own):
        ways["forward runs again before backward, because backward reads values that are not in "
             "the cache"] = False
    plain = subject.backward(copy_tree(dout), cache)
    largest = max([1.0, *(np.abs(a).max(initial=0) for a in plain.values() if a is not None)])
    for how, is_twice in ways.items():
        try:
            other = _run_backward(subject, dout, is_twice)
        except Exception as error:
            faults.append(f"backward raises {type(error).__name__}: {error} when {how}")
            continue
        wrong = [name for name, array in plain.items() if array is not None and (
            name not in other or relative_error(other[name], array, FLOOR * largest) > CLOSE)]
        if wrong:
            faults.append(f"the gradient of {', '.join(wrong)} is wrong when {how}")
    return faults


def _run_backward(subject, dout, is_twice):
    """Return {name: gradient} of a second backward on the same cache.

    If `is_twice` is False, backward runs once, after another forward with other inputs.
    """
    _, cache = subject.run()
    if is_twice:
        subject.backward(copy_tree(dout), cache)
    else:
        inputs, subject.inputs = subject.inputs, shift_values(subject.inputs)
        with contextlib.suppress(Exception):            # the layer may not accept other inputs
            subject.run()
        subject.inputs = inputs
    return subject.backward(copy_tree(dout), cache)


def find_modified_arrays(subject, dout):
    """Return the names of the arrays that backward modifies, such as "input x"."""
    arrays = {"the upstream gradient": copy_tree(dout)} | {
        name if name.startswith("input ") else f"parameter {name}": array
        for name, array in subject.arrays.items()}
    with restore_values(subject.params.values(), subject.inputs):
        before, (_, cache) = copy_tree(arrays), subject.run()
        subject.layer.backward(arrays["the upstream gradient"], cache)
        return [name for name, array in arrays.items() if not is_equal(array, before[name])]
