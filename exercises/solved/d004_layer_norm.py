"""Document 004, Problem 2.1, worked: one row of four numbers."""

import math
from fractions import Fraction
from itertools import product

import numpy as np

from exercises.d004_layer_norm import expected_variance, variance
from exercises.worked import Check, Solution, Step, num, terms, vec
from npdl.layers.norm import LayerNorm

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
    return Solution(
        "2.1",
        (
            Step("The mean of the row alone; other rows of the batch do not enter.",
                 "E[x] = Σ xᵢ / n", f"({terms(ROW)})/{len(ROW)} = {num(mean)}"),
            Step("The variance of the row, divided by n.", "Var[x] = Σ (xᵢ − E[x])² / n",
                 f"deviations {vec(apart)}:  ({terms([a * a for a in apart])})/{len(ROW)} = "
                 f"{num(var)}"),
            Step("Subtract and divide. ε = 10⁻⁵ only keeps a constant row from 0/0.",
                 "x̂ = (x − E[x])/√(Var[x] + ε)",
                 f"{vec(apart)}/√{num(var)} = {vec(out)}"),
            Step("Weight and bias are learned, one of each for every place of the row.",
                 "y = x̂ · weight + bias",
                 f"weight {vec(WEIGHT, 0)}, bias {vec(BIAS, 0)}:  y = {vec(y)}"),
            Step("With n − 1 in place of n every entry is smaller by the same factor.",
                 "√((n − 1)/n)", f"variance {num(unbiased)}, x̂ = {vec(other)};   "
                 f"√({len(ROW) - 1}/{len(ROW)}) = {num(math.sqrt((len(ROW) - 1) / len(ROW)))}"),
            Step(f"'Unbiased' is about samples: over all pairs drawn from {vec(population)}, "
                 "division by n − 1 is right on average. A LayerNorm estimates nothing; it takes "
                 "the row as it is.", "mean of the estimates over "
                 + ", ".join(vec(pair) for pair in product(population, repeat=n)),
                 f"with n: {num(means[0])},   with n − 1: {num(means[1])},   the variance of "
                 f"{vec(population)}: {num(variance(population))}"),
        ),
        f"(x − E[x])/√(Var[x] + ε) · weight + bias over the last axis, Var divided by n: "
        f"{vec(ROW)} becomes {vec(y)}.",
        (Check("npdl's LayerNorm with this weight and bias gives the same to 0.0001",
               np.allclose(own[0], y, atol=1e-4)),
         Check("before weight and bias the row has mean 0 and mean square 1",
               abs(sum(out)) < 1e-12 and abs(sum(v * v for v in out) / 4 - 1) < 1e-12)),
        f"One row x = {vec(ROW)}.")


def solutions():
    return [norm()]
