"""From a check that fails to the line at fault."""

import ast

import numpy as np

from npdl.errors import NpdlError
from npdl_study.blame.missing import Missing, not_called
from npdl_study.blame.repair import Repair, first_difference
from npdl_study.blame.right import unblamed
from npdl_study.blame.suspects import Suspects
from npdl_study.blame.terms import PARTS, WHOLES
from npdl_study.blame.trials import Trials, Unit, added
from npdl_study.trees import copied
from npdl_study.check.diagnose import Blame, Diagnosis, ended
from npdl_study.trace.handed import hands_on, makes_room
from npdl_study.trace.judge import Judge
from npdl_study.trace.patch import patched
from npdl_study.trace.record import record
from npdl_study.trace.syntax import terms
from npdl_study.trace.trace import original_file

PLAIN, LARGER = range(5), range(5, 10)          # ranks of edits: of one token, and the others
SIMPLE = 6                                      # weight of an explanation that larger edits follow


class Search(Suspects):
    """Runs a Check, and finds the statement at fault when it fails. With `elsewhere`, what its
    inputs do not reach is looked for at others."""

    def __init__(self, check, elsewhere=True):
        self.check, self.elsewhere = check, elsewhere
        self.notes = list(check.notes)

    def run(self):
        """The Blame."""
        check = self.check
        if check.refusal:
            return Blame(False, [], self.notes, kind=check.refused, diagnosis=check.refusal)
        self.dout, self.found, self.error = self._failing()
        if self.dout is None:
            return unblamed(self)
        self.recording = self._record()
        if isinstance(self.error, NotImplementedError):
            return ended(check.layer, self.recording, self.notes)
        self.steps = self.recording.phase("backward")
        if not self.steps:
            return Blame(False, self.found, self.notes, error=self.error, kind="unknown",
                         diagnosis="no statement of the backward could be named")
        with np.errstate(all="ignore"):
            self.verdicts = Judge(check.oracle, self.recording, check.weights(self.dout)).run()
        return self._raised() if self.error is not None else self._wrong()

    def _record(self):
        check = self.check
        check.reset()
        return record(check.layer, check.inputs, check.options, copied(self.dout),
                      forward=check.forward)

    def _failing(self):
        """(the first upstream gradient with a wrong result or an exception, finals, exception)."""
        check, found = self.check, []
        for dout in check.upstreams:
            try:
                found = check.finals(dout)
            except Exception as error:
                return dout, [], error
            self.notes += [note for note in check.aliasing() if note not in self.notes]
            kinks = [f.name for f in found if f.kink]
            if kinks:
                self.notes.append(f"{', '.join(kinks)}: the layer has a kink at this input (a ReLU "
                                  "at 0, two equal maxima); nothing is known there")
            if any(not f.right and not f.kink for f in found):
                return dout, found, None
        return None, found, None

    def _raised(self):
        """The Blame for a backward that raised.

        Where npdl refused what it was given, the statement that gave it is at fault.
        """
        raising = [s for s in self.steps if s.error is not None]
        origin = raising[0] if raising else self.steps[-1]
        if isinstance(origin.error, NpdlError) and len(raising) > 1:
            origin = raising[1]
        region = [s for s in self.steps if s.error is not None
                  or s.index <= origin.index and not self._is_right(s)]
        found = Repair(self, region, origin).find()
        if found is not None:
            return self._report_found(found, region)
        step = origin
        for earlier in region:                          # the first value with a wrong shape
            if any(v is not None and v.misshapen for v in self._verdicts(earlier)):
                step = earlier
                break
        return self._report(step, region)

    def _wrong(self):
        """The Blame for wrong gradients: of the statements that could mend them, the likeliest.

        An edit of one token is looked for first, then something simple that is missing in numbers,
        then a larger edit, then anything in numbers; without any it is the first that could.
        """
        self.trials = Trials(self.check, self.dout, self.recording, self.found,
                             self.verdicts).measured()
        self.missing = Missing(self.trials, self.verdicts, self.check, self.dout)
        suspects = self._suspects()
        found = self._in_the_dark(suspects)
        if found is not None:
            return found
        region = self._steps(suspects + self._others(suspects))
        if not region:
            return self._report(self.steps[-1], self.steps)
        lead = suspects[0] if suspects else None
        first = self.steps[lead.places[0].at] if suspects else region[0]
        call = not_called(self.trials, lead.mended) if suspects else None
        if call is not None:
            return self._report(first, region, None, lead, call)
        repair = Repair(self, region, first, suspects)
        found = self._by_size(repair, suspects, region) or self._although_right(region) \
            or self._throughout(repair)
        if found is not None:
            return found
        if suspects and lead.handed and self._was_right(lead, suspects[-1]):
            suspects = suspects[1:]                     # called rightly at first: nothing tells why
            lead = suspects[0]
            first = self.steps[lead.places[0].at]
        return self._either(suspects, self._report(first, region, None, lead))

    def _by_size(self, repair, suspects, region):
        """A Blame of the smallest edit, or of what is simplest in numbers; None without any."""
        explained = []
        for ranks, looks, most in ((PLAIN, PARTS, SIMPLE), (LARGER, WHOLES, np.inf)):
            found = repair.find(ranks)
            if found is not None:
                return self._report_found(found, region)
            unit, explanation = self.missing.counted(suspects)
            if unit is not None:
                return self._report(unit.steps[0], region, None, suspects[0], explanation,
                                    shown=False)
            explained.append(self.missing.simplest(suspects, looks))
            unit, explanation = next((pair for pair in explained if pair[1] is not None
                                      and pair[1].weight <= most), (None, None))
            if explanation is not None:
                return self._explained(suspects, region, unit, explanation)
        return None

    def _in_the_dark(self, suspects):
        """A Blame of a statement of which no numbers are known, a loop that leaves out a turn or
        an index, where the suspects cannot mend all that is wrong; None where there is none."""
        if suspects and suspects[0].mended == self.trials.wrong:
            return None
        region = self._steps([u for u in self.trials.units if not u.places or u.dark])
        found = Repair(self, region, self.steps[-1]).find()
        return None if found is None else self._report_found(found, region)

    def _explained(self, suspects, region, unit, explanation):
        """The Blame of a Unit in whose numbers something simple is missing."""
        could, unit = unit, self._begun(unit, explanation)
        step = self.steps[unit.handed[0]] if unit.handed else unit.steps[0]
        report = self._either(suspects, self._report(step, region, None, unit, explanation))
        if unit is not could:
            report.either = tuple(sorted({*report.either, could.statement.first,
                                          unit.statement.first}))
        return report

    def _throughout(self, repair):
        """A Blame of what the upstream gradient lacks wherever the backward reads it; or None."""
        call = self.steps[0].call
        handed = next(iter(call.function.given), "")
        readers = [s for s in self.steps if s.call is call and handed in s.statement.reads
                   and not s.statement.loops]
        found = repair.upstream(readers[0], handed) if len(readers) > 1 else None
        return None if found is None else self._report_found(found, readers[:1])

    def _although_right(self, region):
        """A Blame of a line whose value is the gradient of what its name says, so that what follows
        is missing after it: ds, the gradient of s = q @ k.T / d, where that of q @ k.T is read."""
        units = [u for u in self.trials.units if u.places and not u.dark and self.right(u)]
        for unit in units:
            self.trials.mend(unit)
        units = [u for u in units if u.mended == self.trials.wrong and not u.spoils]
        unit, explanation = self.missing.simplest(units, PARTS)
        if explanation is None or explanation.weight > SIMPLE:
            return None
        return self._report(unit.steps[0], region, None, unit, explanation)

    def _either(self, suspects, report):
        """A Blame with the lines of its function of which each alone could mend all that is
        wrong: what is known of numbers, and of no edit, does not tell them apart."""
        if not suspects:
            return report
        could = [u for u in self.trials.units if u.places and u.mended == suspects[0].mended
                 and (not u.spoils or u in suspects)]
        for unit in self.trials.units:                  # with every entry, in every turn
            if not unit.spoils and unit not in could and hasattr(
                    unit.statement.node, "value") and unit.reached >= suspects[0].mended:
                whole = Unit(unit.code, unit.statement, unit.steps, self.trials.places(unit))
                self.trials.mend(whole)
                could += [whole] * (whole.mended == suspects[0].mended)
        lines = sorted({u.statement.first for u in could
                        if u.code.co_qualname == report.function
                        and not makes_room(u.statement)
                        and not (u.statement.is_return and hands_on(u))})
        if report.line in lines and len(lines) > 1:
            report.either = tuple(lines)
        return report

    def _begun(self, unit, explanation):
        """Where a line adds to an array that began as zeros, and it is the upstream gradient that
        is missing in the sum, the Unit that began it; where a line only hands on what another
        computes, and the sum with another array is missing, that one; else the Unit itself."""
        term = explanation.text.removeprefix("a term is missing: + ")
        names = {place.name for place in unit.places}
        rooms = [u for u in self.trials.units if u.code is unit.code and makes_room(u.statement)
                 and names & set(u.statement.binds)]
        handed = unit.steps[0].call.function.given[:1]
        if [term] == handed and isinstance(unit.statement.node, ast.AugAssign) and rooms:
            return rooms[0]
        on = self._handing_on(unit) if term.isidentifier() else None
        if on is None or on.statement.is_return and [term] != handed:
            return unit
        self.trials.mend(on)
        return on

    def _handing_on(self, unit):
        """The Unit that returns what a Unit computes by its name, right after it, or that adds it
        to a gradient of the layer: where a sum with another term would stand."""
        statements = unit.steps[0].call.function.statements
        name, value = unit.places[0].name, getattr(unit.statement.node, "value", None)
        if isinstance(value, ast.Name) or not isinstance(unit.statement.node, ast.Assign):
            return None
        for statement in statements[statements.index(unit.statement) + 1 :]:
            own = getattr(statement.node, "value", None)
            if any(isinstance(term, ast.Name) and term.id == name for term in terms(own)):
                return next((u for u in self.trials.units if u.statement is statement), None)
            if name in statement.reads | set(statement.binds):
                return None
        return None

    def _steps(self, units):
        return sorted((s for unit in units for s in unit.steps), key=lambda s: s.index)

    def _report_found(self, found, region):
        step = next(s for s in region if s.statement is found.statement)
        return self._report(step, region, found)

    def _report(self, step, region, found=None, unit=None, explanation=None, shown=True):
        """The Blame of a step; without `shown` there is no gradient to show, but a number."""
        name, computed, wanted = "", None, None
        if shown:
            step, name, computed, wanted = self._values(step, found, unit)
        diagnosis = Diagnosis(computed, wanted, found, step, self, explanation)
        lines = sorted({(s.call.function.qualname, s.statement.first) for s in region})
        whole = found.everywhere if found is not None else (
            unit is None or unit.mended | self.trials.idle == self.trials.wrong)
        if not whole:
            self.notes.append("this may not be the only wrong line: run blame again when it is "
                              "right")
        return Blame(
            False, self.found, self.notes, original_file(step.call.code.co_filename),
            step.statement.first, step.call.function.qualname, step.statement.source.strip(),
            name, step.iteration, computed, wanted, diagnosis.text, diagnosis.kind, lines,
            step.error or self.error,
        )

    def _values(self, step, found, unit):
        """(step, name, what it wrote, what it should have been): where they first differ."""
        if found is not None:
            with patched(found.function, found.code):
                again = self._record()
            differs = first_difference((self.recording, again), found.statement)
            if differs is not None:
                first, write, other = differs
                return (first, write.name,
                        *added(self.check, first, write.name, [write.value, other.value]))
        elif unit is not None:
            for seen in self.missing.pairs(unit):
                return self.steps[seen.at], seen.name, seen.before, seen.after
        write = next((w for w in step.writes if w.how != "through a view"), None) \
            or next(iter(step.writes), None)
        if write is None:
            return step, "", None, None
        return step, write.name, *added(self.check, step, write.name, [write.value, None])


