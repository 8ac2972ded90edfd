"""A sigmoid as a class; backward uses the input instead of the output."""
import numpy as np


class Sigmoid:
    @classmethod
    def sample(cls):
        return cls(), np.random.default_rng(3).standard_normal((3, 4))

    def forward(self, x):
        self.x = x
        self.y = 1 / (1 + np.exp(-x))
        return self.y

    def backward(self, dy):
        return dy * self.x * (1 - self.x)  # correct: return dy * self.y * (1 - self.y)
