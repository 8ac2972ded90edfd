"""What blame says where no gradient is wrong: right, right at these inputs, or not checked."""

import ast

from npdl_study.blame.branch_coverage import choices_of, is_finite, scaled, unlike_inputs
from npdl_study.blame.report import Blame
from npdl_study.blame.weights import FACTORS
from npdl_study.check.adapters import InSelf
from npdl_study.check.side_effects import side_effects
from npdl_study.containment import message
from npdl_study.trace.source import defined, original_file


def blame_no_fault(checked, search):
    """The Blame of a Checked in which no gradient is wrong; right only if one was checked, every
    array that the layer learns, and the backward in other circumstances too. `search` looks
    elsewhere; None: nobody does."""
    notes, rows = checked.notes, checked.rows
    if all(row.right is None for row in rows) and not (checked.check.all_zero or checked.questions):
        reasons = "; ".join(dict.fromkeys(row.reason for row in rows))
        return _unchecked(checked, f"nothing was checked: {reasons}; give other inputs" if rows else
                          "nothing was checked: the layer has no Param, and its inputs have no "
                          "float array")
    if checked.questions and not any(row.right for row in rows):
        place = return_place(checked.subject.layer)
        if place and not place["source"].startswith("return"):
            return Blame(False, rows, notes, kind="lost", diagnosis="backward returns nothing: a "
                         "return is missing here", **place)
    if checked.questions:
        return _unchecked(checked, f"{'; '.join(checked.questions)}. What was compared is right")
    if search is None:
        return Blame(True, rows, notes)
    try:
        missed = try_other_inputs(checked, search)
    except Exception as error:                          # code that does not stand being rewritten
        notes.append("which sides its choices take (np.clip, a mask, an if) was not looked at: "
                     f"{message(error)}")
        missed = []
    if isinstance(missed, Blame):
        return missed
    if checked.check.all_zero:
        sides = "".join(f"; line {choice.line}, {choice}" for choice in missed)
        return _unchecked(checked, f"every gradient is 0 at these inputs{sides}; give inputs at "
                          "which the outputs change")
    faults = side_effects(checked.check)
    if faults:
        return Blame(False, rows, notes, kind="manners", diagnosis="; ".join(faults))
    return Blame(True, rows, notes, unreached=missed)


def _unchecked(checked, diagnosis):
    return Blame(False, checked.rows, checked.notes, kind="unchecked", diagnosis=diagnosis,
                 **return_place(checked.subject.layer) if checked.questions else {})


def return_place(layer):
    """{field: value} of a Blame that names where a backward returns, for what it does not; or, of
    one that never does, what it computes and keeps nowhere, or computes last."""
    own = layer.made if isinstance(layer, InSelf) else layer
    code = getattr(getattr(own, "undo", type(own).backward), "__code__", None)
    found = code is not None and defined(code)
    nodes = [n for n in ast.walk(found[0]) if isinstance(n, ast.stmt)][1:] if found else []
    lost = [n for n in nodes if isinstance(n, ast.Expr) and not isinstance(
        n.value, (ast.Constant, ast.Call))]
    lines = [n for n in nodes if isinstance(n, ast.Return)] or lost or nodes[-1:]
    return {"file": original_file(code.co_filename), "line": lines[-1].lineno,
            "function": code.co_qualname, "source": ast.unparse(lines[-1])} if lines else {}


def try_other_inputs(checked, search):
    """[what no inputs that were tried reach, in words]; or the Blame where the backward is wrong
    at other inputs, which reach what those of a Checked do not."""
    subject = checked.subject
    left, unseen = choices_of(subject)
    if unseen:
        checked.notes.append(f"no source could be had of {', '.join(unseen)}: which sides its "
                            "choices take was not looked at")
    left = {key: choice for key, choice in left.items() if choice.missed}
    given = "right at the inputs that were given"
    ways = [("right with the parameters that were drawn first, wrong with others", subject.inputs,
             1)] * bool(subject.params)                 # masks may be alike by chance
    ways += [(f"{given}; wrong with {by}", inputs, 0) for by, inputs in unlike_inputs(subject)]
    ways += [(by, scaled(subject.inputs, by), 0) for by in FACTORS * bool(left)]
    for words, inputs, draw in ways:
        try:
            other, reached = subject.anew(inputs, draw), {}
            if not is_finite(other):
                continue
            if words in FACTORS:
                took, _ = choices_of(other)
                reached = {key: set(choice.missed) & took[key].took
                           for key, choice in left.items() if key in took}
                if not any(reached.values()):
                    continue
            report = search(other, False)
        except Exception:                               # outside of what the layer takes
            continue
        if any(row.right is False for row in report.finals) and report.error is None:
            choice = next((left[key] for key, sides in reached.items() if sides), None)
            report.notes.insert(0, f"{given}, where line {choice.line}, {choice}; wrong with every "
                                f"float input times {words:g}" if choice else words)
            return report
        for key, sides in reached.items():
            left[key].took |= sides
        left = {key: choice for key, choice in left.items() if choice.missed}
    return list(left.values())
