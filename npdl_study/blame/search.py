"""From a check that fails to the line at fault: locate, prove, say."""

import ast
import re

import numpy as np

from npdl.errors import NpdlError
from npdl_study.blame.locate import Locate
from npdl_study.blame.no_fault import unblamed
from npdl_study.blame.prove import Prove
from npdl_study.blame.raised import ended, lines_of, what_it_read
from npdl_study.blame.report import SAYS, Blame, source_of
from npdl_study.blame.shrink import others, shrunk
from npdl_study.blame.suspects import HANDS_ON, NOTHING, PROMISED, SOMETHING, calls_of, hands_on
from npdl_study.blame.words import unused_in
from npdl_study.check.verdicts import Check, worst_row
from npdl_study.containment import message
from npdl_study.trace.runs import Budget, Runs, quiet
from npdl_study.trace.syntax import bound_by, header, names_of, renames, terms

WORK = 9_000_000                # values that the search may compute: some seconds
FORWARD = 150_000               # of these for a slip of forward's
ALIKE = 0.11                    # costs of changes that differ by less are of one likelihood
LIKELIER = 0.7                  # what a change of backward costs more than a likelier forward's
TAKEN = 1.5                     # what a change costs that is doubted where it reads another line
SLIPS = ("axis", "name")
NEUTRAL = re.compile(r" (\*\*?|/|\+|-) (0|1|1\.0|0\.0)\b")      # what nobody means to write


class Search:
    """Checks a Subject, and finds the statement at fault when it is wrong. With `elsewhere`, what
    its inputs do not reach is looked for at others."""

    def __init__(self, subject, elsewhere=True):
        self.subject, self.elsewhere = subject, elsewhere
        self.notes, self.questions = subject.notes(), []
        self._others = None

    def run(self):
        """The Blame."""
        with quiet():
            self.check = Check(self.subject)
            self.dout, self.rows, self.error = self._failing()
        if self.dout is None:
            return unblamed(self)
        if isinstance(self.error, NotImplementedError):
            return ended(self.subject.layer, self.error, self.notes, True)
        if self.error is None:
            self._shrink()
        self.runs = Runs(self.subject, self.dout, budget=Budget(WORK))
        try:
            with quiet(), self.runs.watch:
                return self._raised() if self.error is not None else self._wrong()
        except Exception as error:                      # code that does not stand being watched
            return Blame(False, self.rows, self.notes, kind="unknown", error=self.error,
                         diagnosis=f"the line could not be looked for: {message(error)}")

    def _shrink(self):
        """Go on with smaller inputs, where the backward is wrong with these too."""
        smaller = shrunk(self.subject)
        if smaller is not self.subject:
            with quiet():
                search = type(self)(smaller)
                search.check = Check(smaller)
                dout, rows, error = search._failing()
            if dout is not None and error is None:
                self.subject, self.check, self.dout, self.rows = smaller, search.check, dout, rows

    def _failing(self):
        """(the first upstream gradient with a wrong result or an exception, Rows, exception)."""
        check, found = self.check, {}
        for used in self.subject.uses:
            dout = self.subject.upstream(used)
            try:
                gradients, _ = check.backward(used)
            except Exception as error:
                return dout, [], error
            for name in self.subject.arrays:
                found.setdefault(name, []).append(
                    check.compare(name, gradients.get(name), used))
            rows = [worst_row(own, self.subject.paths) for own in found.values()]
            if any(row.right is False for row in rows):
                self.notes += check.asked(rows).questions
                return dout, [own[-1].row for own in found.values()], None
        verdict = check.asked(rows)
        self.notes += [f"{row.name}: not checkable here: {row.reason}" for row in verdict.rows
                       if row.right is None and row.kind != "missing"] + verdict.notes
        self.questions = verdict.questions
        return None, verdict.rows, None

    # A gradient is wrong

    def _wrong(self):
        runs = self.runs
        runs.learn({row.name for row in self.rows if not row.right and row.kind != "missing"},
                   runs.gradients())
        self.located = Locate(runs, runs.gradients())
        could = self.located.run()
        if not self.located.suspects:
            return self._nothing()
        left = self.located.left
        prove = Prove(runs, self.located.frames, self._more, left, self.located.oracle.values)
        uncalled = self._uncalled(left)
        if left and not uncalled:
            self.notes.append("this may not be the only wrong line: run blame again when it is "
                              "right")
        if uncalled and could:
            return self._of_suspect(could[0], "missing call", uncalled)
        absent = sorted(n for n, _ in self.subject.layer.params() if n in self.located.wrong
                        and not self.located.base[n].any())
        if absent and not could and absent == sorted(self.located.wrong):
            return self._report(self._last_line(), "missing line", "a line is missing before it: "
                                f"nothing is added to the gradient of {', '.join(absent)}")
        proofs = self._every_proof(prove, could)
        forward = self._forward_instead(prove)
        if forward is not None:
            says = (f"forward computes something else: with `{forward.new}` in place of "
                    f"`{forward.old}` in line {forward.line.first} this backward is right as it is")
            other = likelier(forward, proofs[0]) if proofs else (
                left or not could or forward.kind == "name")
            if other and not unused_in(self.located.outermost.node):
                report = self._report(forward.line, "forward", says)
                report.new = forward.new
                if proofs:
                    self.notes.append(f"or backward is wrong in line {proofs[0].line.first}: with "
                                      f"`{proofs[0].new}` every gradient is right too")
                return report
            self.notes.append(f"or {says}")
        return self._proved(proofs) if proofs else self._unproved(could)

    def _every_proof(self, prove, could):
        """The Proofs, the best first."""
        proofs = self._proofs(prove, [s for s in could if s.level <= SOMETHING])
        if not proofs and not any(s.level == PROMISED for s in could):
                                                        # right by its name, and not enough
            proofs = self._proofs(prove, [s for s in could if s.name])
        proofs = proofs or self._proofs(prove, self.located.handed()) or self._of_the_rest(
            prove, could) or prove.missing()
        if not proofs:
            return []
        proofs += self._of_what_is_read(prove, min(proofs, key=lambda p: p.rank))
        proofs.sort(key=lambda p: p.rank)
        return self._where_defined(prove, proofs[0]) + proofs

    def _unproved(self, could):
        """The Blame where no change is a proof, of the statements that could be the mistake."""
        likely = sorted((s for s in could if s.level <= SOMETHING), key=lambda s: (
            s.odds, *s.rank))
        if likely:
            report = self._of_suspect(likely[0], "", self._in_values(likely[0]))
            alike = {s.line.first for s in likely[:2] if s.odds <= likely[0].odds + ALIKE
                     and s.line.function is likely[0].line.function}
            report.either = tuple(sorted(alike)) if len(alike) > 1 else ()
            return report
        handing = [s for s in could if s.level == HANDS_ON and isinstance(s.line.node, ast.Return)]
        if handing:                                     # there is no other line
            return self._of_suspect(handing[0], "", self._in_values(handing[0]))
        filled = self._fillers(could)
        if filled:
            return self._report(filled[-1], "unknown",
                                "what it adds, or where it adds it, is wrong")
        named = [s for s in could if s.name]
        if named:
            return self._of_suspect(named[0], "missing line", "it is the gradient of "
                                    f"{named[0].name}, and what reads it needs another: a line is "
                                    "missing after it")
        unknown = [s for s in self.located.suspects if s.could is None and s.level <= SOMETHING]
        if unknown:
            return self._of_suspect(sorted(unknown, key=lambda s: s.rank)[0], "unknown",
                                    "the first value that is the gradient of nothing in forward")
        return self._nothing()

    def _nothing(self):
        return Blame(False, self.rows, self.notes, kind="unknown",
                     diagnosis="no statement of the backward alone could mend every gradient; "
                     "smaller inputs may tell more" + self._not_seen())

    def _last_line(self):
        """The last line of the function that backward begins with."""
        return self.located.outermost.lines[-1]

    def _proofs(self, prove, suspects):
        """The Proofs of Suspects: by an edit, or by what is missing in numbers."""
        proofs, tried = [], set()
        for suspect in sorted(suspects, key=lambda s: (s.odds, *s.rank)):
            most = min((p.cost for p in proofs), default=np.inf) - suspect.odds
            own = suspect.keys[0][0] if suspect.argument else suspect.line
            if own not in tried:
                tried.add(own)
                found = None if suspect.handed else prove.edit(suspect.line, suspect, most + ALIKE)
                if found is not None:
                    most = found.cost
                if found is None or most > 1.5:
                    fit = prove.fit(suspect)
                    found = fit if fit is not None and fit.cost < most else found
                if found is not None:
                    found.cost += suspect.odds
                    proofs.append(found)
        return proofs

    def _of_the_rest(self, prove, could):
        """The Proofs of statements without values: loops, choices, indices, what hands on."""
        ran = {s.line.function for s in self.located.suspects}
        known = [s.line for s in could[:1] if s.level <= NOTHING]     # what it reads comes first
        own = {s.line for s in could if s.level <= SOMETHING and not (
            s.argument and any(_before(s.line, one) < 2 for one in known))}
        by = {s.line: s for s in self.located.suspects if not s.argument}
        rest = [line for f in self.runs.watch.functions if f in ran or "backward" in f.qualname
                for line in f.lines if line not in own and (
                    "forward" not in f.qualname or line.inside)]
        rest.sort(key=lambda line: (min((_before(line, one) for one in known), default=2),
                                    line in by, hands_on(line.node)))
        for least, most in ((0, 1.4), (1.4, 1.9), (1.9, 9.0)):  # what is small in any comes first
            proofs = []
            for line in rest:
                suspect = by.get(line)
                if suspect is not None and suspect.level == HANDS_ON and not suspect.could and \
                        not isinstance(line.node, ast.Return):
                    suspect = None
                found = prove.edit(line, suspect, min([most, *(p.cost for p in proofs)]), least)
                if found is not None:
                    found.suspect = suspect if suspect is not None and suspect.could else None
                    proofs.append(found)
            if proofs:
                return proofs
        return []

    def _of_what_is_read(self, prove, best):
        """The Proofs of lines that bind what the line of a Proof reads, of forward's values alone:
        cheaper, or as cheap."""
        by = {s.line: s for s in self.located.suspects if not s.argument}
        read, found = names_of(header(best.line.node)), []
        for line in best.line.function.lines if best.cost > TAKEN else ():
            fixed = line not in by or set(by[line].values) <= self.located.fixed and not \
                by[line].could                          # that was tried
            if line.first < best.line.first and isinstance(
                    line.node, ast.Assign) and fixed and bound_by(line.node) & read and not \
                    renames(line.node):
                proof = prove.edit(line, None, best.cost + ALIKE)
                found += [proof] * bool(proof)
        return found

    def _where_defined(self, prove, best):
        """[the Proof of the line that binds the name in whose place a Proof puts an expression, or
        to which it adds a term: it is as simple]; [] where what it binds is a gradient, or would
        have to have more axes."""
        own = best.cost - (best.suspect.odds if best.suspect else 0)
        term = best.new.removeprefix(best.old) if best.kind == "missing term" else best.new
        added = term != best.new and best.suspect is not None
        names = {t.id for t in terms(best.line.node.value) if isinstance(t, ast.Name)} if added \
            else {best.inlines} - {""}
        for line in reversed(best.line.function.lines if names else ()):
            if line.first >= best.line.first or not isinstance(line.node, ast.Assign) or \
                    not names & bound_by(line.node) or renames(line.node):
                continue
            suspect = next((s for s in self.located.suspects if s.line is line
                            and not s.argument), None)
            fixed = suspect is None or set(suspect.values) <= self.located.fixed
            could = suspect is not None and suspect.could and suspect.level <= NOTHING and not \
                suspect.widened
            if could and added:
                proof = prove.term(line, suspect, own, term)
            elif could or fixed and not added:
                proof = prove.edit(line, suspect if could else None, own + ALIKE)
            else:
                proof = None
            if proof is not None:
                proof.cost = best.cost - ALIKE / 2
                return [proof]
            names -= bound_by(line.node)
        return []

    def _forward_instead(self, prove):
        """The Proof of a line of forward, of which a slip makes the backward right as it is."""
        ran = {s.line.function for s in self.located.suspects}
        least = self.runs.budget.left - FORWARD
        seen = {self.runs.watch.places[key[0]].function for key in self.located.oracle.values}
        for line in [line for f in self.runs.watch.functions if f in seen - ran for line in f.lines
                     if isinstance(line.node, (ast.Assign, ast.AugAssign, ast.Return))]:
            found = prove.forward(line, least)
            if found is not None:
                return found
        return None

    def _fillers(self, could):
        """The Lines that fill an array that begins as zeros, and would have to begin otherwise."""
        names = set()
        for suspect in could:
            for key in suspect.keys if "zeros" in suspect.line.text else ():
                if np.abs(suspect.wanted.get(key, 0) - suspect.values[key]).max(initial=0) > 1e-6:
                    names |= set(self.runs.watch.places[key[0]].names)
        return [line for f in self.runs.watch.functions for line in f.lines
                if isinstance(line.node, (ast.AugAssign, ast.Assign))
                and "zeros" not in line.text and names & {ast.unparse(t).split("[")[0] for t in (
                    getattr(line.node, "targets", [getattr(line.node, "target", None)]))}]

    def _more(self):
        """Runs that a proof was not found on."""
        if self._others is None:
            self._others = others(self.subject, self.runs.watch, self.runs.budget)
        return self._others

    def _uncalled(self, left):
        """What is said of parts of a layer to whose parameters nothing was added; "" of others."""
        runs, base = self.runs, self.located.base
        names = [name for name, _ in self.subject.layer.params()]
        if not left or not all("." in n and n in names and not base[n].any() for n in left):
            return ""
        parts = {n.rpartition(".")[0] for n in left}
        if any(runs.truth[n].any() and base[n].any() for n in names
               if n.rpartition(".")[0] in parts):
            return ""
        calls = ", ".join(f"{part}.backward" for part in sorted(parts))
        return (f"{calls} is not called: nothing is added to the gradient of "
                f"{', '.join(sorted(left))}")

    # What is said

    def _proved(self, proofs):
        best = proofs[0]
        says = best.words or SAYS.get(best.kind, best.kind)
        if isinstance(best.line.node, (ast.For, ast.While)):
            says = "the loop does not take every turn, or takes one too many"
        text = f"{says}; with `{best.new}` in place of `{best.old}` every gradient is right"
        either = list(dict.fromkeys(p.line.first for p in proofs
                                    if p.line.function is best.line.function
                                    and p.cost <= best.cost + ALIKE))[:2]
        report = self._report(best.line, best.kind, text, best.suspect)
        report.new = best.new
        report.either = tuple(sorted(either)) if len(either) > 1 else ()
        return report

    def _of_suspect(self, suspect, kind, text):
        return self._report(suspect.line, kind, text, suspect)

    def _in_values(self, suspect):
        key = suspect.first_wrong()
        of = self.located.oracle.name(suspect.wanted[key]) if key in suspect.wanted else ""
        return f"it should be the gradient of {of}" if of else ""

    def _report(self, line, kind, text, suspect=None):
        report = Blame(False, self.rows, self.notes, **source_of(line), diagnosis=text, kind=kind,
                       error=self.error)
        unused = [n for n in unused_in(line.function.node) if n[0] == "d" and n[1:]]
        if unused:
            self.notes.append(f"{', '.join(unused)} {'is' if len(unused) == 1 else 'are'} "
                              "computed and never used")
        if suspect is not None:
            key = suspect.first_wrong()
            targets = [getattr(line.node, "target", None), *getattr(line.node, "targets", [])]
            names = [ast.unparse(t) for t in targets if t is not None]
            report.name = suspect.handed or ("return" if isinstance(line.node, ast.Return) else (
                names or [self.runs.watch.places[key[0]].text])[0])
            report.computed = suspect.values[key]
            if key in suspect.wanted and suspect.sure[key].all():
                report.wanted = suspect.wanted[key]
            frame = self.located.frames.get(key, {})
            report.iteration = tuple(turn for loop in line.loops if (turn := tuple(
                (n.id, int(frame[n.id])) for n in ast.walk(getattr(loop, "target", loop))
                if isinstance(n, ast.Name) and isinstance(frame.get(n.id), int))))
        return report

    def _not_seen(self):
        unseen = self.runs.watch.unseen
        return f"; no source could be had of {', '.join(unseen)}" if unseen else ""

    # Backward raises

    def _raised(self):
        runs = self.runs
        located = self.located = Locate(runs, {})
        trail = [(function, line) for function, line in lines_of(self.error, runs.watch)]
        if isinstance(self.error, NpdlError) and len(trail) > 1:
            trail = trail[:-1]                          # npdl refused what it was given
        if not trail:
            return ended(self.subject.layer, self.error, self.notes)
        line = trail[-1][1]
        with quiet():
            runs.learn_slopes()
        prove = Prove(runs, located.frames, self._more)
        ran = [s.line for s in reversed(located.suspects)]
        for one in dict.fromkeys([line, *ran]):
            proof = prove.edit(one)
            if proof is not None:
                return self._proved([proof])
        return self._report(line, "raised", what_it_read(self.error, line))


def likelier(forward, backward):
    """Whether a slip of forward's is likelier than the change of a backward, both Proofs."""
    return forward.kind in SLIPS and not NEUTRAL.search(
        forward.new) and backward.cost > forward.cost + LIKELIER


def _before(line, other):
    """0 where a Line stands before another in its function, 1 where it calls that, 2 elsewhere."""
    if line.function is other.function:
        return 0 if line.first < other.first else 2
    return 1 if other.function.code.co_name in calls_of(header(line.node)) else 2
