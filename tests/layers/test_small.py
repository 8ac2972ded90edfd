"""The autoencoder of document 001, and the graph layer of document 003."""

import math

import numpy as np
import pytest

from npdl.layers.attention import MultiHeadAttention, attend, causal_mask
from npdl.layers.graph import AddReLU, GraphAttention, MessagePassing, Replace
from npdl.layers.linear import Linear
from npdl.models.autoencoder import Autoencoder, AutoencoderLoss
from npdl.optim import AdamW


def test_the_autoencoder_learns_both_losses():
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 3, 60)
    codes = rng.standard_normal((3, 8))[labels]
    x1, x2 = (codes[:, half] + 0.1 * rng.standard_normal((60, 4))
              for half in (slice(4), slice(4, 8)))
    x1, x2 = x1.astype("float32"), x2.astype("float32")
    loss = AutoencoderLoss(Autoencoder(4, 6, 3, rng=2))
    optimizer = AdamW(loss, lr=0.03, weight_decay=0)
    first, _ = loss.forward(x1, x2, labels)
    for _ in range(120):
        optimizer.zero_grad()
        last, cache = loss.forward(x1, x2, labels)
        loss.backward((1.0, 1.0), cache)
        optimizer.step()
    assert last[0] < first[0] / 5 and last[1] < 0.05


def test_nodes_are_updated_from_one_snapshot_whatever_their_order():
    rng = np.random.default_rng(3)
    layer = MessagePassing(Linear(3, 2, rng=0, dtype="float64"),
                           AddReLU(3, 2, rng=1, dtype="float64"))
    h, edges, order = rng.standard_normal((5, 3)), rng.random((5, 5)) < 0.5, rng.permutation(5)
    y, _ = layer.forward(h, edges)
    shuffled, _ = layer.forward(h[order], edges[order][:, order])
    np.testing.assert_allclose(shuffled, y[order], atol=1e-14)
    f = h @ layer.message.W.data + layer.message.b.data
    for i in range(5):
        heard = sum((f[j] for j in range(5) if edges[i, j]), np.zeros(2))
        own = h[i] @ layer.update.own.W.data + layer.update.own.b.data
        np.testing.assert_allclose(y[i], own + np.maximum(heard, 0), atol=1e-14)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_message_passing_on_the_complete_graph(causal):
    rng = np.random.default_rng(4)
    h = rng.standard_normal((2, 5, 4))
    graph = GraphAttention(4, 4, scale=1 / math.sqrt(4), bias=True, rng=0, dtype="float64")
    attention = MultiHeadAttention(4, 1, rng=1, dtype="float64")
    for name, linear in (("W_Q", graph.W_Q), ("W_K", graph.W_K), ("W_V", graph.passing.message)):
        setattr(attention, name, linear)
    attention.W_O.W.data[...] = np.eye(4)
    attention.W_O.b.data[...] = 0
    mask = causal_mask(5) if causal else None
    y, _ = graph.forward(h, mask)
    wanted, _ = attention.forward(h, h, h, mask)
    np.testing.assert_allclose(y, wanted, atol=1e-14)


def test_attention_weights_as_edges_give_attention():
    rng = np.random.default_rng(5)
    q, k, v = rng.standard_normal((3, 1, 1, 6, 3))
    wanted, cache = attend(q, k, v)
    f = Linear(3, 3, bias=False, dtype="float64")
    f.W.data[...] = np.eye(3)
    y, _ = MessagePassing(f, Replace()).forward(v[0, 0], cache.A[0, 0])
    np.testing.assert_allclose(y, wanted[0, 0], atol=1e-15)
