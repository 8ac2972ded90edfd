"""The gradient check: a layer's backward against numerical derivatives, in float64.

    report = gradcheck(LSTM(3, 5, num_layers=2), x)
    print(report)                       # the worst error of every gradient, with its place
    assert report.ok()

Parameters are randomised first, gains and biases too: at its starting values a wrong backward
can look right (a LayerNorm that is off by half passes while its gain is 1). The upstream
gradient is random. Every parameter, every float input and every initial state is compared, and
each output of the layer is also used alone. Gradients start from random values, so a backward that
overwrites instead of adding is found too. Where a gradient is wrong, the report says in which
gate, slice or time step, and in what way when that can be told.
"""

import inspect
import traceback

import numpy as np

from npdl.backend import is_host
from npdl.errors import InputError, NpdlError
from npdl.exceptions import printable
from npdl_study.check.adapters import as_layer
from npdl_study.check.explain import explain
from npdl_study.check.side_effects import side_effects
from npdl_study.check.subjects import subject_of
from npdl_study.check.verdicts import Check, Verdict
from npdl_study.containment import message, place

OWN = ("seed", "forward", "keep", "entries", "each_output", "bare")


class Report(Verdict):
    """A Verdict that prints itself: the worst entry of every gradient, the worst first; what is
    wrong beside; what could not be checked. A fault makes `worst` infinite."""

    @property
    def worst(self):
        checked = [row.error for row in self.rows if row.right is not None]
        return np.inf if self.faults else max(checked, default=0.0)

    def ok(self, limit=np.inf):
        """Whether all is right, and to a limit; False also where nothing could be checked."""
        return self.right is True and self.worst <= limit

    def __repr__(self):
        return str(self)

    def __str__(self):
        width = max([len(row.name) for row in self.rows] + [8])
        lines = [f"{'gradient':<{width}}  {'error':>9}  worst entry"] * bool(self.rows)
        for row in sorted(self.rows, key=lambda row: (row.right is None, -row.error)):
            if row.right is None:
                said = row.reason if row.kind == "missing" else f"not checkable here: {row.reason}"
                lines.append(f"{row.name:<{width}}  {said}")
                continue
            lines.append(
                f"{row.name:<{width}}  {row.error:9.1e}  {list(map(int, row.index))}: "
                f"computed {row.computed:.9g}, numerical {row.numerical:.9g}")
            if row.diagnosis:
                used = f"with output {row.used} used alone, " if row.used else ""
                lines.append(f"    {row.place}: {used}{row.diagnosis}")
            if row.unknown:
                lines.append(f"    {row.unknown} of its entries not checkable here, the first at "
                             f"{place_of(row.doubtful)}: {row.reason}")
        lines += [f"wrong: {fault}" for fault in self.faults]
        lines += [f"question: {question}" for question in self.questions]
        return printable("\n".join(lines + [f"note: {note}" for note in self.notes]), "\n")


def place_of(point):
    return list(map(int, point)) if isinstance(point, tuple) else "a random direction"


def gradcheck(layer, *inputs, **how):
    """Compare every gradient of `layer` with its numerical derivatives; return a Report.

    layer    a Layer; an object that keeps its cache in self; (f_forward, f_backward)
    inputs   what forward takes: arrays, or tuples of arrays such as an LSTM's state; integer
             arrays and None get no gradient. Float arrays are taken in float64.
    forward  a function in place of layer.forward, called as forward(layer, *inputs, **options); it
             must return (outputs, cache) as the layer does
    keep     True leaves the parameters as they are instead of randomising them
    entries  check at most this many entries of each array, chosen at random
    each_output  False leaves out the backwards with one output, or two of several, used alone
    bare     True hands over the gradient of the first output, used alone, as a bare array
    seed     of the random numbers
    A backward that raises is wrong, with its line; npdl's own raise.
    For outputs that are not used the backward is handed None if it takes that, as npdl's own layers
    do, else zeros. InputError when forward, run again, gives something else, and under the backend
    'cupy'. Other keywords, and those of these that forward has itself, are forward's. The layer is
    copied to float64; the caller's layer and arrays stay as they are.
    """
    if not is_host():
        raise InputError("gradcheck works on NumPy only, and the backend is 'cupy'; check there, "
                         "and compare the device's gradients with NumPy's (docs/gpu.md)")
    layer = as_layer(layer)
    theirs = inspect.signature(layer.forward).parameters
    own = {name: how.pop(name) for name in OWN if name in how and name not in theirs}
    looks = {name: own.pop(name) for name in OWN[3:] if name in own}
    return report(subject_of(layer, inputs, how, **own), **looks)


def report(subject, **looks):
    """The Report on a Subject; `looks` as Check takes it."""
    check = Check(subject, **looks)
    try:
        verdict = check.verdict()
    except NpdlError:
        raise
    except Exception as error:
        if type(subject.layer).__module__.startswith("npdl."):
            raise
        *_, (frame, _) = traceback.walk_tb(error.__traceback__)
        return Report(faults=[f"backward raised {message(error)} at {place(frame)}; blame shows "
                              "what that line read"], notes=check.notes)
    found = Report(verdict.rows, notes=check.notes, questions=verdict.questions)
    check.notes += verdict.notes
    for row in found.wrong:
        explained(check, row)
    if not found.wrong and not check.bare:
        found.faults = side_effects(check)
    return found


def explained(check, row):
    """Say of a wrong Row where and how: by the first use of the outputs that can be explained."""
    wrong = [c for c in check.comparisons() if c.name == row.name and c.row.right is False]
    says = [(c.name, c.row.kind, c.note) if c.note else explain(check, c) for c in wrong]
    at = next((i for i, (_, kind, _) in enumerate(says) if kind != "unknown"), 0)
    vars(row).update(vars(wrong[at].row))
    row.place, row.kind, row.diagnosis = says[at]
    row.used = " and ".join(wrong[at].used) if wrong[at].used != check.paths else ""
