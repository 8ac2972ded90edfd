"""A network of two layers with tanh, a class with its gradients in a dictionary."""
import numpy as np


class TwoLayerNet:
    def __init__(self):
        rng = np.random.default_rng(18)
        self.params = {"W1": rng.standard_normal((3, 4)), "b1": rng.standard_normal(4),
                       "W2": rng.standard_normal((4, 2)), "b2": rng.standard_normal(2)}
        self.grads = {}

    def forward(self, x):
        p = self.params
        self.x = x
        self.h = np.tanh(x @ p["W1"] + p["b1"])
        return self.h @ p["W2"] + p["b2"]

    def backward(self, dy):
        p, g = self.params, self.grads
        g["W2"] = self.h.T @ dy
        g["b2"] = dy.sum(axis=0)
        dh = dy @ p["W2"].T
        dz = dh * (1 - self.h ** 2)
        g["W1"] = self.x.T @ dh  # correct: g["W1"] = self.x.T @ dz
        g["b1"] = dz.sum(axis=0)
        return dz @ p["W1"].T

    @classmethod
    def sample(cls):
        return cls(), np.random.default_rng(19).standard_normal((5, 3))
