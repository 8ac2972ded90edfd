"""What is missing in what the suspected statements wrote: the simplest Explanation of all."""

import ast
import types
from dataclasses import replace

import numpy as np

from npdl.errors import broadcasts
from npdl_study.blame.atoms import ratio_of, same
from npdl_study.blame.inside import FUNCTIONS, evaluated, expression_of
from npdl_study.blame.terms import ODD, PARTS, Explanation, Turn, explained, scaled, summed
from npdl_study.trace.handed import is_alias, is_librarys, only_takes
from npdl_study.trace.pairs import partners
from npdl_study.trace.patch import function_of
from npdl_study.trace.reads import entries_written
from npdl_study.trace.shifts import WATCHED, Seen


def not_called(trials, mended):
    """An Explanation of parts of a layer, all of whose gradients nothing was added to, while the
    others that are wrong are `mended` by one statement; else None."""
    if not trials.idle or mended | trials.idle != trials.wrong:
        return None
    names, parts = [name for name, _ in trials.check.layer.params()], set()
    for name in trials.idle:
        around = [name[: i] for i, sign in enumerate(name) if sign == "."]
        parts.add(next((part for part in around if all(
            other in trials.idle for other in names if other.startswith(part + "."))), ""))
    calls = ", ".join(f"{part}.backward" for part in sorted(parts))
    return None if "" in parts else Explanation("missing call", (
        f"{calls} is not called: nothing is added to the gradient of "
        f"{', '.join(sorted(trials.idle))}"))


def _follows(unit, other):
    """Whether a Unit comes after another."""
    return unit.places[0].at > other.places[0].at


class Missing:
    """Explains the values of Units, from the Trials, Verdicts and Check of a Search."""

    def __init__(self, trials, verdicts, check, dout):
        self.trials, self.verdicts, self.check, self.dout = trials, verdicts, check, dout
        self.steps = trials.steps

    def simplest(self, suspects, looks):
        """(the Unit whose numbers say most simply what is missing, its Explanation).

        A number that is missing may be put into any line of several that give one name its value,
        a term into any line of several: then it is the last of these.
        """
        found = [(unit, self.explained(unit, looks)) for unit in suspects]
        found = [(unit, e) for unit, e in found if e is not None]
        for unit, e in found:
            names = {place.name for place in unit.places}
            later = [u for u, other in found if u.code is unit.code and _follows(u, unit)
                     and other.kind == e.kind and names & {place.name for place in u.places}]
            takes = only_takes(getattr(unit.statement.node, "value", None))
            passed = later or any(u.handed for u, _ in found) and not unit.handed
            if is_librarys(unit.steps[0]):
                e.weight += 3                           # what it was handed is likelier
            if "factor" in e.kind and takes or e.kind == "factor" and later:
                e.weight += 3                           # a number fits where numbers are made
            elif takes and passed and e.kind not in ("part", "name", "moved"):
                e.weight += 3                           # nor does what takes a part add a term
            made = [u for u, _ in found if u is not unit and u.code is unit.code and (
                self._of_gradients(u) or not self._of_gradients(unit)) and any(
                e.text.startswith(f"in `{place.name}`:") for place in u.places)]
            e.weight += 3 * bool(made)                  # and what is in a name, where it is made
            whole = "missing" in e.kind and not e.text.startswith("in ")
            chained = whole and not self._of_gradients(unit) and any(
                self._of_gradients(u) and other.kind == e.kind for u, other in found)
            e.weight += 3 * chained                     # it is missing where gradients meet
            alike = [(u, _follows(u, unit)) for u, other in found
                     if u is not unit and u.code is unit.code and other.text == e.text]
            e.weight += e.kind == "missing term" and not is_alias(unit.statement) and any(
                later or is_alias(u.statement) for u, later in alike)   # a term, where a sum ends
        return min(found, key=lambda item: item[1].weight, default=(None, None))

    def counted(self, suspects):
        """(Unit, Explanation) of a statement that counts, whose number a suspect divides by or
        multiplies with, where another whole number would do in every turn; else (None, None)."""
        for unit in (u for u in suspects if not u.handed):
            pairs = self.pairs(unit)
            turns = [self._turn(unit, seen) for seen in pairs]
            ratios = [ratio_of(turn.value, turn.wanted) for turn in turns]
            everywhere = len({place.at for place in unit.places}) == len(pairs)
            if not ratios or None in ratios or everywhere and np.ptp(ratios) < 1e-6:
                continue                                # one factor in all turns
            for other in (u for u in self.trials.units if u.code is unit.code and not u.places
                          and u.statement.loops and len(u.statement.binds) == 1):
                name, = other.statement.binds
                is_count = all(type(turn.names.get(name)) is int for turn in turns)
                for power in (-1, 1) if is_count and name in unit.statement.reads else ():
                    meant = [turn.names[name] * c**power for turn, c in zip(turns, ratios,
                                                                            strict=True)]
                    if all(n > 0.5 and abs(n - round(n)) < 1e-6 for n in meant) and all(
                            self._gives(unit, seen, turn.names | {name: n}, c)
                            for seen, turn, n, c in zip(pairs, turns, meant, ratios, strict=True)):
                        return other, Explanation("count", (
                            f"the number is wrong: {name} is {turns[0].names[name]} where it "
                            f"should be {round(meant[0])}"))
        return None, None

    @staticmethod
    def _gives(unit, seen, names, c):
        """Whether a Unit's expression gives c times what it gave, with these names."""
        node = expression_of(unit.statement.node, seen.name, seen.path)
        own, other = (node and evaluated(node, held) for held in (seen.names, names))
        return own is not None and other is not None and same(other, c * own)

    def _of_gradients(self, unit):
        """Whether a Unit reads or binds a gradient: its function's own, or one by its name."""
        handed = unit.steps[0].call.function.given[:1]
        forward = {b.name.removeprefix("self.") for b in self.check.oracle.shapes}
        return any(name in handed or forward & set(partners(name))
                   for name in {*unit.statement.reads, *unit.statement.binds})

    def explained(self, unit, looks):
        """What is missing in what a Unit wrote, from its numbers; None where that is not clear."""
        if unit.handed:
            found = explained(self._argument(unit), unit.statement.source, looks)
            return found and replace(found, text=f"in {unit.handed[2]}, which it hands over: "
                                     + found.text)
        if unit.shift is None and looks is PARTS:       # other values would do, too: a factor first
            found = scaled(self.trials.scaling(unit), self.steps[unit.places[0].at], {})
            if found is not None and found.weight < ODD:
                return found
        pairs = self.pairs(unit)
        turns = [self._turn(unit, seen) for seen in pairs if seen[1:3] == pairs[0][1:3]][:3]
        found = explained(turns, unit.statement.source, looks)
        if found is None and looks is PARTS:
            found = self._together(unit)
        if found is None and looks is PARTS:
            found = scaled(self.trials.scaling(unit), self.steps[unit.places[0].at],
                           turns[0].names if turns else {})
        return found

    def _turn(self, unit, seen):
        """The Turn of one place: of what is added, where a statement adds to an array."""
        turn = self._written(unit, seen)
        idle = next((own for name, path, own in unit.idle.get(seen.at, ())
                     if (name, path) == seen[1:3]), None)
        if np.shape(idle) != turn.value.shape or not np.any(idle):
            return turn
        care = 1.0 - idle
        return replace(turn, value=turn.value * care, wanted=turn.wanted * care, care=care)

    def _written(self, unit, seen):
        node = unit.statement.node
        turn = Turn(np.asarray(seen.before, float), np.asarray(seen.after, float),
                    self._in_reach(unit, seen.names), expression_of(node, seen.name, seen.path),
                    seen.ends)
        if not isinstance(node, ast.AugAssign) or turn.node is None:
            return turn
        own, shape = evaluated(turn.node, turn.names), turn.value.shape
        mask = entries_written(node, ast.unparse(getattr(node.target, "value", node.target)),
                               np.zeros(shape), turn.names)
        if own is not None and own.shape != shape and mask is not None and own.size == mask.sum():
            placed = np.zeros(shape)
            placed[mask] = own.ravel()
            own, turn = placed, replace(turn, node=None)
        if own is not None and own.shape != shape and own.ndim == len(shape) and broadcasts(
                own.shape, shape):
            own, turn = np.broadcast_to(own, shape), replace(turn, node=None)
        if own is None or own.shape != shape:
            return turn
        sign = -1 if isinstance(node.op, ast.Sub) else 1
        return replace(turn, value=own, wanted=own + sign * (turn.wanted - turn.value))

    def _argument(self, unit):
        """The Turns, one or none, of an argument that a Unit should hand over otherwise. Those of
        later calls follow from it."""
        at, position, _, verdict = unit.handed
        calls = [c for c in ast.walk(unit.statement.node) if isinstance(c, ast.Call)
                 and ast.unparse(c.func).split(".")[-1] == verdict.call.function.name]
        if len(calls) != 1 or position >= len(calls[0].args):
            return []
        with np.errstate(all="ignore"):
            wanted = self.check.oracle.gradient(verdict.local, self.check.weights(self.dout))
        zeros = {at: [(place.name, place.path, np.zeros(place.shape)) for place in unit.places
                      if place.at == at]}
        names = self._in_reach(unit, self.trials.watched(zeros)[0])
        return [Turn(np.asarray(verdict.value), wanted, names, calls[0].args[position])]

    def _together(self, unit):
        """What is missing in every turn of a statement that adds up one array in several."""
        _, name, path, shape, _ = unit.places[-1]
        if not isinstance(unit.statement.node, ast.AugAssign) or not 1 < len(
                unit.places) <= WATCHED or any(
                place.mask is not None and not place.mask.all() or place.shape != shape
                for place in unit.places):              # or called with other lengths too
            return None
        targets = self.to_gradients(unit)
        if unit.shift:
            away = sum(shift for moved in unit.shift.values() for _, _, shift in moved)
        elif targets and self.trials.improves(targets, unit.mended, targets=True):
            at, last = max(targets.items())
            away = last[0][2] - next(w.value for w in self.steps[at].writes if w.name == name)
        else:
            return None
        zeros = {at: [(name, path, np.zeros(shape))] for at, *_ in unit.places}
        node = expression_of(unit.statement.node, name, path)
        return summed([Turn(away, away, self._in_reach(unit, names), node)
                       for names in self.trials.watched(zeros)], unit.statement.source)

    def _in_reach(self, unit, names):
        """What a statement may read: the module's numbers and arrays, and the locals but those
        that are bound after it only, so that they are left from a turn before."""
        function = function_of(unit.code)
        held = function.__globals__ if function is not None else {"np": np}
        known = {name: value for name, value in held.items()
                 if isinstance(value, (int, float, np.ndarray, types.ModuleType))
                 or name in FUNCTIONS and FUNCTIONS[name] is value}
        if not unit.statement.loops:
            return known | names
        statements = unit.steps[0].call.function.statements
        later = {name for s in statements if s.first > unit.statement.first for name in s.binds}
        before = {name for s in statements if s.first < unit.statement.first for name in s.binds}
        before |= set(unit.steps[0].call.function.arguments)
        return known | {n: v for n, v in names.items() if n in before or n not in later}

    def pairs(self, unit):
        """Trials.differences: what a Unit wrote and should have, where these differ.

        The right value is the numerical gradient of what the name stands for, if that mends
        everything; else the one value that does, if there is only one. Of what a Unit hands over
        wrong, the argument.
        """
        if unit.handed:
            at, _, name, _ = unit.handed
            return [Seen(at, name, (), turn.value, turn.wanted, turn.names, {})
                    for turn in self._argument(unit)]
        targets = self.to_gradients(unit)
        if targets and self.trials.improves(targets, unit.mended, targets=True):
            return self.trials.differences(unit, targets, targets=True)
        return self.trials.differences(unit, unit.shift or {})

    def to_gradients(self, unit):
        """For all that a Unit wrote the gradients that its names promise, or None."""
        targets = {}
        for at, name, path, shape, _ in unit.places:
            verdict = self.verdicts.of.get((self.steps[at].index, name))
            if path or verdict is None or verdict.local is None:
                return None
            weights = self.check.weights(self.dout)
            with np.errstate(all="ignore"):
                if self.check.oracle.shape(verdict.local) != shape:
                    return None
                wanted = self.check.oracle.gradient(verdict.local, weights)
            targets[at] = [(name, path, wanted)]
        return targets
