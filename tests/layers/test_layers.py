"""Layers against values that were worked out by hand."""

import math

import numpy as np
import pytest

from npdl.backend import stream
from npdl.functions import normal_cdf, normal_density, sigmoid, softmax
from npdl.layers.dropout import Dropout
from npdl.layers.embedding import Embedding, sinusoidal
from npdl.layers.layer_norm import LayerNorm
from npdl.layers.linear import Linear
from npdl.layers.recurrent import LSTM, LSTMCell

RNG = stream(31)


def test_dropout_between_lstm_layers_and_not_after_the_last():
    x = RNG.standard_normal((2, 3, 4))
    one, two = (LSTM(4, 4, L, dropout=0.5, rng=3, dtype="float64") for L in (1, 2))
    np.testing.assert_array_equal(one.forward(x, rng=stream(1))[0][0], one.forward(x)[0][0])
    dropped, _ = two.forward(x, rng=stream(1))
    (below, _), _ = two.layers[0].forward(x)
    mask, _ = two.dropout.forward(below, stream(1))
    np.testing.assert_allclose(dropped[0], two.layers[1].forward(mask)[0][0], atol=1e-14)
    assert (dropped[0] != two.forward(x)[0][0]).any()


def test_dropout_keeps_the_mean_and_is_off_without_a_generator():
    x = np.ones((200, 200), "float32")
    y, _ = Dropout(0.3).forward(x, stream(1))
    kept = y[y != 0]
    assert 0.69 < kept.size / x.size < 0.71 and np.allclose(kept, 1 / 0.7) and len(set(kept)) == 1
    assert Dropout(0.3).forward(x)[0] is x and y.dtype == np.float32
    np.testing.assert_array_equal(y, Dropout(0.3).forward(x, stream(1))[0])
    assert (y != Dropout(0.3).forward(x, stream(2))[0]).any()


def test_a_padding_row_is_zero_and_stays_zero():
    layer = Embedding(4, 3, padding_id=2, dtype="float64")
    assert not layer.W.data[2].any() and layer.W.data[[0, 1, 3]].all()
    y, cache = layer.forward(np.array([[2, 1, 2]]))
    layer.backward(np.ones_like(y), cache)
    np.testing.assert_array_equal(layer.W.grad, [[0] * 3, [1] * 3, [0] * 3, [0] * 3])


def test_positions_by_hand():
    d = 6
    for exponent, power in (("k/d", 1), ("2k/d", 2)):
        table = sinusoidal(5, d, exponent, "float64")
        for pos in range(5):
            for i in range(d):
                wave = math.sin if i % 2 == 0 else math.cos
                wanted = wave(pos / 10000 ** (power * (i // 2) / d))
                assert table[pos, i] == pytest.approx(wanted, abs=1e-14)
    assert sinusoidal(2, 3).shape == (2, 3)             # an odd width ends with a sine


def test_softmax_by_hand_softmax_and_sigmoid_of_large_inputs():
    x = np.log(np.array([[1.0, 2.0, 5.0]]))
    np.testing.assert_allclose(softmax(x), [[0.125, 0.25, 0.625]], rtol=1e-15)
    np.testing.assert_allclose(softmax(x, np.array([True, False, True])), [[1 / 6, 0, 5 / 6]])
    large = np.array([[1e4, 1e4, -1e4]], "float32")
    with np.errstate(over="raise", invalid="raise"):
        np.testing.assert_array_equal(softmax(large), [[0.5, 0.5, 0]])
        assert (softmax(large, np.zeros(3, bool)) == 0).all()
        np.testing.assert_array_equal(sigmoid(np.array([-1e4, 1e4], "float32")), [0, 1])


def test_the_fit_of_the_normal_distribution():
    x = np.linspace(-9, 9, 4001)
    wanted = [(1 + math.erf(v / math.sqrt(2))) / 2 for v in x]
    np.testing.assert_allclose(normal_cdf(x), wanted, rtol=0, atol=1e-15)
    found = normal_cdf(x.astype("float32"))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-7)
    assert normal_cdf(np.array([1e3], "float32")) == 1
    slope = (normal_cdf(x + 1e-6) - normal_cdf(x - 1e-6)) / 2e-6
    np.testing.assert_allclose(normal_density(x), slope, atol=1e-9)


def test_starting_values():
    linear, cell = Linear(50, 2000, rng=0), LSTMCell(60, 440, rng=0)
    for layer, fan_in in ((linear, 50), (cell, 500)):
        bound = 1 / math.sqrt(fan_in)
        for _, param in layer.params():
            assert 0.95 * bound < np.abs(param.data).max() <= bound
            assert abs(param.data.mean()) < 0.1 * bound
            assert param.data.std() == pytest.approx(bound / math.sqrt(3), rel=0.1)
    table = Embedding(200, 100, rng=1).W.data
    assert abs(table.mean()) < 0.02 and table.std() == pytest.approx(1, rel=0.02)
    norm = LayerNorm(3)
    assert (norm.gain.data == 1).all() and (norm.bias.data == 0).all()
