"""Document 004, Problems 3 and 4: numbers against facts made by hand, and on other data."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exercises.d004 import answer_set
from exercises.d004 import first_tables as tables
from exercises.d004 import masked_loss as loss
from exercises.d004 import training_budget as budget
from npdl.functions import log_softmax
from npdl.losses import SequenceLoss, exact_match
from npdl.models.lstm_lm import LSTMLM

sizes = st.integers(1, 5)
fewer = settings(max_examples=30)


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
