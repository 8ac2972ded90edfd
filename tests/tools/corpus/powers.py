# Poly: \* k
import numpy as np

from npdl.core import Cache, Layer, Param


class Poly(Layer):
    def __init__(self):
        self.w = Param(np.random.default_rng(0).standard_normal((4, 3)))

    @classmethod
    def sample(cls):
        return cls(), np.random.default_rng(1).standard_normal((5, 3))

    def forward(self, x):
        y = 0
        for k in range(4):
            y = y + self.w.data[k] * x**k
        return y, Cache(x=x)

    def backward(self, dy, cache):
        x = cache.x
        dx = np.zeros_like(x)
        for k in range(4):
            self.w.grad[k] += (dy * x**k).sum(0)
            if k:
                dx += dy * self.w.data[k] * x**(k - 1)  #~
        return dx
