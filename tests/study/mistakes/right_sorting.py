"""A permutation, a cumulative sum and a gather, undone by their inverses."""
import numpy as np


class SortedSum:
    @classmethod
    def sample(cls):
        return cls(), np.random.default_rng(26).standard_normal((3, 5))

    def forward(self, x):
        self.order = np.argsort(x, axis=1)
        return np.cumsum(np.take_along_axis(x, self.order, axis=1), axis=1)

    def backward(self, dout):
        ds = dout[:, ::-1].cumsum(1)[:, ::-1]
        dx = np.empty_like(ds)
        np.put_along_axis(dx, self.order, ds, axis=1)
        return dx
