"""Step through a layer: every statement of forward and backward, and the arrays it wrote.

    walk = step(LSTM(2, 3), x)
    walk.show()                         # in the terminal
    walk.to_html("lstm.html")           # as an interactive page that works offline

The values of backward are compared with the true gradients of the variables of forward (marks).
"""

from dataclasses import dataclass, field

import numpy as np

from npdl.study.blame.blame import check as check_gradients
from npdl.study.blame.blame import search
from npdl.study.check.adapters import Unfit, as_layer
from npdl.study.check.subjects import Subject
from npdl.study.containment import written
from npdl.study.step.fold import is_shown
from npdl.study.step.marks import Marks
from npdl.study.step.record import Recorder
from npdl.study.step.show_html import framed, page
from npdl.study.step.show_terminal import show
from npdl.study.trace.runs import Budget, Runs, forward_backward, quiet
from npdl.study.trees import copied, upstream

WORK = 9_000_000            # values that the marks of single lines may compute; larger: longer


@dataclass(repr=False)
class Walk:
    """A Recording with what is known of it.

    recording  `recording.steps` are the statements
    finals     the Row of each gradient (npdl.study.check)
    """

    title: str
    recording: object
    finals: list = field(default_factory=list)
    notes: list = field(default_factory=list)

    def show(self, phases=("forward", "backward"), file=None):
        """Print every statement with its arrays."""
        show(self, phases, file)

    def to_html(self, path, phases=("forward", "backward")):
        """Write the page, which needs no other file; return its path."""
        return written(path, page(self, phases))

    def _repr_html_(self):
        return framed(self)

    def __repr__(self):
        names = ", ".join(row.name for row in self.finals if row.right is False)
        wrong = f", wrong: the gradients of {names}" if names else ""
        return (f"{self.title}: {len(self.steps())} statements{wrong}; .show() prints them, "
                ".to_html(path) writes a page")

    def steps(self, phases=("forward", "backward")):
        """Return the steps to show (npdl.study.step.fold); at least those that wrote an array."""
        found = []
        for phase in phases:
            steps = self.recording.phase(phase)
            found += list(filter(is_shown, steps)) or [s for s in steps if s.writes]
        return found


def step(layer, *inputs, seed=0, **options):
    """Run a layer's forward and backward and return the Walk through them.

    The layer is copied to float64 and its parameters made random, as gradcheck does. An exception
    of the layer ends the Walk and is kept in it. Raises InputError for a layer that contains
    itself.
    """
    layer = as_layer(layer)
    title = type(layer).__name__
    try:
        subject = Subject(layer, inputs, options, seed=seed)
    except Exception as error:                          # show how far forward came
        return _unchecked(title, layer, inputs, options, error)
    with quiet():
        result = check_gradients(subject)
    is_wrong = result.dout is not None
    dout = result.dout if is_wrong else subject.dout
    recorder = Recorder(lambda: forward_backward(subject, dout))
    for _, param in subject.layer.params():
        param.grad = np.zeros_like(param.data)
    recording = recorder.run(subject.layer, subject.inputs, subject.run, lambda _: copied(dout))
    walk = Walk(title, recording, notes=list(result.notes))
    walk.notes += [f"the first {len(recording.phase(phase))} statements of {phase} are shown; "
                   "the gradients are checked all the same" for phase in recording.cut]
    if recorder.unseen:
        walk.notes.append(f"no source was found for {', '.join(recorder.unseen)}: what they "
                          "compute is not shown")
    if result.rows and recording.error is None:
        walk.finals = result.rows
        _mark(walk, subject, recorder, dout, is_wrong)
    return walk


def _unchecked(title, layer, inputs, options, error):
    """Return the Walk through a layer whose backward can't be checked."""
    def run():
        return layer.forward(*inputs, **options)

    def draw(outputs):
        return upstream(outputs, np.random.default_rng(0))

    def both():
        outputs, cache = run()
        layer.backward(draw(outputs), cache)

    recording = Recorder(both).run(layer, inputs, run, draw)
    if not isinstance(error, Unfit):
        recording.error = error
    return Walk(title, recording, notes=[str(error)] if isinstance(error, Unfit) else [])


def _mark(walk, subject, recorder, dout, is_wrong):
    """Put the Marks into a Walk; if a gradient is wrong, mark the line that blame finds."""
    report = search(subject, other_inputs=False) if is_wrong else None
    budget = Budget(WORK)
    with quiet(), recorder:
        marks = Marks(walk.recording, Runs(subject, dout, recorder, budget), is_wrong)
        if report is not None:
            marks.mark_line(report.file, report.line)
    if report is not None:
        place = f"line {report.line} in {report.function}: " if report.line else ""
        walk.notes.append(f"{place}{report.diagnosis or 'this line is incorrect'}")
    if budget.over:
        walk.notes.append(f"single lines were compared up to {WORK} computed values; the "
                          "comparison of the gradients is complete")
