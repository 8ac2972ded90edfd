"""Document 004: what the worked solutions compute, against facts made by hand."""

import math
from fractions import Fraction

import numpy as np
import pytest

from exercises.solved import d004_answer_set as answer_set
from exercises.solved import d004_budget as budget
from exercises.solved import d004_first_tables as tables
from exercises.solved import d004_gpt_forward as gpt_forward
from exercises.solved import d004_heads as heads
from exercises.solved import d004_layer_norm as layer_norm
from exercises.solved import d004_loss as loss
from exercises.solved import d004_lstm_cell as cell
from exercises.solved import d004_lstm_stack as stack
from exercises.solved import d004_masks as masks
from exercises.solved import d004_parameter_counts as counts
from exercises.solved import d004_positions as positions
from npdl.layers.linear import Linear


def test_problem_1_one_step():
    weights = {"i": (0, 0, 0), "f": (1, 0, math.log(3) - 2), "o": (0, 1, 0), "c": (0.5, 0.25, -1)}
    gates, c, h = cell.lstm_step(2.0, 4.0, 8.0, weights)
    assert gates["i"] == (0, 0.5)
    assert gates["f"] == pytest.approx((math.log(3), 0.75))
    assert gates["c"] == pytest.approx((1, math.tanh(1)))
    assert c == pytest.approx(6 + math.tanh(1) / 2)
    assert h == pytest.approx(cell.sigmoid(4) * math.tanh(c))


def test_problem_1_two_layers():
    (h, c), (again, _) = stack.layer((1.0, 0.0))
    gate = 1 / (1 + math.exp(-1))
    assert c == pytest.approx(gate * math.tanh(1)) and h == pytest.approx(gate * math.tanh(c))
    f = 1 / (1 + math.exp(-h))
    assert again == pytest.approx(f * math.tanh(f * c + f * math.tanh(h)))
    filled = stack.fill(Linear(2, 3), {"W": np.arange(6.0).reshape(2, 3)})
    assert filled.W.data.tolist() == [[0, 1, 2], [3, 4, 5]] and not filled.b.data.any()
    assert stack.fill(Linear(2, 3), {}).W.data.sum() == 6


def test_problem_1_and_2_shapes():
    assert counts.lstm_shapes(5, 2, 2) == [
        (1, "W", (2, 5), 4), (1, "U", (2, 2), 4), (1, "b", (2,), 4),
        (2, "W", (2, 2), 4), (2, "U", (2, 2), 4), (2, "b", (2,), 4)]
    assert counts.size((3, 4)) == 12


def test_problem_2_rows():
    mean, apart, var, out = layer_norm.standardised((1, 2, 6))
    assert (mean, apart, var) == (3, [-2, -1, 3], Fraction(14, 3))
    assert out == pytest.approx([v / math.sqrt(14 / 3) for v in (-2, -1, 3)])
    assert layer_norm.standardised((1, 2, 6), 1)[2] == 7


def test_problem_2_attention():
    assert heads.weights_of(np.array([1.0, 0.0, 2.0])) == pytest.approx(np.array(
        [[1, 0, 0], [0.5, 0.5, 0], [4 / 21, 1 / 21, 16 / 21]]))
    (A, h), (_, other) = heads.heads_of(np.array([[1.0, 2.0], [3.0, 6.0], [5.0, 10.0]]))
    assert A[1] == pytest.approx([0.5, 0.5, 0]) and h[1] == pytest.approx(2)
    assert other.ravel() == pytest.approx([2, 2 / 3 + 4, 0.4 + 2.4 + 4])
    tril = np.tri(2, dtype=bool)
    assert masks.masked_softmax(np.array([[2.0, 9.0], [1.0, 4.0]]), tril) == pytest.approx(
        np.array([[1, 0], [0.2, 0.8]]))


def test_problem_2_embedding():
    tokens, places, x = positions.embedded((1, 2))
    assert tokens.tolist() == [[0, 1, 0, 0], [0, 0, 2, 0]]
    assert places == pytest.approx(np.array(
        [[0, 1, 0, 1], [math.sin(1), math.cos(1), math.sin(0.1), math.cos(0.1)]]))
    assert x == pytest.approx(tokens + places)


def test_problem_3():
    y, words = answer_set.target_of(2, 4)
    assert [words.tokens[i] for i in y] == ["2", "+", "4", "=", "1", "EOS", "PAD", "PAD"]
    assert answer_set.shown({3, 1}) == "{1, 3}"
    (first, second), (third,) = loss.token_losses()
    assert first == (2, 0, 0.5, math.log(2), 0)
    assert second == pytest.approx((3, 1, 0.75, math.log(4 / 3), 1))
    assert third == (3, 1, 0.25, math.log(4), 2)


def test_problem_4():
    assert budget.halves(7) == (3, 4) and budget.halves(10, 0.25) == (2, 8)
    assert tables.two_values(10, 2) == (8, 12)


def test_problem_2_9_what_a_gpt_returns():
    assert gpt_forward.shapes_of(2, 3, 5, 6, 7) == {
        "logits": (2, 3, 5), "hidden_states": (2, 7, 3, 4), "attentions": (2, 7, 6, 3, 3)}
    post, pre = gpt_forward.norms(np.array([1.0, 2, 3]), np.array([0.0, 2, -2]))
    assert pre.tolist() == [1, 4, 1] and post == pytest.approx([-0.5**0.5, 2**0.5, -0.5**0.5])
