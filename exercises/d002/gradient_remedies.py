"""Document 002, Problem 1: what the proposed remedies do to a gradient through time.

Clipping, gates, initialisation and batch normalisation, each measured on npdl's cells.
"""

import math
from functools import partial

import numpy as np

from exercises.d002.gradients_through_time import gradient_norms, recurrent_matrix, rnn_cell
from exercises.framework import Claim, judge, proved
from exercises.worked import Solution, Table, listing, num, vec
from npdl.layers.batch_norm import BatchNorm
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
    return (float(np.linalg.norm(before)), float(length), cosine(before, clipped),
            cosine(before, by_entry))


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


def clipping_claims():
    """Claims on clipping."""
    long, cut, cos_norm, cos_entry = clipping(1.5)
    short, same, _, _ = clipping(0.5)
    factor = same / short
    yield claim_of(
        "clipping", "clipping keeps an exploding gradient within a threshold",
        "limits gradient values, prevents explosion",
        f"length {long:.1e} becomes {cut:.2f} by the global norm, same direction",
        proved(cut <= 1 + 1e-9 and cos_norm > 1 - 1e-9),
        "an example (seeds 1, 6): "
        f"cosine with the true gradient: by norm {cos_norm:.3f}; with every value cut off to the "
        f"same length {cos_entry:.3f}")
    yield claim_of(
        "clipping", "clipping mitigates, as one of a list for vanishing and exploding gradients",
        "in the list for both; its own line says explosion",
        f"of explosion only: a vanished gradient of length {short:.1e} stays at {same:.1e}",
        judge(same > short, if_false="under-specified"),
        "an example (seeds 1, 6): "
        f"it changes by a factor {factor:.3f}; holds as its own line has it")


def cell_claims():
    """Claims on gates, initialisation and batch normalisation."""
    biases = (0.0, 1.0, 5.0)
    ends = [forget_gate_norms(bias)[50] for bias in biases]
    xavier, he = initial_radius(1.0), initial_radius(2.0)
    he_end = gradient_norms(rnn_cell(recurrent_matrix(he)))[-1]
    scales = (0.25, 4.0)
    plain, normed = ([batch_norm_rate(s, bn) for s in scales] for bn in (False, True))
    plain_50, normed_50 = ([rate**50 for rate in rates] for rates in (plain, normed))
    half_50, near_50 = (f**50 for f in (0.5, 0.9933))
    yield claim_of(
        "gates", "LSTM and GRU cells regulate the flow of gradients",
        "gating regulates it",
        "with a forget gate near 1; at the usual start near 1/2 an LSTM vanishes too: length "
        f"after 50 steps {listing(ends, '.1e')} for forget biases {listing(biases, '.0f')}",
        judge(ends[0] < 1e-6 and ends[-1] > 0.01, "under-specified"),
        "an example (seeds 0 and 2); "
        f"the forget gate alone gives f^50: {half_50:.1e} at f = 0.5, {near_50:.2f} at 0.9933")
    yield claim_of(
        "initialisation", "Xavier or He initialisation stabilises an RNN",
        "helps stabilise training",
        f"spectral radius of W_h: {xavier:.2f} with Xavier's variance 1/H, {he:.2f} with He's 2/H; "
        "the second explodes until tanh saturates",
        judge(abs(xavier - 1) < 0.1 and he > 1.3, "under-specified"),
        "an example (seeds 0, 1, 2, 7); "
        f"He's, near the origin: length {he_end:.1e} after 100 steps; both variances were derived "
        "for layers with their own weights, used once")
    yield claim_of(
        "normalisation", "batch normalisation between steps prevents extreme gradients",
        "helps prevent them",
        f"it moves the factor per step towards 1, not to it: {plain[0]:.2f} to {normed[0]:.2f} "
        f"with small weights, {plain[1]:.2f} to {normed[1]:.2f} with large ones",
        judge(normed[0] < 0.9 and normed[1] < plain[1], "under-specified"),
        f"an example, seed 8; 50 steps: {normed_50[0]:.1e} in place of {plain_50[0]:.1e}, and "
        f"{normed_50[1]:.1e} in place of {plain_50[1]:.1e}")


def claims():
    return [*clipping_claims(), *cell_claims()]


LIMIT, STEPS = 1.0, 20                      # c of clipping; steps with He's variance
SCALES = (0.5, 4.0)                         # two sizes of W before batch normalisation


def clipped(g, limit):
    """(g scaled to the length `limit` where it is longer, g with every entry cut to ±limit)."""
    g = np.asarray(g, float)
    length = np.linalg.norm(g)
    return g * min(1.0, limit / length), np.clip(g, -limit, limit)


def cosine(a, b):
    return float(np.dot(a, b) / (np.linalg.norm(a) * np.linalg.norm(b)))


def remedies():
    """Clipping, gates, initialisation and batch normalisation, one small computation each."""
    g, c = np.array([3.0, 4.0]), num(LIMIT, 0)
    scaled, cut = clipped(g, LIMIT)
    tiny = 1e-5 * g
    kept, _ = clipped(tiny, LIMIT)
    gates, n = (0.5, 0.9, 0.99), 100
    tenth, fiftieth = ([f**T for f in gates] for T in (10, 50))
    xavier, he = (math.sqrt(n * variance) for variance in (1 / n, 2 / n))
    he_end = he**STEPS
    z = np.array([1.0, 2.0, 3.0])
    deviations = [float((a * z).std()) for a in SCALES]
    small, large = (num(a, int(a < 1)) for a in SCALES)
    ratio, wanted = deviations[1] / deviations[0], SCALES[1] / SCALES[0]
    work = Solution("1", "g = (3, 4); one forget gate; n = 100 inputs; a batch of three.")
    work.step("Clipping by the global norm: shorten the whole gradient, keep its direction.",
              "g ← g · min(1, c/|g|)",
              f"|{vec(g, 0)}| = {num(float(np.linalg.norm(g)))}, c = {c}: {vec(scaled)}, cosine "
              f"with g {num(cosine(g, scaled))}\neach entry cut to ±{c} instead: {vec(cut)}, "
              f"cosine {num(cosine(g, cut))}")
    work.step("A vanished gradient is not helped: it is shorter than c, and stays.",
              numbers=f"|g| = {np.linalg.norm(tiny):.0e} before and {np.linalg.norm(kept):.0e} "
                      "after")
    work.step("Gates: the memory's own road multiplies by the forget gate, not by W.",
              "cₜ = f cₜ₋₁ + …   →   ∂c_T/∂c₀ = f^T along this road",
              table=Table(("f", "f¹⁰", "f⁵⁰"),
                          tuple((num(f, 2), f"{ten:.2g}", f"{fifty:.1e}")
                                for f, ten, fifty in zip(gates, tenth, fiftieth, strict=True))))
    work.step("Initialisation: with n inputs of variance v a step changes a length by √(n v) on "
              "average.", "E|W h|² = n v |h|²",
              f"v = 1/n (Xavier): √1 = {num(xavier)} a step\nv = 2/n (He): √2 = {num(he)} a step, "
              f"{num(he_end, 0)} after {num(STEPS)} steps near h = 0")
    work.step("Batch normalisation divides by the deviation of z, so that the size of W cancels.",
              "z ← a z  →  std(z) ← a std(z)  →  W/std(z) unchanged",
              f"z = {vec(z, 0)} over a batch: std = {num(deviations[0])} for a = {small}, "
              f"{num(deviations[1])} for a = {large}; ratio {num(ratio)} = {num(wanted)}")
    work.answer = ("Clipping is for explosion alone; a gate helps as far as f is near 1 (f⁵⁰ = "
                   f"{fiftieth[-1]:.2f} at {gates[-1]}, {fiftieth[0]:.0e} at {gates[0]}); "
                   "Xavier's variance starts near factor 1; batch normalisation takes the size of "
                   "W out.")
    work.check(f"the clipped gradient has length {c} and the direction of g",
               abs(np.linalg.norm(scaled) - LIMIT) < 1e-12 and cosine(g, scaled) > 1 - 1e-12)
    work.check("a random 100 × 100 W of variance 1/n, 2/n changes lengths by those factors",
               all(abs(_stretch(v, n) - f) < 0.1 for v, f in ((1 / n, xavier), (2 / n, he))))
    work.check("std is proportional to a", abs(ratio - wanted) < 1e-12)
    return work


def _stretch(variance, n, tries=50, seed=0):
    """Root mean square of |W h|/|h| over random W (n, n) and one h."""
    rng = np.random.default_rng(seed)
    h = rng.standard_normal(n)
    lengths = [np.linalg.norm(math.sqrt(variance) * rng.standard_normal((n, n)) @ h)
               for _ in range(tries)]
    return float(np.sqrt(np.mean(np.square(lengths))) / np.linalg.norm(h))


def solutions():
    return [remedies()]
