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
    sample, two_means, square = (sample_dot_products(MU, nu) for nu in (MU, NU, None))
    standard_errors = z_score(sample, mean)
    say(f"d = {D}, μ = {vec(MU)}, σ = {SIGMA}.")
    step("Write the dot product as a sum. The mean of a sum is the sum of the means.",
         "E[q·k] = Σᵢ E[qᵢ kᵢ]")
    step("q and k are assumed to be independent, so the mean of a product is the product of the "
         "means.", "E[qᵢ kᵢ] = E[qᵢ] E[kᵢ] = μᵢ²",
         f"{MU[0]}² = {squares[0]},   {MU[1]}² = {squares[1]}")
    step("Add up the terms.", "E[q·k] = Σᵢ μᵢ² = μ·μ", f"{squares[0]} + {squares[1]} = {mean}")
    step("In a transformer, two matrices compute the queries and the keys, so the keys have "
         "another mean ν. The same two steps apply.", "E[q·k] = Σᵢ μᵢ νᵢ = μ·ν",
         f"ν = {vec(NU)}:  {mixed[0]} + {mixed[1]} = {MU @ NU}")
    step("If k = q, the factors are not independent, and σ² appears.",
         "E[q·q] = Σᵢ E[qᵢ²] = μ·μ + d σ²", f"{mean} + {D} · {SIGMA}² = {own}")
    answer(f"E[q·k] = μ·μ, here {mean}. It does not depend on σ, and depends on d only through μ.")
    check("The means of 200,000 samples are within 4 standard errors: with one mean, with two "
          "means, and for k = q.",
          max(standard_errors, z_score(two_means, MU @ NU), z_score(square, own)) < 4)
    claim("", "E[q.k] = mu.mu", "mu^T mu", f"{mean} for mu = {vec(MU)}, sigma = {SIGMA}",
          judge(standard_errors < 4), f"mean of 200,000 samples (seed 0): {sample.mean():.2f}")
    claim("premise", "q and k are two random vectors; nothing is said of their dependence",
          "the solution takes them as independent", "independence is needed: if k = q, the mean is "
          "mu.mu + d sigma^2, and the variance is 4 sigma^2 mu.mu + 2 d sigma^4, twice that of (b)",
          judge(own != mean, "under-specified"), f"k = q: mean {own}, sampled {square.mean():.2f}; "
          f"sampled variance {square.var():.1f}, compared with {sample.var():.1f} if independent")
    claim("premise", "q and k have one and the same mean mu", "both N(mu, sigma^2 I)",
          "two matrices compute queries and keys, so they have two means mu and nu; then the mean "
          "is mu.nu, and the variance is sigma^2 (mu.mu + nu.nu) + d sigma^4",
          judge(MU @ NU != mean, "convention"),
          f"nu = {vec(NU)}: mean {MU @ NU}, sampled {two_means.mean():.2f}")


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
    step("The coordinates are independent, so their variances add up. Compute each variance from "
         "second moments.", "Var(qᵢ kᵢ) = E[qᵢ²] E[kᵢ²] − μᵢ⁴ = (μᵢ² + σ²)² − μᵢ⁴",
         f"({squares[0]} + {SIGMA})² − {squares[0]**2} = {parts[0]},   ({squares[1]} + {SIGMA})² − "
         f"{squares[1]**2} = {parts[1]}")
    step("Multiply out and add up. Each coordinate contributes σ² μᵢ² twice and σ⁴ once.",
         "Var(q·k) = Σᵢ (2 σ² μᵢ² + σ⁴) = 2 σ² μ·μ + d σ⁴", f"{parts[0]} + {parts[1]} = "
         f"{sum(parts)};   2 · {SIGMA} · {mean} + {D} · {SIGMA} = {closed}")
    step("Compute the same variance with a trace.", "E[(q·k)²] = Tr(M M),  M = μ μᵀ + σ² I;   Var "
         "= Tr(M M) − (μ·μ)²", f"Tr(M M) = Σ Mᵢⱼ² = {' + '.join(map(str, (M * M).ravel()))} = "
         f"{trace};   {trace} − {mean}² = {trace - mean**2}", format_arrays({"M": M}))
    step("If the means μ and ν differ, use E[kᵢ²] = νᵢ² + σ².",
         "Var(q·k) = Σᵢ (μᵢ² + σ²)(νᵢ² + σ²) − μᵢ² νᵢ² = σ² (μ·μ + ν·ν) + d σ⁴",
         f"ν = {vec(NU)}:  {SIGMA} · ({mean} + {NU @ NU}) + {D} · {SIGMA} = {two}")
    step("If k = q, use the moments of a normal variable: E[qᵢ²] = μᵢ² + σ² and E[qᵢ⁴] = μᵢ⁴ + 6 "
         "μᵢ² σ² + 3 σ⁴ (because E[z²] = 1, E[z⁴] = 3, and odd moments are 0). The variance is "
         "twice that of independent vectors.", "Var(qᵢ²) = E[qᵢ⁴] − E[qᵢ²]² = 4 μᵢ² σ² + 2 σ⁴;   "
         "Var(q·q) = 4 σ² μ·μ + 2 d σ⁴", f"4 · {SIGMA} · {mean} + 2 · {D} · {SIGMA} = {own}")
    step("The document has a factor d in the first term. Here it would double this term.",
         "2 d σ² μ·μ + d σ⁴", f"2 · {D} · {SIGMA} · {mean} + {D} · {SIGMA} = {printed}")
    answer(f"Var(q·k) = 2 σ² μ·μ + d σ⁴, here {closed}.")
    check("The moments, the closed form and the trace agree exactly.",
          sum(parts) == closed == trace - mean**2)
    check("The variances of 200,000 samples are within 4 standard errors: with one mean, with two "
          "means, and for k = q.", max(z_score((x - x.mean()) ** 2, variance) for x, variance in (
              (sample, closed), (sample_dot_products(MU, NU), two),
              (sample_dot_products(MU), own))) < 4)
    q = 2 * MU + 3 * np.array(list(product((-1, 1), repeat=D)))     # all with probability 1/4
    claim("", "(q.k)^2 = Tr(q q^T k k^T), and E[q q^T] = mu mu^T + sigma^2 I",
          "the lines before it", "both hold",
          judge(np.array_equal(q.T @ q, len(q) * (4 * np.outer(MU, MU) + 9 * np.eye(D)))
                and all(np.trace(np.outer(a, a) @ np.outer(b, b)) == (a @ b) ** 2
                        for a in q for b in q)), f"computed in integers; all {len(q)} vectors with "
          "coordinates 2 mu_i +- 3 are equally probable")
    claim("", "Tr((mu mu^T + sigma^2 I)^2) = (mu.mu)^2 + 2 sigma^2 mu.mu + d sigma^4",
          "that line of the derivation", "equal", judge(trace == mean**2 + closed),
          f"computed in integers: {trace - mean**2} from the trace, {sum(parts)} from the moments")
    claim("", "Var(q.k) = 2 d sigma^2 mu.mu + d sigma^4", "2 d sigma^2 mu^T mu + d sigma^4",
          f"2 sigma^2 mu.mu + d sigma^4, as in the document's previous line: {closed} for mu = "
          f"{vec(MU)}, sigma = {SIGMA}; the printed result gives {printed}",
          judge(printed == closed), f"variance of 200,000 samples (seed 0): {sample.var():.1f}; "
          "both formulas agree for d = 1 or mu = 0", weight="answer")


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
    variances = [product_variance(0, d) / d for d in widths]
    listed = ", ".join(map(str, widths))
    say(f"Every coordinate has the mean μᵢ = {m}, and d = {listed}.")
    step("Take the same mean for every coordinate, so that only d changes.", "μᵢ = m   →   E[q·k] "
         "= μ·μ = d m²", f"m = {m}:  E = {', '.join(map(str, means))} at d = {listed}")
    step("Divide by s, and see how the mean grows if d becomes four times as large.",
         "E[q·k/s] = d m²/s", format_table(("d", "d m²", "s = √d", "s = 1", "s = d"), [
             (d, mean, int(root), mean, mean // d)
             for d, mean, root in zip(widths, means, by_root, strict=True)]))
    step("With linear growth, four times d gives four times the mean. This needs a constant s.",
         "d m²/s = c d   ⟺   s = m²/c;   in general s = μ·μ/(c d)",
         f"s = 1: {means[1]}/{means[0]} = {means[1] // means[0]};   s = √d: "
         f"{by_root[1]:.0f}/{by_root[0]:.0f} = {by_root[1] / by_root[0]:.0f}")
    step("The purpose of √d is the standard deviation. For μ = 0 the mean is 0 for every s, and "
         "the standard deviation of q·k/√d is σ² for all d.", "Var(q·k/√d) = d σ⁴/d = σ⁴",
         f"σ = 1: {', '.join(f'{s:.0f}' for s in variances)} at d = {listed}")
    answer("The mean grows linearly if s does not depend on d, for example if s = 1. With s = √d, "
           "the mean grows as √d. This keeps the standard deviation constant, but not the mean.")
    check("The mean of 200,000 samples at d = 16 is within 1 % of the table's.",
          abs(sample_dot_products(*np.full((2, 16), m)).mean() / means[1] - 1) < 0.01)
    plain, root = (growth_exponent([d * m * m / s(d) for d in (64, 256)])
                   for s in (lambda d: 1, math.sqrt))
    centred = np.zeros(64) @ np.zeros(64)
    claim("", "s = sqrt(d) makes E[q.k / s] grow linearly with d", "s = sqrt(d)",
          "no: it grows as sqrt(d) if all mu_i are equal, and is 0 for mu = 0; linear growth needs "
          "s = mu.mu / (c d), which is a constant such as s = 1 if all mu_i are equal",
          judge(abs(root - 1) < 1e-9), f"mu_i = 2: the exponent of d is {root:.1f} with sqrt(d), "
          f"{plain:.1f} with s = 1", weight="answer")
    claim("", "the case mu = 0 answers the question", "consider mu = 0",
          "for mu = 0 the mean is 0 for every s, so no s makes it grow",
          judge(centred != 0), f"E[q.k] = {centred:.0f} at d = 64")
    wide, shifted = product_variance(0, 64, 2) / 64, product_variance(1, 64) / 64
    claim("", "s = sqrt(d) keeps the dot product at a consistent scale across d",
          "s = sqrt(d), as in transformers", "true of the standard deviation, which is 1 only for "
          "mu = 0 and sigma = 1; in general s = sqrt(2 sigma^2 mu.mu + d sigma^4)",
          judge(wide == 1, if_false="under-specified"), f"variance of q.k / sqrt(d): {wide:g} at "
          f"mu = 0, sigma = 2; {shifted:g} at mu_i = sigma = 1")


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
    say("q and k are standard normal (μ = 0, σ = 1), and there are two keys.")
    step("With s = 1 the variance grows with d.", "Var(q·k) = d σ⁴   (μ = 0)",
         f"σ = 1: {variances} at d = {listed}")
    step("So the scores of two keys typically differ by √(2 d) σ². Insert this gap into a softmax "
         "of two scores.", "A₁ = 1/(1 + e^(−gap)),   ∂A₁/∂gap = A₁ (1 − A₁)",
         format_table(("d", "Var(q·k)", "gap √(2d)", "A₁", "A₁(1 − A₁)", "A₁ with √d", "its A₁(1 − "
                                                                                       "A₁)"),
                      rows))
    step("The larger weight goes to 1, and its derivative goes to 0. Every gradient of q and k is "
         "multiplied by this derivative, so the softmax saturates. Divided by √d, the gap is "
         "always √2.")
    answer("The variance grows linearly with d. The softmax puts all weight on one key, and the "
           f"gradients through it vanish (derivative {rows[-1][4]} at d = {widths[-1]}). They do "
           "not explode.")
    check("The variance of 200,000 samples at d = 16 is within 3 % of 16.",
          abs(sample_dot_products(*np.zeros((2, 16))).var() / 16 - 1) < 0.03)
    weights, (scaled, slope) = [row[3] for row in rows], rows[-1][5:]
    zero, same = (growth_exponent([product_variance(m, d) for d in (64, 256)]) for m in (0, 1))
    printed = growth_exponent([2 * d * d * 100**2 + d for d in (64, 256)])
    claim("", "with s = 1 the variance grows linearly with d", "linearly, shown for mu = 0",
          "yes: d sigma^4 for mu = 0; also for other mu, if mu.mu grows at most linearly",
          judge(abs(zero - 1) < 1e-9 and abs(same - 1) < 1e-9),
          f"exponent of d between 64 and 256: {zero:.2f} at mu = 0, {same:.2f} at mu_i = 1; the "
          f"printed formula of (b) would give {printed:.2f} at mu_i = 100")
    claim("", "without the scale one or few entries dominate the softmax", "highly skewed outputs",
          f"the larger of two weights is {vec(weights)} at d = {vec(widths)}",
          judge(weights[-1] > 0.99 > scaled),
          f"the scores differ by the typical gap √(2d); with s = sqrt(d): {scaled:.3f} for every d")
    slopes = [raw * (1 - raw) for raw in weights]
    claim("", "without the scale gradients explode in backpropagation", "gradient explosion",
          "they vanish: the derivative of a saturated softmax is near 0, and so is the typical "
          "gradient of q", judge(slopes[-1] > slopes[0]),
          f"the derivative in the example above, A_1 (1 - A_1): {vec(slopes, '.1e')} at d = "
          f"{vec(widths)}; with sqrt(d) {slope:.3f} for every d")
    claim("", "scaling by sqrt(d) keeps the softmax from saturating, and so training stable",
          "normalises the variance, training stable", "for every d the larger weight is "
          f"{scaled:.3f} and its derivative is {slope:.3f}", "essay",
          f"from d = {widths[0]} to {widths[-1]}, the derivative is constant with the scale; "
          f"without the scale it is multiplied by {slopes[-1] / slopes[0]:.0e}")
