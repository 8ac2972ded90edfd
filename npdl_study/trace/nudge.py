"""Numerical gradients of everything a forward computes, its local arrays included.

An `Oracle` runs a layer's forward again with one array nudged: a parameter, an input, or a local
such as `z`, which is rebound to z + h v right after the statement that made it. What the outputs
do then is the gradient that a backward's `dz` should be. The layer's code stays as it is.
"""

import ast
from dataclasses import dataclass

import numpy as np

from npdl.backend import stream
from npdl_study import trees as nests
from npdl_study.trace.record import forward_of, is_float_array, look_up, output_and_cache
from npdl_study.trace.trace import Listener, Tracer, wanted
from npdl_study.trees import leaves

STEP = 3e-5
LIMIT = 1e-5
SMALL = 1e-3                # gradients smaller than this are compared as if they were so large
KINK = 1e-2


@dataclass(frozen=True)
class Binding:
    """A local of a forward call, or what it keeps in self ("self.x_hat"), after its statement
    number `run` (-1: as it was handed in)."""

    call: int
    run: int
    name: str
    path: tuple = ()
    loops: tuple = ()
    line: int = 0


@dataclass
class Slope:
    """What the outputs do along `direction`: their change, and whether a kink is near."""

    direction: np.ndarray
    rises: list
    kink: bool


class Oracle:
    """Numerical gradients for one layer and its inputs.

    Everything is in float64; `layer` and `inputs` are used as they are, and restored.
    """

    def __init__(self, layer, inputs, options=None, forward=None, seed=0):
        self.layer, self.inputs, self.options = layer, inputs, options or {}
        self.run = forward or forward_of
        self.seed = seed
        self.wants = wanted(layer)
        self.base = self._outputs()
        self.arrays = {f"input {path}": a for path, a in leaves(inputs)}
        self.arrays |= {name: param.data for name, param in layer.params()}
        self.shapes = self._bindings()
        self._slopes, self._gradients = {}, {}

    def _outputs(self):
        returned = self.run(self.layer, *self.inputs, **self.options)
        outputs, _ = output_and_cache(self.layer, returned)
        return [np.array(a) for _, a in leaves(outputs)]

    def _bindings(self):
        """{Binding: shape} of every float array that a forward call holds under a name."""
        finder = _Finder()
        self._traced(finder)
        return finder.found

    def _traced(self, listener):
        tracer = Tracer(self.wants, listener)
        listener.tracer = tracer
        with tracer():
            return self._outputs()

    def _at(self, what, shift):
        """The outputs with `what` moved by the array `shift`."""
        if isinstance(what, Binding):
            return self._traced(_Nudger(what, shift))
        array = self.arrays[what]
        before = array.copy()
        array[...] = before + shift
        outputs = self._outputs()
        array[...] = before
        return outputs

    def shape(self, what):
        return self.shapes[what] if isinstance(what, Binding) else self.arrays[what].shape

    def slope(self, what, entry=None):
        """The Slope along a random direction (computed once), or along one entry."""
        if entry is not None:
            v = np.zeros(self.shape(what))
            v[entry] = 1.0
            return self._measured(what, v)
        if what not in self._slopes:
            rng = stream(self.seed, 5, len(self._slopes))
            v = np.asarray(rng.standard_normal(self.shape(what)))
            self._slopes[what] = self._measured(what, v)
        return self._slopes[what]

    def _measured(self, what, v, step=STEP):
        above, below = self._at(what, step * v), self._at(what, -step * v)
        rises = [(a - b) / (2 * step) for a, b in zip(above, below, strict=True)]
        bends = self._bends(above, below)
        kink = any((np.abs(bend) > KINK * step).any() for bend in bends)
        if kink:                    # a curve bends a 25th for a fifth of the step, a kink a fifth
            finer = self._bends(self._at(what, step / 5 * v), self._at(what, -step / 5 * v))
            kink = any((np.abs(25 * a - b) > KINK * step).any()
                       for a, b in zip(finer, bends, strict=True))
        return Slope(v, rises, kink)

    def _bends(self, above, below):
        return [a + b - 2 * c for a, b, c in zip(above, below, self.base, strict=True)]

    def along(self, what, dout, entry=None):
        """d loss / d step along the direction, where loss = sum dout * outputs."""
        rises = self.slope(what, entry).rises
        return float(sum((d * r).sum() for d, r in zip(dout, rises, strict=True) if d is not None))

    def error(self, what, value, dout):
        """How far `value` is from the gradient of `what`, relative to its size; inf for a shape
        that is not its own."""
        value = np.asarray(value)
        if value.shape != self.shape(what):
            return float("inf")
        if value.size == 0:
            return 0.0
        numerical = self.along(what, dout)
        own = float((value * self.slope(what).direction).sum())
        scale = max(abs(numerical), float(np.sqrt((value * value).sum())), SMALL)
        error = abs(own - numerical) / scale
        return error if np.isfinite(error) else float("inf")

    def gradient(self, what, dout):
        """The whole numerical gradient, entry by entry (computed once)."""
        key = what, *(None if d is None else d.tobytes() for d in dout)
        if key not in self._gradients:
            found = self._gradients[key] = np.empty(self.shape(what))
            for entry in np.ndindex(found.shape):
                found[entry] = self.along(what, dout, entry)
        return self._gradients[key].copy()


class _Finder(Listener):
    """Collects the Bindings of a forward."""

    def __init__(self):
        self.found = {}
        self.runs = {}

    def entered(self, call, names):
        self.runs[call.number] = 0
        for name, value in call.arguments.items():
            self._add(call, -1, name, value, (), call.function.first)

    def ran(self, call, statement, names, value):
        run = self.runs[call.number]
        self.runs[call.number] += 1
        changed = [source.split("[")[0] for source in statement.changes if "." not in source]
        changed += [source for source in statement.changes if source.startswith("self.")
                    and source.count(".") == 1 and isinstance(statement.node, ast.Assign)]
        for name in dict.fromkeys((*statement.binds, *changed)):
            if name.startswith("self.") and names.get(name.removeprefix("self.")) is look_up(
                    name, names):
                continue                                # z, which is only kept as self.z
            self._add(call, run, name, look_up(name, names), call.iteration(statement),
                      statement.first)

    def _add(self, call, run, name, value, loops, line):
        for path, array in _paths(value):
            self.found[Binding(call.number, run, name, path, loops, line)] = np.shape(array)


def _paths(value, path=()):
    """(path, array) of every float array in a nest of tuples."""
    if is_float_array(value):
        yield path, value
    elif isinstance(value, tuple):
        for i, item in enumerate(value):
            yield from _paths(item, (*path, i))


class _Nudger(Listener):
    """Rebinds one Binding to itself plus `shift`, then lets the forward run on alone."""

    def __init__(self, binding, shift):
        self.binding, self.shift = binding, shift
        self.runs = {}

    def entered(self, call, names):
        self.runs[call.number] = 0
        if call.number == self.binding.call and self.binding.run == -1:
            return self._nudged(names)

    def ran(self, call, statement, names, value):
        run = self.runs[call.number]
        self.runs[call.number] += 1
        if call.number == self.binding.call and run == self.binding.run:
            return self._nudged(names)

    def _nudged(self, names):
        self.tracer.stop()
        name = self.binding.name
        value = moved(look_up(name, names), self.binding.path, self.shift)
        if not name.startswith("self."):
            return {name: value}
        setattr(names["self"], name.removeprefix("self."), value)


def moved(value, path, shift):
    """A nest of tuples with the array at `path` replaced by that array plus `shift`."""
    if not path:
        return value + shift
    items = [moved(item, path[1:], shift) if i == path[0] else item
             for i, item in enumerate(value)]
    return type(value)(*items) if hasattr(value, "_fields") else tuple(items)


def upstream(outputs, seed=0):
    """Random gradients in the nest of the outputs; None for what is not a float array."""
    return nests.upstream(outputs, stream(seed, 78))
