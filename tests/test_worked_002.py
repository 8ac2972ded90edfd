"""What the worked solutions of document 002 compute: more facts made by hand, on other data."""

import math

import numpy as np
import pytest

from exercises.solved import d002_gradient_remedies as remedies
from exercises.solved import d002_gru as gru
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
