"""Step through a layer: show every statement of forward and backward with its arrays.

    walk = step(LSTM(2, 3), x)
    walk.show()                         # in the terminal
    walk.to_html("lstm.html")           # as an interactive page that works offline

The module `marks` compares the values of backward with the true gradients of forward's variables.
"""

from dataclasses import dataclass, field

import numpy as np

from npdl.study.blame.blame import WORK, blame_subject, check_gradients
from npdl.study.check.adapters import Uncheckable, as_layer
from npdl.study.check.subjects import Subject
from npdl.study.containment import write_text
from npdl.study.step.fold import is_shown
from npdl.study.step.marks import Marks
from npdl.study.step.record import Recorder
from npdl.study.step.show_html import format_iframe, format_page
from npdl.study.step.show_terminal import print_walk
from npdl.study.trace.runs import Budget, Runs, run_forward_backward, silence_warnings
from npdl.study.trees import copy_tree, preserve_values

PHASES = "forward", "backward"


@dataclass(repr=False)
class Walk:
    """The statements of a layer's forward and backward with their arrays, as `step` returns them.

    title      the name of the layer's class
    recording  the Recorder; `recording.steps` are the statements
    finals     the comparison of each gradient, a Row (npdl.study.check.verdicts)
    notes      sentences that are shown to the user
    """

    title: str
    recording: object
    finals: list = field(default_factory=list)
    notes: list = field(default_factory=list)

    def show(self, phases=PHASES):
        """Print the statements of `phases` with their arrays."""
        print_walk(self, phases)

    def to_html(self, path, phases=PHASES):
        """Write an interactive page, which needs no other file, to `path`, and return `path`."""
        return write_text(path, format_page(self, phases))

    def _repr_html_(self):
        return format_iframe(self.title, format_page(self, PHASES))

    def __repr__(self):
        names = ", ".join(row.name for row in self.finals if row.right is False)
        wrong = f", wrong gradients: {names}" if names else ""
        return (f"{self.title}: {len(self.steps())} statements{wrong}; print them with .show(), or "
                "write a page with .to_html(path)")

    def steps(self, phases=PHASES):
        """Return the list of the statements that are shown, each a Step.

        npdl.study.step.fold selects them. If it selects no statement of a phase, all statements of
        this phase that wrote an array are shown.
        """
        found = []
        for phase in phases:
            steps = self.recording.list_steps(phase)
            found += list(filter(is_shown, steps)) or [s for s in steps if s.writes]
        return found


def step(layer, *inputs, **options):
    """Run a layer's forward and backward and return a Walk, which shows each statement.

    layer    a Layer, an object that keeps its cache in self, or a pair (f_forward, f_backward)
    inputs   the positional arguments of forward
    options  the keyword arguments of forward
    The layer is copied to float64, and its parameters are made random, as in gradcheck. If the
    layer raises an exception, the Walk ends there and shows the exception. Raises InputError for a
    layer that contains itself.
    """
    layer = as_layer(layer)
    title = type(layer).__name__
    try:
        subject = Subject(layer, inputs, options)
    except Exception as error:                          # show the statements up to the error
        return _record_forward_only(title, layer, inputs, options, error)
    with silence_warnings():
        result = check_gradients(subject)
    is_wrong, used_outputs = result.used_outputs is not None, result.used_outputs or subject.paths
    dout = subject.copy_upstream(used_outputs)
    recording = Recorder(lambda: run_forward_backward(subject, dout))
    for _, param in subject.layer.params():
        param.grad = np.zeros_like(param.data)
    with silence_warnings(), preserve_values(subject.params.values(), subject.inputs):
        recording.run(subject.run_forward, lambda returned: subject.layer.backward(
            copy_tree(dout), returned[1]))
    walk = Walk(title, recording, notes=list(result.notes))
    walk.notes += [f"only the first {len(recording.list_steps(phase))} statements of {phase} are "
                   "recorded; all gradients are compared" for phase in recording.cut]
    if recording.without_source:
        walk.notes.append(f"no source was found for {', '.join(recording.without_source)}, so their"
                          " statements are not shown")
    if result.rows and recording.error is None:
        walk.finals = result.rows
        _mark_steps(walk, Runs(result.check, used_outputs, Budget(WORK), recording), is_wrong)
    return walk


def _record_forward_only(title, layer, inputs, options, error):
    """Return a Walk of forward alone, if `error` was raised before a check could begin."""
    def forward():
        return layer.forward(*inputs, **options)

    recording = Recorder(forward)
    with silence_warnings():
        recording.run(forward, lambda returned: None)
    if isinstance(error, Uncheckable):
        return Walk(title, recording, notes=[str(error)])
    recording.error = error
    return Walk(title, recording)


def _mark_steps(walk, runs, is_layer_wrong):
    """Mark the values of backward as right or wrong; for a wrong layer, add the answer of blame."""
    report = blame_subject(runs.subject, try_other_inputs=False) if is_layer_wrong else None
    with silence_warnings():
        marks = Marks(walk.recording, runs, is_layer_wrong)
        if report is not None:
            marks.mark_line_wrong(report.file, report.line)
    if report is not None:
        place = f"line {report.line} in {report.function}: " if report.line else ""
        walk.notes.append(f"{place}{report.diagnosis or 'this line is incorrect'}")
    if runs.budget.is_spent:
        walk.notes.append(f"the values of some lines are not compared with true gradients, because "
                          f"the limit of {WORK} computed values is reached; the gradients that "
                          "backward returns are all compared")
