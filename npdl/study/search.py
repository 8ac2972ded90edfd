"""From a check that fails to the line at fault."""

from dataclasses import dataclass, field

import numpy as np

from npdl.study.check import copied
from npdl.study.diagnose import Diagnosis, describe
from npdl.study.judge import Judge
from npdl.study.patch import patched
from npdl.study.record import record
from npdl.study.repair import Repair, first_difference
from npdl.study.slices import Slicer, owner
from npdl.study.trace import is_helper, original_file


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


@dataclass
class Suspicion:
    """Something wrong: the step that shows it, and the statements that can have caused it.

    It is a wrong `verdict`, a wrong gradient of `param`, or an exception at `origin`.
    """

    at: float
    origin: object
    verdict: object = None
    param: object = None
    region: list = field(default_factory=list)


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
            return Blame(False, [], self.notes, kind="aliasing", diagnosis=check.refusal)
        dout, found, error = self._failing()
        if dout is None:
            return Blame(True, found, self.notes)
        self.dout, self.found, self.error = dout, found, error
        self.recording = self._record()
        if isinstance(error, NotImplementedError):
            return ended(check.layer, self.recording, self.notes)
        with np.errstate(all="ignore"):
            self.verdicts = Judge(check.oracle, self.recording, check.weights(dout)).run()
        suspicion = self._first_suspicion()
        if suspicion is None:
            return Blame(False, found, self.notes, error=error, kind="unknown",
                         diagnosis="no statement of the backward could be named")
        found = Repair(self, suspicion).find()
        if found is None:
            return self._report(self._suspect(suspicion), None, suspicion)
        step = next(s for s in suspicion.region if s.statement is found.statement)
        return self._report(step, found, suspicion)

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

    def _first_suspicion(self):
        """The Suspicion that comes first in time, with its region; None when there is none."""
        found = [Suspicion(v.at, v.step, v) for v in self.verdicts.wrong()]
        params = dict(self.check.layer.params())
        for final in self.found:
            if not final.right and not final.kink and final.name in params:
                writers = self._slicer().writers(params[final.name])
                found += [Suspicion(step.index - 0.25, step, param=params[final.name])
                          for step in writers[-1:]]
        steps = self.recording.phase("backward")
        found += [Suspicion(s.index, s) for s in steps if s.error is not None][:1]
        for suspicion in sorted(found, key=lambda s: s.at):
            suspicion.region = self._region(suspicion)
            if suspicion.region:
                suspicion.origin = suspicion.origin or suspicion.region[-1]
                return suspicion
        return Suspicion(0, steps[-1], region=steps) if steps else None

    def _region(self, suspicion):
        step, verdict = suspicion.origin, suspicion.verdict
        if verdict is not None:
            return self._slicer().from_verdict(verdict, self._wrong_entries(verdict))
        if isinstance(step.error, NameError):
            return [s for s in self.recording.phase("backward")
                    if s.call is step.call and s.index <= step.index]
        if suspicion.param is not None:
            return self._slicer().from_parameter(suspicion.param)
        return self._slicer().from_step(step)

    def _slicer(self):
        return Slicer(self.recording, self.verdicts)

    def _wrong_entries(self, verdict):
        """A mask of the entries of a wrong value that are wrong, or None."""
        if verdict.step is None or verdict.name == "return" or np.size(verdict.value) > 4096:
            return None
        wanted = self._numerical(verdict)
        if wanted is None or wanted.shape != verdict.value.shape:
            return None
        scale = max(np.abs(wanted).max(initial=0), 1e-3)
        return ~(np.abs(verdict.value - wanted) < 1e-5 * scale)

    def _numerical(self, verdict):
        if verdict.local is None:
            return None
        with np.errstate(all="ignore"):
            return self.check.oracle.gradient(verdict.local, self.check.weights(self.dout))

    def _suspect(self, suspicion):
        """Without a repair: the first statement whose value has a wrong shape, else the origin."""
        for step in suspicion.region if suspicion.origin.error is not None else ():
            for write in step.writes:
                verdict = self.verdicts.of.get((step.index, write.name))
                if verdict is not None and verdict.misshapen:
                    return step
        return suspicion.origin

    def _report(self, step, found, suspicion):
        step, name, computed, wanted = self._values(step, found, suspicion.verdict)
        diagnosis = Diagnosis(computed, wanted, found, step, self)
        lines = sorted({(s.call.function.qualname, s.statement.first) for s in suspicion.region})
        if found is not None and not found.everywhere:
            self.notes.append("this is not the only wrong line: run blame again when it is right")
        return Blame(
            False, self.found, self.notes, original_file(step.call.code.co_filename),
            step.statement.first, step.call.function.qualname, step.statement.source.strip(),
            name, step.iteration, computed, wanted, diagnosis.text, diagnosis.kind, lines,
            step.error or self.error,
        )

    def _added(self, step, write, other):
        """Two values; of a parameter's gradient, what was added to it since the backward began."""
        if not write.name.endswith(".grad"):
            return write.value, other.value
        param = owner(write.name, step)
        before = next((self.check.before[name] for name, p in self.check.layer.params()
                       if p is param), 0.0)
        return write.value - before, other.value - before

    def _values(self, step, found, verdict):
        """(step, name, what it wrote, what it should have been): where they first differ."""
        if found is not None:
            with patched(found.function, found.code):
                again = self._record()
            differs = first_difference((self.recording, again), found.statement)
            if differs is not None:
                first, write, other = differs
                return first, write.name, *self._added(first, write, other)
        write = next((w for w in step.writes if w.how != "through a view"), None) \
            or next(iter(step.writes), None)
        if write is None:
            return step, "", None, None
        known = verdict is not None and verdict.step is step and verdict.name == write.name
        return step, write.name, write.value, self._numerical(verdict) if known else None
