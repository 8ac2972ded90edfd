"""What the worked solutions of document 000 compute, against facts made by hand."""

import math

import numpy as np
import pytest

from exercises.d000_birnn import Network, forward
from exercises.d000_lora_costs import Size
from exercises.solved import d000_beam_algorithm as beam_algorithm
from exercises.solved import d000_birnn as birnn
from exercises.solved import d000_counting as counting
from exercises.solved import d000_decoding as decoding
from exercises.solved import d000_lora_costs as lora_costs
from exercises.solved import d000_lora_tradeoffs as tradeoffs
from exercises.solved import d000_normalisation as normalisation
from exercises.solved import d000_quantizer as quantizer
from exercises.solved import d000_search_limits as search_limits


def test_000_1_first_group_and_table():
    assert [normalisation.size(kind) for kind in ("batch", "layer", "instance")] == [12, 6, 3]
    batch, layer, instance = map(normalisation.kind_step, ("batch", "layer", "instance"))
    assert batch.table.rows == (
        ("1", "2 5 1 1 2 4 3 1 2 3 4 3", "31/12", "227/144", 31 / 12, 227 / 144),
        ("2", "4 3 4 1 2 2 3 2 4 5 2 3", "35/12", "179/144", 35 / 12, 179 / 144))
    assert [row[:4] for row in layer.table.rows[::3]] == [
        ("1", "2 5 1 4 3 4", "19/6", "65/36"), ("4", "3 4 3 5 2 3", "10/3", "8/9")]
    assert [row[:4] for row in instance.table.rows[::7]] == [
        ("1, 1", "2 5 1", "8/3", "26/9"), ("4, 2", "5 2 3", "10/3", "14/9")]
    assert instance.numbers == ("μ = (2 + 5 + 1) / 3 = 8 / 3 = 8/3\n"
                                "σ² = ((2 − 8/3)² + (5 − 8/3)² + …) / 3 = 26/3 / 3 = 26/9")
    assert (layer.table.heads[0], batch.table.digits) == ("sample", 4)
    assert batch.text.startswith("Batch: one channel, over")


def test_000_2_3_best_first():
    scores = {(0, 1): math.log(0.25), (2,): math.log(0.5), (1, 1): math.log(0.125)}
    assert beam_algorithm.spelled([(0, 1), (2,)], scores) == "z 0.500, xy 0.250"
    assert beam_algorithm.spelled(scores, scores) == "z 0.500, xy 0.250, yy 0.125"


def test_000_2_4_branches_and_candidates():
    assert decoding.branches(()) == {"the": -1.7, "a": -2.0}
    assert decoding.branches(("the", "red")) == {"circle": -5.0, "rectangle": -4.7}
    assert decoding.branches(("a", "red")) == decoding.branches(("the", "red", "circle")) == {}
    assert [decoding.phrase(()), decoding.phrase(("a", "red"))] == ["<BOS>", "'a red'"]
    table, paths = decoding.beam_table([("the",), ("a",)], 2)
    assert paths == [("a", "blue"), ("a", "red"), ("the", "red"), ("the", "green")]
    assert table.rows == (
        (1, "(a, blue)", "−2.0 − 2.7 = −4.7", "kept"), (2, "(a, red)", "−2.0 − 2.9 = −4.9", "kept"),
        (3, "(the, red)", "−1.7 − 3.3 = −5.0", "pruned"),
        (4, "(the, green)", "−1.7 − 3.6 = −5.3", "pruned"))
    best, _ = decoding.beam_table([("the", "red")], 0)[0].rows
    assert best == (1, "(the, red, rectangle)", "−5.0 − 4.7 = −9.7", "pruned")


def test_000_2_4_each_bound_decides():
    """"a red" has −4.9, the two known sums are −9.9 and −10.3."""
    known = [("a", "blue", "square"), ("a", "blue", "ellipse")]
    right = -5.0, -5.4
    assert decoding.bounds_decide(right, known) and decoding.bounds_decide(right, known, 0.2)
    assert not decoding.bounds_decide(right, known[::-1])
    assert not decoding.bounds_decide(right, known, -0.01)
    for wrong in ((-5.1, -5.4), (-4.9, -5.4), (-5.0, -5.5), (-5.0, -5.3)):
        assert not decoding.bounds_decide(wrong, known)


def test_000_2_5_the_best_of_the_first_words_kept(monkeypatch):
    assert [search_limits.best_of(width)[:2] for width in (1, 2, 3)] == [
        ("a", "u"), ("b", "u"), ("c", "u")]
    monkeypatch.setattr(search_limits, "PROBABILITIES", {
        "a": (0.05, {"u": 1.0}), "b": (0.6, {"u": 0.2, "v": 0.5, "w": 0.3}),
        "c": (0.35, {"y": 0.1, "z": 0.9})})
    assert search_limits.best_of(1) == ("b", "v", pytest.approx(0.3))
    assert search_limits.best_of(2) == ("c", "z", pytest.approx(0.315))


def test_000_3_the_example_forwards():
    f, b, y, _ = forward(birnn.small())
    p, q = math.tanh(1 + 0.25), math.tanh(0.5)
    r, s = math.tanh(-0.5), math.tanh(0.5 + 0.25)
    assert f[1] == pytest.approx([p, q])
    assert f[2] == pytest.approx([math.tanh(0.5 + p / 2 - q), math.tanh(0.25 - 0.5 + q / 2)])
    assert b[2] == pytest.approx([r, s])
    assert b[1] == pytest.approx([math.tanh(r / 2), math.tanh(1 + r - s / 2)])
    for t in (1, 2):
        assert y[t - 1] == pytest.approx([f[t][0] + f[t][1] / 2 + b[t][0],
                                          f[t][1] - b[t][0] + b[t][1]])
    assert birnn.small().z.tolist() == [[1, 0], [0, 1]]


def test_000_3_all_that_is_given_is_shown():
    ten = np.arange(1.0, 11.0).reshape(5, 2)
    net = Network(birnn.small().weights, ten[:3], -ten[:3], ten[3], ten[4])
    shown = birnn.given(net)
    assert {name: shown.pop(name).shape for name in net.weights} == dict.fromkeys(
        ("W_f", "U_f", "V_f", "W_b", "U_b", "V_b"), (2, 2))
    assert {name: vector.tolist() for name, vector in shown.items()} == {
        "x₁": [1, 2], "x₂": [3, 4], "x₃": [5, 6], "z₁": [-1, -2], "z₂": [-3, -4],
        "z₃": [-5, -6], "f₀": [7, 8], "b₄": [9, 10]}


def test_000_4_the_adapter_on_both_bases():
    codes, step = tradeoffs.packed()
    assert codes.tolist() == [[7, -3], [4, -6]] and step == pytest.approx(0.1)
    plain, quantized = tradeoffs.library(), tradeoffs.library(4)
    assert plain.forward(tradeoffs.X)[0] == pytest.approx(np.array([[1.125, -0.725]]))
    assert quantized.forward(tradeoffs.X)[0] == pytest.approx(np.array([[1.1, -0.8]]), abs=1e-6)
    assert plain.count_params() == quantized.count_params() == 4


def test_000_4_4_the_products_by_their_shapes():
    rows = lora_costs.products(Size(n=2, d=3, r=1, h=5))
    assert [row[2:] for row in rows] == [
        ((2, 3, 3), 15), ((2, 3, 1), 15), ((2, 1, 3), 15), ((2, 3, 2), 5), ((2, 2, 3), 5),
        ((2, 15, 3), 1), ((2, 3, 3), 1), ((2, 3, 1), 1), ((2, 1, 3), 1)]


def test_000_2_how_the_cost_grows():
    assert counting.growth(3, 2) == (4, 9) and counting.growth(2, 3) == (8, 8)
    assert counting.years_of(365 * 24 * 3600 * 50, 10) == 5


def test_000_4_4_a_quantizer_there_and_back():
    assert quantizer.there_and_back((5, -1), (2, -1), 2) == ([4, -2], [1, 1])
    assert quantizer.patterns(4) == (16, 15, 7)
