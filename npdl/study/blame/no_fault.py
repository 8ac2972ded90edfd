"""Find the answer of `blame` if no gradient is wrong for the given inputs.

The answer is that the layer is correct, that it could not be checked, or that a gradient is wrong
for other inputs.
"""

import numpy as np

from npdl.study.blame.report import Blame, report_on
from npdl.study.check.adapters import Functions
from npdl.study.check.side_effects import side_effects
from npdl.study.trace.statements import lines_of
from npdl.study.trees import mapped

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
        return _question(checked)
    if checked.check.all_zero or not any(row.right for row in rows):
        why = "every gradient is 0 for these inputs" if checked.check.all_zero else "; ".join(
            dict.fromkeys(row.reason for row in rows)) or "no parameter and no float input"
        return report_on(checked, kind="unchecked",
                         diagnosis=f"nothing was checked: {why}. Give other inputs")
    for words, inputs, draw in other_inputs(checked.subject) if search else ():
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
    faults = side_effects(checked.check) if search else ()
    if faults:
        return report_on(checked, kind="side effect", diagnosis="; ".join(faults))
    doubtful = [f"gradient of {row.name} is {row.doubt}" for row in rows if row.right is None]
    if doubtful:
        return report_on(checked, kind="unchecked", diagnosis=(
            f"the {'; the '.join(doubtful)}. All other entries are correct. Give other inputs"))
    return Blame(True, rows, checked.notes)


def _question(checked):
    """Return the Blame of a Verdict with open questions."""
    line = _last_line(checked.subject.layer)
    if line and not line.is_return and not any(row.right for row in checked.rows):
        return report_on(checked, line,
                         diagnosis="backward returns nothing: a return is missing")
    return report_on(checked, line, kind="unchecked", diagnosis=(
        f"{'; '.join(checked.questions)}. All other gradients are correct"))


def other_inputs(subject):
    """Yield other inputs on which to check a Subject, as tuples (words, inputs, draw).

    words   a sentence that says what is different, such as "... but not for a second row"
    inputs  the arguments of forward
    draw    is added to the seed of the random parameters; 0 draws the same parameters again
    """
    given = "all gradients are correct for the given inputs, but not for "
    if subject.params:
        yield f"{given}other parameters", subject.inputs, 1

    def each(change):
        return tuple(change(a) if isinstance(a, np.ndarray) else a for a in subject.inputs)

    def flipped(a):
        if a.dtype.kind not in "iub" or a.size < 2:
            return a
        a = a.copy()
        a.flat[-1] = a.flat[0] if a.dtype.kind in "iu" else not a.flat[0]
        return a

    if any(isinstance(a, np.ndarray) and a.dtype.kind in "iub" and a.size > 1
           for a in subject.inputs):
        yield f"{given}a repeated id, or another mask", each(flipped), 0
    for axis, least, what in () if isinstance(subject.layer, Functions) else (
            (0, 2, "row"), (1, 3, "time step")):
        if any(np.ndim(a) >= least and np.shape(a)[axis] == 1 for a in subject.inputs):
            yield f"{given}a second {what}", each(lambda a, x=axis, n=least: np.concatenate(
                [a, 2 * a], x) if a.ndim >= n and a.shape[x] == 1 else a), 0
    for factor in FACTORS:
        yield f"{given}the float inputs times {factor:g}", mapped(
            subject.inputs, lambda a, by=factor: a * by if getattr(
                getattr(a, "dtype", None), "kind", "") == "f" else a), 0


def _last_line(layer):
    """Return the Line of the last return statement of backward, or of its last statement.

    Returns None if there is no source.
    """
    code = getattr(getattr(layer, "called", layer.backward), "__code__", None)
    watched = code and lines_of(code)
    lines = watched.lines if watched else []
    return ([line for line in lines if line.is_return] or lines or [None])[-1]
