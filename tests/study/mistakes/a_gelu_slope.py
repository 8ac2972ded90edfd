"""GELU by its tanh formula as a class; the inner derivative is wrong."""
import numpy as np


class GELU:
    @classmethod
    def sample(cls):
        return cls(), np.random.default_rng(28).standard_normal((3, 4))

    def forward(self, x):
        self.x = x
        self.t = np.tanh(0.8 * (x + 0.045 * x ** 3))
        return 0.5 * x * (1 + self.t)

    def backward(self, dout):
        x, t = self.x, self.t
        du = 0.8 * (1 + 0.045 * x ** 2)  # correct: du = 0.8 * (1 + 3 * 0.045 * x ** 2)
        return dout * (0.5 * (1 + t) + 0.5 * x * (1 - t ** 2) * du)
