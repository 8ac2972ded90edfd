"""Document 001: the exercises' numbers, against facts made by hand and on other data."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exercises.d001 import attention_eigenvectors as eigenvectors
from exercises.d001 import attention_rank as rank
from exercises.d001 import autoencoder_gradients as autoencoder
from exercises.d001 import bptt_shapes as shapes
from exercises.d001 import kl_identity as identity

quick = settings(max_examples=25, derandomize=True)
seeds = st.integers(0, 10**6)


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


def test_matrices_of_known_eigenvectors():
    assert eigenvectors.hadamard(1).tolist() == [[1]] and eigenvectors.entropy(np.eye(4)) == 0
    assert eigenvectors.hadamard(4).tolist() == [
        [0.5, 0.5, 0.5, 0.5], [0.5, -0.5, 0.5, -0.5], [0.5, 0.5, -0.5, -0.5],
        [0.5, -0.5, -0.5, 0.5]]
    P = np.array([[0.6, -0.8], [0.8, 0.6]])
    assert np.allclose(eigenvectors.symmetric(P, [1, 2]), [[1.64, -0.48], [-0.48, 1.36]])
    assert eigenvectors.probe(P, 2.0).tolist() == [[1.2, 1.6], [-1.6, 1.2], [-1.2, -1.6],
                                                   [1.6, -1.2]]
    assert eigenvectors.largest_overlap(P, np.eye(2)) == 0.8
    turned = eigenvectors.orthogonal(3, np.random.default_rng(0))
    draws = np.random.default_rng(0).standard_normal((3, 3))
    assert (np.diag(turned.T @ draws) > 0).all()            # R of Q R has a positive diagonal
    assert eigenvectors.largest_overlap(turned, turned) == pytest.approx(1)
    assert eigenvectors.largest_overlap(P, P[:, ::-1] * [1, -1]) == pytest.approx(1)


def test_entropies():
    assert eigenvectors.entropy(np.full((3, 3), 1 / 3)) == pytest.approx(1)
    mixed = np.array([[1.0, 0, 0, 0], [0.5, 0.5, 0, 0]])
    assert eigenvectors.entropy(mixed) == pytest.approx((0 + 0.5) / 2)


def test_how_far_a_vector_is_from_an_eigenvector():
    W = np.array([[1.0, 1], [0, 1]])
    assert eigenvectors.off_line(W, np.array([2.0, 0])) == 0
    assert eigenvectors.off_line(W, np.array([0, 3.0])) == pytest.approx(1 / math.sqrt(2))
    assert eigenvectors.off_line(W, np.array([1.0, 1])) == pytest.approx(0.5 / math.sqrt(2.5))


def test_an_unsymmetric_key_matrix_is_used_as_it_is():
    X, W = np.array([[1.0, 0], [0, 1]]), np.array([[0.0, 2], [0, 0]])
    A = eigenvectors.attention_weights(X, np.eye(2), W)     # scores X W^T X^T = W^T
    assert np.allclose(A[1], np.exp([2 / math.sqrt(2), 0]) / np.exp([2 / math.sqrt(2), 0]).sum())
    assert np.allclose(A[0], 0.5)


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


def test_exact_weights_and_products():
    assert rank.exact_weights([[0, 1], [2, 2]]) == [[Fraction(1, 3), Fraction(2, 3)],
                                                    [Fraction(1, 2)] * 2]
    assert rank.exact_product([[1, 2]], [[3, 4], [5, 6]]) == [[13, 16]]
    assert rank.exact_rank([[0, 0, 1], [0, 0, 2]]) == 1
    assert rank.exact_rank([[0, 1], [1, 0]]) == 2


def test_random_ranks_reach_every_rank():
    found = rank.random_ranks(n=3)
    assert len(found) == 150
    assert {case["p"] for case in found} == {case["q"] for case in found} == {0, 1, 2, 3}
    assert any(case["p"] != case["q"] for case in found)


def test_the_librarys_scores_are_whole_multiples_of_log_2(monkeypatch):
    M, V = np.array([[0, 1], [0, 0]]), np.array([[1, 0], [0, 1]])
    seen, forward = [], rank.ScaledDotAttention.forward
    monkeypatch.setattr(rank.ScaledDotAttention, "forward",
                        lambda self, *given: seen.append(out := forward(self, *given)) or out)
    assert rank.library_rank(M, V) == 2
    y, cache = seen[0]
    A = cache.A
    assert np.allclose(A, [[1 / 3, 2 / 3], [0.5, 0.5]]) and np.allclose(y, A)


@settings(max_examples=10, derandomize=True)
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


def test_a_unit_at_exactly_0_lets_nothing_back():
    net = {"W_1": np.array([[1.0, -1], [1, 1]]), "b_1": np.zeros(2), "W_2": np.ones((2, 2)),
           "b_2": np.zeros(2), "W_3": np.eye(2), "b_3": np.zeros(2), "x": np.array([1.0, 1])}
    assert autoencoder.forward(net)[0].tolist() == [0, 2]   # the first unit stands at 0
    own = autoencoder.gradients(net)
    assert own["d_1"].tolist() == [2, 2] and own["d_2"].tolist() == [0, 2]
    assert own["W_1"].tolist() == [[0, 0], [2, 2]]
    assert autoencoder.library_gradients(net)[0].tolist() == [[0, 0], [2, 2]]


def test_the_labels_part_is_added():
    net = autoencoder.example(1, 2, classes=2, seed=3)
    alone, both = autoencoder.library_gradients(net, label=1)
    h, p, _, _ = autoencoder.forward(net)
    logits = net["W_3"] @ p + net["b_3"]
    share = np.exp(logits) / np.exp(logits).sum() - np.array([0, 1])
    wanted = np.outer((net["W_3"].T @ share) * (h > 0), net["x"])
    assert np.allclose(both - alone, wanted, atol=1e-12)


def test_the_distance_is_judged_by_its_numbers():
    assert autoencoder.distance_claim().verdict == "slip"
    assert autoencoder.distance_claim((2.0, 0.0)).verdict == "confirmed"    # |e| = |e|^2 / 2


@settings(max_examples=6, derandomize=True)
@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), seeds)
def test_shapes(n, m, p, seed):
    found = shapes.derivatives(n, m, p, seed)
    assert {name: array.shape for name, array in found.items()} == shapes.expected_shapes(n, m, p)
    _, output, _ = shapes.network(n, m, p, seed)
    V = output(np.eye(m))                                   # O = H V
    assert np.allclose(found["dO/dH"], np.einsum("ij,lk->ikjl", np.eye(n), V), atol=1e-9)
    wanted = 2 * np.einsum("ij,kl->ikjl", np.eye(n), V @ V.T)
    assert np.allclose(found["d2L/dH2"], wanted, atol=1e-6)


def test_marks_that_are_not_printed():
    assert shapes.missing_marks() == {"Q2": (1, [1]), "Q3": (2, [3]), "Q4": (5, [1, 2])}
    assert shapes.missing_marks({"a": 7, "b": 2}, {"a": (None, 3), "b": (2,)}) == {"a": (4, [1])}


def test_derivatives_of_a_linear_network():
    hidden, output, loss = shapes.network(2, 3, 1, seed=0)
    H = hidden(np.ones(1))
    assert H.shape == (2, 3) and not np.allclose(H[0], H[1])    # the state goes on
    V = output(np.eye(3))
    assert np.allclose(output(H), H @ V) and not np.allclose(V, V.T)
    target = np.random.default_rng(0).standard_normal((2, 3))
    assert loss(np.zeros((2, 3))) == pytest.approx((target**2).sum())
    assert loss(target) == 0
    other = shapes.network(2, 3, 1, seed=1)[1](np.eye(3))
    assert not np.allclose(other, V)


def test_the_chain_rule_shows_a_wrong_factor():
    found = shapes.derivatives(2, 2, 3)
    assert shapes.chain_error(found, 2, 2, 3) < 1e-8
    double = found | {"dL/dO": 2 * found["dL/dO"]}
    assert shapes.chain_error(double, 2, 2, 3) == pytest.approx(1)


def test_the_second_derivatives_step_is_small_enough_for_a_cube():
    slopes = shapes.difference(lambda x: x**3, np.array([1.0, -2.0]))
    assert np.allclose(slopes, [[3, 0], [0, 12]], atol=1e-9)


@quick
@given(seeds, st.integers(1, 9))
def test_kl_identity(seed, V):
    case = identity.random_case(np.random.default_rng(seed), V)
    found = identity.identity(*case)
    assert found["left"] == pytest.approx(found["right"], abs=1e-12)
    assert found["left"] >= -1e-12


@quick
@given(st.lists(st.tuples(*[st.integers(1, 50)] * 3), min_size=1, max_size=6))
def test_kl_identity_in_fractions(rows):
    q, prior, likelihood = zip(*rows, strict=True)
    q, prior = ([Fraction(v, sum(values)) for v in values] for values in (q, prior))
    assert identity.exact_ratios_agree(q, prior, [Fraction(v, 51) for v in likelihood])


def test_kl_sampling_and_descent():
    case = identity.random_case(np.random.default_rng(8))
    mean, error = identity.sampled_right(*case)
    assert abs(mean - identity.identity(*case)["left"]) < 4 * error < 0.2
    start, end, bound, evidence = identity.descend(*case)
    assert end < 1e-3 < start and bound == pytest.approx(evidence, abs=2 * end + 1e-9)


def test_terms_of_two_outputs():
    q, prior, likelihood = [0.5, 0.5], [0.25, 0.75], [1.0, 1 / 3]
    assert identity.bayes(prior, likelihood) == (pytest.approx(0.5), pytest.approx([0.5, 0.5]))
    found = identity.identity(q, prior, likelihood)
    assert found["left"] == pytest.approx(0, abs=1e-12)
    assert found["log evidence"] == pytest.approx(math.log(0.5))
    assert found["expected"] == pytest.approx(math.log(1 / 3) / 2)
    assert found["prior"] == pytest.approx((math.log(2) + math.log(2 / 3)) / 2)


def test_an_output_that_q_leaves_out_may_be_impossible():
    found = identity.identity([0.0, 1.0], [0.5, 0.5], [0.0, 0.5])
    assert (found["left"], found["expected"]) == (0, pytest.approx(math.log(0.5)))


def test_ratios_that_do_not_agree():
    half = [Fraction(1, 2)] * 2
    assert identity.exact_ratios_agree([Fraction(1, 4), Fraction(3, 4)], half, half) is True


def test_a_random_case_has_three_different_parts():
    q, prior, likelihood = identity.random_case(np.random.default_rng(1), 4)
    assert q.sum() == pytest.approx(1) and not np.allclose(q, prior)
    assert 0.05 <= likelihood.min() < likelihood.max() <= 0.95 and len(likelihood) == 4


def test_draws_come_from_q():
    q, prior, likelihood = np.array([1.0, 0.0]), np.array([0.5, 0.5]), np.array([0.5, 0.25])
    mean, error = identity.sampled_right(q, prior, likelihood, draws=50)
    assert mean == pytest.approx(math.log(0.375) - math.log(0.5) + math.log(2)) and error == 0


def test_descent_starts_at_q_and_ends_at_the_posterior():
    q, prior, likelihood = np.array([0.9, 0.1]), np.array([0.5, 0.5]), np.array([0.2, 0.6])
    start, end, bound, evidence = identity.descend(q, prior, likelihood)
    left = 0.9 * math.log(0.9 / 0.25) + 0.1 * math.log(0.1 / 0.75)
    assert start == pytest.approx(left) and 0 <= end < 1e-9
    assert bound == pytest.approx(evidence) == pytest.approx(math.log(0.4))
    still = identity.descend(q, prior, likelihood, steps=0)
    assert still[1] == pytest.approx(left)
    assert still[2] == pytest.approx(math.log(0.4) - left)
    first = identity.descend(q, prior, likelihood, steps=1, rate=0.5)
    later = identity.descend(q, prior, likelihood, steps=1, rate=1.0)
    assert left > first[1] > later[1]
