"""Document 004: what the exercises' functions compute, against facts made by hand."""

import math
from fractions import Fraction

import numpy as np
import pytest

from exercises import d004_answer_set as answer_set
from exercises import d004_budget as budget
from exercises import d004_first_tables as tables
from exercises import d004_gpt_forward as gpt_forward
from exercises import d004_heads as heads
from exercises import d004_layer_norm as layer_norm
from exercises import d004_loss as loss
from exercises import d004_lstm_cell as cell
from exercises import d004_lstm_stack as stack
from exercises import d004_masks as masks
from exercises import d004_parameter_counts as counts
from exercises import d004_positions as positions
from exercises.framework import FAILED
from npdl.errors import InputError
from npdl.layers.attention import MultiHeadAttention
from npdl.models.lstm_lm import LSTMLM


def refused(call):
    with pytest.raises(InputError):
        call()


# Problem 1

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
    for sizes in ((0, 1), (1, 0)):
        refused(lambda sizes=sizes: cell.random_weights(*sizes))
    refused(lambda: cell.gates_stacked(weights, x, np.zeros(2)))


def test_driven_cells():
    h, c = cell.run_cell(cell.driven_cell(i=-50, f=50, o=50), 0.8, 3)
    assert (h, c) == pytest.approx((math.tanh(0.8), 0.8))
    assert cell.run_cell(cell.driven_cell(), 0.8, 2)[1] == pytest.approx(0.2)
    assert cell.run_cell(cell.driven_cell(i=0, f=-50, c=50), 7, 1)[1] == pytest.approx(0.5)
    assert cell.run_cell(cell.driven_cell(), 0.8, 0) == (0, 0.8)
    assert cell.memory_slope(3, 0.0) == pytest.approx(0.125)


def test_stacked_layers_and_what_the_future_moves():
    lstm, x = stack.example()
    hs, cs = stack.stacked_by_steps(lstm, x)
    assert hs.shape == cs.shape == (2, 5, 3, 4)
    (first, _), _ = lstm.layers[0].forward(x)
    assert hs[0] == pytest.approx(first.swapaxes(0, 1))
    assert stack.unmatched([0, 1], 2) == ([0], [2])
    assert stack.unmatched([1, 2, 2], 2) == ([], []) and stack.unmatched([], 1) == ([], [1])
    refused(lambda: stack.stacked_by_steps(lstm, x[..., :1]))


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
        refused(lambda sizes=sizes: counts.lstm_table(*sizes))


# Problem 2

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
    refused(lambda: heads.columns("head_size * j + l", 1, 0))


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


def test_masks_by_hand():
    assert masks.printed_mask(2).tolist() == [[True, False], [True, True]]
    assert masks.printed_mask(2, strict=True).tolist() == [[False, False], [True, False]]
    scores = np.log(np.array([[1.0, 3.0], [1.0, 3.0]]))
    assert masks.weights_with(scores, masks.printed_mask(2)) == pytest.approx(
        np.array([[1, 0], [0.25, 0.75]]))
    assert masks.weights_with(scores, masks.printed_mask(2), 0.0)[0] == pytest.approx([0.5, 0.5])
    refused(lambda: masks.printed_mask(0))
    high = np.array([[800.0, 799.0]])                       # e^800 overflows
    assert masks.weights_with(high, np.array([[True, True]]))[0, 0] == pytest.approx(
        1 / (1 + math.exp(-1)))


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
    for wrong in ((0, 2), (2, 0)):
        refused(lambda wrong=wrong: positions.printed_table(*wrong))


def test_states_of_a_gpt():
    for norm in ("post", "pre"):
        outputs, inputs = gpt_forward.states(norm, 2).values()
        assert outputs.shape == inputs.shape == (2, 2, 4, 8)
        assert np.array_equal(inputs[:, 1], outputs[:, 0])
        gpt = gpt_forward.model(norm, 2)
        tokens = gpt.embedding.W.data[gpt_forward.IDS]
        assert inputs[:, 0] == pytest.approx(tokens + positions.printed_table(4, 8))
    assert gpt_forward.readout_gap("post") == 0 < gpt_forward.readout_gap("pre")


# Problem 3

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


def test_losses_by_hand():
    logits = np.log(np.array([[[1.0, 3.0], [2.0, 2.0]], [[1.0, 1.0], [7.0, 1.0]]]))
    targets, counted = np.array([[1, 0], [0, 0]]), np.array([[True, True], [False, True]])
    assert loss.loss_by_sums(logits, targets, counted) == pytest.approx(
        [(math.log(4 / 3) + math.log(2)) / 2, math.log(8 / 7)])
    assert loss.loss_by_sums(logits, targets, counted, 1) == pytest.approx(
        [math.log(4 / 3) / 2, 0])
    assert loss.accuracy_by_products(logits, np.array([[1, 1], [1, 0]]), counted).tolist() == [0, 1]
    assert loss.averages([[1.0], [2.0, 3.0]]) == (1.75, 2)
    refused(lambda: loss.averages([]))
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


# Problem 4's first page

def test_the_best_of_several_evaluations():
    assert budget.best_of(1, 7, 0.3) == pytest.approx(0.3)
    assert budget.best_of(3, 1, 0.5) == pytest.approx(1 - 0.5**3)
    assert budget.best_of(2, 2, 0.5) == pytest.approx(11 / 16)  # counts 0, 1, 2: 1/4, 1/2, 1/4
    assert budget.best_of(9, 5, 1) == 1 and budget.best_of(9, 5, 0) == 0
    for wrong in ((0, 1, 0.5), (1, 0, 0.5), (1, 1, -0.1), (1, 1, 1.1)):
        refused(lambda wrong=wrong: budget.best_of(*wrong))


def test_sizes_and_products_by_hand():
    assert budget.number_of_equations(2, (3,)) == 8 and budget.number_of_equations(3, (2, 2)) == 9
    assert budget.seconds(2, 3) == 6
    for call in (lambda: budget.number_of_equations(1), lambda: budget.number_of_equations(5, ()),
                 lambda: budget.seconds(1, 0), lambda: budget.seconds(-1)):
        refused(call)
    # W_x and W_h (2, 8), the classifier (2, 3): 38 numbers, three times for each of 5 tokens
    assert budget.products(LSTMLM(3, 2, 1), 5) == 15 * 38


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


@pytest.mark.parametrize("module, name, wrong, parts", [
    (tables, "alone", lambda: False, {"values", "delay deviations"}),
    (counts, "lstm_formula", lambda *_, bias=True: 1, {"two biases", "P of the grid"}),
    (stack, "stacked_by_steps", lambda *_: (np.zeros((2, 5, 3, 4)),) * 2,
     {"recursion", "full output", "final states"}),
])
def test_what_fails_of_ours_is_no_verdict_on_the_document(monkeypatch, module, name, wrong, parts):
    assert not [claim for claim in module.claims() if claim.verdict == FAILED]
    monkeypatch.setattr(module, name, wrong)
    assert {claim.part for claim in module.claims() if claim.verdict == FAILED} == parts
