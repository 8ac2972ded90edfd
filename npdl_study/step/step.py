"""Step through a layer: every statement of forward and backward, and the arrays it wrote.

    walk = step(LSTM(2, 3), x)
    walk.show()                         # in the terminal
    walk.to_html("lstm.html")           # as a page that plays, offline

Each gradient `dz` of an array `z` is also computed numerically, by nudging `z` in place.
"""

import functools
import time
from dataclasses import dataclass, field

import numpy as np

from npdl_study.blame.search import Search
from npdl_study.check.subjects import as_layer
from npdl_study.containment import held_off, message, written
from npdl_study.step.pictures import Summary
from npdl_study.trace.fold import Folder
from npdl_study.trace.follows import Follows
from npdl_study.trace.judge import Judge, Verdict, Verdicts
from npdl_study.trace.lines import Lines
from npdl_study.trace.nudge import upstream
from npdl_study.trace.prepared import Prepared
from npdl_study.trace.record import MOST_STEPS, is_float_array, record
from npdl_study.trace.source import original_file
from npdl_study.trace.trace import refuse_debugger
from npdl_study.trees import copied

SECONDS = 20                # the checks of single lines may take so long


@dataclass(repr=False)
class Walk:
    """A recording with the verdict on every gradient in it.

    `recording.steps` are the statements, `verdicts.of[index, name]` the numerical check of what
    a statement wrote, `finals` that of each gradient which the backward gives.
    """

    title: str
    recording: object
    verdicts: Verdicts = field(default_factory=Verdicts)
    finals: list = field(default_factory=list)
    notes: list = field(default_factory=list)

    def show(self, phases=("forward", "backward"), file=None):
        """Print every statement with its arrays."""
        from npdl_study.step.show_terminal import show

        show(self, phases, file)

    def to_html(self, path, phases=("forward", "backward")):
        """Write the page; it needs nothing but itself. Returns its path."""
        from npdl_study.step.show_html import page

        return written(path, page(self, phases))

    def _repr_html_(self):
        from npdl_study.step.show_html import framed

        return framed(self)

    def __repr__(self):
        return (f"{self.title}: {len(self.steps())} statements, {self.said()}; .show() prints "
                "them, .to_html(path) writes a page")

    def said(self):
        """How it ended, in a few words."""
        if self.recording.error is not None:
            return f"ended by {message(self.recording.error)}"
        wrong = [f.name for f in self.finals if not f.right and not f.kink]
        if wrong:
            return f"wrong: the gradients of {', '.join(wrong)}"
        return f"all {len(self.finals)} gradients are right" if self.finals else "nothing checked"

    def steps(self, phases=("forward", "backward")):
        """The steps that are mathematics, or wrong, or raised (npdl_study.trace.fold); of a phase
        in which nothing is, all that wrote an array."""
        found = []
        for phase in phases:
            steps = self.recording.phase(phase)
            found += [s for s in steps if self.folder.shows(s)] or [s for s in steps if s.writes]
        return found

    @functools.cached_property
    def folder(self):
        return Folder(self.recording, self.verdict)

    def verdict(self, step, name):
        """The Verdict on what a step wrote under a name, or None."""
        return self.verdicts.of.get((step.index, name))


def digest(value):
    """What a step shows of a value: a Summary of each float array in it, with its path."""
    found = []

    def visit(item, path):
        if is_float_array(item):
            found.append((path, Summary.of(item)))
        elif isinstance(item, (tuple, list)):
            for i, inner in enumerate(item):
                visit(inner, f"{path}[{i}]")

    visit(value, "")
    return found


def step(layer, *inputs, seed=0, check=True, title=None, **options):
    """Run a layer's forward and backward and return the Walk through them.

    The layer is copied to float64 and its parameters made random, as gradcheck does; `check`
    False leaves out the numerical gradients. What the layer raises ends the walk and is kept in
    it. Raises InputError for a layer that holds itself, and when a debugger or a coverage tool is
    attached.
    """
    refuse_debugger()
    layer = as_layer(layer)
    title, layer = title or type(layer).__name__, held_off(layer)
    try:
        prepared = Prepared(layer, inputs, options, seed=seed)
    except Exception:                                   # forward itself fails: show how far it came
        return Walk(title, record(layer, inputs, options, lambda out: None, digest))
    if prepared.refusal:
        walk = record(layer, inputs, options, upstream, digest)
        return Walk(title, walk, notes=[*prepared.notes, prepared.refusal])
    dout = prepared.upstreams[0]
    for _, param in prepared.layer.params():
        param.grad = np.zeros_like(param.data)
    recording = record(prepared.layer, prepared.inputs, prepared.options, copied(dout), digest)
    walk = Walk(title, recording, notes=prepared.notes)
    walk.notes += [f"of the {phase}, the first {MOST_STEPS} statements are shown; the gradients "
                   "are checked all the same" for phase in recording.cut]
    if check:
        with np.errstate(all="ignore"):
            _judge(walk, prepared, dout)
    return walk


def _judge(walk, prepared, dout):
    """Put the verdicts into a Walk; SECONDS at most, and a note when that was not enough."""
    until = time.monotonic() + SECONDS
    judge = _Timed(prepared.oracle, walk.recording, prepared.weights(dout))
    judge.until = until
    walk.verdicts = judge.run()
    if walk.recording.error is None:
        walk.finals = prepared.finals(dout)
        right = all(final.right or final.kink for final in walk.finals)
        follows = Follows(walk)
        for verdict in walk.verdicts.wrong()[::-1]:     # a name alone makes no line wrong
            if right or follows.leads_to_right(verdict):
                verdict.right = None
                follows.cleared.add(id(verdict))
                walk.notes += [_misnamed(verdict)] * right
        walk.notes = list(dict.fromkeys(walk.notes))
        Lines(walk, prepared, dout, until).run()
        follows.mark()
        if not right:
            _agree(walk, prepared.subject)
    if time.monotonic() > until:
        walk.notes.append(f"the checks of single lines were ended after {SECONDS} seconds; those "
                          "of the whole gradients are complete")


def _agree(walk, subject):
    """Call wrong what `blame` does: the lines that can mend every gradient. What is wrong besides
    follows from these."""
    report = Search(subject).run()
    lines = {(report.file, n) for n in (report.line, *report.either)}
    if not report.line:
        return
    for step in walk.recording.phase("backward"):
        guilty = (original_file(step.call.code.co_filename), step.statement.first) in lines
        for write in step.writes:
            verdict = walk.verdict(step, write.name)
            if guilty and (verdict is None or verdict.right is None):
                verdict = Verdict(write.name, False, np.inf, step, step.call, at=step.index)
                walk.verdicts.of[step.index, write.name] = verdict
                walk.verdicts.all.append(verdict)
            if verdict is not None and verdict.right is False:
                verdict.follows = not guilty


def _misnamed(verdict):
    line = verdict.step.statement.first if verdict.step is not None else verdict.call.function.first
    of = getattr(verdict.local, "name", None) or verdict.name[1:]
    return (f"line {line}: {verdict.name} is not the gradient of {of}, as its name may say; it "
            "leads to the right gradients all the same")


class _Timed(Judge):
    """A Judge that gives no more verdicts once its time is over."""

    def _consider(self, *event):
        if time.monotonic() < self.until:
            super()._consider(*event)

    def _returned(self, step):
        if time.monotonic() < self.until:
            super()._returned(step)
