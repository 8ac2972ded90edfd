"""Document 004, Problem 2.1: layer normalisation, and the two estimates of a variance."""

import math
from fractions import Fraction
from functools import partial
from itertools import product

import numpy as np

from exercises.framework import Claim, judge, proved
from exercises.worked import Solution, below, num, terms, vec
from npdl.layers.layer_norm import LayerNorm

QUESTION = """\
Layer normalisation is (x - E[x]) / sqrt(Var[x] + eps) * weight + bias, mean and variance over the
last axis. Which variance does it take, divided by n or by n - 1; which of the two is an unbiased
estimate; and does the choice matter?"""

TITLES = {"2.1": "Layer normalisation"}

claim = partial(Claim, "004", "Problem 2.1")


def variance(values, correction=0):
    """Sum of squared deviations over n - correction, exactly: a Fraction."""
    values = [Fraction(value) for value in values]
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / (len(values) - correction)


def expected_variance(population, n, correction=0):
    """The mean of `variance` over all samples of n draws with replacement, exactly."""
    samples = list(product(population, repeat=n))
    return sum(variance(sample, correction) for sample in samples) / len(samples)


def normalised(x, weight, bias, eps=1e-5, correction=0):
    """The formula over the last axis of x (..., D), entry by entry; weight and bias (D,)."""
    D = x.shape[-1]
    y = np.empty(x.shape)
    for index in np.ndindex(x.shape[:-1]):
        row = x[index]
        mean = math.fsum(row) / D
        var = math.fsum((row - mean) ** 2) / (D - correction)
        y[index] = (row - mean) / math.sqrt(var + eps) * weight + bias
    return y


def example(shape=(4, 3, 8), seed=0):
    """A LayerNorm with random weight and bias, and an input (..., D)."""
    rng = np.random.default_rng(seed)
    norm = LayerNorm(shape[-1], dtype="float64")
    norm.gain.data[...], norm.bias.data[...] = rng.standard_normal((2, shape[-1]))
    return norm, 3 + 2 * rng.standard_normal(shape)


def claims():
    return [formula_claim(), axis_claim(), bias_claim(), effect_claim()]


def formula_claim():
    norm, x = example()
    y, _ = norm.forward(x)
    error = float(abs(y - normalised(x, norm.gain.data, norm.bias.data)).max())
    return claim(
        "formula", "(x - E[x]) / sqrt(Var[x] + eps) * weight + bias, with the variance divided by "
        "n.", "the formula, biased estimate", f"npdl's LayerNorm gives the same: {below(error)}",
        proved(error < 1e-9), f"input {x.shape}, random weight and bias, eps = 1e-5; "
        f"{norm.count_params()} learned numbers for width {x.shape[-1]}")


def axis_claim():
    norm, x = example()
    y, _ = norm.forward(x)
    alone, _ = norm.forward(x[1:2, 2:3])
    apart = float(abs(alone - y[1:2, 2:3]).max())
    joint = (x - x.mean()) / np.sqrt(x.var() + norm.eps) * norm.gain.data + norm.bias.data
    off = abs(joint - y).max()
    return claim(
        "axis", "Mean and variance are those of the last axis alone, though the formula is said to "
        "act on a minibatch.", "only over the last dimension",
        f"a row alone gives the same as in its batch ({below(apart)}); statistics of the whole "
        f"minibatch would be off by up to {off:.2f}",
        proved(apart < 1e-9 < off), f"an example: input {x.shape} of seed 0")


def bias_claim(population=(0, 1, 5), n=3):
    truth, samples = variance(population), len(population) ** n
    biased, unbiased = (expected_variance(population, n, k) for k in (0, 1))
    return claim(
        "bias", "Divided by n - 1 the estimate of a variance is unbiased, divided by n it is "
        "biased.", "1 / (n - 1) unbiased, 1 / n biased",
        f"over all {samples} samples of {n} from {population}: mean {unbiased} with "
        f"n - 1, {biased} with n; the variance is {truth}",
        proved(unbiased == truth and biased == truth * Fraction(n - 1, n)),
        "exact enumeration with fractions; biased / true = (n - 1) / n, for independent draws")


def effect_claim():
    x = np.random.default_rng(1).standard_normal((16, 8)) * 50
    ratios, plain = {}, []
    for D in (2, 8, 128):
        row = x.reshape(-1, D) if D != 128 else x.reshape(1, 128)
        one, zero = np.ones(D), np.zeros(D)
        own = normalised(row, one, zero, eps=0, correction=1)
        ratios[D] = float(own.std(-1).mean())
        plain.append(float(abs(normalised(row, one, zero, eps=0).std(-1) - 1).max()))
    expected = {D: math.sqrt((D - 1) / D) for D in ratios}
    error = max(abs(ratios[D] - expected[D]) for D in ratios)
    return claim(
        "choice", "It matters which of the two variances a LayerNorm divides by.",
        "the biased one is to be used, the default of a library is the other",
        "with n - 1 every output is sqrt((n - 1) / n) times as large: "
        + ", ".join(f"{ratios[D]:.4f} for width {D}" for D in ratios),
        judge(error < 1e-9, provided=max(plain) < 1e-9),
        f"deviation of the outputs, eps = 0; formula met: {below(error)}; a learned weight can "
        "make up for it, but not at width 1, where n - 1 gives 0 / 0")


ROW = (1, 3, 5, 7)
WEIGHT, BIAS = (1.0, 1.0, 2.0, 1.0), (0.0, 0.0, 0.0, 1.0)


def standardised(row, correction=0):
    """(mean, deviations, variance, row with mean 0 and deviation 1)."""
    mean = Fraction(sum(row), len(row))
    apart = [value - mean for value in row]
    var = sum(a * a for a in apart) / (len(row) - correction)
    return mean, apart, var, [float(a) / math.sqrt(var) for a in apart]


def norm():
    mean, apart, var, out = standardised(ROW)
    _, _, unbiased, other = standardised(ROW, 1)
    y = [w * v + b for w, v, b in zip(WEIGHT, out, BIAS, strict=True)]
    layer = LayerNorm(4, dtype="float64")
    for (_, param), values in zip(layer.params(), (WEIGHT, BIAS), strict=True):
        param.data[...] = values
    own, _ = layer.forward(np.array([ROW], float))
    population, n = (0, 2), 2
    means = [expected_variance(population, n, k) for k in (0, 1)]
    squares, degrees = [a * a for a in apart], len(ROW) - 1
    factor = math.sqrt(degrees / len(ROW))
    work = Solution("2.1", f"One row x = {vec(ROW)}.")
    work.step("The mean of the row alone; other rows of the batch do not enter.", "E[x] = Σ xᵢ / n",
              f"({terms(ROW)})/{len(ROW)} = {num(mean)}")
    work.step("The variance of the row, divided by n.", "Var[x] = Σ (xᵢ − E[x])² / n",
              f"deviations {vec(apart)}:  ({terms(squares)})/{len(ROW)} = {num(var)}")
    work.step("Subtract and divide. ε = 10⁻⁵ only keeps a constant row from 0/0.",
              "x̂ = (x − E[x])/√(Var[x] + ε)", f"{vec(apart)}/√{num(var)} = {vec(out)}")
    work.step("Weight and bias are learned, one of each for every place of the row.",
              "y = x̂ · weight + bias",
              f"weight {vec(WEIGHT, 0)}, bias {vec(BIAS, 0)}:  y = {vec(y)}")
    work.step("With n − 1 in place of n every entry is smaller by the same factor.", "√((n − 1)/n)",
              f"variance {num(unbiased)}, x̂ = {vec(other)};   √({degrees}/{len(ROW)}) = "
              f"{num(factor)}")
    work.step(f"'Unbiased' is about samples: over all pairs drawn from {vec(population)}, "
              "division by n − 1 is right on average. A LayerNorm estimates nothing; it takes the "
              "row as it is.",
              "mean of the estimates over "
                  + ", ".join(vec(pair) for pair in product(population, repeat=n)),
              f"with n: {num(means[0])},   with n − 1: {num(means[1])},   the variance of "
              f"{vec(population)}: {num(variance(population))}")
    work.answer = ("(x − E[x])/√(Var[x] + ε) · weight + bias over the last axis, Var divided by "
                   f"n: {vec(ROW)} becomes {vec(y)}.")
    work.check("npdl's LayerNorm with this weight and bias gives the same to 0.0001",
               np.allclose(own[0], y, atol=1e-4))
    work.check("before weight and bias the row has mean 0 and mean square 1",
               abs(sum(out)) < 1e-12 and abs(sum(v * v for v in out) / 4 - 1) < 1e-12)
    return work


def solutions():
    return [norm()]
