"""In-place arithmetic with out= and augmented assignments."""
import numpy as np


def norm_sample():
    rng = np.random.default_rng(10)
    return rng.standard_normal((4, 5)), rng.standard_normal(5)


def norm_forward(x, g):
    n = np.sqrt((x * x).sum(1, keepdims=True))
    u = x / n
    return u * g, (u, n, g)


def norm_backward(dout, cache):
    u, n, g = cache
    dg = np.empty_like(g)
    np.sum(dout * u, axis=0, out=dg)
    dx = dout * g
    along = np.multiply(dx, u)
    along = along.sum(axis=1)
    dx -= u * along[:, None]
    dx /= n
    return dx, dg
