"""Document 002, Problem 6: mean, variance and scale of a dot product, and the softmax without it.

q and k in R^d are normal with mean μ and covariance σ² I.
"""

import math
from itertools import product

import numpy as np

from exercises.course import format_arrays, format_table, judge, question, vec
from npdl.functions import softmax

MU, NU, SIGMA, D = np.array([1, 2]), np.array([3, -1]), 1, 2


def sample_dot_products(mu, nu=None, count=200_000):
    """Return samples of q·k for independent q (mean `mu`) and k (mean `nu`), or of q·q; σ is 1."""
    q, k = np.random.default_rng(0).standard_normal((2, count, len(mu)))
    return ((q + mu) * (q + mu if nu is None else k + nu)).sum(1)


def z_score(values, mean):
    """Return the distance of a sample's mean from `mean`, in standard errors."""
    return abs(values.mean() - mean) / (values.std() / len(values) ** 0.5)


@question("002.6a", "The mean of a dot product")
def solve_dot_product_mean(say, step, answer, check, claim):
    """Derive the mean E[q·k] for random q and k in R^d, normal with mean μ and covariance σ² I."""
    squares, mixed, mean = MU**2, MU * NU, MU @ MU
    own = mean + D * SIGMA**2
    sample, apart, square = (sample_dot_products(MU, nu) for nu in (MU, NU, None))
    off = z_score(sample, mean)
    say(f"d = {D}, μ = {vec(MU)}, σ = {SIGMA}.")
    step("Write the dot product as a sum; the mean of a sum is the sum of the means.",
         "E[q·k] = Σᵢ E[qᵢ kᵢ]")
    step("q and k are independent (assumed, and needed), so means multiply.",
         "E[qᵢ kᵢ] = E[qᵢ] E[kᵢ] = μᵢ²", f"{MU[0]}² = {squares[0]},   {MU[1]}² = {squares[1]}")
    step("Add up.", "E[q·k] = Σᵢ μᵢ² = μ·μ", f"{squares[0]} + {squares[1]} = {mean}")
    step("With a mean of its own, ν, for the keys, as two matrices make queries and keys: the "
         "same two steps.",
         "E[q·k] = Σᵢ μᵢ νᵢ = μ·ν", f"ν = {vec(NU)}:  {mixed[0]} + {mixed[1]} = {MU @ NU}")
    step("Where k = q the factors are not independent, and σ² enters.",
         "E[q·q] = Σᵢ E[qᵢ²] = μ·μ + d σ²", f"{mean} + {D} · {SIGMA}² = {own}")
    answer(f"E[q·k] = μ·μ, here {mean}; neither σ nor d enters by itself.")
    check("the means of 200,000 drawn products lie within 4 standard errors, of one mean, of "
          "two and of k = q", max(off, z_score(apart, MU @ NU), z_score(square, own)) < 4)
    claim("", "E[q.k] = mu.mu", "mu^T mu", f"{mean} for mu = {vec(MU)}, sigma = {SIGMA}",
          judge(off < 4), f"200,000 draws of seed 0: {sample.mean():.2f}")
    claim("premise", "q and k are two random vectors; nothing is said of their dependence",
          "the solution takes them as independent",
          "independence is needed: with k = q the mean is mu.mu + d sigma^2, and the "
          "variance 4 sigma^2 mu.mu + 2 d sigma^4, twice that of (b)",
          judge(own != mean, "under-specified"),
          f"k = q: mean {own}, {square.mean():.2f} by drawing; variance {square.var():.1f} "
          f"by drawing, against {sample.var():.1f}")
    claim("premise", "q and k have one and the same mean mu", "both N(mu, sigma^2 I)",
          "queries and keys are made by two matrices and have two means mu and nu: then the "
          "mean is mu.nu, and the variance sigma^2 (mu.mu + nu.nu) + d sigma^4",
          judge(MU @ NU != mean, "convention"),
          f"nu = {vec(NU)}: mean {MU @ NU}, {apart.mean():.2f} by drawing")


@question("002.6b", "The variance of a dot product")
def solve_dot_product_variance(say, step, answer, check, claim):
    """Derive the variance Var(q·k) for random q and k, normal with mean μ and covariance σ² I."""
    squares, mean, M = MU**2, MU @ MU, np.outer(MU, MU) + SIGMA**2 * np.eye(D, dtype=int)
    parts = (squares + SIGMA**2) ** 2 - squares**2
    trace = np.trace(M @ M)
    closed = 2 * SIGMA**2 * mean + D * SIGMA**4
    printed = 2 * D * SIGMA**2 * mean + D * SIGMA**4
    two, own = SIGMA**2 * (mean + NU @ NU) + D * SIGMA**4, 2 * closed
    sample = sample_dot_products(MU, MU)
    say(f"d = {D}, μ = {vec(MU)}, σ = {SIGMA}.")
    step("Coordinates are independent, so variances add up; each from its second moment.",
         "Var(qᵢ kᵢ) = E[qᵢ²] E[kᵢ²] − μᵢ⁴ = (μᵢ² + σ²)² − μᵢ⁴",
         f"({squares[0]} + {SIGMA})² − {squares[0]**2} = {parts[0]},   "
         f"({squares[1]} + {SIGMA})² − {squares[1]**2} = {parts[1]}")
    step("Multiply out and add up: σ² μᵢ² twice, σ⁴ once for each coordinate.",
         "Var(q·k) = Σᵢ (2 σ² μᵢ² + σ⁴) = 2 σ² μ·μ + d σ⁴",
         f"{parts[0]} + {parts[1]} = {sum(parts)};   2 · {SIGMA} · {mean} + {D} · {SIGMA} = "
         f"{closed}")
    step("The same by the trace.",
         "E[(q·k)²] = Tr(M M),  M = μ μᵀ + σ² I;   Var = Tr(M M) − (μ·μ)²",
         f"Tr(M M) = Σ Mᵢⱼ² = {' + '.join(map(str, (M * M).ravel()))} = {trace};   "
         f"{trace} − {mean}² = {trace - mean**2}", format_arrays({"M": M}))
    step("Two means μ and ν: the same with E[kᵢ²] = νᵢ² + σ².",
         "Var(q·k) = Σᵢ (μᵢ² + σ²)(νᵢ² + σ²) − μᵢ² νᵢ² = σ² (μ·μ + ν·ν) + d σ⁴",
         f"ν = {vec(NU)}:  {SIGMA} · ({mean} + {NU @ NU}) + {D} · {SIGMA} = {two}")
    step("k = q: the moments of one normal number, E[qᵢ²] = μᵢ² + σ² and E[qᵢ⁴] = μᵢ⁴ + 6 μᵢ² σ² + "
         "3 σ⁴ (as E[z²] = 1, E[z⁴] = 3, odd ones 0). Twice the variance of independent vectors.",
         "Var(qᵢ²) = E[qᵢ⁴] − E[qᵢ²]² = 4 μᵢ² σ² + 2 σ⁴;   Var(q·q) = 4 σ² μ·μ + 2 d σ⁴",
         f"4 · {SIGMA} · {mean} + 2 · {D} · {SIGMA} = {own}")
    step("A d in front of the first term, as one can find it printed, would double it here.",
         "2 d σ² μ·μ + d σ⁴", f"2 · {D} · {SIGMA} · {mean} + {D} · {SIGMA} = {printed}")
    answer(f"Var(q·k) = 2 σ² μ·μ + d σ⁴, here {closed}.")
    check("moments, closed form and trace agree exactly", sum(parts) == closed == trace - mean**2)
    check("the variances of 200,000 drawn products, of one mean, of two and of k = q, lie within 4 "
          "standard errors", max(z_score((x - x.mean()) ** 2, variance) for x, variance in (
                                 (sample, closed), (sample_dot_products(MU, NU), two),
                                 (sample_dot_products(MU), own))) < 4)
    q = 2 * MU + 3 * np.array(list(product((-1, 1), repeat=D)))     # all with probability 1/4
    claim("", "(q.k)^2 = Tr(q q^T k k^T), and E[q q^T] = mu mu^T + sigma^2 I",
          "the lines before it", "both hold",
          judge(np.array_equal(q.T @ q, len(q) * (4 * np.outer(MU, MU) + 9 * np.eye(D)))
                and all(np.trace(np.outer(a, a) @ np.outer(b, b)) == (a @ b) ** 2
                   for a in q for b in q)),
          f"in integers, all {len(q)} vectors with coordinates 2 mu_i +- 3 equally probable")
    claim("", "Tr((mu mu^T + sigma^2 I)^2) = (mu.mu)^2 + 2 sigma^2 mu.mu + d sigma^4",
          "that line of the derivation", "equal", judge(trace == mean**2 + closed),
          f"in integers: {trace - mean**2} from the trace, {sum(parts)} from the moments")
    claim("", "Var(q.k) = 2 d sigma^2 mu.mu + d sigma^4", "2 d sigma^2 mu^T mu + d sigma^4",
          f"2 sigma^2 mu.mu + d sigma^4, as the line above it: {closed} for mu = {vec(MU)}, "
          f"sigma = {SIGMA}; the printed result gives {printed}", judge(printed == closed),
          f"200,000 draws of seed 0: {sample.var():.1f}; they agree for d = 1 or mu = "
          "0", weight="answer")


def product_variance(mu, d, sigma=1):
    """Return Var(q·k) = 2 σ² μ·μ + d σ⁴ for μᵢ = mu."""
    return 2 * sigma**2 * d * mu * mu + d * sigma**4


def growth_exponent(values):
    """Return the exponent of d, from values at d = 64 and d = 256."""
    return math.log(values[1] / values[0], 4)


@question("002.6c", "The scale of a dot product")
def solve_scale_for_linear_growth(say, step, answer, check, claim):
    """Find the scale s for which E[q·k / s] grows linearly with d."""
    widths, m = (4, 16, 64), 2
    means = [d * m * m for d in widths]
    by_root = [mean / math.sqrt(d) for mean, d in zip(means, widths, strict=True)]
    spreads = [product_variance(0, d) / d for d in widths]
    listed = ", ".join(map(str, widths))
    say(f"μᵢ = {m} in every coordinate, d = {listed}.")
    step("Take every mean the same, so that d is all that changes.",
         "μᵢ = m   →   E[q·k] = μ·μ = d m²",
         f"m = {m}:  E = {', '.join(map(str, means))} at d = {listed}")
    step("Divide by s and look how the mean grows from one d to four times d.", "E[q·k/s] = d m²/s",
         format_table(("d", "d m²", "s = √d", "s = 1", "s = d"),
                      [(d, mean, int(root), mean, mean // d)
                       for d, mean, root in zip(widths, means, by_root, strict=True)]))
    step("Linear growth means four times as much for four times d: a constant s.",
         "d m²/s = c d   ⟺   s = m²/c;   in general s = μ·μ/(c d)",
         f"s = 1: {means[1]}/{means[0]} = {means[1] // means[0]};   s = √d: "
         f"{by_root[1]:.0f}/{by_root[0]:.0f} = {by_root[1] / by_root[0]:.0f}")
    step("What √d is for is the spread: for μ = 0 the mean is 0 under every s, and the "
         "standard deviation of q·k/√d is σ² for all d.", "Var(q·k/√d) = d σ⁴/d = σ⁴",
         f"σ = 1: {', '.join(f'{s:.0f}' for s in spreads)} at d = {listed}")
    answer("For a mean that grows linearly s must not grow with d (s = 1 does); s = √d gives "
           "growth as √d, and is the choice that keeps the standard deviation, not the mean.")
    check("the mean of 200,000 products drawn at d = 16 is within 1 % of the table's",
          abs(sample_dot_products(*np.full((2, 16), m)).mean() / means[1] - 1) < 0.01)
    plain, root = (growth_exponent([d * m * m / s(d) for d in (64, 256)])
                   for s in (lambda d: 1, math.sqrt))
    centred = np.zeros(64) @ np.zeros(64)
    claim("", "s = sqrt(d) makes E[q.k / s] grow linearly with d", "s = sqrt(d)",
          "no: it grows as sqrt(d) when every mu_i is the same, and is 0 for mu = 0; linear "
          "growth needs s = mu.mu / (c d), a constant such as s = 1 in that case",
          judge(abs(root - 1) < 1e-9),
          f"mu_i = 2: power of d {root:.1f} with sqrt(d), {plain:.1f} with s = 1", weight="answer")
    claim("", "the case mu = 0 answers the question", "consider mu = 0",
          "for mu = 0 the mean is 0 under every s, and no s makes it grow",
          judge(centred != 0), f"E[q.k] = {centred:.0f} at d = 64")
    wide, shifted = product_variance(0, 64, 2) / 64, product_variance(1, 64) / 64
    claim("", "s = sqrt(d) keeps the dot product at a consistent scale across d",
          "s = sqrt(d), as in transformers",
          "of the standard deviation, and to 1 only for mu = 0 and sigma = 1; in general s = "
          "sqrt(2 sigma^2 mu.mu + d sigma^4)", judge(wide == 1, if_false="under-specified"),
          f"variance of q.k / sqrt(d): {wide:g} at mu = 0, sigma = 2; {shifted:g} at mu_i = "
          "sigma = 1")


@question("002.6d", "A dot product without a scale")
def solve_variance_without_scale(say, step, answer, check, claim):
    """Say what happens to the variance of the dot product with s = 1."""
    widths, rows = (1, 16, 256), []
    for d in widths:
        gap = math.sqrt(2 * d)
        raw, scaled = (float(softmax(np.array([g, 0.0]))[0]) for g in (gap, math.sqrt(2)))
        rows.append((d, product_variance(0, d), f"{gap:.2f}", raw, f"{raw * (1 - raw):.1e}", scaled,
                     scaled * (1 - scaled)))
    variances, listed = ", ".join(str(row[1]) for row in rows), ", ".join(map(str, widths))
    say("Standard normal q and k (μ = 0, σ = 1), two keys.")
    step("With s = 1 the variance itself grows.", "Var(q·k) = d σ⁴   (μ = 0)",
         f"σ = 1: {variances} at d = {listed}")
    step("So two keys' scores lie some √(2 d) σ² apart. Put that gap into a softmax of two.",
         "A₁ = 1/(1 + e^(−gap)),   ∂A₁/∂gap = A₁ (1 − A₁)",
         format_table(("d", "Var(q·k)", "gap √(2d)", "A₁", "A₁(1 − A₁)", "A₁ with √d", "its slope"),
                      rows))
    step("The larger weight goes to 1, and the slope, with which every gradient of q and k is "
         "multiplied, goes to 0: the softmax saturates. Divided by √d the gap is √2 at every d.")
    answer("The variance grows linearly with d, the softmax puts all weight on one key, and "
           f"the gradients through it vanish (slope {rows[-1][4]} at d = {widths[-1]}); they "
           "do not explode.")
    check("the variance of 200,000 drawn products at d = 16 is within 3 % of 16",
          abs(sample_dot_products(*np.zeros((2, 16))).var() / 16 - 1) < 0.03)
    weights, (scaled, slope) = [row[3] for row in rows], rows[-1][5:]
    zero, same = (growth_exponent([product_variance(m, d) for d in (64, 256)]) for m in (0, 1))
    printed = growth_exponent([2 * d * d * 100**2 + d for d in (64, 256)])
    claim("", "with s = 1 the variance grows linearly with d", "linearly, shown for mu = 0",
          "yes: d sigma^4 for mu = 0; for other mu too, if mu.mu grows at most linearly",
          judge(abs(zero - 1) < 1e-9 and abs(same - 1) < 1e-9),
          f"power of d between 64 and 256: {zero:.2f} at mu = 0, {same:.2f} at mu_i = 1; the "
          f"printed formula of (b) would give {printed:.2f} at mu_i = 100")
    claim("", "without the scale one or few entries dominate the softmax", "highly skewed outputs",
          f"the larger of two weights is {vec(weights)} at d = {vec(widths)}",
          judge(weights[-1] > 0.99 > scaled),
          f"scores √(2d) apart, a typical gap; with s = sqrt(d): {scaled:.3f} at every d")
    slopes = [raw * (1 - raw) for raw in weights]
    claim("", "without the scale gradients explode in backpropagation", "gradient explosion",
          "they vanish: a saturated softmax is flat; the typical gradient of q goes to 0",
          judge(slopes[-1] > slopes[0]),
          f"the slope of the example above, A_1 (1 - A_1): {vec(slopes, '.1e')} at d = "
          f"{vec(widths)}; with sqrt(d) {slope:.3f} at every d")
    claim("", "scaling by sqrt(d) keeps the softmax from saturating, and so training stable",
          "normalises the variance, training stable",
          f"at every d the larger weight is {scaled:.3f} and its slope {slope:.3f}", "essay",
          f"from d = {widths[0]} to {widths[-1]} the slope does not change with the scale, "
          f"and changes {slopes[-1] / slopes[0]:.0e} times without")
