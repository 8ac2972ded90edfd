"""From a check that fails to the line at fault."""

import ast
from dataclasses import dataclass, field

import numpy as np

from npdl.study.check import copied
from npdl.study.diagnose import Diagnosis, describe
from npdl.study.judge import Judge
from npdl.study.nudge import LIMIT
from npdl.study.patch import patched
from npdl.study.record import record
from npdl.study.repair import Repair, first_difference
from npdl.study.slices import owner
from npdl.study.terms import explained
from npdl.study.trace import is_helper, original_file
from npdl.study.trials import Trials

PLAIN = range(5)            # ranks of the edits of one token that are tried first


@dataclass
class Blame:
    """What `blame` found. `right` is True when every gradient is.

    When it is not: `file`, `line`, `function` and `source` name the statement, `iteration` the
    loop variables then, `computed` and `wanted` its value and the right one (None where that is
    not known), `diagnosis` says how they differ, `lines` are all the lines that may be at fault.
    """

    right: bool
    finals: list = field(default_factory=list)
    notes: list = field(default_factory=list)
    file: str = ""
    line: int = 0
    function: str = ""
    source: str = ""
    name: str = ""
    iteration: tuple = ()
    computed: object = None
    wanted: object = None
    diagnosis: str = ""
    kind: str = ""
    lines: list = field(default_factory=list)
    error: object = None

    def __str__(self):
        return describe(self)


def ended(layer, recording, notes=()):
    """The Blame for a walk that an exception ended: the line that raised it, best in the user's
    own file. A NotImplementedError is a place that is still to be written (kind "blank").
    """
    error = recording.error
    blank = isinstance(error, NotImplementedError)
    found = Blame(False, [], list(notes), error=error, kind="blank" if blank else "raised")
    raising = [s for s in recording.steps if s.error is not None]
    if not raising and not blank:
        raising = recording.steps[-1:]                  # what it returned could not be used
    for step in sorted(raising, key=_is_npdls)[:1]:
        found.file = original_file(step.call.code.co_filename)
        found.line, found.function = step.statement.first, step.call.function.qualname
        found.source, found.iteration = step.statement.source.strip(), step.iteration
    found.diagnosis = "the backward can be checked when the forward runs to its end"
    if blank:
        name = "backward(self, dout, cache)" if recording.cache is not None else "forward(self, x)"
        found.diagnosis = " ".join(str(error).split()) or (
            "this is yours to write" if raising else f"{type(layer).__name__} has no {name} yet")
    return found


def _is_npdls(step):
    return is_helper(original_file(step.call.code.co_filename))


class Search:
    """Runs a Check, and finds the statement at fault when it fails."""

    def __init__(self, check):
        self.check = check
        self.notes = list(check.notes)

    def run(self):
        """The Blame."""
        check = self.check
        if check.refusal:
            return Blame(False, [], self.notes, kind=check.refused, diagnosis=check.refusal)
        self.dout, self.found, self.error = self._failing()
        if self.dout is None:
            return Blame(True, self.found, self.notes)
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
        """The Blame for a backward that raised."""
        origin = next((s for s in self.steps if s.error is not None), self.steps[-1])
        region = [s for s in self.steps if s.index <= origin.index and not self._is_right(s)]
        found = Repair(self, region, origin).find()
        if found is not None:
            step = next(s for s in region if s.statement is found.statement)
            return self._report(step, region, found)
        step = origin
        for earlier in region:                          # the first value with a wrong shape
            if any(v is not None and v.misshapen for v in self._verdicts(earlier)):
                step = earlier
                break
        return self._report(step, region)

    def _wrong(self):
        """The Blame for wrong gradients: of the statements that could mend them, the likeliest.

        An edit of one token is looked for first, then what is missing in numbers, then a larger
        edit; without any of them it is the first that could.
        """
        self.trials = Trials(self.check, self.dout, self.recording, self.found)
        suspects = self._suspects()
        goal = suspects[0].mended if suspects else frozenset()
        own = {unit.code for unit in suspects}
        last = [unit.steps[-1].index for unit in suspects]
        others = [u for u in self.trials.units if u not in suspects and not self.right(u)
                  and ((u.dark or not u.places) and (u.code in own or not suspects)
                       or goal <= u.reached)
                  and (not suspects or u.steps[0].index <= max(last))]
        region = sorted((s for u in suspects + others for s in u.steps), key=lambda s: s.index)
        if not region:
            return self._report(self.steps[-1], self.steps)
        first = suspects[0].steps[0] if suspects else region[0]
        repair = Repair(self, region, first, suspects)
        found = repair.find(PLAIN)
        if found is None:
            unit, explanation = self._explanation(suspects)
            if explanation is not None:
                return self._report(unit.steps[0], region, None, unit, explanation)
            found = repair.find(range(PLAIN[-1] + 1, 10))
        if found is None:
            return self._report(first, region, None, suspects[0] if suspects else None)
        return self._report(next(s for s in region if s.statement is found.statement), region,
                            found)

    def _suspects(self):
        """The Units that can mend every wrong gradient, or as many as any can; the first first.

        Those that wrote what is known to be right come into question when no other can.
        """
        trials, best = self.trials, []
        fresh = [u for u in trials.units if u.places]
        forward = {s.call.code for s in self.recording.phase("forward")}
        passing = [u for u in fresh if _only_returns(u) or u.code in forward]
        right = [u for u in fresh if u not in passing and self.right(u)]
        first = [u for u in fresh if u not in passing and u not in right]
        for group in (first, right, passing):
            for unit in group:
                trials.mend(unit)
            best = [u for u in group if u.mended == trials.wrong]
            if best:
                break
        most = max((len(u.mended) for u in fresh), default=0)
        if not best and most:
            lead = next(u for u in fresh if len(u.mended) == most)
            best = [u for u in fresh if u.mended == lead.mended]
        best.sort(key=lambda u: (_is_npdls(u.steps[0]), u.steps[0].index))
        if best and best[0] in right:
            return best[::-1]                           # what is right is followed by the mistake
        proved = next((i for i, u in enumerate(best) if self._proved(u)), len(best))
        return best[: proved + 1]

    def _proved(self, unit):
        """Whether a Unit's values are not the gradients that their names promise, and ought to be:
        with these in their place all is right."""
        shifts = self._to_gradients(unit)
        return bool(shifts) and self.trials.improves(shifts, unit.mended)

    def _explanation(self, suspects):
        """(the first Unit whose numbers say what is missing, its Explanation).

        A number that is missing may be put into any line of several that give one name its value:
        then it is the last of these.
        """
        for i, unit in enumerate(suspects):
            explanation = self._explained(unit)
            names = {name for _, name, *_ in unit.places}
            later = [u for u in suspects[i + 1 :] if u.code is unit.code
                     and names & {name for _, name, *_ in u.places}]
            if explanation is not None and not (explanation.kind == "factor" and later):
                return unit, explanation
        return None, None

    def right(self, unit):
        """Whether what a Unit wrote last in each call is known to be right."""
        last = {step.call.number: step for step in unit.steps}.values()
        return all(self._is_right(step) for step in last)

    def _verdicts(self, step):
        return [self.verdicts.of.get((step.index, w.name)) for w in step.writes]

    def _is_right(self, step):
        """Whether all that a step wrote is known to be right, by its name or its numbers."""
        return bool(step.writes) and all(
            v.right if v is not None else self._is_some_gradient(step, w.value)
            for v, w in zip(self._verdicts(step), step.writes, strict=True))

    def _is_some_gradient(self, step, value):
        """Whether a value without a partner's name is the gradient of something of the forward."""
        if not isinstance(value, np.ndarray) or value.size < 2 or not value.any():
            return False
        oracle, weights = self.check.oracle, self.check.weights(self.dout)
        calls = {pair.number for pair in step.call.pairs}
        known = [b for b in oracle.shapes if b.call in calls] + list(oracle.arrays)
        with np.errstate(all="ignore"):
            return any(oracle.shape(b) == value.shape and oracle.error(b, value, weights) < LIMIT
                       for b in known)

    def _explained(self, unit):
        """What is missing in what a Unit wrote, from its numbers; None where that is not clear."""
        pairs = self._pairs(unit)[:3]
        return explained([(v, w, self.trials.seen(at)) for at, _, v, w in pairs])

    def _pairs(self, unit):
        """[(backward step, name, what it wrote, what it should have written)] where these differ.

        The right value is the numerical gradient of what the name stands for, if that mends
        everything; else the one value that does, if there is only one.
        """
        shifts = self._to_gradients(unit)
        if shifts is None or not self.trials.improves(shifts, unit.mended):
            shifts = unit.shift or {}
        found = []
        for at, changes in shifts.items():
            for name, path, shift in changes:
                value = next(w.value for w in self.steps[at].writes if w.name == name)
                for i in path:
                    value = value[i]
                if np.abs(shift).max(initial=0) > 1e-7 * max(np.abs(value).max(initial=0), 1e-3):
                    values = self._added(self.steps[at], name, [value, value + shift])
                    found.append((at, name, *values))
        return found

    def _to_gradients(self, unit):
        """The shifts that turn all that a Unit wrote into the gradients that its names promise."""
        shifts = {}
        for at, name, path, shape in unit.places:
            verdict = self.verdicts.of.get((self.steps[at].index, name))
            if path or verdict is None or verdict.local is None:
                return None
            weights = self.check.weights(self.dout)
            with np.errstate(all="ignore"):
                if self.check.oracle.shape(verdict.local) != shape:
                    return None
                wanted = self.check.oracle.gradient(verdict.local, weights)
            shifts[at] = [(name, path, wanted - verdict.value)]
        return shifts

    def _report(self, step, region, found=None, unit=None, explanation=None):
        step, name, computed, wanted = self._values(step, found, unit)
        diagnosis = Diagnosis(computed, wanted, found, step, self, explanation)
        lines = sorted({(s.call.function.qualname, s.statement.first) for s in region})
        whole = found.everywhere if found is not None else (
            unit is None or unit.mended == self.trials.wrong)
        if not whole:
            self.notes.append("this is not the only wrong line: run blame again when it is right")
        return Blame(
            False, self.found, self.notes, original_file(step.call.code.co_filename),
            step.statement.first, step.call.function.qualname, step.statement.source.strip(),
            name, step.iteration, computed, wanted, diagnosis.text, diagnosis.kind, lines,
            step.error or self.error,
        )

    def _added(self, step, name, values):
        """Values; of a parameter's gradient, what was added to it since the backward began."""
        if not name.endswith(".grad"):
            return values
        param = owner(name, step)
        before = next((self.check.before[n] for n, p in self.check.layer.params() if p is param),
                      0.0)
        return [None if value is None else value - before for value in values]

    def _values(self, step, found, unit):
        """(step, name, what it wrote, what it should have been): where they first differ."""
        if found is not None:
            with patched(found.function, found.code):
                again = self._record()
            differs = first_difference((self.recording, again), found.statement)
            if differs is not None:
                first, write, other = differs
                return (first, write.name,
                        *self._added(first, write.name, [write.value, other.value]))
        elif unit is not None:
            for at, name, value, wanted in self._pairs(unit):
                return self.steps[at], name, value, wanted
        write = next((w for w in step.writes if w.how != "through a view"), None) \
            or next(iter(step.writes), None)
        if write is None:
            return step, "", None, None
        return step, write.name, *self._added(step, write.name, [write.value, None])


def _only_returns(unit):
    """Whether a statement does no more than return what it has under names."""
    value = unit.statement.node.value if unit.statement.is_return else None
    return isinstance(value, ast.Name) or isinstance(value, ast.Tuple) and all(
        isinstance(item, (ast.Name, ast.Constant)) for item in value.elts)


def _value(step, name, path):
    value = next(w.value for w in step.writes if w.name == name)
    for i in path:
        value = value[i]
    return value
