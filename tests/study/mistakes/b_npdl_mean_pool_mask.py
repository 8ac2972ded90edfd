"""The mean over the valid positions, a layer of npdl's form."""
import numpy as np

from npdl import Cache, Layer


class MaskedMean(Layer):
    def forward(self, x, mask):
        n = mask.sum(1, keepdims=True)
        y = (x * mask[..., None]).sum(1) / n
        return y, Cache(mask=mask, n=n)

    def backward(self, dy, cache):
        mask, n = cache.mask, cache.n
        dx = (dy / mask.shape[1])[:, None] * mask[..., None]  # correct: dx = (dy / n)[:, None] * mask[..., None]
        return dx

    @classmethod
    def sample(cls):
        mask = np.array([[1, 1, 0, 0], [1, 1, 1, 0.0]])
        return cls(), np.random.default_rng(37).standard_normal((2, 4, 3)), mask
