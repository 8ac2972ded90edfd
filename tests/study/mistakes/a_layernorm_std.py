"""Layer normalisation as a class; backward divides by the variance."""
import numpy as np


class LayerNorm:
    def __init__(self, d):
        self.params = {"g": np.ones(d), "b": np.zeros(d)}
        self.grads = {}

    @classmethod
    def sample(cls):
        return cls(4), np.random.default_rng(10).standard_normal((2, 3, 4))

    def forward(self, x):
        self.var = x.var(-1, keepdims=True) + 1e-5
        self.xh = (x - x.mean(-1, keepdims=True)) / np.sqrt(self.var)
        return self.params["g"] * self.xh + self.params["b"]

    def backward(self, dy):
        self.grads["g"] = (dy * self.xh).sum((0, 1))
        self.grads["b"] = dy.sum((0, 1))
        d = dy * self.params["g"]
        a = d - d.mean(-1, keepdims=True) - self.xh * (d * self.xh).mean(-1, keepdims=True)
        return a / self.var  # correct: return a / np.sqrt(self.var)
