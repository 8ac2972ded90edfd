"""A tied projection to and from a smaller space, a layer of npdl's form."""
import numpy as np

from npdl import Cache, Layer, Param


class Tied(Layer):
    def __init__(self, d=5, r=3):
        self.E = Param(np.random.default_rng(39).standard_normal((d, r)))

    def forward(self, x):
        z = x @ self.E.data
        h = np.tanh(z)
        return h @ self.E.data.T, Cache(x=x, h=h)

    def backward(self, dy, cache):
        x, h = cache.x, cache.h
        dh = dy @ self.E.data
        dz = dh * (1 - h**2)
        self.E.grad += x.T @ dz  # correct: self.E.grad += x.T @ dz + dy.T @ h
        return dz @ self.E.data.T

    @classmethod
    def sample(cls):
        return cls(), np.random.default_rng(40).standard_normal((4, 5))
