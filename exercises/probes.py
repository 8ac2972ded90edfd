"""What can be asked of any layer or function: what moves what, and how many numbers learn."""

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


def learned(layer):
    """The numbers that a layer learns, counted array by array."""
    return sum(param.data.size for _, param in layer.params())



def estimate(values):
    """(mean, standard error) of independent draws."""
    count = len(values)
    mean = math.fsum(values) / count
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    return mean, math.sqrt(variance / count)
