"""Document 000: the exercises' numbers, against facts made by hand and on other data."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exercises.d000 import beam_algorithm as algorithm
from exercises.d000 import birnn_gradients, counting, normalisation, quantizer
from exercises.d000 import birnn_graph as graph
from exercises.d000 import birnn_network as birnn
from exercises.d000 import decoding_trees as decoding
from exercises.d000 import lora_costs as costs
from exercises.d000 import lora_layer as lora
from exercises.d000 import lora_tradeoffs as tradeoffs
from exercises.d000 import search_limits as limits
from exercises.d000.birnn_network import Network, forward
from exercises.d000.lora_layer import Size
from exercises.framework import FAILED
from npdl.decoding import Tree, beam_search, exhaustive_search, greedy

WRONG = {  # module: the beginning of each claim that is wrong
    normalisation: ("Batch normalisation averages", "Instance normalisation averages",
                    "The 8 printed layer means",
                    "The 8 printed layer variances", "The 4 printed instance variances"),
    counting: ("Memory is a second reason",),
    algorithm: ("Started from B equal beams", "The memory is O(B T)"),
    decoding: ("The probability of the first word", "The two best of step 2",
               "Step 3 expands", "The best of the final beam", "Beam search of width 2 finds"),
    limits: (),
    birnn_gradients: ("Both recursions express", "db_t / dW_b is", "df_t / dU_f is"),
    quantizer: ("Dequantizing gives the original",),
    costs: ("Dequantization adds O(3 d^2)",),
    tradeoffs: (),
}
quick = settings(max_examples=25, deadline=None, derandomize=True)
SMALL = lora.Size(n=3, d=4, r=1, h=2)
fractions = st.fractions(-5, 5, max_denominator=60)
sizes = st.builds(lambda n, d, r, h: lora.Size(n, d, min(r, d), h), st.integers(1, 9),
                  st.integers(1, 8), st.integers(1, 8), st.integers(1, 3))


@pytest.mark.parametrize("module", WRONG, ids=lambda module: module.__name__)
def test_errors_found(module):
    claims = module.claims()
    wrong = [claim.claim for claim in claims if claim.verdict in ("wrong", "slip")]
    assert len(wrong) == len(WRONG[module])
    for text, start in zip(wrong, WRONG[module], strict=True):
        assert text.startswith(start)
    assert all(claim.document == "000" and claim.verdict != FAILED for claim in claims)


def quickselect(values, k):
    """Comparisons with the first value as pivot, by recursion."""
    if not k or len(values) <= k:
        return 0
    pivot, *rest = values
    above = [value for value in rest if value > pivot]
    if len(above) >= k:
        return len(rest) + quickselect(above, k)
    return len(rest) + quickselect([v for v in rest if v < pivot], k - len(above) - 1)


@pytest.mark.parametrize("size, width", [(1, 1), (50, 1), (50, 7), (50, 50), (400, 20)])
def test_selecting(size, width):
    scan = algorithm.comparisons_to_select(size, width, "scan")
    assert scan == size * width
    for method in ("heap", "quickselect"):
        assert algorithm.comparisons_to_select(size, width, method) <= 20 * size


def test_algorithm_1_counts_what_it_does():
    table = np.log(np.full((4, 3), 1 / 3))
    beams, counts = algorithm.algorithm_1(table, 2, 2)
    assert counts == {"scores": 2 * 6, "comparisons": 2 * 2 * 6, "numbers": 6 + 2 * 2}
    assert [tokens for tokens, _ in beams] == [(0, 0), (0, 1)]  # of equal scores the first
    steep = np.log([[0.6, 0.4], [0.3, 0.7], [0.2, 0.8]])        # after 0, after 1, at the start
    assert algorithm.algorithm_1(steep, 2, 2)[0] == [((1, 1), pytest.approx(math.log(0.56)))] * 2
    assert beams[0][1] == pytest.approx(2 * math.log(1 / 3))


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


def test_2_3_best_first():
    scores = {(0, 1): math.log(0.25), (2,): math.log(0.5), (1, 1): math.log(0.125)}
    assert algorithm.spelled([(0, 1), (2,)], scores) == "z 0.500, xy 0.250"
    assert algorithm.spelled(scores, scores) == "z 0.500, xy 0.250, yy 0.125"


def test_the_graphs_arrows_of_two_steps():
    assert graph.edges(2) == [
        (("x", 1), ("f", 1), "W_f"), (("f", 0), ("f", 1), "U_f"), (("x", 1), ("b", 1), "W_b"),
        (("b", 2), ("b", 1), "U_b"), (("f", 1), ("y", 1), "V_f"), (("b", 1), ("y", 1), "V_b"),
        (("x", 2), ("f", 2), "W_f"), (("f", 1), ("f", 2), "U_f"), (("x", 2), ("b", 2), "W_b"),
        (("b", 3), ("b", 2), "U_b"), (("f", 2), ("y", 2), "V_f"), (("b", 2), ("y", 2), "V_b")]


@pytest.mark.parametrize("T", [1, 3, 7])
def test_birnn_graph(T):
    arrows = graph.edges(T)
    assert len(arrows) == 6 * T
    assert len({node for start, end, _ in arrows for node in (start, end)}) == 4 * T + 2
    assert not any({start[0], end[0]} == {"f", "b"} for start, end, _ in arrows)


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


def test_which_state_moves_which_output(monkeypatch):
    net = birnn.example(T=2, d=2)
    forth, back = {(("f", 1), 1), (("f", 1), 2), (("f", 2), 2)}, {(("b", 2), 2), (("b", 2), 1),
                                                                  (("b", 1), 1)}
    assert graph.dependencies(net) == (forth | back, forth | back)
    arrows = graph.edges(2)
    monkeypatch.setattr(graph, "edges", lambda T: [
        arrow for arrow in arrows if arrow[2] not in ("U_f", "V_b")])
    assert graph.dependencies(net) == (forth | back, forth - {(("f", 1), 2)})


@pytest.mark.parametrize("scale", [0.1, 1, 20])
def test_our_differences_count_where_npdl_agrees(monkeypatch, scale):
    net = birnn.example(T=2, d=2)
    net = birnn.Network(net.weights, net.x, scale * net.z, net.f_first, net.b_last)
    gradients, L = birnn.library_gradients(net)

    def says(now):
        monkeypatch.setattr(birnn, "library_gradients", lambda _: now)
        return birnn.sound(net)

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


@settings(max_examples=8, deadline=None, derandomize=True)
@given(st.integers(1, 4), st.integers(1, 3), st.integers(0, 10**6))
def test_birnn_gradients(T, d, seed):
    net = birnn.example(T, d, seed)
    g, (library, L) = birnn.document_gradients(net), birnn.library_gradients(net)
    assert L == pytest.approx(birnn.forward(net)[3], rel=1e-12)
    for name in ("W_b", "U_f"):
        scale = np.abs(library[name]).max()
        assert np.abs(g[name] - library[name]).max() < 1e-11 * scale
        assert np.abs(birnn.weight_slopes(net, name) - g[name]).max() < 1e-7 * scale
    for side in "fb":
        for t in range(1, T + 1):
            slopes = birnn.state_slopes(net, side, t)
            assert np.abs(g["total", side, t] - slopes).max() < 1e-7 * np.abs(slopes).max()


def test_birnn_against_torch():
    torch = pytest.importorskip("torch")
    net = birnn.example(T=5, d=3, seed=4)
    weights = {k: torch.tensor(v, requires_grad=True) for k, v in net.weights.items()}
    x, f, b = torch.tensor(net.x), [torch.tensor(net.f_first)], [torch.tensor(net.b_last)]
    for t in range(5):
        f.append(torch.tanh(weights["W_f"] @ x[t] + weights["U_f"] @ f[-1]))
        b.append(torch.tanh(weights["W_b"] @ x[4 - t] + weights["U_b"] @ b[-1]))
    y = torch.stack([weights["V_f"] @ f[t] + weights["V_b"] @ b[6 - t] for t in range(1, 6)])
    ((torch.tensor(net.z) - y) ** 2).sum().backward()
    g = birnn.document_gradients(net)
    for name in ("W_b", "U_f"):
        assert np.allclose(g[name], weights[name].grad.numpy(), rtol=1e-10, atol=1e-12)


def test_3_the_example_forwards():
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


def test_3_all_that_is_given_is_shown():
    ten = np.arange(1.0, 11.0).reshape(5, 2)
    net = Network(birnn.small().weights, ten[:3], -ten[:3], ten[3], ten[4])
    shown = birnn.given(net)
    assert {name: shown.pop(name).shape for name in net.weights} == dict.fromkeys(
        ("W_f", "U_f", "V_f", "W_b", "U_b", "V_b"), (2, 2))
    assert {name: vector.tolist() for name, vector in shown.items()} == {
        "x₁": [1, 2], "x₂": [3, 4], "x₃": [5, 6], "z₁": [-1, -2], "z₂": [-3, -4],
        "z₃": [-5, -6], "f₀": [7, 8], "b₄": [9, 10]}


@pytest.mark.parametrize("N, T", [(1, 4), (2, 3), (3, 3), (5, 2)])
def test_counting(N, T):
    count, scorer = counting.listed(N, T)
    assert count == N**T == counting.count_sequences(N, T)
    assert scorer.rows * N == counting.probabilities_read(N, T)
    assert counting.total_probability(N, T) == pytest.approx(1)
    assert scorer.most_alive <= T + 1
    if N > 1:
        assert counting.listed(N, T, bos_recurs=False)[0] == (N - 1) ** T


@quick
@given(st.integers(2, 6), st.integers(1, 4), st.integers(1, 5), st.integers(0, 10**6))
def test_algorithm_1(N, width, steps, seed):
    table = counting.random_model(N, seed)
    literal, counts = algorithm.algorithm_1(table, width, steps)
    assert len({tokens for tokens, _ in literal}) == 1      # copies of the greedy sequence
    assert counts["scores"] == steps * width * N
    if width <= N:
        single, _ = algorithm.algorithm_1(table, width, steps, copies=1)
        found = beam_search(counting.CountingScorer(table), width, steps).finished
        assert np.allclose([total for _, total in single], [h.log_prob for h in found])


def test_the_states_alive_in_a_search():
    _, scorer = counting.listed(3, 3)
    assert (scorer.most_alive, scorer.rows) == (4, 1 + 3 + 9)   # one path, and a row a prefix
    assert scorer.alive == 0
    assert counting.CountingScorer(np.zeros((3, 2))).most_alive == 0


def test_bos_is_the_word_that_can_be_left_out():
    scorer = counting.CountingScorer(np.zeros((3, 2)), without=(0,))
    log_p, _ = scorer.start()
    assert log_p.tolist() == [[-np.inf, 0.0]]


def test_numbers_of_sequences_and_probabilities():
    assert counting.count_sequences(4, 0) == 1
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


def test_2_how_the_cost_grows():
    assert counting.growth(3, 2) == (4, 9) and counting.growth(2, 3) == (8, 8)
    assert counting.years_of(365 * 24 * 3600 * 50, 10) == 5


def test_the_documents_tree():
    assert decoding.decode(decoding.PRINTED_TREE, "greedy") == [
        (("the", "red", "rectangle"), pytest.approx(-9.7))]
    steps = decoding.beam_steps(decoding.PRINTED_TREE, max_len=2)
    assert [(words, kept) for words, _, kept in steps[1]] == [
        (("a", "blue"), True), (("a", "red"), True), (("the", "red"), False),
        (("the", "green"), False)]


@quick
@given(st.floats(-12, -0.7), st.floats(-12, -0.7))
def test_greedys_sequence_never_survives(first, second):
    beam = decoding.decode(decoding.completed({"cube": first, "disc": second}))
    assert ("the", "red", "rectangle") not in dict(beam)
    assert beam[0][1] == pytest.approx(max(-9.9, -4.9 + first, -4.9 + second))
    assert (("a", "blue", "square") in dict(beam)) or min(first, second) >= -5.0


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


def test_2_4_branches_and_candidates():
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


def test_2_4_each_bound_decides():
    """"a red" has −4.9, the two known sums are −9.9 and −10.3."""
    known = [("a", "blue", "square"), ("a", "blue", "ellipse")]
    right = -5.0, -5.4
    assert decoding.bounds_decide(right, known) and decoding.bounds_decide(right, known, 0.2)
    assert not decoding.bounds_decide(right, known[::-1])
    assert not decoding.bounds_decide(right, known, -0.01)
    for wrong in ((-5.1, -5.4), (-4.9, -5.4), (-5.0, -5.5), (-5.0, -5.3)):
        assert not decoding.bounds_decide(wrong, known)


def test_counts_agree_at_every_small_size_or_not_at_all(monkeypatch):
    assert costs.totals_agree("FFN") is True is costs.totals_agree("MHA")
    true = lora.exact
    for odd in product(costs.SMALL, (False, True)):
        costs.totals_agree.cache_clear()
        monkeypatch.setattr(costs, "exact", lambda size, part, quantized, odd=odd: (
            true(size, part, quantized) + ((size, quantized) == odd)))
        assert costs.totals_agree("FFN") is False
    costs.totals_agree.cache_clear()


def test_4_4_the_products_by_their_shapes():
    rows = costs.products(Size(n=2, d=3, r=1, h=5))
    assert [row[2:] for row in rows] == [
        ((2, 3, 3), 15), ((2, 3, 1), 15), ((2, 1, 3), 15), ((2, 3, 2), 5), ((2, 2, 3), 5),
        ((2, 15, 3), 1), ((2, 3, 3), 1), ((2, 3, 1), 1), ((2, 1, 3), 1)]


def test_costs_of_a_small_layer():
    assert (lora.exact(SMALL, "FFN"), lora.exact(SMALL, "FFN", True)) == (48 + 24, 48 + 24 + 16)
    assert lora.exact(SMALL, "FFN", merged=True) == 48
    assert (lora.printed(SMALL, "FFN"), lora.printed(SMALL, "MHA")) == (60, 2 * (48 + 36) + 96)
    counts = lora.counted(SMALL, quantized=True)
    assert counts["MHA dequantization"] == 128 and counts["FFN dequantization"] == 16
    layer = lora.LowRankLayer(SMALL)
    assert layer.forward(np.ones((3, 4), "float32"))[1].total == lora.exact(
        SMALL, "FFN") + lora.exact(SMALL, "MHA")


def test_what_each_choice_computes_and_keeps():
    found = lora.choices(SMALL)
    assert {kinds: work for kinds, (_, work) in found.items()} == {
        ("LoRA", "LoRA"): 0, ("LoRA", "QLoRA"): 40, ("QLoRA", "LoRA"): 272,
        ("QLoRA", "QLoRA"): 312}
    assert found["LoRA", "LoRA"][0] == 4 * 16 * (4 * 2 + 1)
    found = lora.choices(lora.Size(n=3, d=4, r=2, h=2))
    assert found["QLoRA", "LoRA"][1] == 128 + 6 * 48 and found["LoRA", "QLoRA"][1] == 16 + 48


@pytest.mark.parametrize("steps", [1, 3])
def test_a_quantized_base_makes_its_matrix_in_each_forward_and_each_backward(steps):
    layer = lora.LowRankLayer(SMALL, 4, 4).F
    X = np.ones((3, 4), "float32")
    assert costs.dequantizations(layer, X, steps) == 2 * steps
    assert "weight" not in vars(layer.base)                 # counts no more


def test_ratios_of_counts():
    assert lora.ratios("FFN", False, [SMALL]) == (1.2, 1.2)
    assert lora.ratios("FFN", True, [SMALL, lora.Size(1, 1, 1, 1)]) == (88 / 60, 2)
    assert lora.ratios("FFN", False) == pytest.approx((1 + 1 / 2049, 1.5))
    assert lora.ratios("MHA", False)[1] == pytest.approx(
        lora.exact(size := lora.Size(1, 2048, 2048, 64), "MHA") / lora.printed(size, "MHA"))


def test_an_adapter_of_a_random_layer_is_small_and_not_zero():
    layer = lora.LowRankLayer(lora.Size(2, 40, 8, 1))
    for adapted in (layer.F, layer.heads[0]["Q"]):
        assert adapted.B.data.std() == pytest.approx(0.1, rel=0.2)
        assert abs(adapted.B.data.mean()) < 0.03
        assert not np.allclose(adapted.A.data, adapted.B.data)


@quick
@given(sizes, st.booleans())
def test_costs(size, quantized):
    for part in ("MHA", "FFN"):
        assert sum(lora.counted(size, part, quantized).values()) == lora.exact(
            size, part, quantized)
    layer = lora.LowRankLayer(size, *([4, 4] if quantized else [None, None]))
    assert layer.trainable("FFN") == 2 * size.d * size.r
    assert layer.trainable("MHA") == 6 * size.h * size.d * size.r
    X = np.random.default_rng(0).standard_normal((size.n, size.d)).astype("float32")
    for adapter_first in (False, True):
        y, _ = layer.forward(X, adapter_first)
        assert np.allclose(y, layer.library_forward(X), rtol=1e-3, atol=1e-4)


def test_costs_numbers():
    size = lora.Size(n=32, d=64, r=4, h=8)
    assert lora.counted(size, "MHA", True)["MHA dequantization"] == 4 * 8 * 64**2
    found = lora.choices(size)
    assert found["LoRA", "LoRA"] == (4 * 33 * 64**2, 0)
    assert min(found, key=lambda key: found[key][0]) == ("QLoRA", "QLoRA")
    for part, quantized in (("FFN", False), ("FFN", True), ("MHA", False), ("MHA", True)):
        low, high = lora.ratios(part, quantized)
        assert 0.9 < low <= high < 8


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
    assert tradeoffs.low_rank(W, 0)[0].shape == tradeoffs.low_rank(W, 3)[0][:, :0].shape
    assert tradeoffs.update_error(np.zeros((2, 2)), np.diag([3.0, 4.0]), 1) == pytest.approx(0.6)


@quick
@given(st.integers(2, 9), st.integers(2, 9), st.integers(0, 10**6))
def test_best_adapter(d_in, d_out, seed):
    rng = np.random.default_rng(seed)
    W, update = rng.standard_normal((2, d_in, d_out))
    singular = np.linalg.svd(update, compute_uv=False)
    for r in range(1, min(d_in, d_out) + 1):
        missed = math.sqrt((singular[r:] ** 2).sum() / (singular**2).sum())
        assert tradeoffs.update_error(W, update, r) == pytest.approx(missed, abs=1e-7)


def test_tradeoffs():
    found = tradeoffs.fit_errors((0, 1, 2, 8), draws=20)
    assert [found[r][0] for r in found] == sorted((v[0] for v in found.values()), reverse=True)
    assert min(found, key=lambda r: found[r][1]) == 2
    assert tradeoffs.codes_moved(1e-3)[0] == 0
    assert tradeoffs.codes_moved(1.0)[0] > 0.3


def test_4_the_adapter_on_both_bases():
    codes, step = tradeoffs.packed()
    assert codes.tolist() == [[7, -3], [4, -6]] and step == pytest.approx(0.1)
    plain, quantized = tradeoffs.library(), tradeoffs.library(4)
    assert plain.forward(tradeoffs.X)[0] == pytest.approx(np.array([[1.125, -0.725]]))
    assert quantized.forward(tradeoffs.X)[0] == pytest.approx(np.array([[1.1, -0.8]]), abs=1e-6)
    assert plain.count_params() == quantized.count_params() == 4


def test_normalisation_numbers():
    means, variances = normalisation.exact_statistics(normalisation.TENSOR, (0, 2))
    assert means == [Fraction(31, 12), Fraction(35, 12)]
    assert variances == [Fraction(227, 144), Fraction(179, 144)]
    means, variances = normalisation.exact_statistics(normalisation.TENSOR, (1, 2))
    assert means == [Fraction(19, 6), 2, Fraction(5, 2), Fraction(10, 3)]
    assert variances == [Fraction(65, 36), 1, Fraction(11, 12), Fraction(8, 9)]


@pytest.mark.parametrize("kind", ["batch", "layer", "instance"])
def test_normalisation_against_torch(kind):
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(1).standard_normal((5, 3, 4))
    layer = {"batch": torch.nn.BatchNorm1d(3, eps=1e-14, affine=False),
             "layer": torch.nn.LayerNorm((3, 4), eps=1e-14, elementwise_affine=False),
             "instance": torch.nn.InstanceNorm1d(3, eps=1e-14)}[kind].double()
    axes = normalisation.DEFINED_AXES[kind]
    means, variances = normalisation.exact_statistics(x, axes)
    kept = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
    mean, std = (np.array(v, float).reshape(kept) for v in (means, variances))
    assert np.allclose((x - mean) / np.sqrt(std), layer(torch.from_numpy(x)).numpy(), atol=1e-10)


@quick
@given(st.integers(0, 10**6), st.sampled_from([(0,), (2,), (1, 2), (0, 2), (0, 1, 2)]))
def test_exact_statistics(seed, axes):
    x = np.random.default_rng(seed).integers(-9, 10, (3, 2, 4))
    means, variances = normalisation.exact_statistics(x, axes)
    assert np.allclose(np.array(means, float), x.mean(axes).ravel())
    assert np.allclose(np.array(variances, float), x.var(axes).ravel())
    printed = " ".join(f"{float(v):.3f}" for v in means)
    assert normalisation.misprints(printed, means) == []
    assert normalisation.misprints(printed, [v + Fraction(1, 100) for v in means])


def test_a_group_of_two_has_its_variances():
    means, variances = normalisation.exact_statistics([[[0, 2]]], (2,), correction=1)
    assert (means, variances) == ([1], [2])
    assert normalisation.exact_statistics([[[0, 2]]], (2,))[1] == [1]


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


def test_1_first_group_and_table():
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


def test_an_error_by_hand():
    W = np.array([[0.7, -0.3]])                             # m = 3: step 7/30, codes 3 and -2
    assert quantizer.relative_error(W, "floor", 3) == pytest.approx(
        math.sqrt((0.3 - 14 / 30) ** 2 / (0.49 + 0.09)))
    W = np.array([[1.0] * 64 + [0.01] * 64])                # with one step the second half is lost
    assert quantizer.relative_error(W, "nearest") == pytest.approx(0.01 / math.sqrt(1.0001))
    assert quantizer.relative_error(W, "blocks") == quantizer.relative_error(W, "nf4") == 0
    assert np.allclose(quantizer.normal_float(W), W)


def test_the_formula_divides_by_zero_for_one_bit_and_for_zeros():
    assert quantizer.quantize_exactly([1, 2, -1], 3) == ([1, 3, -2], Fraction(2, 3))
    for arguments in (([1, 2], 1), ([0, 0], 4)):
        with pytest.raises(ZeroDivisionError):
            quantizer.quantize_exactly(*arguments)
    levels = quantizer.normal_float_levels()
    assert len(levels) == 16 and (levels[0], levels[7], levels[15]) == (-1, 0, 1)
    assert levels[8] == pytest.approx(0.0796, abs=1e-4)     # as the paper prints them
    assert levels[1] == pytest.approx(-0.6962, abs=1e-4)


@quick
@given(st.lists(fractions, min_size=1, max_size=12).filter(any), st.integers(2, 10))
def test_quantizer(values, bits):
    top = 2 ** (bits - 1) - 1
    codes, step = quantizer.quantize_exactly(values, bits)
    nearest, _ = quantizer.quantize_exactly(values, bits, "nearest")
    for value, low, near in zip(values, codes, nearest, strict=True):
        assert -top <= low <= top and -top <= near <= top
        assert 0 <= value - low * step < step
        assert abs(value - near * step) <= step / 2
    again, _ = quantizer.quantize_exactly([top * step, *(code * step for code in codes)], bits)
    assert again[1:] == codes


def test_normal_float():
    levels = quantizer.normal_float_levels()
    published = [-1, -0.6962, -0.5251, -0.3949, -0.2844, -0.1848, -0.0911, 0,
                 0.0796, 0.1609, 0.2461, 0.3379, 0.4407, 0.5626, 0.7230, 1]
    assert np.allclose(levels, published, atol=1e-4)
    W = np.array([levels * 3, levels * 0.5])
    assert np.allclose(quantizer.normal_float(W, block=16), W)


def test_4_4_a_quantizer_there_and_back():
    assert quantizer.there_and_back((5, -1), (2, -1), 2) == ([4, -2], [1, 1])
    assert quantizer.patterns(4) == (16, 15, 7)


@quick
@given(st.integers(2, 3), st.integers(2, 4), st.integers(0, 10**6))
def test_a_full_beam_is_exhaustive(N, T, seed):
    scorer = Tree(limits.random_tree(np.random.default_rng(seed), N, T))
    best = exhaustive_search(scorer, T).best
    assert beam_search(scorer, N ** (T - 1), T).best.tokens == best.tokens


@pytest.mark.parametrize("width, T", [(1, 3), (2, 5), (5, 4)])
def test_rows_scored(width, T):
    assert limits.rows_scored("beam", 9, T, width) == 1 + (T - 1) * width
    assert limits.rows_scored("greedy", 9, T) == T


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


def test_2_5_the_best_of_the_first_words_kept(monkeypatch):
    assert [limits.best_of(width)[:2] for width in (1, 2, 3)] == [
        ("a", "u"), ("b", "u"), ("c", "u")]
    monkeypatch.setattr(limits, "PROBABILITIES", {
        "a": (0.05, {"u": 1.0}), "b": (0.6, {"u": 0.2, "v": 0.5, "w": 0.3}),
        "c": (0.35, {"y": 0.1, "z": 0.9})})
    assert limits.best_of(1) == ("b", "v", pytest.approx(0.3))
    assert limits.best_of(2) == ("c", "z", pytest.approx(0.315))
