"""One matrix for three projections, split and concatenated by slices."""
import numpy as np

from npdl.core import Cache, Layer, Param


class Gated(Layer):
    def __init__(self):
        self.W = Param(np.random.default_rng(14).standard_normal((3, 9)))

    @classmethod
    def sample(cls):
        return cls(), np.random.default_rng(15).standard_normal((4, 3))

    def forward(self, x):
        z = x @ self.W.data
        a, b, c = z[:, :3], 1 / (1 + np.exp(-z[:, 3:6])), np.tanh(z[:, 6:])
        return a * b + c, Cache(x=x, a=a, b=b, c=c)

    def backward(self, dy, cache):
        dz = np.empty((len(dy), 9))
        dz[:, :3] = dy * cache.b
        dz[:, 3:6] = dy * cache.a * cache.b * (1 - cache.b)
        dz[:, 6:] = dy - dy * cache.c ** 2
        self.W.grad += cache.x.T @ dz
        return dz @ self.W.data.T
