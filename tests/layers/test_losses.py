"""Losses without targets and of large logits. tests/exercises checks losses by hand."""

import math

import numpy as np
import pytest

from npdl.losses import SequenceLoss, exact_match


@pytest.mark.parametrize("average", ["sample", "token"])
def test_loss_is_zero_without_unmasked_targets(average):
    logits, targets, counted = np.ones((2, 4, 4)), np.zeros((2, 4), int), np.zeros((2, 4), bool)
    layer = SequenceLoss("mean", average)
    loss, cache = layer.forward(logits, targets, counted)
    assert loss == 0 and (layer.backward(1.0, cache) == 0).all()
    assert exact_match(logits, targets, counted) == 1               # an empty product


@pytest.mark.parametrize("size", [1e4, -1e4])
def test_sequence_loss_of_large_logits(size):
    V, logits = 5, np.zeros((2, 1, 5), "float32")
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
