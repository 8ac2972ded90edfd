"""Document 004: the exercises' numbers, against facts made by hand and on other data."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exercises.d004 import answer_set, gpt_forward, layer_norm
from exercises.d004 import causal_masks as masks
from exercises.d004 import first_tables as tables
from exercises.d004 import head_columns as heads
from exercises.d004 import lstm_cell as cell
from exercises.d004 import lstm_stack as stack
from exercises.d004 import masked_loss as loss
from exercises.d004 import parameter_counts as counts
from exercises.d004 import sinusoidal_positions as positions
from exercises.d004 import training_budget as budget
from npdl.functions import log_softmax
from npdl.layers.attention import MultiHeadAttention, causal_mask
from npdl.layers.linear import Linear
from npdl.layers.recurrent import LSTM
from npdl.layers.transformer import Decoder
from npdl.losses import SequenceLoss, exact_match
from npdl.models.lstm_lm import LSTMLM

MODULES = (answer_set, budget, tables, gpt_forward, heads, layer_norm, loss, cell, stack, masks,
           counts, positions)
sizes = st.integers(1, 5)
fewer = settings(max_examples=30, deadline=None)
VERDICTS = {
    answer_set: "wccuun", budget: "nucuvuuccu", tables: "vnuccccvncwuu", gpt_forward: "cccuu",
    heads: "wccuc", layer_norm: "cccc", loss: "csccucuuecuc", cell: "ccscucc",
    stack: "ccscccuccusv", masks: "ccuccc", counts: "cccccwvvcccccuwcn", positions: "vccucuc",
}
FOUND = {"answer": "wrong", "index": "wrong", "right-hand side": "wrong", "indices": "slip",
         "P already computed": "wrong", "meaning of Delta t(L)": "wrong", "candidate": "slip",
         "final states": "slip", "components": "slip", "meaning of Delta t(A)": "confirmed",
         "d_e": "convention", "norm": "under-specified", "best over steps": "under-specified"}


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__.split(".")[-1])
def test_verdicts(module):
    claims = module.claims()
    letters = ["v" if claim.verdict == "convention" else claim.verdict[0] for claim in claims]
    assert "".join(letters) == VERDICTS[module]
    assert {claim.document for claim in claims} == {"004"}
    assert len({(claim.question, claim.part) for claim in claims}) == len(claims)
    for claim in claims:
        expected = FOUND.get(claim.part)
        assert claim.verdict == expected if expected else claim.verdict not in ("wrong", "slip")


def test_no_order_of_the_ids_makes_the_printed_set_right():
    assert answer_set.orders_that_work(2) == (5040, 0, 840)


@given(st.integers(2, 9), st.data())
def test_the_printed_set_is_eos_alone(p, data):
    targets, words = answer_set.sequences(p)
    y = targets[data.draw(st.integers(0, p * p - 1))].tolist()
    assert answer_set.printed_set(y, words.eq, words.pad) == {6}
    assert answer_set.meant_set(y, words.eq, words.pad) == {5, 6}


def test_pads():
    assert answer_set.pads((2,)) == {2: (0, 0)}
    assert answer_set.pads((2, 3)) == {2: (2, 1), 3: (0, 0)}


def test_sets_by_hand():
    y = [4, 5, 3, 6, 2, 8, 9]                                   # 4 + 3 = 2 EOS PAD, p = 5
    assert answer_set.printed_set(y, 6, 9) == {6} and answer_set.printed_set(y, 6) == {6, 7}
    assert answer_set.meant_set(y, 6, 9) == {5, 6} and answer_set.meant_set(y, 6) == {5, 6, 7}
    assert answer_set.next_token_set(y, 9) == {1, 2, 3, 4, 5, 6}
    assert answer_set.next_token_set(y, 5) == {1, 3, 5}
    assert answer_set.pads((2, 3), 2) == {2: (2, 1), 3: (0, 0)}
    targets, words = answer_set.sequences(2)
    assert sorted(words.decode(row) for row in targets) == [
        "0 + 0 = 0 EOS", "0 + 1 = 1 EOS", "1 + 0 = 1 EOS", "1 + 1 = 0 EOS"]


def test_problem_3():
    y, words = answer_set.target_of(2, 4)
    assert [words.tokens[i] for i in y] == ["2", "+", "4", "=", "1", "EOS", "PAD", "PAD"]
    assert answer_set.shown({3, 1}) == "{1, 3}"
    (first, second), (third,) = loss.token_losses()
    assert first == (2, 0, 0.5, math.log(2), 0)
    assert second == pytest.approx((3, 1, 0.75, math.log(4 / 3), 1))
    assert third == (3, 1, 0.25, math.log(4), 2)


@given(st.integers(1, 12))
def test_mask(S):
    assert np.array_equal(masks.printed_mask(S), np.tril(np.ones((S, S), bool)))
    assert np.array_equal(masks.printed_mask(S), causal_mask(S))
    A = masks.weights_with(np.random.default_rng(S).standard_normal((S, S)), causal_mask(S))
    assert not A[~causal_mask(S)].any() and np.allclose(A.sum(1), 1)
    strict = masks.weights_with(np.zeros((S, S)), masks.printed_mask(S, strict=True))
    assert np.isnan(strict[0]).all() and not np.isnan(strict[1:]).any()


def test_masks_by_hand():
    assert masks.printed_mask(2).tolist() == [[True, False], [True, True]]
    assert masks.printed_mask(2, strict=True).tolist() == [[False, False], [True, False]]
    scores = np.log(np.array([[1.0, 3.0], [1.0, 3.0]]))
    assert masks.weights_with(scores, masks.printed_mask(2)) == pytest.approx(
        np.array([[1, 0], [0.25, 0.75]]))
    assert masks.weights_with(scores, masks.printed_mask(2), 0.0)[0] == pytest.approx([0.5, 0.5])
    high = np.array([[800.0, 799.0]])                       # e^800 overflows
    assert masks.weights_with(high, np.array([[True, True]]))[0, 0] == pytest.approx(
        1 / (1 + math.exp(-1)))


def test_the_seeds_behind_the_tables():
    assert tables.seeds("GPT") == {"L_train": [(9600, 9900)], "L_val": [(8600, 9600)],
                                   "A_train": [(77, 88)], "A_val": [(8200, 8600)]}
    assert tables.seeds("LSTM")["A_val"] == [(7500, 8200)]
    assert tables.seeds("LSTM", "sample")["A_val"] == []
    assert tables.delay_deviations((77, 88), (8200, 8600)) == [194.5, 205.5]


@given(st.integers(1, 500), st.integers(1, 500), st.sampled_from(["population", "sample"]))
def test_pairs_finds_what_was_printed(a, b, kind):
    mean, std = round((a + b) / 2, 4), round(tables.deviation(a, b, kind), 4)
    assert (min(a, b), max(a, b)) in tables.pairs(mean, std, range(1, 501), kind)


def test_deviations_by_hand(monkeypatch):
    assert tables.deviation(1, 5) == tables.deviation(5, 1) == 2
    assert tables.deviation(1, 5, "sample") == pytest.approx(math.sqrt(8))
    assert tables.pairs(3, 2, range(1, 9)) == [(1, 5)]
    assert tables.pairs(3, 2, range(2, 9)) == [] and tables.pairs(4, 0, [4, 5]) == [(4, 4)]
    assert tables.pairs(3, 2.8284, range(1, 9), "sample") == [(1, 5)]
    # printed as 3.0 and 2.0; the pairs left out have means up from 3.1, or a deviation of 1.8
    assert tables.pairs(3, 2, [1, 1.04, 1.2, 4.8, 5, 5.05, 5.2], decimals=1) == [
        (1, 5), (1, 5.05), (1.04, 5), (1.04, 5.05)]
    assert tables.pairs(3, 2, [1.5, 5.5], decimals=1) == tables.pairs(3, 1, [1, 5]) == []
    assert tables.pairs(1.00005, 0, [1.0, 1.0001]) == [
        (1.0, 1.0), (1.0, 1.0001), (1.0001, 1.0001)]
    assert tables.delay_deviations((0, 2), (10, 20)) == [4, 6]
    assert tables.delay_text("GPT", "A") == "Delta t(A) 8317.5 +- 194.5 or 205.5"
    assert tables.later("A") and not tables.later("L") and tables.alone()
    assert len(tables.spread_rows()) == 5
    monkeypatch.setattr(tables, "STEPS", {"LSTM": {"L_train": (3, 1), "L_val": (4, 0)}})
    assert tables.later("L") and tables.spread_rows() == [("LSTM", "L_train", 3, 1)]
    monkeypatch.setattr(tables, "STEPS", {"LSTM": {"L_train": (2.5, 0.0)}})
    assert not tables.alone()


def test_states_of_a_gpt():
    for norm in ("post", "pre"):
        outputs, inputs = gpt_forward.states(norm, 2).values()
        assert outputs.shape == inputs.shape == (2, 2, 4, 8)
        assert np.array_equal(inputs[:, 1], outputs[:, 0])
        gpt = gpt_forward.model(norm, 2)
        tokens = gpt.embedding.W.data[gpt_forward.IDS]
        assert inputs[:, 0] == pytest.approx(tokens + positions.printed_table(4, 8))
    assert gpt_forward.readout_gap("post") == 0 < gpt_forward.readout_gap("pre")


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
@given(st.integers(1, 4), st.integers(2, 5), st.integers(2, 5), st.integers(0, 999))
def test_loss_and_accuracy_are_the_printed_sums(B, S, V, seed):
    rng = np.random.default_rng(seed)
    logits, targets = 3 * rng.standard_normal((B, S, V)), rng.integers(V, size=(B, S))
    counted = rng.random((B, S)) < 0.5
    counted[:, -1] = True
    own, _ = SequenceLoss("none").forward(logits, targets, counted)
    assert np.allclose(own, loss.loss_by_sums(logits, targets, counted), atol=1e-12)
    right = loss.accuracy_by_products(logits, targets, counted)
    assert np.array_equal(right, exact_match(logits, targets, counted, "none"))
    literal = loss.loss_by_sums(logits, targets, counted, first=1)
    unmet = counted & (targets == 0)
    lost = (unmet * -log_softmax(logits)[..., 0]).sum(1) / counted.sum(1)
    assert np.allclose(literal, own - lost, atol=1e-12)


def test_components_from_1_lose_token_0():
    logits, targets, counted = np.zeros((1, 2, 4)), np.array([[0, 2]]), np.ones((1, 2), bool)
    assert loss.loss_by_sums(logits, targets, counted)[0] == pytest.approx(math.log(4))
    assert loss.loss_by_sums(logits, targets, counted, 1)[0] == pytest.approx(math.log(4) / 2)


@given(st.lists(st.lists(st.floats(0, 10), min_size=1, max_size=6), min_size=1, max_size=5))
def test_the_two_averages(samples):
    by_sample, by_token = loss.averages(samples)
    if len({len(sample) for sample in samples}) == 1:
        assert by_sample == pytest.approx(by_token, abs=1e-12)
    assert by_token <= len(samples) * by_sample + 1e-9


@pytest.mark.torch
def test_nll_loss_is_the_average_over_tokens():
    torch = pytest.importorskip("torch")
    logits, targets, eq, mask = loss.example()
    own, _ = SequenceLoss(average="token").forward(logits, targets, mask)
    pad = targets.max()
    theirs = torch.nn.functional.nll_loss(
        torch.log_softmax(torch.tensor(logits), -1).swapaxes(1, 2), torch.tensor(targets),
        ignore_index=int(pad))
    assert float(own) == pytest.approx(float(theirs), abs=1e-10)


@given(st.lists(st.floats(0.01, 1), min_size=2, max_size=6), st.floats(0.01, 1))
def test_a_gradient_step_raises_the_wanted_and_lowers_the_sum_of_the_others(weights, rate):
    p = np.array(weights) / sum(weights)
    after = loss.stepped(p, 0, rate)
    assert after[0] > p[0] and after[1:].sum() < p[1:].sum() and after.sum() == pytest.approx(1)


def test_one_of_the_others_may_rise():
    assert loss.stepped([0.01, 0.98, 0.01], 0, 0.5)[2] > 0.01


def test_losses_by_hand():
    logits = np.log(np.array([[[1.0, 3.0], [2.0, 2.0]], [[1.0, 1.0], [7.0, 1.0]]]))
    targets, counted = np.array([[1, 0], [0, 0]]), np.array([[True, True], [False, True]])
    assert loss.loss_by_sums(logits, targets, counted) == pytest.approx(
        [(math.log(4 / 3) + math.log(2)) / 2, math.log(8 / 7)])
    assert loss.loss_by_sums(logits, targets, counted, 1) == pytest.approx(
        [math.log(4 / 3) / 2, 0])
    assert loss.accuracy_by_products(logits, np.array([[1, 1], [1, 0]]), counted).tolist() == [0, 1]
    assert loss.averages([[1.0], [2.0, 3.0]]) == (1.75, 2)
    # one step of 1 on the logits log p: they move by 1 - p and -p
    p = np.exp([math.log(0.5) + 0.5, math.log(0.25) - 0.25, math.log(0.25) - 0.25])
    assert loss.stepped([0.5, 0.25, 0.25], 0, 1.0) == pytest.approx(p / p.sum())
    p = np.exp([math.log(0.5) + 3, math.log(0.5) - 3])
    assert loss.stepped([0.5, 0.5], 0, 6.0) == pytest.approx(p / p.sum())


def test_half_of_the_examples_targets_are_sure():
    logits, targets, eq, mask = loss.example()
    assert len(targets) == len(eq) == len(mask) == 5**2 + 5**3
    wanted = np.eye(logits.shape[-1], dtype=bool)[targets]
    others, chosen = logits[~wanted], logits[wanted]
    assert others.std() == pytest.approx(2, rel=0.05) and abs(others.mean()) < 0.1
    sure = chosen > 10                                      # raised by 20, spread by 2
    assert sure.mean() == pytest.approx(0.5, abs=0.05)
    assert chosen[~sure].mean() == pytest.approx(0, abs=0.3)
    assert chosen[sure].mean() == pytest.approx(20, abs=0.3)
    assert chosen[sure].std() == pytest.approx(2, rel=0.1)


@fewer
@given(st.integers(1, 9), sizes, sizes, st.integers(1, 4), st.booleans())
def test_parameter_formulas_count_arrays(V, d, h, L, bias):
    assert counts.lstm_formula(d, h, L, bias) == LSTM(d, h, L, bias).count_params()
    model = LSTMLM(V, d, L, h, bias=bias)
    printed = counts.lstm_table(V, d, h, L, bias)
    assert printed == counts.table_rows_of(model)
    assert sum(printed.values()) == model.count_params()


@fewer
@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.booleans())
def test_decoder_formula_lacks_the_norms_only(heads_, width, m, L, bias):
    d = heads_ * width
    decoder = Decoder(L, d, heads_, m, bias)
    assert decoder.count_params() == counts.decoder_formula(d, m, L, bias) + 4 * d * L
    attention = MultiHeadAttention(d, heads_, bias)
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


def test_a_causal_decoder_of_two_blocks_knows_order():
    assert positions.order_gap(2, None) < 1e-9
    assert positions.order_gap(1, causal_mask(5)) < 1e-9
    assert positions.order_gap(2, causal_mask(5)) > 1e-3


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


def test_budget():
    assert budget.number_of_equations(31) == 961
    assert budget.number_of_equations(11, (2, 3)) == 1452
    assert budget.seconds(0.05) == pytest.approx(500.05)


def test_the_best_of_several_evaluations():
    assert budget.best_of(1, 7, 0.3) == pytest.approx(0.3)
    assert budget.best_of(3, 1, 0.5) == pytest.approx(1 - 0.5**3)
    assert budget.best_of(2, 2, 0.5) == pytest.approx(11 / 16)  # counts 0, 1, 2: 1/4, 1/2, 1/4
    assert budget.best_of(9, 5, 1) == 1 and budget.best_of(9, 5, 0) == 0


def test_sizes_and_products_by_hand():
    assert budget.number_of_equations(2, (3,)) == 8 and budget.number_of_equations(3, (2, 2)) == 9
    assert budget.seconds(2, 3) == 6
    # W_x and W_h (2, 8), the classifier (2, 3): 38 numbers, three times for each of 5 tokens
    assert budget.products(LSTMLM(3, 2, 1), 5) == 15 * 38


def test_problem_4():
    assert budget.halves(7) == (4, 3) and budget.halves(121) == (60, 61)
    assert budget.halves(10, 0.25) == (2, 8)
    assert tables.two_values(10, 2) == (8, 12)
