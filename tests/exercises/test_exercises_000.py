"""The exercises of document 000: their numbers on its data and on other data."""

import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exercises import d000_beam_algorithm as algorithm
from exercises import d000_birnn as birnn
from exercises import d000_counting as counting
from exercises import d000_decoding as decoding
from exercises import d000_lora_costs as costs
from exercises import d000_lora_tradeoffs as tradeoffs
from exercises import d000_normalisation as normalisation
from exercises import d000_quantizer as quantizer
from exercises import d000_search_limits as limits
from exercises.framework import FAILED, run_script
from npdl.decoding import Tree, beam_search, exhaustive_search
from npdl.errors import InputError

MODULES = (algorithm, birnn, counting, decoding, costs, tradeoffs, normalisation, quantizer, limits)

WRONG = {  # module: the beginning of each claim that is wrong
    normalisation: ("Batch normalisation averages", "Instance normalisation averages",
                    "The 8 printed layer means",
                    "The 8 printed layer variances", "The 4 printed instance variances"),
    counting: ("Memory is a second reason",),
    algorithm: ("Started from B equal beams", "The memory is O(B T)"),
    decoding: ("The probability of the first word", "The two best of step 2",
               "Step 3 expands", "The best of the final beam", "Beam search of width 2 finds"),
    limits: (),
    birnn: ("Both recursions express", "db_t / dW_b is", "df_t / dU_f is"),
    quantizer: ("Dequantizing gives the original",),
    costs: ("Dequantization adds O(3 d^2)",),
    tradeoffs: (),
}

quick = settings(max_examples=25, deadline=None, derandomize=True)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_errors_found(module):
    claims = module.claims()
    wrong = [claim.claim for claim in claims if claim.verdict in ("wrong", "slip")]
    assert len(wrong) == len(WRONG[module])
    for text, start in zip(wrong, WRONG[module], strict=True):
        assert text.startswith(start)
    assert all(claim.document == "000" and claim.verdict != FAILED for claim in claims)


@pytest.mark.slow
def test_a_script_runs_alone(tmp_path):
    path = Path(normalisation.__file__)
    done = subprocess.run([sys.executable, str(path), "--figures", str(tmp_path)], cwd=tmp_path,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "14/9" in done.stdout and (tmp_path / "d000_normalisation_axes.png").exists()


@pytest.mark.parametrize("module", [decoding, birnn, quantizer])
def test_pictures(module, tmp_path, capsys):
    assert run_script(vars(module), argv=["--figures", str(tmp_path)]) == 0
    pictures = list(tmp_path.glob("*.png"))
    assert pictures and all(path.stat().st_size > 10_000 for path in pictures)


# Question 1

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


def test_normalisation_refuses():
    with pytest.raises(InputError, match="must be \\(N, C, L\\)"):
        normalisation.exact_statistics(np.ones((2, 3)), (0,))
    with pytest.raises(InputError, match="choose some of"):
        normalisation.exact_statistics(normalisation.TENSOR, (3,))
    with pytest.raises(InputError, match="n - 1"):
        normalisation.exact_statistics(np.ones((1, 2, 1)), (0,), correction=1)


# Question 2

@pytest.mark.parametrize("N, T", [(1, 4), (2, 3), (3, 3), (5, 2)])
def test_counting(N, T):
    count, scorer = counting.listed(N, T)
    assert count == N**T == counting.count_sequences(N, T)
    assert scorer.rows * N == counting.probabilities_read(N, T)
    assert counting.total_probability(N, T) == pytest.approx(1)
    assert scorer.most_alive <= T + 1
    if N > 1:
        assert counting.listed(N, T, bos_recurs=False)[0] == (N - 1) ** T


def test_counting_refuses():
    with pytest.raises(InputError):
        counting.count_sequences(0, 3)
    with pytest.raises(InputError):
        counting.CountingScorer(np.zeros((3, 3)))


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


@pytest.mark.parametrize("size, width", [(1, 1), (50, 1), (50, 7), (50, 50), (400, 20)])
def test_selecting(size, width):
    scan = algorithm.comparisons_to_select(size, width, "scan")
    assert scan == size * width
    for method in ("heap", "quickselect"):
        assert algorithm.comparisons_to_select(size, width, method) <= 20 * size
    with pytest.raises(InputError):
        algorithm.comparisons_to_select(size, size + 1, "heap")
    with pytest.raises(InputError):
        algorithm.comparisons_to_select(size, width, "bubble")


def test_the_documents_tree():
    assert decoding.decode(decoding.PRINTED_TREE, "greedy") == [
        (("the", "red", "rectangle"), pytest.approx(-9.7))]
    steps = decoding.beam_steps(decoding.PRINTED_TREE, max_len=2)
    assert [(words, kept) for words, _, kept in steps[1]] == [
        (("a", "blue"), True), (("a", "red"), True), (("the", "red"), False),
        (("the", "green"), False)]
    with pytest.raises(InputError, match="no branch"):
        decoding.path_sum(decoding.PRINTED_TREE, ("the", "blue"))


@quick
@given(st.floats(-12, -0.7), st.floats(-12, -0.7))
def test_greedys_sequence_never_survives(first, second):
    beam = decoding.decode(decoding.completed({"cube": first, "disc": second}))
    assert ("the", "red", "rectangle") not in dict(beam)
    assert beam[0][1] == pytest.approx(max(-9.9, -4.9 + first, -4.9 + second))
    assert (("a", "blue", "square") in dict(beam)) or min(first, second) >= -5.0


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


def test_random_tree_refuses():
    with pytest.raises(InputError):
        limits.random_tree(np.random.default_rng(0), 0, 2)
