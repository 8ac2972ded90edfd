"""Cross-entropy with its options, squared error, KL divergence."""

import math

import numpy as np
import pytest

from npdl.errors import InputError
from npdl.losses import (
    REDUCTIONS,
    CrossEntropy,
    KLDivergence,
    SequenceLoss,
    SquaredError,
    kl_divergence,
)


def by_hand(logits, targets, ignored, smoothing):
    """One number for each target, in plain Python."""
    losses = []
    for row, target in zip(logits.tolist(), targets.tolist(), strict=True):
        total = math.log(sum(math.exp(v) for v in row))
        q = [smoothing / len(row) + (1 - smoothing) * (v == target) for v in range(len(row))]
        nll = -sum(w * (v - total) for w, v in zip(q, row, strict=True))
        losses.append(0.0 if target == ignored else nll)
    return losses


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
def test_cross_entropy_by_hand(smoothing):
    rng = np.random.default_rng(0)
    logits, targets = rng.standard_normal((6, 4)), np.array([0, 3, -1, 2, -1, 1])
    wanted = by_hand(logits, targets, -1, smoothing)
    for reduction, value in (("none", wanted), ("sum", sum(wanted)), ("mean", sum(wanted) / 4)):
        loss, _ = CrossEntropy(-1, smoothing, reduction).forward(logits, targets)
        np.testing.assert_allclose(loss, value, rtol=1e-12)


def test_cross_entropy_is_the_sequence_loss_over_tokens():
    rng = np.random.default_rng(1)
    logits, targets = rng.standard_normal((3, 5, 7)), rng.integers(1, 7, (3, 5))
    counted = rng.random((3, 5)) < 0.6
    a, cache_a = SequenceLoss(average="token").forward(logits, targets, counted)
    loss = CrossEntropy(ignored=0)
    b, cache_b = loss.forward(logits, np.where(counted, targets, 0))
    assert a == pytest.approx(b, rel=1e-12)
    np.testing.assert_allclose(SequenceLoss(average="token").backward(1.0, cache_a),
                               loss.backward(1.0, cache_b), atol=1e-15)


def test_when_everything_is_ignored():
    for reduction in REDUCTIONS:
        loss = CrossEntropy(2, reduction=reduction)
        value, cache = loss.forward(np.ones((3, 4)), np.full(3, 2))
        assert not np.any(value)
        assert not loss.backward(np.ones_like(value), cache).any()


def test_large_logits_and_dtypes():
    logits = np.array([[1e4, -1e4, 0], [0, 1e4, 1e4]], "float32")
    for loss in (CrossEntropy(smoothing=0.1), CrossEntropy()):
        value, cache = loss.forward(logits, np.array([0, 2]))
        gradient = loss.backward(1.0, cache)
        assert np.isfinite(value) and np.isfinite(gradient).all()
        assert value.dtype == gradient.dtype == np.float32
    for loss in (KLDivergence(), SquaredError()):
        value, cache = loss.forward(logits, logits[::-1].copy())
        gradients = loss.backward(1.0, cache)
        assert np.isfinite(value) and value.dtype == np.float32
        assert all(np.isfinite(g).all() and g.dtype == np.float32 for g in gradients)


def test_squared_error_of_the_two_documents():
    y, z = np.array([[1.0, 2.0], [0.0, 1.0]]), np.array([[0.0, 2.0], [3.0, -1.0]])
    assert SquaredError(reduction="sum").forward(y, z)[0] == 14             # document 000
    np.testing.assert_array_equal(SquaredError(0.5, "none").forward(y, z)[0], [0.5, 6.5])
    loss = SquaredError(reduction="sum")
    dy, dz = loss.backward(1.0, loss.forward(y, z)[1])
    np.testing.assert_array_equal(dy, 2 * (y - z))                          # its answer (a)
    np.testing.assert_array_equal(dz, 2 * (z - y))


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


def test_the_identity_of_document_001():
    """D(Q(y|x) || P(y|x)) = log P(x) - E_Q log P(x|y) + D(Q(y|x) || P(y)), for one x."""
    rng = np.random.default_rng(3)
    prior, likelihood, q = rng.dirichlet(np.ones(5)), rng.random(5), rng.dirichlet(np.ones(5))
    evidence = (prior * likelihood).sum()
    posterior = prior * likelihood / evidence
    right = math.log(evidence) - (q * np.log(likelihood)).sum() + kl_divergence(q, prior)
    assert kl_divergence(q, posterior) == pytest.approx(right, rel=1e-12)


@pytest.mark.parametrize("call", [
    lambda: CrossEntropy(smoothing=1.5),
    lambda: CrossEntropy(reduction="average"),
    lambda: SquaredError(reduction="average"),
    lambda: KLDivergence("average"),
    lambda: CrossEntropy().forward(np.ones((2, 3)), np.zeros(3, int)),
    lambda: CrossEntropy().forward(np.ones((2, 3)), np.array([0, 3])),
    lambda: CrossEntropy(-1).forward(np.ones((2, 3)), np.array([0, -2])),
    lambda: CrossEntropy().forward(np.ones((2, 3)), np.array([0.0, 1.0])),
    lambda: SquaredError().forward(np.ones((2, 3)), np.ones((3, 2))),
    lambda: KLDivergence().forward(np.ones((2, 3)), np.ones((2, 4))),
])
def test_what_they_refuse(call):
    with pytest.raises(InputError) as caught:
        call()
    assert "\n" not in str(caught.value)
