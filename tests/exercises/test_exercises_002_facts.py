"""Document 002: what the exercises' functions compute, against facts made by hand."""

import math

import numpy as np
import pytest

from exercises import d002_complexity as complexity
from exercises import d002_dot_product as dot
from exercises import d002_exploding_training as exploding
from exercises import d002_gradient_remedies as remedies
from exercises import d002_gradients_through_time as through_time
from exercises import d002_gru as gru
from exercises import d002_lstm_gradient as lstm_gradient
from exercises import d002_lstm_memory as memory
from exercises import d002_lstm_statements as statements
from exercises import d002_positions_heads as heads
from exercises import d002_rnn_attention as rnn_attention
from exercises.framework import FAILED
from exercises.probes import influence, learned
from npdl.errors import InputError
from npdl.layers.linear import Linear


def refused(call):
    with pytest.raises(InputError):
        call()


# Problem 1

def test_gradients_of_known_matrices():
    norms = through_time.gradient_norms(through_time.rnn_cell(0.5 * np.eye(3)), 4)
    assert norms == pytest.approx([1, 0.5, 0.25, 0.125, 0.0625])
    assert len(through_time.gradient_norms(through_time.rnn_cell([[2.0]]), 1)) == 2
    assert through_time.rate([1, 9, 2, 4, 8]) == pytest.approx(2)
    assert through_time.rate([1, 1, 3]) == 3
    sigmoid, tanh = through_time.steepest_slopes(1.0, 2)        # the grid is -1 and 1
    assert sigmoid == pytest.approx(math.exp(1) / (1 + math.exp(1)) ** 2)
    assert tanh == pytest.approx(1 / math.cosh(1) ** 2)
    assert through_time._parts((1, 2)) == (1, 2) and through_time._parts(3) == (3,)
    assert not through_time.recurrent_matrix(0, 1).any()
    assert np.abs(through_time.recurrent_matrix(0.7, 1)) == pytest.approx(0.7)
    refused(lambda: through_time.recurrent_matrix(math.inf))
    refused(lambda: through_time.recurrent_matrix(1, 0))
    refused(lambda: through_time.rnn_cell(np.ones(3)))


def test_what_each_lag_adds():
    lags, total = through_time.weight_gradient_by_lag(radius=0.5, steps=3)
    assert len(lags) == 3 and lags[2] == 0                      # the first step starts from h = 0
    assert total <= lags.sum() and lags[0] > 0


@pytest.mark.parametrize("losses, moving", [
    ((1.0, math.inf), True), ((1.0, 2.0), True), ((3.0, 2.0, 2.0), False), ((1.0, math.nan), True),
    ((5.0, 1.0, 1.0 + 1e-7), False), ((1.0, 1.0, 1.01), True)])
def test_losses_that_do_not_settle(losses, moving):
    assert exploding._unstable(losses) == moving


def test_training_by_hand():
    weights, losses = exploding.training(2.0, 1.0, 2, 0.1, 1, squash=None)   # h = 4, dh/dw = 4
    assert weights == pytest.approx([2, 2 - 0.1 * 2 * 5 * 4]) and losses[0] == 25
    weights, losses = exploding.training(1.0, 1.0, 1, 0.5, 0)
    assert weights == [1.0] and losses == pytest.approx([(math.tanh(1) + 1) ** 2])
    refused(lambda: exploding.training(updates=-1))
    assert exploding.exponential([-1, 2, -4]) and not exploding.exponential([1, 2, 2])
    (loss, slope), = exploding.cross_entropy_slopes((math.log(3),))
    assert (loss, slope) == pytest.approx((math.log(4), 0.75))


def test_remedies_by_hand():
    assert remedies._cosine(np.array([1.0, 0]), np.array([3.0, 3.0])) == pytest.approx(0.5**0.5)
    for limit in (0, -1):
        refused(lambda limit=limit: remedies.clipping(1.0, limit))
    refused(lambda: remedies.clipping(1.0, steps=0))
    assert remedies.initial_radius(4.0, 1, 7) == pytest.approx(2 * remedies.initial_radius(1.0, 1))
    before, after, _, by_entry = remedies.clipping(1.5, 1e-3)
    assert after == pytest.approx(1e-3) and 0.5 < by_entry < 1 - 1e-3
    assert remedies.clipping(1.5, 1e30)[3] == pytest.approx(1)      # a limit that cuts nothing off


# Problems 2 and 3

def test_gates_by_hand():
    assert gru._logit(0.75) == pytest.approx(math.log(3))
    assert gru._logit(0) < -700 and gru._logit(1) > 700
    assert gru.largest_update(0) == (0, 0)
    change, excess = gru.largest_update(0.5)
    assert 0.5 < change <= 1 and excess == pytest.approx(0, abs=1e-12)
    assert gru.symmetry_error([0.0, 3.0]) < 1e-15
    assert gru.kept(0.5, 3) == 0.125
    for wrong in ({"z": -0.1}, {"r": 1.1}):
        refused(lambda wrong=wrong: gru.gated_cell(**wrong))
    cell = gru.gated_cell(r=0.75)
    assert cell.b.data[8:16] == pytest.approx(math.log(3)) and not cell.b.data[:8].any()
    assert not cell.W_h.data[:, 8:16].any() and cell.W_h.data[:, :8].all()


def test_lstm_cells_by_hand():
    cell = statements.lstm_cell(2, forget=0.75, keep=("o",))
    assert cell.b.data.tolist() == pytest.approx([0, 0, *[math.log(3)] * 2, 0, 0, 0, 0])
    assert not cell.W_h.data[:, :4].any() and not cell.W_h.data[:, 6:].any()
    assert cell.W_h.data[:, 4:6].all() and cell.W_x.data[:, [0, 1, 4, 5, 6, 7]].all()
    lengths = statements.error_lengths(statements.lstm_cell(1, forget=0.5, recurrent=0.0), 3)
    assert lengths[0] == 1 and lengths[2:] / lengths[1:-1] == pytest.approx([0.5, 0.5])
    twice = statements.lstm_cell(3, recurrent=2.0).W_h.data
    assert twice == pytest.approx(2 * statements.lstm_cell(3).W_h.data)
    assert all(gate.shape == (5, 4) for gate in statements.gate_values(5, 4))
    for wrong in (-0.1, 1.0):
        refused(lambda wrong=wrong: statements.lstm_cell(forget=wrong))


# Problem 4

@pytest.mark.parametrize("w, x", [(0.0, 1.0), (3.0, 0.5), (-2.0, 2.0)])
def test_the_listed_derivatives_by_hand(w, x):
    gate, g, o = 1 / (1 + math.exp(-x)), math.tanh(x), 1 / (1 + math.exp(-w * x))
    C = gate * g
    direct = gate * (1 - g * g) * x
    listed, gradient = lstm_gradient.listed_and_gradient(w, x)
    assert listed == pytest.approx((0, 0, 1, direct, 0, gate, gate, math.tanh(C)))
    assert gradient == pytest.approx(o * (1 - math.tanh(C) ** 2) * direct)


def test_the_slope_of_the_output():
    c = np.array([[1.0, -0.5]])
    h = np.array([[0.8, 0.25]]) * np.tanh(c)
    right, lost = lstm_gradient.tanh_slope_errors(h, c)
    t = math.tanh(1.0)
    assert right < 1e-9
    assert lost == pytest.approx(max(0.8 * abs(t * t - (1 - t * t)),
                                     0.25 * (1 - 2 * math.tanh(0.5) ** 2)))


def test_the_memory_by_hand():
    assert memory.carried(1, 9) == memory.carried(0, 0) == 1 and memory.carried(0.5, 3) == 0.125
    for wrong in ((-0.1, 1), (1.1, 1), (0.5, -1)):
        refused(lambda wrong=wrong: memory.carried(*wrong))
    jacobian, f, _ = memory.memory_jacobians(memory._open_cell())
    assert jacobian == pytest.approx(np.eye(6)) and f.tolist() == [1] * 6
    moved, size = memory.drift(steps=1)
    assert 0 < moved < 1 and size == pytest.approx(1, abs=0.1)


# Problems 5 and 6

def test_attention_by_hand():
    two = rnn_attention.attention_one_by_one([[math.log(3)]], [[1.0], [0.0]], [[4.0], [8.0]])
    assert two == pytest.approx(np.array([[5.0]]))
    big = rnn_attention.attention_one_by_one([[1000.0]], [[1.0], [0.0]], [[4.0], [8.0]])
    assert big.tolist() == [[4]]
    for Q, K, V in (([1.0], [[1.0]], [[1.0]]), ([[1.0]], [[1.0]], [[1.0], [2.0]]),
                    ([[1.0]], np.ones((0, 1)), np.ones((0, 1))), ([[1.0]], [1.0], [[1.0]]),
                    ([[1.0]], [[1.0]], [1.0])):
        refused(lambda Q=Q, K=K, V=V: rnn_attention.attention_one_by_one(Q, K, V))
    Q, K = np.full((1, 4), 1.0), np.array([[math.log(4), 0, 0, 0], [0.0, 0, 0, 0]])
    gap, scores, weights = rnn_attention.scores_and_weights(Q, K)
    assert gap == pytest.approx(0.8 - 2 / 3) and scores == pytest.approx(math.log(4))
    assert weights == pytest.approx(1)
    assert rnn_attention.fixed_points(np.array([2.0]), np.array([[3.0]]), 3) == [[5.0]]
    low, high = sorted(rnn_attention.fixed_points(np.zeros(1), np.array([[3.0], [-3.0]])))
    assert high == -low == 3 * np.tanh(3 * high)            # h = 3 tanh(3 h), h = 0 repels
    assert rnn_attention.missing_mass(1) == 1
    assert rnn_attention.largest_state(1) == pytest.approx(math.tanh(5))
    plain, attentive = rnn_attention.first_step_gradient(1)
    assert plain == attentive > 0                           # one step: nothing to attend to


def test_an_attention_that_is_another_has_an_error(monkeypatch):
    right = rnn_attention.score_errors()
    assert list(right) == ["dot", "additive", "scaled dot"]
    monkeypatch.setattr(rnn_attention, "DotAttention", rnn_attention.ScaledDotAttention)
    wrong = rnn_attention.score_errors()
    assert wrong["dot"] > 0.01 and right == wrong | {"dot": right["dot"]}
    assert min(rnn_attention.matrix_form_errors()) > 0.01


def test_what_moves_what():
    x = np.array([[1.0, 2.0], [3.0, 0.0], [-1.0, 5.0]])
    assert influence(lambda x: x.cumsum(0), x).tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert influence(lambda x: x**2, x).tolist() == [[5, 0, 0], [0, 7, 0], [0, 0, 11]]
    assert influence(lambda x: x[:1] * [-3, 1], x).tolist() == [[3, 0, 0]]
    assert x.tolist() == [[1, 2], [3, 0], [-1, 5]]
    assert learned(Linear(3, 2)) == 8 and learned(Linear(3, 2, bias=False)) == 6


def test_moments_by_hand():
    assert dot.mean([1, 2]) == 5 and dot.variance([1, 2], 1) == 12
    assert dot.printed_variance([1, 2], 1) == 22 and dot.right_variance([1, 2], 2) == 72
    assert dot.variance_by_trace([3], 1) == 19
    assert dot.growth((2, 32)) == 2
    assert dot.drawn([1], 1e-9, 3) == pytest.approx([1, 1, 1])
    sample = dot.drawn([0], 1, 1000, same=True)
    assert sample.min() >= 0 and sample.mean() == pytest.approx(1, abs=0.2)
    largest, length, middle = dot.saturation(1, True, keys=1, count=1)
    assert largest == 1 and length == middle == 0               # one key: nothing to choose
    refused(lambda: dot.saturation(1, True, keys=0))


# Problem 7

def test_multiplications_by_hand():
    assert complexity.formula(2, 3, 4) == 208
    assert complexity.counted(2, 3, 4, parts=True) == (128, 48, 32)
    assert complexity.translation(3, 2, 4) == (264, 160 + 208)
    assert complexity.generating(3, 2, False) == 20 + 48 + 84
    assert complexity.generating(1, 3, True) == 36 + 6
    assert complexity.power(lambda n: 5 * n**3, 2, 8) == pytest.approx(3)
    plain = np.ones((2, 3)).view(complexity.Counted)
    complexity.Counted.total = 0
    product = plain @ np.ones((3, 4))
    assert complexity.Counted.total == 24 and isinstance(product, complexity.Counted)
    assert product.tolist() == [[3] * 4] * 2
    assert (plain @ np.ones((3, 1))).tolist() == [[3], [3]] and complexity.Counted.total == 24
    plain @ np.full((3, 1), 2.0)
    assert complexity.Counted.total == 30                       # a column that is no sum
    np.add(plain, 1, out=plain)
    assert plain.tolist() == [[2] * 3] * 2 and complexity.Counted.total == 30
    for wrong in ((0, 1, 1), (1, 0, 1), (1, 1, 0)):
        refused(lambda wrong=wrong: complexity.counted(*wrong))


def test_places_by_hand():
    assert heads.encoding(1, 2).tolist() == [[0, 1]]
    assert (heads.outside(6, 3), heads.outside(6, 6), heads.outside(7, 4)) == (0, 3, 1)
    assert heads.encoding(2, 4)[1] == pytest.approx(
        [math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01)])
    for wrong in ((0, 2), (1, 0), (1, 3)):
        refused(lambda wrong=wrong: heads.encoding(*wrong))
    assert heads.two_places(1, (3.0, -1.0)) == pytest.approx(2)
    assert heads.two_places(1, (5.0, 4.0)) == pytest.approx(0.5)
    assert heads.two_places(2, (3.0, -1.0)) < 1e-9
    assert heads.relative_head(4, 64, -3) == heads.relative_head(4, 64, 3) == 1
    assert heads.relative_head(32, 4, -1, sharpness=-50.0) == 0  # looks where it is unlike


@pytest.mark.parametrize("module, name, wrong", [
    (gru, "symmetry_error", lambda _: 1.0),
    (lstm_gradient, "gradient_by_differences", lambda *_: np.ones((2, 3))),
    (heads, "relative_head", lambda **_: 0.5),
])
def test_what_fails_of_ours_is_no_verdict_on_the_document(monkeypatch, module, name, wrong):
    assert not [claim for claim in module.claims() if claim.verdict == FAILED]
    monkeypatch.setattr(module, name, wrong)
    assert [claim for claim in module.claims() if claim.verdict == FAILED]
