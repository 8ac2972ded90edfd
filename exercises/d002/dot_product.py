"""Document 002, Problem 6 (a), (b): mean and variance of a dot product.

q and k in R^d are normal with mean μ and covariance σ² I.
"""

from itertools import product

import numpy as np

from exercises.course import arrays, judge, question, vec

MU, NU, SIGMA, D = np.array([1, 2]), np.array([3, -1]), 1, 2


def drawn(nu=None, count=200_000):
    """Return products q·k of independent q (mean MU) and k (mean `nu`), or of q and q."""
    q, k = SIGMA * np.random.default_rng(0).standard_normal((2, count, D))
    return ((q + MU) * (q + MU if nu is None else k + nu)).sum(1)


def standard_errors(values, mean):
    """Return by how many standard errors the mean of a sample differs from `mean`."""
    return abs(values.mean() - mean) / (values.std() / len(values) ** 0.5)


@question("002.6a", "The mean of a dot product")
def mean_of_dot_product(work):
    """Derive the mean E[q·k] for random q and k in R^d, normal with mean μ and covariance σ² I."""
    squares, mixed, mean = MU**2, MU * NU, MU @ MU
    own = mean + D * SIGMA**2
    sample, apart, square = drawn(MU), drawn(NU), drawn()
    off = standard_errors(sample, mean)
    work.say(f"d = {D}, μ = {vec(MU)}, σ = {SIGMA}.")
    work.step("Write the dot product as a sum; the mean of a sum is the sum of the means.",
              "E[q·k] = Σᵢ E[qᵢ kᵢ]")
    work.step("q and k are independent (assumed, and needed), so means multiply.",
              "E[qᵢ kᵢ] = E[qᵢ] E[kᵢ] = μᵢ²",
              f"{MU[0]}² = {squares[0]},   {MU[1]}² = {squares[1]}")
    work.step("Add up.", "E[q·k] = Σᵢ μᵢ² = μ·μ", f"{squares[0]} + {squares[1]} = {mean}")
    work.step("With a mean of its own, ν, for the keys, as two matrices make queries and keys: the "
              "same two steps.",
              "E[q·k] = Σᵢ μᵢ νᵢ = μ·ν", f"ν = {vec(NU)}:  {mixed[0]} + {mixed[1]} = {MU @ NU}")
    work.step("Where k = q the factors are not independent, and σ² enters.",
              "E[q·q] = Σᵢ E[qᵢ²] = μ·μ + d σ²", f"{mean} + {D} · {SIGMA}² = {own}")
    work.answer(f"E[q·k] = μ·μ, here {mean}; neither σ nor d enters by itself.")
    work.check("the means of 200,000 drawn products lie within 4 standard errors, of one mean, of "
               "two and of k = q",
               max(off, standard_errors(apart, MU @ NU), standard_errors(square, own)) < 4)
    work.claim("", "E[q.k] = mu.mu", "mu^T mu", f"{mean} for mu = {vec(MU)}, sigma = {SIGMA}",
               judge(off < 4), f"200,000 draws of seed 0: {sample.mean():.2f}")
    work.claim("premise", "q and k are two random vectors; nothing is said of their dependence",
               "the solution takes them as independent",
               "independence is needed: with k = q the mean is mu.mu + d sigma^2, and the "
               "variance 4 sigma^2 mu.mu + 2 d sigma^4, twice that of (b)",
               judge(own != mean, "under-specified"),
               f"k = q: mean {own}, {square.mean():.2f} by drawing; variance {square.var():.1f} "
               f"by drawing, against {sample.var():.1f}")
    work.claim("premise", "q and k have one and the same mean mu", "both N(mu, sigma^2 I)",
               "queries and keys are made by two matrices and have two means mu and nu: then the "
               "mean is mu.nu, and the variance sigma^2 (mu.mu + nu.nu) + d sigma^4",
               judge(MU @ NU != mean, "convention"),
               f"nu = {vec(NU)}: mean {MU @ NU}, {apart.mean():.2f} by drawing; the question's "
               "own case is nu = mu")


@question("002.6b", "The variance of a dot product")
def variance_of_dot_product(work):
    """Derive the variance Var(q·k) for random q and k, normal with mean μ and covariance σ² I."""
    squares, mean, M = MU**2, MU @ MU, np.outer(MU, MU) + SIGMA**2 * np.eye(D, dtype=int)
    parts = (squares + SIGMA**2) ** 2 - squares**2
    trace = np.trace(M @ M)
    closed = 2 * SIGMA**2 * mean + D * SIGMA**4
    printed = 2 * D * SIGMA**2 * mean + D * SIGMA**4
    two, own = SIGMA**2 * (mean + NU @ NU) + D * SIGMA**4, 2 * closed
    sample = drawn(MU)
    work.say(f"d = {D}, μ = {vec(MU)}, σ = {SIGMA}.")
    work.step("Coordinates are independent, so variances add up; each from its second moment.",
              "Var(qᵢ kᵢ) = E[qᵢ²] E[kᵢ²] − μᵢ⁴ = (μᵢ² + σ²)² − μᵢ⁴",
              f"({squares[0]} + {SIGMA})² − {squares[0]**2} = {parts[0]},   "
              f"({squares[1]} + {SIGMA})² − {squares[1]**2} = {parts[1]}")
    work.step("Multiply out and add up: σ² μᵢ² twice, σ⁴ once for each coordinate.",
              "Var(q·k) = Σᵢ (2 σ² μᵢ² + σ⁴) = 2 σ² μ·μ + d σ⁴",
              f"{parts[0]} + {parts[1]} = {sum(parts)};   2 · {SIGMA} · {mean} + {D} · {SIGMA} = "
              f"{closed}")
    work.step("The same by the trace.",
              "E[(q·k)²] = Tr(M M),  M = μ μᵀ + σ² I;   Var = Tr(M M) − (μ·μ)²",
              f"Tr(M M) = Σ Mᵢⱼ² = {' + '.join(map(str, (M * M).ravel()))} = {trace};   "
              f"{trace} − {mean}² = {trace - mean**2}", arrays({"M": M}))
    work.step("Two means μ and ν: the same with E[kᵢ²] = νᵢ² + σ².",
              "Var(q·k) = Σᵢ (μᵢ² + σ²)(νᵢ² + σ²) − μᵢ² νᵢ² = σ² (μ·μ + ν·ν) + d σ⁴",
              f"ν = {vec(NU)}:  {SIGMA} · ({mean} + {NU @ NU}) + {D} · {SIGMA} = {two}")
    work.step("k = q: the moments of one normal number, E[qᵢ²] = μᵢ² + σ² and E[qᵢ⁴] = μᵢ⁴ + 6 μᵢ² "
              "σ² + 3 σ⁴ (as E[z²] = 1, E[z⁴] = 3, odd ones 0). Twice the variance of independent "
              "vectors.",
              "Var(qᵢ²) = E[qᵢ⁴] − E[qᵢ²]² = 4 μᵢ² σ² + 2 σ⁴;   Var(q·q) = 4 σ² μ·μ + 2 d σ⁴",
              f"4 · {SIGMA} · {mean} + 2 · {D} · {SIGMA} = {own}")
    work.step("A d in front of the first term, as one can find it printed, would double it here.",
              "2 d σ² μ·μ + d σ⁴", f"2 · {D} · {SIGMA} · {mean} + {D} · {SIGMA} = {printed}")
    work.answer(f"Var(q·k) = 2 σ² μ·μ + d σ⁴, here {closed}.")
    work.check("moments, closed form and trace agree exactly",
               sum(parts) == closed == trace - mean**2)
    work.check(
        "the variances of 200,000 drawn products, of one mean, of two and of k = q, lie within 4 "
        "standard errors",
        max(standard_errors((x - x.mean()) ** 2, variance) for x, variance in (
            (sample, closed), (drawn(NU), two), (drawn(), own))) < 4)
    q = 2 * MU + 3 * np.array(list(product((-1, 1), repeat=D)))     # all with probability 1/4
    work.claim(
        "", "(q.k)^2 = Tr(q q^T k k^T), and E[q q^T] = mu mu^T + sigma^2 I",
        "the lines before it", "both hold",
        judge(np.array_equal(q.T @ q, len(q) * (4 * np.outer(MU, MU) + 9 * np.eye(D)))
              and all(np.trace(np.outer(a, a) @ np.outer(b, b)) == (a @ b) ** 2
                      for a in q for b in q)),
        f"in integers, all {len(q)} vectors with coordinates 2 mu_i +- 3 equally probable: only "
        "means, variances and independence enter")
    work.claim("", "Tr((mu mu^T + sigma^2 I)^2) = (mu.mu)^2 + 2 sigma^2 mu.mu + d sigma^4",
               "that line of the derivation", "equal", judge(trace == mean**2 + closed),
               f"in integers: {trace - mean**2} from the trace, {sum(parts)} from the moments")
    work.claim("", "Var(q.k) = 2 d sigma^2 mu.mu + d sigma^4", "2 d sigma^2 mu^T mu + d sigma^4",
               f"2 sigma^2 mu.mu + d sigma^4, as the line above it: {closed} for mu = {vec(MU)}, "
               f"sigma = {SIGMA}; the printed result gives {printed}", judge(printed == closed),
               f"200,000 draws of seed 0: {sample.var():.1f}; the two agree only for d = 1 or mu "
               "= 0", weight="answer")
