"""What depends on what, by moving each row in turn."""

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
