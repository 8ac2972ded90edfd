"""An RNN over time as a class; the state's gradient is overwritten in the loop."""
import numpy as np


class RNN:
    def __init__(self, d, h):
        rng = np.random.default_rng(12)
        self.Wx, self.Wh = rng.standard_normal((d, h)), rng.standard_normal((h, h)) * 0.5

    @classmethod
    def sample(cls):
        return cls(3, 4), np.random.default_rng(13).standard_normal((2, 3, 3))

    def forward(self, xs):
        self.xs, h = xs, np.zeros((len(xs), len(self.Wh)))
        self.hs = [h]
        for t in range(xs.shape[1]):
            h = np.tanh(xs[:, t] @ self.Wx + h @ self.Wh)
            self.hs.append(h)
        return np.stack(self.hs[1:], axis=1)

    def backward(self, dhs):
        self.dWx, self.dWh = np.zeros_like(self.Wx), np.zeros_like(self.Wh)
        dxs, dh_next = np.zeros_like(self.xs), 0
        for t in reversed(range(dhs.shape[1])):
            dh = dhs[:, t] + dh_next
            dz = dh * (1 - self.hs[t + 1] ** 2)
            self.dWx += self.xs[:, t].T @ dz
            self.dWh += self.hs[t + 1].T @ dz  # correct: self.dWh += self.hs[t].T @ dz
            dxs[:, t] = dz @ self.Wx.T
            dh_next = dz @ self.Wh.T
        return dxs
