"""gradcheck finds wrong backwards, says what is inconclusive, and changes nothing it is given."""

import math

import numpy as np
import pytest

import npdl
from npdl import LSTM, Cache, Layer, LayerNorm, Linear, Param, ReLU, gradcheck
from npdl.backend import make_rng, xp
from npdl.study.check.adapters import as_layer
from npdl.study.check.differences import Direction, make_perturbed_run
from npdl.study.check.subjects import Subject
from npdl.study.check.verdicts import Check
from npdl.study.relative_error import relative_error
from tests.study.test_blame import Scaled

RNG = make_rng(11)
X = RNG.standard_normal((2, 3, 4))
ROWS = RNG.standard_normal((3, 4))
NAN, INF = np.nan, np.inf


# --- wrong backwards -------------------------------------------------------------------------


class OverwritesWeightGradient(Linear):
    def backward(self, dy, cache):
        rows = dy.reshape(-1, dy.shape[-1])
        self.W.grad[...] = cache.rows.T @ rows
        self.b.grad += rows.sum(0)
        return (rows @ self.W.data.T).reshape(cache.shape)


class ZeroStateGradient(LSTM):
    def backward(self, dout, cache):
        dx, dstate = super().backward(dout, cache)
        return dx, tuple(xp.zeros_like(d) for d in dstate)


class ForgetsEps(npdl.RMSNorm):
    def backward(self, dy, cache):
        d = dy * self.gain.data
        self.gain.grad += (dy * cache.x_hat).sum(0)
        rms = np.sqrt(cache.rms**2 - self.eps)
        return (d - cache.x_hat * (d * cache.x_hat).mean(-1, keepdims=True)) / rms


def draw_state(*shape):
    return RNG.standard_normal(shape), RNG.standard_normal(shape)


@pytest.mark.parametrize(("layer", "inputs", "wrong"), [
    (OverwritesWeightGradient(4, 3), (X,), {"W"}),
    (ZeroStateGradient(4, 3), (X, draw_state(1, 2, 3)), {"input state.0", "input state.1"}),
    (ForgetsEps(4), (ROWS,), {"input x"})])
def test_wrong_gradients_are_found_and_no_others(layer, inputs, wrong):
    report = gradcheck(layer, *inputs)
    assert {row.name for row in report.wrong_rows} == wrong, report
    layer.__class__ = type(layer).__mro__[1]
    assert gradcheck(layer, *inputs).ok()


class OneWrongEntry(Scaled):
    def backward(self, dy, cache):
        self.w.grad += (dy * cache.x).sum(0)
        dx = dy * self.w.data
        dx[77, 2] *= self.factor
        return dx


@pytest.mark.parametrize("times", [1.001, 1e200, NAN])
def test_one_wrong_entry_of_a_large_array_is_found(times):
    x = np.random.default_rng(1).standard_normal((200, 4))
    assert Check(Subject(as_layer(OneWrongEntry(1.0)), (x,))).compute_verdict().right
    for entries in (None, 0):
        found = Check(Subject(as_layer(OneWrongEntry(times)), (x,)), entries).compute_verdict()
        assert [row.name for row in found.wrong_rows] == ["input x"]


def test_errors_that_show_only_when_two_outputs_are_used_are_found():
    class DoublesWithTwoOutputs(Layer):
        def forward(self, x):
            return (x, 2 * x, 3 * x), Cache(x=x)

        def backward(self, douts, cache):
            used = sum(d.any() for d in douts)
            return sum(k * d for k, d in enumerate(douts, 1)) * (2 if used == 2 else 1)

    report = gradcheck(DoublesWithTwoOutputs(), ROWS)
    assert "with an upstream gradient of output 0 and 1 only" in str(report)


def return_nothing(self, dy, cache):
    Linear.backward(self, dy, cache)


@pytest.mark.parametrize(("backward", "right", "words"), [
    (return_nothing, None, ["question: backward returned no gradient for input x"]),
    (lambda self, dy, cache: Linear.backward(self, dy, cache)[:, :, None], False,
     ["has shape (2, 3, 1, 4), must be (2, 3, 4)"]),
    (lambda self, dy, cache: dy @ self.W.data, False,
     ["wrong: backward raised ValueError", "test_gradcheck.py:"])])
def test_missing_gradients_wrong_shapes_and_exceptions_are_described(backward, right, words):
    report = gradcheck(type("Mine", (Linear,), {"backward": backward})(4, 3), X)
    assert report.right is right and all(word in str(report) for word in words), report


# --- side effects ----------------------------------------------------------------------------


class SideEffect(Layer):
    """y = x W, with a side effect of its backward."""

    def __init__(self, effect):
        self.effect, self.W = effect, Param(np.eye(4))

    def forward(self, x):
        self.x = x.copy()
        return x @ self.W.data, Cache(x=x, times=[])

    def backward(self, dy, cache):
        effect, given = self.effect, dy
        x = self.x if effect == "self" else cache.x
        self.W.grad += x.T @ dy
        dx = dy @ self.W.data.T
        if effect == "dy":
            given *= 0.5
        if effect == "x":
            cache.x[...] = 0
        if effect == "W":
            self.W.data[...] = 0
        cache.times.append(1)
        twice = effect == "twice" and len(cache.times) > 1
        return 2 * dx if twice else dx


@pytest.mark.parametrize(("effect", "text"), [
    ("dy", "changes the upstream gradient in place"), ("x", "changes input x in place"),
    ("W", "changes parameter W in place"),
    ("twice", "input x is wrong when backward runs a second time on the same cache"),
    ("self", "W is wrong when forward runs again before backward")])
def test_side_effects_are_faults(effect, text):
    report = gradcheck(SideEffect(effect), ROWS)
    assert text in str(report) and not report.ok()
    assert gradcheck(SideEffect(""), ROWS).ok()


# --- numerical derivatives -------------------------------------------------------------------


def compute_derivative(run, array, largest=0.0):
    """Return the Derivative of sum(run()) with respect to the first entry of an array."""
    base = run()
    at = make_perturbed_run(array, (0,), lambda: [run()])
    direction = Direction(at, [base], [np.ones(np.shape(base))], np.abs(array).max())
    return direction.compute_derivative(largest_derivative=largest)


@pytest.mark.parametrize(("f", "x", "value"), [
    (lambda x: np.sin(300 * x), 0.01, 300 * np.cos(3.0)),
    (lambda x: np.sqrt(x * x + 1e-10), 1e-3, 1 / np.sqrt(1 + 1e-4)),
    (lambda x: np.maximum(x, 0), 1e-5, 1.0),
])
def test_a_derivative_is_within_its_uncertainty(f, x, value):
    array = np.array([x, 1.0])
    found = compute_derivative(lambda: f(array), array, largest=1.0)
    assert not found.reason and found.uncertainty <= 1e-7 * max(abs(value), 1e-3)
    assert abs(found.value - value) <= 2 * found.uncertainty
    np.testing.assert_array_equal(array, [x, 1.0])


@pytest.mark.parametrize(("f", "reason"), [
    (lambda x: np.maximum(x, 0), "from the left and from the right differ by 1 (a kink)"),
    (lambda x: np.where(x >= 0, 1.0, 0.0), "a kink"), (lambda x: 1e12 + x, "or rounding hides it"),
    (lambda x: x * np.abs(x) ** 0.5, "the derivative changes abruptly"),
    (lambda x: x / 0.0, "not finite")])
def test_an_unknown_derivative_has_a_reason(f, reason):
    array = np.zeros(1)
    with np.errstate(all="ignore"):
        assert reason in compute_derivative(lambda: f(array), array).reason


def test_float32_outputs_have_the_uncertainty_of_float32():
    array = np.array([0.7, 1.3])
    found = compute_derivative(lambda: np.sin(array).astype("f4"), array)
    assert not found.reason and 1e-7 < found.uncertainty < 3e-4
    assert abs(found.value - np.cos(0.7)) <= found.uncertainty


@pytest.mark.parametrize(("layer", "inputs", "right"), [
    (LayerNorm(4), (np.ones((2, 4)),), True), (Linear(4, 2), (1e6 * ROWS,), True),
    (npdl.CrossEntropy(), (50 * ROWS, np.argmax(ROWS, -1)), None),
    (ReLU(), (np.array([[0.0, 1.0, -2.0]]),), None),
    (ReLU(), (np.array([[1e-5, 1.0, -3e-4]]),), True)])
def test_extreme_inputs_are_right_or_inconclusive_but_never_wrong(layer, inputs, right):
    assert gradcheck(layer, *inputs).right is right


def test_ties_of_a_maximum_are_inconclusive():
    """It gives each of two equal entries the whole gradient: no derivative exists there."""
    class GradientToAllTies:
        def forward(self, x):
            self.x = x
            return x.max(1)

        def backward(self, dy):
            return (self.x == self.x.max(1, keepdims=True)) * dy[:, None]

    report = gradcheck(GradientToAllTies(), np.array([[1.0, 1.0, 0.0], [3.0, 2.0, 3.0]]))
    assert report.right is None and not report.ok()
    assert "; inconclusive at [0, 0] and 3 other entries: the derivatives" in str(report)


# --- what the check leaves alone -------------------------------------------------------------


def test_the_callers_layer_and_arrays_are_unchanged():
    layer, x = LSTM(4, 3, 2), X.astype("float32")
    start = tuple(part.astype("float32") for part in draw_state(2, 2, 3))
    before = x.copy(), start[0].copy(), layer.state_dict()
    gradcheck(layer, x, start)
    np.testing.assert_array_equal(x, before[0])
    np.testing.assert_array_equal(start[0], before[1])
    for name, param in layer.params():
        np.testing.assert_array_equal(param.data, before[2][name])
        assert param.data.dtype == np.float32 and not param.grad.any()


class Drops(Layer):
    """Dropout that draws from one of three places."""

    def __init__(self, draw):
        self.draw, self.rng = draw, np.random.default_rng(4)

    def forward(self, x, rng=None):
        draw = {"own": self.rng.random, "global": np.random.random_sample,
                "argument": getattr(rng, "random", None)}[self.draw]
        mask = draw(x.shape) < 0.5
        return x * mask, Cache(mask=mask)

    def backward(self, dy, cache):
        return dy * cache.mask


@pytest.mark.parametrize("draw", ["own", "global", "argument"])
def test_random_layers_repeat_and_generators_are_restored(draw):
    layer, rng = Drops(draw), np.random.default_rng(5)
    before = layer.rng.bit_generator.state
    np.random.seed(7)
    expected = np.random.random()
    np.random.seed(7)
    assert gradcheck(layer, ROWS, rng=rng).right
    assert np.random.random() == expected
    assert before == layer.rng.bit_generator.state


@pytest.mark.parametrize("found, expected, least, relative", [
    ([3.0], [-2.0], 0, 2.5), ([0.0], [0.0], 0, 0), ([1e-9], [0.0], 0, INF),
    ([0.1], [0.2], 1.0, 0.1),
    ([NAN, INF, 1.0], [NAN, INF, 2.0], 0, 0.5), ([NAN], [1.0], 0, INF), ([1.0], 1.0, 0, INF),
])
def test_deviation_is_relative_to_the_largest_entry(found, expected, least, relative):
    assert math.isclose(relative_error(np.array(found), np.array(expected), least), relative)
