"""The losses by hand and against plain Python: that of document 004, Problem 3, and the usual."""

import math

import numpy as np
import pytest

from npdl.backend import stream
from npdl.functions import log_softmax
from npdl.losses import (
    REDUCTIONS,
    CrossEntropy,
    KLDivergence,
    SequenceLoss,
    exact_match,
    kl_divergence,
    loss_and_accuracy,
)

LN2 = math.log(2)


def plain_python(logits, targets, eq_positions, mask):
    """Problem 3's two formulas, token by token: one loss and one accuracy for each sample."""
    losses, rights = [], []
    for Y_hat, Y, eq, real in zip(logits.tolist(), targets.tolist(), eq_positions, mask.tolist(),
                                  strict=True):
        rhs = [j for j in range(len(Y)) if j > eq and real[j]]
        nll, right = 0.0, 1
        for j in rhs:
            top = max(Y_hat[j])
            normaliser = top + math.log(sum(math.exp(value - top) for value in Y_hat[j]))
            nll -= Y_hat[j][Y[j]] - normaliser
            right *= int(max(range(len(Y_hat[j])), key=lambda k: Y_hat[j][k]) == Y[j])
        losses.append(nll / len(rhs) if rhs else 0.0)
        rights.append(right)
    return losses, rights


def random_batch(seed, B, S, V, dtype="float64"):
    """Mixed lengths; '=' anywhere before the last token; half of the samples answered right."""
    rng = stream(seed, 9)
    targets = rng.integers(0, V, (B, S))
    length = rng.integers(2, S + 1, B)
    mask = np.arange(S) < length[:, None]
    eq_positions = rng.integers(0, length - 1)
    logits = 2 * rng.standard_normal((B, S, V))
    for b in range(0, B, 2):
        logits[b, np.arange(S), targets[b]] += 10
    return logits.astype(dtype), targets, eq_positions, mask


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("B", "S", "V"), [(1, 2, 2), (5, 7, 4), (8, 6, 20)])
def test_against_plain_python(seed, B, S, V):
    batch = random_batch(seed, B, S, V)
    losses, rights = plain_python(*batch)
    for reduction, reduce in (("none", np.array), ("mean", np.mean), ("sum", np.sum)):
        loss, accuracy = loss_and_accuracy(*batch, reduction)
        np.testing.assert_allclose(loss, reduce(losses), rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(accuracy, reduce(np.array(rights, float)), rtol=1e-15)


@pytest.mark.parametrize("average", ["sample", "token"])
def test_a_batch_without_any_answer(average):
    logits, targets, counted = np.ones((2, 4, 4)), np.zeros((2, 4), int), np.zeros((2, 4), bool)
    layer = SequenceLoss("mean", average)
    loss, cache = layer.forward(logits, targets, counted)
    assert loss == 0 and (layer.backward(1.0, cache) == 0).all()
    assert exact_match(logits, targets, counted) == 1               # an empty product


@pytest.mark.parametrize("V", [2, 5, 40])
@pytest.mark.parametrize("size", [1e4, -1e4])
def test_large_logits_in_float32(V, size):
    logits = np.zeros((2, 1, V), "float32")
    logits[:, 0, 0] = size
    targets, counted = np.array([[0], [1]]), np.ones((2, 1), bool)
    layer = SequenceLoss("none")
    loss, cache = layer.forward(logits, targets, counted)
    at_zero = 0.0 if size > 0 else 1e4 + math.log(V - 1)
    at_one = 1e4 if size > 0 else math.log(V - 1)
    np.testing.assert_allclose(loss, [at_zero, at_one], rtol=1e-6, atol=1e-6)
    dlogits = layer.backward(np.ones(2, "float32"), cache)
    assert np.isfinite(dlogits).all() and loss.dtype == dlogits.dtype == np.float32
    np.testing.assert_allclose(dlogits.sum(-1), 0, atol=1e-6)


@pytest.mark.parametrize("shift", [-1e4, -30.0, 0.0, 30.0, 1e4])
def test_log_softmax_does_not_mind_a_shift(shift):
    x = stream(3).integers(-8, 8, (4, 9)) / 4           # exact in float32, shifted too
    wanted = np.array([[v - math.log(sum(math.exp(w) for w in row)) for v in row] for row in x])
    found = log_softmax((x + shift).astype("float32"))
    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-6)
    np.testing.assert_allclose(log_softmax(x + shift), wanted, rtol=1e-13, atol=1e-13)


def test_when_everything_is_ignored():
    for reduction in REDUCTIONS:
        loss = CrossEntropy(2, reduction=reduction)
        value, cache = loss.forward(np.ones((3, 4)), np.full(3, 2))
        assert not np.any(value)
        assert not loss.backward(np.ones_like(value), cache).any()


def test_kl_divergence_from_logits_and_from_probabilities():
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((2, 5, 4))
    p, q = (np.exp(x) / np.exp(x).sum(-1, keepdims=True) for x in (a, b))
    wanted = [sum(u * math.log(u / v) for u, v in zip(*rows, strict=True))
              for rows in zip(p.tolist(), q.tolist(), strict=True)]
    np.testing.assert_allclose(KLDivergence("none").forward(a, b)[0], wanted, rtol=1e-12)
    np.testing.assert_allclose(kl_divergence(p, q), wanted, rtol=1e-12)
    np.testing.assert_allclose(KLDivergence().forward(a, a + 3)[0], 0, atol=1e-15)
    assert (kl_divergence(p, q) > 0).all()


def test_kl_divergence_with_zeros():
    p, q = np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]]), np.array([[0.25, 0.5, 0.25], [1.0, 0, 0]])
    np.testing.assert_allclose(kl_divergence(p, q), [0.5 * math.log(2), math.inf])
