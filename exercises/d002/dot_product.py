"""Document 002, Problem 6 (a), (b): mean and variance of a dot product, exactly and by drawing."""

import math
from fractions import Fraction
from functools import partial
from itertools import pairwise, product

import numpy as np

from exercises.framework import Claim, judge, proved
from exercises.worked import Solution, num, terms, vec

QUESTION = """\
Problem 6. q and k in R^d are random, both normal with mean mu and covariance sigma^2 I.
(a) E[q.k]?  (b) Var(q.k)?"""
TITLES = {"6a": "The mean of a dot product", "6b": "The variance of a dot product"}
claim_of = partial(Claim, "002", "Problem 6")


def mean(mu, nu=None):
    """E[q.k] = mu.nu for independent q and k of means mu and nu (mu too where it is not given);
    exact for integers and fractions."""
    return sum(m * n for m, n in zip(mu, mu if nu is None else nu, strict=True))


def variance(mu, sigma, nu=None):
    """Var(q.k), from the moments of each coordinate: sum_i E[q_i^2] E[k_i^2] - mu_i^2 nu_i^2."""
    return sum((m * m + sigma**2) * (n * n + sigma**2) - (m * n) ** 2
               for m, n in zip(mu, mu if nu is None else nu, strict=True))


def two_means_variance(mu, nu, sigma):
    """sigma^2 (mu.mu + nu.nu) + d sigma^4, the variance for two means in closed form."""
    return sigma**2 * (mean(mu) + mean(nu)) + len(mu) * sigma**4


def square_moments(mu, sigma):
    """(E[q.q], Var(q.q)) of a normal q, from E[q_i^2] and E[q_i^4] of each coordinate: with k = q
    the two factors are not independent."""
    second = [m**2 + sigma**2 for m in mu]
    fourth = [m**4 + 6 * m**2 * sigma**2 + 3 * sigma**4 for m in mu]
    return sum(second), sum(f - s**2 for f, s in zip(fourth, second, strict=True))


def variance_by_trace(mu, sigma):
    """Var(q.k) by the document's way: Tr((mu mu^T + sigma^2 I)^2) - (mu.mu)^2."""
    M = [[a * b + (sigma**2 if i == j else 0) for j, b in enumerate(mu)] for i, a in enumerate(mu)]
    return sum(a * a for row in M for a in row) - mean(mu) ** 2


def printed_variance(mu, sigma):
    """What the document prints at the end: 2 d sigma^2 mu.mu + d sigma^4."""
    return 2 * len(mu) * sigma**2 * mean(mu) + len(mu) * sigma**4


def right_variance(mu, sigma):
    """2 sigma^2 mu.mu + d sigma^4."""
    return 2 * sigma**2 * mean(mu) + len(mu) * sigma**4


def lines_before(mu, sigma):
    """Whether the derivation's first lines hold for q of coordinates 2 mu_i +- sigma, exactly."""
    mu = np.array(mu)
    q = 2 * mu + sigma * np.array(list(product((-1, 1), repeat=len(mu))))
    trace = [np.trace(np.outer(a, a) @ np.outer(b, b)) == (a @ b) ** 2 for a, b in pairwise(q)]
    moment = 4 * np.outer(mu, mu) + sigma**2 * np.eye(len(mu), dtype=int)
    return all(trace) and np.array_equal(q.T @ q, len(q) * moment)


def drawn(mu, sigma, count=200_000, same=False, seed=0, nu=None):
    """`count` dot products of independent q (mean mu) and k (mean nu, or mu), or with `same` of q
    with itself."""
    rng = np.random.default_rng(seed)
    mu, nu = (np.array(m, float) for m in (mu, mu if nu is None else nu))
    q = mu + float(sigma) * rng.standard_normal((count, len(mu)))
    k = q if same else nu + float(sigma) * rng.standard_normal((count, len(mu)))
    return (q * k).sum(1)


def off_by(sample, moment, centre=None):
    """(how many standard errors the sample's mean is off, the mean, its standard error); with a
    `centre` of its squared distances from there, that is of the variance."""
    values = sample if centre is None else (sample - centre) ** 2
    error = values.std() / math.sqrt(len(values))
    return abs(values.mean() - float(moment)) / error, values.mean(), error


def moments():
    """Claims of parts (a) and (b)."""
    mu, sigma = [1, -2, 0, 3, 1, 1, -1, 2], Fraction(3, 2)
    nu = [2, 0, -1, 1, 0, 3, 1, -2]
    sample, square = drawn(mu, sigma), drawn(mu, sigma, same=True)
    off, found, error = off_by(sample, mean(mu))
    var_off, var, var_error = off_by(sample, variance(mu, sigma), sample.mean())
    exact, printed = variance(mu, sigma), printed_variance(mu, sigma)
    own_mean, own_variance = square_moments(mu, sigma)
    own = [off_by(square, own_mean), off_by(square, own_variance, square.mean())]
    apart = drawn(mu, sigma, nu=nu)
    two = [off_by(apart, mean(mu, nu)),
           off_by(apart, two_means_variance(mu, nu, sigma), apart.mean())]
    sound = max(off, var_off, *(row[0] for row in (*own, *two))) < 4
    data = "mu = (1, -2, 0, 3, 1, 1, -1, 2), sigma = 1.5"
    yield claim_of(
        "a", "E[q.k] = mu.mu", "mu^T mu", f"{mean(mu)} for {data}",
        judge(off < 4, provided=sound),
        f"200,000 draws of seed 0: {found:.2f} +- {error:.2f}")
    yield claim_of(
        "a, premise", "q and k are two random vectors; nothing is said of their dependence",
        "the solution takes them as independent",
        "independence is needed: with k = q the mean is mu.mu + d sigma^2, and the variance "
        "4 sigma^2 mu.mu + 2 d sigma^4, twice that of (b)",
        judge((own_mean, own_variance) == (mean(mu), exact), "confirmed", "under-specified",
              provided=sound),
        f"k = q: mean {float(own_mean):g}, {own[0][1]:.1f} by drawing; variance "
        f"{float(own_variance):g}, {own[1][1]:.0f} +- {own[1][2]:.0f}, from E[q_i^4] = mu_i^4 + "
        "6 mu_i^2 sigma^2 + 3 sigma^4")
    yield claim_of(
        "a, premise", "q and k have one and the same mean mu", "both N(mu, sigma^2 I)",
        "queries and keys are made by two matrices and have two means mu and nu: then the mean is "
        "mu.nu, and the variance sigma^2 (mu.mu + nu.nu) + d sigma^4",
        judge((mean(mu, nu), variance(mu, sigma, nu)) == (mean(mu), exact), "confirmed",
              "convention", provided=sound and
              variance(mu, sigma, nu) == two_means_variance(mu, nu, sigma)),
        f"nu = (2, 0, -1, 1, 0, 3, 1, -2): mean {mean(mu, nu)}, {two[0][1]:.2f} +- "
        f"{two[0][2]:.2f} by drawing; variance {float(variance(mu, sigma, nu)):g}, "
        f"{two[1][1]:.1f} +- {two[1][2]:.1f}; the question's own case is nu = mu")
    yield claim_of(
        "b", "(q.k)^2 = Tr(q q^T k k^T), and E[q q^T] = mu mu^T + sigma^2 I",
        "the lines before it", "both hold",
        proved(lines_before(mu, 3)),
        "in integers, all 256 vectors with coordinates 2 mu_i +- 3 alike probable: only means, "
        "variances and independence enter")
    yield claim_of(
        "b", "Tr((mu mu^T + sigma^2 I)^2) = (mu.mu)^2 + 2 sigma^2 mu.mu + d sigma^4",
        "that line of the derivation", "equal",
        proved(sound and variance_by_trace(mu, sigma) == right_variance(mu, sigma) == exact),
        f"exact fractions: {variance_by_trace(mu, sigma)} from the trace, {exact} from the moments")
    yield claim_of(
        "b", "Var(q.k) = 2 d sigma^2 mu.mu + d sigma^4", "2 d sigma^2 mu^T mu + d sigma^4",
        f"2 sigma^2 mu.mu + d sigma^4, as the line above it: {float(exact):.2f} for {data}; the "
        f"printed result gives {float(printed):.2f}",
        judge(exact == printed, provided=sound and exact == right_variance(mu, sigma)),
        f"200,000 draws of seed 0: {var:.1f} +- {var_error:.1f}; the two agree only for "
        "d = 1 or mu = 0",
        weight="answer")


def claims():
    return list(moments())


MU, NU, SIGMA = (1, 2), (3, -1), 1


def variances(mu, sigma):
    """The variance of each product q_i k_i, from its second moments."""
    return [(m * m + sigma**2) ** 2 - m**4 for m in mu]


def by_trace(mu, sigma):
    """(M = mu mu^T + sigma^2, Tr(M M))."""
    M = np.outer(mu, mu) + sigma**2 * np.eye(len(mu), dtype=int)
    return M, int((M * M).sum())


def expectation():
    """Part (a)."""
    products, mixed = ([m * n for m, n in zip(MU, other, strict=True)] for other in (MU, NU))
    work = Solution("6a", f"d = 2, μ = {vec(MU)}, σ = {SIGMA}.")
    work.step("Write the dot product as a sum; the mean of a sum is the sum of the means.",
              "E[q·k] = Σᵢ E[qᵢ kᵢ]")
    work.step("q and k are independent (assumed, and needed), so means multiply.",
              "E[qᵢ kᵢ] = E[qᵢ] E[kᵢ] = μᵢ²",
              f"{num(MU[0])}² = {num(products[0])},   {num(MU[1])}² = {num(products[1])}")
    work.step("Add up.", "E[q·k] = Σᵢ μᵢ² = μ·μ", f"{terms(products)} = {num(mean(MU))}")
    work.step("With a mean of its own, ν, for the keys, as two matrices make queries and keys: "
              "the same two steps.", "E[q·k] = Σᵢ μᵢ νᵢ = μ·ν",
              f"ν = {vec(NU)}:  {terms(mixed)} = {num(mean(MU, NU))}")
    work.step("Where k = q the factors are not independent, and σ² enters.",
              "E[q·q] = Σᵢ E[qᵢ²] = μ·μ + d σ²",
              f"{num(mean(MU))} + 2 · {SIGMA} = {num(square_moments(MU, SIGMA)[0])}")
    work.answer = f"E[q·k] = μ·μ, here {num(mean(MU))}; neither σ nor d enters by itself."
    work.check("the means of 200,000 drawn products lie within 4 standard errors, of one mean, of "
               "two and of k = q",
               max(off_by(sample, moment)[0] for sample, moment in (
                   (drawn(MU, SIGMA), mean(MU)), (drawn(MU, SIGMA, nu=NU), mean(MU, NU)),
                   (drawn(MU, SIGMA, same=True), square_moments(MU, SIGMA)[0]))) < 4)
    return work


def spread():
    """Part (b)."""
    parts, (M, trace), dot = variances(MU, SIGMA), by_trace(MU, SIGMA), mean(MU)
    squares, fourths = ([m**power for m in MU] for power in (2, 4))
    entries, from_trace = [int(v * v) for v in M.ravel()], trace - dot**2
    work = Solution("6b", f"d = 2, μ = {vec(MU)}, σ = {SIGMA}.")
    work.step("Coordinates are independent, so variances add up; each from its second moment.",
              "Var(qᵢ kᵢ) = E[qᵢ²] E[kᵢ²] − μᵢ⁴ = (μᵢ² + σ²)² − μᵢ⁴",
              f"({num(squares[0])} + {SIGMA})² − {num(fourths[0])} = {num(parts[0])},   "
              f"({num(squares[1])} + {SIGMA})² − {num(fourths[1])} = {num(parts[1])}")
    work.step("Multiply out and add up: σ² μᵢ² twice, σ⁴ once for each coordinate.",
              "Var(q·k) = Σᵢ (2 σ² μᵢ² + σ⁴) = 2 σ² μ·μ + d σ⁴",
              f"{terms(parts)} = {num(sum(parts))};   2 · {SIGMA} · {num(dot)} + 2 · {SIGMA} = "
              f"{num(right_variance(MU, SIGMA))}")
    work.step("The same by the trace.",
              "E[(q·k)²] = Tr(M M),  M = μ μᵀ + σ² I;   Var = Tr(M M) − (μ·μ)²",
              f"Tr(M M) = Σ Mᵢⱼ² = {terms(entries)} = {trace};   {trace} − {num(dot)}² = "
              f"{num(from_trace)}", {"M": M})
    work.step("Two means μ and ν: the same with E[kᵢ²] = νᵢ² + σ².",
              "Var(q·k) = Σᵢ (μᵢ² + σ²)(νᵢ² + σ²) − μᵢ² νᵢ² = σ² (μ·μ + ν·ν) + d σ⁴",
              f"ν = {vec(NU)}:  {SIGMA} · ({num(dot)} + {num(mean(NU))}) + 2 · {SIGMA} = "
              f"{num(two_means_variance(MU, NU, SIGMA))}")
    work.step("k = q: the moments of one normal number, E[qᵢ²] = μᵢ² + σ² and E[qᵢ⁴] = μᵢ⁴ + 6 "
              "μᵢ² σ² + 3 σ⁴ (as E[z²] = 1, E[z⁴] = 3, odd ones 0). Twice the variance of "
              "independent vectors.",
              "Var(qᵢ²) = E[qᵢ⁴] − E[qᵢ²]² = 4 μᵢ² σ² + 2 σ⁴;   Var(q·q) = 4 σ² μ·μ + 2 d σ⁴",
              f"4 · {SIGMA} · {num(dot)} + 2 · 2 · {SIGMA} = {num(square_moments(MU, SIGMA)[1])}")
    work.step("A d in front of the first term, as one can find it printed, would double it here.",
              "2 d σ² μ·μ + d σ⁴",
              f"2 · 2 · {SIGMA} · {num(dot)} + 2 · {SIGMA} = {num(printed_variance(MU, SIGMA))}")
    work.answer = f"Var(q·k) = 2 σ² μ·μ + d σ⁴, here {num(variance(MU, SIGMA))}."
    work.check("moments, closed form and trace agree exactly",
               sum(parts) == right_variance(MU, SIGMA) == from_trace == variance(MU, SIGMA))
    work.check("for two means and for k = q the moments give the closed forms",
               variance(MU, SIGMA, NU) == two_means_variance(MU, NU, SIGMA)
               and square_moments(MU, SIGMA)[1] == 4 * SIGMA**2 * dot + 2 * 2 * SIGMA**4)
    work.check("the variances of 200,000 drawn products, of one mean, of two and of k = q, lie "
               "within 4 standard errors",
               max(
                   off_by(sample, moment, sample.mean())[0] for sample, moment in (
                   (drawn(MU, SIGMA), variance(MU, SIGMA)),
                   (drawn(MU, SIGMA, nu=NU), two_means_variance(MU, NU, SIGMA)),
                   (drawn(MU, SIGMA, same=True), square_moments(MU, SIGMA)[1]))) < 4)
    return work


def solutions():
    return [expectation(), spread()]
