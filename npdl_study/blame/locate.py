"""Which statements of a backward could be the mistake.

A backward is linear in what it computes. So a statement can be the mistake only if there are values
for it, in all its turns, that make every gradient right: move each of its entries by 1, see what
the gradients do, solve. Never accused is what is proven: what forward computes too, what does not
depend on the upstream gradient, the gradient of what the name says, and what only hands on.
"""

import ast
import contextlib

import numpy as np

from npdl_study.blame.solve import Solve
from npdl_study.blame.suspects import (
    HANDS_ON,
    NOTHING,
    PENALTY,
    PROMISED,
    PROVEN,
    SOMETHING,
    Suspect,
    calls_of,
    frame_near,
    hands_on,
)
from npdl_study.trace.syntax import bound_by, header, names_of
from npdl_study.trees import leaves


class Locate:
    """The Suspects of Runs whose `base` gradients are wrong; `frames` has the locals at each
    key."""

    def __init__(self, runs, base):
        self.runs, self.base = runs, base
        self.watch, self.places = runs.watch, runs.watch.places
        self.suspects, self.frames = self._suspects()
        self.outermost = self.suspects[0].line.function if self.suspects else None

    def run(self):
        """The Suspects that could be the mistake, the likeliest first. Where none can mend all that
        is wrong, those that can mend most of it; `left` is what they do not."""
        runs = self.runs
        self.wrong = runs.wrong(self.base)
        self.fixed = self._fixed()
        self.solver = Solve(runs, self.base, self.frames, self.fixed)
        self.oracle = self.solver.oracle
        self.forwards = {self.places[key[0]].line for key in self.oracle.values}
        for passing in (False, True):
            for suspect in sorted(self.suspects, key=lambda s: sum(
                    map(np.size, s.values.values()))):
                if not runs.budget.over and hands_on(suspect.line.node) == passing:
                    self.solver.solve(suspect)
            if any(s.could for s in self.suspects):
                break
        else:
            self._partly()
        self.upstream = [a for _, a in leaves(runs.dout)]
        for suspect in self.suspects:
            self._weigh(suspect)
        self._wrongly_handed_on()
        self._alone()
        self._follow()
        runs.gradients()                                # self holds again what it does in a run
        return sorted((s for s in self.suspects if s.could), key=lambda s: s.rank)

    def handed(self):
        """The arguments of the backward of which others could mend all, as Suspects: a line before
        the first that reads one is missing."""
        first, suspects = self.outermost, []
        places = {i: place for i, place in enumerate(self.places)
                  if place.function is first and place.line is None}
        self.runs.gradients(only=set(places), record=True, frames=True)
        for key, value in list(self.watch.seen.items()):
            name = places[key[0]].text
            lines = [line for line in first.lines if name in names_of(header(line.node))]
            if lines and key[1] == 0:
                found = Suspect(lines[0], True, {key: value}, {key: 0}, handed=name)
                self.frames[key] = frame_near(self.frames, self.places, lines[0])
                self.solver.solve(found)
                suspects += [found] * bool(found.could and not found.widened)
        self.runs.gradients()
        return suspects

    @property
    def left(self):
        """The names of the wrong gradients that the Suspects do not mend."""
        return self.wrong - self.solver.goal

    def _partly(self):
        """Look for Suspects that can mend a part of what is wrong."""
        names = sorted(self.wrong)
        goals = [self.wrong - {n} for n in names] + [{n} for n in names] if len(names) > 1 else []
        for goal in goals:
            self.solver.goal = goal
            for suspect in self.suspects:
                if suspect.J is not None:
                    self.solver.fit(suspect)
                elif suspect.collects and suspect.collects >= goal:
                    suspect.could = True
            if any(s.could for s in self.suspects):
                return
        self.solver.goal = self.wrong

    def _suspects(self):
        roots = {i for i, place in enumerate(self.places) if place.root}
        with contextlib.suppress(Exception):            # backward may raise: of what ran before
            self.runs.gradients(only=roots, record=True, frames=True)
        found = {}
        for moment, (key, value) in enumerate((self.watch.seen or {}).items()):
            line = self.places[key[0]].line
            argument = key[0] in line.places[:-1] and not isinstance(
                getattr(line.node, "value", None), ast.Tuple)
            own = found.setdefault((id(line), key[0] if argument else -1), Suspect(line, argument))
            own.values[key], own.at[key] = value, moment
        return list(found.values()), self.watch.locals or {}

    def _fixed(self):
        """The keys of what does not depend on the upstream gradient: no gradients."""
        roots = {key[0] for s in self.suspects for key in s.values}
        try:
            self.runs.gradients(2.0, only=roots, record=True)
        except Exception:
            return set()
        twice = self.watch.seen
        return {key for s in self.suspects for key, value in s.values.items()
                if key in twice and np.array_equal(twice[key], value) and value.any()}

    def _weigh(self, suspect):
        """Set the level of a Suspect."""
        oracle, node = self.oracle, suspect.line.node
        suspect.order, suspect.level = min(suspect.at.values()), SOMETHING
        zeros = "zeros" in suspect.line.text
        for key, value in suspect.values.items():
            name = self.solver.promised(suspect, key)
            level = self._level(suspect, key, value, name, oracle, zeros)
            if level in (PROMISED, NOTHING):
                suspect.order, suspect.level = suspect.at[key], level
                break
            suspect.level = max(level, suspect.level)
            if level == PROVEN and suspect.could and suspect.sure[key].all() and not np.allclose(
                    suspect.wanted[key], value, 1e-6, 1e-9):
                break                                   # it would spoil what is proven right
        function = suspect.line.function
        suspect.librarys = function.file != self.watch.home or suspect.line in self.forwards
        if hands_on(node) or self._is_returned(suspect):
            suspect.level = HANDS_ON
        elif suspect.librarys and suspect.level > PROMISED:
            suspect.level = max(suspect.level, SOMETHING)   # what it was handed is likelier
        elif suspect.level == SOMETHING and not suspect.argument and isinstance(
                node, ast.Assign) and isinstance(node.value, ast.Name):
            suspect.level = NOTHING                     # it only has another name now
        if suspect.could and all(np.all(s) for s in suspect.sure.values()):
            suspect.order = suspect.at[suspect.first_wrong()]
        if suspect.could:
            suspect.known = all(not np.all(suspect.sure[k]) or oracle.name(w)
                                for k, w in suspect.wanted.items() if w.any())

    def _alone(self):
        """Of a gradient that one statement alone adds to, what that adds is not all, whatever it
        is the gradient of."""
        adding = [s for s in self.suspects if s.collects]
        for suspect in adding:
            if suspect.could and suspect.level == SOMETHING and not any(
                    other.collects & suspect.collects for other in adding if other is not suspect):
                suspect.level = NOTHING

    def _is_returned(self, suspect):
        """Whether all values are what a function has returned, which is looked at itself; but of
        gradients that the function has right, under another name, the call is wrong."""
        value = getattr(suspect.line.node, "value", None)
        if suspect.argument or not isinstance(value, ast.Call):
            return False
        name = getattr(value.func, "attr", getattr(value.func, "id", ""))
        given = [v for s in self.suspects for v in s.values.values()
                 if isinstance(s.line.node, ast.Return) and s.line.function.code.co_name == name
                 and s.line is not suspect.line and s.line not in self.forwards]
        return all(any(np.array_equal(v, g) for g in given) and (
            suspect.level > PROMISED or not self.oracle.name(v)) for v in suspect.values.values())

    def _level(self, suspect, key, value, name, oracle, zeros):
        if suspect.argument and not suspect.handed and any(
                np.array_equal(value, given) for given in self.upstream):
            return PROVEN                               # it is what backward was handed
        if key in self.fixed or zeros:                  # no gradient: it may only lack one
            if zeros or oracle.is_forwards(value):
                return PROVEN
            gradient = name in self.solver.names and np.ndim(value)
            return NOTHING if suspect.could and (suspect.surely or gradient) else SOMETHING
        if not value.any():
            wanted = suspect.could and suspect.sure[key].all() and (
                np.abs(suspect.wanted[key]) > 1e-6).any()
            return NOTHING if wanted else SOMETHING
        if suspect.could and name:
            if oracle.is_named(name, value):
                suspect.name = name
                return PROVEN
            for other in oracle.called(name, value.shape):
                meant = oracle.gradient(other)
                if not np.allclose(meant, value, 1e-6, 1e-9) and (
                        key == suspect.keys[0] and suspect.effect is not None
                        and suspect.gives(meant) or suspect.sure[key].all()
                        and np.allclose(meant, suspect.wanted[key], 1e-6, 1e-9)):
                    suspect.wanted[key] = meant
                    suspect.sure[key] = np.full(meant.shape, True)
                    return PROMISED
        if oracle.is_forwards(value):
            return PROVEN
        if suspect.could and name and suspect.sure[key].all() and not oracle.is_use(
                name, value) and oracle.is_use(name, suspect.wanted[key]):
            return NOTHING
        return SOMETHING if oracle.name(value) else NOTHING

    def _follow(self):
        """Mark the Suspects whose line reads what an earlier one binds, that is no gradient; the
        more where it is not the gradient that its name promises."""
        bound = {}
        for suspect in sorted(self.suspects, key=lambda s: s.order):
            line, node = suspect.line, suspect.line.node
            read = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)
                    and isinstance(n.ctx, ast.Load)}
            found = [bound[line.function, name] for name in read if (line.function, name) in bound]
            suspect.follows = max([PENALTY[s.level] for s in found if s.line is not line],
                                  default=0) or not suspect.argument and any(
                other.could and other.line.function is not line.function
                and other.order < suspect.order and other.level <= NOTHING
                and other.line.function.code.co_name in calls_of(node) for other in self.suspects)
            if not suspect.argument and suspect.level == NOTHING and any(
                    other.could and other.argument and other.level <= NOTHING
                    and other.line is line for other in self.suspects):
                suspect.level, suspect.follows = SOMETHING, True
            if suspect.could and suspect.level <= NOTHING:
                targets = getattr(node, "targets", [getattr(node, "target", None)])
                for name in bound_by(node) | {
                        t.value.id for t in targets if isinstance(t, ast.Subscript)
                        and isinstance(t.value, ast.Name)}:
                    bound.setdefault((line.function, name), suspect)

    def _wrongly_handed_on(self):
        """To return a dz that is right as dx is a mistake of the return."""
        proven = {ast.unparse(s.line.node.targets[0]) for s in self.suspects
                  if s.name and s.could and isinstance(s.line.node, ast.Assign)}
        for suspect in self.suspects:
            callee = any(suspect.line.function.code.co_name in calls_of(s.line.node)
                         for s in self.suspects if s.line.function is not suspect.line.function)
            if hands_on(suspect.line.node) and not callee and proven & names_of(
                    suspect.line.node.value):
                self.solver.solve(suspect)
                suspect.level = NOTHING
