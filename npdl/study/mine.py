"""A layer of my own: a template to replace by yours.

    python -m npdl step mine.py:MyLayer     show every line of forward and backward, with its values
    python -m npdl blame mine.py:MyLayer    find the incorrect line of backward, if there is one
    python mine.py                          compare every gradient with finite differences

Change a sign in `backward` and run blame again.
"""

import numpy as np

from npdl import Cache, Layer, Param, gradcheck


class MyLayer(Layer):
    """s = sigmoid(x W + b),   y = s * x:   (B, D) -> (B, D)."""

    def __init__(self, d, rng=None):
        rng = rng or np.random.default_rng(0)
        self.W = Param(rng.standard_normal((d, d)) / np.sqrt(d))    # parameters are Params
        self.b = Param(np.zeros(d))

    @classmethod
    def sample(cls):
        """Return a layer and a small input for step, blame and gradcheck."""
        return cls(3), np.random.default_rng(1).standard_normal((2, 3))

    def forward(self, x):
        z = x @ self.W.data + self.b.data
        s = 1 / (1 + np.exp(-z))
        y = s * x
        return y, Cache(x=x, s=s)                   # the output, and what backward needs

    def backward(self, dy, cache):
        x, s = cache.x, cache.s
        ds = dy * x                                 # y = s * x
        dz = ds * s * (1 - s)                       # s = sigmoid(z)
        self.W.grad += x.T @ dz                     # z = x W + b; gradients accumulate: +=
        self.b.grad += dz.sum(0)
        dx = dy * s + dz @ self.W.data.T            # x is used twice: its gradients add
        return dx


if __name__ == "__main__":
    print(gradcheck(*MyLayer.sample()))
