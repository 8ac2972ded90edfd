"""Which statements of a backward come into question: those that could mend what is wrong."""

import numpy as np

from npdl_study.blame.trials import Unit
from npdl_study.check.diagnose import is_npdls
from npdl_study.trace.handed import (
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
from npdl_study.trace.nudge import LIMIT
from npdl_study.trace.pairs import partners


class Suspects:
    """The part of a Search that chooses among the Units of its `trials`, by its `verdicts`, the
    `steps` of its `recording`, its `check` and what is `missing`."""

    def _without_rooms(self, units):
        """Units, with those that fill it before one that only makes room with zeros; without it
        if these are right."""
        found = []
        for unit in units:
            filled = makes_room(unit.statement) and [
                u for u in self.trials.units if u is not unit and u.code is unit.code
                and any(name in unit.statement.binds and (
                    name not in u.statement.binds or name in u.statement.reads)
                    for name in {place.name for place in u.places})]
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
        calls = [self.steps[place.at].call for place in first.places]
        for call in {id(call): call for call in calls}.values():
            last = max(i for i, s in enumerate(self.steps) if s.call is call)
            at = next((i for i, s in enumerate(self.steps) if i > last and s.call is call.parent
                       and s.statement is call.from_statement), None)
            if at is None:
                continue
            for position, name in enumerate(call.function.given):
                verdict = self.verdicts.arguments.get((call.number, name))
                if verdict is not None and (
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

    def _sorted(self):
        """(Units that wrote what is known to be right, Units that only hand on). What the others
        can mend is found out, without the places that are right."""
        trials, right = self.trials, []
        forward = {s.call.code for s in self.recording.phase("forward")}
        passing = [u for u in trials.units if u.code in forward or hands_on(u)]
        for unit in (u for u in trials.units if u.places and u not in passing):
            known = {place.at for place in unit.places if self._is_right(self.steps[place.at])}
            places = [place for place in unit.places if place.at not in known
                      and not is_promised(self.steps[place.at], place.name, self.verdicts)
                      and not returned_by_name(unit.statement, place.path)]
            if places and not self.right(unit):
                unit.places = places
                trials.mend(unit)
            else:
                right.append(unit)
        return right, passing

    def _mending(self, right, passing):
        """The Units that can mend most. As long as none can mend anything: with every entry of
        what they write, then those that wrote what is right, then a part of what is wrong."""
        trials, units = self.trials, self.trials.units
        writers = [u for u in units if u not in right + passing
                   and any(place.mask is not None for place in u.places)]
        if all(unit.mended != trials.wrong for unit in units):
            for unit in writers:                        # entries that it left out may be meant
                unit.places = [place._replace(mask=None) for place in unit.places]
        rest = [u for u in units if u not in passing]
        for group, partly in ((writers, False), (right, False), (rest, True), (passing, True)):
            if not any(unit.mended for unit in units):
                for unit in group:
                    trials.mend(unit, partly)
        most = max(units, key=lambda u: len(u.mended)).mended
        best = [u for u in units if u.mended == most] if most else []
        if best and all(u.spoils for u in best):        # then what is right is followed by it
            for unit in (u for u in right if u.places and not u.mended):
                trials.mend(unit)
            best = [u for u in right if u.mended == most] or best
        best = [u for u in best if not u.spoils] or best
        return [u for u in best if not called_by_another(u, best)] or best

    def _suspects(self):
        """The Units that can mend every wrong gradient, or as many as any can; the first first.

        Those that wrote what is known to be right come into question when no other can.
        """
        right, passing = self._sorted()
        best = self._mending(right, passing)
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
            call = self.steps[unit.places[0].at].call
            alone = Unit(unit.code, unit.statement, unit.steps,
                         [place for place in unit.places if self.steps[place.at].call is call])
            self.trials.mend(alone)
            calls = [call] if alone.mended == unit.mended else [
                self.steps[place.at].call for place in unit.places]
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
