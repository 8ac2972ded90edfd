# Residual: term|d_out|dy|grad
import numpy as np

from npdl.core import Cache, Layer
from npdl.layers.activation import Tanh
from npdl.layers.linear import Linear


class Residual(Layer):
    """y = x + second(tanh(first(x)))."""

    def __init__(self, rng):
        self.first = Linear(3, 4, rng=rng)
        self.act = Tanh()
        self.second = Linear(4, 3, rng=rng)

    @classmethod
    def sample(cls):
        rng = np.random.default_rng(2)
        return cls(rng), (rng.normal(size=(5, 3)),)

    def forward(self, x):
        h, c1 = self.first.forward(x)
        a, c2 = self.act.forward(h)
        f, c3 = self.second.forward(a)
        return x + f, Cache(c1=c1, c2=c2, c3=c3)

    def backward(self, grad, cache):
        da = self.second.backward(grad, cache.c3)
        dh = self.act.backward(da, cache.c2)
        dx = self.first.backward(dh, cache.c1)  #~
        return dx  #~
