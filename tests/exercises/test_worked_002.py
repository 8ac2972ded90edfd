"""What the worked solutions of document 002 compute: more facts made by hand, on other data."""

import math

import numpy as np
import pytest

from exercises.solved import d002_dot_product as dot_product
from exercises.solved import d002_gradient_remedies as remedies
from exercises.solved import d002_gru as gru
from exercises.solved import d002_lstm_memory as memory
from exercises.solved import d002_lstm_statements as statements
from exercises.solved import d002_rnn_attention as rnn_attention


def test_problem_1_lengths_that_are_not_one():
    assert remedies.cosine([3, 4], [0, 2]) == pytest.approx(0.8)
    assert remedies.clipped([-6, 8], 5)[1].tolist() == [-5, 5]


def test_problem_2_the_slope_through_the_candidate():
    assert gru.influence(1, 0.5, x=0, h=1) == pytest.approx(1 - math.tanh(1) ** 2)
    assert gru.influence(0.5, 0.5, x=1, h=-1) == pytest.approx(0.5 + 0.5)


def test_problem_3_an_input_with_its_weight():
    s = statements.lstm_step(2.0, 0.0, 0.0, W=math.log(3) / 2)
    assert s["i"] == pytest.approx(0.75) and s["g"] == pytest.approx(0.8)
    assert s["c"] == pytest.approx(0.6)


def test_problem_5_three_past_states():
    past = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    scores, weights, a, h = rnn_attention.step_with_attention(np.array([math.log(2), 0.0]), past)
    assert scores == pytest.approx([math.log(2), 0, math.log(2)])
    assert weights == pytest.approx([0.4, 0.2, 0.4])
    assert a == pytest.approx([0.8, 0.6]) and h == pytest.approx([math.log(2) + 0.8, 0.6])


def test_problem_6_variances():
    assert dot_product.variances((1, 3), 2) == [5**2 - 1, 13**2 - 81]
    M, trace = dot_product.by_trace((1, 3), 2)
    assert M.tolist() == [[5, 3], [3, 13]] and trace == 25 + 9 + 9 + 169
    assert dot_product.means_over_scales(9, 2) == (36, 12, 36, 4)
    assert dot_product.first_weight(math.log(3)) == pytest.approx((0.75, 0.1875))


def test_problem_4_what_f_leaves():
    assert memory.kept(0.5, 3) == 0.125
    assert memory.bounds(0.25, 2) == pytest.approx((0.5, math.log(4) / 2))
    assert memory.plain_factor(((2, 1), (1, 2)), 0.0, 2) == (3, 1, 3, 9)
