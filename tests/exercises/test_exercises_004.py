"""Document 004, Problems 1 and 2: numbers against facts made by hand, and on other data."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exercises.d004 import causal_masks as masks
from exercises.d004 import gpt_forward, layer_norm
from exercises.d004 import head_columns as heads
from exercises.d004 import lstm_cell as cell
from exercises.d004 import lstm_stack as stack
from exercises.d004 import parameter_counts as counts
from exercises.d004 import sinusoidal_positions as positions
from npdl.layers.attention import MultiHeadAttention, causal_mask
from npdl.layers.linear import Linear
from npdl.layers.recurrent import LSTM
from npdl.models.lstm_lm import LSTMLM

sizes = st.integers(1, 5)
fewer = settings(max_examples=30)


@given(st.integers(1, 12))
def test_mask(S):
    assert np.array_equal(masks.printed_mask(S), np.tril(np.ones((S, S), bool)))
    assert np.array_equal(masks.printed_mask(S), causal_mask(S))
    A = masks.weights_with(np.random.default_rng(S).standard_normal((S, S)), causal_mask(S))
    assert not A[~causal_mask(S)].any() and np.allclose(A.sum(1), 1)


def test_masks_by_hand():
    assert masks.printed_mask(2).tolist() == [[True, False], [True, True]]
    scores = np.log(np.array([[1.0, 3.0], [1.0, 3.0]]))
    assert masks.weights_with(scores, masks.printed_mask(2)) == pytest.approx(
        np.array([[1, 0], [0.25, 0.75]]))
    assert masks.weights_with(scores, masks.printed_mask(2), 0.0)[0] == pytest.approx([0.5, 0.5])
    high = np.array([[800.0, 799.0]])                       # e^800 overflows
    assert masks.weights_with(high, np.array([[True, True]]))[0, 0] == pytest.approx(
        1 / (1 + math.exp(-1)))


def test_problem_2_9_what_a_gpt_returns():
    assert gpt_forward.shapes_of(2, 3, 5, 6, 7) == {
        "logits": (2, 3, 5), "hidden_states": (2, 7, 3, 4), "attentions": (2, 7, 6, 3, 3)}
    post, pre = gpt_forward.norms(np.array([1.0, 2, 3]), np.array([0.0, 2, -2]))
    assert pre.tolist() == [1, 4, 1] and post == pytest.approx([-0.5**0.5, 2**0.5, -0.5**0.5])


@given(st.integers(1, 9), st.integers(1, 9))
def test_which_split_can_be_undone(m, d):
    assert heads.can_be_undone("head_size * j + l", m, d)
    assert heads.can_be_undone("num_heads * l + j", m, d)
    assert heads.can_be_undone("num_heads * j + l", m, d) == (m == 1 or m == d)
    assert not heads.can_be_undone("num_heads * j + 1", m, d)


def test_split_of_the_default_width():
    assert heads.coverage("num_heads * j + 1", 4, 32) == (4, 0)
    assert heads.coverage("num_heads * j + l", 4, 32) == (44, 0)


@fewer
@given(sizes, sizes, st.integers(1, 3), st.integers(1, 3), st.integers(0, 99))
def test_attention_is_the_printed_formula(B, S, m, d, seed):
    layer = MultiHeadAttention(m * d, m, rng=seed, dtype="float64")
    Q, K, V = np.random.default_rng(seed).standard_normal((3, B, S, m * d))
    by_loops = heads.attention_by_loops(layer, Q, K, V)
    assert np.allclose(layer.forward(Q, K, V)[0], by_loops, atol=1e-12)


def test_columns_by_hand():
    assert heads.columns("head_size * j + l", 2, 3).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert heads.columns("num_heads * l + j", 2, 3).tolist() == [[0, 2, 4], [1, 3, 5]]
    assert heads.columns("num_heads * j + l", 2, 3).tolist() == [[0, 1, 2], [2, 3, 4]]
    assert heads.columns("num_heads * j + 1", 2, 3).tolist() == [[1, 1, 1], [3, 3, 3]]
    assert heads.coverage("num_heads * j + l", 2, 3) == (5, 0)
    assert heads.coverage("num_heads * j + l", 4, 2) == (4, 4)
    good, pairs = heads.census("num_heads * j + l", 2)
    assert good == [(1, 1), (1, 2), (2, 2)] and len(pairs) == 4
    assert heads.columns("head_size * j + l", 1, 1).tolist() == [[0]]


def test_attention_of_two_tokens():
    layer = MultiHeadAttention(2, 1, dtype="float64")
    for name, param in layer.params():
        param.data[...] = np.eye(2) if name.endswith("W") else 0
    x = np.array([[[math.log(3), 0.0], [0.0, 0.0]]])
    keys = np.array([[[1.0, 0.0], [0.0, 0.0]]])
    y = heads.attention_by_loops(layer, x, keys, 4 * np.eye(2)[None], scale_width=1)
    assert y == pytest.approx(np.array([[[3, 1], [2, 2]]]))
    wide = heads.attention_by_loops(layer, x, keys, 4 * np.eye(2)[None])
    share = 3 ** math.sqrt(0.5)
    assert wide[0, 0] == pytest.approx([4 * share / (share + 1), 4 / (share + 1)])


def test_problem_2_attention():
    assert heads.weights_of(np.array([1.0, 0.0, 2.0])) == pytest.approx(np.array(
        [[1, 0, 0], [0.5, 0.5, 0], [4 / 21, 1 / 21, 16 / 21]]))
    (A, h), (_, other) = heads.heads_of(np.array([[1.0, 2.0], [3.0, 6.0], [5.0, 10.0]]))
    assert A[1] == pytest.approx([0.5, 0.5, 0]) and h[1] == pytest.approx(2)
    assert other.ravel() == pytest.approx([2, 2 / 3 + 4, 0.4 + 2.4 + 4])
    tril = np.tri(2, dtype=bool)
    assert masks.masked_softmax(np.array([[2.0, 9.0], [1.0, 4.0]]), tril) == pytest.approx(
        np.array([[1, 0], [0.2, 0.8]]))


@fewer
@given(st.lists(st.integers(-9, 9), min_size=2, max_size=4), st.integers(2, 4))
def test_only_the_variance_over_n_minus_1_is_unbiased(population, n):
    truth = layer_norm.variance(population)
    assert layer_norm.expected_variance(population, n, 1) == truth
    assert layer_norm.expected_variance(population, n) == truth * Fraction(n - 1, n)


def test_layer_norm_by_hand():
    row = layer_norm.normalised(np.array([[1.0, 3.0]]), np.ones(2), np.zeros(2), eps=0)
    assert row.tolist() == [[-1, 1]]


@pytest.mark.torch
def test_the_library_default_is_the_unbiased_variance():
    torch = pytest.importorskip("torch")
    values = [1.0, 2.0, 6.0]
    assert float(torch.var(torch.tensor(values))) == float(layer_norm.variance(values, 1))
    norm, x = layer_norm.example()
    theirs = torch.nn.functional.layer_norm(
        torch.tensor(x), (8,), torch.tensor(norm.gain.data), torch.tensor(norm.bias.data))
    assert np.allclose(norm.forward(x)[0], theirs.numpy(), atol=1e-10)


def test_norms_by_hand():
    x = np.array([[[1.0, 3.0]], [[2.0, 2.0]]])
    y = layer_norm.normalised(x, np.array([1.0, 10.0]), np.array([0.5, 0]), eps=3)
    assert y == pytest.approx(np.array([[[0, 5]], [[0.5, 0]]]))
    own = layer_norm.normalised(x[:1], np.ones(2), np.zeros(2), eps=0, correction=1)
    assert own == pytest.approx(np.array([[[-1, 1]]]) / math.sqrt(2))
    assert layer_norm.variance([1, 2, 6]) == Fraction(14, 3)
    assert layer_norm.variance([1, 2, 6], 1) == 7
    assert layer_norm.expected_variance((0, 2), 2) == Fraction(1, 2)
    assert layer_norm.expected_variance((0, 2), 2, 1) == 1


def test_problem_2_rows():
    mean, apart, var, out = layer_norm.standardised((1, 2, 6))
    assert (mean, apart, var) == (3, [-2, -1, 3], Fraction(14, 3))
    assert out == pytest.approx([v / math.sqrt(14 / 3) for v in (-2, -1, 3)])
    assert layer_norm.standardised((1, 2, 6), 1)[2] == 7


@fewer
@given(sizes, sizes, st.integers(0, 1000))
def test_the_two_forms_agree_for_gates_and_not_for_the_candidate(d_x, d_h, seed):
    weights = cell.random_weights(d_x, d_h, seed)
    x, h = np.random.default_rng(seed).standard_normal(d_x), np.full(d_h, 0.3)
    differ = cell.forms_differ(weights, x, h)
    assert max(differ[gate] for gate in "ifo") < 1e-12
    assert differ["c"] > 1e-6
    gates = cell.gates_stacked(weights, x, h, cell.ACTIVATION_APART)
    new_h, new_c = cell.updated(gates, np.full(d_h, 0.7))
    (own_h, own_c), _ = cell.library_cell(weights).forward(
        x[None], (h[None], np.full((1, d_h), 0.7)))
    assert np.allclose(own_h, new_h, atol=1e-12) and np.allclose(own_c, new_c, atol=1e-12)


def test_a_sigma_candidate_keeps_states_positive_and_the_crossing_is_exact():
    lowest = cell.lowest_states(50)
    assert lowest["sigma"] >= 0 > lowest["tanh"]
    z = math.asinh(1)
    assert math.tanh(z) == pytest.approx(math.sqrt(0.5)) == pytest.approx(1 / (1 + math.exp(-z)))


def test_memory_over_two_steps_is_not_f_squared():
    assert cell.memory_slope(1) == pytest.approx(0.5, abs=1e-6)
    assert cell.memory_slope(2) > 0.26
    assert cell.memory_slope(2, listening=0.0) == pytest.approx(0.25, abs=1e-6)


def test_gates_by_hand():
    weights = {gate: (np.array([[w, 0.0]]), np.array([[u]]), np.array([b]))
               for gate, w, u, b in (("i", 0, 0, 0), ("f", 1, 2, -3), ("o", 0, 1, 0),
                                     ("c", 0.5, 0, 0))}
    x, h = np.array([2.0, 9.0]), np.array([0.5])
    apart, stacked = cell.gates_apart(weights, x, h), cell.gates_stacked(weights, x, h)
    assert apart["i"] == apart["f"] == 0.5
    assert apart["c"] == pytest.approx(math.tanh(1)) and stacked["c"] == pytest.approx(
        1 / (1 + math.exp(-1)))
    differ = cell.forms_differ(weights, x, h)
    assert differ["c"] == pytest.approx(math.tanh(1) - 1 / (1 + math.exp(-1)))
    assert differ["i"] == differ["f"] == differ["o"] == 0
    new_h, new_c = cell.updated({"i": 0.5, "f": 0.25, "o": 2.0, "c": 3.0}, 4.0)
    assert new_c == 2.5 and new_h == pytest.approx(2 * math.tanh(2.5))


def test_driven_cells():
    h, c = cell.run_cell(cell.driven_cell(i=-50, f=50, o=50), 0.8, 3)
    assert (h, c) == pytest.approx((math.tanh(0.8), 0.8))
    assert cell.run_cell(cell.driven_cell(), 0.8, 2)[1] == pytest.approx(0.2)
    assert cell.run_cell(cell.driven_cell(i=0, f=-50, c=50), 7, 1)[1] == pytest.approx(0.5)
    assert cell.run_cell(cell.driven_cell(), 0.8, 0) == (0, 0.8)
    assert cell.memory_slope(3, 0.0) == pytest.approx(0.125)


def test_problem_1_one_step():
    weights = {"i": (0, 0, 0), "f": (1, 0, math.log(3) - 2), "o": (0, 1, 0), "c": (0.5, 0.25, -1)}
    gates, c, h = cell.lstm_step(2.0, 4.0, 8.0, weights)
    assert gates["i"] == (0, 0.5)
    assert gates["f"] == pytest.approx((math.log(3), 0.75))
    assert gates["c"] == pytest.approx((1, math.tanh(1)))
    assert c == pytest.approx(6 + math.tanh(1) / 2)
    assert h == pytest.approx(cell.sigmoid(4) * math.tanh(c))


@fewer
@given(sizes, sizes, sizes, st.integers(1, 3))
def test_final_states_are_the_last_step_of_every_layer(B, S, d_h, L):
    lstm = LSTM(2, d_h, L, rng=B, dtype="float64")
    x = np.random.default_rng(S).standard_normal((B, S, 2))
    (y, (h, c)), _ = lstm.forward(x)
    hs, cs = stack.stacked_by_steps(lstm, x)
    assert np.allclose(h, hs[:, -1]) and np.allclose(c, cs[:, -1])
    assert np.allclose(y, hs[-1].swapaxes(0, 1)) and hs[0].shape == (S, B, d_h)


def test_stacked_layers_and_what_the_future_moves():
    lstm, x = stack.example()
    hs, cs = stack.stacked_by_steps(lstm, x)
    assert hs.shape == cs.shape == (2, 5, 3, 4)
    (first, _), _ = lstm.layers[0].forward(x)
    assert hs[0] == pytest.approx(first.swapaxes(0, 1))
    assert stack.unmatched([0, 1], 2) == ([0], [2])
    assert stack.unmatched([1, 2, 2], 2) == ([], []) and stack.unmatched([], 1) == ([], [1])


def test_problem_1_two_layers():
    (h, c), (again, _) = stack.layer((1.0, 0.0))
    gate = 1 / (1 + math.exp(-1))
    assert c == pytest.approx(gate * math.tanh(1)) and h == pytest.approx(gate * math.tanh(c))
    f = 1 / (1 + math.exp(-h))
    assert again == pytest.approx(f * math.tanh(f * c + f * math.tanh(h)))
    filled = stack.fill(Linear(2, 3), {"W": np.arange(6.0).reshape(2, 3)})
    assert filled.W.data.tolist() == [[0, 1, 2], [3, 4, 5]] and not filled.b.data.any()
    assert stack.fill(Linear(2, 3), {}).W.data.sum() == 6


@fewer
@given(st.integers(1, 9), sizes, sizes, st.integers(1, 4), st.booleans())
def test_parameter_formulas_count_arrays(V, d, h, L, bias):
    assert counts.lstm_formula(d, h, L, bias) == LSTM(d, h, L, bias=bias).count_params()
    model = LSTMLM(V, d, L, h, bias=bias)
    printed = counts.lstm_table(V, d, h, L, bias)
    assert printed == counts.table_rows_of(model)
    assert sum(printed.values()) == model.count_params()


@fewer
@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.booleans())
def test_decoder_formula_lacks_the_norms_only(heads_, width, m, L, bias):
    d = heads_ * width
    decoder = counts.stack(L, d, heads_, m, bias)
    assert decoder.count_params() == counts.decoder_formula(d, m, L, bias) + 4 * d * L
    attention = MultiHeadAttention(d, heads_, bias=bias)
    assert attention.count_params() == counts.attention_formula(heads_, width, bias)


def test_the_counts_of_the_default_models():
    assert counts.lstm_formula(128, 128, 2) == 263_168
    assert counts.decoder_formula(128, 4, 2) == 394_240
    assert sum(counts.lstm_table(36, 128, 128, 2).values()) == 272_420


def test_counts_by_hand():
    assert counts.lstm_table(5, 3, 2, 2) == {
        "embedding": 15, "layer 1": 48, "layers 2 to L": 40, "classifier": 15}
    assert counts.lstm_table(5, 3, 2, 2, False) == {
        "embedding": 15, "layer 1": 40, "layers 2 to L": 32, "classifier": 10}
    assert (counts.lstm_formula(3, 2, 2), counts.lstm_formula(3, 2, 2, False)) == (88, 72)
    assert (counts.attention_formula(2, 3), counts.attention_formula(2, 3, False)) == (168, 144)
    assert (counts.decoder_formula(4, 2, 2), counts.decoder_formula(4, 2, 2, False)) == (288, 256)
    for place in range(4):
        sizes = [1, 1, 1, 1]
        assert sum(counts.lstm_table(*sizes).values()) == 1 + 12 + 0 + 2
        sizes[place] = 0


def test_problem_1_and_2_shapes():
    assert counts.lstm_shapes(5, 2, 2) == [
        (1, "W", (2, 5), 4), (1, "U", (2, 2), 4), (1, "b", (2,), 4),
        (2, "W", (2, 2), 4), (2, "U", (2, 2), 4), (2, "b", (2,), 4)]
    assert counts.size((3, 4)) == 12


@given(st.integers(1, 20), st.integers(1, 9))
def test_positions_by_formula(length, d):
    for step, name in ((1, "k/d"), (2, "2k/d")):
        table = positions.printed_table(length, d, step)
        assert np.allclose(table, positions.sinusoidal(length, d, name, "float64"))


@given(st.integers(1, 6), st.integers(-20, 20), st.sampled_from(["k/d", "2k/d"]))
def test_positions_rotate(half, offset, exponent):
    table = positions.sinusoidal(60, 2 * half, exponent, "float64")
    R = positions.rotation(2 * half, offset, exponent)
    assert np.allclose(R @ table[30], table[30 + offset], atol=1e-9)
    assert np.allclose(R @ R.T, np.eye(2 * half))


def test_waves_and_odd_input():
    assert positions.wavelengths(128)[-1] == pytest.approx(2 * math.pi * 10000 ** (63 / 128))
    square = positions.wavelengths(128) ** 2 / (2 * math.pi)
    assert np.allclose(square, positions.wavelengths(128, "2k/d"))


def test_positions_by_hand():
    table = positions.printed_table(2, 3)
    assert table == pytest.approx(np.array(
        [[0, 1, 0], [math.sin(1), math.cos(1), math.sin(10000 ** (-1 / 3))]]))
    assert positions.wavelengths(4) == pytest.approx([2 * math.pi, 20 * math.pi])
    assert positions.wavelengths(4, "2k/d") == pytest.approx([2 * math.pi, 200 * math.pi])
    quarter = positions.rotation(2, math.pi / 2)
    assert quarter == pytest.approx(np.array([[0, 1], [-1, 0]]))
    assert positions.closest(np.array([[0.0, 0], [3, 4], [3, 5]])) == (1, 1, 2)
    rows = np.array([[2.0, 0, 0], [1.0, 1.0, 0]])
    assert positions.span_distance(rows, np.array([7.0, -2.0, 3.0])) == pytest.approx(3)


def test_problem_2_embedding():
    tokens, places, x = positions.embedded((1, 2))
    assert tokens.tolist() == [[0, 1, 0, 0], [0, 0, 2, 0]]
    assert places == pytest.approx(np.array(
        [[0, 1, 0, 1], [math.sin(1), math.cos(1), math.sin(0.1), math.cos(0.1)]]))
    assert x == pytest.approx(tokens + places)
