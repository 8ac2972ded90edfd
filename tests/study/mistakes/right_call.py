"""A class that is called, without a method named forward."""
import numpy as np


class Swish:
    @classmethod
    def sample(cls):
        return cls(), np.random.default_rng(4).standard_normal((3, 4))

    def __call__(self, x):
        self.s = 1 / (1 + np.exp(-x))
        self.y = x * self.s
        return self.y

    def backward(self, dy):
        return dy * (self.s + self.y - self.y * self.s)
