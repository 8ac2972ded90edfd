"""A clipped linear unit as a class; the mask keeps what is outside."""
import numpy as np


class HardTanh:
    def __init__(self, limit=0.8):
        self.limit = limit

    @classmethod
    def sample(cls):
        return cls(), np.random.default_rng(35).standard_normal((4, 4))

    def forward(self, x):
        self.x = x
        return np.clip(x, -self.limit, self.limit)

    def backward(self, dout):
        inside = np.abs(self.x) > self.limit  # correct: inside = np.abs(self.x) < self.limit
        return dout * inside
