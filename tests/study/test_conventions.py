"""gradcheck reads the conventions of many courses (docs/conventions.md), or asks a question.

It never says that an array is right without comparing it.
"""

from dataclasses import dataclass

import numpy as np
import pytest

from npdl import BiRNN, Cache, Layer, Linear, Sequential, blame, gradcheck
from npdl.errors import InputError
from npdl.study.check.adapters import Uncheckable, make_function_pair_class
from npdl.study.check.samples import make_example_call

X = np.random.default_rng(0).standard_normal((3, 4))


def draw_normal(*shape):
    return np.random.default_rng(len(shape)).standard_normal(shape)


# --- right code in every convention, with a gradient that is `times` too large ----------------


class Attributes:
    """self.W and self.dW."""

    def __init__(self, times=1):
        self.W, self.b, self.times = draw_normal(4, 3), np.zeros(3), times

    def forward(self, x):
        self.x = x
        return x @ self.W + self.b

    def backward(self, dout):
        self.dW, self.db = self.times * self.x.T @ dout, dout.sum(axis=0)
        return dout @ self.W.T


class GradientsInSelf(Attributes):
    """Returns its cache, and keeps its gradients in self."""

    def forward(self, x):
        return super().forward(x), x

    def backward(self, dout, cache):
        self.x = cache
        return super().backward(dout)


class DeepLearningFromScratch:
    """Lists params and grads, which backward writes into."""

    def __init__(self, times=1):
        self.params, self.times = [draw_normal(4, 3), np.zeros(3)], times
        self.grads = [np.zeros_like(p) for p in self.params]

    def forward(self, x):
        self.x = x
        return x @ self.params[0] + self.params[1]

    def backward(self, dout):
        self.grads[0][...], self.grads[1][...] = self.times * self.x.T @ dout, dout.sum(0)
        return dout @ self.params[0].T


class NumpyMl:
    """Dicts of parameters that the first forward makes, and lists of inputs that are remembered."""

    def __init__(self, times=1):
        self.times, self.X, self.gradients = times, [], {}
        self.parameters = {"W": None, "b": None}

    def forward(self, X, retain_derived=True):
        if self.parameters["W"] is None:
            self.parameters = {"W": draw_normal(X.shape[1], 3), "b": np.zeros(3)}
            self.gradients = {name: np.zeros_like(p) for name, p in self.parameters.items()}
        if retain_derived:
            self.X.append(X)
        return X @ self.parameters["W"] + self.parameters["b"]

    def backward(self, dLdy, retain_grads=True):
        for X in self.X:
            self.gradients["W"] += self.times * X.T @ dLdy
            self.gradients["b"] += dLdy.sum(axis=0)
        dX = [dLdy @ self.parameters["W"].T for X in self.X]
        return dX[0] if len(self.X) == 1 else dX


class StateAndMemory:
    """Returns (h, c); backward takes the gradient of h alone."""

    def __init__(self, times=1):
        self.W, self.times = draw_normal(4, 3), times

    def forward(self, x):
        self.x, self.c = x, np.tanh(x @ self.W)
        return np.sin(self.c), self.c

    def backward(self, dh):
        da = dh * np.cos(self.c) * (1 - self.c**2)
        self.dW = self.times * self.x.T @ da
        return da @ self.W.T


class BothGradients(StateAndMemory):
    def backward(self, dh, dc):
        return super().backward(dh + dc / np.cos(self.c))


class TupleOfGradients(BothGradients):
    def backward(self, dout):
        return super().backward(*dout)


@dataclass
class Outputs:
    h: np.ndarray
    c: np.ndarray


class DataclassOfGradients(BothGradients):
    def forward(self, x):
        return Outputs(*super().forward(x))

    def backward(self, dout):
        return super().backward(dout.h, dout.c)


class ResultsInSelf(StateAndMemory):
    """Returns nothing: the output is in self.output, the gradient of x in self.dx."""

    def forward(self, x):
        self.output, _ = super().forward(x)

    def backward(self, dvalues):
        self.dx = super().backward(dvalues)


class LossAndProbabilitiesInSelf:
    """Returns (loss, probabilities), with targets in self; backward takes nothing."""

    def __init__(self, times=1):
        self.times = times

    def forward(self, x, t):
        e = np.exp(x - x.max(axis=1, keepdims=True))
        self.y, self.t = e / e.sum(axis=1, keepdims=True), t
        return -np.log(self.y[np.arange(len(t)), t]).mean(), self.y

    def backward(self, dout=1):
        dx = self.y.copy()
        dx[np.arange(len(self.t)), self.t] -= 1
        return self.times * dout * dx / len(self.t)


@pytest.mark.parametrize(("cls", "inputs", "rows"), [
    (Attributes, (X,), 3), (GradientsInSelf, (X,), 3), (DeepLearningFromScratch, (X,), 3),
    (NumpyMl, (X,), 3), (StateAndMemory, (X,), 2), (BothGradients, (X,), 2),
    (TupleOfGradients, (X,), 2),
    (DataclassOfGradients, (X,), 2), (ResultsInSelf, (X,), 2),
    (LossAndProbabilitiesInSelf, (X, np.array([0, 3, 1])), 1)])
def test_a_class_is_checked_with_all_its_parameters(cls, inputs, rows):
    report = gradcheck(cls(), *inputs)
    assert report.ok() and len(report.rows) == rows, report
    takes_first = cls in (StateAndMemory, LossAndProbabilitiesInSelf)
    assert ("the other outputs are not checked" in str(report)) is takes_first
    [wrong] = gradcheck(cls(3), *inputs).wrong_rows
    assert np.isclose(wrong.computed, 3 * wrong.numerical), wrong


def rnn_cell_forward(xt, a_prev, parameters):
    """Like deeplearning.ai: a dict of parameters, and a prediction besides the state."""
    a_next = np.tanh(parameters["Wax"] @ xt + parameters["Waa"] @ a_prev)
    yt = 1 / (1 + np.exp(-parameters["Wya"] @ a_next))
    return a_next, yt, (a_next, a_prev, xt, parameters)


def rnn_cell_backward(da_next, cache):
    a_next, a_prev, xt, parameters = cache
    dz = da_next * (1 - a_next**2)
    return {"dxt": parameters["Wax"].T @ dz, "da_prev": parameters["Waa"].T @ dz,
            "dWax": dz @ xt.T, "dWaa": dz @ a_prev.T}


def test_gradients_in_a_dict_belong_to_arguments_and_to_a_dict_of_parameters():
    parameters = {"Wax": draw_normal(5, 3), "Waa": draw_normal(5, 5), "Wya": draw_normal(2, 5)}
    inputs = draw_normal(3, 4), draw_normal(5, 4), parameters
    layer, inputs, _ = make_example_call(make_function_pair_class(
        "rnn_cell", rnn_cell_forward, rnn_cell_backward, lambda: inputs))
    report = gradcheck(layer, *inputs)
    assert report.ok(), report
    assert {"input xt", "input parameters.Waa"} <= {row.name for row in report.rows}
    assert "backward takes the gradient of the first" in str(report)
    wrong = gradcheck((rnn_cell_forward, lambda da_next, cache: (
        found := rnn_cell_backward(da_next, cache)) | {"dWaa": -found["dWaa"]}), *inputs).wrong_rows
    assert [row.name for row in wrong] == ["input parameters.Waa"]


def test_a_forward_may_keep_running_statistics_in_a_dict():
    """Like batchnorm_forward(x, gamma, beta, bn_param) of CS231n."""
    def forward(x, bn_param):
        mean = bn_param.get("running_mean", np.zeros(4))
        bn_param["running_mean"] = 0.9 * mean + 0.1 * x.mean(0)
        return x - x.mean(0), None

    report = gradcheck((forward, lambda dout, cache: dout - dout.mean(0)), X, {"mode": "train"})
    assert report.ok() and [row.name for row in report.rows] == ["input x"]


# --- code that can't be checked ----------------------------------------------------------------


def make_layer(base=Attributes, **methods):
    """Return an instance of a subclass with other methods."""
    return type("Odd", (base,), methods)()


ENDLESS = Linear(4, 3)
ENDLESS.part = ENDLESS


@pytest.mark.parametrize(("layer", "error", "text"), [
    (ENDLESS, InputError, "Linear contains itself"),
    (make_layer(object, __slots__=(), forward=Attributes.forward, backward=Attributes.backward),
     InputError, "remove __slots__"),
    (rnn_cell_forward, InputError, r"or the pair \(f_forward, f_backward\)"),
    (make_layer(forward=lambda self, x: None), Uncheckable, "returned no float array; return an"),
    (make_layer(forward=lambda self, x: x + np.random.default_rng().random()), Uncheckable,
     "other outputs in a second run"),
    (make_layer(forward=lambda self, x: x.__iadd__(1)), Uncheckable, "changes its inputs in place"),
    (make_layer(StateAndMemory, backward=lambda self, dh: dh.undefined), Uncheckable,
     "Odd.backward accepts neither their gradients together")])
def test_code_that_cannot_be_checked_is_refused_and_not_wrong(layer, error, text):
    with pytest.raises(error, match=text):
        gradcheck(layer, X)


def test_a_backward_that_raises_for_every_form_of_gradients_is_wrong():
    layer = make_layer(StateAndMemory, backward=lambda self, dh: self.undefined * dh)
    report = gradcheck(layer, X)
    assert not report.ok() and "backward raised AttributeError" in str(report)


# --- names and structure ----------------------------------------------------------------------


@pytest.mark.parametrize("make_dstate, right", [
    (lambda dx, dstate: dstate, True), (lambda dx, dstate: (dstate[0], 1), False),
    (lambda dx, dstate: None, None)])
def test_the_gradient_of_a_state_has_the_structure_of_the_state(make_dstate, right):
    class Mine(BiRNN):
        def backward(self, dout, cache):
            dx, dstate = super().backward(dout, cache)
            return dx, make_dstate(dx, dstate)

    start = draw_normal(1, 3, 3), draw_normal(1, 3, 3) + 1
    assert gradcheck(Mine(4, 3), draw_normal(3, 2, 4), start).right is right


# --- questions ---------------------------------------------------------------------------------


class MisplacedGradient(Attributes):
    """Stores the gradient of b in an unknown place."""

    def backward(self, dout):
        dx = super().backward(dout)
        self.far, self.db = self.db, None
        return dx


class Constant(Attributes):
    """Holds an array that forward reads and that is no parameter."""

    def __init__(self):
        super().__init__()
        self.scale = np.full(3, 2.0)

    def forward(self, x):
        return super().forward(x) * self.scale

    def backward(self, dout):
        return super().backward(dout * self.scale)


class BareArray(Layer):
    """An npdl Layer with a parameter that is no Param."""

    def __init__(self):
        self.scale = draw_normal(4)

    def forward(self, x):
        return x * self.scale, Cache(x=x)

    def backward(self, dy, cache):
        return dy * self.scale


READ = "forward reads this array, and no gradient of it was found; "


@pytest.mark.parametrize(("layer", "text"), [
    (MisplacedGradient(), f"b (3,): {READ}set its"), (Constant(), f"scale (3,): {READ}set its"),
    (BareArray(), f"scale (4,): {READ}make it a"),
    (make_layer(backward=lambda self, dy: (Attributes.backward(self, dy), self.dW)),
     "backward returns an array (4, 3) besides the gradients of the inputs"),
    ((lambda x: (2 * x, Cache(x=x)), lambda dout, cache: cache), "no gradient for input x"),
])
def test_array_without_gradient_gives_a_question(layer, text):
    report = gradcheck(layer, X)
    assert report.right is None and not report.faults and text in str(report), report
    assert blame(layer, X).file in ("", __file__)       # a question shows the student's code


@pytest.mark.parametrize("layer", [Constant(), BareArray()])
def test_an_array_that_is_declared_constant_is_not_asked_about(layer):
    layer.scale.setflags(write=False)
    assert gradcheck(layer, X).ok()


@pytest.mark.parametrize(("name", "values", "right"), [
    ("target", X + 1, True), ("other", np.eye(4)[[0, 3, 1]], True), ("other", X + 1, None)])
def test_targets_need_no_gradient_and_other_inputs_do(name, values, right):
    space = {}
    exec(f"def forward(pred, {name}):\n    d = pred - {name}\n    return (d**2).mean(), d\n", space)
    report = gradcheck((space["forward"], lambda dout, d: dout * 2 * d / d.size), X, values)
    assert report.right is right and f"no gradient for input {name}" in str(report)


@pytest.mark.parametrize("odd", [lambda dy: [dy], lambda dy: "no", lambda dy: dy.astype(object)])
def test_gradient_of_an_odd_type_gets_a_verdict(odd):
    class Odd(Attributes):
        def backward(self, dy):
            dx, self.db = super().backward(dy), odd(dy)
            return dx

    assert not gradcheck(Odd(), X).ok()


def test_without_a_float_input_or_a_parameter_the_check_is_inconclusive():
    report = gradcheck((lambda ids: (np.eye(4)[ids], ids), lambda dout, ids: None),
                       np.array([0, 3]))
    assert report.right is None and not report.rows and not report.faults


class RandomPart(Layer):
    """A part of a layer of npdl that draws from NumPy's global generator."""

    def forward(self, x):
        scale = np.random.random(x.shape)
        return x * scale, Cache(scale=scale)

    def backward(self, dy, cache):
        return dy * cache.scale


def forward_with_global_cache(x):
    STATES["x"] = x
    return x * x, None


STATES, AFFINE = {}, GradientsInSelf()


@pytest.mark.parametrize("layer", [
    Sequential(Linear(4, 3), RandomPart()), (AFFINE.forward, AFFINE.backward),
    (forward_with_global_cache, lambda dy, cache: 2 * STATES["x"] * dy)])
def test_a_random_part_bound_methods_and_values_outside_of_the_cache_are_checked(layer):
    assert gradcheck(layer, X).ok()
