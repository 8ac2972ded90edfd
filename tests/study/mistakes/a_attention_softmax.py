"""Attention as an npdl Layer with a Cache; the weights' gradient misses the sum."""
import numpy as np

from npdl.core import Cache, Layer, Param


class Attention(Layer):
    def __init__(self, d):
        rng = np.random.default_rng(18)
        self.W_q, self.W_k = (Param(rng.standard_normal((d, d))) for _ in range(2))

    @classmethod
    def sample(cls):
        return cls(3), np.random.default_rng(19).standard_normal((4, 3))

    def forward(self, x):
        q, k = x @ self.W_q.data, x @ self.W_k.data
        s = q @ k.T
        p = np.exp(s) / np.exp(s).sum(1, keepdims=True)
        return p @ x, Cache(x=x, q=q, k=k, p=p)

    def backward(self, dy, cache):
        x, q, k, p = cache.x, cache.q, cache.k, cache.p
        dp = dy @ x.T
        ds = p * (dp - dp.sum(1, keepdims=True))  # correct: ds = p * (dp - (dp * p).sum(1, keepdims=True))
        dq, dk = ds @ k, ds.T @ q
        self.W_q.grad += x.T @ dq
        self.W_k.grad += x.T @ dk
        return p.T @ dy + dq @ self.W_q.data.T + dk @ self.W_k.data.T
