"""A network as a list of pairs of lambdas."""
import numpy as np


class Chain:
    def __init__(self):
        self.steps = [(np.tanh, lambda x, y: 1 - y * y), (np.sin, lambda x, y: np.cos(x)),
                      (np.exp, lambda x, y: y)]

    @classmethod
    def sample(cls):
        return cls(), np.random.default_rng(7).standard_normal((3, 3))

    def forward(self, x):
        self.values = [x]
        for f, _ in self.steps:
            self.values.append(f(self.values[-1]))
        return self.values[-1]

    def backward(self, grad):
        for i, (_, slope) in reversed(list(enumerate(self.steps))):
            grad = grad * slope(self.values[i], self.values[i + 1])
        return grad
