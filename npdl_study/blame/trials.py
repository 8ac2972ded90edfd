"""What a backward would give if a statement of it had written something else.

A backward is linear in the gradients that it computes. So a statement is where the mistake stands
only if there are values for it, in all its turns together, that make the gradients right; they
are found by running the backward once for every entry it writes, that entry moved, and solving.
"""

import ast
import contextlib
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from npdl.backend import stream
from npdl_study.trees import copied
from npdl_study.trace.handed import is_promised
from npdl_study.trace.lines import owner
from npdl_study.trace.shifts import Seen, Shifter, found_at, moved, paths
from npdl_study.trace.trace import Tracer, wanted
from npdl_study.trees import kept, leaves

FEW, MOST = 260, 1000       # entries of a statement that are moved, one after the other
RAN = 100_000               # statements that may be run for more than a few
ENOUGH = 1e-5
DIFFERENT = 1e-6            # what is nearer is the rounding of the numerical gradients
ENTRIES, SAMPLED = 1000, 300    # of one gradient, computed numerically: all, or so many of more


class Place(NamedTuple):
    """An array that backward step `at` writes: its name, its path in a nest, its shape, and which
    entries (None: all)."""

    at: int
    name: str
    path: tuple
    shape: tuple
    mask: object

    @property
    def size(self):
        return int(np.prod(self.shape) if self.mask is None else self.mask.sum())


@dataclass(repr=False, eq=False)
class Unit:
    """One statement of the backward in all its turns, and the float arrays that it writes.

    places  a Place for each of them
    reached the gradients that it has a part in
    mended  the wrong gradients that other values of it can make right, without a change of those
            that are right; `shift` are these values less its own, None where they are not unique
    spoils  other values of it change what is known to be right
    dark    nothing is known of what it could mend
    handed  (backward step, position, name, Verdict) of the first wrong argument that it hands over
    idle    the entries, 1 in the form of `shift`, on which no gradient depends
    """

    code: object
    statement: object
    steps: list = field(default_factory=list)
    places: list = field(default_factory=list)
    mended: frozenset = frozenset()
    reached: frozenset = frozenset()
    shift: object = None
    spoils: bool = False
    dark: bool = False
    handed: tuple = ()
    idle: dict = field(default_factory=dict)

    @property
    def first_moved(self):
        """The backward step at which it should first have written something else."""
        moves = {at: max(np.abs(shift).max(initial=0) for *_, shift in moved)
                 for at, moved in (self.shift or {}).items()}
        most = max(moves.values(), default=0.0)
        return min((at for at, move in moves.items() if move > DIFFERENT * most),
                   default=self.places[0].at)

    @property
    def size(self):
        return sum(place.size for place in self.places)


class Trials:
    """Runs of the backward of a Check, for one upstream gradient."""

    def __init__(self, check, dout, recording, finals, verdicts):
        self.check, self.dout = check, dout
        self.wants = wanted(check.layer)
        self.steps = recording.phase("backward")
        self.units = self._units()
        self.names = [final.name for final in finals]
        self.wrong = frozenset(f.name for f in finals if not f.right and not f.kink)
        self.idle = self.wrong - self._given()
        self.right = [(at, w.name, w.value) for at, step in enumerate(self.steps)
                      for w in step.writes if isinstance(w.value, np.ndarray)
                      and is_promised(step, w.name, verdicts)]
        self.base = self.run({})
        self.wanted = dict(self.base)                   # what is right stays as it is

    def measured(self):
        """These Trials, with the numerical values of the gradients that are wrong."""
        weights, oracle = self.check.weights(self.dout), self.check.oracle
        with np.errstate(all="ignore"):
            self.wanted |= {name: self._numerical(oracle, name, weights) for name in self.wrong}
        return self

    def misnamed(self, verdict):
        """Whether a value is not the gradient that its name promises, nor has to be: with that in
        its place a gradient that is right would be wrong."""
        at = next((i for i, step in enumerate(self.steps) if step is verdict.step), None)
        oracle = self.check.oracle
        if at is None or verdict.name == "return" or verdict.local.path or \
                oracle.shape(verdict.local) != np.shape(verdict.value):
            return False
        with np.errstate(all="ignore"):
            promised = oracle.gradient(verdict.local, self.check.weights(self.dout))
        return not self.improves({at: [(verdict.name, (), promised)]}, (), targets=True)

    def _numerical(self, oracle, name, weights):
        """A numerical gradient; NaN where an array is large and not every entry is computed."""
        found = np.full(oracle.shape(name), np.nan)
        places = np.arange(found.size)
        if found.size > ENTRIES:                        # in no pattern: every column is met
            places = stream(0, 16).permutation(found.size)[:SAMPLED]
        for place in places:
            entry = np.unravel_index(place, found.shape)
            found[entry] = oracle.along(name, weights, entry)
        return found

    def _units(self):
        found = {}
        for at, step in enumerate(self.steps):
            unit = found.setdefault((step.call.code, step.statement),
                                    Unit(step.call.code, step.statement))
            unit.steps.append(step)
            unit.places += _places(at, step)
        return list(found.values())

    def _given(self):
        """The names of the inputs, and of the parameters to whose gradient something is added."""
        params = dict(self.check.layer.params())
        written = [owner(write.name, step) for step in self.steps for write in step.writes
                   if write.name.endswith(".grad")]
        return {name for name in self.names if name not in params
                or any(param is params[name] for param in written)}

    def places(self, unit):
        """All places of a Unit, with all their entries."""
        return [place._replace(mask=None) for at, step in enumerate(self.steps)
                if step.statement is unit.statement and step.call.code is unit.code
                for place in _places(at, step)]

    def _agree(self, value, name):
        right = self.wanted[name]
        if value.shape != right.shape:
            return False
        known = ~np.isnan(right)
        scale = max(np.abs(right[known]).max(initial=0), 1e-3)
        return bool((np.abs(value - right)[known] < ENOUGH * scale).all())

    def run(self, shifts, targets=False, watch=None):
        """{name: gradient}, after `shifts` {backward step: [(name, path, array)]} were added.

        With `targets` the arrays take the place of what was written. `watch` is a list that gets
        a Seen of each.
        """
        check = self.check
        check.reset()
        listener = Shifter(shifts, targets, watch)
        tracer = listener.tracer = Tracer(self.wants, listener)
        last = [] if watch is None else watch
        with np.errstate(all="ignore"), kept(check.layer, check.inputs):
            _, cache = check.forward(check.layer, *check.inputs, **check.options)
            tracer.phase = "backward"
            with tracer() if shifts else contextlib.nullcontext():
                returned = check.layer.backward(copied(self.dout), cache)
            returned = copied(returned)
        for name, own, shift in shifts.get(len(self.steps) - 1, ()):
            path = own
            if name == "return":
                places = getattr(check.layer, "_places", ())
                if isinstance(returned, tuple) and len(places):
                    path = (places[path[0] if path else 0], *path[1:])
                before, returned = returned, moved(returned, path, shift, targets)
                last.append(Seen(len(self.steps) - 1, name, own, found_at(before, path),
                                 found_at(returned, path), listener.names, {}))
        got = check.subject.returned(returned)
        params = dict(check.layer.params())
        found = {name: params[name].grad - check.before[name] if name in params
                 else got.get(name, np.zeros(check.oracle.shape(name)))
                 for name in self.names}
        return {name: np.nan_to_num(np.asarray(value, float)) for name, value in found.items()}

    def improves(self, shifts, goal, targets=False):
        """Whether these shifts make the gradients of `goal` right, and no right one wrong."""
        try:
            found = self.run(shifts, targets)
        except Exception:
            return False
        return all(self._agree(found[name], name) for name in self.names
                   if name in goal or name not in self.wrong)

    def watched(self, shifts):
        """[the locals] where these shifts are made."""
        watch = []
        self.run(shifts, watch=watch)
        return [seen.names for seen in watch]

    def differences(self, unit, shifts, targets=False):
        """[Seen] of a Unit where what it wrote and what is right differ, each when the values
        before are right; its `ends` are the locals that are bound further down."""
        watch = []
        self.run(shifts, targets, watch)
        masks = {place[:3]: place.mask for place in unit.places}
        found = []
        for seen in watch:
            step = self.steps[seen.at]
            before, after = (block(np.asarray(a, float), masks[seen[:3]]) for a in added(
                self.check, step, seen.name, (seen.before, seen.after)))
            if np.abs(after - before).max(initial=0) > DIFFERENT * max(
                    np.abs(after).max(initial=0), 1e-3):
                found.append(seen._replace(before=before, after=after,
                                           ends=self._further_down(step, seen.ends)))
        return found

    def _further_down(self, step, ends):
        """The locals that are bound after a step, outside of loops, and do not depend on it."""
        if step.statement.loops:
            return {}
        later = {w.name: w.value for s in self.steps[step.index - self.steps[0].index + 1 :]
                 if s.call is step.call for w in s.writes if w.how == "bound"}
        return {name: ends[name] for name, value in later.items() if isinstance(
            ends.get(name), np.ndarray) and np.array_equal(ends[name], value)}

    def mend(self, unit, partly=False):
        """Find out whether a Unit can mend all that is wrong, or with `partly` a part of it: sets
        its `mended` and `shift`."""
        if not unit.places or unit.size > MOST or unit.size > FEW and (
                unit.size * len(self.steps) > RAN):
            unit.dark = bool(unit.places)
            return
        try:
            unit.reached = unit.reached or self._reached(unit)
            goals = [self.wrong] if self.wrong <= unit.reached else []
            reached = sorted(self.wrong & unit.reached)
            if partly:                                  # the largest part first
                goals += [frozenset(reached) - {name} for name in reached]
                goals += [frozenset([name]) for name in reached]
            goals = [goal for goal in goals if goal]
            if goals and not self._collects(unit, goals[0]):
                self._solve(unit, goals)
        except Exception:
            unit.dark = True                            # it does not stand being moved

    def _collects(self, unit, goal):
        """Mend a Unit that adds up the gradient of one parameter: the last turn that writes an
        entry adds the rest."""
        name = unit.places[-1].name
        if not name.endswith(".grad") or len(unit.reached) > 1:
            return False
        rest, = (self.wanted[n] - self.base[n] for n in goal)
        shifts, left = {}, np.ones(rest.shape, bool)
        for at, own, path, _, mask in unit.places[::-1]:
            mine = left if mask is None or own != name else left & mask
            shifts[at], left = [(own, path, np.where(mine, rest, 0.0))], left & ~mine
        if self.improves(shifts, goal):
            unit.mended, unit.shift = goal, shifts
        return True

    def _solve(self, unit, goals):
        columns = [self._change(self._shifts(unit, column)) for column in np.eye(unit.size)]
        J = {name: np.stack([c[name].ravel() for c in columns], 1) for name in self.names}
        for goal in goals:
            shift = self._solved(J, goal)
            if shift is not None and self.improves(self._shifts(unit, shift), goal):
                unit.mended = goal
                whole = np.concatenate(list(J.values()))
                idle = ~(np.abs(whole) > 1e-12 * np.abs(whole).max()).any(0)
                unit.idle = self._shifts(unit, idle.astype(float)) if idle.any() else {}
                unique = np.linalg.matrix_rank(whole, 1e-9) == unit.size - idle.sum()
                unit.shift = self._shifts(unit, shift) if unique else None
                unit.spoils = self._spoils(self._shifts(unit, shift))
                return

    def _spoils(self, shifts):
        """Whether these shifts change a later value that is known to be right as it is."""
        last, zeros, watch = max(shifts), {}, []
        for at, name, value in self.right:
            if at > last and at not in shifts:
                zeros.setdefault(at, []).append((name, (), np.zeros(value.shape)))
        self.run(shifts | zeros, watch=watch)
        now = {(seen.at, seen.name): seen.before for seen in watch}
        return any(np.abs(now.get((at, name), value) - value).max(initial=0)
                   > ENOUGH * np.abs(value).max(initial=0) for at, name, value in self.right
                   if at in zeros)

    def scaling(self, unit):
        """The number times which all that a Unit writes would mend everything, or None."""
        shifts = {}
        for at, name, path, _, mask in unit.places:
            value = found_at(next(w.value for w in self.steps[at].writes if w.name == name), path)
            value = value - self._before(at, name) if isinstance(
                unit.statement.node, ast.AugAssign) and not path else value
            part = value if mask is None else np.where(mask, value, 0.0)
            shifts.setdefault(at, []).append((name, path, np.asarray(part)))
        try:
            change = self._change(shifts)
        except Exception:
            return None
        names = sorted(unit.mended)
        doubled, away = (np.concatenate([np.nan_to_num(part[n]).ravel() for n in names])
                         for part in (change, {n: self.wanted[n] - self.base[n] for n in names}))
        size = (doubled * doubled).sum()
        c = (doubled * away).sum() / size if size else 0.0
        more = {at: [(n, p, c * a) for n, p, a in found] for at, found in shifts.items()}
        return float(1 + c) if c and self.improves(more, unit.mended) else None

    def _before(self, at, name):
        """What an array was before a step that adds to it."""
        earlier = (w.value for s in self.steps[:at][::-1] for w in s.writes if w.name == name
                   and (s.call is self.steps[at].call or "." in name
                        and owner(name, s) is owner(name, self.steps[at])))
        now = next(w.value for w in self.steps[at].writes if w.name == name)
        whole, = added(self.check, self.steps[at], name, [now])
        return next(earlier, now - whole if "." in name else 0.0)

    def _reached(self, unit):
        """The gradients that change when all that a Unit writes is moved."""
        change = self._change(self._shifts(unit, np.cos(1.0 + np.arange(unit.size))))
        return frozenset(n for n, c in change.items() if np.abs(c).max(initial=0) > 1e-9)

    def _change(self, shifts):
        found = self.run(shifts)
        return {name: found[name] - self.base[name] for name in found}

    def _shifts(self, unit, vector):
        shifts, done = {}, 0
        for place in unit.places:
            at, name, path, shape, mask = place
            part = np.zeros(shape)
            part[... if mask is None else mask] = np.reshape(
                vector[done : done + place.size], shape if mask is None else -1)
            shifts.setdefault(at, []).append((name, path, part))
            done += place.size
        return shifts

    def _solved(self, J, goal):
        """The shift after which the gradients in `goal` are right and the right ones too."""
        rows, sides = [], []
        for name, right in self.wanted.items():
            if name in goal or name not in self.wrong:
                known = ~np.isnan(right.ravel())
                away = (right - self.base[name]).ravel() if name in goal \
                    else np.zeros(right.size)
                rows.append(J[name][known])
                sides.append(away[known])
        A, b = np.concatenate(rows), np.concatenate(sides)
        if max(np.abs(A).max(initial=0), np.abs(b).max(initial=0)) > 1e100:
            return None                                 # infinite
        shift = np.linalg.lstsq(A, b, rcond=1e-9)[0]
        close = np.abs(A @ shift - b).max(initial=0) < ENOUGH * max(np.abs(b).max(initial=0), 1e-4)
        return shift if close else None


def added(check, step, name, values):
    """Values; of a parameter's gradient, what was added to it since the backward began."""
    if not name.endswith(".grad"):
        return values
    param = owner(name, step)
    before = next((check.before[n] for n, p in check.layer.params() if p is param), 0.0)
    return [None if value is None else value - before for value in values]


def block(array, mask):
    """The entries of a mask, in their shape when they are a block such as dx[:, t]."""
    if mask is None or mask.shape != array.shape or mask.all() or not mask.any():
        return array
    lines = [np.unique(at) for at in np.nonzero(mask)]
    if not mask[np.ix_(*lines)].all():
        return array[mask]
    single = tuple(i for i, line in enumerate(lines) if len(line) == 1 < array.shape[i])
    return array[np.ix_(*lines)].squeeze(single)


def _places(at, step):
    """The Places of backward step `at`."""
    return [Place(at, write.name, path, np.shape(a), write.mask) for write in step.writes
            if write.how != "through a view" for path, a in paths(write.value)]
