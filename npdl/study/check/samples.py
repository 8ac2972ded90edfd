"""Make small inputs for every layer, so that `step` and `blame` need only the layer's name.

A sample is a tuple (layer, inputs, options), with which layer.forward(*inputs, **options) runs. A
user's own class has a classmethod `sample()`, which returns a layer, followed by the inputs. The
list examples.EXAMPLES[name] has the samples of npdl's classes: a first sample, one with other
sizes, and one with sizes of 1. There is another sample for each option of the layer. A user's class
without `sample()` uses the samples of npdl's class with the same name, or of its base class.
"""

import functools
import importlib
import inspect
import pkgutil

import npdl.adapt
import npdl.layers
import npdl.models
from npdl.backend import make_rng
from npdl.core import Layer
from npdl.errors import InputError
from npdl.study.check.adapters import FunctionPair, as_layer
from npdl.study.check.examples import DRAWN, EXAMPLES, MUTE, SIZES, TOGETHER, VALUES
from npdl.study.check.subjects import randomise
from npdl.study.trees import as_tuple, cast_tree

ROW = "a sample", "another", "sizes of 1"       # the names of the three examples of a class


@functools.cache
def find_layer_classes():
    """Return {name: class} of all layers and models of npdl, without abstract base classes."""
    folders = (npdl.layers, npdl.models, npdl.adapt)
    names = ["npdl.losses", *(found.name for folder in folders for found in pkgutil.iter_modules(
        folder.__path__, f"{folder.__name__}."))]
    held = {cls.__name__: cls for name in names
            for cls in vars(importlib.import_module(name)).values()
            if isinstance(cls, type) and issubclass(cls, Layer)}
    return {name: cls for name, cls in sorted(held.items())
            if _find_examples(cls) or not cls.__subclasses__()}


def make_example_call(cls, seed=0, **options):
    """Return (layer, inputs, options) for a class, from its own `sample()` or from `examples`.

    `options` are arguments of the constructor; they are used for classes of npdl only. Raises
    InputError if there is no sample.
    """
    if callable(own := getattr(cls, "sample", None)):
        layer, *inputs = as_tuple(own()) or [None]
        if not isinstance(layer, cls) or not inputs:
            raise InputError(f"{cls.__name__}.sample() must return an instance of {cls.__name__}, "
                             "followed by the inputs of its forward: return layer, x")
        return as_layer(layer), tuple(inputs), {}
    row = _find_examples(cls)
    if row is None:
        sampler = f"function {cls.__name__}_sample() that returns the arguments of forward" if \
            issubclass(cls, FunctionPair) else "classmethod sample() that returns layer, x"
        raise InputError("the inputs of forward are not known; give the shape of each, for "
                         f"example --input x=2,3,4, or write a {sampler}")
    layer, inputs, given = row[0](cls, make_rng(seed, 11), **options)
    return as_layer(layer), inputs, given


def make_sample_builders(cls):
    """Return {name: build} for a class of npdl; each function build(rng) returns a sample.

    Raises InputError if `examples` has no values for the class, or for one of its options.
    """
    row = _find_examples(cls)
    if row is None or len(row) != len(ROW):
        raise InputError(f"{cls.__name__} has {len(row or ())} examples in EXAMPLES of "
                         "npdl/study/check/examples.py; give it three: a sample, another one that "
                         "differs in every size, and one with sizes of 1")
    found = {name: functools.partial(build, cls) for name, build in zip(ROW, row, strict=True)}
    return found | {
        name if callable(value) else f"{name} {value!r}":
            lambda rng, own=(name, value): make_sample_with_option(
                cls, *own, int(rng.integers(1 << 31)))
        for name, value in list_option_values(cls)}


def list_option_values(cls):
    """Return [(name, value)] of all options of a class of npdl that change its result.

    For an option of forward, the value is a function that draws it (examples.DRAWN). Raises
    InputError if `examples` has no value for an option.
    """
    found = []
    for function, known, where in ((cls.__init__, VALUES, "VALUES"), (cls.forward, DRAWN, "DRAWN")):
        for name, taken in inspect.signature(function).parameters.items():
            if taken.default is taken.empty or name in SIZES | MUTE | {"rng"}:
                continue
            if name not in known:
                raise InputError(f"npdl/study/check/examples.py has no value for the option "
                                 f"{name!r} of {cls.__name__}; put one into its {where}")
            found += [(name, value) for value in known[name] if value != taken.default]
    return found


def make_sample_with_option(cls, name, value, seed=0):
    """Return a sample with one option set; (name, value) is a pair of `list_option_values`.

    The option `state` of forward becomes an input, because it has a gradient.
    """
    made, more = TOGETHER.get(name, ({}, {}))
    taken = inspect.signature(cls.__init__).parameters
    made = {key: one for key, one in made.items() if key in taken}
    if not callable(value):
        made[name] = value
    layer, inputs, given = make_example_call(cls, seed, **made)
    given = given | more
    if callable(value) and name not in list(
            inspect.signature(layer.forward).parameters)[: len(inputs)]:
        drawn = value(layer, inputs, make_rng(seed, 14))
        if name == "state":
            return layer, (*inputs, drawn), given
        given[name] = drawn
    return layer, inputs, given


def make_random_float64_copy(layer, inputs, seed=0):
    """Return (layer, inputs) in float64; the layer is a copy with random parameters."""
    layer = layer.astype("float64")
    randomise(layer, make_rng(seed, 77))
    return layer, cast_tree(tuple(inputs), "float64")


def _find_examples(cls):
    """Return the tuple in EXAMPLES for the name of a class or of one of its bases, or None."""
    return next((EXAMPLES[base.__name__] for base in cls.__mro__ if base.__name__ in EXAMPLES),
                None)
