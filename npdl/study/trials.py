"""What a backward would give if a statement of it had written something else.

A backward is linear in the gradients that it computes. So a statement is where the mistake stands
only if there are values for it, in all its turns together, that make the gradients right; they
are found by running the backward once for every entry it writes, that entry moved, and solving.
"""

from dataclasses import dataclass, field

import numpy as np

from npdl.study.check import copied
from npdl.study.nests import kept, leaves, rebuilt
from npdl.study.record import look_up
from npdl.study.trace import Listener, Tracer, wanted

MOST = 260                  # entries of a statement that are moved, one after the other
ENOUGH = 1e-5
ENTRIES = 400               # of one gradient, that are computed numerically


@dataclass(repr=False)
class Unit:
    """One statement of the backward in all its turns, and the float arrays that it writes.

    places  (which backward step, the name written, its path in a nest, its shape)
    reached the gradients that it has a part in
    mended  the wrong gradients that other values of it can make right, without a change of those
            that are right; `shift` are these values less its own, None where they are not unique
    dark    nothing is known of what it could mend
    """

    code: object
    statement: object
    steps: list = field(default_factory=list)
    places: list = field(default_factory=list)
    mended: frozenset = frozenset()
    reached: frozenset = frozenset()
    shift: object = None
    dark: bool = False

    @property
    def size(self):
        return sum(int(np.prod(shape)) for *_, shape in self.places)


class Trials:
    """Runs of the backward of a Check, for one upstream gradient."""

    def __init__(self, check, dout, recording, finals):
        self.check, self.dout = check, dout
        self.wants = wanted(check.layer)
        self.steps = recording.phase("backward")
        self.units = self._units()
        self.names = [final.name for final in finals]
        self.wrong = frozenset(f.name for f in finals if not f.right and not f.kink)
        self.base = self.run({})
        self.wanted = dict(self.base)                   # what is right stays as it is
        weights, oracle = check.weights(dout), check.oracle
        with np.errstate(all="ignore"):
            self.wanted |= {name: self._numerical(oracle, name, weights) for name in self.wrong}

    def _numerical(self, oracle, name, weights):
        """A numerical gradient; NaN where an array is large and not every entry is computed."""
        found = np.full(oracle.shape(name), np.nan)
        every = -(-max(found.size, 1) // ENTRIES)
        for entry in list(np.ndindex(found.shape))[::every]:
            found[entry] = oracle.along(name, weights, entry)
        return found

    def _units(self):
        found = {}
        for at, step in enumerate(self.steps):
            unit = found.setdefault((step.call.code, step.statement),
                                    Unit(step.call.code, step.statement))
            unit.steps.append(step)
            for write in step.writes:
                if write.how != "through a view":
                    unit.places += [(at, write.name, path, np.shape(a))
                                    for path, a in _paths(write.value)]
        return list(found.values())

    def _agree(self, value, name):
        right = self.wanted[name]
        if value.shape != right.shape:
            return False
        known = ~np.isnan(right)
        scale = max(np.abs(right[known]).max(initial=0), 1e-3)
        return bool((np.abs(value - right)[known] < ENOUGH * scale).all())

    def run(self, shifts):
        """{name: gradient}, after `shifts` {backward step: [(name, path, array)]} were added."""
        check = self.check
        check.reset()
        listener = _Shifter(shifts)
        tracer = listener.tracer = Tracer(self.wants, listener)
        with np.errstate(all="ignore"), kept(check.layer, check.inputs):
            _, cache = check.forward(check.layer, *check.inputs, **check.options)
            tracer.phase = "backward"
            if shifts:
                with tracer():
                    returned = check.layer.backward(copied(self.dout), cache)
            else:
                returned = check.layer.backward(copied(self.dout), cache)
            returned = copied(returned)
        for name, path, shift in shifts.get(len(self.steps) - 1, ()):
            returned = _moved(returned, path, shift) if name == "return" else returned
        returned = returned if isinstance(returned, tuple) else (returned,)
        got = {f"input {path}": a for path, a in leaves(returned)}
        params = dict(check.layer.params())
        found = {name: params[name].grad - check.before[name] if name in params
                 else got.get(name, np.zeros(check.oracle.shape(name)))
                 for name in self.names}
        return {name: np.nan_to_num(np.asarray(value, float)) for name, value in found.items()}

    def improves(self, shifts, goal):
        """Whether these shifts make the gradients of `goal` right, and no right one wrong."""
        try:
            found = self.run(shifts)
        except Exception:
            return False
        return all(self._agree(found[name], name) for name in self.names
                   if name in goal or name not in self.wrong)

    def mend(self, unit):
        """Find out what a Unit can mend: sets its `mended` and `shift`."""
        if unit.size > MOST:
            unit.dark = True
            return
        try:
            reached = unit.reached = self._reached(unit)
            if not reached & self.wrong:
                return
            columns = [self._change(self._shifts(unit, column))
                       for column in np.eye(unit.size)]
        except Exception:
            unit.dark = True                            # it does not stand being moved
            return
        J = {name: np.stack([c[name].ravel() for c in columns], 1) for name in self.wanted}
        goals = [self.wrong & reached] + [frozenset([name]) for name in sorted(self.wrong)]
        for goal in goals:
            shift = self._solved(J, goal)
            if shift is not None and self.improves(self._shifts(unit, shift), goal):
                unit.mended = unit.mended | goal
                unique = np.linalg.matrix_rank(np.concatenate(list(J.values())), 1e-9) == unit.size
                if unit.shift is None and unique:
                    unit.shift = self._shifts(unit, shift)
            if unit.mended == self.wrong & reached:
                break

    def _reached(self, unit):
        """The gradients that change when all that a Unit writes is moved."""
        change = self._change(self._shifts(unit, np.cos(1.0 + np.arange(unit.size))))
        return frozenset(n for n, c in change.items() if np.abs(c).max(initial=0) > 1e-9)

    def _change(self, shifts):
        found = self.run(shifts)
        return {name: found[name] - self.base[name] for name in found}

    def _shifts(self, unit, vector):
        shifts, done = {}, 0
        for at, name, path, shape in unit.places:
            size = int(np.prod(shape))
            part = np.reshape(vector[done : done + size], shape)
            shifts.setdefault(at, []).append((name, path, part))
            done += size
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
        shift = np.linalg.lstsq(A, b, rcond=1e-9)[0]
        close = np.abs(A @ shift - b).max(initial=0) < ENOUGH * max(np.abs(b).max(initial=0), 1e-4)
        return shift if close else None

    def seen(self, at):
        """The locals of the call of a backward step, as they are after it, copied."""
        watcher = _Watcher(at)
        check = self.check
        check.reset()
        tracer = watcher.tracer = Tracer(self.wants, watcher)
        with np.errstate(all="ignore"), kept(check.layer, check.inputs):
            _, cache = check.forward(check.layer, *check.inputs, **check.options)
            try:
                with tracer():
                    check.layer.backward(copied(self.dout), cache)
            except Exception:
                pass
        return watcher.names


class _Shifter(Listener):
    """Adds to what chosen statements write; steps are counted as a recording counts them."""

    def __init__(self, shifts):
        self.shifts, self.at = shifts, -1
        self.last = max(shifts, default=-1)

    def ran(self, call, statement, names, value):
        self.at += 1
        shifts = self.shifts.get(self.at, ())
        if self.at == self.last:
            self.tracer.stop()
        rebound = {}
        for name, path, shift in shifts:
            if name == "return":                        # the last one is moved by who called
                if call.parent is not None:
                    _add(value, path, shift)
            elif name in statement.binds:
                rebound[name] = _moved(rebound.get(name, names[name]), path, shift)
            else:
                array = look_up(name, names)
                array += shift
        return rebound

    def raised(self, call, statement, error):
        self.at += 1


class _Watcher(Listener):
    def __init__(self, at):
        self.wanted, self.at, self.names = at, -1, {}

    def ran(self, call, statement, names, value=None):
        self.at += 1
        if self.at == self.wanted:
            self.tracer.stop()
            self.names = {name: _kept(held) for name, held in names.items()}

    raised = ran


def _kept(value):
    return value.copy() if isinstance(value, np.ndarray) else value


def _paths(value, path=()):
    if isinstance(value, tuple):
        for i, item in enumerate(value):
            yield from _paths(item, (*path, i))
    elif value is not None:
        yield path, value


def _add(value, path, shift):
    for i in path:
        value = value[i]
    if not isinstance(value, np.ndarray):
        raise ValueError("a number that is returned cannot be moved")
    value += shift


def _moved(value, path, shift):
    if not path:
        return value + shift
    items = [_moved(item, path[1:], shift) if i == path[0] else item
             for i, item in enumerate(value)]
    return items if isinstance(value, list) else rebuilt(value, items)
