"""Masks of attention: float masks, padding, and causal targets."""

import numpy as np
import pytest

from npdl.layers.attention import ScaledDotAttention
from npdl.models.seq2seq import Seq2Seq, attentions


def test_a_float_mask_is_added_to_the_scores():
    rng = np.random.default_rng(4)
    q, k, v = (rng.standard_normal((2, 3, 2)) for _ in range(3))
    visible = np.array([[True, False, True], [False] * 3, [True] * 3])
    layer = ScaledDotAttention()
    y, _ = layer.forward(q, k, v, np.where(visible, 0.0, -np.inf))
    np.testing.assert_array_equal(y, layer.forward(q, k, v, visible)[0])
    bias = rng.standard_normal((3, 3))
    y, _ = layer.forward(q, k, v, bias)
    e = np.exp(q @ k.swapaxes(1, 2) / np.sqrt(2) + bias)
    np.testing.assert_allclose(y, e / e.sum(-1, keepdims=True) @ v, rtol=1e-12)


# Padding

@pytest.mark.parametrize("norm", ["post", "pre"])
def test_source_padding_has_no_effect_and_targets_are_causal(norm):
    """Check that a padded source gives the same logits as the shorter source."""
    rng = np.random.default_rng(1)
    model = Seq2Seq(7, 6, 8, 2, 2, 2, max_len=8, norm=norm, dtype="float64")
    source, target = rng.integers(0, 7, (2, 5)), rng.integers(0, 6, (2, 4))
    mask = np.array([[True] * 3 + [False] * 2] * 2)
    padded, c_padded = model.forward(source, target, mask)
    plain, c_plain = model.forward(source[:, :3], target)
    np.testing.assert_allclose(padded, plain, atol=1e-12)
    encoder, decoder, cross = attentions(c_padded)
    assert encoder.shape == (2, 2, 2, 5, 5) and decoder.shape == (2, 2, 2, 4, 4)
    np.testing.assert_allclose(cross[..., :3], attentions(c_plain)[2], atol=1e-12)
    assert not (cross[..., 3:].any() or encoder[..., 3:].any() or np.triu(decoder, 1).any())
