"""Objects inside an object, each with value and grad."""
import numpy as np


class Weight:
    def __init__(self, value):
        self.data, self.grad = value, np.zeros_like(value)


class Mixer:
    def __init__(self):
        rng = np.random.default_rng(18)
        self.left, self.right = Weight(rng.standard_normal((3, 3))), Weight(
            rng.standard_normal((4, 4)))

    @classmethod
    def sample(cls):
        return cls(), np.random.default_rng(19).standard_normal((3, 4))

    def forward(self, x):
        self.x = x
        return self.left.data @ x @ self.right.data

    def backward(self, dy):
        self.left.grad += dy @ (self.x @ self.right.data).T
        self.right.grad += (self.left.data @ self.x).T @ dy
        return np.linalg.multi_dot([self.left.data.T, dy, self.right.data.T])
