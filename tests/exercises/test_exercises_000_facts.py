"""Facts made by hand about the functions of document 000's exercises, on small sizes."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from exercises import birnn_claims, lora_cost_claims
from exercises import d000_beam_algorithm as algorithm
from exercises import d000_birnn as birnn
from exercises import d000_counting as counting
from exercises import d000_decoding as decoding
from exercises import d000_lora_costs as costs
from exercises import d000_lora_tradeoffs as tradeoffs
from exercises import d000_normalisation as normalisation
from exercises import d000_quantizer as quantizer
from exercises import d000_search_limits as limits
from npdl.decoding import exhaustive_search, greedy
from npdl.errors import InputError

# Question 1


def test_a_group_of_two_has_its_variances():
    means, variances = normalisation.exact_statistics([[[0, 2]]], (2,), correction=1)
    assert (means, variances) == ([1], [2])
    assert normalisation.exact_statistics([[[0, 2]]], (2,))[1] == [1]
    with pytest.raises(InputError, match="none of them 0"):
        normalisation.exact_statistics(np.zeros((2, 0, 3)), (0,))


def test_misprints_are_those_beyond_half_of_the_last_place():
    exact = [Fraction(5, 2), Fraction(10, 3), Fraction(255, 100)]
    assert normalisation.misprints("2.5 3.00 2.5", exact) == [(2, "3.00", Fraction(10, 3))]
    assert normalisation.misprints("2.5", [Fraction(2551, 1000)])[0][0] == 1
    assert normalisation.misprints("3", [Fraction(7, 2)]) == []


def test_a_row_read_as_5_2_2_explains_both_layer_misprints():
    assert normalisation.misread("layer").endswith("is read as 5 2 2")
    assert normalisation.misread("instance") == ""


@pytest.mark.parametrize("kind, other", [("layer", "instance"), ("instance", "layer")])
def test_whose_pairs_the_document_has(kind, other):
    assert f"are those of {other} normalisation" in normalisation.why(kind)
    assert "are those of" not in normalisation.why("batch")


# Question 2

def test_the_states_alive_in_a_search():
    _, scorer = counting.listed(3, 3)
    assert (scorer.most_alive, scorer.rows) == (4, 1 + 3 + 9)   # one path, and a row a prefix
    assert scorer.alive == 0
    assert counting.CountingScorer(np.zeros((3, 2))).most_alive == 0


def test_bos_is_the_word_that_can_be_left_out():
    scorer = counting.CountingScorer(np.zeros((3, 2)), without=(0,))
    log_p, _ = scorer.start()
    assert log_p.tolist() == [[-np.inf, 0.0]]
    with pytest.raises(InputError):
        counting.CountingScorer(np.zeros((2, 2)))


def test_numbers_of_sequences_and_probabilities():
    assert counting.count_sequences(4, 0) == 1
    with pytest.raises(InputError):
        counting.count_sequences(4, -1)
    assert counting.probabilities_read(3, 2) == 3 + 9
    assert counting.probabilities_read(3, 2, shared=False) == 2 * 9
    assert counting._work(3, 2) == 3 + 9
    assert counting.total_probability(3, 2) == pytest.approx(1)


def test_random_models_are_distributions_and_differ():
    one, two = counting.random_model(3, 1), counting.random_model(3, 2)
    assert one.shape == (4, 3) and not np.allclose(one, two)
    assert np.allclose(np.exp(one).sum(1), 1)
    logits = np.random.default_rng(1).standard_normal((4, 3))
    assert np.allclose(one - one[:, :1], logits - logits[:, :1])


def test_algorithm_1_counts_what_it_does():
    table = np.log(np.full((4, 3), 1 / 3))
    beams, counts = algorithm.algorithm_1(table, 2, 2)
    assert counts == {"scores": 2 * 6, "comparisons": 2 * 2 * 6, "numbers": 6 + 2 * 2}
    assert [tokens for tokens, _ in beams] == [(0, 0), (0, 1)]  # of equal scores the first
    steep = np.log([[0.6, 0.4], [0.3, 0.7], [0.2, 0.8]])        # after 0, after 1, at the start
    assert algorithm.algorithm_1(steep, 2, 2)[0] == [((1, 1), pytest.approx(math.log(0.56)))] * 2
    assert beams[0][1] == pytest.approx(2 * math.log(1 / 3))


def quickselect(values, k):
    """Comparisons with the first value as pivot, by recursion."""
    if not k or len(values) <= k:
        return 0
    pivot, *rest = values
    above = [value for value in rest if value > pivot]
    if len(above) >= k:
        return len(rest) + quickselect(above, k)
    return len(rest) + quickselect([v for v in rest if v < pivot], k - len(above) - 1)


@pytest.mark.parametrize("size, width, seed", [(2, 1, 0), (9, 4, 1), (60, 7, 2), (60, 30, 3),
                                               (5, 5, 0), (31, 1, 5)])
def test_comparisons_of_quickselect(size, width, seed):
    values = np.random.default_rng(seed).permutation(size).tolist()
    assert algorithm.comparisons_to_select(size, width, "quickselect", seed) == quickselect(
        values, width)


def test_comparisons_of_a_heap():
    for _ in range(2):                                      # it counts anew each time
        assert algorithm.comparisons_to_select(50, 1, "heap") == 49     # a plain maximum
    assert 49 < algorithm.comparisons_to_select(50, 5, "heap") < 50 * 5
    small, large = algorithm._Counted(1), algorithm._Counted(2)
    assert small < large and not large < small and not small < small
    with pytest.raises(InputError):
        algorithm.comparisons_to_select(5, 0, "scan")


def test_what_the_trees_printed_branches_hold():
    tree = {"x": (math.log(0.5), {"y": math.log(0.25)}), "z": (math.log(0.125), {})}
    assert decoding.shown_mass(tree) == [((), pytest.approx(0.625)), (("x",), pytest.approx(0.25))]


def test_thresholds_of_the_best_sequence():
    assert decoding.thresholds() == {("the", "green"): pytest.approx(-4.4),
                                     ("a", "red"): pytest.approx(-4.8)}
    assert decoding.printed_is_best(-4.9, -4.5) is True
    assert not decoding.printed_is_best(-4.7, -4.5) and not decoding.printed_is_best(-4.9, -4.3)


def test_completions_on_a_grid():
    found = decoding.completions(step=2, highest=-0.5, lowest=-5)
    assert list(found) == [(-0.5, -2.5), (-0.5, -4.5), (-2.5, -2.5), (-2.5, -4.5), (-4.5, -4.5)]
    assert [total for _, total in found[-2.5, -4.5]] == [pytest.approx(-7.4), pytest.approx(-9.4)]
    tree = decoding.completed({"cube": -1.0}, {"oval": -2.0})
    assert decoding.path_sum(tree, ("a", "red", "cube")) == pytest.approx(-5.9)
    assert decoding.path_sum(tree, ("the", "green", "oval")) == pytest.approx(-7.3)
    assert len(decoding.decode(tree, "exhaustive")) == 6
    assert [words for words, _ in decoding.decode(tree, "beam", 3, max_len=1)] == [("the",), ("a",)]
    with pytest.raises(InputError, match="choose greedy"):
        decoding.decode(tree, "depth")


def test_random_trees_have_their_size_and_spread():
    tree = limits.random_tree(np.random.default_rng(0), 3, 2)
    assert list(tree) == ["00", "01", "02"]
    assert all(len(below) == 3 and all(not rest for _, rest in below.values())
               for _, below in tree.values())
    logits = np.random.default_rng(0).standard_normal(3)
    wanted = np.exp(1.5 * logits) / np.exp(1.5 * logits).sum()
    assert [math.exp(log_p) for log_p, _ in tree.values()] == pytest.approx(wanted.tolist())
    narrow = limits.random_tree(np.random.default_rng(0), 3, 1, spread=0)
    assert [log_p for log_p, _ in narrow.values()] == pytest.approx([-math.log(3)] * 3)
    assert limits.random_tree(np.random.default_rng(0), 1, 1) == {"00": (0.0, {})}


def test_searches_of_random_trees():
    results = limits.search_results((1,), trees=3, N=2, T=3, seed=4)
    trees = np.random.default_rng(4)
    for i in range(3):
        scorer = limits.Tree(limits.random_tree(trees, 2, 3))
        assert results["best"][i].tokens == exhaustive_search(scorer, 3).best.tokens
        assert results["greedy"][i].tokens == results[1][i].tokens == greedy(scorer, 3)[0].tokens
    assert len(results["best"][0].tokens) == 3
    assert limits.found_best({"best": results["best"], "x": results["best"]}, "x") == 3


# Question 3

def test_one_step_of_one_unit():
    one = np.ones((1, 1))
    net = birnn.Network(dict.fromkeys(birnn.WEIGHTS, one), np.array([[0.5]]), np.array([[1.0]]),
                        np.array([0.25]), np.array([-0.25]))
    f, b, y, L = birnn.forward(net)
    assert f.ravel() == pytest.approx([0.25, math.tanh(0.75)])
    assert (b[1][0], b[2][0]) == pytest.approx((math.tanh(0.25), -0.25))
    assert y[0, 0] == pytest.approx(math.tanh(0.75) + math.tanh(0.25))
    assert pytest.approx((1 - y[0, 0]) ** 2) == L
    slope = 1 - math.tanh(0.75) ** 2
    assert birnn.jacobian(net.weights, "f", f[1]) == pytest.approx(slope)
    g = birnn.document_gradients(net)
    assert g["U_f"] == pytest.approx(slope * 2 * (y[0, 0] - 1) * 0.25)
    assert sorted(key for key in g if key[0] == "local") == [("local", "b", 1), ("local", "f", 1)]


def test_the_graphs_arrows_of_two_steps():
    assert birnn.edges(2) == [
        (("x", 1), ("f", 1), "W_f"), (("f", 0), ("f", 1), "U_f"), (("x", 1), ("b", 1), "W_b"),
        (("b", 2), ("b", 1), "U_b"), (("f", 1), ("y", 1), "V_f"), (("b", 1), ("y", 1), "V_b"),
        (("x", 2), ("f", 2), "W_f"), (("f", 1), ("f", 2), "U_f"), (("x", 2), ("b", 2), "W_b"),
        (("b", 3), ("b", 2), "U_b"), (("f", 2), ("y", 2), "V_f"), (("b", 2), ("y", 2), "V_b")]


def test_which_state_moves_which_output(monkeypatch):
    net = birnn.example(T=2, d=2)
    forth, back = {(("f", 1), 1), (("f", 1), 2), (("f", 2), 2)}, {(("b", 2), 2), (("b", 2), 1),
                                                                  (("b", 1), 1)}
    assert birnn_claims.dependencies(net) == (forth | back, forth | back)
    monkeypatch.setattr(birnn_claims, "edges", lambda T: [
        arrow for arrow in birnn.edges(T) if arrow[2] not in ("U_f", "V_b")])
    assert birnn_claims.dependencies(net) == (forth | back, forth - {(("f", 1), 2)})


@pytest.mark.parametrize("scale", [0.1, 1, 20])
def test_our_differences_count_where_npdl_agrees(monkeypatch, scale):
    net = birnn.example(T=2, d=2)
    net = birnn.Network(net.weights, net.x, scale * net.z, net.f_first, net.b_last)
    gradients, L = birnn.library_gradients(net)

    def says(now):
        monkeypatch.setattr(birnn_claims, "library_gradients", lambda _: now)
        return birnn_claims.sound(net)

    assert says((gradients, L * (1 + 5e-9))) is True
    assert not says((gradients, L * (1 + 1e-6))) and not says((gradients, L * (1 - 1e-6)))
    for name in birnn.WEIGHTS:
        assert not says((gradients | {name: gradients[name] * (1 + 1e-6)}, L))


def test_relative_errors():
    assert birnn.relative([1, 2], np.array([1, 4])) == 0.5
    assert birnn.relative(np.array([3.0]), np.array([-2.0])) == 2.5


def test_a_random_network_has_its_sizes():
    net = birnn.example(T=2, d=60, scale=2)
    assert [net.weights[name].std() for name in birnn.WEIGHTS] == pytest.approx([2] * 6, rel=0.1)
    assert net.f_first.std() == pytest.approx(0.5, rel=0.3) and net.x.std() > 0.8
    assert not np.allclose(net.x, net.z) and not np.allclose(net.f_first, net.b_last)
    rng = np.random.default_rng(0)
    rng.standard_normal((6, 60, 60))
    assert np.array_equal(net.x, rng.standard_normal((2, 60)))
    with pytest.raises(InputError, match="do not fit"):
        birnn.Network(net.weights, net.x[0], net.z, net.f_first, net.b_last)
    with pytest.raises(InputError, match="do not fit"):
        birnn.Network(net.weights, net.x[:0], net.z[:0], net.f_first, net.b_last)


# Question 4

def test_an_error_by_hand():
    W = np.array([[0.7, -0.3]])                             # m = 3: step 7/30, codes 3 and -2
    assert quantizer.relative_error(W, "floor", 3) == pytest.approx(
        math.sqrt((0.3 - 14 / 30) ** 2 / (0.49 + 0.09)))
    W = np.array([[1.0] * 64 + [0.01] * 64])                # with one step the second half is lost
    assert quantizer.relative_error(W, "nearest") == pytest.approx(0.01 / math.sqrt(1.0001))
    assert quantizer.relative_error(W, "blocks") == quantizer.relative_error(W, "nf4") == 0
    assert np.allclose(quantizer.normal_float(W), W)


def test_the_bare_formula_divides_by_zero_where_the_guarded_one_refuses():
    assert quantizer.bare_formula([1, 2, -1], 3) == quantizer.quantize_exactly([1, 2, -1], 3)[0]
    for arguments in (([1, 2], 1), ([0, 0], 4)):
        with pytest.raises(ZeroDivisionError):
            quantizer.bare_formula(*arguments)
    with pytest.raises(InputError, match="all values are 0"):
        quantizer.quantize_exactly([], 4)
    levels = quantizer.normal_float_levels()
    assert len(levels) == 16 and (levels[0], levels[7], levels[15]) == (-1, 0, 1)
    assert levels[8] == pytest.approx(0.0796, abs=1e-4)     # as the paper prints them
    assert levels[1] == pytest.approx(-0.6962, abs=1e-4)


SMALL = costs.Size(n=3, d=4, r=1, h=2)


def test_costs_of_a_small_layer():
    assert (costs.exact(SMALL, "FFN"), costs.exact(SMALL, "FFN", True)) == (48 + 24, 48 + 24 + 16)
    assert costs.exact(SMALL, "FFN", merged=True) == 48
    assert (costs.printed(SMALL, "FFN"), costs.printed(SMALL, "MHA")) == (60, 2 * (48 + 36) + 96)
    counts = costs.counted(SMALL, quantized=True)
    assert counts["MHA dequantization"] == 128 and counts["FFN dequantization"] == 16
    layer = costs.LowRankLayer(SMALL)
    assert layer.forward(np.ones((3, 4), "float32"))[1].total == costs.exact(
        SMALL, "FFN") + costs.exact(SMALL, "MHA")


def test_what_each_choice_computes_and_keeps():
    found = costs.choices(SMALL)
    assert {kinds: work for kinds, (_, work) in found.items()} == {
        ("LoRA", "LoRA"): 0, ("LoRA", "QLoRA"): 40, ("QLoRA", "LoRA"): 272,
        ("QLoRA", "QLoRA"): 312}
    assert found["LoRA", "LoRA"][0] == 4 * 16 * (4 * 2 + 1)
    found = costs.choices(costs.Size(n=3, d=4, r=2, h=2))
    assert found["QLoRA", "LoRA"][1] == 128 + 6 * 48 and found["LoRA", "QLoRA"][1] == 16 + 48


def test_counts_agree_at_every_small_size_or_not_at_all(monkeypatch):
    assert lora_cost_claims.totals_agree("FFN") is True is lora_cost_claims.totals_agree("MHA")
    true = costs.exact
    for odd in product(lora_cost_claims.SMALL, (False, True)):
        lora_cost_claims.totals_agree.cache_clear()
        monkeypatch.setattr(lora_cost_claims, "exact", lambda size, part, quantized, odd=odd: (
            true(size, part, quantized) + ((size, quantized) == odd)))
        assert lora_cost_claims.totals_agree("FFN") is False
    lora_cost_claims.totals_agree.cache_clear()


@pytest.mark.parametrize("steps", [1, 3])
def test_a_quantized_base_makes_its_matrix_in_each_forward_and_each_backward(steps):
    layer = costs.LowRankLayer(SMALL, 4, 4).F
    X = np.ones((3, 4), "float32")
    assert lora_cost_claims.dequantizations(layer, X, steps) == 2 * steps
    assert "weight" not in vars(layer.base)                 # counts no more


def test_ratios_of_counts():
    assert costs.ratios("FFN", False, [SMALL]) == (1.2, 1.2)
    assert costs.ratios("FFN", True, [SMALL, costs.Size(1, 1, 1, 1)]) == (88 / 60, 2)
    assert costs.ratios("FFN", False) == pytest.approx((1 + 1 / 2049, 1.5))
    assert costs.ratios("MHA", False)[1] == pytest.approx(
        costs.exact(size := costs.Size(1, 2048, 2048, 64), "MHA") / costs.printed(size, "MHA"))


def test_sizes_that_are_none():
    for sizes in ((0, 4, 1, 1), (1, 4, 0, 1), (1, 4, 5, 1), (1, 4, 1, 0)):
        with pytest.raises(InputError):
            costs.Size(*sizes)


def test_an_adapter_of_a_random_layer_is_small_and_not_zero():
    layer = costs.LowRankLayer(costs.Size(2, 40, 8, 1))
    for adapted in (layer.F, layer.heads[0]["Q"]):
        assert adapted.B.data.std() == pytest.approx(0.1, rel=0.2)
        assert abs(adapted.B.data.mean()) < 0.03
        assert not np.allclose(adapted.A.data, adapted.B.data)


def test_updates_have_the_ranks_and_sizes_that_are_said():
    W, thin, full = tradeoffs.pretrained(30)
    assert np.linalg.matrix_rank(thin) == 4 and np.linalg.matrix_rank(full) == 30
    assert W.std() == pytest.approx(1 / math.sqrt(30), rel=0.1)
    for update in (thin, full):
        assert np.linalg.norm(update) == pytest.approx(0.1 * np.linalg.norm(W))


def test_errors_of_least_squares():
    found = tradeoffs.fit_errors((0, 2, 16), draws=60)
    assert found[0][1] == pytest.approx(2 + 1, rel=0.15)    # the update's and the noise's variance
    assert found[16][0] == pytest.approx(1 - 16 / 32, rel=0.1)
    assert found[16][1] == pytest.approx(1 + 16 / 15, rel=0.15)
    assert 0 < found[16][2] < 0.15
    exact = tradeoffs.fit_errors((0, 1, 2, 16), noise=0, draws=5)
    assert exact[0][0] > exact[1][0] > 0.05 and max(exact[2][:2] + exact[16][:2]) < 1e-20
    louder = tradeoffs.fit_errors((16,), noise=2.0, draws=60)
    assert louder[16][0] == pytest.approx(4 * found[16][0])
    assert louder[16][1] == pytest.approx(4 * found[16][1])


def test_what_merging_into_codes_loses():
    moved, lost = tradeoffs.codes_moved(1e-6)
    assert moved == 0 and 0.9 < lost < 1.3                  # no code moves: all of it is lost
    moved, lost = tradeoffs.codes_moved(1.0)
    assert moved > 0.5 and 0.05 < lost < 0.5
    W = np.eye(3)
    with pytest.raises(InputError, match="between 0 and 3"):
        tradeoffs.low_rank(W, 4)
    assert tradeoffs.low_rank(W, 0)[0].shape == tradeoffs.low_rank(W, 3)[0][:, :0].shape
    assert tradeoffs.update_error(np.zeros((2, 2)), np.diag([3.0, 4.0]), 1) == pytest.approx(0.6)
