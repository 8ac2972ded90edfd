"""Step through a layer: every statement of forward and backward, and the arrays it wrote.

    walk = step(LSTM(2, 3), x)
    walk.show()                         # in the terminal
    walk.to_html("lstm.html")           # as a page that plays, offline

Each gradient `dz` of an array `z` is also computed numerically, by nudging `z` in place.
"""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from npdl.study.check import Check, copied
from npdl.study.judge import Judge, Verdict, Verdicts
from npdl.study.nudge import upstream
from npdl.study.pictures import Summary
from npdl.study.record import is_float_array, record
from npdl.study.slices import Slicer
from npdl.study.trace import refuse_debugger
from npdl.training.files import write_atomically


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
        from npdl.study.show_terminal import show

        show(self, phases, file)

    def to_html(self, path, phases=("forward", "backward")):
        """Write the page; it needs nothing but itself. Returns its path."""
        from npdl.study.show_html import page

        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = page(self, phases)
        write_atomically(path, lambda file: file.write(text.encode(errors="backslashreplace")))
        return path

    def steps(self, phases=("forward", "backward")):
        """The steps that wrote an array or raised; those of very short helpers are left out."""
        return [s for s in self.recording.steps if s.call.phase in phases
                and (s.error is not None or (s.writes and not is_plumbing(s.call)))]

    def verdict(self, step, name):
        """The Verdict on what a step wrote under a name, or None."""
        return self.verdicts.of.get((step.index, name))


def is_plumbing(call):
    """Whether a call is a helper of one or two statements, such as a reshape into heads."""
    name = call.function.name
    return (call.parent is not None and len(call.function.statements) <= 2
            and "forward" not in name and "backward" not in name)


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
    it. Raises InputError when a debugger or a coverage tool is attached.
    """
    refuse_debugger()
    title = title or type(layer).__name__
    try:
        prepared = Check(layer, inputs, options, seed=seed)
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
    if check:
        with np.errstate(all="ignore"):
            walk.verdicts = Judge(prepared.oracle, recording, prepared.weights(dout)).run()
        if recording.error is None:
            walk.finals = prepared.finals(dout)
            _mark_parameters(walk, prepared.layer)
    return walk


def _mark_parameters(walk, layer):
    """Put the verdict on a parameter's gradient to the statement that wrote it last."""
    params, slicer = dict(layer.params()), Slicer(walk.recording, walk.verdicts)
    for final in walk.finals:
        writers = slicer.writers(params[final.name]) if final.name in params else ()
        for last in writers[-1:]:
            name = next(c for c in last.statement.changes if c.endswith(".grad"))
            walk.verdicts.of[last.index, name] = Verdict(
                name, final.right, final.error, last, last.call, kink=final.kink)
