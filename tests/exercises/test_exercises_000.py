"""Document 000, Questions 1 and 2: numbers against facts made by hand, and on other data."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exercises.d000 import beam_algorithm as algorithm
from exercises.d000 import counting, normalisation
from exercises.d000 import decoding_trees as decoding
from exercises.d000 import search_limits as limits
from npdl.decoding import Tree, beam_search, exhaustive_search, greedy

quick = settings(max_examples=25, derandomize=True)


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
    assert normalisation.exact_statistics([[[0, 2]]], (2,)) == ([1], [1])


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
