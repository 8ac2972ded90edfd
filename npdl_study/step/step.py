"""Step through a layer: every statement of forward and backward, and the arrays it wrote.

    walk = step(LSTM(2, 3), x)
    walk.show()                         # in the terminal
    walk.to_html("lstm.html")           # as a page that plays, offline

What a backward's statement computed is compared with the true gradients of what forward computes
(npdl_study.step.marks).
"""

import functools
from dataclasses import dataclass, field

import numpy as np

from npdl_study.blame.blame import search
from npdl_study.check.subjects import Subject, Unfit, as_layer
from npdl_study.check.verdicts import Check
from npdl_study.containment import held_off, message, written
from npdl_study.step.fold import Folder
from npdl_study.step.marks import Marks
from npdl_study.step.record import MOST_STEPS, Recorder
from npdl_study.step.show_html import framed, page
from npdl_study.step.show_terminal import show
from npdl_study.trace.runs import Budget, Runs, quiet
from npdl_study.trees import copied, upstream

WORK = 9_000_000            # values that the marks of single lines may compute: some seconds


@dataclass(repr=False)
class Walk:
    """A Recording with what is known of it.

    `recording.steps` are the statements, `mark(step, name)` what is known of a value that a
    statement wrote, `finals` the check of each gradient as a whole (npdl_study.check).
    """

    title: str
    recording: object
    marks: dict = field(default_factory=dict)
    finals: list = field(default_factory=list)
    notes: list = field(default_factory=list)

    def show(self, phases=("forward", "backward"), file=None):
        """Print every statement with its arrays."""
        show(self, phases, file)

    def to_html(self, path, phases=("forward", "backward")):
        """Write the page; it needs nothing but itself. Returns its path."""
        return written(path, page(self, phases))

    def _repr_html_(self):
        return framed(self)

    def __repr__(self):
        return (f"{self.title}: {len(self.steps())} statements, {self.said()}; .show() prints "
                "them, .to_html(path) writes a page")

    def said(self):
        """How it ended, in a few words."""
        if self.recording.error is not None:
            return f"ended by {message(self.recording.error)}"
        wrong = [row.name for row in self.finals if row.right is False]
        if wrong:
            return f"wrong: the gradients of {', '.join(wrong)}"
        count = sum(bool(row.right) for row in self.finals)
        if count < len(self.finals):
            return f"{count} gradients are right, {len(self.finals) - count} not checkable here"
        return f"all {count} gradients are right" if count else "nothing checked"

    def steps(self, phases=("forward", "backward")):
        """The steps that are mathematics, or wrong, or raised (npdl_study.step.fold); of a phase
        in which nothing is, all that wrote an array."""
        found = []
        for phase in phases:
            steps = self.recording.phase(phase)
            found += [s for s in steps if self.folder.shows(s)] or [s for s in steps if s.writes]
        return found

    @functools.cached_property
    def folder(self):
        return Folder(self.recording, self.mark)

    def mark(self, step, name):
        """The Mark on what a step wrote under a name, or None."""
        return self.marks.get((step.index, name))


def step(layer, *inputs, seed=0, check=True, title=None, **options):
    """Run a layer's forward and backward and return the Walk through them.

    The layer is copied to float64 and its parameters made random, as gradcheck does; `check`
    False leaves out the numerical gradients. What the layer raises ends the walk and is kept in
    it. Raises InputError for a layer that holds itself.
    """
    layer = as_layer(layer)
    title, layer = title or type(layer).__name__, held_off(layer)
    try:
        subject = Subject(layer, inputs, options, seed=seed)
    except Exception as error:                          # show how far forward came
        return _unchecked(title, layer, inputs, options, error)
    with quiet():
        rows, failed = _checked(subject) if check else ([], None)
    for used in [failed] if failed else subject.uses:
        recorder, recording = _recorded(subject, subject.upstream(used))
        if recording.error is not None or rows is not None:
            break
    walk = Walk(title, recording, notes=subject.notes())
    walk.notes += [f"of the {phase}, the first {MOST_STEPS} statements are shown; the gradients "
                   "are checked all the same" for phase in recording.cut]
    if recorder.unseen:
        walk.notes.append(f"no source could be had of {', '.join(recorder.unseen)}: what is "
                          "computed there is not shown")
    if rows and recording.error is None:
        walk.finals = rows
        _mark(walk, subject, recorder, subject.upstream(failed or subject.paths), bool(failed))
    return walk


def _checked(subject):
    """(the Rows of a check, the outputs that were used when one was wrong, or None); no Rows where
    the backward raises."""
    try:
        rows = Check(subject).verdict().rows
    except Exception:
        return None, None
    wrong = [row.used for row in rows if row.right is False]
    return rows, wrong and (subject.paths if "" in wrong else wrong[0].split(" and "))


def _recorded(subject, dout):
    """(a Recorder, its Recording) of a Subject, its gradients zeros at first."""
    layer = subject.layer
    recorder = Recorder(lambda: layer.backward(copied(dout), subject.run()[1]))
    for _, param in layer.params():
        param.grad = np.zeros_like(param.data)
    return recorder, recorder.run(layer, subject.inputs, subject.run, lambda outputs: copied(dout))


def _unchecked(title, layer, inputs, options, error):
    """The Walk through a layer that no backward can be checked of."""
    def run():
        return layer.forward(*inputs, **options)

    def both():
        outputs, cache = run()
        layer.backward(upstream(outputs, np.random.default_rng(0)), cache)

    recording = Recorder(both).run(layer, inputs, run,
                                   lambda outputs: upstream(outputs, np.random.default_rng(0)))
    if not isinstance(error, Unfit):
        recording.error = error
    return Walk(title, recording, notes=[str(error)] if isinstance(error, Unfit) else [])


def _mark(walk, subject, recorder, dout, wrong):
    """Put the Marks into a Walk; of WORK values, and a note when that was not enough."""
    report = search(subject, other_inputs=False) if wrong else None
    budget = Budget(WORK)
    with quiet(), recorder:
        marks = Marks(walk.recording, Runs(subject, dout, recorder, budget))
        if report is not None:
            marks.of_wrong(report)
        else:
            marks.of_right(walk.folder.is_mathematics)
    walk.marks = marks.of
    walk.notes += marks.notes
    if report is not None:
        place = f"line {report.line} in {report.function}: " if report.line else ""
        walk.notes.append(f"{place}{report.diagnosis}")
    if budget.over:
        walk.notes.append(f"the checks of single lines were ended after {WORK} values; those of "
                          "the whole gradients are complete")
