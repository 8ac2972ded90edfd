"""What a layer of homework must give: the same arrays as npdl's own layer of its name.

`questions` are out of a seed, with npdl's own answers; whoever answers (`isolated.answers`) gets
the questions alone. `judged` compares two sets of answers.
"""

import contextlib
import copy
import inspect

import numpy as np

from npdl.backend import stream
from npdl_study.check.samples import sample
from npdl_study.check.target import as_float64, find_class
from npdl_study.deviation import deviation
from npdl_study.homework.isolated import answers
from npdl_study.trees import cast, leaves, mapped, upstream

# Errors are relative to the largest entry, but to no less than SMALL. Right formulas agree to
# 1e-14; so do, to 1e-11, differences of a high order of a formula that is written out.
SAME, SAME_FLOAT32, SMALL = 1e-11, 1e-3, 1e-3
POINTS = 3          # of a task: gradients, other sizes, and with both of these manners
OPTIONS = {"activation": "relu", "affine": False, "average": "token", "bias": False, "eps": 0.3,
           "exponent": "2k/d", "factor": 0.6, "ffn_bias": True, "ignored": 1, "norm": "pre",
           "norm_bias": False, "padding_id": 1, "qkv_bias": True, "reduction": "none",
           "rope_theta": 3.0, "scale": 0.6, "smoothing": 0.2}
# How a layer is tried, {shape: options of its constructor}. "stack" is of a recurrent stack two
# layers, sequences of several lengths, a state to start from; "scaled" the cache of KIN's forward.
SHAPES = {"sample": {}, "in float32": {}, "more rows": {}, "more axes": {}, "stack": {},
          "frozen parameters: += alone": {}, "options": OPTIONS, "sum": {"reduction": "sum"},
          "scaled": {}}
KIN = {"DotAttention": "ScaledDotAttention"}        # has the same backward


def instance(cls, shape, seed):
    """(layer, inputs, options) in float64: numbers, sizes and number of axes are the seed's."""
    layer, inputs, options = sample(cls, seed, **options_of(cls, shape))
    rng = stream(seed, 15)
    rows, axes = int(rng.integers(3, 7)), rng.integers(2, 5, rng.integers(1, 3)).tolist()
    if shape == "stack":
        layer, options = cls(2, 3, num_layers=2), {"lengths": np.array([2, 4, 1, *[3] * rows])}
        states = tuple(rng.standard_normal((2, rows + 3, 3)) for _ in range(2))
        inputs = (rng.standard_normal((rows + 3, 4, 2)),
                  states if cls.__name__ == "LSTM" else states[0])
    elif shape.startswith("more"):
        inputs = _resized(inputs, rows, axes if shape == "more axes" else [], rng)
    layer, inputs = as_float64(layer, inputs, seed)
    if shape.startswith("frozen"):
        layer.set_trainable(False)
    return layer, inputs, options


def options_of(cls, shape):
    """{name: value} of a class's own options that are not its defaults in this shape."""
    taken = inspect.signature(cls.__init__).parameters
    return {name: value if value != taken[name].default else not value
            for name, value in SHAPES[shape].items() if name in taken}


def _resized(nest, rows, axes, rng):
    """New arrays in place of a nest's, with more rows and more axes before them."""
    def change(leaf):
        if not np.ndim(leaf):
            return leaf
        shape = (*axes, len(leaf) + rows, *leaf.shape[1:])
        return rng.standard_normal(shape) if leaf.dtype.kind == "f" else rng.choice(leaf.ravel(),
                                                                                    shape)

    return mapped(nest, change)


def questions(name, seed, forward):
    """({shape: question}, {path: array} of npdl's own answers) for the SHAPES that npdl's layer
    takes: of backward alone, from the cache of npdl's own forward, or of `forward` too."""
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
    kin = find_class(KIN[cls.__name__]) if shape == "scaled" and not forward else None
    layer, inputs, options = instance(kin or cls, shape, seed)
    dtype = "float32" if shape == "in float32" else "float64"
    layer, inputs, rng = layer.astype(dtype), cast(inputs, dtype), stream(seed, 17)
    with np.errstate(all="ignore"):
        outputs, cache = layer.forward(*inputs, **options)
    if kin:
        layer.__class__ = cls
    for _, param in layer.params():     # gradients are added to what is there
        param.grad = rng.standard_normal(param.shape).astype(dtype)
    return {"layer": layer, "dy": cast(upstream(outputs, stream(seed, 78)), dtype),
            "names": list(inspect.signature(cls.forward).parameters)[1:],
            "floats": [any(True for _ in leaves(value)) for value in inputs]} | (
        {"inputs": inputs, "options": options} if forward else {"cache": cache})


def judged(name, found, wanted):
    """(points, why not all, the shape whose gradient is wrong, if that is why) of answers beside
    npdl's own, `wanted`: a point for the sample, one for all other shapes, and with both one for
    manners."""
    lost = {"sample": [], "others": [], "manners": []}
    for path, array in wanted.items():
        shape, kind, what = path.split("/")
        given, error = found.get(path), found.get(f"{shape}/error")
        wrong = difference(given, array)
        if kind == "again" or given is not None and (kind == "after" or not wrong):
            if rude := _rude(kind, given, array):
                lost["manners"].append((f"the gradients are right, but {what}{rude}", ""))
        else:
            said = f"{name}.forward: output " if kind == "output" else "the gradient of "
            wrong, shown = (error, "") if given is None and error else (said + what + wrong, shape)
            lost["sample" if shape == "sample" else "others"].append(
                (f"{wrong}{_where(name, shape, wanted)}", shown * (kind == "gradient")))
    why, shape = [*lost["sample"], *lost["others"], *lost["manners"], ("", "")][0]
    points = POINTS - bool(lost["sample"]) - bool(lost["others"]) - any(lost.values())
    return points, why, shape


def _where(name, shape, wanted):
    """What is special in a shape, in brackets."""
    said = [f"{k}={v!r}" for k, v in options_of(find_class(name), shape).items()] or [
        f"{path.split('/')[2]} {array.shape}" for path, array in wanted.items()
        if path.startswith(f"{shape}/gradient/")]
    return f" ({shape}; {', '.join(said)})" if shape != "sample" else ""


def _rude(kind, given, array):
    """What right gradients may still get wrong: writing into what was handed in, float32."""
    if kind == "after" and not np.array_equal(given, array):
        return " is written into, in place: write into a copy"
    if kind == "again" and difference(given, array):
        return " has another gradient in a second backward: the first changes something"
    if kind in ("output", "gradient") and given.dtype != array.dtype == np.float32:
        return f" is {given.dtype}, not float32: a number or an array of another dtype came in"
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
    error = deviation(found, wanted, SMALL)
    return "" if error <= same else f" is wrong, by {error:.2g} of its largest entry"
