"""Document 002, Problem 6, worked: two coordinates, exact, and what √d does."""

import math
from fractions import Fraction

import numpy as np

from exercises.d002_dot_product import drawn, mean, printed_variance, right_variance, variance
from exercises.worked import Check, Solution, Step, Table, num, terms, vec
from npdl.functions import softmax

MU, SIGMA = (1, 2), 1


def variances(mu, sigma):
    """The variance of each product q_i k_i, from its second moments."""
    return [(m * m + sigma**2) ** 2 - m**4 for m in mu]


def by_trace(mu, sigma):
    """(M = mu mu^T + sigma^2, Tr(M M))."""
    M = np.outer(mu, mu) + sigma**2 * np.eye(len(mu), dtype=int)
    return M, int((M * M).sum())


def means_over_scales(d, m):
    """d m^2, and what it is over sqrt(d), over 1 and over d, as whole numbers."""
    e = mean([m] * d)
    return e, int(e / math.isqrt(d)), int(e), int(e / d)


def first_weight(gap):
    """(the weight of the first of two keys whose scores lie `gap` apart, its slope)."""
    A = 1 / (1 + math.exp(-gap))
    return A, A * (1 - A)


def expectation():
    """Part (a)."""
    products = [m * m for m in MU]
    sample = drawn(MU, SIGMA, 200_000)
    return Solution(
        "6a",
        (
            Step("Write the dot product as a sum; the mean of a sum is the sum of the means.",
                 "E[q·k] = Σᵢ E[qᵢ kᵢ]"),
            Step("q and k are independent (assumed, and needed), so means multiply.",
                 "E[qᵢ kᵢ] = E[qᵢ] E[kᵢ] = μᵢ²",
                 f"{num(MU[0])}² = {num(products[0])},   {num(MU[1])}² = {num(products[1])}"),
            Step("Add up.", "E[q·k] = Σᵢ μᵢ² = μ·μ", f"{terms(products)} = {num(mean(MU))}"),
        ),
        f"E[q·k] = μ·μ, here {num(mean(MU))}; neither σ nor d enters by itself.",
        (Check("the mean of 200,000 drawn products lies within 4 standard errors",
               abs(sample.mean() - mean(MU)) < 4 * sample.std() / math.sqrt(len(sample))),),
        f"d = 2, μ = {vec(MU)}, σ = {SIGMA}.")


def spread():
    """Part (b)."""
    parts, (M, trace), dot = variances(MU, SIGMA), by_trace(MU, SIGMA), mean(MU)
    sample = drawn(MU, SIGMA, 200_000)
    return Solution(
        "6b",
        (
            Step("Coordinates are independent, so variances add up; each from its second moment.",
                 "Var(qᵢ kᵢ) = E[qᵢ²] E[kᵢ²] − μᵢ⁴ = (μᵢ² + σ²)² − μᵢ⁴",
                 f"({num(MU[0])} + {SIGMA})² − {num(MU[0]**4)} = {num(parts[0])},   "
                 f"({num(MU[1]**2)} + {SIGMA})² − {num(MU[1]**4)} = {num(parts[1])}"),
            Step("Multiply out and add up: σ² μᵢ² twice, σ⁴ once for each coordinate.",
                 "Var(q·k) = Σᵢ (2 σ² μᵢ² + σ⁴) = 2 σ² μ·μ + d σ⁴",
                 f"{terms(parts)} = {num(sum(parts))};   2 · {SIGMA} · {num(dot)} + 2 · {SIGMA} = "
                 f"{num(right_variance(MU, SIGMA))}"),
            Step("The same by the trace.",
                 "E[(q·k)²] = Tr(M M),  M = μ μᵀ + σ² I;   Var = Tr(M M) − (μ·μ)²",
                 f"Tr(M M) = Σ Mᵢⱼ² = {terms([int(v * v) for v in M.ravel()])} = {trace};   "
                 f"{trace} − {num(dot)}² = {num(trace - dot**2)}", {"M": M}),
            Step("A d in front of the first term, as one can find it printed, would double it "
                 "here.", "2 d σ² μ·μ + d σ⁴", f"2 · 2 · {SIGMA} · {num(dot)} + 2 · {SIGMA} = "
                 f"{num(printed_variance(MU, SIGMA))}"),
        ),
        f"Var(q·k) = 2 σ² μ·μ + d σ⁴, here {num(variance(MU, SIGMA))}.",
        (Check("moments, closed form and trace agree exactly",
               sum(parts) == right_variance(MU, SIGMA) == trace - dot**2 == variance(MU, SIGMA)),
         Check("the variance of 200,000 drawn products is within 3 % of it",
               abs(sample.var() / float(variance(MU, SIGMA)) - 1) < 0.03)),
        f"d = 2, μ = {vec(MU)}, σ = {SIGMA}.")


def scaling():
    """Part (c)."""
    widths, m = (4, 16, 64), 2
    rows = tuple((d, *means_over_scales(d, m)) for d in widths)
    means = [row[1] for row in rows]
    return Solution(
        "6c",
        (
            Step("Take every mean the same, so that d is all that changes.",
                 "μᵢ = m   →   E[q·k] = μ·μ = d m²",
                 f"m = {m}:  E = " + ", ".join(num(e) for e in means)
                 + " at d = " + ", ".join(map(str, widths))),
            Step("Divide by s and look how the mean grows from one d to four times d.",
                 "E[q·k/s] = d m²/s",
                 table=Table(("d", "d m²", "s = √d", "s = 1", "s = d"), rows)),
            Step("Linear growth means four times as much for four times d: a constant s.",
                 "d m²/s = c d   ⟺   s = m²/c;   in general s = μ·μ/(c d)",
                 f"s = 1: {num(means[1])}/{num(means[0])} = {num(Fraction(means[1], means[0]))};   "
                 f"s = √d: "
                 f"{num(rows[1][2])}/{num(rows[0][2])} = {num(Fraction(rows[1][2], rows[0][2]))}"),
            Step("What √d is for is the spread: for μ = 0 the mean is 0 under every s, and the "
                 "standard deviation of q·k/√d is σ² for all d.",
                 "Var(q·k/√d) = d σ⁴/d = σ⁴",
                 f"σ = 1: {', '.join(num(right_variance([0] * d, 1) / d) for d in widths)} at "
                 f"d = {', '.join(map(str, widths))}"),
        ),
        "For a mean that grows linearly s must not grow with d (s = 1 does); s = √d gives growth "
        "as √d, and is the choice that keeps the standard deviation, not the mean.",
        (Check("the mean of 200,000 products drawn at d = 16 is within 1 % of the table's",
               abs(drawn([m] * 16, 1).mean() / float(means[1]) - 1) < 0.01),
         Check("the variance of q·k/√d is the same at every d for μ = 0",
               len({right_variance([0] * d, 1) / d for d in widths}) == 1)),
        f"μᵢ = {m} in every coordinate, d = {', '.join(map(str, widths))}.")


def unscaled():
    """Part (d)."""
    widths = (1, 16, 256)
    rows = []
    for d in widths:
        gap = math.sqrt(2 * d)
        (raw, steep), (scaled, slope) = map(first_weight, (gap, gap / math.sqrt(d)))
        rows.append((d, num(right_variance([0] * d, 1)), num(gap, 2), num(raw), f"{steep:.1e}",
                     num(scaled), num(slope)))
    sample, step = drawn([0] * 16, 1, 200_000), 1e-6
    above, below = (softmax(np.array([math.sqrt(2) + s, 0]))[0] for s in (step, -step))
    return Solution(
        "6d",
        (
            Step("With s = 1 the variance itself grows.", "Var(q·k) = d σ⁴   (μ = 0)",
                 f"σ = 1: {', '.join(num(right_variance([0] * d, 1)) for d in widths)} at d = "
                 f"{', '.join(map(str, widths))}"),
            Step("So two keys' scores lie some √(2 d) σ² apart. Put that gap into a softmax of "
                 "two.", "A₁ = 1/(1 + e^(−gap)),   ∂A₁/∂gap = A₁ (1 − A₁)",
                 table=Table(("d", "Var(q·k)", "gap √(2d)", "A₁", "A₁(1 − A₁)", "A₁ with √d",
                              "its slope"), tuple(rows))),
            Step("The larger weight goes to 1, and the slope, with which every gradient of q and k "
                 "is multiplied, goes to 0: the softmax saturates. Divided by √d the gap is √2 "
                 "at every d."),
        ),
        "The variance grows linearly with d, the softmax puts all weight on one key, and the "
        f"gradients through it vanish (slope {rows[-1][4]} at d = {widths[-1]}); they do not "
        "explode.",
        (Check("the variance of 200,000 drawn products at d = 16 is within 3 % of 16",
               abs(sample.var() / 16 - 1) < 0.03),
         Check("the last slope is a difference of two of npdl's softmaxes",
               abs((above - below) / (2 * step) - slope) < 1e-9)),
        "Standard normal q and k (μ = 0, σ = 1), two keys.",
        picture="the softmax's largest weight and the gradient of q against d")


def solutions():
    return [expectation(), spread(), scaling(), unscaled()]
