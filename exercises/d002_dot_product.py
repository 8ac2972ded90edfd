"""Document 002, Problem 6: mean and variance of a dot product, its scale, and the softmax.

Moments are computed exactly with fractions, and again by drawing vectors.
"""

import math
import sys
from fractions import Fraction
from functools import partial
from itertools import pairwise, product
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from exercises.framework import Claim, judge, judgement, run_script
from exercises.shown import listing
from npdl.errors import InputError
from npdl.layers.attention import DotAttention, ScaledDotAttention

QUESTION = """\
Problem 6. q and k in R^d are random, both normal with mean mu and covariance sigma^2 I.
(a) E[q.k]?  (b) Var(q.k)?  (c) With a scale s, E[q.k / s] is to grow linearly with d: what is s?
(d) What happens to the variance of the dot product with s = 1?"""

TITLES = {"6a": "The mean of a dot product", "6b": "The variance of a dot product",
          "6c": "The scale of a dot product", "6d": "A dot product without a scale"}

claim_of = partial(Claim, "002", "Problem 6")


def mean(mu, sigma=1):
    """E[q.k] = mu.mu for independent q and k; exact for integers and fractions."""
    mu, _ = _checked(mu, sigma)
    return sum(m * m for m in mu)


def variance(mu, sigma):
    """Var(q.k), from the moments of each coordinate: sum_i E[q_i^2] E[k_i^2] - mu_i^4."""
    mu, sigma = _checked(mu, sigma)
    return sum((m * m + sigma**2) ** 2 - m**4 for m in mu)


def variance_by_trace(mu, sigma):
    """Var(q.k) by the document's way: Tr((mu mu^T + sigma^2 I)^2) - (mu.mu)^2."""
    mu, sigma = _checked(mu, sigma)
    M = [[a * b + (sigma**2 if i == j else 0) for j, b in enumerate(mu)] for i, a in enumerate(mu)]
    return sum(a * a for row in M for a in row) - mean(mu) ** 2


def printed_variance(mu, sigma):
    """What the document prints at the end: 2 d sigma^2 mu.mu + d sigma^4."""
    mu, sigma = _checked(mu, sigma)
    return 2 * len(mu) * sigma**2 * mean(mu) + len(mu) * sigma**4


def right_variance(mu, sigma):
    """2 sigma^2 mu.mu + d sigma^4."""
    mu, sigma = _checked(mu, sigma)
    return 2 * sigma**2 * mean(mu) + len(mu) * sigma**4


def lines_before(mu, sigma):
    """Whether the derivation's first lines hold for q of coordinates 2 mu_i +- sigma, exactly."""
    mu = np.array(mu)
    q = 2 * mu + sigma * np.array(list(product((-1, 1), repeat=len(mu))))
    trace = [np.trace(np.outer(a, a) @ np.outer(b, b)) == (a @ b) ** 2 for a, b in pairwise(q)]
    moment = 4 * np.outer(mu, mu) + sigma**2 * np.eye(len(mu), dtype=int)
    return all(trace) and np.array_equal(q.T @ q, len(q) * moment)


def drawn(mu, sigma, count=200_000, same=False, seed=0):
    """`count` dot products of independent q and k, or with `same` of q with itself."""
    mu, sigma = _checked(mu, sigma)
    rng = np.random.default_rng(seed)
    mu = np.array([float(m) for m in mu])
    q = mu + float(sigma) * rng.standard_normal((count, len(mu)))
    k = q if same else mu + float(sigma) * rng.standard_normal((count, len(mu)))
    return (q * k).sum(1)


def saturation(d, scaled, keys=16, count=500, seed=1):
    """How npdl's attention behaves for a standard normal query and `keys` such keys of width d.

    Returns the mean largest weight, the mean and the median length of the gradient of the query,
    for one-number values v and upstream gradient 1."""
    if min(d, keys, count) < 1:
        raise InputError(f"d, keys, count = {d}, {keys}, {count}; each must be at least 1")
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


def _checked(mu, sigma):
    mu = [m if isinstance(m, Fraction) else Fraction(m) for m in np.asarray(mu).ravel().tolist()]
    if not mu or not sigma > 0:
        raise InputError(f"mu has {len(mu)} entries, sigma = {sigma!r}; there must be at least one "
                         "entry and sigma must be positive")
    return mu, Fraction(sigma)


def moments():
    """Claims of parts (a) and (b)."""
    mu, sigma = [1, -2, 0, 3, 1, 1, -1, 2], Fraction(3, 2)
    sample, square = drawn(mu, sigma), drawn(mu, sigma, same=True)
    spread = (sample - sample.mean()) ** 2
    error, var_error = (a.std() / math.sqrt(len(a)) for a in (sample, spread))
    var = spread.mean()
    exact, printed = variance(mu, sigma), printed_variance(mu, sigma)
    data = "mu = (1, -2, 0, 3, 1, 1, -1, 2), sigma = 1.5"
    yield claim_of(
        "a", "E[q.k] = mu.mu", "mu^T mu", f"{mean(mu)} for {data}",
        judge(abs(sample.mean() - mean(mu)) < 4 * error),
        f"200,000 draws: {sample.mean():.2f} +- {error:.2f}")
    yield claim_of(
        "a, premise", "q and k are two random vectors; nothing is said of their dependence",
        "the solution takes them as independent",
        "independence is needed: with k = q the mean is mu.mu + d sigma^2",
        judge(abs(square.mean() - mean(mu)) < 1, "confirmed", "under-specified"),
        f"k = q: {float(mean(mu) + len(mu) * sigma**2):g}, {square.mean():.1f} by drawing")
    yield claim_of(
        "b", "(q.k)^2 = Tr(q q^T k k^T), and E[q q^T] = mu mu^T + sigma^2 I",
        "the lines before it", "both hold",
        judge(lines_before(mu, 3)),
        "in integers, all 256 vectors with coordinates 2 mu_i +- 3 alike probable: only means, "
        "variances and independence enter")
    yield claim_of(
        "b", "Tr((mu mu^T + sigma^2 I)^2) = (mu.mu)^2 + 2 sigma^2 mu.mu + d sigma^4",
        "that line of the derivation", "equal",
        judge(variance_by_trace(mu, sigma) == right_variance(mu, sigma) == exact),
        f"exact fractions: {variance_by_trace(mu, sigma)} from the trace, {exact} from the moments")
    yield claim_of(
        "b", "Var(q.k) = 2 d sigma^2 mu.mu + d sigma^4", "2 d sigma^2 mu^T mu + d sigma^4",
        f"2 sigma^2 mu.mu + d sigma^4, as the line above it: {float(exact):.2f} for {data}; the "
        f"printed result gives {float(printed):.2f}",
        judge(exact == printed, provided=abs(var - exact) < 4 * var_error),
        f"200,000 draws: {var:.1f} +- {var_error:.1f}; the two agree only for d = 1 or mu = 0",
        weight="answer")


def scale():
    """Claims of part (c)."""
    widths = (64, 256)
    plain = growth([float(mean([2] * d)) for d in widths])
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
        judge(mean([0] * 64) != 0), f"E[q.k] = {mean([0] * 64)} at d = 64", error="6c scale")
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
    yield claim_of(
        "d", "with s = 1 the variance grows linearly with d", "linearly, shown for mu = 0",
        "yes: d sigma^4 for mu = 0; for other mu too, if mu.mu grows at most linearly",
        judge(abs(zero - 1) < 1e-9 and abs(same - 1) < 1e-9),
        f"power of d between 64 and 256: {zero:.2f} at mu = 0, {same:.2f} at mu_i = 1; the printed "
        f"formula of (b) would give {as_printed:.2f} at mu_i = 100")
    yield claim_of(
        "d", "without the scale one or few entries dominate the softmax", "highly skewed outputs",
        f"the largest of 16 weights is {listing([r[0] for r in raw])} on average at "
        f"d = {listing(widths, 'd')}",
        judge(raw[-1][0] > 0.9 > scaled[-1][0]),
        f"with s = sqrt(d): {listing([r[0] for r in scaled])}; standard normal q and k, 500 draws")
    yield claim_of(
        "d", "without the scale gradients explode in backpropagation", "gradient explosion",
        "they vanish: a saturated softmax is flat; the typical (median) gradient of q goes to 0, "
        "and the mean stays bounded",
        judge(raw[-1][1] > 10 * raw[0][1], provided=raw[-1][2] < raw[0][2]),
        f"median length of dq at d = {listing(widths, 'd')}: {listing([r[2] for r in raw], '.1g')};"
        f" mean {listing([r[1] for r in raw])}; with sqrt(d), median "
        f"{listing([r[2] for r in scaled])}")
    yield claim_of(
        "d", "scaling by sqrt(d) keeps the softmax from saturating, and so training stable",
        "normalises the variance, training stable",
        f"at every d the largest weight stays near {scaled[0][0]:.2f} and the gradient near "
        f"{scaled[0][2]:.2f}",
        judgement("essay", provided=0.5 < scaled[-1][2] / scaled[0][2] < 2),
        f"from d = 16 to 1024 the median gradient changes {scaled[-1][2] / scaled[0][2]:.2f} times "
        f"with the scale, {raw[-1][2] / raw[0][2]:.0e} times without")


def claims():
    return [*moments(), *scale(), *unscaled()]


def figures(folder):
    """Saturation of the softmax against the width of queries and keys."""
    from matplotlib.figure import Figure

    widths = 2 ** np.arange(1, 10)
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    for scaled, name in ((False, "q.k"), (True, "q.k / sqrt(d)")):
        found = np.array([saturation(d, scaled, count=300) for d in widths])
        left.semilogx(widths, found[:, 0], "o-", base=2, label=name)
        right.loglog(widths, found[:, 2], "o-", base=2, label=name)
    left.set(title="the largest of 16 attention weights", ylabel="mean", ylim=(0, 1))
    right.set(title="length of the gradient of q", ylabel="median")
    right.set_yscale("log", base=10)
    for axis in (left, right):
        axis.set_xlabel("width d")
        axis.grid(alpha=0.3)
        axis.legend(title="score")
    path = Path(folder) / "d002_softmax_saturation.png"
    figure.savefig(path, dpi=120)
    return [path]


if __name__ == "__main__":
    sys.exit(run_script(globals()))
