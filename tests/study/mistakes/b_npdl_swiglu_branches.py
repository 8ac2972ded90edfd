"""SwiGLU, a layer of npdl's form."""
import numpy as np

from npdl import Cache, Layer, Param


class MySwiGLU(Layer):
    def __init__(self, d=3, h=5):
        rng = np.random.default_rng(29)
        self.W, self.V = Param(rng.standard_normal((d, h))), Param(rng.standard_normal((d, h)))

    def forward(self, x):
        a, v = x @ self.W.data, x @ self.V.data
        s = 1 / (1 + np.exp(-a))
        return a * s * v, Cache(x=x, a=a, v=v, s=s)

    def backward(self, dy, cache):
        x, a, v, s = cache.x, cache.a, cache.v, cache.s
        dv = dy * a * s
        da = dy * v * (s + a * s * (1 - s))
        self.W.grad += x.T @ da
        self.V.grad += x.T @ dv
        dx = da @ self.W.data.T + dv @ self.W.data.T  # correct: dx = da @ self.W.data.T + dv @ self.V.data.T
        return dx

    @classmethod
    def sample(cls):
        return cls(), np.random.default_rng(30).standard_normal((4, 3))
