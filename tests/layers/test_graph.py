"""The graph layer of document 003."""

import math

import numpy as np
import pytest

from npdl.layers.attention import MultiHeadAttention, causal_mask
from npdl.layers.graph import GraphAttention, MessagePassing, ReLUUpdate
from npdl.layers.linear import Linear


def test_nodes_are_updated_from_one_snapshot_whatever_their_order():
    rng = np.random.default_rng(3)
    layer = MessagePassing(Linear(3, 2, rng=0, dtype="float64"),
                           ReLUUpdate(3, 2, rng=1, dtype="float64"))
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
