"""A layer of my own: a starting point to write yours from. Needs npdl and nothing else.

    python -m npdl step mine.py:MyLayer     every line of forward and backward, with its numbers
    python -m npdl blame mine.py:MyLayer    the first wrong line of the backward, if one is wrong
    python mine.py                          the gradient check: every gradient against differences

Change a sign in `backward` and run blame again.
"""

import numpy as np

from npdl import Cache, Layer, Param, gradcheck


class MyLayer(Layer):
    """s = sigmoid(x W + b),   y = s * x:   (B, D) -> (B, D)."""

    def __init__(self, d, rng=None):
        rng = rng or np.random.default_rng(0)
        self.W = Param(rng.standard_normal((d, d)) / np.sqrt(d))    # what is learned is a Param
        self.b = Param(np.zeros(d))

    @classmethod
    def sample(cls):
        """A layer and its input, small: what step, blame and gradcheck run."""
        return cls(3), np.random.default_rng(1).standard_normal((2, 3))

    def forward(self, x):
        z = x @ self.W.data + self.b.data
        s = 1 / (1 + np.exp(-z))
        y = s * x
        return y, Cache(x=x, s=s)                   # the output, and what backward will need

    def backward(self, dy, cache):
        x, s = cache.x, cache.s
        ds = dy * x                                 # y = s * x
        dz = ds * s * (1 - s)                       # s = sigmoid(z)
        self.W.grad += x.T @ dz                     # z = x W + b; gradients are added, with +=
        self.b.grad += dz.sum(0)
        dx = dy * s + dz @ self.W.data.T            # x is read twice: two terms
        return dx


if __name__ == "__main__":
    print(gradcheck(*MyLayer.sample()))
