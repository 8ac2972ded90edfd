"""Linear layer over (..., D), a layer of npdl's form."""
import numpy as np

from npdl import Cache, Layer, Param


class MyLinear(Layer):
    def __init__(self, d_in=3, d_out=4):
        rng = np.random.default_rng(26)
        self.W = Param(rng.standard_normal((d_in, d_out)))
        self.b = Param(rng.standard_normal(d_out))

    def forward(self, x):
        return x @ self.W.data + self.b.data, Cache(x=x)

    def backward(self, dy, cache):
        x = cache.x
        self.W.grad += np.einsum("bti,btj->ij", x, dy)
        self.b.grad += dy.sum((0, 1)) / len(dy)  # correct: self.b.grad += dy.sum((0, 1))
        return dy @ self.W.data.T

    @classmethod
    def sample(cls):
        return cls(), np.random.default_rng(27).standard_normal((2, 5, 3))
