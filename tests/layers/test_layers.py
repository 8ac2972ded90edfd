"""Layers against values that were computed by hand, and recurrent layers with a given state."""

import math

import numpy as np
import pytest

from npdl.backend import make_rng
from npdl.functions import normal_cdf, normal_density, sigmoid, softmax
from npdl.layers.batch_norm import BatchNorm
from npdl.layers.dropout import Dropout
from npdl.layers.embedding import Embedding
from npdl.layers.layer_norm import LayerNorm
from npdl.layers.linear import Linear
from npdl.layers.recurrent import LSTM, LSTMCell
from npdl.models.attentive_rnn import AttentiveRNN

RNG = make_rng(31)


def test_dropout_between_lstm_layers_and_not_after_the_last():
    x = RNG.standard_normal((2, 3, 4))
    one, two = (LSTM(4, 4, L, dropout=0.5, rng=3, dtype="float64") for L in (1, 2))
    np.testing.assert_array_equal(one.forward(x, rng=make_rng(1))[0][0], one.forward(x)[0][0])
    dropped, _ = two.forward(x, rng=make_rng(1))
    (below, _), _ = two.layers[0].forward(x)
    mask, _ = two.dropout.forward(below, make_rng(1))
    np.testing.assert_allclose(dropped[0], two.layers[1].forward(mask)[0][0], atol=1e-14)
    assert (dropped[0] != two.forward(x)[0][0]).any()


def test_dropout_keeps_the_mean_and_is_off_without_a_generator():
    x = np.ones((200, 200), "float32")
    y, _ = Dropout(0.3).forward(x, make_rng(1))
    kept = y[y != 0]
    assert 0.69 < kept.size / x.size < 0.71 and np.allclose(kept, 1 / 0.7) and len(set(kept)) == 1
    assert Dropout(0.3).forward(x)[0] is x and y.dtype == np.float32
    np.testing.assert_array_equal(y, Dropout(0.3).forward(x, make_rng(1))[0])
    assert (y != Dropout(0.3).forward(x, make_rng(2))[0]).any()


def test_softmax_and_sigmoid_values():
    x = np.log(np.array([[1.0, 2.0, 5.0]]))
    np.testing.assert_allclose(softmax(x), [[0.125, 0.25, 0.625]], rtol=1e-15)
    np.testing.assert_allclose(softmax(x, np.array([True, False, True])), [[1 / 6, 0, 5 / 6]])
    large = np.array([[1e4, 1e4, -1e4]], "float32")
    with np.errstate(over="raise", invalid="raise"):
        np.testing.assert_array_equal(softmax(large), [[0.5, 0.5, 0]])
        assert (softmax(large, np.zeros(3, bool)) == 0).all()
        np.testing.assert_array_equal(sigmoid(np.array([-1e4, 1e4], "float32")), [0, 1])


def test_normal_cdf_matches_erf():
    x = np.linspace(-9, 9, 4001)
    wanted = [(1 + math.erf(v / math.sqrt(2))) / 2 for v in x]
    np.testing.assert_allclose(normal_cdf(x), wanted, rtol=0, atol=1e-15)
    found = normal_cdf(x.astype("float32"))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-7)
    assert normal_cdf(np.array([1e3], "float32")) == 1
    slope = (normal_cdf(x + 1e-6) - normal_cdf(x - 1e-6)) / 2e-6
    np.testing.assert_allclose(normal_density(x), slope, atol=1e-9)


def test_initial_parameter_values():
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


def test_running_statistics_move_in_training_only():
    layer = BatchNorm(2, momentum=0.25, dtype="float64")
    x = np.array([[1.0, 10.0], [3.0, 30.0]])
    layer.forward(x)                                            # unbiased variances 2 and 200
    np.testing.assert_allclose(layer.running_mean.data, [0.5, 5])
    np.testing.assert_allclose(layer.running_var.data, [1.25, 50.75])
    layer.astype("float64").forward(x)                          # a copy has its own statistics
    before = layer.state_dict()
    assert set(before) == {"gain", "bias", "running_mean", "running_var"}
    np.testing.assert_allclose(layer.running_mean.data, [0.5, 5])
    y, _ = layer.forward(x, training=False)
    np.testing.assert_allclose(y, (x - [0.5, 5]) / np.sqrt(np.array([1.25, 50.75]) + 1e-5))
    for name, array in layer.state_dict().items():
        np.testing.assert_array_equal(array, before[name])


def test_attentive_rnn_continues_from_state():
    model, x = AttentiveRNN(3, 4, dtype="float64"), RNG.standard_normal((2, 6, 3))
    (y, (h, past)), _ = model.forward(x)
    (from_zero, _), _ = model.forward(x, (np.zeros((2, 4)), np.zeros((2, 0, 4))))
    np.testing.assert_array_equal(from_zero, y)
    (y_cut, state), _ = model.forward(x[:, :4])
    (y_rest, (h_cut, past_cut)), _ = model.forward(x[:, 4:], state)
    for a, b in ((np.concatenate([y_cut, y_rest], 1), y), (h_cut, h), (past_cut, past)):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)
