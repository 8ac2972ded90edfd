"""Document 002, Problem 1: what the proposed remedies do to a gradient through time.

Clipping, gates, initialisation and batch normalisation, each measured on npdl's cells.
"""

import math
import sys
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from exercises.d002_gradients_through_time import gradient_norms, recurrent_matrix, rnn_cell
from exercises.framework import Claim, judge, proved, run_script
from exercises.shown import listing
from npdl.errors import InputError
from npdl.layers.norms import BatchNorm
from npdl.layers.recurrent import LSTMCell, RNNLayer
from npdl.optim import clip_by_global_norm

QUESTION = """\
Problem 1, the remedies. Gradient clipping, gated cells, Xavier or He initialisation and batch \
normalisation are named as remedies of vanishing and exploding gradients. What does each do to a \
gradient that runs back through 50 or 100 steps of npdl's RNN and LSTM?"""

TITLES = {"1": "What the remedies do: clipping, gates, initialisation, batch normalisation"}

claim_of = partial(Claim, "002", "Problem 1")


def clipping(radius, limit=1.0, steps=50, seed=6):
    """(length before, length after, cosine by norm, cosine by entry) of a clipped RNN gradient.

    By norm, npdl scales the whole gradient down to `limit`; by entry, every number is cut off at
    the same +-c, here the c that leaves the same length.
    """
    if not limit > 0 or steps < 1:
        raise InputError(f"limit = {limit!r}, steps = {steps!r}; both must be positive")
    layer = RNNLayer(4, 32, bias=False, rng=seed, dtype="float64")
    layer.cell.W_h.data[...] = recurrent_matrix(radius)
    x = np.zeros((1, steps, 4))
    x[:, 0] = 1e-6                                          # everything comes from the first step
    (y, _), cache = layer.forward(x)
    dy = np.zeros_like(y)
    dy[:, -1] = 1e6
    layer.backward(dy, cache)
    before = _gradient(layer)
    clip_by_global_norm([param for _, param in layer.params()], limit)
    clipped = _gradient(layer)
    length = np.linalg.norm(clipped)
    low, high = 0.0, np.abs(before).max()
    for _ in range(200):
        middle = (low + high) / 2
        too_long = np.linalg.norm(np.clip(before, -middle, middle)) > length
        low, high = (low, middle) if too_long else (middle, high)
    by_entry = np.clip(before, -high, high)
    return (float(np.linalg.norm(before)), float(length), _cosine(before, clipped),
            _cosine(before, by_entry))


def _gradient(layer):
    """All gradients of a layer as one vector."""
    return np.concatenate([param.grad.ravel() for _, param in layer.params()])


def forget_gate_norms(bias, steps=100):
    """gradient_norms of an LSTM whose forget gate has this bias, inputs of unit variance."""
    cell = LSTMCell(4, 32, rng=0, dtype="float64")
    cell.b.data[...] = 0
    cell.b.data[32:64] = bias
    return gradient_norms(cell, steps, 1.0)


def initial_radius(variance_times_width, width=256, seed=7):
    """Spectral radius of an (H, H) matrix of normal entries of variance v/H: near sqrt(v)."""
    W = np.random.default_rng(seed).standard_normal((width, width))
    return float(np.abs(np.linalg.eigvals(W * math.sqrt(variance_times_width / width))).max())


def batch_norm_rate(scale, normalised, steps=50, width=32, seed=8):
    """The factor per step of the gradient of h' = tanh(BN(h W + x)), or without BN."""
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((width, width)) * scale / math.sqrt(width)
    h, norm, caches = rng.standard_normal((64, width)), BatchNorm(width, dtype="float64"), []
    for x in 0.5 * rng.standard_normal((steps, 64, width)):
        z, cache = h @ W + x, None
        if normalised:
            z, cache = norm.forward(z)
        h = np.tanh(z)
        caches.append((h, cache))
    d = rng.standard_normal(h.shape)
    start = np.linalg.norm(d)
    for h, cache in reversed(caches):
        d = d * (1 - h * h)
        d = norm.backward(d, cache) if normalised else d
        d = d @ W.T
    return float((np.linalg.norm(d) / start) ** (1 / steps))


def _cosine(a, b):
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def clipping_claims():
    """Claims on clipping."""
    long, cut, cos_norm, cos_entry = clipping(1.5)
    short, same, _, _ = clipping(0.5)
    yield claim_of(
        "clipping", "clipping keeps an exploding gradient within a threshold",
        "limits gradient values, prevents explosion",
        f"length {long:.1e} becomes {cut:.2f} by the global norm, same direction",
        proved(cut <= 1 + 1e-9 and cos_norm > 1 - 1e-9),
        f"cosine with the true gradient: by norm {cos_norm:.3f}; with every value cut off to the "
        f"same length {cos_entry:.3f}")
    yield claim_of(
        "clipping", "clipping mitigates, as one of a list for vanishing and exploding gradients",
        "in the list for both; its own line says explosion",
        f"of explosion only: a vanished gradient of length {short:.1e} stays at {same:.1e}",
        judge(same > short, if_false="under-specified"),
        f"it changes by a factor {same / short:.3f}; holds as its own line has it")


def cell_claims():
    """Claims on gates, initialisation and batch normalisation."""
    biases = (0.0, 1.0, 5.0)
    ends = [forget_gate_norms(bias)[50] for bias in biases]
    xavier, he = initial_radius(1.0), initial_radius(2.0)
    he_end = gradient_norms(rnn_cell(recurrent_matrix(he)))[-1]
    scales = (0.25, 4.0)
    plain, normed = ([batch_norm_rate(s, bn) for s in scales] for bn in (False, True))
    yield claim_of(
        "gates", "LSTM and GRU cells regulate the flow of gradients",
        "gating regulates it",
        "with a forget gate near 1; at the usual start near 1/2 an LSTM vanishes too: length "
        f"after 50 steps {listing(ends, '.1e')} for forget biases {listing(biases, '.0f')}",
        judge(ends[0] < 1e-6 and ends[-1] > 0.01, "under-specified"),
        f"the forget gate alone gives f^50: {0.5**50:.1e} at f = 0.5, {0.9933**50:.2f} at 0.9933")
    yield claim_of(
        "initialisation", "Xavier or He initialisation stabilises an RNN",
        "helps stabilise training",
        f"spectral radius of W_h: {xavier:.2f} with Xavier's variance 1/H, {he:.2f} with He's 2/H; "
        "the second explodes until tanh saturates",
        judge(abs(xavier - 1) < 0.1 and he > 1.3, "under-specified"),
        f"He's, near the origin: length {he_end:.1e} after 100 steps; both variances were derived "
        "for layers with their own weights, used once")
    yield claim_of(
        "normalisation", "batch normalisation between steps prevents extreme gradients",
        "helps prevent them",
        f"it moves the factor per step towards 1, not to it: {plain[0]:.2f} to {normed[0]:.2f} "
        f"with small weights, {plain[1]:.2f} to {normed[1]:.2f} with large ones",
        judge(normed[0] < 0.9 and normed[1] < plain[1], "under-specified"),
        f"50 steps: {normed[0] ** 50:.1e} in place of {plain[0] ** 50:.1e}, and "
        f"{normed[1] ** 50:.1e} in place of {plain[1] ** 50:.1e}")


def claims():
    return [*clipping_claims(), *cell_claims()]


if __name__ == "__main__":
    sys.exit(run_script(globals()))
