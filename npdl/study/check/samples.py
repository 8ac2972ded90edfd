"""Small inputs for every layer, so that `step` and `blame` need nothing but its name.

A sample is (layer, inputs, options): layer.forward(*inputs, **options) runs. A user's own class
brings its own: a classmethod `sample()` that returns such a triple, a pair without options, or
layer, *inputs; or `samples()`, a list of these. A class that is named as one of npdl's, or derived
from one, uses that one's specification in `examples`: a sample, another of other sizes, one of
sizes of 1, and one for each option.
"""

import functools
import inspect

import numpy as np

import npdl
from npdl.backend import stream
from npdl.core import Layer
from npdl.errors import InputError
from npdl.study.check.adapters import as_layer
from npdl.study.check.examples import DRAWN, EXAMPLES, MUTE, SIZES, STAND_INS, TOGETHER, VALUES
from npdl.study.check.subjects import randomise
from npdl.study.containment import is_npdls
from npdl.study.trees import cast, leaves, tupled, upstream

ROW = "a sample", "another", "sizes of 1"
DRAWINGS = 40           # how often inputs are drawn until an option changes the result
MATTERS = 1e-6          # the smallest change of an entry that counts


def layer_classes():
    """Return {name: class} of every layer and model of npdl."""
    public = {name: getattr(npdl, name) for name in npdl.__all__}
    return {name: cls for name, cls in public.items()
            if isinstance(cls, type) and issubclass(cls, Layer) and cls is not Layer}


def sample(cls, seed=0, **options):
    """Return (layer, inputs, options) for a class, from its own `sample()` or from `examples`.

    `options` are arguments of the constructor of one of npdl's. Raises InputError if there is none.
    """
    if own := own_samples(cls):
        return own[0]
    cls, row = _row(cls)
    if row is None:
        raise InputError(f"no inputs are known for {cls.__name__}: give it a classmethod sample() "
                         "that returns (layer, inputs), or use --input, for example "
                         "--input x=2,3,4")
    layer, inputs, given = row[0](cls, stream(seed, 11), **options)
    return as_layer(layer), inputs, given


def own_samples(cls):
    """Return the samples that a class brings itself."""
    if callable(own := getattr(cls, "samples", None)):
        if not isinstance(every := own(), list) or not every:
            raise InputError(f"{cls.__name__}.samples() must return a list of samples")
        return [_parse_sample(one, cls) for one in every]
    own = getattr(cls, "sample", None)
    return [_parse_sample(own(), cls)] if callable(own) else []


def _parse_sample(built, cls):
    """Return (layer, inputs, options) of what a class's own sample() returned."""
    layer, *rest = built if isinstance(built, tuple) and built else (None,)
    options = rest.pop() if len(rest) > 1 and isinstance(rest[-1], dict) else {}
    layer = as_layer(layer) if isinstance(layer, cls) else layer
    if not isinstance(layer, Layer) or not rest:
        raise InputError(f"{cls.__name__}.sample() must return (layer, inputs), (layer, inputs, "
                         "options) or layer, *inputs: an instance, a tuple of arrays, a dict")
    alone = len(rest) == 1 and isinstance(rest[0], tuple)
    return layer, rest[0] if alone else tuple(rest), options


def every_sample(cls):
    """Return {name: build(rng)} of all samples of one of npdl's classes.

    Raises InputError if `examples` has no values for the class, or for one of its options.
    """
    cls, row = _row(cls)
    if row is None or len(row) != len(ROW):
        raise InputError(f"{cls.__name__}: its row of EXAMPLES in npdl/study/check/examples.py is "
                         f"{'missing' if row is None else len(row)}; give it {', '.join(ROW)}")
    found = {name: functools.partial(build, cls) for name, build in zip(ROW, row, strict=True)}
    return found | {
        name if value is None else f"{name} {value!r}":
            lambda rng, own=(name, value): with_state(
                *with_option(cls, *own, int(rng.integers(1 << 31)))[0])
        for name, value in option_values(cls)}


def with_state(layer, inputs, options):
    """Return a sample whose state is an input, so that its gradient is compared."""
    given = {name: value for name, value in options.items() if name != "state"}
    return layer, (*inputs, options["state"]) if "state" in options else inputs, given


def option_values(cls):
    """Return [(name, value)] of every option of one of npdl's classes that changes its result.

    The value of an option of forward is None: it is drawn. A class with samples of its own has no
    options. Raises InputError if `examples` has no value for an option.
    """
    (cls, _), found = _row(cls), []
    if own_samples(cls):
        return []
    for function, known in ((cls.__init__, VALUES), (cls.forward, DRAWN)):
        for name, taken in inspect.signature(function).parameters.items():
            if taken.default is taken.empty or name in SIZES | MUTE | {"rng"}:
                continue
            if name not in known:
                raise InputError(f"{cls.__name__}: npdl/study/check/examples.py has no value for "
                                 f"its option {name}; put one into "
                                 f"{'VALUES' if known is VALUES else 'DRAWN'}")
            found += [(name, value) for value in (known[name] if known is VALUES else [None])
                      if known is DRAWN or value != taken.default]
    return found


def with_option(cls, name, value, seed=0):
    """Return (with, without): a sample with an option, and the same sample without it.

    Both have the same parameters and inputs. Inputs are drawn until npdl's own class of the name
    gives different results for the two.
    """
    cls, _ = _row(cls)
    own = [known for base in cls.__mro__ if (known := layer_classes().get(base.__name__))]
    known = own[0] if own and (name, value) in option_values(own[0]) else cls
    return _draw(cls, name, value, _telling_seed(known, name, value, seed))


@functools.cache
def _telling_seed(cls, name, value, seed):
    """Return `seed`, or one after it, for which an option changes the result."""
    for drawing in range(DRAWINGS):
        drawn = seed + (drawing << 32)
        if _differ(*_draw(cls, name, value, drawn)):
            return drawn
    raise InputError(f"{cls.__name__}: with {name}={value!r} no inputs give another result than "
                     "without; npdl/study/check/examples.py has to say when it matters")


def _draw(cls, name, value, seed):
    """Return the two samples of with_option for one seed."""
    made, more = TOGETHER.get(name, ({}, {}))
    taken, called = (list(inspect.signature(f).parameters) for f in (cls.__init__, cls.forward))
    made = {key: one for key, one in made.items() if key in taken}
    plain, _, _ = sample(cls, seed, **made)
    layer, inputs, given = sample(cls, seed, **made | ({} if value is None else {name: value}))
    layer, inputs = as_float64(layer, inputs, seed)
    given = given | more
    without = as_float64(plain, (), seed)[0], inputs, given
    own = dict(layer.params())
    for path, param in without[0].params():
        same = own.get(path, param).data
        param.data = same.copy() if same.shape == param.shape else param.data
    if value is None and name in called[: len(inputs) + 1]:
        without = (without[0], inputs[: called.index(name) - 1], given)
    elif value is None and name in given:
        without = (without[0], inputs, {key: one for key, one in given.items() if key != name})
    elif value is None:
        given = given | {name: DRAWN[name](layer, inputs, stream(seed, 14))}
    return (layer, inputs, given), without


def outputs_and_gradients(layer, inputs, options):
    """Return {path: array} of the outputs and the gradients of a sample."""
    with np.errstate(all="ignore"):
        outputs, cache = layer.forward(*inputs, **options)
        dx = layer.backward(upstream(outputs, stream(0, 78)), cache)
    found = dict(leaves(outputs, "y")) | dict(leaves(tupled(dx), "dx"))
    return found | {path: param.grad if param.trainable else param.data     # running statistics
                    for path, param in layer.params(frozen=True)}


def _differ(given, without):
    """Return True if a sample has another result without its option."""
    wanted = outputs_and_gradients(*given)
    try:
        found = outputs_and_gradients(*without)
    except Exception:               # an option without which forward or backward does not run
        return True
    return found.keys() != wanted.keys() or any(
        array.shape != wanted[path].shape
        or np.abs(array - wanted[path]).max(initial=0) >= MATTERS for path, array in found.items())


def as_float64(layer, inputs, seed=0):
    """Return a float64 copy with random parameters, gains too, and the inputs in float64."""
    layer = layer.astype("float64")
    randomise(layer, stream(seed, 77))
    return layer, cast(tuple(inputs), "float64")


def _row(cls):
    """Return (the class to make, the specification of it or of a base, by name, or None)."""
    for base in cls.__mro__:
        made = STAND_INS.get(base.__name__, cls) if is_npdls(cls) else cls
        if made is not cls or base.__name__ in EXAMPLES:
            return made, EXAMPLES[made.__name__ if made is not cls else base.__name__]
    return cls, None
