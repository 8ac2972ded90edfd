"""What is said of what was found: Blames of a line, of a suspect, of proofs, of none."""

import ast
import re

import numpy as np

from npdl_study.blame.locate import make_wrong_alone
from npdl_study.blame.report import SAYS, Blame, source_of
from npdl_study.blame.scope import small_constants, unused_in
from npdl_study.blame.suspects import (
    NOTHING,
    PASSES_ON,
    PROVEN,
    SOMETHING,
    called_names,
    only_passes_on,
)
from npdl_study.blame.weights import ALIKE
from npdl_study.trace.syntax import bound_by, names_of

SECOND = ("the first value that is the gradient of nothing in forward; what is computed from it in "
          "line {} could be wrong too")
LONG = 160                      # of two statements: of longer ones the parts that differ are shown


def blame_line(checked, found, line, kind, text, suspect=None):
    """The Blame of a Line; with a Suspect, what that computed and should have."""
    report = Blame(False, checked.rows, checked.notes, **source_of(line), diagnosis=text,
                   kind=kind, error=checked.error)
    unused = [n for n in unused_in(line.function.node) if n[0] == "d" and n[1:]]
    if unused:
        checked.notes.append(f"{', '.join(unused)} {'is' if len(unused) == 1 else 'are'} "
                             "computed and never used")
    if suspect is not None:
        key = suspect.first_wrong_key()
        targets = [getattr(line.node, "target", None), *getattr(line.node, "targets", [])]
        names = [ast.unparse(t) for t in targets if t is not None]
        report.name = suspect.argument_name or ("return" if isinstance(line.node, ast.Return) else (
            names or [found.runs.watch.places[key[0]].text])[0])
        report.computed = suspect.values[key]
        if key in suspect.wanted and suspect.sure[key].all():
            report.wanted = suspect.wanted[key]
        frame = found.frames.get(key, {})
        report.iteration = tuple(turn for loop in line.loops if (turn := tuple(
            (n.id, int(frame[n.id])) for n in ast.walk(getattr(loop, "target", loop))
            if isinstance(n, ast.Name) and isinstance(frame.get(n.id), int))))
    return report


def blame_suspect(checked, found, suspect, kind, text):
    """The Blame of a Suspect's line."""
    return blame_line(checked, found, suspect.line, kind, text, suspect)


def change_text(proof):
    """What is wrong, by the change that mends it."""
    if isinstance(proof.line.node, (ast.For, ast.While)):
        return "the loop does not take every turn, or takes one too many"
    return proof.note or SAYS.get(proof.kind, proof.kind)


def mend_text(proof):
    """What is put in the place of what; of a long statement the part that differs."""
    old, new = proof.old, proof.new
    if proof.edit.also:
        first = new.split("; ")[0]
        return f"`{first}` in place of `{old}` and with `{proof.edit.also[1]}` in place of " \
               f"`{proof.edit.also[0]}`"
    if len(old) + len(new) > LONG:
        same = [a == b for a, b in zip(old, new, strict=False)]
        first = same.index(False) if False in same else len(same)
        last = next((i for i, (a, b) in enumerate(zip(old[:first:-1], new[:first:-1],
                                                      strict=False)) if a != b), 0)
        first = max((old.rfind(mark, 0, first) + len(mark) for mark in ("(", "[", "{", ", ", "= ")
                     if mark in old[:first]), default=0)
        ends = [text[first : len(text) - last] + re.split(r"[,)\]}]", text[len(text) - last :])[0]
                for text in (old, new)]
        old, new = ends if all(ends) else (old, new)
    return f"`{new}` in place of `{old}`"


def dropped_calls(proof):
    """The names of the functions that the change of a Proof no longer calls."""
    part, new = proof.edit.part, proof.edit.new
    return called_names(part) - called_names(
        ast.parse(new) if isinstance(new, str) else new) if part else set()


def compared(checked):
    """What a change makes right: what has no place, or was not returned, has not been looked at."""
    return "every gradient" + " that was compared" * bool(checked.questions)


def blame_proved(checked, found, proofs):
    """The Blame of Proofs that mend every gradient, the likeliest first."""
    best = proofs[0]
    text = change_text(best)
    inner = [s for s in found.could if s.level <= SOMETHING and not found.is_shared(s.line)
             and s.line.function.code.co_name in dropped_calls(best)]
    where = f" in line {best.line.first}" if inner else ""
    text += f"; with {mend_text(best)}{where} {compared(checked)} is right" if best.new else ""
    either = list(dict.fromkeys(p.line.first for p in proofs
                                if p.line.function is best.line.function
                                and p.cost <= best.cost + ALIKE))[:2]
    suspect = max(inner, key=lambda s: s.works, default=best.suspect)   # it is that which is wrong
    report = blame_line(checked, found, suspect.line if inner else best.line, best.kind, text,
                        suspect)
    report.new = best.new
    report.either = tuple(sorted(either)) if len(either) > 1 else ()
    return report


def blame_one_of_two(checked, found, proof, rest, mended):
    """The Blame of a Proof that makes the gradients in `mended` right; `rest` is the Blame of the
    backward with its change made, or None."""
    again = rest is not None and rest.line
    if again and rest.file == source_of(proof.line)["file"] and rest.line == proof.line.first:
        text = f"{change_text(proof)}, and more; " + rest.diagnosis.replace(
            f"in place of `{proof.new}`", f"in place of `{proof.old}`")
        report = blame_line(checked, found, proof.line, proof.kind, text, proof.suspect)
        report.new = rest.new
        return report
    what = f"the gradient of {', '.join(mended)} is right" if mended else "it does not raise" \
        if checked.error is not None else "another change makes every gradient right"
    text = f"{change_text(proof)}; with {mend_text(proof)} {what}"
    report = blame_line(checked, found, proof.line, proof.kind, text, proof.suspect)
    if again:
        report.second = rest.line
        report.notes.append(f"another line is wrong too, seen with that change: line {rest.line}, "
                            f"`{rest.source.strip()}`: {rest.diagnosis or 'its value is wrong'}")
    else:
        report.notes.append("this may not be the only wrong line: run blame again when it is right")
    return report


def blame_small_error(checked, found):
    """The Blame of gradients that are off by a little: no slip, but an eps, or a rounded number."""
    report, watch = found.otherwise(), found.located.runs.watch
    off = max(row.error for row in checked.rows if row.right is False)
    eps = small_constants(watch.functions)
    report.kind, report.diagnosis = "small", (
        f"it is off by {off:.1g} of its size: an eps that one of the two passes does not have, or "
        "a constant that is rounded" + (f"; {', '.join(eps)} stands in this code" if eps else ""))
    return report


def blame_unproved(checked, seen):
    """The Blame where no change is a proof, of the statements that could be the mistake: of what
    could mend all, or, of the Located for parts of it, of the gradient of nothing."""
    whole = next((f for f in seen if f.could), seen[0])
    found = whole if any(s.level <= SOMETHING or not only_passes_on(s.line.node)
                         for s in whole.could) else next(
        (f for f in seen if any(s.level <= NOTHING for s in f.could)), whole)
    alone = make_wrong_alone(found)
    could = [s for s in found.could if s in alone] or found.could
    if found.left:
        checked.notes.append("this may not be the only wrong line: run blame again when it is "
                             "right")
    likely = sorted((s for s in could if s.level <= SOMETHING), key=lambda s: (s.odds, *s.rank))
    if likely:
        alike = [s for s in likely[:2] if s.odds <= likely[0].odds + ALIKE
                 and s.line.function is likely[0].line.function]
        first = min(alike, key=lambda s: s.line.first) if likely[0].follows else likely[0]
        inner = [first, *(s for s in could if s.level != PROVEN and not only_passes_on(s.line.node)
                          and not s.values.keys() & found.moved and not found.is_shared(s.line))]
        first = max(inner, key=lambda s: s.works)   # of little work an edit is a proof
        before = _before(found, first, alone)
        if before is not None:                          # two mistakes: the order alone is known
            report = blame_suspect(checked, found, before, "unknown",
                                   SECOND.format(first.line.first))
            report.second = first.line.first
            return report
        report = blame_suspect(checked, found, first, "", gradient_wanted(found, first))
        either = sorted({s.line.first for s in [*alike, first]})
        report.either = tuple(either) if len(either) > 1 and not found.left else ()
        return report
    handing = sorted((s for s in could if s.level == PASSES_ON), key=lambda s: s.order)
    if handing and not any(s.level <= NOTHING and not s.argument and s.order < handing[0].order
                           for s in found.suspects):    # there is no line before it
        return blame_suspect(checked, found, handing[0], "", gradient_wanted(found, handing[0])
                             or "what it hands over, or what is made of that, is wrong")
    shaped = [s for s in found.suspects if any(
        np.array_equal(v, found.base[n]) for v in s.values.values() for n in found.wrong
        if found.base[n].shape != found.runs.truth[n].shape)]
    outer = [s for s in shaped if s.line.function is found.outermost]
    shaped = [s for s in outer if s in alone and not _hands_over(s, shaped)] or [
        s for s in shaped if s in alone] or outer
    if shaped and not could:
        return blame_line(checked, found, shaped[0].line, "shape",
                          "its shape is not that of the array that it is the gradient of")
    if alone:
        first = alone[0]
        index = line_of_index(first, found.forwards - {None} | {
            s.line for s in found.suspects if s not in alone})
        if index is not None:
            return blame_line(checked, found, index, "unknown", "no value that line "
                              f"{first.line.first} stores could mend it: where it does is wrong")
        return blame_suspect(checked, found, first, "unknown", (
            "the first value that is the gradient of nothing in forward"
            if first.level <= NOTHING else "wrong gradients alone are made of it"))
    return blame_no_line(checked, found)


def _hands_over(suspect, inner):
    """Whether a Suspect's statement calls a function of `inner` ones with nothing but what it was
    handed itself."""
    call, own = getattr(suspect.line.node, "value", None), suspect.line.function.arguments
    called = called_names(suspect.line.node) & {s.line.function.code.co_name for s in inner}
    return bool(called) and isinstance(call, ast.Call) and not call.keywords and all(
        getattr(a, "id", "") in own for a in call.args)


def line_of_index(suspect, right):
    """The first Line of a function that computes an index at which a Suspect stores, where no
    value that it stores could mend, and which no Line of the `right` ones reads; or None."""
    node = suspect.line.node
    target = getattr(node, "target", getattr(node, "targets", [None])[0])
    names = names_of(target.slice) if isinstance(target, ast.Subscript) else set()
    names -= {name for line in right for name in names_of(line.node)}
    return next((line for line in suspect.line.function.lines if line.first < suspect.line.first
                 and suspect.could is False and isinstance(line.node, ast.Assign)
                 and names & bound_by(line.node)), None)


def _before(found, last, alone):
    """Of a Suspect that computes a whole gradient of those that are wrong, the first before it that
    computes the gradient of nothing, and could not mend all, but moves them; or None."""
    key = last.first_wrong_key()
    if key not in last.wanted or not found.is_in_goal(last.wanted[key]):
        return None
    return min((s for s in alone if s.level <= NOTHING and s.could is False
                and not s.argument and s.order < last.order and np.any(s.J)
                and s.line.function is last.line.function), key=lambda s: s.order, default=None)


def blame_no_line(checked, found):
    """The Blame where no line can be named."""
    unseen = found.runs.watch.unseen
    unseen = f"; no source could be had of {', '.join(unseen)}" if unseen else ""
    return Blame(False, checked.rows, checked.notes, kind="unknown",
                 diagnosis="no statement of the backward alone could mend every gradient; smaller "
                 f"inputs may tell more{unseen}")


def gradient_wanted(found, suspect):
    """Of what a Suspect's value should be the gradient."""
    key = suspect.first_wrong_key()
    if suspect.name:
        return f"it is right, but not for the input {suspect.name}: a line is missing after it"
    if suspect.line.function is not found.outermost and not suspect.values.keys() & found.moved:
        return "it is not the slope that is needed, or " \
               f"{suspect.line.function.code.co_name} is called with an input for an output"
    meant = found.oracle.name(suspect.wanted[key]) if key in suspect.wanted else ""
    return f"it should be the gradient of {meant}" if meant else ""


def uncalled_parts(checked, found):
    """What is said of parts of a layer to whose parameters nothing was added; "" of others."""
    left, base = found.left, found.base
    names = [name for name, _ in checked.subject.layer.params()]
    if not left or not all("." in n and n in names and not base[n].any() for n in left):
        return ""
    parts = {n.rpartition(".")[0] for n in left}
    if any(found.runs.truth[n].any() and base[n].any() for n in names
           if n.rpartition(".")[0] in parts):
        return ""
    calls = ", ".join(f"{part}.backward" for part in sorted(parts))
    return f"{calls} is not called: nothing is added to the gradient of {', '.join(sorted(left))}"
