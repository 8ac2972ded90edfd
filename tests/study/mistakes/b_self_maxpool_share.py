"""Maximum over the second axis, a class that keeps the positions of the maxima in self."""
import numpy as np


class MaxOverTime:
    def forward(self, x):
        self.shape = x.shape
        self.at = x.argmax(axis=1)
        return x.max(axis=1)

    def backward(self, dout):
        dx = np.zeros(self.shape)
        B, T, D = self.shape
        rows, columns = np.arange(B)[:, None], np.arange(D)
        dx[rows, self.at, columns] = dout / T  # correct: dx[rows, self.at, columns] = dout
        return dx

    @classmethod
    def sample(cls):
        return cls(), np.random.default_rng(22).standard_normal((2, 5, 3))
