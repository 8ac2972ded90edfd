"""The autoencoder of document 001, and the graph layer of document 003."""

import math

import numpy as np
import pytest

from npdl.layers.attention import MultiHeadAttention, attend, causal_mask
from npdl.layers.graph import AddReLU, GraphAttention, MessagePassing, Replace
from npdl.layers.linear import Linear
from npdl.models.autoencoder import Autoencoder, AutoencoderLoss
from npdl.optim import AdamW


def test_the_documents_gradients_of_the_reconstruction():
    """delta_1 = W_2^T (x' - x), delta_2 = delta_1 * 1{h > 0}, dJ_1/dW_1 = delta_2 x^T."""
    rng = np.random.default_rng(0)
    model = Autoencoder(3, 4, 2, rng=1, dtype="float64")
    x1, x2 = rng.standard_normal((2, 1, 3))
    x = np.concatenate([x1, x2], -1)
    W_1, W_2 = model.encoder.W.data.T, model.decoder.W.data.T           # as the document has them
    h = x @ W_1.T + model.encoder.b.data
    assert (h > 0).any() and (h < 0).any()
    x_new = np.maximum(h, 0) @ W_2.T + model.decoder.b.data
    loss = AutoencoderLoss(model)
    (J1, J2), cache = loss.forward(x1, x2, np.array([1]))
    assert J1 == pytest.approx(0.5 * ((x_new - x) ** 2).sum(), rel=1e-12)
    loss.backward((1.0, None), cache)
    delta_1 = (x_new - x) @ W_2
    delta_2 = delta_1 * (h > 0)
    np.testing.assert_allclose(model.encoder.W.grad.T, delta_2.T @ x, atol=1e-14)
    assert not model.classifier.W.grad.any()
    parts = x1 @ W_1[:, :3].T + x2 @ W_1[:, 3:].T + model.encoder.b.data    # W_11 x_1 + W_12 x_2
    np.testing.assert_allclose(parts, h, atol=1e-14)


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


def test_the_documents_message_passing_example():
    """Problem 6 (b): f(h) = 2h, weights 0.6, 0.2, 0.2 into the first node, q = W h + max(m, 0)."""
    f, update = Linear(2, 2, bias=False), AddReLU(2, 2, bias=False)
    f.W.data[...] = 2 * np.eye(2)
    update.own.W.data[...] = 1                          # W = [1, 1], the same sum in both entries
    h = np.array([[1, -1], [-1, 1], [0, -1], [1, 0]], "float32")
    edges = np.zeros((4, 4), "float32")
    edges[0, 1:] = 0.6, 0.2, 0.2
    y, _ = MessagePassing(f, update).forward(h, edges)
    np.testing.assert_allclose(y[0], [0, 0.8], atol=1e-6)
    np.testing.assert_allclose(y[1:], h[1:].sum(1, keepdims=True) * [1, 1])   # no one heard


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
