"""Every intermediate value in one variable."""
import numpy as np


class Net:
    def __init__(self):
        self.W = np.random.default_rng(2).standard_normal((3, 3))

    @classmethod
    def sample(cls):
        return cls(), np.random.default_rng(3).standard_normal((4, 3))

    def forward(self, a):
        self.a0 = a
        a = a @ self.W
        self.a1 = a = np.tanh(a)
        a = a * a
        return a

    def backward(self, a):
        a = 2 * a * self.a1
        a = a - a * self.a1 ** 2
        self.dW = self.a0.T @ a
        a = a @ self.W.T
        return a
