"""Gradient-check cases: all that `npdl.study.check.examples` tells of each layer; and, one module
for each topic with a list CASES, edges that it has no place for: what is hidden from all, what
stands after a sequence's end, several options at once, layers in others.

    case(Linear, "no leading axis", (3, 2), (3,))       # Linear(3, 2, rng=rng) on a normal array

Views that are not contiguous need no cases: tests/layers/test_contract.py runs every case on them.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from npdl.backend import stream
from npdl.errors import InputError
from npdl.study.check.examples import drawn
from npdl.study.check.samples import ROW, every_sample
from tests.tools.running import npdl_layers

COMPOSED = ("npdl.models", "npdl.layers.transformer", "npdl.layers.encoder",
            "npdl.layers.bidirectional", "npdl.layers.llama")
STACKS = ("npdl.layers.recurrent.RNN", "npdl.layers.recurrent.GRU", "npdl.layers.recurrent.LSTM")
FEW = 4                         # entries of each array of a composed layer


@dataclass
class Case:
    """One gradient check: `build(rng)` returns (layer, inputs, options) for gradcheck.

    `layer_class` is the class that the case stands for; `forward`, if given, replaces
    layer.forward (see npdl.study.check.gradcheck). `entries` limits how many entries of each array
    are checked; `of_option` is whether it is there for one option of the class.
    """

    layer_class: type
    what: str
    build: Callable
    forward: Callable | None = None
    entries: int | None = None
    of_option: bool = False

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


def same_mask(layer, *inputs, **options):
    """forward with a dropout stream that starts again at every call."""
    return layer.forward(*inputs, rng=stream(5, 1), **options)


def strided(array):
    """The same values in a view that is not contiguous."""
    return np.repeat(array, 2, axis=-1)[..., ::2]


def has_samples(cls):
    """Whether the table has all of a class; tests/layers/test_gradcheck.py says what is missing."""
    try:
        return bool(every_sample(cls))
    except InputError:
        return False


def cases_of(cls):
    """The cases of a class in the table."""
    return [Case(cls, what, build, entries=FEW if is_composed(cls) else None,
                 of_option=what not in ROW)
            for what, build in every_sample(cls).items()]


def is_composed(cls):
    """Whether a class is made of layers that have cases of their own."""
    name = f"{cls.__module__}.{cls.__name__}"
    return name.startswith(COMPOSED) or name in STACKS


def all_cases():
    """What the table tells of every layer, and the cases of every module in this package."""
    found = [case for cls in npdl_layers() if has_samples(cls) for case in cases_of(cls)]
    for module in pkgutil.iter_modules(__path__):
        found += importlib.import_module(f"{__name__}.{module.name}").CASES
    return found
