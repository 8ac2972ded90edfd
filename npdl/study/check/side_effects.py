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


def find_side_effects(check):
    """Return a list of sentences, one for each side effect of the backward in a Check."""
    subject, dout = check.subject, check.dout
    written = find_modified_arrays(subject, dout)
    faults = [f"backward changes {what} in place; write into a new array" for what in written]
    if isinstance(subject.layer, Adapter) and not subject.layer.has_cache:
        return faults
    ways = {}
    if not set(written) - {"the upstream gradient"}:    # a changed cache changes a second run
        ways["backward runs a second time on the same cache, because it changes the cache"] = {
            "times": 2}
    cache = subject.run()[1]
    if cache is not None and not (isinstance(cache, (tuple, list, dict)) and not cache):
        ways["forward runs again before backward, because backward reads values from self that "
             "belong in the cache"] = {"between": True}
    plain = run_backward(subject, dout)
    largest = max([1.0, *(np.abs(a).max(initial=0) for a in plain.values() if a is not None)])
    for how, options in ways.items():
        try:
            other = run_backward(subject, dout, **options)
        except Exception as error:
            faults.append(f"backward raises {type(error).__name__}: {error} when {how}")
            continue
        wrong = [name for name, array in plain.items() if array is not None and (
            name not in other or relative_error(other[name], array, FLOOR * largest) > CLOSE)]
        if wrong:
            faults.append(f"the gradient of {', '.join(wrong)} is wrong when {how}")
    return faults


def run_backward(subject, dout, times=1, between=False):
    """Run backward `times` times on one cache and return {name: gradient} of the last run.

    If `between` is True, forward runs on other inputs before the first backward.
    """
    with restore_values(subject.params.values(), subject.inputs), np.errstate(all="ignore"):
        _, cache = subject.run()
        if between:
            inputs, subject.inputs = subject.inputs, shift_values(subject.inputs)
            with contextlib.suppress(Exception):        # the layer may not accept other inputs
                subject.run()
            subject.inputs = inputs
        for _ in range(times):
            found = subject.backward(copy_tree(dout), cache)
    return found


def find_modified_arrays(subject, dout):
    """Return the names of the arrays that backward modifies, such as "input x"."""
    with restore_values(subject.params.values(), subject.inputs), np.errstate(all="ignore"):
        arrays = {name if name.startswith("input ") else f"parameter {name}": array
                  for name, array in subject.arrays.items()}
        arrays = {"the upstream gradient": copy_tree(dout)} | arrays
        before = copy_tree(arrays)
        _, cache = subject.run()
        subject.layer.backward(arrays["the upstream gradient"], cache)
        return [name for name, array in arrays.items() if not is_equal(array, before[name])]
