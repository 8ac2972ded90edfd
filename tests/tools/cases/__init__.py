"""Gradient-check cases, one module for each topic; every module has a list CASES.

    case(Linear, "(B, D)", (4, 3), (5, 4))      # Linear(4, 3, rng=rng) on a normal array (5, 4)

Views that are not contiguous need no cases: tests/layers/test_contract.py runs every case on them.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from npdl.backend import stream


@dataclass
class Case:
    """One gradient check: `build(rng)` returns (layer, inputs, options) for gradcheck.

    `layer_class` is the class that the case stands for; `forward`, if given, replaces
    layer.forward (see npdl_study.check.gradcheck). `entries` limits how many entries of each array
    are checked.
    """

    layer_class: type
    what: str
    build: Callable
    forward: Callable | None = None
    entries: int | None = None

    def __str__(self):
        return f"{self.layer_class.__name__}: {self.what}"


def case(cls, what, args, *inputs, forward=None, entries=None, **options):
    """A Case of cls(*args), of the last of `args` as keywords if it is a dict; or of args(rng).

    inputs   shapes of normal arrays; lists of shapes, a state; arrays; functions of rng
    options  what forward takes by name; functions of rng are called
    """
    def build(rng):
        if callable(args):
            layer = args(rng)
        else:
            keywords = dict(args[-1]) if args and isinstance(args[-1], dict) else {}
            if "rng" in inspect.signature(cls.__init__).parameters:
                keywords["rng"] = rng
            layer = cls(*(args[:-1] if args and isinstance(args[-1], dict) else args), **keywords)
        chosen = {name: value(rng) if callable(value) else value
                  for name, value in options.items()}
        return layer, tuple(drawn(rng, given) for given in inputs), chosen

    return Case(cls, what, build, forward, entries)


def drawn(rng, given):
    """An input of a case: a shape, a list of shapes, a function of rng, or the value itself."""
    if callable(given):
        return given(rng)
    if isinstance(given, list):
        return tuple(drawn(rng, shape) for shape in given)
    return rng.standard_normal(given) if isinstance(given, tuple) else given


def off_zero(*shape):
    """Values between 0.1 and 2 in size: nowhere near the kink of a ReLU."""
    return lambda rng: rng.uniform(0.1, 2, shape) * rng.choice([-1.0, 1.0], shape)


def ids(high, *shape):
    """Integers below `high`."""
    return lambda rng: rng.integers(0, high, shape)


def same_mask(layer, *inputs, **options):
    """forward with a dropout stream that starts anew at every call."""
    return layer.forward(*inputs, rng=stream(5, 1), **options)


def strided(array):
    """The same values in a view that is not contiguous."""
    return np.repeat(array, 2, axis=-1)[..., ::2]


def all_cases():
    """The cases of every module in this package."""
    found = []
    for module in pkgutil.iter_modules(__path__):
        found += importlib.import_module(f"{__name__}.{module.name}").CASES
    return found
