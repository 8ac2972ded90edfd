"""Sigmoid, a class that keeps its output in self."""
import numpy as np


class Sigmoid:
    def forward(self, x):
        self.out = 1 / (1 + np.exp(-x))
        return self.out

    def backward(self, dout):
        return dout * self.out * (1 + self.out)  # correct: return dout * self.out * (1 - self.out)

    @classmethod
    def sample(cls):
        return cls(), np.random.default_rng(13).standard_normal((3, 5))
