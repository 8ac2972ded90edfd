"""Document 002, Problems 1 to 4: numbers against facts made by hand, and on other data."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exercises.d002 import exploding_training as exploding
from exercises.d002 import gradient_remedies as remedies
from exercises.d002 import gradients_through_time as through_time
from exercises.d002 import gru_gates as gru
from exercises.d002 import lstm_gradient
from exercises.d002 import lstm_memory as memory
from exercises.d002 import lstm_statements as statements

SMALL = settings(max_examples=25)
SEEDS = st.integers(0, 10**6)


def test_exploding_training():
    bent, losses = exploding.training(updates=6)
    assert bent[-1] == pytest.approx(bent[1], rel=1e-4) and abs(bent[1]) > 5
    assert len(bent) == len(losses) == 7 and losses[1:] == pytest.approx([4] * 6, rel=1e-5)
    assert not math.isfinite(exploding.training(squash=None)[0][-1])
    (w, new), (loss, _) = exploding.training(w=0.5, h=1.0, steps=1, lr=0.1, updates=1, squash=None)
    assert (w, loss) == (0.5, 2.25) and new == pytest.approx(0.5 - 0.1 * 2 * 1.5)
    assert exploding.cross_entropy_slopes((0.0,)) == [pytest.approx((math.log(2), 0.5))]
    assert exploding.exponential([1, -1.3, 1.7]) and not exploding.exponential([1, 1.1, 5])


def test_training_by_hand():
    weights, losses = exploding.training(2.0, 1.0, 2, 0.1, 1, squash=None)   # h = 4, dh/dw = 4
    assert weights == pytest.approx([2, 2 - 0.1 * 2 * 5 * 4]) and losses[0] == 25
    weights, losses = exploding.training(1.0, 1.0, 1, 0.5, 0)
    assert weights == [1.0] and losses == pytest.approx([(math.tanh(1) + 1) ** 2])
    assert exploding.exponential([-1, 2, -4]) and not exploding.exponential([1, 2, 2])
    (loss, slope), = exploding.cross_entropy_slopes((math.log(3),))
    assert (loss, slope) == pytest.approx((math.log(4), 0.75))


def test_problem_1_one_unit_in_training():
    first, second = exploding.descent(2.0, updates=1)
    assert first == (2, 8, 32, 96)
    assert second == pytest.approx((-7.6, -7.6**3, 7.6**6 / 2, -3 * 7.6**5))
    (_, h, loss, slope), = exploding.descent(1.0, steps=1, updates=0, squash=True)
    t = math.tanh(1)
    assert (h, loss, slope) == pytest.approx((t, t * t / 2, t * (1 - t * t)))
    (_, h, loss, slope), = exploding.descent(3.0, h=2.0, steps=2, updates=0)
    assert (h, loss, slope) == (18, 162, 18 * 12)
    assert exploding.descent(1.0, steps=1, lr=0.5, updates=2)[2][0] == 0.25


@pytest.mark.parametrize("weights, grows", [
    ((1, -2, 6), True), ((1, 3, 6), False), ((2, 1), False), ((-1, 2), True), ((1, 1, 2), False)])
def test_problem_1_what_grows(weights, grows):
    assert exploding.growing([(w, 0, 0, 0) for w in weights]) == grows


def test_remedies():
    before, after, cosine, by_entry = remedies.clipping(1.5, 2.0)
    assert before > 1e6 and after == pytest.approx(2) and cosine == pytest.approx(1)
    assert by_entry < 0.95
    short, same, _, _ = remedies.clipping(0.5)
    assert short == same < 1e-9
    assert remedies.forget_gate_norms(0.0)[50] < 1e-9 < 0.05 < remedies.forget_gate_norms(5.0)[50]
    assert remedies.initial_radius(1.0) == pytest.approx(1, abs=0.1)
    assert remedies.initial_radius(2.0) == pytest.approx(math.sqrt(2), abs=0.1)
    for scale in (0.25, 4.0):
        plain, normed = (remedies.batch_norm_rate(scale, on) for on in (False, True))
        assert abs(math.log(normed)) < abs(math.log(plain))


def test_remedies_by_hand():
    assert remedies.cosine(np.array([1.0, 0]), np.array([3.0, 3.0])) == pytest.approx(0.5**0.5)
    assert remedies.initial_radius(4.0, 1, 7) == pytest.approx(2 * remedies.initial_radius(1.0, 1))
    before, after, _, by_entry = remedies.clipping(1.5, 1e-3)
    assert after == pytest.approx(1e-3) and 0.5 < by_entry < 1 - 1e-3
    assert remedies.clipping(1.5, 1e30)[3] == pytest.approx(1)      # a limit that cuts nothing off


def test_problem_1_remedies():
    scaled, cut = remedies.clipped([3, 4], 1)
    assert scaled == pytest.approx([0.6, 0.8]) and cut.tolist() == [1, 1]
    scaled, cut = remedies.clipped([0.3, -0.4], 1)
    assert scaled.tolist() == cut.tolist() == [0.3, -0.4]
    assert remedies.clipped([-6, 8], 5)[0] == pytest.approx([-3, 4])
    assert remedies.cosine([1, 0], [2, 2]) == pytest.approx(math.sqrt(0.5))
    assert remedies._stretch(1.0, 1, tries=4000) == pytest.approx(1, abs=0.05)
    assert remedies._stretch(0.04, 100) == pytest.approx(2, abs=0.1)
    assert remedies.cosine([3, 4], [0, 2]) == pytest.approx(0.8)
    assert remedies.clipped([-6, 8], 5)[1].tolist() == [-5, 5]


@pytest.mark.slow
@SMALL
@given(radius=st.floats(0.5, 1.6), seed=st.integers(0, 50))
def test_gradients_follow_the_spectral_radius(radius, seed):
    norms = through_time.gradient_norms(
        through_time.rnn_cell(through_time.recurrent_matrix(radius, 16, seed)), 40)
    base = through_time.gradient_norms(
        through_time.rnn_cell(through_time.recurrent_matrix(1.0, 16, seed)), 40)
    assert norms == pytest.approx(base * radius ** np.arange(41), rel=1e-6)


@SMALL
@given(seed=SEEDS, steps=st.integers(1, 15))
def test_the_gradient_is_the_product_of_jacobians(seed, steps):
    assert through_time.jacobian_product_error(steps, seed)[0] < 1e-9


def test_problem_1():
    lags, total = through_time.weight_gradient_by_lag()
    assert lags[20:].max() < 1e-6 * total < lags[:3].max()
    assert through_time.steepest_slopes() == pytest.approx((0.25, 1.0))


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


def test_what_each_lag_adds():
    lags, total = through_time.weight_gradient_by_lag(radius=0.5, steps=3)
    assert len(lags) == 3 and lags[2] == 0                      # the first step starts from h = 0
    assert total <= lags.sum() and lags[0] > 0


def test_problem_1_two_units():
    assert through_time.eigenvalues_2(((2, 1), (1, 2))) == (4, 3, (3, 1))
    assert through_time.eigenvalues_2(((5, 0), (0, 1))) == (6, 5, (5, 1))
    assert through_time.gradient_back(((2, 0), (0, 3)), (1, 1), 2).tolist() == [4, 9]
    assert through_time.gradient_back(((0, 1), (2, 0)), (1, 5), 1, 0.5).tolist() == [2.5, 1]


@given(st.fractions(Fraction(1, 10**6), 10**6))
def test_sigmoid_derivation_is_exact(e):
    assert len(set(gru.exact_derivation(e))) == 1


@given(st.floats(-700, 700))
def test_sigmoid_symmetry(x):
    assert gru.symmetry_error(x) < 1e-15


@SMALL
@given(z=st.floats(0, 1))
def test_a_gru_moves_by_z(z):
    largest, excess = gru.largest_update(z)
    assert largest <= 2 * z + 1e-9 and excess < 1e-9


def test_problem_2():
    assert gru.memory(1, 0) == 0
    assert gru.memory(0, 0.3) == pytest.approx(math.sqrt(8))
    assert gru.kept(0.1, 50) == pytest.approx(0.9**50)
    full, diagonal = gru.placement_difference()
    assert full > 0.1 and diagonal < 1e-12
    x, h, new, _ = gru.step(gru.gated_cell(0.25, 0.5), samples=4)
    cell = gru.gated_cell(0.25, 0.5)
    candidate = np.tanh(x @ cell.W_x.data[:, 16:] + 0.5 * (h @ cell.W_h.data[:, 16:]))
    assert new == pytest.approx(0.75 * h + 0.25 * candidate, abs=1e-12)


def test_gates_by_hand():
    assert gru._logit(0.75) == pytest.approx(math.log(3))
    assert gru._logit(0) < -700 and gru._logit(1) > 700
    assert gru.largest_update(0) == (0, 0)
    change, excess = gru.largest_update(0.5)
    assert 0.5 < change <= 1 and excess == pytest.approx(0, abs=1e-12)
    assert gru.symmetry_error([0.0, 3.0]) < 1e-15
    assert gru.kept(0.5, 3) == 0.125
    cell = gru.gated_cell(r=0.75)
    assert cell.b.data[8:16] == pytest.approx(math.log(3)) and not cell.b.data[:8].any()
    assert not cell.W_h.data[:, 8:16].any() and cell.W_h.data[:, :8].all()


def test_problem_2_one_unit():
    assert gru.proof_lines(Fraction(1, 4)) == (Fraction(1, 5),) * 3
    assert gru.new_state(0.25, 0.8, -0.4) == pytest.approx(0.5)
    assert gru.candidate_of(0.5, 0.9, 0.5) == pytest.approx(math.tanh(1.4))
    assert gru.candidate_of(1, 1, 1, W=3, U=-3) == 0
    assert gru.influence(0, 0.3) == pytest.approx(1) and gru.influence(1, 0) == 0
    assert gru.influence(1, 0.5, x=0, h=0) == pytest.approx(1)
    assert gru.influence(1, 0.5, x=0, h=1) == pytest.approx(1 - math.tanh(1) ** 2)
    assert gru.influence(0.5, 0.5, x=1, h=-1) == pytest.approx(0.5 + 0.5)


@SMALL
@given(seed=SEEDS, steps=st.integers(1, 7), width=st.integers(1, 4), d_in=st.integers(1, 3))
def test_the_right_reading_holds_for_every_cell(seed, steps, width, d_in):
    problem = lstm_gradient.problem(steps, width, d_in, seed)
    errors = lstm_gradient.reading_errors(*problem)
    assert errors[lstm_gradient.RIGHT] < 1e-9
    if steps == 1:
        assert max(errors.values()) < 1e-9             # nothing came before: all readings agree


@pytest.mark.parametrize("seed", range(4))
def test_every_other_reading_is_off(seed):
    errors = lstm_gradient.reading_errors(*lstm_gradient.problem(seed=seed))
    assert sorted(errors.values())[1] > 0.01


def test_the_gradient_agrees_with_differences_and_torch():
    torch = pytest.importorskip("torch", reason="parity with PyTorch needs torch")
    cell, x, v = lstm_gradient.problem()
    own = lstm_gradient.gradient_by_backward(cell, x, v)
    assert own == pytest.approx(lstm_gradient.gradient_by_differences(cell, x, v), abs=1e-8)
    W_x, W_h = (torch.tensor(p.data) for p in (cell.W_x, cell.W_h))
    W_x.requires_grad_()
    h = c = torch.zeros(3, dtype=torch.float64)
    J = 0
    for x_t, v_t in zip(torch.tensor(x), torch.tensor(v), strict=True):
        i, f, o, g = (x_t @ W_x + h @ W_h).chunk(4)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        J = J + h @ v_t
    J.backward()
    assert own == pytest.approx(W_x.grad[:, 9:].numpy(), abs=1e-12)


@given(st.floats(-3, 3), st.floats(-3, 3), st.floats(0.1, 3))
def test_the_list_of_derivatives_does_not_determine_the_gradient(one, two, x):
    (first, a), (second, b) = (lstm_gradient.listed_and_gradient(w, x) for w in (one, two))
    assert first == second
    assert (a == pytest.approx(b)) == (abs(one - two) * x < 1e-5) or abs(one - two) < 1e-3


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


def test_problem_4_two_steps():
    first, = lstm_gradient.run(2.0, (1.0,))
    gate, g = 1 / (1 + math.exp(-1)), math.tanh(2)
    assert (first["i"], first["g"]) == pytest.approx((gate, g))
    assert first["C"] == pytest.approx(gate * g)
    assert first["h"] == pytest.approx(gate * math.tanh(gate * g))
    assert first["C_before"] == first["h_before"] == 0
    (direct, _, dC, dh), = lstm_gradient.total_derivatives([first])
    assert direct == dC == pytest.approx(gate * (1 - g * g))
    assert dh == pytest.approx(gate * (1 - math.tanh(first["C"]) ** 2) * dC)


@pytest.mark.parametrize("U", [1.0, -0.7, 2.0])
def test_problem_4_total_derivatives_are_differences(U):
    xs, step = (1.0, -0.5, 0.3, 2.0), 1e-6
    rows = lstm_gradient.total_derivatives(lstm_gradient.run(0.8, xs, U), U)
    above, below = (lstm_gradient.run(0.8 + s, xs, U) for s in (step, -step))
    for (_, _, dC, dh), a, b in zip(rows, above, below, strict=True):
        assert dC == pytest.approx((a["C"] - b["C"]) / (2 * step), abs=1e-8)
        assert dh == pytest.approx((a["h"] - b["h"]) / (2 * step), abs=1e-8)


def test_problem_4():
    direct, f, total = memory.memory_jacobians(statements.lstm_cell(recurrent=2.0))
    assert direct == pytest.approx(np.diag(f), abs=1e-12)
    assert np.abs(total - direct).max() > 0.05
    alone = memory.memory_jacobians(statements.lstm_cell(recurrent=0.0))
    assert alone[2] == pytest.approx(alone[0], abs=1e-12)   # no U: nothing goes through h
    assert memory.carried(0.5, 10) == 2**-10


def test_the_memory_by_hand():
    assert memory.carried(1, 9) == memory.carried(0, 0) == 1 and memory.carried(0.5, 3) == 0.125
    jacobian, f, _ = memory.memory_jacobians(memory._open_cell())
    assert jacobian == pytest.approx(np.eye(6)) and f.tolist() == [1] * 6
    assert memory.kept(0.5, 3) == 0.125
    assert memory.bounds(0.25, 2) == pytest.approx((0.5, math.log(4) / 2))
    assert memory.plain_factor(((2, 1), (1, 2)), 0.0, 2) == (3, 1, 3, 9)


@SMALL
@given(seed=SEEDS, width=st.integers(1, 8))
def test_an_lstm_at_rest_stays_at_rest_without_input(seed, width):
    cell = statements.lstm_cell(width, seed=seed)
    rest = np.zeros((2, width))
    assert not statements.still(cell, rest, rest).any()
    h, c = np.random.default_rng(seed).uniform(0.2, 1, (2, 3, width))
    assert np.abs(statements.still(cell, h, c) - h).max() > 0


@SMALL
@given(seed=SEEDS)
def test_a_closed_forget_gate_leaves_the_road_through_h(seed):
    assert statements.error_lengths(statements.lstm_cell(forget=0.0, seed=seed), 3)[3] > 0
    alone = statements.lstm_cell(forget=0.0, recurrent=0.0, seed=seed)
    assert not statements.error_lengths(alone, 3)[1:].any()


def test_a_forget_gate_alone_is_a_power():
    cell = statements.lstm_cell(forget=0.9, recurrent=0.0)
    lengths = statements.error_lengths(cell, 30)
    assert lengths[2:] / lengths[1:-1] == pytest.approx(0.9)


def test_problem_3():
    large = statements.lstm_cell(recurrent=8.0, forget=0.0)
    assert statements.error_lengths(large, 60, 1e-40)[-1] > 1


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


def test_problem_3_one_unit():
    s = statements.lstm_step(0, 0, 2)
    assert (s["i"], s["f"], s["o"], s["g"], s["c"]) == (0.5, 0.5, 0.5, 0, 1)
    assert s["h"] == pytest.approx(math.tanh(1) / 2)
    s = statements.lstm_step(2, 0.5, 3, W=1, U=-2, f=0)     # z = 2 - 1
    gate = 1 / (1 + math.exp(-1))
    assert s["c"] == pytest.approx(gate * math.tanh(1))
    assert s["h"] == pytest.approx(gate * math.tanh(s["c"])) and s["f"] == 0
    assert statements.road_through_h(0.0) == (0, 0.25, 0)
    assert statements.road_through_h(0.0, U=8.0) == (0, 2, 0)
    s = statements.lstm_step(2.0, 0.0, 0.0, W=math.log(3) / 2)
    assert s["i"] == pytest.approx(0.75) and s["g"] == pytest.approx(0.8)
    assert s["c"] == pytest.approx(0.6)


@pytest.mark.parametrize("h, U", [(0.5, 1.0), (-0.8, 2.0), (0.3, -1.5)])
def test_problem_3_the_roads_add_up_to_the_derivative(h, U):
    def after(h):
        return statements.lstm_step(0, h, 9.0, U=U, f=0)["h"]

    step = 1e-6
    assert sum(statements.road_through_h(h, U)) == pytest.approx(
        (after(h + step) - after(h - step)) / (2 * step), abs=1e-8)
