"""Invalid arguments of everything that npdl exports raise an InputError with a message of one line.

Each gradient-check case has a layer and valid inputs. These tests change one array of the inputs,
or of the upstream gradient. The layer must raise an InputError, or else compute the outputs of the
same numbers in the usual dtype, and gradients with the right shapes.
"""

import functools
import itertools
import math
import re
import warnings

import numpy as np
import pytest

import npdl
from npdl import optim
from npdl.backend import make_rng
from npdl.core import Param
from npdl.errors import InputError
from npdl.layers.linear import Linear
from npdl.study.trees import is_nested, leaves, map_leaves
from tests.layers.cases import all_cases, is_composed
from tests.tools import slow
from tests.tools.running import build, make_case_rng

NOTHING = "None"                        # means that None is the changed array
# {name of a change: (function that changes an array, or returns None if the change does not apply;
# function that returns what the changed array means, or None if a layer must not accept it)}.
SPOILT = {
    "objects": (lambda a: a.astype(object), None),
    "text": (lambda a: a.astype("U8"), None),
    "a masked array": (lambda a: np.ma.masked_array(a, abs(a) == abs(a).max(initial=0)), None),
    "complex numbers": (lambda a: a.astype(complex), None),
    "lists": (lambda a: a.tolist() if a.ndim else None, np.asarray),
    "None": (lambda a: NOTHING, None),
    "one number": (lambda a: np.array(a.ravel()[0]) if a.size and a.ndim else None, np.asarray),
    "an empty array": (lambda a: a[:0] if a.ndim else None, np.asarray),
    "no steps": (lambda a: a[:, :0] if a.ndim > 1 else None, np.asarray),
    "no width": (lambda a: a[..., :0] if a.ndim else None, np.asarray),
    "an axis more": (lambda a: a[None], np.asarray),
    "an axis less": (lambda a: a[0] if a.ndim and len(a) else None, np.asarray),
    "a narrower array": (lambda a: a[..., :-1] if a.ndim else None, np.asarray),
    "a wider array": (lambda a: np.concatenate([a, a], -1) if a.ndim else None, np.asarray),
    "fewer rows": (lambda a: a[:-1] if a.ndim else None, np.asarray),
    "more rows": (lambda a: np.concatenate([a, a]) if a.ndim else None, np.asarray),
    "floats for integers": (lambda a: a.astype(float) if a.dtype.kind in "iu" else None, None),
    "floats for bools": (lambda a: a.astype(float) if a.dtype.kind == "b" else None, np.asarray),
    "integers for bools": (lambda a: a.astype(int) if a.dtype.kind == "b" else None,
                           lambda a: a.astype(bool)),
    "bytes for floats": (lambda a: (90 * abs(finite_part(a))).astype("uint8"), np.float64),
    "bools for floats": (lambda a: finite_part(a) > 0 if a.dtype.kind == "f" else None, np.float64),
    "float16": (lambda a: (200 * finite_part(a)).astype("float16"), np.float64),
    "a constant": (lambda a: np.full(a.shape, 123456.7, "float32"), np.float64),
    "bools for integers": (lambda a: a.astype(bool) if a.dtype.kind == "i" else None, None),
    "negative numbers": (lambda a: -1 - a if a.dtype.kind == "i" else None, np.asarray),
    "large numbers": (lambda a: a + 10**6 if a.dtype.kind == "i" else None, np.asarray),
}
FLOATS_ALONE = ("bytes for floats", "float16", "a constant")
LOOSE = {"float16": 2e-2, "a constant": 1e-2}           # largest relative error, otherwise 1e-6
WRONG_GRADIENTS = {**{what: SPOILT[what][0] for what in (
    "None", "one number", "lists", "fewer rows", "more rows", "a narrower array", "a wider array",
    "a masked array", "an axis more", "an axis less")},
    "a number": lambda a: 1.0 if a.ndim else None}


def finite_part(a):
    return np.where(np.isfinite(a), a, 0) if a.dtype.kind == "f" else a


def arrays_by_leaf(structure):
    """Return {number: array} for the arrays among the leaves of nested tuples, lists and dicts."""
    found = []
    map_leaves(structure, found.append)
    return {i: np.asarray(leaf) for i, leaf in enumerate(found)
            if isinstance(leaf, (np.ndarray, np.floating))}


def replace_leaves(structure, values):
    """Return the same structure with the values {number of the leaf: value}."""
    number = itertools.count()
    return map_leaves(structure, lambda leaf: values.get(next(number), leaf))


def forward_arguments(built):
    """Return all arguments of the forward of a case."""
    return {**dict(enumerate(built.inputs)), **built.options}


CASES = {}                              # {name of a layer: its cases}
for each in all_cases():
    # A case of an option of the constructor ("name value") has no inputs of its own.
    if not (each.of_option and " " in each.what):
        CASES.setdefault(each.layer_class.__name__, []).append(each)
ELEMENTARY = [name for name, cases in CASES.items() if not is_composed(cases[0].layer_class)]


@functools.cache
def cases_of_all_inputs(name):
    """Return one case of a layer for each combination of the numbers and kinds of inputs."""
    found = {}
    for case in CASES[name]:
        _, inputs, options = case.build(make_case_rng(case))
        arrays = arrays_by_leaf({**dict(enumerate(inputs)), **options})
        found.setdefault(tuple((i, a.dtype.kind, a.ndim) for i, a in arrays.items()), case)
    return list(found.values())


def catch_input_error(call):
    """Return (None, the result), or (the InputError's message, None). Pass on other errors."""
    try:
        with np.errstate(all="ignore"):
            return None, call()
    except InputError as error:
        return str(error), None


def is_unclear(message):
    """Return True unless a message has one line, which names the given number, shape or type."""
    return "\n" in message or not re.search(r"\d|\(\)|NoneType|list|str|dtype|different", message)


@pytest.mark.parametrize("name", slow.mark_except(ELEMENTARY, CASES))
def test_changed_inputs_raise_or_keep_their_meaning(name, request):
    """Change each array alone, and all float arrays at once, because a product of bytes is a byte.
    (The latter is left out for float16, in which the products of large numbers overflow.)"""
    bad, cases = [], cases_of_all_inputs(name)
    for case in cases if request.config.getoption("--slow") else cases[:1]:
        arrays = arrays_by_leaf(forward_arguments(build(case)))
        floats = [place for place, array in arrays.items() if array.dtype.kind == "f"]
        chosen = [([place], what) for place in arrays for what in SPOILT
                  if what not in FLOATS_ALONE or place in floats]
        chosen += [(floats, what) for what in FLOATS_ALONE if len(floats) > 1 and what != "float16"]
        bad += [f"{case}, {what} for {places}: {problem}" for places, what in chosen
                if (problem := find_problem(case, places, what)) is not None]
    assert not bad, "\n" + "\n".join(bad)


def find_problem(case, leaf_numbers, change_name):
    """Return what is wrong if a layer takes changed arrays, or None."""
    built = build(case)
    arrays, (change, meaning) = arrays_by_leaf(forward_arguments(built)), SPOILT[change_name]
    with np.errstate(invalid="ignore"):
        values = {place: change(arrays[place]) for place in leaf_numbers}
    if any(value is None for value in values.values()):
        return None
    none = NOTHING in [value for value in values.values() if isinstance(value, str)]
    values = dict.fromkeys(values) if none else values
    try:
        message, done = catch_input_error(lambda: forward_with(built, values))
        if message is not None:
            return f"does not name the given value: {message}" if is_unclear(message) else None
        if meaning is None and not none:
            return "was accepted"
        return None if none else find_wrong_result(case, built, values, change_name, done)
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:90]}"


def forward_with(built, values):
    given = replace_leaves(forward_arguments(built), values)
    built.inputs = tuple(given[i] for i in range(len(built.inputs)))
    built.options = {name: given[name] for name in built.options}
    return built.forward()


def find_wrong_result(case, built, values, change_name, outputs_and_cache):
    """Return what is wrong with outputs and gradients after accepted arrays, or None."""
    outputs, cache = outputs_and_cache
    meaning = SPOILT[change_name][1]
    meant, _ = forward_with(build(case), {leaf: meaning(a) for leaf, a in values.items()})
    for (_, found), (_, wanted) in zip(leaves(outputs), leaves(meant), strict=True):
        near = np.isfinite(wanted) & (abs(wanted) < 3e4)         # within the range of float16
        scale = max(abs(wanted[near]).max(initial=0), 1)
        error = abs(found - wanted)[near].max(initial=0)
        if not error <= LOOSE.get(change_name, 1e-6) * scale:
            return f"was accepted, but differs by {error:.1e} of {scale:.1e} from its meaning"
    if not list(leaves(outputs)):
        return None                             # the outputs are integers and have no gradient
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):   # dropout's
        returned = built.layer.backward(built.draw_upstream(outputs), cache)
    returned = returned if isinstance(returned, tuple) else (returned,)
    for i, (x, dx) in enumerate(zip(built.inputs, returned, strict=False)):
        if isinstance(x, np.ndarray) and isinstance(dx, np.ndarray) and x.shape != dx.shape:
            return f"was accepted, but input {i} {x.shape} has gradient {dx.shape}"
    return None


@pytest.mark.parametrize("name", CASES)
def test_wrong_upstream_gradients_raise(name):
    """NumPy would broadcast a gradient of another shape, and add it to the wrong parameter."""
    for case in cases_of_all_inputs(name):
        built = build(case)
        outputs, cache = built.forward()
        dout = built.draw_upstream(outputs)
        for (number, array), (what, change) in itertools.product(
                arrays_by_leaf(dout).items(), WRONG_GRADIENTS.items()):
            value = change(array)
            if value is None or value is NOTHING and is_nested(dout):   # None stands for a zero
                continue
            value = None if value is NOTHING else value
            before = {name: p.grad.copy() for name, p in built.layer.params()}
            given = replace_leaves(dout, {number: value})
            message, _ = catch_input_error(functools.partial(built.layer.backward, given, cache))
            if message is None:                 # None for an unused state adds nothing
                assert what == "None", f"{what} for gradient {number}: was accepted"
                for name, param in built.layer.params():
                    np.testing.assert_array_equal(param.grad, before[name])
            else:
                assert "gradient" in message and not is_unclear(message), message


OPTIMIZERS = {kind.__name__: kind for kind in vars(optim).values() if isinstance(kind, type)
              and issubclass(kind, optim.Optimizer) and kind is not optim.Optimizer}
OPTIMIZERS["Muon"] = lambda model, **o: optim.Muon(model, ["W"], **o)


def yield_wrong_states(state):
    """Yield pairs (description, invalid state of an optimizer)."""
    moment = next(name for name in state if name != "steps")
    W, others = state[moment]["W"], {n: a for n, a in state[moment].items() if n != "W"}
    yield from (("no state", None), ("other moments", {"steps": 1, "speed": {}}),
                ("steps below 0", {**state, "steps": -5}), ("steps", {**state, "steps": 1.5}),
                ("a name less", {**state, moment: {"W": W}}),
                ("a name more", {**state, moment: {**state[moment], "V": W}}))
    for what, value in (("a row for all", W[:1]), ("another dtype", W.astype("float64")),
                        ("lists", W.tolist())):
        yield what, {**state, moment: {**others, "W": value}}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_error_changes_nothing(name):
    """Invalid states and gradients leave the optimizer and its parameters as they were."""
    linear = Linear(3, 2)
    optimizer = OPTIMIZERS[name](linear)
    linear.W.grad += 1
    optimizer.step()
    state, params = optimizer.state_dict(), linear.state_dict()
    for what, wrong in yield_wrong_states(state):
        message, _ = catch_input_error(lambda wrong=wrong: optimizer.load_state_dict(wrong))
        assert message is not None, what
    for lr in (math.nan, -1, math.inf, True, "1", np.ones(2), np.ones(1), 1j):
        with pytest.raises(InputError, match="lr = .*; it must be a finite number, 0 or more"):
            optimizer.step(lr)
    linear.W.trainable = False
    with pytest.raises(InputError, match=r"W: .* is frozen .*; make the optimizer after"):
        optimizer.step()
    np.testing.assert_equal(optimizer.state_dict(), state)
    np.testing.assert_equal(linear.state_dict(), params)
    for given in (linear.params(), list(linear.params()), None, linear.b):
        with pytest.raises(InputError, match="give a Layer, such as"):
            OPTIMIZERS[name](given)


@pytest.mark.parametrize("change", [
    lambda params: optim.clip_by_global_norm(params, 1.0), optim.make_gradients_orthogonal,
    lambda p: optim.Grokfast(p).filter_gradients()], ids=["clip", "orthogonal", "Grokfast"])
def test_gradient_changers_check_their_params(change):
    linear = Linear(3, 2)
    change(optim.AdamW(linear).params.values())
    for given in (linear, linear.params(), [np.ones(3)], None):
        with pytest.raises(InputError, match="give Params, such as optimizer.params.values()"):
            change(given)
    filtered = optim.Grokfast([linear.W])
    linear.W.trainable = False
    for call in (lambda: change([linear.W]), filtered.filter_gradients):
        with pytest.raises(InputError, match="is frozen"):
            call()


def test_parameters_are_floats_of_32_bits_or_more():
    for data in (np.ones(3, "float16"), np.ones(3, int), np.ones(3, bool), np.ones(3, complex)):
        with pytest.raises(InputError, match="must be float32 or float64"):
            Param(data)
        Param(data, trainable=False)                    # packed bits, a running count


def test_dropout_that_drops_nothing_says_so():
    layer = npdl.Dropout(0.3)
    _, cache = layer.forward(np.ones((2, 3)))
    with pytest.warns(UserWarning, match="dropout had no effect: .* rng=") as caught:
        layer.backward(np.ones((2, 3)), cache)
    assert len(caught) == 1
    _, cache = layer.forward(np.ones((2, 3)), make_rng(1))
    layer.backward(np.ones((2, 3)), cache)              # no warning, which would be an error here
    with pytest.raises(InputError, match="rng = 5; give a NumPy generator"):
        layer.forward(np.ones(3), 5)
