"""Layers against values that were worked out by hand."""

import math

import numpy as np
import pytest

from npdl.backend import one_hot, stream
from npdl.functions import normal_cdf, normal_density, sigmoid, softmax
from npdl.layers.activation import ACTIVATIONS
from npdl.layers.attention import MultiHeadAttention, causal_mask
from npdl.layers.dropout import Dropout
from npdl.layers.embedding import Embedding, sinusoidal
from npdl.layers.layer_norm import LayerNorm
from npdl.layers.linear import Linear
from npdl.layers.recurrent import LSTM, LSTMCell

RNG = stream(31)


def test_linear_by_hand():
    layer = Linear(2, 3, dtype="float64")
    layer.W.data[...] = [[1, 2, 3], [4, 5, 6]]
    layer.b.data[...] = [10, 20, 30]
    y, cache = layer.forward(np.array([[1.0, -1.0], [0.0, 2.0]]))
    np.testing.assert_array_equal(y, [[7, 17, 27], [18, 30, 42]])
    dx = layer.backward(np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]]), cache)
    np.testing.assert_array_equal(dx, [[1, 4], [5, 11]])
    np.testing.assert_array_equal(layer.W.grad, [[1, 0, 0], [-1, 2, 2]])
    np.testing.assert_array_equal(layer.b.grad, [1, 1, 1])


def test_layer_norm_by_hand():
    layer = LayerNorm(4, eps=1e-300, dtype="float64")
    y, _ = layer.forward(np.array([[1.0, 3.0, 5.0, 7.0]]))
    np.testing.assert_allclose(y, np.array([[-3, -1, 1, 3]]) / math.sqrt(5), rtol=1e-15)
    x = 3 + 10 * RNG.standard_normal((5, 4))
    y, _ = LayerNorm(4, dtype="float64").forward(x)
    np.testing.assert_allclose(y.mean(-1), 0, atol=1e-12)
    np.testing.assert_allclose(y.var(-1), x.var(-1) / (x.var(-1) + 1e-5), rtol=1e-12)


def test_lstm_cell_by_hand():
    cell = LSTMCell(1, 1, dtype="float64")
    cell.W_x.data[...], cell.W_h.data[...] = [[1, 2, 3, 4]], [[0.5, 0, -0.5, 1]]
    cell.b.data[...] = [0.1, 0.2, 0.3, 0.4]
    x, h, c = 0.3, -0.2, 0.7
    i = 1 / (1 + math.exp(-(1 * x + 0.5 * h + 0.1)))
    f = 1 / (1 + math.exp(-(2 * x + 0.2)))
    o = 1 / (1 + math.exp(-(3 * x - 0.5 * h + 0.3)))
    g = math.tanh(4 * x + 1 * h + 0.4)
    c_new = f * c + i * g
    (h_found, c_found), _ = cell.forward(np.array([[x]]), (np.array([[h]]), np.array([[c]])))
    assert c_found == pytest.approx(c_new, rel=1e-14)
    assert h_found == pytest.approx(o * math.tanh(c_new), rel=1e-14)


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


def test_repeated_tokens_add_up():
    layer = Embedding(3, 2, dtype="float64")
    _, cache = layer.forward(np.array([[0, 1], [1, 1]]))
    layer.backward(np.arange(8.0).reshape(2, 2, 2), cache)
    np.testing.assert_array_equal(layer.W.grad, [[0, 1], [2 + 4 + 6, 3 + 5 + 7], [0, 0]])


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


def test_causal_mask():
    np.testing.assert_array_equal(causal_mask(3), [[1, 0, 0], [1, 1, 0], [1, 1, 1]])


def test_split_and_join_heads():
    layer = MultiHeadAttention(6, 3)
    x = np.arange(2 * 4 * 6).reshape(2, 4, 6)
    heads = layer.split(x)
    assert heads.shape == (2, 3, 4, 2)
    for i, j, k, m in np.ndindex(heads.shape):
        assert heads[i, j, k, m] == x[i, k, j * 2 + m]
    np.testing.assert_array_equal(layer.join(heads), x)


def test_what_is_masked_has_no_influence():
    layer = MultiHeadAttention(4, 2, dtype="float64")
    x = RNG.standard_normal((1, 4, 4))
    other = x.copy()
    other[:, 3] = 1e3
    y, _ = layer.forward(x, x, x, causal_mask(4))
    changed, _ = layer.forward(other, other, other, causal_mask(4))
    np.testing.assert_allclose(changed[:, :3], y[:, :3], rtol=0, atol=1e-14)
    assert np.abs(changed[:, 3] - y[:, 3]).max() > 1


def test_softmax_by_hand_and_with_large_inputs():
    x = np.log(np.array([[1.0, 2.0, 5.0]]))
    np.testing.assert_allclose(softmax(x), [[0.125, 0.25, 0.625]], rtol=1e-15)
    np.testing.assert_allclose(softmax(x, np.array([True, False, True])), [[1 / 6, 0, 5 / 6]])
    large = np.array([[1e4, 1e4, -1e4]], "float32")
    with np.errstate(over="raise", invalid="raise"):
        np.testing.assert_array_equal(softmax(large), [[0.5, 0.5, 0]])
        assert (softmax(large, np.zeros(3, bool)) == 0).all()


def test_activations_at_known_points():
    x, scale = [-2.0, 0.0, 1.0], math.sqrt(2 / math.pi)
    wanted = {
        "relu": [0, 0, 1], "tanh": map(math.tanh, x),
        "sigmoid": [1 / (1 + math.exp(-v)) for v in x],
        "gelu": [v * (1 + math.erf(v / math.sqrt(2))) / 2 for v in x],
        "gelu-tanh": [v / 2 * (1 + math.tanh(scale * (v + 0.044715 * v**3))) for v in x],
    }
    assert wanted.keys() == ACTIVATIONS.keys()
    for name, values in wanted.items():
        y, _ = ACTIVATIONS[name]().forward(np.array(x))
        np.testing.assert_allclose(y, list(values), rtol=1e-14, err_msg=name)
    with np.errstate(over="raise"):
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


def test_one_hot():
    np.testing.assert_array_equal(one_hot(np.array([[2], [0]]), 3, "float32"),
                                  [[[0, 0, 1]], [[1, 0, 0]]])


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
