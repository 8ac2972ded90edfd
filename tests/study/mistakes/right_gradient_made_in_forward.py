"""A loss that computes its gradient in forward."""
import numpy as np


class Loss:
    @classmethod
    def sample(cls):
        return cls(), np.random.default_rng(12).standard_normal((4, 3)), np.array([0, 2, 1, 1])

    def forward(self, z, t):
        p = np.exp(z - z.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        loss = -np.log(p[range(len(t)), t]).mean()
        p[range(len(t)), t] -= 1
        self.dz = p / len(t)
        return loss

    def backward(self, dout=1):
        return self.dz * dout
