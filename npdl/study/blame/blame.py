"""Find the incorrect line of a backward pass.

    report = blame(layer, x)
    print(report)                       # the line, its computed and expected value, and a fix
    assert_right(layer, x)              # in a test: fails with that report

`blame_subject` has four stages:

    check     find the wrong gradients, and an upstream gradient for which they are wrong
    localize  find the statements that could be the mistake (localize.py)
    repair    find an edit of one statement that makes all gradients correct (repair.py)
    confirm   check the corrected code on the student's own inputs and on other inputs

A Subject is a float64 copy of the layer with its inputs. A Check has the numerical gradients of a
Subject, and a Verdict has the comparison with them. A Runs object runs a Subject again, with
changed intermediate values.
"""

import contextlib
from dataclasses import replace

import numpy as np

from npdl.errors import NpdlError
from npdl.study.blame.exceptions import blame_backward_exception, make_exception_blame
from npdl.study.blame.inputs import (
    make_minimised_verdict,
    make_other_inputs,
    make_validation_checks,
    record_part_calls,
)
from npdl.study.blame.localize import CONSTANT, CORRECT, PASSED, localize
from npdl.study.blame.repair import FixSearch
from npdl.study.blame.report import REMAINS, Blame, make_blame, set_candidate_values
from npdl.study.check.adapters import Uncheckable, as_layer, unwrap_adapter
from npdl.study.check.side_effects import describe_side_effects
from npdl.study.check.subjects import Subject
from npdl.study.check.verdicts import Check
from npdl.study.containment import add_note_on_timeout, format_exception, is_npdl_class
from npdl.study.trace.runs import Budget, Runs, silence_warnings
from npdl.study.trace.source import replace_statement
from npdl.study.trace.statements import make_watched_function

WORK = 9_000_000        # the number of values that a search may compute; `step` has the same limit.
                        # A larger number finds more, but takes longer
SECONDS = 7.0           # limit of a search in seconds of processor time, reached on slow machines
                        # only; a larger number finds more there, but answers later
SEARCH_SECONDS = 2.0    # a search has at least this time, even if the check before it took SECONDS


def blame(layer, *inputs, **options):
    """Check the gradients of a layer; return a Blame, which names the incorrect line, if any.

    layer     a Layer, an object that keeps its cache in self, or a pair (f_forward, f_backward)
    inputs    the positional arguments of forward; float arrays are converted to float64
    options   the keyword arguments of forward
    Raises InputError if `layer` is not a layer, or if a layer of npdl rejects the inputs.
    """
    layer = as_layer(layer)
    try:
        subject = Subject(layer, inputs, options)
    except Exception as error:
        if isinstance(error, NpdlError) and is_npdl_class(type(layer)):
            raise
        return make_exception_blame(layer, error)
    return blame_subject(subject)


def assert_right(layer, *inputs, **options):
    """Check a layer in a test: if it is not correct, raise AssertionError with blame's report."""
    report = blame(layer, *inputs, **options)
    assert report.right, f"\n{report}"


def check_gradients(subject):
    """Compare a Subject's gradients with numerical ones; return the Verdict with all its notes."""
    check = Check(subject)
    with add_note_on_timeout(check.describe_progress):
        verdict = check.compute_verdict()
    verdict.notes += verdict.questions if verdict.used_outputs is not None else [
        f"gradient of {row.name}: {row.inconclusive_text}" for row in verdict.rows
        if row.right is None and row.kind != "missing"]
    return verdict


def blame_subject(subject, try_other_inputs=True, budget=None):
    """Check a Subject, search for the incorrect line, and return the Blame.

    If all gradients are correct and `try_other_inputs` is True, other inputs are checked too. The
    budget limits the work of the search.
    """
    budget = budget or Budget(WORK, SECONDS)
    with silence_warnings():
        verdict = check_gradients(subject)
        if verdict.used_outputs is None:
            return _blame_right_gradients(verdict, try_other_inputs, budget)
        if isinstance(verdict.error, (NotImplementedError, Uncheckable)):
            return make_exception_blame(
                subject.layer, verdict.error, verdict.notes, in_backward=True)
        budget.seconds = max(budget.seconds, budget.elapsed + SEARCH_SECONDS)
        with add_note_on_timeout(lambda: _describe_wrong_gradients(verdict)):
            return _blame_failed_check(verdict, budget)


def _blame_right_gradients(verdict, try_other_inputs, budget):
    """Return the Blame for a Verdict (the result of gradcheck) without a wrong gradient.

    The answer is that the layer is correct, that it could not be checked, or that a gradient is
    wrong for other inputs. Other inputs are tried if `try_other_inputs` is True, within the budget.
    """
    rows, seconds = verdict.rows, budget.elapsed        # about the time of another check
    if verdict.questions:
        return _blame_with_questions(verdict)
    if verdict.check.has_only_zero_gradients or not any(row.right for row in rows):
        why = "every gradient is 0 for these inputs" if verdict.check.has_only_zero_gradients else \
            "; ".join(dict.fromkeys(r.reason for r in rows)) or "no parameter and no float input"
        return make_blame(verdict, kind="unchecked",
                         diagnosis=f"nothing was checked: {why}. Give other inputs")
    for note, inputs, seed_offset in make_other_inputs(verdict.subject) if try_other_inputs else ():
        if budget.is_spent or budget.elapsed + seconds > budget.seconds:
            break
        try:
            other = verdict.subject.copy_with_inputs(inputs, seed_offset)
            finite = all(np.isfinite(array).all() for array in other.compute_outputs())
            report = blame_subject(other, False, budget) if finite else None
        except Exception:                               # the layer doesn't accept such inputs
            continue
        if report and report.error is None and any(row.right is False for row in report.rows):
            report.notes.insert(0, note)
            return report
    faults = describe_side_effects(verdict.check) if try_other_inputs else ()
    if faults:
        return make_blame(verdict, kind="side effect", diagnosis="; ".join(faults))
    doubtful = [f"gradient of {row.name} is {row.inconclusive_text}"
                for row in rows if row.right is None]
    if doubtful:
        return make_blame(verdict, kind="unchecked", diagnosis=(
            f"the {'; the '.join(doubtful)}. All other entries are correct. Give other inputs"))
    return Blame(True, rows, verdict.notes)


def _blame_with_questions(verdict):
    """Return the Blame for a Verdict that has questions to the author of the layer."""
    statement = _find_backward_return(verdict.subject)
    if statement and not statement.is_return and not any(row.right for row in verdict.rows):
        text = "backward returns nothing: a return is missing"
        return make_blame(verdict, statement, diagnosis=text)
    return make_blame(verdict, statement, kind="unchecked", diagnosis=(
        f"{'; '.join(verdict.questions)}. All other gradients are correct"))


def _find_backward_return(subject):
    """Return the last return statement of backward, a Statement.

    If backward has no return, the result is its last statement. If the source of backward is not
    found, the result is None.
    """
    code = getattr(unwrap_adapter(subject.layer).backward, "__code__", None)
    watched = code and make_watched_function(code)
    statements = watched.statements if watched else []
    return ([one for one in statements if one.is_return] or statements or [None])[-1]


def _describe_wrong_gradients(verdict):
    """Return a clause that names the wrong gradients, or the exception of backward."""
    if verdict.error is not None:
        return f"backward raises {format_exception(verdict.error)}"
    return f"the gradients of {', '.join(row.name for row in verdict.wrong_rows)} are wrong"


def _blame_failed_check(verdict, budget):
    """Search for the incorrect line of a layer whose check failed, and return the Blame.

    If a part of the layer is wrong when it is checked alone, the search begins in this part. The
    Blame of the part is returned if the fix of the part corrects the whole layer, or if the search
    in the whole layer verifies no fix.
    """
    minimised_verdict = verdict if verdict.error is not None else make_minimised_verdict(verdict)
    runs, part = Runs(minimised_verdict.check, minimised_verdict.used_outputs, budget), None
    try:
        part = _blame_wrong_part(verdict, runs) if verdict.error is None else None
        if part and (budget.is_spent or part.verified and REMAINS not in part.notes):
            return part
        if part:
            runs.budget = Budget(budget.left / 2, (budget.seconds - budget.elapsed) / 2)
        report = _blame_and_confirm_fix(verdict, minimised_verdict, runs)
    except Exception as error:                          # code that can't be instrumented
        report = make_blame(verdict, diagnosis="the search for the line failed: "
                                              + format_exception(error))
    return part if part and (not report.verified or REMAINS in report.notes) else report


def _blame_and_confirm_fix(verdict, minimised_verdict, runs):
    """Search for the incorrect line, check its fix, and return the Blame.

    `verdict` is the Verdict on the student's inputs, `minimised_verdict` on the inputs of `runs`.
    """
    report = blame_backward_exception(verdict, runs) if verdict.error is not None else \
        _blame_wrong_gradients(verdict, minimised_verdict, runs)
    if report.edit and not report.verified:
        confirm_fix(verdict, report, runs.budget)
    return report


def _blame_wrong_part(verdict, runs):
    """Check each part of a layer alone; return the Blame of the innermost wrong part, or None.

    A part is skipped if its fix makes another gradient of the whole layer wrong.
    """
    for name, (part, inputs) in record_part_calls(runs).items():
        with contextlib.suppress(Exception):            # the part can't be checked alone
            own = check_gradients(Subject(as_layer(part), inputs))
            if own.error is not None or not own.wrong_rows:
                continue
            own_runs = Runs(own.check, own.used_outputs, runs.budget)
            report = _blame_and_confirm_fix(own, own, own_runs)
            names = wrong = {row.name for row in verdict.wrong_rows}
            if report.verified:
                with replace_statement(report.edit.replaced_statement, report.edit.node):
                    wrong = {row.name for row in check_gradients(verdict.subject).wrong_rows}
            if wrong <= names:
                report.verified = report.verified.replace("gradients", f"gradients of {name}")
                note = (f"{name} is incorrect when it is checked alone, with the inputs of its "
                        "last call")
                remains = [REMAINS] * bool(wrong and REMAINS not in report.notes)
                return replace(report, rows=verdict.rows, notes=[note, *report.notes, *remains])
    return None


def _blame_wrong_gradients(verdict, minimised_verdict, runs):
    """Find the line that makes a gradient wrong, and return its Blame.

    The search tries to correct all gradients by changing one statement, and then by changing two.
    """
    runs.set_true_gradients({row.name for row in minimised_verdict.wrong_rows})
    localization = localize(runs)
    validation = make_validation_checks(minimised_verdict.check)
    if fixes := FixSearch(localization, validation).find_fixes():
        return _blame_with_fixes(verdict, localization, fixes)
    if localization.two_change_candidates:
        return _blame_without_fix(verdict, localization, localization.two_change_candidates[0])
    feasible = localization.feasible_candidates
    likely = [c for c in feasible if c.status < PASSED] or [
        c for c in feasible if c.status == CORRECT and c.values[c.first_key_to_change].any()]
    passed = [c for c in feasible if c.status == PASSED]
    if not likely + passed:
        return _blame_without_candidate(verdict, localization)
    named = passed[-1] if not likely else min(likely, key=lambda c: (
        max(c.status, CONSTANT), not c.unique, localization.sort_key(c)))
    return _blame_without_fix(verdict, localization, named)


def _blame_with_fixes(verdict, localization, fixes):
    """Return the Blame with the first Fix, and with a Fix of another line as an alternative."""
    best = fixes[0]
    report = make_blame(verdict, best.replaced_statement, edit=best, alternatives=tuple(
        (fix.replaced_statement.first_line, fix.replaced_statement.source, fix.text)
        for fix in fixes[1:2] if fix.replaced_statement.function is best.replaced_statement.function
        and fix.replaced_statement is not best.replaced_statement))
    if best.candidate.rest:
        report.verified = f"verified: {best.candidate.rest}"
    if not best.candidate.values:
        return report
    return set_candidate_values(report, localization, best.candidate)


def _blame_without_fix(verdict, localization, candidate):
    """Return the Blame of the most likely line, for which no fix was found."""
    name = candidate.gradient_of
    about = name and (f"this line should compute the gradient of {name}, but does not; is one of "
                      f"the uses of {name} in forward left out?")
    report = make_blame(verdict, candidate.statement, diagnosis=about)
    return set_candidate_values(report, localization, candidate)


def _blame_without_candidate(verdict, localization):
    """Return the Blame for a search that found no likely statement.

    If a statement computes a gradient of the wrong shape, the Blame names this statement.
    """
    computed, truth = localization.base, localization.runs.truth
    misshapen = [c for c in localization.candidates if any(
        np.array_equal(value, computed[name]) for value in c.values.values()
        for name in localization.wrong if computed[name].shape != truth[name].shape)]
    if not misshapen:
        return make_blame(verdict, diagnosis=(
            "the search reached its limit of time or work; check each part of the layer alone"
            if localization.runs.budget.is_spent else
            "more than one line may be wrong: no change of a single line corrects a gradient"))
    first = min(misshapen, key=lambda c: (c.status == PASSED, c.order))
    return make_blame(verdict, first.statement,
                      diagnosis="the gradient that this line computes has the wrong shape")


def confirm_fix(verdict, report, budget):
    """Check the fixed layer on the student's and on other inputs. Set `verified` if it is right."""
    with replace_statement(report.edit.replaced_statement, report.edit.node):
        fixed = check_gradients(verdict.subject)
        outcome = fixed.used_outputs is None and _blame_right_gradients(fixed, True, budget)
    if outcome and (outcome.right or outcome.kind == "unchecked"):
        report.verified = "verified: with this line, all gradients " + (
            "that could be compared " * bool(verdict.questions)) + "are correct"
