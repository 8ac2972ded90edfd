"""Document 002, Problem 6 (c), (d): the scale of a dot product, and the softmax without it.

q and k in R^d are normal with mean μ and covariance σ² I.
"""

import math

import numpy as np

from exercises.course import judge, question, table, vec
from npdl.functions import softmax


def variance(m, d, sigma=1):
    """Return Var(q·k) = 2 σ² μ·μ + d σ⁴ for μᵢ = m."""
    return 2 * sigma**2 * d * m * m + d * sigma**4


def growth(values):
    """Return the power of d in values at d = 64 and 256."""
    return math.log(values[1] / values[0], 4)


def drawn(m, d, count=200_000):
    """Return products q·k of independent normal q and k with mean m in every coordinate."""
    q, k = np.random.default_rng(0).standard_normal((2, count, d)) + m
    return (q * k).sum(1)


@question("002.6c", "The scale of a dot product")
def scaling(work):
    """Find the scale s for which E[q·k / s] grows linearly with d."""
    widths, m = (4, 16, 64), 2
    means = [d * m * m for d in widths]
    by_root = [mean / math.sqrt(d) for mean, d in zip(means, widths, strict=True)]
    spreads = [variance(0, d) / d for d in widths]
    listed = ", ".join(map(str, widths))
    work.say(f"μᵢ = {m} in every coordinate, d = {listed}.")
    work.step("Take every mean the same, so that d is all that changes.",
              "μᵢ = m   →   E[q·k] = μ·μ = d m²",
              f"m = {m}:  E = {', '.join(map(str, means))} at d = {listed}")
    work.step("Divide by s and look how the mean grows from one d to four times d.",
              "E[q·k/s] = d m²/s",
              table(("d", "d m²", "s = √d", "s = 1", "s = d"),
                    [(d, mean, int(root), mean, mean // d)
                     for d, mean, root in zip(widths, means, by_root, strict=True)]))
    work.step("Linear growth means four times as much for four times d: a constant s.",
              "d m²/s = c d   ⟺   s = m²/c;   in general s = μ·μ/(c d)",
              f"s = 1: {means[1]}/{means[0]} = {means[1] // means[0]};   s = √d: "
              f"{by_root[1]:.0f}/{by_root[0]:.0f} = {by_root[1] / by_root[0]:.0f}")
    work.step("What √d is for is the spread: for μ = 0 the mean is 0 under every s, and the "
              "standard deviation of q·k/√d is σ² for all d.", "Var(q·k/√d) = d σ⁴/d = σ⁴",
              f"σ = 1: {', '.join(f'{s:.0f}' for s in spreads)} at d = {listed}")
    work.answer("For a mean that grows linearly s must not grow with d (s = 1 does); s = √d gives "
                "growth as √d, and is the choice that keeps the standard deviation, not the mean.")
    work.check("the mean of 200,000 products drawn at d = 16 is within 1 % of the table's",
               abs(drawn(m, 16).mean() / means[1] - 1) < 0.01)
    plain, root = (growth([d * m * m / s(d) for d in (64, 256)]) for s in (lambda d: 1, math.sqrt))
    centred = np.zeros(64) @ np.zeros(64)
    work.claim("", "s = sqrt(d) makes E[q.k / s] grow linearly with d", "s = sqrt(d)",
               "no: it grows as sqrt(d) when every mu_i is the same, and is 0 for mu = 0; linear "
               "growth needs s = mu.mu / (c d), a constant such as s = 1 in that case",
               judge(abs(root - 1) < 1e-9),
               f"mu_i = 2, d = 64 and 256: power of d {root:.1f} with sqrt(d), {plain:.1f} with s "
               "= 1", weight="answer")
    work.claim("", "the case mu = 0 answers the question", "consider mu = 0",
               "for mu = 0 the mean is 0 under every s, and no s makes it grow",
               judge(centred != 0), f"E[q.k] = {centred:.0f} at d = 64")
    wide, shifted = variance(0, 64, 2) / 64, variance(1, 64) / 64
    work.claim("", "s = sqrt(d) keeps the dot product at a consistent scale across d",
               "s = sqrt(d), as in transformers",
               "of the standard deviation, and to 1 only for mu = 0 and sigma = 1; in general s = "
               "sqrt(2 sigma^2 mu.mu + d sigma^4)", judge(wide == 1, if_false="under-specified"),
               f"variance of q.k / sqrt(d): {wide:g} at mu = 0, sigma = 2; {shifted:g} at mu_i = "
               "1, sigma = 1, for every d")


@question("002.6d", "A dot product without a scale")
def unscaled(work):
    """Say what happens to the variance of the dot product with s = 1."""
    widths, rows = (1, 16, 256), []
    for d in widths:
        gap = math.sqrt(2 * d)
        raw, scaled = (float(softmax(np.array([g, 0.0]))[0]) for g in (gap, math.sqrt(2)))
        rows.append((d, variance(0, d), f"{gap:.2f}", raw, f"{raw * (1 - raw):.1e}", scaled,
                     scaled * (1 - scaled)))
    variances, listed = ", ".join(str(row[1]) for row in rows), ", ".join(map(str, widths))
    work.say("Standard normal q and k (μ = 0, σ = 1), two keys.")
    work.step("With s = 1 the variance itself grows.", "Var(q·k) = d σ⁴   (μ = 0)",
              f"σ = 1: {variances} at d = {listed}")
    work.step("So two keys' scores lie some √(2 d) σ² apart. Put that gap into a softmax of two.",
              "A₁ = 1/(1 + e^(−gap)),   ∂A₁/∂gap = A₁ (1 − A₁)",
              table(("d", "Var(q·k)", "gap √(2d)", "A₁", "A₁(1 − A₁)", "A₁ with √d", "its slope"),
                    rows))
    work.step("The larger weight goes to 1, and the slope, with which every gradient of q and k is "
              "multiplied, goes to 0: the softmax saturates. Divided by √d the gap is √2 at every "
              "d.")
    work.answer("The variance grows linearly with d, the softmax puts all weight on one key, and "
                f"the gradients through it vanish (slope {rows[-1][4]} at d = {widths[-1]}); they "
                "do not explode.")
    work.check("the variance of 200,000 drawn products at d = 16 is within 3 % of 16",
               abs(drawn(0, 16).var() / 16 - 1) < 0.03)
    weights, (scaled, slope) = [row[3] for row in rows], rows[-1][5:]
    zero, same = (growth([variance(m, d) for d in (64, 256)]) for m in (0, 1))
    printed = growth([2 * d * d * 100**2 + d for d in (64, 256)])
    work.claim("", "with s = 1 the variance grows linearly with d", "linearly, shown for mu = 0",
               "yes: d sigma^4 for mu = 0; for other mu too, if mu.mu grows at most linearly",
               judge(abs(zero - 1) < 1e-9 and abs(same - 1) < 1e-9),
               f"power of d between 64 and 256: {zero:.2f} at mu = 0, {same:.2f} at mu_i = 1; the "
               f"printed formula of (b) would give {printed:.2f} at mu_i = 100")
    work.claim("", "without the scale one or few entries dominate the softmax",
               "highly skewed outputs",
               f"the larger of two weights is {vec(weights)} at d = {vec(widths)}",
               judge(weights[-1] > 0.99 > scaled),
               f"scores √(2d) apart, a typical gap; with s = sqrt(d): {scaled:.3f} at every d")
    slopes = [raw * (1 - raw) for raw in weights]
    work.claim("", "without the scale gradients explode in backpropagation", "gradient explosion",
               "they vanish: a saturated softmax is flat; the typical gradient of q goes to 0",
               judge(slopes[-1] > slopes[0]),
               f"the slope of the example above, A_1 (1 - A_1): {vec(slopes, '.1e')} at d = "
               f"{vec(widths)}; with sqrt(d) {slope:.3f} at every d")
    work.claim("", "scaling by sqrt(d) keeps the softmax from saturating, and so training stable",
               "normalises the variance, training stable",
               f"at every d the larger weight is {scaled:.3f} and its slope {slope:.3f}", "essay",
               f"from d = {widths[0]} to {widths[-1]} the slope does not change with the scale, "
               f"and changes {slopes[-1] / slopes[0]:.0e} times without")
