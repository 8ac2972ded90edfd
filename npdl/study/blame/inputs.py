"""Make smaller inputs for a search, other inputs for a check or a fix, and inputs of sublayers."""

import contextlib
import copy
import functools

import numpy as np

from npdl.study.check.adapters import FunctionPair, get_forward, unwrap_adapter
from npdl.study.check.verdicts import Check
from npdl.study.trace.watch import profile_calls
from npdl.study.trees import is_equal, is_float, leaves, map_leaves

ENOUGH = 64             # inputs with more entries than this are cut; a larger number makes the
                        # search slower
SHORT = (2, 3, 4)       # an axis is cut to the first of these lengths that still shows the mistake;
                        # larger lengths make the search slower
FACTORS = (10.0, -1.0, 0.01, -10.0)     # all float inputs are multiplied by each of these, to reach
                                        # other branches of np.maximum or of an if statement; more
                                        # factors find more mistakes, but answer later


def make_minimised_verdict(verdict):
    """Return gradcheck's Verdict on shorter inputs for which a gradient is still wrong.

    verdict  the Verdict on the student's inputs; it is returned if no shorter inputs are found
    Axes of equal length are cut together.
    """
    subject = verdict.subject
    for length in sorted({n for _, a in leaves(subject.inputs) for n in np.shape(a)}, reverse=True):
        for n in SHORT:
            if n >= length or max(np.size(a) for _, a in leaves(subject.inputs)) <= ENOUGH:
                break
            with contextlib.suppress(Exception):        # the layer doesn't accept such inputs
                inputs = cut_axes(subject.inputs, length, n)
                smaller = subject.copy_with_inputs(inputs, keep_params=True)
                found = Check(smaller).compute_verdict()
                if found.used_outputs is not None and found.error is None:
                    verdict, subject = found, smaller
                    break
    return verdict


def cut_axes(nested, length, new_length):
    """Return nested arrays in which each axis of the given `length` is cut to `new_length`."""
    def cut_array(value):
        if not isinstance(value, np.ndarray):
            return value
        part = value[tuple(slice(new_length if m == length else None) for m in value.shape)]
        if set(np.unique(value)) == {0.0, 1.0} and (value.sum(-1) == 1).all() and part.size:
            part = part.copy()                          # a one-hot row must stay one-hot
            part[..., 0] += part.sum(-1) == 0
        return part
    return map_leaves(nested, cut_array)


def make_validation_checks(check):
    """Return a list of Checks that validate a fix: Checks on other inputs, then `check` itself.

    A Check has a layer's inputs and numerical gradients. The other inputs have changed values, and
    some have shorter axes. The parameters are new, too. The search doesn't use these Checks.
    """
    subject, rng = check.subject, np.random.default_rng(5)

    def add_noise(value):
        if not is_float(value) or not np.ndim(value) or set(np.unique(value)) <= {0.0, 1.0}:
            return value
        return value + 0.3 * rng.standard_normal(np.shape(value))

    other, kept = map_leaves(subject.inputs, add_noise), []
    lengths = sorted({n for _, a in leaves(other) for n in np.shape(a)} - {0, 1})
    for inputs in (other, *(cut_axes(other, n, n - 1) for n in lengths)):
        with contextlib.suppress(Exception):            # the layer doesn't accept such inputs
            one = Check(subject.copy_with_inputs(inputs, 1), entries=0)
            found = one.compute_gradients(one.paths)    # the code may need one particular length
            if all(np.shape(found.get(name, a)) == a.shape for name, a in one.arrays.items()):
                kept.append(one)
    return [*kept, check]


def make_other_inputs(subject):
    """Yield other inputs on which to check a Subject, as tuples (note, inputs, seed_offset).

    note         a sentence, such as "all gradients are correct .., but not with other parameters"
    inputs       the arguments of forward
    seed_offset  a number to add to the seed of the random parameters; 0 gives the same ones
    """
    given = "all gradients are correct for the given inputs, but not with "
    if subject.params:
        yield f"{given}other parameters", subject.inputs, 1
    changes = {"a repeated id or another mask": _change_last_id_or_flag}
    if not isinstance(unwrap_adapter(subject.layer), FunctionPair):
        changes["a second row of the inputs"] = functools.partial(_double_axis_of_length_1, axis=0)
        changes["a second time step"] = functools.partial(_double_axis_of_length_1, axis=1)
    for factor in FACTORS:
        changes[f"the float inputs times {factor:g}"] = lambda a, by=factor: (
            a * by if is_float(a) else a)
    for note, change in changes.items():
        inputs = map_leaves(subject.inputs, lambda a, change=change: change(a) if isinstance(
            a, np.ndarray) else a)
        if not is_equal(inputs, subject.inputs):
            yield given + note, inputs, 0


def _change_last_id_or_flag(array):
    """Return ids whose last id is set to the first one, or a mask whose last entry is inverted."""
    if array.dtype.kind not in "iub" or array.size < 2:
        return array
    array = array.copy()
    array.flat[-1] = array.flat[0] if array.dtype.kind in "iu" else not array.flat[0]
    return array


def _double_axis_of_length_1(array, axis):
    """Extend an axis of length 1 to length 2 and return the array; other arrays don't change."""
    if array.ndim < axis + 2 or array.shape[axis] != 1:
        return array
    return np.concatenate([array, 2 * array], axis)


def record_part_calls(runs):
    """Run a layer's forward; return {name: (part, inputs)}, the inputs of each part's last call.

    A part is an object with a forward and a backward, or a pair (f_forward, f_backward), that the
    forward of the layer calls. The innermost parts come first.
    """
    codes, found = {f.code: f for f in runs.watch.functions}, {}
    layer = unwrap_adapter(runs.subject.layer)
    own = {type(layer), get_forward(layer)}

    def record_call(frame, event, _):
        one = codes.get(frame.f_code)
        if event != "call" or one is None:
            return
        name, part, inputs = frame.f_code.co_name, None, [frame.f_locals[n] for n in one.arguments]
        if name in ("forward", "__call__") and hasattr(next(iter(inputs), None), "backward"):
            part, *inputs = inputs
            name = type(part).__name__
        elif not one.owner and (undo := one.globals.get(name.removesuffix("forward") + "backward")):
            part, name = (one.functions[0], undo), undo.__name__.removesuffix("_backward")
        if part is not None and not {type(part), one.functions[0]} & own:
            with contextlib.suppress(Exception):        # some objects can't be copied
                found[name] = copy.deepcopy((part, inputs))

    with profile_calls(record_call):
        runs.subject.run_forward()
    return dict(reversed(found.items()))
