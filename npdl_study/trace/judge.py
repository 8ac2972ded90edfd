"""Which of a backward's values are right: each `dz` against the numerical gradient of `z`.

A backward call is paired with the forward calls whose cache it was handed. A value named `dz` in
it is right when it is the gradient of `z` after any statement that bound `z` there; a name may
stand for a partial sum before it is complete, so it is wrong only when it never becomes right.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from npdl_study.trace.fold import makes_room
from npdl_study.trace.nudge import LIMIT, Binding
from npdl_study.trace.pairs import partners, stem
from npdl_study.trace.record import floats


@dataclass(repr=False)
class Verdict:
    """One value of a backward: right (True), wrong (False), or nothing known (None).

    `local` is the Binding, parameter or input that it was compared with, `error` the relative
    error, `step` the Step that wrote it (None: it was handed in). A wrong one `follows` when its
    statement read what was wrong already, or may have been.
    """

    name: str
    right: bool | None
    error: float
    step: object
    call: object
    local: object = None
    value: object = None
    at: int = 0
    kink: bool = False
    follows: bool = False


@dataclass(repr=False)
class Verdicts:
    """All verdicts of a recording; `of[step index, name]` finds one."""

    all: list = field(default_factory=list)
    of: dict = field(default_factory=dict)
    arguments: dict = field(default_factory=dict)

    def wrong(self):
        return sorted((v for v in self.all if v.right is False), key=lambda v: v.at)


class Judge:
    """Compares the values of a recording with an Oracle's, for the upstream gradients `dout`."""

    def __init__(self, oracle, recording, dout):
        self.oracle, self.recording, self.dout = oracle, recording, dout
        self.locals = {}
        for binding in oracle.shapes:
            name = binding.name.removeprefix("self.")
            self.locals.setdefault((binding.call, name), []).append(binding)
        self.verdicts = Verdicts()

    def run(self):
        """The Verdicts of every backward step and argument."""
        groups = {}
        for call in self.recording.calls:
            if call.phase == "backward":
                for name, value in call.arguments.items():
                    self._consider(groups, call, name, floats(value), None, False)
        for step in self.recording.phase("backward"):
            for write in step.writes:
                own = write.how == "bound" or not step.statement.binds
                self._consider(groups, step.call, write.name, write.value, step, own)
            if step.statement.is_return:
                self._returned(step)
        for events in groups.values():
            self._settle(events)
        return self.verdicts

    def _consider(self, groups, call, name, value, step, own):
        """Judge one event, and file it with the others of its name."""
        if value is None or "." in name or not partners(name):
            return
        if not all(_finite(leaf) for _, leaf in _leaves(value)) and (
                step is None or self.recording.error is not None):
            return                                      # room for what is written later
        found = [self._judge(leaf, call, name, path, step) for path, leaf in _leaves(value)]
        found = [v for v in found if v is not None]
        if not found:
            return
        verdict = min(found, key=lambda v: (v.right is not False, v.right is not None))
        if isinstance(value, tuple) and self._incomplete(value, verdict, call, name):
            verdict.right = None
        verdict.step, verdict.call = step, call
        verdict.at = self._first_step(call) - 0.5 if step is None else step.index
        if step is None:
            self.verdicts.arguments[call.number, name] = verdict
        else:
            self.verdicts.of[step.index, name] = verdict
        iteration = () if step is None else step.iteration
        groups.setdefault((call.number, name), []).append((verdict, own, iteration, step))

    def _incomplete(self, value, verdict, call, name):
        """Whether a tuple lacks the gradient of a part of the tuple that it belongs to."""
        binding = verdict.local
        parts = {b.path for b in self.locals[
            binding.call, binding.name.removeprefix("self.")] if b.run == binding.run}
        return not parts <= {path for path, _ in _leaves(value)}

    def _first_step(self, call):
        return next((s.index for s in self.recording.steps if s.call is call), 0)

    def _judge(self, value, call, name, path, step):
        own, far = [], []
        for local in partners(name):
            for some, more in zip((own, far), self._candidates(call, local, path), strict=True):
                some += more
        if step is None:            # what backward is handed belongs to results, not arguments
            own, far = [[b for b in some if b.run >= 0] for some in (own, far)]
        best, closest = None, float("inf")
        for binding in own + far:
            shape = self.oracle.shape(binding)
            fits = _merged(np.shape(value), shape)      # rows (B S, D) stand for (B, S, D) too
            again = np.reshape(value, shape) if fits else value
            error = self.oracle.error(binding, again, self.dout)
            if error < closest or best is None:
                best, closest = binding, error
            if error < LIMIT:
                return Verdict(name, True, error, None, call, binding, value)
        if not own:
            return None
        kink = any(self._kink(b) for b in own if self.oracle.shape(b) == np.shape(value))
        fits = any(self.oracle.shape(b) == np.shape(value) for b in own)
        meant = self._meant(own, best, value, step)
        return Verdict(name, False if fits else None, closest, None, call, meant, value, kink=kink)

    def _meant(self, own, closest, value, step):
        """Which of a name's Bindings a wrong value was probably meant for."""
        fitting = [b for b in own if self.oracle.shape(b) == np.shape(value)] or own
        turns = {turn for loop in (step.iteration if step else ()) for turn in loop}
        same = [b for b in fitting if turns & {turn for loop in b.loops for turn in loop}]
        if same or not turns:                           # the same turn, or after all loops
            return max(same or fitting, key=lambda b: b.run)
        return closest if closest in fitting else fitting[-1]

    def _kink(self, binding):
        return self.oracle.slope(binding).kink

    def _candidates(self, call, local, path):
        """(Bindings of the forward function that this one undoes, those of others around it)."""
        own, far, around = [], [], call
        while around is not None and not own:
            for pair in around.pairs:
                mirrors = around is call and stem(pair.function.name) == stem(call.function.name)
                (own if mirrors else far).extend(
                    b for b in self.locals.get((pair.number, local), []) if b.path == path)
            around = around.parent
        return own, far

    def _returned(self, step):
        """A backward's returned gradients against the arguments of its forward."""
        call = step.call
        if stem(call.function.name) or call.function.name != "backward" or not call.pairs:
            return
        forward = call.pairs[0]
        names = forward.function.given
        value = step.returned
        items = value if isinstance(value, tuple) else (value,)
        arrays = [n for n in names if any((b.call, b.run, b.name) == (forward.number, -1, n)
                                          for b in self.oracle.shapes)]
        names = arrays if len(items) == len(arrays) else names
        for name, item in zip(names, items, strict=False):
            whole = Binding(forward.number, -1, name, (), (), forward.function.first)
            if isinstance(item, tuple) and whole in self.oracle.shapes:
                self.verdicts.all.append(Verdict(
                    "return", False, float("inf"), step, call, whole, None, step.index))
            for path, leaf in _leaves(floats(item)):
                binding = Binding(forward.number, -1, name, path, (), forward.function.first)
                if binding in self.oracle.shapes:
                    error = self.oracle.error(binding, leaf, self.dout)
                    verdict = Verdict("return", error < LIMIT, error, step, call, binding, leaf,
                                      step.index, self._kink(binding))
                    self.verdicts.all.append(verdict)
                    held = self.verdicts.of.get((step.index, "return"))
                    if held is None or held.right:
                        self.verdicts.of[step.index, "return"] = verdict

    def _settle(self, events):
        """Of one name in one call: what never becomes right is wrong, where it was last written."""
        statements = {step.statement for _, _, _, step in events if step is not None}
        name = events[0][0].name
        rooms = [e for e in events if not e[0].right and e[3] is not None
                 and makes_room(e[3].statement)]
        for verdict, *_ in rooms if len(rooms) < len(events) else ():   # what fills it is judged
            verdict.right = None
            self.verdicts.all.append(verdict)
        events = [e for e in events if e not in rooms] or events
        grows = any(name in s.reads or name not in s.binds for s in statements)
        groups = {}
        for event in events:
            groups.setdefault(() if grows else event[2], []).append(event)
        for group in groups.values():
            settled = any(verdict.right for verdict, *_ in group)
            last = [e for e in group if e[1]] or group
            if not _finite(last[-1][0].value):          # only room was made there
                last = group if group[-1] is not last[-1] else last
                room = last[-1][3] is not None and name in last[-1][3].statement.binds
                last[-1][0].right = None if room and not last[-1][0].right else last[-1][0].right
            for event in group:
                verdict = event[0]
                unfinished = event[3] is None or self._goes_on(event[3], name)
                if verdict.right is False and (settled or event is not last[-1] or (
                        not verdict.call.complete and unfinished)):
                    verdict.right = None
                self.verdicts.all.append(verdict)


    def _goes_on(self, step, name):
        """Whether a call that an exception ended would still have written `name`."""
        return any(name in s.binds or name in [c.split("[")[0] for c in s.changes]
                   for s in step.call.function.statements
                   if s.first > step.statement.first or s.loops)


def _merged(one, other):
    """Whether one shape is the other with neighbouring axes taken together."""
    if 0 in (*one, *other):
        return math.prod(one) == math.prod(other)
    few, many = sorted(([n for n in shape if n != 1] for shape in (one, other)), key=len)
    for length in few:
        while length > 1 and many and length % many[0] == 0:
            length //= many.pop(0)
        if length != 1:
            return False
    return not many


def _finite(value):
    """Whether every entry has been written (those that have not are NaN)."""
    return bool(np.isfinite(value).all())


def _leaves(value, path=()):
    """(path, array) of a nest of tuples."""
    if isinstance(value, tuple):
        for i, item in enumerate(value):
            yield from _leaves(item, (*path, i))
    elif value is not None:
        yield path, value
