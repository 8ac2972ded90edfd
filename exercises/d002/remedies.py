"""Document 002, Problem 1: what the proposed remedies do to a gradient through time.

Clipping, gates, initialisation and batch normalisation, on small examples.
"""

import math

import numpy as np

from exercises.course import judge, question, table, vec
from npdl.layers.batch_norm import BatchNorm


def cosine(a, b):
    """Return the cosine of the angle between two vectors."""
    return float(np.dot(a, b) / (np.linalg.norm(a) * np.linalg.norm(b)))


def batch_norm_rate(scale, normalised, steps=50, width=32):
    """Return the factor per step of the gradient of h' = tanh(BN(h W + x)), or without BN."""
    rng = np.random.default_rng(8)
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
        d = (norm.backward(d, cache) if normalised else d) @ W.T
    return float((np.linalg.norm(d) / start) ** (1 / steps))


@question("002.1", "What the remedies do: clipping, gates, initialisation, batch normalisation")
def remedies(say, step, answer, check, claim):
    """Name remedies for vanishing and exploding gradients, and say what each of them does."""
    g = np.array([3.0, 4.0])
    tiny = 1e-5 * g
    scaled, kept = (v * min(1.0, 1 / np.linalg.norm(v)) for v in (g, tiny))
    cut = np.clip(g, -1, 1)
    gates, n = (0.5, 0.9, 0.99), 100
    xavier, he = math.sqrt(n / n), math.sqrt(n * 2 / n)
    z = np.array([1.0, 2.0, 3.0])
    small, large = (0.5 * z).std(), (4 * z).std()
    say("g = (3, 4); one forget gate; n = 100 inputs; a batch of three.")
    step("Clipping by the global norm: shorten the whole gradient, keep its direction.",
         "g ← g · min(1, c/|g|)",
         f"|{vec(g, 0)}| = {np.linalg.norm(g):.3f}, c = 1: {vec(scaled)}, cosine with g "
         f"{cosine(g, scaled):.3f}",
         f"each entry cut to ±1 instead: {vec(cut)}, cosine {cosine(g, cut):.3f}")
    step("A vanished gradient is not helped: it is shorter than c, and stays.",
         f"|g| = {np.linalg.norm(tiny):.0e} before and {np.linalg.norm(kept):.0e} after")
    step("Gates: the memory's own road multiplies by the forget gate, not by W.",
         "cₜ = f cₜ₋₁ + …   →   ∂c_T/∂c₀ = f^T along this road",
         table(("f", "f¹⁰", "f⁵⁰"),
               [(f"{f:.2f}", f"{f**10:.2g}", f"{f**50:.1e}") for f in gates]))
    step("Initialisation: with n inputs of variance v a step changes a length by √(n v) on "
         "average.", "E|W h|² = n v |h|²", f"v = 1/n (Xavier): √1 = {xavier:.3f} a step",
         f"v = 2/n (He): √2 = {he:.3f} a step, {he**20:.0f} after 20 steps near h = 0")
    step("Batch normalisation divides by the deviation of z, so that the size of W cancels.",
         "z ← a z  →  std(z) ← a std(z)  →  W/std(z) unchanged",
         f"z = {vec(z, 0)} over a batch: std = {small:.3f} for a = 0.5, {large:.3f} for "
         f"a = 4; ratio {large / small:.3f} = {4 / 0.5:.3f}")
    answer("Clipping is for explosion alone; a gate helps as far as f is near 1 (f⁵⁰ = "
           f"{gates[-1]**50:.2f} at {gates[-1]}, {gates[0]**50:.0e} at {gates[0]}); Xavier's "
           "variance starts near factor 1; batch normalisation takes the size of W out.")
    check("the clipped gradient has length 1 and the direction of g",
          math.isclose(np.linalg.norm(scaled), 1) and cosine(g, scaled) > 1 - 1e-12)
    long, length, short, same = map(np.linalg.norm, (g, scaled, tiny, kept))
    claim("clipping", "clipping keeps an exploding gradient within a threshold",
          "limits gradient values, prevents explosion",
          f"length {long:.2f} becomes {length:.2f} by the global norm, same direction",
          judge(length <= 1 + 1e-9 and cosine(g, scaled) > 1 - 1e-9),
          f"cosine with the true gradient: by norm {cosine(g, scaled):.3f}; with every value "
          f"cut off {cosine(g, cut):.3f}")
    claim("clipping", "clipping mitigates, as one of a list for vanishing and exploding gradients",
          "in the list for both; its own line says explosion",
          f"of explosion only: a vanished gradient of length {short:.1e} stays at {same:.1e}",
          judge(same > short, if_false="under-specified"),
          f"it changes by a factor {same / short:.3f}; holds as its own line has it")
    biases = np.array([0, 1, 5])
    left = (1 / (1 + np.exp(-biases))) ** 50
    plain, normed = ([batch_norm_rate(scale, way) for scale in (0.25, 4.0)]
                     for way in (False, True))
    claim("gates", "LSTM and GRU cells regulate the flow of gradients", "gating regulates it",
          "with a forget gate near 1; at the usual start near 1/2 an LSTM's gradient vanishes "
          f"too: f^50 is {vec(left, '.1e')} for forget biases {vec(biases)}",
          judge(left[0] < 1e-6 and left[-1] > 0.01, "under-specified"),
          "along the memory's own road, inputs and state near 0")
    claim("initialisation", "Xavier or He initialisation stabilises an RNN",
          "helps stabilise training",
          f"Xavier's variance 1/H keeps lengths, He's 2/H multiplies them by {he:.2f} a step; "
          "the second explodes until tanh saturates", judge(he > 1.3, "under-specified"),
          f"near the origin: length {he**100:.1e} after 100 steps; both variances were "
          "derived for layers with their own weights, used once")
    claim("normalisation", "batch normalisation between steps prevents extreme gradients",
          "helps prevent them",
          f"it moves the factor per step towards 1, not to it: {plain[0]:.2f} to "
          f"{normed[0]:.2f} with small weights, {plain[1]:.2f} to {normed[1]:.2f} with large "
          "ones", judge(normed[0] < 0.9 and normed[1] < plain[1], "under-specified"),
          f"an example, seed 8; 50 steps: {normed[0]**50:.1e} in place of {plain[0]**50:.1e}, "
          f"and {normed[1]**50:.1e} in place of {plain[1]**50:.1e}")
