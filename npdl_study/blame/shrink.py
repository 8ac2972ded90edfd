"""Smaller inputs on which a backward is wrong too: the fewer numbers, the surer and sooner the line
is found; and other inputs, to try a proof on."""

import numpy as np

from npdl_study.blame.weights import CUT, LENGTHS, SHIFT, SMALL_ENOUGH
from npdl_study.check.verdicts import Check
from npdl_study.trace.runs import Runs
from npdl_study.trees import is_float, leaves, mapped


def shrink_inputs(subject):
    """A Subject with the axes of its inputs cut, all that have one length alike, as far as forward
    takes it and a gradient is still wrong; the Subject itself where it is small already."""
    found = subject
    for length in sorted({n for _, a in leaves(subject.inputs) for n in np.shape(a)}, reverse=True):
        if max((np.size(a) for _, a in leaves(found.inputs)), default=0) <= SMALL_ENOUGH:
            break
        for n in LENGTHS if length > LENGTHS[0] else ():
            if n >= length:
                break
            smaller = _if_wrong(found, cut_axes(found.inputs, length, n))
            if smaller is not None:
                found = smaller
                break
    return found


def cut_axes(nest, length, n):
    """A nest of arrays with n entries along each axis of a length."""
    def less(value):
        if not isinstance(value, np.ndarray):
            return value
        part = value[tuple(slice(n if m == length else None) for m in value.shape)]
        return keep_one_hot(value, part)
    return mapped(nest, less)


def keep_one_hot(before, array):
    """A part of an array; of rows that choose, of 0 and one 1, each with a 1 again."""
    if set(np.unique(before)) == {0.0, 1.0} and (before.sum(-1) == 1).all() and array.size:
        array = array.copy()
        array[..., 0] += array.sum(-1) == 0
    return array


def _if_wrong(subject, inputs):
    try:
        with np.errstate(all="ignore"):
            found = subject.anew(inputs, keep=True)
            return None if Check(found).passes() else found
    except Exception:                                   # forward or backward can't take these
        return None


def other_runs(checked, watch, budget):
    """Runs of a Checked that a proof was not found on: with the other upstream gradients, other
    numbers, other lengths."""
    subject, missing = checked.subject, [r.name for r in checked.rows if r.kind == "missing"]
    runs, found = [Runs(subject, subject.upstream(used), watch, budget)
                   for used in subject.uses[1:]], []
    other = perturbed(subject.inputs)
    lengths = {n for _, a in leaves(other) for n in np.shape(a)} - {0, 1}
    for inputs in (other, *(shorten_axis(other, axis) for axis in (0, 1)),
                   *(cut_axes(other, n, n - 1) for n in sorted(lengths)[:CUT])):
        try:
            again = subject.anew(inputs, 1)
            runs.append(Runs(again, again.dout, watch, budget))
        except Exception:                               # forward does not take such inputs
            continue
    for one in runs:
        try:
            one.learn_slopes(missing)
            gradients = one.gradients()
            one.wrong(gradients)
            if all(gradients[name].shape == a.shape for name, a in one.arrays.items()):
                found.append(one)                       # not: made for one length alone
        except Exception:
            continue
    return found


def perturbed(nest):
    """Inputs with other numbers; masks, and what is no float, stay."""
    rng = np.random.default_rng(5)

    def other(value):
        if not is_float(value) or not np.ndim(value) or set(np.unique(value)) <= {0.0, 1.0}:
            return value
        return value + SHIFT * rng.standard_normal(np.shape(value))
    return mapped(nest, other)


def shorten_axis(nest, axis):
    """Inputs of which one axis is cut by one, where it is as long as that of the first array."""
    first = next((a for _, a in leaves(nest)), np.zeros(()))
    length = first.shape[axis] if axis < first.ndim else 0

    def less(value):
        if not isinstance(value, np.ndarray) or value.ndim <= axis or value.shape[axis] != length:
            return value
        return keep_one_hot(value, np.take(value, range(length - 1), axis))
    return mapped(nest, less) if length > 1 else None
