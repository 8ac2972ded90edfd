"""From a check that fails to the line at fault."""

import ast

import numpy as np

from npdl.errors import NpdlError
from npdl.study.check import copied
from npdl.study.diagnose import Blame, Diagnosis, ended, is_npdls
from npdl.study.edits import terms
from npdl.study.handed import (
    called_by_another,
    hands_on,
    is_alias,
    is_librarys,
    is_promised,
    makes_room,
    only_takes,
    returned_by_name,
    takes_on,
)
from npdl.study.judge import Judge
from npdl.study.missing import Missing, not_called
from npdl.study.nudge import LIMIT
from npdl.study.pairs import partners
from npdl.study.patch import patched
from npdl.study.record import record
from npdl.study.repair import Repair, first_difference
from npdl.study.right import unblamed
from npdl.study.terms import PARTS, WHOLES
from npdl.study.trace import original_file
from npdl.study.trials import Trials, Unit, added

PLAIN, LARGER = range(5), range(5, 10)          # ranks of edits: of one token, and the others
SIMPLE = 6                                      # weight of an explanation that larger edits follow


class Search:
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
        if not suspects or suspects[0].mended != self.trials.wrong:
            turns = [u for u in self.trials.units if not u.places or u.dark]
            found = Repair(self, self._steps(turns), self.steps[-1]).find()
            if found is not None:                       # a loop that leaves out a turn, an index
                return self._report_found(found, self._steps(turns))
        region = self._steps(suspects + self._others(suspects))
        if not region:
            return self._report(self.steps[-1], self.steps)
        first = self.steps[suspects[0].places[0][0]] if suspects else region[0]
        call = not_called(self.trials, suspects[0].mended) if suspects else None
        if call is not None:
            return self._report(first, region, None, suspects[0], call)
        repair, explained = Repair(self, region, first, suspects), []
        for ranks, looks, most in ((PLAIN, PARTS, SIMPLE), (LARGER, WHOLES, np.inf)):
            found = repair.find(ranks)
            if found is not None:
                return self._report_found(found, region)
            unit, explanation = self.missing.counted(suspects)
            if unit is not None:
                return self._report(unit.steps[0], region, None, suspects[0], explanation, unit)
            explained.append(self.missing.simplest(suspects, looks))
            unit, explanation = next((pair for pair in explained if pair[1] is not None
                                      and pair[1].weight <= most), (None, None))
            if explanation is not None:
                could, unit = unit, self._begun(unit, explanation)
                at = unit.handed[0] if unit.handed else None
                step = unit.steps[0] if at is None else self.steps[at]
                report = self._either(suspects, self._report(step, region, None, unit,
                                                             explanation))
                if unit is not could:
                    report.either = tuple(sorted({*report.either, could.statement.first,
                                                  unit.statement.first}))
                return report
        found = self._although_right(region)
        if found is not None:
            return found
        call = self.steps[0].call
        handed = next((n for n in call.function.arguments if n != "self"), "")
        readers = [s for s in self.steps if s.call is call and handed in s.statement.reads
                   and not s.statement.loops]
        found = repair.upstream(readers[0], handed) if len(readers) > 1 else None
        if found is not None:                           # lacking wherever it is read
            return self._report_found(found, readers[:1])
        if suspects and suspects[0].handed and self._was_right(suspects[0], suspects[-1]):
            suspects = suspects[1:]                     # called rightly at first: nothing tells why
            first = self.steps[suspects[0].places[0][0]]
        return self._either(suspects, self._report(first, region, None,
                                                   suspects[0] if suspects else None))

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
        names = {name for _, name, *_ in unit.places}
        rooms = [u for u in self.trials.units if u.code is unit.code and makes_room(u.statement)
                 and names & set(u.statement.binds)]
        handed = [n for n in unit.steps[0].call.function.arguments if n != "self"][:1]
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
        name, value = unit.places[0][1], getattr(unit.statement.node, "value", None)
        if isinstance(value, ast.Name) or not isinstance(unit.statement.node, ast.Assign):
            return None
        for statement in statements[statements.index(unit.statement) + 1 :]:
            own = getattr(statement.node, "value", None)
            if any(isinstance(term, ast.Name) and term.id == name for term in terms(own)):
                return next((u for u in self.trials.units if u.statement is statement), None)
            if name in statement.reads | set(statement.binds):
                return None
        return None

    def _without_rooms(self, units):
        """Units, with those that fill it before one that only makes room with zeros; without it
        if these are right."""
        found = []
        for unit in units:
            filled = makes_room(unit.statement) and [
                u for u in self.trials.units if u is not unit and u.code is unit.code
                and any(name in unit.statement.binds and (
                    name not in u.statement.binds or name in u.statement.reads)
                    for _, name, *_ in u.places)]
            wrong = [u for u in filled or () if not self.right(u)]
            wrong = [u for u in wrong if u.mended == unit.mended] or wrong
            for filler in wrong:
                filler.mended = unit.mended
            found += wrong + [unit] * (not filled or bool(wrong))
        return list(dict.fromkeys(found)) or units

    def _handed(self, first, code=None):
        """[the Unit that called the first suspect's function (from `code`)], if it handed over an
        upstream gradient that is wrong; else []."""
        wrong = {}
        for call in {id(c): c for c in (self.steps[at].call for at, *_ in first.places)}.values():
            for position, name in enumerate(n for n in call.function.arguments if n != "self"):
                verdict = self.verdicts.arguments.get((call.number, name))
                last = max(i for i, s in enumerate(self.steps) if s.call is call)
                at = next((i for i, s in enumerate(self.steps) if i > last and s.call is call.parent
                           and s.statement is call.from_statement), None)
                if at is not None and verdict is not None and (
                        verdict.right is False and not self._leads_to_right(call, name)
                        or takes_on(first, call, verdict, self.verdicts)):
                    wrong.setdefault(id(call.from_statement), []).append(
                        (at, position, name, verdict))
        callers = [u for u in self.trials.units if id(u.statement) in wrong and u.places
                   and code in (None, u.code)]
        if len(callers) == 1:
            callers[0].mended = first.mended
            callers[0].handed = min(wrong[id(callers[0].statement)], key=lambda item: item[0])
        return callers if len(callers) == 1 else []

    def _was_right(self, caller, other):
        """Whether the first call of another Unit's function in which something is wrong was handed
        only what is right by the Unit that calls it."""
        calls = {v.call.number: v.call for v in self.verdicts.wrong()
                 if v.step is not None and v.call.code is other.code}
        if other is caller or not calls:
            return False
        call = calls[min(calls)]
        given = [name for name, value in call.arguments.items() if partners(name) and isinstance(
            value, (int, float, np.ndarray))]
        later = [c.arguments for c in self.recording.calls if c.code is other.code]
        return all((known := self.verdicts.arguments.get((call.number, name))) and known.right
                   or self._leads_to_right(call, name)
                   or not isinstance(call.arguments[name], np.ndarray)      # 0, to begin with
                   and any(isinstance(c.get(name), np.ndarray) for c in later) for name in given)

    def _leads_to_right(self, call, name):
        """Whether what is known to be right was made of an argument, be its own name what it is."""
        made = {name}
        for step in (s for s in self.steps if s.call is call and s.statement.reads & made):
            found = self._verdicts(step)
            if any(v is not None and v.right for v in found):
                return True
            made |= {w.name for w, v in zip(step.writes, found, strict=True)
                     if v is None or v.right is None}
        return False

    def _steps(self, units):
        return sorted((s for unit in units for s in unit.steps), key=lambda s: s.index)

    def _others(self, suspects):
        """The Units that may be edited beside the suspects: those on the way, those that write no
        float array."""
        goal = suspects[0].mended if suspects else frozenset()
        own = {unit.code for unit in suspects}
        last = max((unit.steps[-1].index for unit in suspects), default=len(self.recording.steps))
        dark = [u for u in self.trials.units if u not in suspects and (u.dark or (
            not u.places or u.statement.is_return or is_alias(u.statement)) and (
                u.code in own or not suspects))]
        return dark + [u for u in self.trials.units if u not in suspects and u not in dark
                       and u.places and goal <= u.reached and u.steps[0].first_inner <= last
                       and not self.right(u)]

    def _suspects(self):
        """The Units that can mend every wrong gradient, or as many as any can; the first first.

        Those that wrote what is known to be right come into question when no other can.
        """
        trials, best = self.trials, []
        forward = {s.call.code for s in self.recording.phase("forward")}
        passing = [u for u in trials.units if u.code in forward or hands_on(u)]
        right = []
        for unit in (u for u in trials.units if u.places and u not in passing):
            known = {at for at, *_ in unit.places if self._is_right(self.steps[at])}
            places = [place for place in unit.places if place[0] not in known
                      and not is_promised(self.steps[place[0]], place[1], self.verdicts)
                      and not returned_by_name(unit.statement, place[2])]
            if places and not self.right(unit):
                unit.places = places
                trials.mend(unit)
            else:
                right.append(unit)
        best = [u for u in trials.units if u.mended == trials.wrong]
        writers = [u for u in trials.units if u not in right + passing
                   and any(mask is not None for *_, mask in u.places)]
        for unit in writers if not best else ():        # entries that it left out may be meant
            unit.places = [(*place[:4], None) for place in unit.places]
        rest = [u for u in trials.units if u not in passing]
        for group, partly in ((writers, False), (right, False), (rest, True), (passing, True)):
            if not any(unit.mended for unit in trials.units):
                for unit in group:
                    trials.mend(unit, partly)
        best = [u for u in trials.units if u.mended == trials.wrong]
        most = max(len(u.mended) for u in trials.units)
        if not best and most:
            lead = next(u for u in trials.units if len(u.mended) == most)
            best = [u for u in trials.units if u.mended == lead.mended]
        if best and all(u.spoils for u in best):        # then what is right is followed by it
            for unit in (u for u in right if u.places and not u.mended):
                trials.mend(unit)
            best = [u for u in right if u.mended == best[0].mended] or best
        best = [u for u in best if not u.spoils] or best
        best = [u for u in best if not called_by_another(u, best)] or best
        best.sort(key=lambda u: (is_npdls(u.steps[0]), is_librarys(u.steps[0]), u.first_moved))
        best = self._without_rooms(best)
        if best and best[0] in right:
            return best[::-1]                           # what is right is followed by the mistake
        proved = next((i for i, u in enumerate(best) if self._proved(u)), len(best))
        kept = best[: proved + 1] + [u for u in best[proved + 1 :] if is_librarys(u.steps[0])]
        handed = self._handed(best[0]) if best else []
        if best and not handed and only_takes(getattr(best[0].statement.node, "value", None)):
            found = next(filter(None, (self._handed(u, best[0].code) for u in best[1:])), [])
            return kept[:1] + found + [u for u in kept[1:] if u not in found]
        return handed + self._caller(best[:1]) + kept

    def _caller(self, first):
        """[the Unit that called the first suspect], if several statements call its function and it
        is wrong in the calls of one of them alone, and so on outwards; else []."""
        found = []
        for unit in first:
            call = self.steps[unit.places[0][0]].call
            alone = Unit(unit.code, unit.statement, unit.steps,
                         [place for place in unit.places if self.steps[place[0]].call is call])
            self.trials.mend(alone)
            calls = [call] if alone.mended == unit.mended else [
                self.steps[at].call for at, *_ in unit.places]
            steps = unit.steps
            while calls[0] is not None:
                wrong = {id(call.from_statement) for call in calls}
                callers = [u for u in self.trials.units if id(u.statement) in wrong and u.places]
                if not len(wrong) == 1 < len({id(s.call.from_statement) for s in steps}) \
                        or not callers:
                    break
                callers[0].mended, found = unit.mended, callers[:1]
                calls = [call.parent for call in calls]
                steps = [s for s in self.steps if calls[0] and s.call.code is calls[0].code]
        return found

    def _proved(self, unit):
        """Whether a Unit's values are not the gradients that their names promise, and ought to be:
        with these in their place all is right."""
        shifts = self.missing.to_gradients(unit)
        return bool(shifts) and self.trials.improves(shifts, unit.mended, targets=True)

    def right(self, unit):
        """Whether what a Unit wrote last in each call is known to be right."""
        last = {step.call.number: step for step in unit.steps}.values()
        return all(self._is_right(step) for step in last)

    def _verdicts(self, step):
        return [self.verdicts.of.get((step.index, w.name)) for w in step.writes]

    def _is_right(self, step):
        """Whether all that a step wrote is known to be right, by its name or its numbers."""
        return bool(step.writes) and all(
            v.right if v is not None else not w.name.endswith(".grad")
            and self._is_some_gradient(step, w.value)
            for v, w in zip(self._verdicts(step), step.writes, strict=True))

    def _is_some_gradient(self, step, value):
        """Whether a value without a partner's name is the gradient of something of the forward."""
        if not isinstance(value, np.ndarray) or value.size < 2 or not value.any() \
                or is_alias(step.statement):            # dc_next = dc: which of the two is meant?
            return False
        oracle, weights = self.check.oracle, self.check.weights(self.dout)
        calls = {pair.number for pair in step.call.pairs}
        known = [b for b in oracle.shapes if b.call in calls] + list(oracle.arrays)
        with np.errstate(all="ignore"):
            return any(oracle.shape(b) == value.shape and oracle.error(b, value, weights) < LIMIT
                       for b in known)

    def _report_found(self, found, region):
        step = next(s for s in region if s.statement is found.statement)
        return self._report(step, region, found)

    def _report(self, step, region, found=None, unit=None, explanation=None, counts=None):
        at, name, computed, wanted = self._values(step, found, unit)
        step = step if counts is not None else at       # a number has no gradient to show
        if counts is not None:
            name, computed, wanted = "", None, None
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
            for at, name, _, value, wanted, *_ in self.missing.pairs(unit):
                return self.steps[at], name, value, wanted
        write = next((w for w in step.writes if w.how != "through a view"), None) \
            or next(iter(step.writes), None)
        if write is None:
            return step, "", None, None
        return step, write.name, *added(self.check, step, write.name, [write.value, None])


