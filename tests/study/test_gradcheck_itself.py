"""The gradient check must notice wrong backwards, and must not touch what it is given."""

import numpy as np
import pytest

from npdl.backend import stream, xp
from npdl.core import Cache, Layer, Param
from npdl.layers.activation import GELU, Softmax
from npdl.layers.attention import MultiHeadAttention
from npdl.layers.embedding import Embedding
from npdl.layers.layer_norm import LayerNorm
from npdl.layers.linear import Linear
from npdl.layers.recurrent import LSTM, LSTMCell
from npdl.layers.transformer import Same
from npdl_study.check.gradcheck import gradcheck
from npdl_study.check.subjects import subject_of
from npdl_study.check.verdicts import Check

RNG = stream(11)
X = RNG.standard_normal((2, 3, 4))


class GainPulledOut(LayerNorm):
    """Multiplies by the gain after the sums over the row instead of before them."""

    def backward(self, dy, cache):
        x_hat = cache.x_hat
        self.gain.grad += (dy * x_hat).reshape(-1, x_hat.shape[-1]).sum(0)
        self.bias.grad += dy.reshape(-1, x_hat.shape[-1]).sum(0)
        mean = dy.mean(-1, keepdims=True)
        along = (dy * x_hat).mean(-1, keepdims=True)
        return (dy - mean - x_hat * along) / cache.std * self.gain.data


class VarianceIsConstant(LayerNorm):
    """Forgets that the variance depends on x."""

    def backward(self, dy, cache):
        super().backward(dy, cache)
        dx_hat = dy * self.gain.data
        return (dx_hat - dx_hat.mean(-1, keepdims=True)) / cache.std


class NoBiasSum(Linear):
    """Takes the bias gradient of the first row only."""

    def backward(self, dy, cache):
        before = self.b.grad.copy()
        dx = super().backward(dy, cache)
        self.b.grad[...] = before + dy.reshape(-1, dy.shape[-1])[0]
        return dx


class Overwrites(Linear):
    """`=` where `+=` is needed."""

    def backward(self, dy, cache):
        rows = dy.reshape(-1, dy.shape[-1])
        self.W.grad[...] = cache.rows.T @ rows
        self.b.grad += rows.sum(0)
        return (rows @ self.W.data.T).reshape(cache.shape)


class WrongSign(GELU):
    def backward(self, dy, cache):
        return -super().backward(dy, cache)


class NoNormaliser(Softmax):
    """The diagonal of softmax's Jacobian alone."""

    def backward(self, dy, cache):
        return dy * cache.y * (1 - cache.y)


class LastWins(Embedding):
    """Keeps one of the gradients of a repeated token: what `W[ids] += dy` does."""

    def backward(self, dy, cache):
        self.W.grad[cache.ids] += dy


class NoScale(MultiHeadAttention):
    """Leaves 1/sqrt(d) out of the gradient of queries and keys."""

    def backward(self, dout, cache):
        cache = Cache(**{**vars(cache), "attend": Cache(**{**vars(cache.attend), "scale": 1.0})})
        return super().backward(dout, cache)


class ForgetsTheCell(LSTMCell):
    """Ignores the gradient that arrives from the next cell state."""

    def backward(self, dout, cache):
        return super().backward((dout[0], None), cache)


class ForgetsTheStart(LSTM):
    """Zero for the gradient of the initial state."""

    def backward(self, dout, cache):
        dx, dstate = super().backward(dout, cache)
        return dx, tuple(xp.zeros_like(d) for d in dstate)


def states(*shape):
    return RNG.standard_normal(shape), RNG.standard_normal(shape)


WRONG = [
    (GainPulledOut(4), (X,), {"input x"}),
    (VarianceIsConstant(4), (X,), {"input x"}),
    (NoBiasSum(4, 3), (X,), {"b"}),
    (Overwrites(4, 3), (X,), {"W"}),
    (WrongSign(), (X,), {"input x"}),
    (NoNormaliser(), (X,), {"input x"}),
    (LastWins(5, 3), (np.array([0, 1, 1, 4]),), {"W"}),
    (NoScale(4, 2), (X, X, X), {"input Q", "input K", "W_Q.W", "W_Q.b", "W_K.W"}),
    (ForgetsTheCell(4, 3), (X[0], states(3, 3)), {"W_x", "W_h", "b", "input x", "input state.0",
                                                  "input state.1"}),
    (ForgetsTheStart(4, 3), (X, states(1, 2, 3)), {"input state.0", "input state.1"}),
]


@pytest.mark.parametrize(("layer", "inputs", "wrong"), WRONG,
                         ids=[type(layer).__name__ for layer, _, _ in WRONG])
def test_a_wrong_backward_is_found_and_only_where_it_is(layer, inputs, wrong):
    report = gradcheck(layer, *inputs)
    assert {row.name for row in report.rows if row.error > 1e-3} == wrong, str(report)
    assert {row.name for row in report.rows if row.error >= 1e-7} == wrong, str(report)
    parent = gradcheck(as_parent(layer), *inputs)
    assert parent.worst < 1e-7


def as_parent(layer):
    """The same layer with the backward that it inherits."""
    twin = layer.astype("float64")
    twin.__class__ = type(layer).__mro__[1]
    return twin


def test_at_its_initial_gain_the_wrong_norm_looks_right():
    report = gradcheck(GainPulledOut(4), X, keep=True)
    assert report.worst < 1e-7


def test_nan_counts_as_an_error():
    class NaN(GELU):
        def backward(self, dy, cache):
            dx = super().backward(dy, cache)
            dx[0, 0, 0] = np.nan
            return dx

    assert gradcheck(NaN(), X).worst == np.inf


def test_a_missing_gradient_and_a_wrong_shape_are_named():
    class Silent(Linear):
        def backward(self, dy, cache):
            super().backward(dy, cache)

    class Flat(Linear):
        def backward(self, dy, cache):
            return super().backward(dy, cache).reshape(-1, 4)

    assert "input x: backward returned no gradient for it" in str(gradcheck(Silent(4, 3), X))
    report = gradcheck(Flat(4, 3), X)
    assert not report.ok()
    assert "input x: its shape is (6, 4), the array's own (2, 3, 4)" in str(report)


def test_an_output_that_is_the_input_is_differentiated():
    report = gradcheck(Same(), X)
    assert report.worst < 1e-7 and abs(report.rows[0].numerical) > 0.01


def test_an_error_in_one_output_alone_is_found():
    """The two mistakes cancel when both outputs are used, with equal upstream gradients."""

    class Swapped(Layer):
        def __init__(self):
            self.w = Param(np.ones(3))

        def forward(self, x):
            return (self.w.data * x, self.w.data * x), Cache(x=x)

        def backward(self, dout, cache):
            dy, dz = (0 if d is None else d for d in dout)
            if dout[0] is not None and dout[1] is not None:
                self.w.grad += (dy + dz) * cache.x
                return (dy + dz) * self.w.data
            self.w.grad += 2 * dy * cache.x
            return 2 * dy * self.w.data + 0 * cache.x

    x = RNG.standard_normal(3)
    assert gradcheck(Swapped(), x, each_output=False).worst < 1e-7
    assert gradcheck(Swapped(), x).worst > 0.4


def test_the_callers_layer_and_arrays_stay_as_they_are():
    layer, x = LSTM(4, 3, 2), X.astype("float32")
    start = tuple(part.astype("float32") for part in states(2, 2, 3))
    kept = x.copy(), start[0].copy(), layer.state_dict()
    gradcheck(layer, x, start)
    np.testing.assert_array_equal(x, kept[0])
    np.testing.assert_array_equal(start[0], kept[1])
    for name, param in layer.params():
        np.testing.assert_array_equal(param.data, kept[2][name])
        assert param.data.dtype == np.float32 and not param.grad.any()


def test_strided_inputs_stay_strided():
    seen = []

    class Recording(GELU):
        def forward(self, x):
            seen.append(x.flags.c_contiguous)
            return super().forward(x)

    Check(subject_of(Recording(), (X[..., ::2],))).verdict()
    Check(subject_of(Recording(), (X.swapaxes(0, 1),))).verdict()
    assert seen and not any(seen)


def test_the_report_names_the_worst_entry_first():
    report = gradcheck(NoBiasSum(4, 3), X)
    lines = str(report).splitlines()
    assert lines[1].startswith("b ") and "computed" in lines[1] and "numerical" in lines[1]
    assert report.worst == max(row.error for row in report.rows)


def test_entries_limits_the_work():
    calls = []

    def forward(layer, x):
        calls.append(1)
        return layer.forward(x)

    assert Check(subject_of(Linear(4, 3), (X,), forward=forward), entries=2).verdict().right
    assert len(calls) == 4 + 3 * 2 * 4                  # W, b and x; 4 evaluations an entry
