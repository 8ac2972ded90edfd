"""A network of two layers in one class; the hidden gradient passes no ReLU mask."""
import numpy as np


class TwoLayer:
    def __init__(self, d, h, k):
        rng = np.random.default_rng(26)
        self.params = {"W1": rng.standard_normal((d, h)), "b1": np.zeros(h),
                       "W2": rng.standard_normal((h, k)), "b2": np.zeros(k)}
        self.grads = {}

    @classmethod
    def sample(cls):
        return cls(4, 6, 3), np.random.default_rng(27).standard_normal((5, 4))

    def forward(self, X):
        self.X, p = X, self.params
        self.hidden = np.maximum(0, X @ p["W1"] + p["b1"])
        return self.hidden @ p["W2"] + p["b2"]

    def backward(self, dscores):
        p, g = self.params, self.grads
        g["W2"] = self.hidden.T @ dscores
        g["b2"] = dscores.sum(0)
        dhidden = dscores @ p["W2"].T
        dz = dhidden * self.hidden  # correct: dz = dhidden * (self.hidden > 0)
        g["W1"] = self.X.T @ dz
        g["b1"] = dz.sum(0)
        return dz @ p["W1"].T
