"""Runs of a backward in which chosen statements write something else."""

from typing import NamedTuple

import numpy as np

from npdl_study.trees import copied
from npdl_study.trace.record import look_up
from npdl_study.trace.trace import Listener
from npdl_study.trees import rebuilt

WATCHED = 24                # places of a statement, whose locals are kept


class Seen(NamedTuple):
    """What backward step `at` wrote under a name, before it was changed and after; the locals
    then, and those of its call at the end."""

    at: int
    name: str
    path: tuple
    before: object
    after: object
    names: dict
    ends: dict


class Shifter(Listener):
    """Changes what chosen statements write; steps are counted as a recording counts them.

    `watch`, a list or None, gets a Seen of each.
    """

    def __init__(self, shifts, targets, watch):
        self.shifts, self.targets, self.watch, self.at = shifts, targets, watch, -1
        self.last, self.names, self.previous = max(shifts, default=-1), {}, {}

    def ran(self, call, statement, names, value):
        self.at += 1
        shifts = self.shifts.get(self.at, ())
        if self.at == self.last and self.watch is None:
            self.tracer.stop()
        old = self.own = self.previous.setdefault(call.number, {})
        self.names = {}
        if shifts and self.watch is not None and len(self.watch) < WATCHED:
            now = {**names, **{n: old.get(n) for n in statement.binds}}
            self.names = {name: _kept(held) for name, held in now.items() if held is not None}
        if self.watch is not None:
            old.clear()
            old.update(names)
        rebound = {}
        for name, path, shift in shifts:
            if name == "return":                        # the last one is moved by who called
                if call.parent is not None:
                    self._saw(name, path, value, lambda s=shift, p=path: _add(value, p, s,
                                                                             self.targets))
            elif name in statement.binds:
                before = rebound.get(name, names[name])
                rebound[name] = moved(before, path, shift, self.targets)
                self._saw(name, path, before, lambda n=name: rebound[n])
            else:
                array = look_up(name, names)
                self._saw(name, path, array, lambda a=array, s=shift: _add(a, (), s, self.targets))
        return rebound

    def _saw(self, name, path, before, change):
        before = copied(found_at(before, path))
        after = change()
        if self.watch is not None:
            now = copied(found_at(after, path))
            self.watch.append(Seen(self.at, name, path, before, now, self.names, self.own))

    def raised(self, call, statement, error):
        self.at += 1


def _kept(value):
    return value.copy() if isinstance(value, np.ndarray) else value


def paths(value, path=()):
    if isinstance(value, tuple):
        for i, item in enumerate(value):
            yield from paths(item, (*path, i))
    elif value is not None:
        yield path, value


def found_at(value, path):
    for i in path:
        value = value[i]
    return value


def _add(value, path, shift, instead):
    array = found_at(value, path)
    if not isinstance(array, np.ndarray):
        raise ValueError("a number that is returned cannot be moved")
    array[...] = shift if instead else array + shift
    return value


def moved(value, path, shift, instead):
    if not path:
        return shift if instead else value + shift
    items = [moved(item, path[1:], shift, instead) if i == path[0] else item
             for i, item in enumerate(value)]
    return items if isinstance(value, list) else rebuilt(value, items)
