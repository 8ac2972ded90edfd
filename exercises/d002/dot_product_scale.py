"""Document 002, Problem 6 (c) and (d): the scale of a dot product, and the softmax without it."""

import math
from fractions import Fraction
from functools import partial

import numpy as np

from exercises.d002.dot_product import drawn, mean, printed_variance, right_variance
from exercises.framework import Claim, judge, judgement, proved
from exercises.worked import Solution, Table, listing, num
from npdl.functions import softmax
from npdl.layers.attention import DotAttention, ScaledDotAttention

QUESTION = """\
Problem 6. q and k in R^d are random, both normal with mean mu and covariance sigma^2 I.
(c) With a scale s, E[q.k / s] is to grow linearly with d: what is s?
(d) What happens to the variance of the dot product with s = 1?"""

TITLES = {"6c": "The scale of a dot product", "6d": "A dot product without a scale"}

claim_of = partial(Claim, "002", "Problem 6")


def saturation(d, scaled, keys=16, count=500, seed=1):
    """How npdl's attention behaves for a standard normal query and `keys` such keys of width d.

    Returns the mean largest weight, the mean and the median length of the gradient of the query,
    for one-number values v and upstream gradient 1."""
    rng, layer = np.random.default_rng(seed), ScaledDotAttention() if scaled else DotAttention()
    largest, lengths = [], []
    n = min(count, 100)
    for _ in range(max(1, count // 100)):
        q = rng.standard_normal((n, 1, d))
        k, v = rng.standard_normal((n, keys, d)), rng.standard_normal((n, keys, 1))
        y, cache = layer.forward(q, k, v)
        dq, _, _ = layer.backward(np.ones_like(y), cache)
        largest.append(cache.A.max(-1).ravel())
        lengths.append(np.sqrt((dq * dq).sum(-1)).ravel())
    lengths = np.concatenate(lengths)
    return float(np.mean(largest)), float(lengths.mean()), float(np.median(lengths))


def growth(values):
    """The power of d in values measured at d and 4 d: log_4 of their ratio."""
    return math.log(values[1] / values[0], 4)


def scale():
    """Claims of part (c)."""
    widths = (64, 256)
    plain = growth([float(mean([2] * d)) for d in widths])
    centred = mean([0] * 64)
    by_root = growth([float(mean([2] * d)) / math.sqrt(d) for d in widths])
    yield claim_of(
        "c", "s = sqrt(d) makes E[q.k / s] grow linearly with d", "s = sqrt(d)",
        "no: it grows as sqrt(d) when every mu_i is the same, and is 0 for mu = 0; linear growth "
        "needs s = mu.mu / (c d), a constant such as s = 1 in that case",
        judge(abs(by_root - 1) < 1e-9, provided=abs(plain - 1) < 1e-9),
        f"mu_i = 2, d = 64 and 256: power of d {by_root:.1f} with sqrt(d), {plain:.1f} with s = 1",
        weight="answer", error="6c scale")
    yield claim_of(
        "c", "the case mu = 0 answers the question", "consider mu = 0",
        "for mu = 0 the mean is 0 under every s, and no s makes it grow",
        judge(centred != 0, provided=mean([1] * 64) == 64),
        f"E[q.k] = {centred} at d = 64", error="6c scale")
    sigma = 2
    ratio = float(right_variance([0] * 64, sigma)) / 64
    shifted = [float(right_variance([1] * d, 1)) / d for d in widths]
    yield claim_of(
        "c", "s = sqrt(d) keeps the dot product at a consistent scale across d",
        "s = sqrt(d), as in transformers",
        "of the standard deviation, and to 1 only for mu = 0 and sigma = 1; in general s = "
        "sqrt(2 sigma^2 mu.mu + d sigma^4)",
        judge(ratio == 1, "confirmed", "under-specified"),
        f"variance of q.k / sqrt(d): {ratio:g} at mu = 0, sigma = 2; {shifted[0]:g} at mu_i = 1, "
        "sigma = 1, for every d")


def unscaled():
    """Claims of part (d)."""
    widths = (16, 64, 256, 1024)
    zero, same = (growth([float(right_variance([m] * d, 1)) for d in (64, 256)]) for m in (0, 1))
    as_printed = growth([float(printed_variance([100] * d, 1)) for d in (64, 256)])
    raw = [saturation(d, False) for d in widths]
    scaled = [saturation(d, True) for d in widths]
    steady, fallen = (rows[-1][2] / rows[0][2] for rows in (scaled, raw))
    yield claim_of(
        "d", "with s = 1 the variance grows linearly with d", "linearly, shown for mu = 0",
        "yes: d sigma^4 for mu = 0; for other mu too, if mu.mu grows at most linearly",
        proved(abs(zero - 1) < 1e-9 and abs(same - 1) < 1e-9),
        f"power of d between 64 and 256: {zero:.2f} at mu = 0, {same:.2f} at mu_i = 1; the printed "
        f"formula of (b) would give {as_printed:.2f} at mu_i = 100")
    yield claim_of(
        "d", "without the scale one or few entries dominate the softmax", "highly skewed outputs",
        f"the largest of 16 weights is {listing([r[0] for r in raw])} on average at "
        f"d = {listing(widths, 'd')}",
        judge(raw[-1][0] > 0.9 > scaled[-1][0]),
        f"with s = sqrt(d): {listing([r[0] for r in scaled])}; 500 normal q and k, seed 1")
    yield claim_of(
        "d", "without the scale gradients explode in backpropagation", "gradient explosion",
        "they vanish: a saturated softmax is flat; the typical (median) gradient of q goes to 0, "
        "and the mean stays bounded",
        judge(raw[-1][1] > 10 * raw[0][1], provided=raw[-1][2] < raw[0][2]),
        "500 draws, seed 1: "
        f"median length of dq at d = {listing(widths, 'd')}: {listing([r[2] for r in raw], '.1g')};"
        f" mean {listing([r[1] for r in raw])}; with sqrt(d), median "
        f"{listing([r[2] for r in scaled])}")
    yield claim_of(
        "d", "scaling by sqrt(d) keeps the softmax from saturating, and so training stable",
        "normalises the variance, training stable",
        f"at every d the largest weight stays near {scaled[0][0]:.2f} and the gradient near "
        f"{scaled[0][2]:.2f}",
        judgement("essay", provided=0.5 < steady < 2),
        f"500 draws, seed 1: from d = 16 to 1024 the median gradient changes {steady:.2f} times "
        f"with the scale, {fallen:.0e} times without")


def means_over_scales(d, m):
    """d m^2, and what it is over sqrt(d), over 1 and over d, as whole numbers."""
    e = mean([m] * d)
    return e, int(e / math.isqrt(d)), int(e), int(e / d)


def first_weight(gap):
    """(the weight of the first of two keys whose scores lie `gap` apart, its slope)."""
    A = 1 / (1 + math.exp(-gap))
    return A, A * (1 - A)


def scaling():
    """Part (c)."""
    widths, m = (4, 16, 64), 2
    rows = tuple((d, *means_over_scales(d, m)) for d in widths)
    means = [row[1] for row in rows]
    spreads = [Fraction(right_variance([0] * d, 1), d) for d in widths]
    work = Solution("6c", f"μᵢ = {m} in every coordinate, d = {', '.join(map(str, widths))}.")
    work.step("Take every mean the same, so that d is all that changes.",
              "μᵢ = m   →   E[q·k] = μ·μ = d m²",
              f"m = {m}:  E = " + ", ".join(num(e) for e in means)
              + " at d = " + ", ".join(map(str, widths)))
    work.step("Divide by s and look how the mean grows from one d to four times d.",
              "E[q·k/s] = d m²/s", table=Table(("d", "d m²", "s = √d", "s = 1", "s = d"), rows))
    work.step("Linear growth means four times as much for four times d: a constant s.",
              "d m²/s = c d   ⟺   s = m²/c;   in general s = μ·μ/(c d)",
              f"s = 1: {num(means[1])}/{num(means[0])} = {num(Fraction(means[1], means[0]))};   s "
              f"= √d: {num(rows[1][2])}/{num(rows[0][2])} = "
              f"{num(Fraction(rows[1][2], rows[0][2]))}")
    work.step("What √d is for is the spread: for μ = 0 the mean is 0 under every s, and the "
              "standard deviation of q·k/√d is σ² for all d.", "Var(q·k/√d) = d σ⁴/d = σ⁴",
              f"σ = 1: {', '.join(map(num, spreads))} at d = {', '.join(map(str, widths))}")
    work.answer = ("For a mean that grows linearly s must not grow with d (s = 1 does); s = √d "
                   "gives growth as √d, and is the choice that keeps the standard deviation, not "
                   "the mean.")
    work.check("the mean of 200,000 products drawn at d = 16 is within 1 % of the table's",
               abs(drawn([m] * 16, 1).mean() / float(means[1]) - 1) < 0.01)
    work.check("the variance of q·k/√d is the same at every d for μ = 0",
               len(set(spreads)) == 1)
    return work


def worked_unscaled():
    """Part (d)."""
    widths = (1, 16, 256)
    variances, rows = [right_variance([0] * d, 1) for d in widths], []
    for d, variance in zip(widths, variances, strict=True):
        gap = math.sqrt(2 * d)
        (raw, steep), (scaled, slope) = map(first_weight, (gap, gap / math.sqrt(d)))
        rows.append((d, num(variance), num(gap, 2), num(raw), f"{steep:.1e}",
                     num(scaled), num(slope)))
    sample, step = drawn([0] * 16, 1, 200_000), 1e-6
    above, below = (softmax(np.array([math.sqrt(2) + s, 0]))[0] for s in (step, -step))
    work = Solution("6d", "Standard normal q and k (μ = 0, σ = 1), two keys.")
    work.step("With s = 1 the variance itself grows.", "Var(q·k) = d σ⁴   (μ = 0)",
              f"σ = 1: {', '.join(map(num, variances))} at d = {', '.join(map(str, widths))}")
    work.step("So two keys' scores lie some √(2 d) σ² apart. Put that gap into a softmax of two.",
              "A₁ = 1/(1 + e^(−gap)),   ∂A₁/∂gap = A₁ (1 − A₁)",
              table=Table(("d", "Var(q·k)", "gap √(2d)", "A₁", "A₁(1 − A₁)", "A₁ with √d",
                           "its slope"), tuple(rows)))
    work.step("The larger weight goes to 1, and the slope, with which every gradient of q and k "
              "is multiplied, goes to 0: the softmax saturates. Divided by √d the gap is √2 at "
              "every d.")
    work.answer = ("The variance grows linearly with d, the softmax puts all weight on one key, "
                   f"and the gradients through it vanish (slope {rows[-1][4]} at d = "
                   f"{widths[-1]}); they do not explode.")
    work.check("the variance of 200,000 drawn products at d = 16 is within 3 % of 16",
               abs(sample.var() / 16 - 1) < 0.03)
    work.check("the last slope is a difference of two of npdl's softmaxes",
               abs((above - below) / (2 * step) - slope) < 1e-9)
    return work


def claims():
    return [*scale(), *unscaled()]


def solutions():
    return [scaling(), worked_unscaled()]
