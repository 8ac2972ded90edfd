"""What our side of a verdict rests on: every result of npdl's that an exercise uses, checked.

While watching() is on, each forward, backward and function of npdl that exercises.references
writes again is held to it at the very inputs it was given: an output to the plain loop's, a
backward to the plain loop's slope along a random direction of all inputs and parameters. What
differs is a fault, and an exercise in which a fault arose says nothing about a document. Calls
alike in everything but values are held in each exercise FIRST times, then when their count doubles.
"""

import contextlib
import copy
import functools
import importlib
import inspect
import sys
from collections import Counter

import numpy as np

from exercises import references
from npdl.core import Layer, Param

FAULTS = {}                         # {an exercise's module: [what was wrong of npdl's there]}
OUTPUT = {"float64": 1e-9, "float32": 1e-4}         # of the largest entry
SLOPE = {"float64": 1e-6, "float32": 1e-4}          # of the sum of the parts' sizes
STEPS = (1e-3, 1e-4, 1e-5, 1e-9)     # of a difference; the first that agrees will do; the last is
                                    # for slopes that explode
FIRST = 4                           # calls of a kind that are held, whatever comes after

# calls {id of a cache: (cache, its inputs)}, seen {a kind of call: how often it was made}
_state = {"on": 0, "busy": False, "calls": {}, "seen": Counter()}


def faults(module=None):
    """What was wrong of npdl's in an exercise, or in one that it takes results from; without a
    module's name, in those that are running."""
    names = {module} if module else _running()
    for name in list(names):
        names |= {getattr(thing, "__module__", None) for thing in
                  vars(sys.modules.get(name, sys)).values()}
    return [fault for name, found in FAULTS.items() if name in names for fault in found]


def is_watching():
    return _state["on"] > 0


@contextlib.contextmanager
def watching():
    """npdl with every part of it that has a reference held to it."""
    undo = [] if _state["on"] else _wrap()
    _state["on"] += 1
    try:
        yield
    finally:
        _state["on"] -= 1
        for owner, name, thing in undo:
            setattr(owner, name, thing)
        _state["calls"].clear()
        _state["seen"].clear()


def _held(function, values, owner=None):
    """Whether this call is one that is held to the reference."""
    if _state["busy"]:
        return False
    kind = (function, tuple(sorted(_running())), _form(values), _form(owner))
    _state["seen"][kind] += 1
    count = _state["seen"][kind]
    return count <= FIRST or count & (count - 1) == 0


def _form(value):
    """All of a value but the numbers in its arrays; of a layer what it is made of."""
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str
    if isinstance(value, (tuple, list)):
        return type(value), *map(_form, value)
    if isinstance(value, dict):
        return tuple((name, _form(inner)) for name, inner in value.items())
    if isinstance(value, (Layer, Param)):
        return type(value), _form(vars(value))
    return value if isinstance(value, (int, float, str)) else type(value)


def _wrap():
    """Put the checked function in the place of each; [(owner, name, what stood there)]."""
    undo = []

    def put(owner, name, checked):
        undo.append((owner, name, vars(owner)[name]))
        setattr(owner, name, checked)

    for kind in list(_below(Layer)):
        known = any(c.__name__ in references.OF_LAYERS for c in kind.__mro__)
        if known and kind.__module__.startswith("npdl."):
            for name, checked in (("forward", _forward), ("backward", _backward)):
                if name in vars(kind):
                    put(kind, name, checked(vars(kind)[name]))
    for (module, path), reference in references.OF_FUNCTIONS.items():
        source, (*inside, name) = importlib.import_module(module), path.split(".")
        function = vars(getattr(source, inside[0]) if inside else source)[name]
        checked = _function(function, reference)
        if inside:
            put(getattr(source, inside[0]), name, checked)
            continue
        for title, other in list(sys.modules.items()):
            if title.startswith(("npdl.", "exercises.d")):
                for found in [key for key, thing in vars(other).items() if thing is function]:
                    put(other, found, checked)
    return undo[::-1]


def _below(kind):
    for sub in kind.__subclasses__():
        yield sub
        yield from _below(sub)


def _forward(function):
    @functools.wraps(function)
    def forward(self, *given, **named):
        of_super = getattr(type(self).forward, "__wrapped__", None) is not function
        if of_super or not _state["on"]:
            return function(self, *given, **named)
        inputs = {name: _kept(value)
                  for name, value in (*zip(_names(function), given, strict=False), *named.items())}
        held = _held(function, inputs, self)
        if held:                                            # first: some change what they are given
            expected = _quietly(references.forward, self, **_fresh(inputs))
            moved = references.MOVED.get(type(self).__name__, lambda *_, **__: ())(self, **inputs)
        result = _inside(function, self, *given, **named)
        _state["calls"][id(result[1])] = result[1], inputs
        if held:
            _compare(result[0], expected, list(inputs.values()), function)
            for param, left in moved:
                _compare(param.data, left, [*inputs.values(), left], function)
        return result

    return forward


def _backward(function):
    @functools.wraps(function)
    def backward(self, dout, cache):
        inputs = _state["calls"].get(id(cache), (None, None))[1]
        if inputs is None or not _held(function, (inputs, dout), self):
            return function(self, dout, cache)
        before = [(param, np.array(param.grad, np.float64)) for _, param in self.params()]
        result = _inside(function, self, dout, cache)
        added = [(param, param.grad - old, np.abs(old)) for param, old in before]
        _check_slope(self, inputs, dout, result, added, function)
        return result

    return backward


def _function(function, reference):
    @functools.wraps(function)
    def checked(*given, **named):
        if not _state["on"] or not _held(function, (given, named)):
            return function(*given, **named)
        expected = _quietly(reference, *given, **named)
        result = _inside(function, *given, **named)
        shown = references.SHOWN.get(reference, lambda result, *given: result)
        _compare(shown(result, *given), expected, [*given, *named.values()], function)
        return result

    return checked


def _inside(function, *given, **named):
    """What the function gives; what it calls of npdl's is a part of it and not looked at."""
    before, _state["busy"] = _state["busy"], True
    try:
        return function(*given, **named)
    finally:
        _state["busy"] = before


@functools.lru_cache
def _names(function):
    """The names of a forward's inputs, in order."""
    return tuple(inspect.signature(function).parameters)[1:]


def _kept(value):
    """A generator as it is now, since it changes when it draws; anything else itself."""
    return copy.deepcopy(value) if isinstance(value, np.random.Generator) else value


def _fresh(inputs):
    return {name: _kept(value) for name, value in inputs.items()}


def _quietly(reference, *given, **named):
    """What the reference gives; the exception that it raises, which differs from every result."""
    try:
        with np.errstate(all="ignore"):
            return _inside(reference, *given, **named)
    except Exception as error:
        return error


def _leaves(value):
    """The arrays of a nest of tuples and lists, in order; None is left out."""
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in _leaves(item)]
    return [] if value is None else [value]


def _size(values):
    """The largest finite entry of some arrays, without its sign; 0 of none."""
    arrays = [np.asarray(v) for v in _leaves(values) if np.asarray(v).dtype.kind in "fiub"]
    return max((float(np.abs(a[np.isfinite(a)], dtype=float).max(initial=0)) for a in arrays),
               default=0.0)


def _kind(values):
    """float32 where one of the arrays is, else float64."""
    kinds = {str(np.asarray(leaf).dtype) for leaf in _leaves(values)}
    return "float32" if kinds & {"float32", "float16"} else "float64"


def _compare(result, expected, inputs, function):
    if isinstance(expected, Exception):
        return _note(function, f"the plain loop raised {expected!r}")
    left, right = _leaves(result), _leaves(expected)
    given = _leaves(inputs)
    for a, b in zip(left, right, strict=True) if len(left) == len(right) else [(left, right)]:
        a, b = np.asarray(a), np.asarray(b)
        near = OUTPUT[_kind([a, *[g for g in given if hasattr(g, "dtype")]])] * _size([b])
        if a.shape != b.shape or not np.allclose(a, b, rtol=0, atol=near + 1e-14 * _size(given),
                                                 equal_nan=True):
            return _note(function, "its output is not the plain loop's")


def _check_slope(layer, inputs, dout, result, added, function):
    """The gradients against the slope of <dout, forward> along one random direction of all."""
    rng, unit = np.random.default_rng(0), _size([dout])
    if not unit or not np.isfinite(unit):
        return
    names = _names(inspect.unwrap(type(layer).forward))
    results = dict(zip(names, result if isinstance(result, tuple) else (result,), strict=False))
    inputs = dict.fromkeys(results) | inputs                # a state that was left out, too
    ways = {name: _direction(value, results.get(name), rng)
            for name, value in inputs.items()}
    moved = [(param, param.data, rng.standard_normal(param.shape)) for param, *_ in added]
    parts = [(np.asarray(grad, float) * way).ravel() for (_, grad, _), (*_, way) in
             zip(added, moved, strict=True)]
    rounding = sum(float((old * abs(way)).sum()) for (*_, old), (*_, way) in
                   zip(added, moved, strict=True))          # of the sum that was there before
    for name, way in ways.items():
        parts += [(np.asarray(d, float) * w).ravel() for d, w in
                  zip(_leaves(results.get(name)), _leaves(way), strict=True)] if way is not None \
            else []
    parts = np.concatenate([*parts, np.zeros(1)]) / unit
    claimed, allowed = parts.sum(), SLOPE[_kind([*inputs.values(), *(m[1] for m in moved)])] * max(
        np.abs(parts).sum(), 1e-30) + 1e-15 * rounding / unit

    def loss(step):
        try:
            for param, data, way in moved:
                param.data = np.asarray(data, float) + step * way
            at = {name: _moved(value, ways[name], step) for name, value in _fresh(inputs).items()}
            out = _quietly(references.forward, layer, **at)
        finally:
            for param, data, _ in moved:
                param.data = data
        if isinstance(out, Exception):
            raise out
        return _inner(dout, out) / unit

    for step in STEPS:
        slope = (8 * (loss(step) - loss(-step)) - loss(2 * step) + loss(-2 * step)) / (12 * step)
        if abs(slope - claimed) <= allowed:
            return
    left, right = ((loss(step) - loss(0)) / step for step in (-1e-7, 1e-7))
    bend = abs(left - right)                                # a kink: any slope between is one
    if bend > 1e-5 and min(left, right) - bend / 1e3 <= claimed <= max(left, right) + bend / 1e3:
        return
    _note(function, "its gradients are not the plain loop's slope")


def _direction(value, gradient, rng):
    """A random array for each float array of an input that has a gradient, nested as it is; a state
    that is left out is zeros."""
    if value is None and isinstance(gradient, (tuple, list)):
        value = (None,) * len(gradient)
    if isinstance(value, (tuple, list)):
        gradient = gradient if isinstance(gradient, (tuple, list)) else (gradient,) * len(value)
        return tuple(_direction(v, g, rng) for v, g in zip(value, gradient, strict=True))
    if gradient is None or value is not None and getattr(
            getattr(value, "dtype", None), "kind", "") != "f":
        return None
    return rng.standard_normal(np.shape(gradient if value is None else value))


def _moved(value, way, step):
    if isinstance(way, tuple):
        value = (None,) * len(way) if value is None else value
        return tuple(_moved(v, w, step) for v, w in zip(value, way, strict=True))
    return value if way is None else step * way + (0 if value is None else np.asarray(value, float))


def _inner(dout, out):
    """sum dout out, an output that no one used left out; a bare dout is the first output's."""
    if isinstance(out, tuple):
        douts = dout if isinstance(dout, (tuple, list)) else (dout,)
        return sum(_inner(d, o) for d, o in zip(douts, out, strict=False))
    return 0.0 if dout is None else float((np.asarray(dout, float) * out).sum())


def _running():
    """The exercises' modules whose functions are being run."""
    frame, names = sys._getframe(1), set()
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        names |= {name} if name.startswith("exercises.d") else set()
        frame = frame.f_back
    return names


def _note(function, text):
    fault = f"npdl's {function.__qualname__}: {text}"
    for name in _running() or {""}:
        found = FAULTS.setdefault(name, [])
        found += [] if fault in found else [fault]
