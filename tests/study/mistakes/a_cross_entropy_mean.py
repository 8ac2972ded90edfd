"""Softmax cross entropy as a class; the mean over the batch is forgotten."""
import numpy as np


class SoftmaxLoss:
    @classmethod
    def sample(cls):
        return cls(), np.random.default_rng(6).standard_normal((5, 4)), np.array([0, 3, 1, 1, 2])

    def forward(self, scores, t):
        shifted = scores - scores.max(1, keepdims=True)
        self.p = np.exp(shifted) / np.exp(shifted).sum(1, keepdims=True)
        self.t = t
        return -np.log(self.p[np.arange(len(t)), t]).mean()

    def backward(self, dout=1.0):
        n = len(self.t)
        ds = self.p.copy()
        ds[np.arange(n), self.t] -= 1
        return dout * ds  # correct: return dout * ds / n
