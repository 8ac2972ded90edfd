"""The exercises of document 001: their numbers on its data and on other data."""

import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exercises import d001_attention_eigenvectors as eigenvectors
from exercises import d001_attention_rank as rank
from exercises import d001_autoencoder as autoencoder
from exercises import d001_bptt_shapes as shapes
from exercises import d001_kl_identity as identity
from exercises.framework import run_script
from npdl.errors import InputError

VERDICTS = {  # module: how many claims of each verdict
    identity: {"confirmed": 4, "under-specified": 2, "convention": 1},
    shapes: {"no answer given": 5, "convention": 1, "under-specified": 1, "confirmed": 1},
    autoencoder: {"no answer given": 3, "under-specified": 2, "confirmed": 2, "slip": 1,
                  "convention": 1},
    eigenvectors: {"convention": 1, "confirmed": 1, "under-specified": 7, "no answer given": 1,
                   "wrong": 1, "slip": 1},
    rank: {"no answer given": 5},
}

quick = settings(max_examples=25, deadline=None, derandomize=True)
seeds = st.integers(0, 10**6)


@pytest.mark.parametrize("module", VERDICTS, ids=lambda module: module.__name__)
def test_verdicts(module):
    claims = module.claims()
    found = [claim.verdict for claim in claims]
    assert {verdict: found.count(verdict) for verdict in found} == VERDICTS[module]
    assert all(claim.document == "001" for claim in claims)


def test_a_script_runs_alone(tmp_path):
    done = subprocess.run([sys.executable, str(Path(rank.__file__))], cwd=tmp_path,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Vandermonde" in done.stdout


def test_picture(tmp_path, capsys):
    assert run_script(vars(eigenvectors), argv=["--figures", str(tmp_path)]) == 0
    assert (tmp_path / "d001_attention_entropy.png").stat().st_size > 10_000


# Question 1

@quick
@given(seeds, st.integers(1, 9))
def test_kl_identity(seed, V):
    case = identity.random_case(np.random.default_rng(seed), V)
    found = identity.terms(*case)
    assert found["left"] == pytest.approx(found["right"], abs=1e-12)
    assert found["left"] >= -1e-12
    tripled = identity.terms(*case, evidence=3 * identity.bayes(*case[1:])[0])
    assert tripled["right"] - tripled["left"] == pytest.approx(np.log(3))


@quick
@given(st.lists(st.tuples(*[st.integers(1, 50)] * 3), min_size=1, max_size=6))
def test_kl_identity_in_fractions(rows):
    q, prior, likelihood = zip(*rows, strict=True)
    q, prior = ([Fraction(v, sum(values)) for v in values] for values in (q, prior))
    assert identity.exact_ratios_agree(q, prior, [Fraction(v, 51) for v in likelihood])


def test_kl_sampling_and_descent():
    case = identity.random_case(np.random.default_rng(8))
    mean, error = identity.sampled_right(*case)
    assert abs(mean - identity.terms(*case)["left"]) < 4 * error < 0.2
    start, end, bound, evidence = identity.descend(*case)
    assert end < 1e-3 < start and bound == pytest.approx(evidence, abs=2 * end + 1e-9)


def test_bayes_refuses():
    for prior, likelihood in (([1.0], []), ([0.5, 0.6], [1, 1]), ([1.0, 0.0], [0, 1]),
                              ([0.5, 0.5], [1, 2])):
        with pytest.raises(InputError):
            identity.bayes(prior, likelihood)


# Question 2

@settings(max_examples=6, deadline=None, derandomize=True)
@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), seeds)
def test_shapes(n, m, p, seed):
    found = shapes.derivatives(n, m, p, seed)
    assert {name: array.shape for name, array in found.items()} == shapes.expected_shapes(n, m, p)
    _, output, _ = shapes.network(n, m, p, seed)
    V = output(np.eye(m))                                   # O = H V
    assert np.allclose(found["dO/dH"], np.einsum("ij,lk->ikjl", np.eye(n), V), atol=1e-9)
    wanted = 2 * np.einsum("ij,kl->ikjl", np.eye(n), V @ V.T)
    assert np.allclose(found["d2L/dH2"], wanted, atol=1e-6)


def test_shapes_refuse():
    with pytest.raises(InputError):
        shapes.derivatives(n=0)
    with pytest.raises(InputError):
        shapes.numerical_derivative(np.sum, np.ones(0))


def test_marks_that_are_not_printed():
    assert shapes.missing_marks() == {"Q2": (1, [1]), "Q3": (2, [3]), "Q4": (5, [1, 2])}
    assert shapes.missing_marks({"a": 7, "b": 2}, {"a": (None, 3), "b": (2,)}) == {"a": (4, [1])}


# Question 3

@settings(max_examples=10, deadline=None, derandomize=True)
@given(st.integers(1, 4), st.integers(1, 5), seeds)
def test_autoencoder(d_x, d_p, seed):
    net = autoencoder.example(d_x, d_p, seed=seed)
    own, slopes = autoencoder.gradients(net), autoencoder.numerical_gradients(net)
    if np.abs(autoencoder.forward(net)[0]).min() > 0.01:    # differences need both sides of 0
        for name, gradient in own.items():
            scale = max(np.abs(gradient).max(), 1e-3)
            assert np.abs(gradient - slopes[name]).max() < 1e-7 * scale
    assert np.allclose(autoencoder.library_gradients(net)[0], own["W_1"], atol=1e-11)


def test_autoencoder_against_torch():
    torch = pytest.importorskip("torch")
    net = autoencoder.example(seed=3)
    t = {name: torch.tensor(value) for name, value in net.items()}
    W_1 = t["W_1"].requires_grad_()
    h = W_1 @ t["x"] + t["b_1"]
    p = torch.relu(h)
    h.retain_grad()
    p.retain_grad()
    (((t["W_2"] @ p + t["b_2"] - t["x"]) ** 2).sum() / 2).backward()
    own = autoencoder.gradients(net)
    for name, tensor in (("d_1", p), ("d_2", h), ("W_1", W_1)):
        assert np.allclose(own[name], tensor.grad.numpy(), atol=1e-12)


def test_autoencoder_refuses():
    net = autoencoder.example()
    with pytest.raises(InputError, match="do not fit"):
        autoencoder.forward(net | {"x": net["x"][:-1]})


# Question 4

@quick
@given(seeds, st.integers(1, 9))
def test_common_eigenvectors(seed, d):
    rng = np.random.default_rng(seed)
    P, (lam, mu), X = eigenvectors.orthogonal(d, rng), rng.standard_normal((2, d)), (
        rng.standard_normal((6, d)))
    W_Q, W_K = eigenvectors.symmetric(P, lam), eigenvectors.symmetric(P, mu)
    scores = eigenvectors.scores_by_eigenvectors(X, P, lam, mu)
    assert np.allclose(X @ W_Q @ (X @ W_K).T, scores)
    powers = np.exp(scores / np.sqrt(d) - (scores / np.sqrt(d)).max(1, keepdims=True))
    A = eigenvectors.attention_weights(X, W_Q, W_K)
    assert np.allclose(A, powers / powers.sum(1, keepdims=True))


@quick
@given(seeds, st.integers(1, 12))
def test_no_eigenvector_is_orthogonal_to_all(seed, d):
    rng = np.random.default_rng(seed)
    P_Q, P_K = eigenvectors.orthogonal(d, rng), eigenvectors.orthogonal(d, rng)
    assert np.allclose(((P_Q.T @ P_K) ** 2).sum(0), 1)
    assert eigenvectors.largest_overlap(P_Q, P_K) >= 1 / np.sqrt(d) - 1e-12


@quick
@given(seeds, st.integers(2, 8))
def test_orthogonal_ranges_are_uniform(seed, d):
    rng = np.random.default_rng(seed)
    P, X = eigenvectors.orthogonal(d, rng), rng.standard_normal((5, d))
    values, first = rng.standard_normal(d), np.arange(d) < d // 2
    A = eigenvectors.attention_weights(X, eigenvectors.symmetric(P, values * first),
                                       eigenvectors.symmetric(P, values * ~first))
    assert np.allclose(A, 1 / 5) and eigenvectors.entropy(A) == pytest.approx(1)


def test_eigenvectors_refuse():
    with pytest.raises(InputError, match="power of 2"):
        eigenvectors.hadamard(6)
    with pytest.raises(InputError, match="must be orthogonal"):
        eigenvectors.symmetric(np.ones((2, 2)), np.ones(2))
    assert eigenvectors.entropy(np.eye(4)) == 0


@quick
@given(seeds, st.integers(1, 4))
def test_rank_bounds(seed, n):
    rng = np.random.default_rng(seed)
    M, V = rng.integers(-2, 3, (n, n)), rng.integers(-2, 3, (n, n))
    found = rank.ranks(M, V)
    assert found["p"] == np.linalg.matrix_rank(M) and found["q"] == np.linalg.matrix_rank(V)
    assert found["weights"] + found["q"] - n <= found["attention"] <= found["q"]
    assert found["attention"] <= found["weights"]
    assert rank.library_rank(M, V) == found["attention"]


@pytest.mark.parametrize("n", [2, 3, 5, 6])
def test_rank_one_scores_full_rank_weights(n):
    line = np.arange(n)
    found = rank.ranks(np.outer(line, line), np.eye(n, dtype=int))
    assert found == {"p": 1, "q": n, "weights": n, "attention": n}


def test_rank_refuses():
    with pytest.raises(InputError):
        rank.ranks(np.ones((2, 2)), np.ones((2, 2), int))
    with pytest.raises(InputError):
        rank.exact_rank([])
