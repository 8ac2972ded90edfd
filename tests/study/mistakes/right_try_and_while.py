"""Control flow: a while loop, a try, an early return."""
import numpy as np


class Cubed:
    def __init__(self, power=3):
        self.power = power

    @classmethod
    def sample(cls):
        return cls(), np.random.default_rng(17).uniform(0.5, 1.5, (3, 3))

    def forward(self, x):
        self.x, y, n = x, np.ones_like(x), 0
        while n < self.power:
            y, n = y * x, n + 1
        return y

    def backward(self, dy):
        if self.power == 0:
            return np.zeros_like(dy)
        g, n = dy * self.power, self.power
        while (n := n - 1) > 0:
            g = g * self.x
        try:
            return np.asarray(g, dtype=float)
        finally:
            self.done = True
