"""Find the answer of `blame` if no gradient is wrong for the given inputs.

The answer is that the layer is correct, that it could not be checked, or that a gradient is wrong
for other inputs.
"""

import functools

import numpy as np

from npdl.study.blame.report import Blame, make_blame
from npdl.study.check.adapters import FunctionPair, get_original
from npdl.study.check.side_effects import find_side_effects
from npdl.study.trace.statements import describe_function
from npdl.study.trees import is_equal, is_float, map_leaves

FACTORS = (10.0, -1.0, 0.01, -10.0)     # all float inputs are multiplied by each of these, to reach
                                        # other branches of np.maximum or of an if statement; more
                                        # factors find more mistakes, but answer later


def blame_no_fault(checked, search, budget):
    """Return the Blame for a Verdict (the result of gradcheck) without a wrong gradient.

    search   the function blame_subject, which checks other inputs; with None, they aren't checked
    budget   a Budget, which limits the work of the checks of other inputs
    """
    rows = checked.rows
    if checked.questions:
        return _blame_question(checked)
    if checked.check.is_all_zero or not any(row.right for row in rows):
        why = "every gradient is 0 for these inputs" if checked.check.is_all_zero else "; ".join(
            dict.fromkeys(row.reason for row in rows)) or "no parameter and no float input"
        return make_blame(checked, kind="unchecked",
                         diagnosis=f"nothing was checked: {why}. Give other inputs")
    for words, inputs, draw in make_other_inputs(checked.subject) if search else ():
        if budget.is_spent:
            break
        try:
            other = checked.subject.copy_with_inputs(inputs, draw)
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
    doubtful = [f"gradient of {row.name} is {row.inconclusive_text}"
                for row in rows if row.right is None]
    if doubtful:
        return make_blame(checked, kind="unchecked", diagnosis=(
            f"the {'; the '.join(doubtful)}. All other entries are correct. Give other inputs"))
    return Blame(True, rows, checked.notes)


def _blame_question(checked):
    """Return the Blame for a Verdict that has questions to the author of the layer."""
    line = _find_return_line(checked.subject)
    if line and not line.is_return and not any(row.right for row in checked.rows):
        return make_blame(checked, line, diagnosis="backward returns nothing: a return is missing")
    return make_blame(checked, line, kind="unchecked", diagnosis=(
        f"{'; '.join(checked.questions)}. All other gradients are correct"))


def make_other_inputs(subject):
    """Yield other inputs on which to check a Subject, as tuples (words, inputs, draw).

    words   a sentence, such as "all gradients are correct .., but not for other parameters"
    inputs  the arguments of forward
    draw    a number to add to the seed of the random parameters; 0 gives the same parameters
    """
    given = "all gradients are correct for the given inputs, but not for "
    if subject.params:
        yield f"{given}other parameters", subject.inputs, 1
    changes = {"a repeated id, or another mask": _change_last_entry}
    if not isinstance(get_original(subject.layer), FunctionPair):
        changes["a second row"] = functools.partial(_double_axis, axis=0)
        changes["a second time step"] = functools.partial(_double_axis, axis=1)
    for factor in FACTORS:
        changes[f"the float inputs times {factor:g}"] = lambda a, by=factor: (
            a * by if is_float(a) else a)
    for words, change in changes.items():
        inputs = map_leaves(subject.inputs, lambda a, change=change: change(a) if isinstance(
            a, np.ndarray) else a)
        if not is_equal(inputs, subject.inputs):
            yield given + words, inputs, 0


def _change_last_entry(array):
    """Return ids whose last id is set to the first one, or a mask whose last entry is inverted."""
    if array.dtype.kind not in "iub" or array.size < 2:
        return array
    array = array.copy()
    array.flat[-1] = array.flat[0] if array.dtype.kind in "iu" else not array.flat[0]
    return array


def _double_axis(array, axis):
    """Extend an axis of length 1 to length 2 and return the array; other arrays don't change."""
    if array.ndim < axis + 2 or array.shape[axis] != 1:
        return array
    return np.concatenate([array, 2 * array], axis)


def _find_return_line(subject):
    """Return the last return statement of backward, a Statement.

    If backward has no return, this is its last statement. Without its source, it is None.
    """
    code = getattr(get_original(subject.layer).backward, "__code__", None)
    watched = code and describe_function(code)
    lines = watched.lines if watched else []
    return ([line for line in lines if line.is_return] or lines or [None])[-1]
