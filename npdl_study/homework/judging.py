"""What a layer of homework must give: the same arrays as npdl's own layer of its name.

`questions` are out of a seed, with npdl's own answers; whoever answers (`isolated.answers`) gets
the questions alone. `losses` compares two sets of answers.
"""

import contextlib
import copy
import inspect

import numpy as np

from npdl.backend import stream
from npdl.core import NoBias, walk
from npdl_study.check.samples import as_float64, option_values, own_samples, sample, with_option
from npdl_study.check.target import find_class
from npdl_study.deviation import deviation
from npdl_study.homework.isolated import answers
from npdl_study.trees import cast, leaves, mapped, upstream

# Errors are relative to the largest entry, but to no less than SMALL. Right formulas agree to
# 1e-14; so do, to 1e-11, differences of a high order of a formula that is written out.
SAME, SAME_FLOAT32, SMALL = 1e-11, 1e-3, 1e-3
POINTS = ("gradients", "other sizes and options", "manners")        # of a task
# The rules of manners, as the page for students has them.
ADDED = "Gradients of parameters are added: `self.W.grad += ...`, never `self.W.grad = ...`"
KEPT = "`dy`, inputs, parameters and cache are never changed"
FLOAT32 = "No number fixes a dtype: float32 in, float32 out"
# How every layer is tried, and then with each of its options, or each of the samples that it
# brings. "stack" is of a recurrent stack two layers, sequences of several lengths, a state to start
# from; "scaled" the cache of KIN's forward.
SHAPES = ("sample", "in float32", "more rows", "more axes")
STACK = {"RNN", "GRU", "LSTM", "Recurrent"}
KIN = {"DotAttention": "ScaledDotAttention"}        # has the same backward
# {layer: (a function that its forward asks for besides and does not call, its arguments)}
CALLED = {"SinusoidalPositions": lambda layer, inputs, about: (
              "sinusoidal", (*layer.table.shape, about.get("exponent", "k/d"), "float64")),
          "SequenceLoss": lambda layer, inputs, about: (
              "exact_match", (*inputs, about.get("reduction", "mean")))}


def shapes_of(cls):
    """{shape: the options, {name: value}, that it is about} in which a layer is tried."""
    own = option_values(cls)
    every = {name: value for name, value in own[::-1] if value is not None}
    return (dict.fromkeys(SHAPES, {}) | {f"option {i}": dict([one]) for i, one in enumerate(own)}
            | ({"options": every} if every else {})
            | {f"sample {i}": {} for i in range(2, len(own_samples(cls)) + 1)}
            | dict.fromkeys(["stack"] * (cls.__name__ in STACK), {})
            | dict.fromkeys(["scaled"] * (cls.__name__ in KIN), {}))


def instance(cls, shape, seed):
    """(layer, inputs, options) in float64: numbers, sizes and number of axes are the seed's."""
    special = shapes_of(cls).get(shape, {})
    if shape.startswith("option "):
        return with_option(cls, *special.popitem(), seed)[0]
    layer, inputs, options = (own_samples(cls)[int(shape.split()[1]) - 1] if shape[:7] == "sample "
                              else sample(cls, seed, **special))
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
    return layer, inputs, options


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
    """({shape: question}, {path: array} of npdl's own answers) for the shapes that npdl's layer
    takes: of backward alone, from the cache of npdl's own forward, or of `forward` too."""
    cls, asked, wanted = find_class(name), {}, {}
    for shape, about in shapes_of(cls).items():
        # Each layer says in its own way that it does not take a shape; its options it does.
        refused = () if shape.startswith(("option ", "sample")) else Exception
        with contextlib.suppress(refused):
            question = _question(cls, shape, seed, forward)
            started = {f"{shape}/start/{path}": param.grad.copy()
                       for path, param in question["layer"].params()}
            told = answers({shape: copy.deepcopy(question)}, {})
            if all(np.isfinite(array).all() for array in told.values()):    # no text of an error
                said = ", ".join(k if v is None else f"{k}={v!r}" for k, v in about.items())
                told[f"{shape}/about/{said}"] = np.array(0)
                asked[shape], wanted = question, wanted | started | told
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
    for part in walk(layer):            # and to a bias that is none, however it is spelt
        for none in [value for value in vars(part).values() if isinstance(value, NoBias)]:
            none.data, none.grad = (np.zeros(none.shape, dtype) for _ in range(2))
    call = CALLED.get(cls.__name__) if forward else None
    called = call(layer, inputs, shapes_of(cls).get(shape, {})) if call else ()
    dy = cast(upstream(outputs, stream(seed, 78)), dtype)
    return {"layer": layer, "called": called, "dy": dy,
            "names": list(inspect.signature(cls.forward).parameters)[1:],
            "floats": [any(True for _ in leaves(value)) for value in inputs]} | (
        {"inputs": inputs, "options": options} if forward else {"cache": cache})


def losses(name, found, wanted):
    """{point: (why it is lost, the shape whose gradient is wrong, if that is why)} of answers
    beside npdl's own, `wanted`: one of POINTS is for the sample, one for all other shapes, and
    with both one for manners."""
    lost = {point: [] for point in POINTS}
    for path, array in wanted.items():
        shape, kind, what = path.split("/", 2)
        given, error = found.get(path), found.get(f"{shape}/error")
        wrong, start = difference(given, array), wanted.get(f"{shape}/start/{what}")
        sets = kind == "gradient" and wrong and start is not None and not difference(
            given, array - start)
        if kind == "again" or given is not None and (kind == "after" or sets or not wrong):
            if rude := _rude(kind, given, array, sets):
                lost[POINTS[2]].append((f"the gradients are right, but {what}{rude}", ""))
        elif kind not in ("start", "about"):
            said = f"{name}.forward: output " if kind == "output" else "the gradient of "
            wrong, shown = (error, "") if given is None and error else (said + what + wrong, shape)
            lost[POINTS[shape != "sample"]].append(
                (f"{wrong}{_where(shape, wanted)}", shown * (kind == "gradient")))
    lost = {point: said[0] for point, said in lost.items() if said}
    if lost:
        lost.setdefault(POINTS[2], ("it is there with the other two", ""))
    return lost


def _where(shape, wanted):
    """What is special in a shape, in brackets."""
    said = [path.split("/", 2)[2] for path in wanted if path.startswith(f"{shape}/about/")]
    sizes = [f"{path.split('/')[2]} {array.shape}" for path, array in wanted.items()
             if path.startswith(f"{shape}/gradient/")]
    told = "".join(said) or f"{shape}; {', '.join(sizes)}"
    return f" ({told})" if shape != "sample" else ""


def _rude(kind, given, array, sets):
    """What right gradients may still get wrong, with the rule that forbids it."""
    if sets:
        return f".grad is set, which throws earlier gradients away. {ADDED}"
    if kind == "after" and not np.array_equal(given, array):
        return f" is written into, in place: write into a copy. {KEPT}"
    if kind == "again" and difference(given, array):
        return f" has another gradient in a second backward: the first changes something. {KEPT}"
    if kind in ("output", "gradient") and given.dtype != array.dtype == np.float32:
        return f" is {given.dtype}, not float32: something of another dtype came in. {FLOAT32}"
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
