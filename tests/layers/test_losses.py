"""Losses without unmasked targets. tests/exercises checks the values of losses."""

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
