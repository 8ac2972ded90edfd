"""Document 002, Problem 1, worked: four remedies, one small computation each."""

import math

import numpy as np

from exercises.worked import Check, Solution, Step, Table, num, vec

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
    xavier, he = (math.sqrt(n * variance) for variance in (1 / n, 2 / n))
    z = np.array([1.0, 2.0, 3.0])
    deviations = [float((a * z).std()) for a in SCALES]
    small, large = (num(a, int(a < 1)) for a in SCALES)
    ratio, wanted = deviations[1] / deviations[0], SCALES[1] / SCALES[0]
    return Solution(
        "1",
        (
            Step("Clipping by the global norm: shorten the whole gradient, keep its direction.",
                 "g ← g · min(1, c/|g|)",
                 f"|{vec(g, 0)}| = {num(float(np.linalg.norm(g)))}, c = {c}: {vec(scaled)}, "
                 f"cosine with g {num(cosine(g, scaled))}\neach entry cut to ±{c} instead: "
                 f"{vec(cut)}, cosine {num(cosine(g, cut))}"),
            Step("A vanished gradient is not helped: it is shorter than c, and stays.",
                 numbers=f"|g| = {np.linalg.norm(tiny):.0e} before and {np.linalg.norm(kept):.0e} "
                 "after"),
            Step("Gates: the memory's own road multiplies by the forget gate, not by W.",
                 "cₜ = f cₜ₋₁ + …   →   ∂c_T/∂c₀ = f^T along this road",
                 table=Table(("f", "f¹⁰", "f⁵⁰"),
                             tuple((num(f, 2), f"{f**10:.2g}", f"{f**50:.1e}") for f in gates))),
            Step("Initialisation: with n inputs of variance v a step changes a length by √(n v) "
                 "on average.", "E|W h|² = n v |h|²",
                 f"v = 1/n (Xavier): √1 = {num(xavier)} a step\nv = 2/n (He): √2 = {num(he)} a "
                 f"step, {num(he**STEPS, 0)} after {num(STEPS)} steps near h = 0"),
            Step("Batch normalisation divides by the deviation of z, so that the size of W "
                 "cancels.", "z ← a z  →  std(z) ← a std(z)  →  W/std(z) unchanged",
                 f"z = {vec(z, 0)} over a batch: std = {num(deviations[0])} for a = {small}, "
                 f"{num(deviations[1])} for a = {large}; ratio {num(ratio)} = {num(wanted)}"),
        ),
        "Clipping is for explosion alone; a gate helps as far as f is near 1 (f⁵⁰ = "
        f"{gates[-1]**50:.2f} at {gates[-1]}, {gates[0]**50:.0e} at {gates[0]}); Xavier's variance "
        "starts near factor 1; batch normalisation takes the size of W out.",
        (Check(f"the clipped gradient has length {c} and the direction of g",
               abs(np.linalg.norm(scaled) - LIMIT) < 1e-12 and cosine(g, scaled) > 1 - 1e-12),
         Check("a random 100 × 100 W of variance 1/n, 2/n changes lengths by those factors",
               all(abs(_stretch(v, n) - f) < 0.1 for v, f in ((1 / n, xavier), (2 / n, he)))),
         Check("std is proportional to a", abs(ratio - wanted) < 1e-12)),
        "g = (3, 4); one forget gate; n = 100 inputs; a batch of three.")


def _stretch(variance, n, tries=50, seed=0):
    """Root mean square of |W h|/|h| over random W (n, n) and one h."""
    rng = np.random.default_rng(seed)
    h = rng.standard_normal(n)
    lengths = [np.linalg.norm(math.sqrt(variance) * rng.standard_normal((n, n)) @ h)
               for _ in range(tries)]
    return float(np.sqrt(np.mean(np.square(lengths))) / np.linalg.norm(h))


def solutions():
    return [remedies()]
