"""A residual block as a class with a returned cache; the skip connection's gradient is lost."""
import numpy as np


class Residual:
    def __init__(self, d):
        rng = np.random.default_rng(30)
        self.W1, self.W2 = rng.standard_normal((d, d)), rng.standard_normal((d, d))

    @classmethod
    def sample(cls):
        return cls(3), np.random.default_rng(31).standard_normal((4, 3))

    def forward(self, x):
        self.x, self.h = x, np.tanh(x @ self.W1)
        return x + self.h @ self.W2

    def backward(self, dy):
        self.dW2 = self.h.T @ dy
        dh = dy @ self.W2.T
        dz = dh * (1 - self.h ** 2)
        self.dW1 = self.x.T @ dz
        dx = dz @ self.W1.T  # correct: dx = dy + dz @ self.W1.T
        return dx
