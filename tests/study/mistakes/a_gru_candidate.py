"""A GRU cell as a class; the reset gate's gradient uses the wrong operand."""
import numpy as np


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


class GRU:
    def __init__(self, n):
        rng = np.random.default_rng(15)
        self.Wz, self.Wr, self.Wn = (rng.standard_normal((2 * n, n)) for _ in range(3))

    @classmethod
    def sample(cls):
        rng = np.random.default_rng(16)
        return cls(3), rng.standard_normal((2, 3)), rng.standard_normal((2, 3))

    def forward(self, x, h):
        self.x, self.h = x, h
        self.xh = np.concatenate([x, h], 1)
        self.z, self.r = sigmoid(self.xh @ self.Wz), sigmoid(self.xh @ self.Wr)
        self.xr = np.concatenate([x, self.r * h], 1)
        self.n = np.tanh(self.xr @ self.Wn)
        return (1 - self.z) * self.n + self.z * h

    def backward(self, dy):
        D = self.x.shape[1]
        dz = dy * (self.h - self.n)
        dn = dy * (1 - self.z)
        da_n = dn * (1 - self.n ** 2)
        self.dWn = self.xr.T @ da_n
        dxr = da_n @ self.Wn.T
        dr = dxr[:, D:] * self.r  # correct: dr = dxr[:, D:] * self.h
        da_z, da_r = dz * self.z * (1 - self.z), dr * self.r * (1 - self.r)
        self.dWz, self.dWr = self.xh.T @ da_z, self.xh.T @ da_r
        dxh = da_z @ self.Wz.T + da_r @ self.Wr.T
        return dxr[:, :D] + dxh[:, :D], dy * self.z + dxr[:, D:] * self.r + dxh[:, D:]
