"""Find the answer of `blame` if no gradient is wrong for the given inputs.

The answer is that the layer is correct, that it could not be checked, or that a gradient is wrong
for other inputs.
"""

import functools

import numpy as np

from npdl.study.blame.report import Blame, make_blame
from npdl.study.check.adapters import Functions
from npdl.study.check.side_effects import find_side_effects
from npdl.study.trace.statements import parse_lines
from npdl.study.trees import is_equal, is_float, map_leaves

FACTORS = (10.0, -1.0, 0.01, -10.0)     # all float inputs are multiplied by each of these, to reach
                                        # other branches of np.maximum or of an if statement; more
                                        # factors find more mistakes, but answer later


def blame_no_fault(checked, search, budget):
    """Return the Blame of a Verdict without a wrong gradient.

    search   blame.search, which checks other inputs; None tries no other inputs
    budget   limits the work of these checks
    """
    rows = checked.rows
    if checked.questions:
        return _blame_question(checked)
    if checked.check.all_zero or not any(row.right for row in rows):
        why = "every gradient is 0 for these inputs" if checked.check.all_zero else "; ".join(
            dict.fromkeys(row.reason for row in rows)) or "no parameter and no float input"
        return make_blame(checked, kind="unchecked",
                         diagnosis=f"nothing was checked: {why}. Give other inputs")
    for words, inputs, draw in make_other_inputs(checked.subject) if search else ():
        if budget.over:
            break
        try:
            other = checked.subject.with_inputs(inputs, draw)
            finite = all(np.isfinite(array).all() for array in other.outputs())
            report = search(other, False, budget) if finite else None
        except Exception:                               # the layer doesn't accept such inputs
            continue
        if report and report.error is None and any(row.right is False for row in report.rows):
            report.notes.insert(0, words)
            return report
    faults = find_side_effects(checked.check) if search else ()
    if faults:
        return make_blame(checked, kind="side effect", diagnosis="; ".join(faults))
    doubtful = [f"gradient of {row.name} is {row.doubt}" for row in rows if row.right is None]
    if doubtful:
        return make_blame(checked, kind="unchecked", diagnosis=(
            f"the {'; the '.join(doubtful)}. All other entries are correct. Give other inputs"))
    return Blame(True, rows, checked.notes)


def _blame_question(checked):
    """Return the Blame of a Verdict with open questions."""
    line = _last_line(checked.subject.layer)
    if line and not line.is_return and not any(row.right for row in checked.rows):
        return make_blame(checked, line,
                         diagnosis="backward returns nothing: a return is missing")
    return make_blame(checked, line, kind="unchecked", diagnosis=(
        f"{'; '.join(checked.questions)}. All other gradients are correct"))


def make_other_inputs(subject):
    """Yield other inputs on which to check a Subject, as tuples (words, inputs, draw).

    words   a sentence that says what is different, such as "... but not for a second row"
    inputs  the arguments of forward
    draw    is added to the seed of the random parameters; 0 draws the same parameters again
    """
    given = "all gradients are correct for the given inputs, but not for "
    if subject.params:
        yield f"{given}other parameters", subject.inputs, 1
    changes = {"a repeated id, or another mask": _with_another_last_entry}
    if not isinstance(subject.layer, Functions):
        changes["a second row"] = functools.partial(_doubled, axis=0)
        changes["a second time step"] = functools.partial(_doubled, axis=1)
    for factor in FACTORS:
        changes[f"the float inputs times {factor:g}"] = lambda a, by=factor: (
            a * by if is_float(a) else a)
    for words, change in changes.items():
        inputs = map_leaves(subject.inputs, lambda a, change=change: change(a) if isinstance(
            a, np.ndarray) else a)
        if not is_equal(inputs, subject.inputs):
            yield given + words, inputs, 0


def _with_another_last_entry(array):
    """Return an array of ids whose last id is the first one, or a mask with another last entry."""
    if array.dtype.kind not in "iub" or array.size < 2:
        return array
    array = array.copy()
    array.flat[-1] = array.flat[0] if array.dtype.kind in "iu" else not array.flat[0]
    return array


def _doubled(array, axis):
    """Return an array with a second entry along an axis of length 1, if it has such an axis."""
    if array.ndim < axis + 2 or array.shape[axis] != 1:
        return array
    return np.concatenate([array, 2 * array], axis)


def _last_line(layer):
    """Return the Line of the last return statement of backward, or of its last statement.

    Returns None if there is no source.
    """
    code = getattr(getattr(layer, "called", layer.backward), "__code__", None)
    watched = code and parse_lines(code)
    lines = watched.lines if watched else []
    return ([line for line in lines if line.is_return] or lines or [None])[-1]
