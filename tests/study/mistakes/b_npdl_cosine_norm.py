"""Scaling rows to length one, a layer of npdl's form."""
import numpy as np

from npdl import Cache, Layer


class UnitRows(Layer):
    def forward(self, x):
        n = np.sqrt((x**2).sum(-1, keepdims=True))
        y = x / n
        return y, Cache(x=x, n=n, y=y)

    def backward(self, dy, cache):
        x, n, y = cache.x, cache.n, cache.y
        along = (dy * x).sum(-1, keepdims=True)  # correct: along = (dy * y).sum(-1, keepdims=True)
        return (dy - y * along) / n

    @classmethod
    def sample(cls):
        return cls(), np.random.default_rng(38).standard_normal((4, 3))
