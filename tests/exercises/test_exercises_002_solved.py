"""Document 002: what the worked solutions compute, against facts made by hand."""

import math
from fractions import Fraction

import numpy as np
import pytest

from exercises.d002_complexity import formula
from exercises.d002_positions_heads import encoding
from exercises.solved import d002_complexity as complexity
from exercises.solved import d002_exploding_training as exploding
from exercises.solved import d002_gradient_remedies as remedies
from exercises.solved import d002_gradients_through_time as through_time
from exercises.solved import d002_gru as gru
from exercises.solved import d002_lstm_gradient as lstm_gradient
from exercises.solved import d002_lstm_statements as statements
from exercises.solved import d002_positions_heads as heads
from exercises.solved import d002_rnn_attention as rnn_attention
from npdl.errors import InputError


def test_problem_1_two_units():
    assert through_time.eigenvalues_2(((2, 1), (1, 2))) == (4, 3, (3, 1))
    assert through_time.eigenvalues_2(((5, 0), (0, 1))) == (6, 5, (5, 1))
    assert through_time.gradient_back(((2, 0), (0, 3)), (1, 1), 2).tolist() == [4, 9]
    assert through_time.gradient_back(((0, 1), (2, 0)), (1, 5), 1, 0.5).tolist() == [2.5, 1]
    with pytest.raises(InputError):
        through_time.eigenvalues_2(((1, 2), (3, 4)))


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
    for wrong in ({"steps": 0}, {"updates": -1}):
        with pytest.raises(InputError):
            exploding.descent(1.0, **wrong)


@pytest.mark.parametrize("weights, grows", [
    ((1, -2, 6), True), ((1, 3, 6), False), ((2, 1), False), ((-1, 2), True), ((1, 1, 2), False)])
def test_problem_1_what_grows(weights, grows):
    assert exploding.growing([(w, 0, 0, 0) for w in weights]) == grows


def test_problem_1_remedies():
    scaled, cut = remedies.clipped([3, 4], 1)
    assert scaled == pytest.approx([0.6, 0.8]) and cut.tolist() == [1, 1]
    scaled, cut = remedies.clipped([0.3, -0.4], 1)
    assert scaled.tolist() == cut.tolist() == [0.3, -0.4]
    assert remedies.clipped([-6, 8], 5)[0] == pytest.approx([-3, 4])
    assert remedies.cosine([1, 0], [2, 2]) == pytest.approx(math.sqrt(0.5))
    assert remedies._stretch(1.0, 1, tries=4000) == pytest.approx(1, abs=0.05)
    assert remedies._stretch(0.04, 100) == pytest.approx(2, abs=0.1)


def test_problem_2_one_unit():
    assert gru.proof_lines(Fraction(1, 4)) == (Fraction(1, 5),) * 3
    assert gru.new_state(0.25, 0.8, -0.4) == pytest.approx(0.5)
    assert gru.candidate_of(0.5, 0.9, 0.5) == pytest.approx(math.tanh(1.4))
    assert gru.candidate_of(1, 1, 1, W=3, U=-3) == 0
    assert gru.influence(0, 0.3) == pytest.approx(1) and gru.influence(1, 0) == 0
    assert gru.influence(1, 0.5, x=0, h=0) == pytest.approx(1)


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


@pytest.mark.parametrize("h, U", [(0.5, 1.0), (-0.8, 2.0), (0.3, -1.5)])
def test_problem_3_the_roads_add_up_to_the_derivative(h, U):
    def after(h):
        return statements.lstm_step(0, h, 9.0, U=U, f=0)["h"]

    step = 1e-6
    assert sum(statements.road_through_h(h, U)) == pytest.approx(
        (after(h + step) - after(h - step)) / (2 * step), abs=1e-8)


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


def test_problem_5_by_hand():
    s, past = np.array([0.0, math.log(2)]), np.array([[4.0, 0.0], [0.0, 1.0]])
    scores, weights, a, h = rnn_attention.step_with_attention(s, past)
    assert scores == pytest.approx([0, math.log(2)])
    assert weights == pytest.approx([1 / 3, 2 / 3])
    assert a == pytest.approx([4 / 3, 2 / 3]) and h == pytest.approx(s + a)


def test_problem_7_by_hand():
    assert heads.turned(np.array([0.0, 1.0]), math.pi / 2) == pytest.approx([1, 0])
    table = encoding(9, 6)
    assert heads.turned(table[2], 5) == pytest.approx(table[7])
    x = np.array([[math.sqrt(math.log(3)), 0.0], [0.0, 0.0]])
    assert heads.mixed(x)[0] == pytest.approx(0.75 * x[0])     # weights 3/4 and 1/4
    assert heads.mixed(x)[1] == pytest.approx(0.5 * x[0])
    rows = complexity.products(2, 3, 5)
    assert [row[2] for row in rows] == [50, 75, 75, 30, 30, 50]
    assert [row[1] for row in rows][3:] == ["(2, 5) (5, 3)", "(2, 3) (3, 5)", "(2, 5) (5, 5)"]
    assert sum(row[2] for row in rows) == formula(2, 3, 5)
