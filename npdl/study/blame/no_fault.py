"""Find the answer of `blame` if no gradient is wrong for the given inputs.

The answer is that the layer is correct, that it could not be checked, or that a gradient is wrong
for other inputs.
"""

import ast

import numpy as np

from npdl.study.blame.report import Blame
from npdl.study.check.adapters import Functions, InSelf
from npdl.study.check.side_effects import side_effects
from npdl.study.trace.source import defined
from npdl.study.trees import mapped

FACTORS = (10.0, -1.0, 0.01, -10.0)     # all float inputs are multiplied by each of these, to reach
                                        # the other branches of np.maximum or of an if statement


def blame_no_fault(checked, search, budget):
    """Return the Blame of a Verdict without a wrong gradient.

    search   search(subject) returns the Blame for other inputs; None or False tries no other inputs
    budget   ends the trials of other inputs
    """
    notes, rows, questions = checked.notes, checked.rows, checked.questions
    if questions:
        return _question(checked)
    if checked.check.all_zero or not any(row.right for row in rows):
        why = "every gradient is 0 for these inputs" if checked.check.all_zero else "; ".join(
            dict.fromkeys(row.reason for row in rows)) or "no parameter and no float input"
        return Blame(False, rows, notes, kind="unchecked",
                     diagnosis=f"nothing was checked: {why}. Give other inputs")
    for words, inputs, draw in other_inputs(checked.subject) if search else ():
        if budget.over:
            break
        try:
            other = checked.subject.with_inputs(inputs, draw)
            finite = all(np.isfinite(array).all() for array in other.outputs())
            report = search(other) if finite else None
        except Exception:                               # the layer doesn't accept such inputs
            continue
        if report and report.error is None and any(row.right is False for row in report.rows):
            report.notes.insert(0, words)
            return report
    faults = side_effects(checked.check) if search else ()
    if faults:
        return Blame(False, rows, notes, kind="side effect", diagnosis="; ".join(faults))
    doubtful = [f"gradient of {row.name} is {row.doubt}" for row in rows if row.right is None]
    if doubtful:
        return Blame(False, rows, notes, kind="unchecked", diagnosis=(
            f"the {'; the '.join(doubtful)}. All other entries are correct. Give other inputs"))
    return Blame(True, rows, notes)


def _question(checked):
    """Return the Blame of a Verdict with open questions."""
    place = return_place(checked.subject.layer)
    if place and not any(row.right for row in checked.rows) and not place["source"].startswith(
            "return"):
        return Blame(False, checked.rows, checked.notes, kind="lost",
                     diagnosis="backward returns nothing: a return is missing", **place)
    return Blame(False, checked.rows, checked.notes, kind="unchecked", diagnosis=(
        f"{'; '.join(checked.questions)}. All other gradients are correct"), **place)


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


def return_place(layer):
    """Return the fields of a Blame for the last return statement of backward.

    Without a return statement they describe the last statement; without source they are {}.
    """
    own = layer.made if isinstance(layer, InSelf) else layer
    code = getattr(getattr(own, "undo", type(own).backward), "__code__", None)
    found = code is not None and defined(code)
    nodes = [n for n in ast.walk(found[0]) if isinstance(n, ast.stmt)][1:] if found else []
    lines = [n for n in nodes if isinstance(n, ast.Return)] or nodes[-1:]
    return {"file": code.co_filename, "line": lines[-1].lineno,
            "function": code.co_qualname, "source": ast.unparse(lines[-1])} if lines else {}
