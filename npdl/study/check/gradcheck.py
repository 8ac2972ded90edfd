"""The gradient check: compare a layer's backward with finite differences, in float64.

    report = gradcheck(LSTM(3, 5, num_layers=2), x)
    print(report)                       # the worst entry of every gradient
    assert report.ok()

Parameters are random, gains and biases too: with special values a wrong backward can look right (a
gain of 1 hides a missing multiplication). The upstream gradient is random. Every parameter, every
float input and every initial state is compared, and each output is also used alone. Gradients start
from random values, so a backward that overwrites instead of adding is found.
"""

import inspect
import traceback

import numpy as np

from npdl.backend import is_host
from npdl.errors import InputError, NpdlError
from npdl.exceptions import printable
from npdl.study.check.adapters import as_layer
from npdl.study.check.side_effects import side_effects
from npdl.study.check.subjects import Subject
from npdl.study.check.verdicts import Check, Verdict
from npdl.study.containment import is_npdls, message, own_frame, place

OWN = ("seed", "forward", "keep", "entries")


class Report(Verdict):
    """A Verdict that prints itself, the worst gradient first."""

    @property
    def worst(self):
        """Return the largest relative error, or inf if there are faults such as side effects."""
        errors = [row.error for row in self.rows if row.right is not None or row.points]
        return np.inf if self.faults else max(errors, default=0.0)

    def ok(self, limit=np.inf):
        """Return True if everything is right, to a limit; False if something is inconclusive."""
        return self.right is True and self.worst <= limit

    def __repr__(self):
        return str(self)

    def __str__(self):
        width = max([len(row.name) for row in self.rows] + [8])
        lines = [f"{'gradient':<{width}}  {'error':>9}  worst entry"] * bool(self.rows)
        for row in sorted(self.rows, key=lambda row: (row.right is None, -row.error)):
            lines += [f"{row.name:<{width}}  {line}" if i == 0 else f"    {line}"
                      for i, line in enumerate(_lines(row))]
        lines += [f"wrong: {fault}" for fault in self.faults]
        lines += [f"question: {question}" for question in self.questions]
        return printable("\n".join(lines + [f"note: {note}" for note in self.notes]), "\n")


def _lines(row):
    """Return the lines on one gradient, its name left out."""
    if row.kind or not row.points and row.right is None:
        return [f"{'inf':>9}  {row.reason}" if row.kind == "shape" else
                row.reason if row.kind else f"inconclusive here: {row.reason}"]
    used = f", with the gradient of output {row.used} alone" if row.right is False and row.used \
        else ""
    found = [f"{row.error:9.1e}  {list(map(int, row.index))}: computed {row.computed:.9g}, "
             f"numerical {row.numerical:.9g}{used}"]
    if row.unknown:
        where = list(map(int, row.first_unknown)) if isinstance(row.first_unknown, tuple) else \
            "a random direction"
        found.append(f"{row.unknown} of its entries inconclusive, the first at {where}: "
                     f"{row.reason}")
    return found


def gradcheck(layer, *inputs, **how):
    """Compare every gradient of `layer` with finite differences; return a Report.

    layer    a Layer, an object that keeps its cache in self, or a pair (f_forward, f_backward)
    inputs   what forward takes: arrays, or tuples of arrays such as an LSTM's state; integer
             arrays and None get no gradient
    forward  a function in place of layer.forward, called as forward(layer, *inputs, **options); it
             must return (outputs, cache) as the layer does
    keep     True leaves the parameters as they are instead of randomising them
    entries  compare at most this many entries of each array, chosen at random
    seed     the seed of the random numbers
    Other keywords, and those of these that forward has itself, are forward's. The layer and the
    inputs are copied to float64. Outputs that are not used get the upstream gradient None, or zero
    if the backward does not take None. A backward that raises an exception is wrong.
    Raises InputError if the layer can't be checked, and on the backend 'cupy'.
    """
    if not is_host():
        raise InputError("gradcheck works on NumPy only, and the backend is 'cupy'; check there, "
                         "and compare the device's gradients with NumPy's (docs/gpu.md)")
    layer = as_layer(layer)
    theirs = inspect.signature(layer.forward).parameters
    own = {name: how.pop(name) for name in OWN if name in how and name not in theirs}
    entries = own.pop("entries", None)
    return report(Subject(layer, inputs, how, **own), entries)


def report(subject, entries=None):
    """Return the Report on a Subject; compare at most so many entries of each array."""
    check = Check(subject, entries)
    try:
        verdict = check.verdict()
    except NpdlError:
        raise
    except Exception as error:
        if is_npdls(type(subject.layer)):
            raise
        own = own_frame(list(traceback.walk_tb(error.__traceback__))[-1][0])
        where = f" at {place(own)}" if own else ""
        return Report(faults=[f"backward raised {message(error)}{where}; blame shows the values "
                              "that this line read"], notes=check.notes)
    found = Report(verdict.rows, notes=check.notes + verdict.notes, questions=verdict.questions)
    if not found.wrong:
        found.faults = side_effects(check)
    return found
