"""Find errors of a backward that its gradients do not show.

`describe_side_effects(check)` tests if backward modifies its arguments. It also runs backward a
second time on the same cache, and after another forward. It returns a sentence for each error.
"""

import contextlib

import numpy as np

from npdl.study.check.adapters import Adapter
from npdl.study.containment import format_exception
from npdl.study.relative_error import relative_error
from npdl.study.trees import copy_tree, is_equal, preserve_values, shift_values

CLOSE = 1e-9                    # allowed error, relative to max(1, largest entry of all gradients)


@np.errstate(all="ignore")
def describe_side_effects(check):
    """Return a sentence for each side effect of backward. A Check has the layer and its inputs."""
    subject, dout = check.subject, check.subject.dout
    written = find_modified_array_names(subject, dout)
    faults = [f"backward changes {what} in place; write into a new array" for what in written]
    if isinstance(subject.layer, Adapter) and not subject.layer.has_cache:
        return faults
    _, cache = subject.run_forward()
    expected = subject.backward(copy_tree(dout), cache)
    if not set(written) - {"the upstream gradient"}:    # a changed cache changes a second run
        faults += _describe_changed_gradients(
            subject, dout, cache, expected,
            "backward runs a second time on the same cache, because it changes the cache")
    own = cache[1][0] if isinstance(subject.layer, Adapter) else cache      # the student's cache
    if own is not None and not (isinstance(own, (tuple, list, dict)) and not own):
        _, cache = subject.run_forward()
        inputs, subject.inputs = subject.inputs, shift_values(subject.inputs)
        with contextlib.suppress(Exception):            # the layer may not accept other inputs
            subject.run_forward()
        subject.inputs = inputs
        faults += _describe_changed_gradients(
            subject, dout, cache, expected,
            "forward runs again before backward, because backward reads values that are not in "
            "the cache")
    return faults


def _describe_changed_gradients(subject, dout, cache, expected_gradients, circumstance):
    """Run backward, and return a list with a sentence if its gradients are not the expected ones.

    expected_gradients  {name: gradient}
    circumstance        the end of the sentence, after "when"
    """
    try:
        found = subject.backward(copy_tree(dout), cache)
    except Exception as error:
        return [f"backward raises an exception ({format_exception(error)}) when {circumstance}"]
    known = {name: array for name, array in expected_gradients.items() if array is not None}
    largest = max([1.0, *(np.abs(array).max(initial=0) for array in known.values())])
    wrong = [name for name, array in known.items()
             if name not in found or relative_error(found[name], array, largest) > CLOSE]
    return [f"the gradient of {', '.join(wrong)} is wrong when {circumstance}"] * bool(wrong)


def find_modified_array_names(subject, dout):
    """Return the names of the arrays that backward modifies, such as "input x"."""
    arrays = {"the upstream gradient": copy_tree(dout)} | {
        name if name.startswith("input ") else f"parameter {name}": array
        for name, array in subject.arrays.items()}
    with preserve_values(subject.params.values(), subject.inputs):
        before, (_, cache) = copy_tree(arrays), subject.run_forward()
        subject.layer.backward(arrays["the upstream gradient"], cache)
        return [name for name, array in arrays.items() if not is_equal(array, before[name])]
