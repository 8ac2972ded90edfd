"""A recurrent network whose backward is built from comprehensions and a generator."""
import numpy as np


class Summed:
    def __init__(self):
        self.a = np.array([0.9, -0.4])

    @classmethod
    def sample(cls):
        return cls(), np.random.default_rng(13).standard_normal((3, 4, 2))

    def forward(self, x):
        self.x, h, hs = x, np.zeros((3, 2)), []
        for t in range(4):
            h = np.tanh(h * self.a + x[:, t])
            hs.append(h)
        self.hs = hs
        return np.stack(hs, 1)

    def back(self, dh):
        carried = np.zeros((3, 2))
        for t in (3, 2, 1, 0):
            dz = (dh[:, t] + carried) * (1 - self.hs[t] ** 2)
            carried = dz * self.a
            yield dz

    def backward(self, dh):
        dzs = list(self.back(dh))[::-1]
        self.da = sum((dz * h).sum(0) for dz, h in zip(dzs[1:], self.hs, strict=False))
        return np.stack(dzs, axis=1)
