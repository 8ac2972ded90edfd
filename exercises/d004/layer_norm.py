"""Document 004, Problem 2.1: layer normalisation, and the two estimates of a variance."""

import math
from fractions import Fraction
from itertools import product

import numpy as np

from exercises.course import judge, question, vec
from npdl.layers.layer_norm import LayerNorm

ROW, WEIGHT, BIAS = (1, 3, 5, 7), (1.0, 1.0, 2.0, 1.0), (0.0, 0.0, 0.0, 1.0)


def variance(values, correction=0):
    """Return the sum of squared deviations over n − correction, exactly."""
    mean = Fraction(sum(values), len(values))
    return sum((value - mean) ** 2 for value in values) / (len(values) - correction)


def mean_variance(population, n, correction=0):
    """Return the mean of the estimates over all samples of n draws with replacement, exactly."""
    samples = list(product(population, repeat=n))
    return sum(variance(sample, correction) for sample in samples) / len(samples)


def normalise(x, eps=1e-5, correction=0):
    """Return (x − E[x]) / √(Var[x] + ε) over the last axis."""
    apart = x - x.mean(-1, keepdims=True)
    var = (apart**2).sum(-1, keepdims=True) / (x.shape[-1] - correction)
    return apart / np.sqrt(var + eps)


@question("004.2.1", "Layer normalisation")
def norm(say, step, answer, check, claim):
    """Normalise a row, and say which of the two estimates of a variance divides it."""
    mean, var, unbiased = Fraction(sum(ROW), len(ROW)), variance(ROW), variance(ROW, 1)
    apart = [value - mean for value in ROW]
    row = np.array(ROW, float)
    out, other = normalise(row, 0), normalise(row, 0, 1)
    y = out * WEIGHT + BIAS
    pairs = ", ".join(vec(pair) for pair in product((0, 2), repeat=2))
    say(f"One row x = {vec(ROW)}.")
    step("The mean of the row alone; other rows of the batch do not enter.", "E[x] = Σ xᵢ / n",
         f"({' + '.join(map(str, ROW))})/4 = {mean}")
    step("The variance of the row, divided by n.", "Var[x] = Σ (xᵢ − E[x])² / n",
         f"deviations {vec(apart)}:  ({' + '.join(str(a * a) for a in apart)})/4 = {var}")
    step("Subtract and divide. ε = 10⁻⁵ only keeps a constant row from 0/0.",
         "x̂ = (x − E[x])/√(Var[x] + ε)", f"{vec(apart)}/√{var} = {vec(out)}")
    step("Weight and bias are learned, one of each for every place of the row.",
         "y = x̂ · weight + bias", f"weight {vec(WEIGHT, 0)}, bias {vec(BIAS, 0)}:  y = {vec(y)}")
    step("With n − 1 in place of n every entry is smaller by the same factor.", "√((n − 1)/n)",
         f"variance {unbiased}, x̂ = {vec(other)};   √(3/4) = {math.sqrt(3 / 4):.3f}")
    step("'Unbiased' is about samples: over all pairs drawn from (0, 2), division by n − 1 is "
         "right on average. A LayerNorm estimates nothing; it takes the row as it is.",
         f"mean of the estimates over {pairs}", f"with n: {mean_variance((0, 2), 2)},   with "
         f"n − 1: {mean_variance((0, 2), 2, 1)},   the variance of (0, 2): {variance((0, 2))}")
    answer("(x − E[x])/√(Var[x] + ε) · weight + bias over the last axis, Var divided by n: "
           f"{vec(ROW)} becomes {vec(y)}.")
    say("In npdl: LayerNorm.forward in npdl/layers/layer_norm.py.")
    layer = LayerNorm(4, dtype="float64")
    layer.gain.data[...], layer.bias.data[...] = WEIGHT, BIAS
    check("npdl's LayerNorm with this weight and bias gives the same to 0.0001",
          np.allclose(layer.forward(row[None])[0][0], y, atol=1e-4))
    check("before weight and bias the row has mean 0 and mean square 1",
          math.isclose(out @ out / 4, 1) and abs(out.sum()) < 1e-12)
    rng = np.random.default_rng(0)
    x = 3 + 2 * rng.standard_normal((4, 3, 4))
    y, _ = layer.forward(x)
    alone = abs(layer.forward(x[1:2, 2:3])[0] - y[1:2, 2:3]).max()
    off = abs((x - x.mean()) / np.sqrt(x.var() + 1e-5) * WEIGHT + BIAS - y).max()
    claim("formula", "(x - E[x]) / sqrt(Var[x] + eps) * weight + bias, with the variance divided "
          "by n.", "the formula, biased estimate", "npdl's LayerNorm gives the same: below 1e-9",
          judge(np.allclose(normalise(x) * WEIGHT + BIAS, y, 0, 1e-9)),
          f"input {x.shape}, weight and bias of the example, eps = 1e-5; {layer.count_params()} "
          "learned numbers for width 4")
    claim("axis", "Mean and variance are those of the last axis alone, though the formula is said "
          "to act on a minibatch.", "only over the last dimension",
          "a row alone gives the same as in its batch (below 1e-9); statistics of the whole "
          f"minibatch would be off by up to {off:.2f}", judge(alone < 1e-9 < off),
          f"an example: input {x.shape} of seed 0")
    population = (0, 1, 5)
    truth, biased, unbiased = variance(population), *(mean_variance(population, 3, k)
                                                      for k in (0, 1))
    claim("bias", "Divided by n - 1 the estimate of a variance is unbiased, divided by n it is "
          "biased.", "1 / (n - 1) unbiased, 1 / n biased",
          f"over all 27 samples of 3 from {population}: mean {unbiased} with n - 1, {biased} with "
          f"n; the variance is {truth}",
          judge(unbiased == truth and biased == truth * Fraction(2, 3)),
          "exact enumeration; biased / true = (n - 1) / n, for independent draws")
    rows = {D: 50 * rng.standard_normal((16, D)) for D in (2, 8, 128)}
    ratios = {D: normalise(row, 0, 1).std(-1) for D, row in rows.items()}
    claim(
        "choice", "It matters which of the two variances a LayerNorm divides by.",
        "the biased one is to be used, the default of a library is the other",
        "with n - 1 every output is sqrt((n - 1) / n) times as large: "
        + ", ".join(f"{std.mean():.4f} for width {D}" for D, std in ratios.items()),
        judge(all(np.allclose(std, math.sqrt((D - 1) / D), 0, 1e-9) for D, std in ratios.items())),
        "deviation of the outputs, eps = 0; a learned weight can make up for it, but not at width "
        "1")
