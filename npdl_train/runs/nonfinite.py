"""Where NaN and infinity come from: the first layer, array and line that made one.

    found = find_nonfinite(model, ids, dout=dlogits)
    print(found)
    # classifier, forward: output y is not finite (overflow at npdl/layers/linear.py:32: y = ...)

While a `FirstNonfinite` is active, every call of a layer's forward, backward or logits is looked
at: what goes in, what comes out, the gradients of its parameters. Layers are run as they are,
without changes. NumPy also reports the line whose operation overflowed or was not defined;
elsewhere (on a GPU) the layer and the array are all that is known.
"""

import linecache
import os
import sys
from dataclasses import dataclass

import numpy as np

from npdl.backend import xp
from npdl.core import Layer, Param, named_layers

METHODS = ("forward", "backward", "logits")
NUMPY = os.path.dirname(np.__file__)
PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(__file__))) + os.sep


@dataclass(frozen=True)
class Nonfinite:
    """The first number that is not finite.

    layer   dotted name, or the class's name for one outside the model (a loss)
    method  "forward" or "backward"; "parameter" where a parameter was not finite beforehand
    array   which: an input's name, an output, or a gradient
    line    "file:line: source" of the operation that was the first to go wrong since the last
            layer that was right, or None
    what    NumPy's word for it: overflow, invalid value, divide by zero; or None
    """

    layer: str
    method: str
    array: str
    line: str | None = None
    what: str | None = None

    def __str__(self):
        where = f"{self.layer}, {self.method}: {self.array} is not finite"
        if self.line is None:
            return where
        return f"{where} ({self.what} at {self.line})"


def find_nonfinite(layer, *inputs, dout=None, **options):
    """Run forward, and backward with `dout`, and return the first Nonfinite, or None.

    Gradients are added to the parameters' as by any backward. Parameters that are not finite to
    begin with are named before anything runs.
    """
    found = first_parameter(layer)
    if found is not None:
        return found
    with FirstNonfinite(layer) as first:
        _, cache = layer.forward(*inputs, **options)
        if dout is not None and first.found is None:
            layer.backward(dout, cache)
    return first.found


def first_parameter(layer):
    """The first parameter that is not finite, as a Nonfinite, or None."""
    for name, param in layer.params(frozen=True):
        if not is_finite(param.data):
            return Nonfinite(name.rpartition(".")[0] or type(layer).__name__, "parameter",
                             name.rpartition(".")[2])
    return None


def is_finite(value):
    """Whether every float of a nest of tuples and lists is finite."""
    if isinstance(value, (tuple, list)):
        return all(map(is_finite, value))
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    return kind != "f" or bool(xp.isfinite(value).all())


class FirstNonfinite:
    """A context manager that looks at the calls of layers in this thread; `found` is the first.

    models  the layers to know by name; others (a loss) are known by their class
    """

    def __init__(self, *models):
        self.names = {}
        for model in models:
            for name, layer in named_layers(model):
                self.names.setdefault(id(layer), name or type(layer).__name__)
        self.found = None
        self._suspect = None                    # (what, line) of the first operation reported

    def __enter__(self):
        self._errors = np.errstate(over="call", invalid="call", divide="call", call=self._report)
        self._errors.__enter__()
        self._before = sys.getprofile()
        sys.setprofile(self._look)
        return self

    def __exit__(self, *error):
        sys.setprofile(self._before)
        self._errors.__exit__(*error)

    def _report(self, what, flag):
        """NumPy calls this when an operation overflows or has no value."""
        if self._suspect is None and self.found is None:
            frame = sys._getframe(1)
            self._suspect = (what, _source(frame))

    def _look(self, frame, event, argument):
        """Python calls this at every call and return."""
        if self.found is not None or frame.f_code.co_name not in METHODS:
            return
        layer = frame.f_locals.get("self")
        if not isinstance(layer, Layer) or event not in ("call", "return"):
            return
        bad = (self._entered(frame) if event == "call"
               else self._left(frame, layer, argument))
        if bad is not None:
            what, line = self._suspect or (None, None)
            name = self.names.get(id(layer), type(layer).__name__)
            method = "backward" if frame.f_code.co_name == "backward" else "forward"
            self.found = Nonfinite(name, method, bad, line, what)
        else:
            self._suspect = None                # what it made has come to nothing here

    def _entered(self, frame):
        """The first of the arguments that is not finite."""
        for name, value in list(frame.f_locals.items()):
            if name not in ("self", "cache") and not is_finite(value):
                return f"input {name}"
        return None

    def _left(self, frame, layer, returned):
        """The first output, or gradient of a parameter, that is not finite."""
        if returned is None and frame.f_code.co_name != "backward":
            return None                         # an exception passes through
        outputs = returned
        if frame.f_code.co_name != "backward":
            outputs = returned[0]
        if not is_finite(outputs):
            return f"output {_name_of(outputs, frame)}"
        if frame.f_code.co_name == "backward":
            for name, param in vars(layer).items():
                if isinstance(param, Param) and not is_finite(param.grad):
                    return f"gradient of {name}"
        return None


def _name_of(outputs, frame):
    """The local variable that holds the array in question, or its place among the outputs."""
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    place, bad = next((i, o) for i, o in enumerate(outputs) if not is_finite(o))
    name = next((name for name, value in frame.f_locals.items() if value is bad), None)
    return name or f"number {place}"


def _source(frame):
    """file:line: source of what a frame is executing, or its caller if it is in NumPy."""
    while frame.f_code.co_filename.startswith(NUMPY) and frame.f_back is not None:
        frame = frame.f_back
    path, number = frame.f_code.co_filename, frame.f_lineno
    file = path.removeprefix(PACKAGE)
    return f"{file}:{number}: {' '.join(linecache.getline(path, number).partition('#')[0].split())}"
