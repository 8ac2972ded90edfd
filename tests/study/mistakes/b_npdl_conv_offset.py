"""Convolution of three taps over time, a layer of npdl's form."""
import numpy as np

from npdl import Cache, Layer, Param


class Conv3(Layer):
    def __init__(self, d=2, e=3):
        self.W = Param(np.random.default_rng(35).standard_normal((3, d, e)))

    def forward(self, x):
        T = x.shape[1] - 2
        y = sum(x[:, k:k + T] @ self.W.data[k] for k in range(3))
        return y, Cache(x=x)

    def backward(self, dy, cache):
        x, T = cache.x, dy.shape[1]
        dx = np.zeros_like(x)
        for k in range(3):
            self.W.grad[k] += np.einsum("bti,btj->ij", x[:, :T], dy)  # correct: self.W.grad[k] += np.einsum("bti,btj->ij", x[:, k:k + T], dy)
            dx[:, k:k + T] += dy @ self.W.data[k].T
        return dx

    @classmethod
    def sample(cls):
        return cls(), np.random.default_rng(36).standard_normal((2, 6, 2))
