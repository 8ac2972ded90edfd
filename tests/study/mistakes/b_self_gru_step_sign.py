"""One GRU step with a reset and an update gate, a class that keeps its arrays in self."""
import numpy as np


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


class GRUStep:
    def __init__(self, D=3, H=4):
        rng = np.random.default_rng(20)
        self.Wz, self.Wr, self.Wn = (rng.standard_normal((D + H, H)) for _ in range(3))

    def forward(self, x, h):
        self.D, self.h = x.shape[1], h
        self.xh = np.hstack([x, h])
        self.z = sigmoid(self.xh @ self.Wz)
        self.r = sigmoid(self.xh @ self.Wr)
        self.xrh = np.hstack([x, self.r * h])
        self.n = np.tanh(self.xrh @ self.Wn)
        return (1 - self.z) * self.n + self.z * h

    def backward(self, dy):
        dz = dy * (self.n - self.h) * self.z * (1 - self.z)  # correct: dz = dy * (self.h - self.n) * self.z * (1 - self.z)
        dn = dy * (1 - self.z) * (1 - self.n ** 2)
        dxrh = dn @ self.Wn.T
        dr = dxrh[:, self.D:] * self.h * self.r * (1 - self.r)
        self.dWz, self.dWr, self.dWn = self.xh.T @ dz, self.xh.T @ dr, self.xrh.T @ dn
        dxh = dz @ self.Wz.T + dr @ self.Wr.T
        dx = dxh[:, :self.D] + dxrh[:, :self.D]
        dh = dxh[:, self.D:] + dy * self.z + dxrh[:, self.D:] * self.r
        return dx, dh

    @classmethod
    def sample(cls):
        rng = np.random.default_rng(21)
        return cls(), rng.standard_normal((2, 3)), rng.standard_normal((2, 4))
