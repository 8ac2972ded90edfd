"""What can be asked of any function or layer: what moves what, how fast, how many numbers learn."""

import math

import numpy as np


def influence(f, x):
    """(T, S): how far an entry of row t of f(x) moves, at most, when row k of x moves by one.

    x (S, ...); f(x) is a matrix (T, ...).
    """
    start, moved = f(x), []
    for k in range(len(x)):
        other = x.copy()
        other[k] += 1
        moved.append(abs(f(other) - start).max(-1))
    return np.array(moved).T


def difference(function, x, step=1e-3):
    """Every partial derivative of function(x): an array of the value's shape, then x's.

    Fourth-order central differences; x is any float array, the value any array or number.
    """
    x = np.asarray(x, float)

    def at(index, distance):
        moved = x.copy()
        moved[index] += distance
        return np.asarray(function(moved))

    slopes = [(8 * (at(i, step) - at(i, -step)) - (at(i, 2 * step) - at(i, -2 * step)))
              / (12 * step) for i in np.ndindex(x.shape)]
    return np.stack(slopes, -1).reshape(*slopes[0].shape, *x.shape)


def learned(layer):
    """The numbers that a layer learns, counted array by array."""
    return sum(param.data.size for _, param in layer.params())


def estimate(values):
    """(mean, standard error) of independent draws."""
    count = len(values)
    mean = math.fsum(values) / count
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    return mean, math.sqrt(variance / count)
