"""What a layer of homework must give: the same arrays as npdl's own layer of its name.

`answers` runs a class, a student's or npdl's own, and returns all that its forward and backward
give, by name; `judged` compares two such answers. What is run depends on a seed alone, so that
the process of a student's code and the one that judges it hand over nothing but arrays.
"""

import functools
import inspect
import traceback

import numpy as np

from npdl.backend import stream
from npdl_study.check.samples import sample
from npdl_study.check.target import as_float64, find_class
from npdl_study.containment import called, message
from npdl_study.trees import cast, leaves, placed, rebuilt, upstream

SAME = 1e-11        # of the largest entry: right formulas agree to 1e-14, central differences don't
SMALL = 1e-3        # errors are relative to the largest entry, but to no less than this
# How a layer is tried: its sample; that in float32; more rows; one or two more axes before these;
# and, of a recurrent stack, two layers, sequences of several lengths, a state to start from.
SHAPES = ("sample", "float32", "rows", "axes", "stack")


def instance(cls, shape, seed):
    """(layer, inputs, options) in float64: numbers, sizes and number of axes are the seed's."""
    layer, inputs, options = sample(cls, seed)
    rng = stream(seed, 15)
    rows, axes = int(rng.integers(3, 7)), rng.integers(2, 5, rng.integers(1, 3)).tolist()
    if shape == "stack":
        layer, options = cls(2, 3, num_layers=2), {"lengths": np.array([2, 4, 1, *[3] * rows])}
        states = tuple(rng.standard_normal((2, rows + 3, 3)) for _ in range(2))
        inputs = (rng.standard_normal((rows + 3, 4, 2)),
                  states if cls.__name__ == "LSTM" else states[0])
    elif shape in ("rows", "axes"):
        inputs = _resized(inputs, rows, axes if shape == "axes" else [], rng)
    return *as_float64(layer, inputs, seed), options


def _resized(nest, rows, axes, rng):
    """New arrays in place of a nest's, with more rows and more axes before them."""
    if isinstance(nest, tuple):
        return rebuilt(nest, [_resized(item, rows, axes, rng) for item in nest])
    if not np.ndim(nest):
        return nest
    shape = (*axes, len(nest) + rows, *nest.shape[1:])
    return rng.standard_normal(shape) if nest.dtype.kind == "f" else rng.choice(nest.ravel(), shape)


def shapes_of(name, seed):
    """Those of SHAPES that npdl's own layer takes; each says in its own way that it does not."""
    found = answers(find_class(name), SHAPES, seed)
    odd = {path.split("/")[0] for path, array in found.items()
           if path.endswith("/error") or not np.isfinite(array).all()}
    return [shape for shape in SHAPES if shape not in odd]


def answers(cls, shapes, seed, place=None, functions=None):
    """{"shape/kind/name": array} of a class; `place` and `functions` as `sentence` has them.

    Kinds: output, gradient; after, what was handed in, as it is then; again, the gradients of a
    second backward; or "shape/error", an exception in a sentence.
    """
    found = {}
    for shape in shapes:
        try:
            some = called(functools.partial(_run, cls, shape, seed), cls.__name__)
        except Exception as error:
            some = {"error": np.array(sentence(error, cls.__name__, place, functions))}
        found |= {f"{shape}/{path}": array for path, array in some.items()}
    return found


def _run(cls, shape, seed):
    layer, inputs, options = instance(cls, shape, seed)
    dtype = "float32" if shape == "float32" else "float64"
    layer, inputs = layer.astype(dtype), cast(inputs, dtype)
    names = list(inspect.signature(find_class(cls.__name__).forward).parameters)[1:]
    rng, found = stream(seed, 17), {}

    def keep(kind, nest, name):
        found.update({f"{kind}/{path}": np.array(array) for path, array in leaves(nest, name)})

    def backward(kind):
        for _, param in layer.params():
            param.grad = rng.standard_normal(param.shape).astype(dtype)
        handed = cast(dout, dtype)
        returned, _ = placed(layer.backward(handed, cache),
                             [any(True for _ in leaves(value)) for value in inputs])
        returned = returned if isinstance(returned, tuple) else (returned,)
        for name, value in zip(names, returned, strict=False):
            keep(kind, value, name)
        for name, param in layer.params():
            keep(kind, param.grad, name)
        return handed

    with np.errstate(all="ignore"):
        outputs, cache = layer.forward(*inputs, **options)
        keep("output", outputs, "y")
        dout = cast(upstream(outputs, stream(seed, 78)), dtype)
        keep("after", backward("gradient"), "dy")
        for name, value in zip(names, inputs, strict=False):
            keep("after", value, name)
        backward("again")
    return found


def judged(name, found, wanted):
    """({"gradients", "other sizes", "manners": "" or what is wrong} of answers beside npdl's own,
    `wanted`; the shapes with wrong gradients). Where npdl's layer takes no other sizes, its sample
    stands for them."""
    told = {shape: _wrong(name, shape, found, wanted)
            for shape in dict.fromkeys(path.split("/")[0] for path in wanted) if shape != "float32"}
    others = [wrong for shape, wrong in told.items() if shape != "sample"] or [told["sample"]]
    return ({"gradients": told["sample"], "other sizes": next(filter(None, others), ""),
             "manners": _rude(found, wanted)},
            [shape for shape, wrong in told.items() if wrong.startswith("the gradient of")])


def _of(given, start):
    return {path.removeprefix(start): array for path, array in given.items()
            if path.startswith(start)}


def _wrong(name, shape, found, wanted):
    """What is wrong with outputs or gradients of one shape, in a sentence."""
    said = [str(found[f"{shape}/error"])] if f"{shape}/error" in found else []
    for kind, words in (("output", f"{name}.forward: output"), ("gradient", "the gradient of")):
        if not said:
            told = {path: difference(found.get(f"{shape}/{kind}/{path}"), array)
                    for path, array in _of(wanted, f"{shape}/{kind}/").items()}
            said = [f"{words} {path}{wrong}" for path, wrong in told.items() if wrong]
    sizes = ", ".join(f"{path} {array.shape}" for path, array in
                      _of(wanted, f"{shape}/after/").items() if path != "dy")
    return "; ".join(said) + (f" (inputs: {sizes})" if said and shape != "sample" else "")


def difference(found, wanted):
    """"" for the same numbers, to rounding, else what is wrong with them."""
    found = np.asarray(found)
    if found.dtype.kind != "f":
        return " is missing" if found.dtype.kind == "O" else f" is {found.dtype}, no floats"
    if found.shape != wanted.shape:
        return f" has shape {found.shape}, not {wanted.shape}"
    if not np.isfinite(found).all():
        return " is not finite"
    error = np.abs(found - wanted).max(initial=0) / max(np.abs(wanted).max(initial=0), SMALL)
    return "" if error <= SAME else f" is wrong, by {error:.2g} of its largest entry"


def _rude(found, wanted):
    """What right gradients may still get wrong: writing into what was handed in, float32."""
    for path, array in _of(wanted, "sample/after/").items():
        if not np.array_equal(found.get(f"sample/after/{path}"), array):
            return f"{path} is written into, in place: write into a copy"
    for path, array in _of(wanted, "sample/again/").items():
        if difference(found.get(f"sample/again/{path}"), array):
            return f"{path} has another gradient in a second backward: the cache was written into"
    for path in _of(wanted, "float32/"):
        dtype = found.get(f"float32/{path}", found.get("float32/error")).dtype
        if dtype != np.float32:
            said = found.get("float32/error", f"{path.replace('/', ' ')} is {dtype}")
            return f"{said}, not float32: a number or an array of another dtype came in"
    return ""


def sentence(error, name, place=None, functions=None):
    """An exception of student code, with the last line of the student's file (a Path) that it came
    through: of these functions, where others of that file are not the student's."""
    if isinstance(error, NotImplementedError):
        return " ".join(str(error).split())
    lines = [line for frame, line in traceback.walk_tb(error.__traceback__)
             if frame.f_code.co_filename == str(place) and (
                 not functions or frame.f_code.co_qualname.split(".<locals>")[0] in functions)]
    text = place.read_text(encoding="utf-8", errors="replace").splitlines() if lines else []
    at = [f" ({place.name}, line {line}: {text[line - 1].strip()})" for line in lines[-1:]]
    return f"{name} raised {message(error)}{''.join(at)}"
