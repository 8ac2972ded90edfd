"""From a check that fails to the line at fault: check, locate, prove, say.

`search(subject)` is the whole way. What is known after each step is a value: a Checked, a Located
(npdl_study.blame.locate), Proofs (npdl_study.blame.prove), a Blame (npdl_study.blame.say).
"""

import ast
import contextlib
import functools
import re
from dataclasses import dataclass, field, replace

import numpy as np

from npdl.errors import NpdlError
from npdl_study.blame import remedies, say
from npdl_study.blame.branch_coverage import unlike_inputs
from npdl_study.blame.hidden import prove_first
from npdl_study.blame.locate import aim, locate, possible_goals
from npdl_study.blame.no_fault import blame_no_fault
from npdl_study.blame.prove import by_edit
from npdl_study.blame.raised_exceptions import (
    blame_exception,
    line_at_fault,
    shapes_read,
    traceback_lines,
)
from npdl_study.blame.report import Blame
from npdl_study.blame.scope import SLIGHT, unused_in
from npdl_study.blame.shrink import other_runs, shrink_inputs
from npdl_study.blame.suspects import PASSES_ON, called_names
from npdl_study.blame.trial import applied, trial
from npdl_study.blame.weights import AGAIN, HALF, SECONDS, STAGES, TAKEN, TOKEN, TRIED, WORK
from npdl_study.check.differences import LIMIT, limit_of
from npdl_study.check.side_effects import side_effects
from npdl_study.check.verdicts import Check, worst_row
from npdl_study.containment import message
from npdl_study.trace.runs import Budget, Runs, quiet, unwritten
from npdl_study.trace.source import patched, recompiled

SINGLE = ("f", "f4", "float32", "single")
ODD = re.compile(r"\d\.\d{2,}")    # a number that was found, and that nobody writes


@dataclass
class Checked:
    """A Subject and its Check; `dout` is the first upstream gradient with which a gradient is
    wrong, as `rows` tell, or the backward raises `error`, or None; `clock` the Budget of all."""

    subject: object
    check: object
    clock: object = None
    rows: list = field(default_factory=list)
    notes: list = field(default_factory=list)
    questions: list = field(default_factory=list)
    dout: object = None
    error: object = None


@dataclass
class OwnInputs:
    """Runs of the student's own inputs, by their Check."""

    check: object

    def works(self, spared):
        """Whether every gradient but the spared ones is right now."""
        with unwritten(self.check.subject.layer):
            return not any(c.row.right is False and c.row.name not in spared
                           for c in self.check.comparisons())


@dataclass
class Found:
    """What a search came to: `proofs`, the likeliest first; a Proof of `forward`s line; and what is
    to be said, `otherwise()`, where none of them holds. `spared` are the gradients that the proofs
    do not mend."""

    located: object
    proofs: list = field(default_factory=list)
    forward: object = None
    otherwise: object = None
    spared: set = field(default_factory=set)


def search(subject, other_inputs=True, share=1.0, clock=None):
    """The Blame of a Subject. With `other_inputs`, what its own do not reach is looked for at
    others; `share` of the work that a search may do."""
    clock = clock or Budget((1 + AGAIN) * WORK, SECONDS)
    with quiet():
        checked = replace(check(subject), clock=clock)
    if checked.dout is None:
        return blame_no_fault(checked, search if other_inputs else None)
    if isinstance(checked.error, NotImplementedError):
        return blame_exception(subject.layer, checked.error, checked.notes, True)
    if limit_of(subject.outputs()) > LIMIT:
        with quiet(), in_float64(Runs(subject, checked.dout).watch):
            if limit_of(subject.outputs()) <= LIMIT:
                report = search(subject, other_inputs, share, clock)
                report.notes.append("this code computes in float32: the line was looked for in "
                                    "float64")
                return report
    small = checked if checked.error is not None else shrink_checked(checked)
    work, seconds = min(share * WORK, clock.left), min(share * SECONDS, SECONDS - clock.took)
    runs = Runs(small.subject, small.dout, budget=Budget(work, seconds))
    try:
        with quiet(), runs.watch:
            found = locate_raised(small, runs) if checked.error is not None else locate_and_prove(
                small, runs, checked.check, share)
        clock.spend(work - runs.budget.left)
        with quiet():
            report = found if isinstance(found, Blame) else confirm(checked, small, found, share)
    except Exception as error:                          # code that does not stand being watched
        return Blame(False, checked.rows, checked.notes, kind="unknown", error=checked.error,
                     diagnosis=f"the line could not be looked for: {message(error)}")
    if runs.budget.over and not report.new:
        report.notes.append(f"gave up after {clock.took:.0f} s: smaller inputs may tell more")
    return report


# Check

def check(subject):
    """The Checked of a Subject."""
    known, found = Checked(subject, Check(subject), notes=subject.notes()), {}
    for used in subject.uses:
        dout = subject.upstream(used)
        try:
            gradients, _ = known.check.backward(used)
        except Exception as error:
            return replace(known, dout=dout, error=error)
        for name in subject.arrays:
            found.setdefault(name, []).append(known.check.compare(name, gradients.get(name), used))
        rows = [worst_row(own, subject.paths) for own in found.values()]
        if any(row.right is False for row in rows):
            asked = known.check.asked(rows).questions
            return replace(known, dout=in_units(subject, dout, gradients), questions=asked,
                           rows=[own[-1].row for own in found.values()], notes=known.notes + asked)
    verdict = known.check.asked(rows)
    known.notes += [f"{row.name}: not checkable here: {row.reason}" for row in verdict.rows
                    if row.right is None and row.kind != "missing"] + verdict.notes
    return replace(known, rows=verdict.rows, questions=verdict.questions)


def in_units(subject, dout, gradients):
    """The upstream gradient 1 in the place of a loss's, where the backward is as wrong with it:
    what it makes without, or ahead of it, is a gradient as it stands then."""
    if isinstance(dout, (tuple, list, dict)) or np.size(dout) != 1:
        return dout
    one = np.ones_like(dout)[()]
    with contextlib.suppress(Exception):
        found, _ = subject.backward(one, subject.run()[1])
        if all(np.allclose(gradients[name], g * dout) for name, g in found.items()):
            return one
    return dout


def shrink_checked(checked):
    """The Checked of smaller inputs, where the backward is wrong with these too."""
    found = shrink_inputs(checked.subject)
    if found is checked.subject:
        return checked
    with quiet():
        again = check(found)
    return checked if again.dout is None or again.error is not None else replace(
        again, notes=checked.notes, clock=checked.clock, questions=checked.questions)


@contextlib.contextmanager
def in_float64(watch):
    """Run the functions of a Watch with float64 where they write float32."""
    with contextlib.ExitStack() as stack:
        for function in watch.functions:
            nodes = list(float32_nodes(function.node))
            for node, word in nodes:
                stack.callback(setattr, node, word, getattr(node, word))
                setattr(node, word, "float64")
            code = recompiled(function.code, function.node, function.owner) if nodes else None
            for f in function.functions if code is not None else ():
                stack.enter_context(patched(f, code))
        yield


def float32_nodes(tree):
    """(node, its field) of what names a type of less than float64: np.float32, dtype="f"."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in SINGLE[2:]:
            yield node, "attr"
        parts = [k.value for k in node.keywords if k.arg == "dtype"] + node.args[:1] * (
            getattr(node.func, "attr", "") == "astype") if isinstance(node, ast.Call) else []
        yield from ((part, "value") for part in parts if isinstance(
            part, ast.Constant) and part.value in SINGLE)


# Locate and prove

def locate_and_prove(checked, runs, own, share):
    """What is Found where a gradient is wrong: of all that is wrong, or else of a part of it; a
    change has to work for the Check `own` of the student's inputs too."""
    runs.learn({row.name for row in checked.rows if not row.right and row.kind != "missing"},
               runs.gradients())
    known, seen, later = locate(runs, runs.gradients()), [], []
    unproved = functools.partial(say.blame_unproved, checked, seen)
    again = functools.cache(lambda: [*other_runs(checked, runs.watch, runs.budget), OwnInputs(own)])
    proof, name = remedies.prove_unread_input(known, trial(known, again)) or (None, "")
    if proof is not None:
        return Found(known, [proof], spared=known.wrong - {name})
    proofs, mended = remedies.prove_at_once(known, functools.partial(trial, known, again))
    if proofs:
        return Found(known, proofs, otherwise=lambda: say.blame_unproved(checked, [known]),
                     spared=known.wrong - mended)
    for goal in possible_goals(known):
        found = aim((seen or [known])[0], goal)
        seen.append(found)
        if not found.suspects:
            return say.blame_no_line(checked, found)
        if not any(f.could for f in seen[:-1]):
            told = _blame_unproved(checked, found) or _blame_unproved_part(checked, found)
            if told is not None:
                return told
        if not has_candidate(found):
            continue
        tried = trial(found, again, found.left)
        proofs = remedies.prove_likely(found, tried)
        come = _found_of(found, tried, proofs, checked, seen)
        if come is not None and (not found.left or has_candidate(seen[0])
                                 or come.proofs[0].edit.cost < TAKEN):
            return come
        first = not (proofs or found.left or share < 1) and prove_first(checked, runs, found, tried)
        if first:
            return Found(found, [first], otherwise=unproved, spared=known.wrong)
        later += [come] * (come is not None)
        if runs.budget.left < HALF * WORK:
            break
    if not has_candidate(seen[0]):
        tried = trial(seen[0], again)
        proofs = remedies.prove_likely(seen[0], tried)
        later.insert(0, _found_of(seen[0], tried, proofs, checked, seen))
    return next(filter(None, later), None) or Found(seen[0], otherwise=unproved)


def has_candidate(found):
    """Whether a statement could mend the goal, besides one that returns what there is."""
    return any(s.level < PASSES_ON or not isinstance(s.line.node, ast.Return) for s in found.could)


def _found_of(found, tried, proofs, checked, seen):
    """What is Found of a Located, its first Proofs among it, or None."""
    proofs = remedies.find_proofs(found, tried, proofs)
    forward = remedies.prove_forward(found, tried, proofs) if not found.left else None
    return Found(found, proofs, forward, lambda: say.blame_unproved(checked, seen),
                 found.left) if proofs or forward is not None else None


def _blame_unproved(checked, found):
    """The Blame of a Located that needs no proof: a part that is not called, a gradient to which
    nothing is added; or None."""
    uncalled = say.uncalled_parts(checked, found)
    if uncalled and found.could:
        return say.blame_suspect(checked, found, found.could[0], "missing call", uncalled)
    absent = sorted(n for n, _ in checked.subject.layer.params() if n in found.wrong
                    and not found.base[n].any())
    if absent and not found.could and absent == sorted(found.wrong):
        return say.blame_line(checked, found, found.outermost.lines[-1], "missing line",
                           "a line is missing before it: nothing is added to the gradient of "
                           + ", ".join(absent))
    return None


def _blame_unproved_part(checked, found):
    """`_blame_unproved` of a part of what is wrong, where no value could mend all: cheaper than to
    look for proofs in the numbers."""
    parts = [] if found.could or found.left else list(possible_goals(found))[1:]
    told = next(filter(None, (_blame_unproved(checked, aim(found, part)) for part in parts)), None)
    found.solver.goal = found.goal
    return told


# What is promised is tried first

def confirm(checked, small, found, share):
    """The Blame of what was Found: a change is promised to mend all when it does so with the
    student's own inputs too; of one that does not, what it mends, and where it goes on."""
    little = max((row.error for row in checked.rows if row.right is False), default=1) < SLIGHT
    found.proofs = [p for p in found.proofs if not little or not ODD.search(p.new)]
    located = found.located
    proofs = [p for p in found.proofs[:TRIED] if mends(
        checked, p, p.line in located.forwards | located.made)]
    spoilt = {id(p): faults_with(checked, p) for p in proofs}
    clean = min((p.cost for p in proofs if not spoilt[id(p)]), default=np.inf)
    proofs.sort(key=lambda p: bool(spoilt[id(p)]) and clean < p.cost + TOKEN)
    if little and not proofs:
        return say.blame_small_error(checked, found)
    forward = found.forward
    if forward is not None and mends(checked, forward, True):
        says = (f"forward computes something else: with `{forward.new}` in place of "
                f"`{forward.old}` in line {forward.line.first} this backward is right as it is")
        other = remedies.likelier(forward, proofs[0]) if proofs else not found.proofs and (
            not found.located.could or forward.kind == "name")
        if other and not unused_in(found.located.outermost.node):
            report = say.blame_line(checked, found.located, forward.line, "forward", says)
            report.new = forward.new
            if proofs:
                report.notes.append(f"or backward is wrong in line {proofs[0].line.first}: with "
                                    f"`{proofs[0].new}` {say.compared(small)} is right too")
            return report
        checked.notes.append(f"or {says}")
    if proofs:
        report = say.blame_proved(small, found.located, proofs)
        still = spoilt[id(proofs[0])] or still_wrong_with(checked.subject, proofs[0])
        if still:
            report.diagnosis = report.diagnosis.replace(
                f"{say.compared(small)} is right", f"it is right at these inputs; but {still}")
        return report
    if found.proofs:
        return blame_partial(checked, small, found, share)
    return found.otherwise()


def mends(checked, proof, forward=False):
    """Whether every gradient is right, of the student's own inputs, with the change of a Proof."""
    try:
        with applied(proof):
            check = Check(checked.subject) if forward else checked.check
            return check.passes() and not check.all_zero
    except Exception:
        return False


def faults_with(checked, proof):
    """What the backward does beside its gradients, with the change of a Proof; or ""."""
    with contextlib.suppress(Exception), applied(proof):
        return "; ".join(side_effects(checked.check))


def still_wrong_with(subject, proof):
    """With what other inputs a gradient is wrong with the change of a Proof too; or ""."""
    for words, inputs in unlike_inputs(subject):
        with contextlib.suppress(Exception), applied(proof):    # the layer may not take them
            if not Check(subject.anew(inputs)).passes():
                return f"it is wrong still with {words}"
    return ""


def blame_partial(checked, small, found, share):
    """The Blame of a change that mends a part: of the one with which another mends the rest, and of
    that; or of the one that leaves least wrong."""
    wrong, tried = {row.name for row in checked.rows if row.right is False}, []
    for proof in found.proofs[:TRIED if share == 1 else 1]:
        if tried and checked.clock.over:
            break
        rest, left = None, set(found.spared)
        if share == 1:
            with contextlib.suppress(Exception), applied(proof):
                rest = search(checked.subject, False, AGAIN, checked.clock)
            if rest is None:                            # forward no longer stands being checked
                continue
            if rest.right:
                return say.blame_proved(small, found.located, [proof])
            left = {row.name for row in rest.finals if row.right is False}
        done = rest is not None and rest.new            # else it mends nothing of the student's own
        if not wrong or wrong - left or done:
            tried.append((rest is None or not rest.new, len(left), proof.line.first, len(tried),
                          proof, rest, sorted(wrong - left)))
            if rest is not None and rest.new:
                break
    return say.blame_one_of_two(
        small, found.located, *min(tried)[-3:]) if tried else found.otherwise()


# Backward raises

def locate_raised(checked, runs):
    """What is Found where the backward raises: of the lines on the way to the exception the one
    with the cheapest Proof, or else the first before it with any; or the `line_at_fault`."""
    trail = [line for _, line in traceback_lines(checked.error, runs.watch)][::-1]
    if isinstance(checked.error, NpdlError) and len(trail) > 1:
        del trail[0]                                    # npdl refused what it was given
    if not trail:
        return blame_exception(checked.subject.layer, checked.error, checked.notes)
    known, proof = locate(runs, {}), None
    runs.learn_slopes()
    tried = trial(known, functools.cache(
        lambda: other_runs(checked, runs.watch, runs.budget)))
    called = [line for function in runs.watch.functions for line in function.lines
              if function.code.co_name in called_names(trail[0].node)]
    for i, one in enumerate(dict.fromkeys([*trail, *(s.line for s in known.suspects[::-1]),
                                           *called])):
        if proof is None or i < len(trail):
            proof = by_edit(tried, one, None, proof.cost if proof else STAGES[-1]) or proof
    runs.outputs(only=set(range(len(runs.watch.places))), record=True)
    line = line_at_fault(checked.error, trail, [
        (runs.watch.places[key[0]], value) for key, value in runs.watch.seen.items()])
    says = shapes_read(checked.error, trail[0])
    if proof is not None and not says.startswith("the line"):
        checked.notes.append(says)                      # what a cache holds
    if line is not trail[0]:
        says = f"with what it makes line {trail[0].first} raises: {says}"
    return Found(known, [proof] * bool(proof), otherwise=lambda: say.blame_line(
        checked, known, line, "raised", says))
