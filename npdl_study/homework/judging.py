"""What a layer of homework must give: the same arrays as npdl's own layer of its name.

`questions` makes what a class is asked, out of a seed, with npdl's own answers; whoever answers
(`isolated.answers`) gets the questions alone. `judged` compares two sets of answers.
"""

import contextlib
import copy
import inspect

import numpy as np

from npdl.backend import stream
from npdl_study.check.samples import sample
from npdl_study.check.target import as_float64, find_class
from npdl_study.homework.isolated import answers
from npdl_study.trees import cast, leaves, rebuilt, upstream

# Errors are relative to the largest entry, but to no less than SMALL. Right formulas agree to
# 1e-14; so do, to 1e-11, differences of a high order of a formula that is written out.
SAME, SAME_FLOAT32, SMALL = 1e-11, 1e-3, 1e-3
POINTS = 3          # of a task: gradients, other sizes, and with both of these manners
OPTIONS = {"activation": "relu", "affine": False, "average": "token", "bias": False, "eps": 0.3,
           "exponent": "2k/d", "factor": 0.6, "ffn_bias": True, "ignored": 1, "norm": "pre",
           "norm_bias": False, "padding_id": 1, "qkv_bias": True, "reduction": "none",
           "rope_theta": 3.0, "scale": 0.6, "smoothing": 0.2}
# How a layer is tried, {shape: options of its constructor}: its sample; that in float32; more rows;
# one or two more axes before these; of a recurrent stack, two layers, sequences of several lengths,
# a state to start from; frozen parameters; other options; the cache of another's forward.
SHAPES = {"sample": {}, "float32": {}, "rows": {}, "axes": {}, "stack": {}, "frozen": {},
          "options": OPTIONS, "sum": {"reduction": "sum"}, "kin": {}}
KIN = {"DotAttention": "ScaledDotAttention"}        # has the same backward


def instance(cls, shape, seed):
    """(layer, inputs, options) in float64: numbers, sizes and number of axes are the seed's."""
    own, rng = options_of(cls, shape), stream(seed, 15)
    layer, inputs, options = sample(_with(cls, own) if own else cls, seed)
    if own:
        layer.__class__ = cls
    rows, axes = int(rng.integers(3, 7)), rng.integers(2, 5, rng.integers(1, 3)).tolist()
    if shape == "stack":
        layer, options = cls(2, 3, num_layers=2), {"lengths": np.array([2, 4, 1, *[3] * rows])}
        states = tuple(rng.standard_normal((2, rows + 3, 3)) for _ in range(2))
        inputs = (rng.standard_normal((rows + 3, 4, 2)),
                  states if cls.__name__ == "LSTM" else states[0])
    elif shape in ("rows", "axes"):
        inputs = _resized(inputs, rows, axes if shape == "axes" else [], rng)
    layer, inputs = as_float64(layer, inputs, seed)
    if shape == "frozen":
        layer.set_trainable(False)
    return layer, inputs, options


def options_of(cls, shape):
    """{name: value} of a class's own options that are not its defaults in this shape."""
    taken = inspect.signature(cls.__init__).parameters
    return {name: value if value != taken[name].default else not value
            for name, value in SHAPES[shape].items() if name in taken}


def _with(cls, options):
    """A class that is made with these options."""
    def __init__(self, *given, **named):
        cls.__init__(self, *given, **named, **options)

    return type(cls.__name__, (cls,), {"__init__": __init__})


def _resized(nest, rows, axes, rng):
    """New arrays in place of a nest's, with more rows and more axes before them."""
    if isinstance(nest, tuple):
        return rebuilt(nest, [_resized(item, rows, axes, rng) for item in nest])
    if not np.ndim(nest):
        return nest
    shape = (*axes, len(nest) + rows, *nest.shape[1:])
    return rng.standard_normal(shape) if nest.dtype.kind == "f" else rng.choice(nest.ravel(), shape)


def questions(name, seed, forward):
    """({shape: question}, {path: array} of npdl's own answers) for the SHAPES that npdl's layer
    takes.

    forward   whether forward is asked too, from inputs; else backward alone, from the cache of
              npdl's own forward
    """
    asked, wanted = {}, {}
    for shape, options in SHAPES.items():
        if options and not options_of(find_class(name), shape):
            continue
        with contextlib.suppress(Exception):    # each layer says in its own way that it does not
            question = _question(find_class(name), shape, seed, forward)
            told = answers({shape: copy.deepcopy(question)}, {})
            if all(np.isfinite(array).all() for array in told.values()):    # no text of an error
                asked[shape], wanted = question, wanted | told
    return asked, wanted


def _question(cls, shape, seed, forward):
    kin = find_class(KIN[cls.__name__]) if shape == "kin" and not forward else None
    layer, inputs, options = instance(kin or cls, shape, seed)
    dtype = "float32" if shape == "float32" else "float64"
    layer, inputs, rng = layer.astype(dtype), cast(inputs, dtype), stream(seed, 17)
    with np.errstate(all="ignore"):
        outputs, cache = layer.forward(*inputs, **options)
    if kin:
        layer.__class__ = cls
    for _, param in layer.params():     # gradients are added to what is there
        param.grad = rng.standard_normal(param.shape).astype(dtype)
    question = {"layer": layer, "dy": cast(upstream(outputs, stream(seed, 78)), dtype),
                "names": list(inspect.signature(cls.forward).parameters)[1:],
                "floats": [any(True for _ in leaves(value)) for value in inputs]}
    return question | ({"inputs": inputs, "options": options} if forward else {"cache": cache})


def judged(name, found, wanted):
    """(points, why not all, the shapes with wrong gradients) of answers beside npdl's own,
    `wanted`: a point for the sample, one for all other shapes, and with both one for manners."""
    told = {shape: _wrong(name, shape, found, wanted)
            for shape in dict.fromkeys(path.split("/")[0] for path in wanted)}
    wrong = {shape: why for shape, why in told.items() if why}
    rude = "" if wrong else _rude(found, wanted)
    points = POINTS - bool(wrong or rude) - ("sample" in wrong) - bool({*wrong} - {"sample"})
    why = next(iter(wrong.values()), rude and f"the gradients are right, but {rude}")
    return points, why, [shape for shape in wrong if wrong[shape].startswith("the gradient of")]


def _of(given, start):
    return {path.removeprefix(start): array for path, array in given.items()
            if path.startswith(start)}


def _wrong(name, shape, found, wanted):
    """What is wrong with outputs or gradients of one shape, in a sentence."""
    sizes = ", ".join(f"{path} {array.shape}"
                      for path, array in _of(wanted, f"{shape}/gradient/").items())
    options = ", ".join(f"{k}={v!r}" for k, v in options_of(find_class(name), shape).items())
    where = {"sample": "", "float32": " (in float32)", "kin": f" (for {KIN.get(name)})",
             "frozen": " (with frozen parameters: a gradient is added to by += alone)"}.get(
        shape, f" ({options})" if options else f" (sizes: {sizes})")
    error = str(found.get(f"{shape}/error", ""))
    for kind, words in (("output", f"{name}.forward: output"), ("gradient", "the gradient of"),
                        ("after", "")):
        own, theirs = (_of(given, f"{shape}/{kind}/") for given in (wanted, found))
        said = [f"{words} {path}{difference(theirs.get(path), array)}"
                for path, array in own.items() if words and difference(theirs.get(path), array)]
        if own.keys() - theirs and error:
            said = [error]
        if said:
            return "; ".join(said) + where
    return ""


def difference(found, wanted):
    """"" for the same numbers, to rounding, else what is wrong with them."""
    if found is None:
        return " is missing"
    if found.shape != wanted.shape:
        return f" has shape {found.shape}, not {wanted.shape}"
    if not np.isfinite(found).all():
        return " is not finite"
    same = SAME if wanted.dtype == np.float64 else SAME_FLOAT32
    with np.errstate(over="ignore"):
        error = np.abs(found - wanted).max(initial=0) / max(np.abs(wanted).max(initial=0), SMALL)
    return "" if error <= same else f" is wrong, by {error:.2g} of its largest entry"


def _rude(found, wanted):
    """What right gradients may still get wrong: writing into what was handed in, float32."""
    for path, array in _of(wanted, "sample/after/").items():
        if not np.array_equal(found.get(f"sample/after/{path}"), array):
            return f"{path} is written into, in place: write into a copy"
    for path, array in _of(wanted, "sample/again/").items():
        if difference(found.get(f"sample/again/{path}"), array):
            return f"{path} has another gradient in a second backward: the first changes something"
    for path, array in _of(wanted, "float32/").items():
        dtype = found.get(f"float32/{path}", np.empty(0)).dtype
        if dtype != array.dtype == np.float32:
            return (f"{path.replace('/', ' ')} is {dtype}, not float32: a number or an array of "
                    "another dtype came in")
    return ""
