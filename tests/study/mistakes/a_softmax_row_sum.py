"""A softmax with cache in a tuple; the sum in its Jacobian goes over the batch."""
import numpy as np


def softmax_sample():
    return np.random.default_rng(5).standard_normal((4, 3))


def softmax_forward(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    p = e / e.sum(axis=1, keepdims=True)
    return p, (p,)


def softmax_backward(dp, cache):
    p, = cache
    s = np.sum(dp * p, axis=0, keepdims=True)  # correct: s = np.sum(dp * p, axis=1, keepdims=True)
    dz = p * (dp - s)
    return dz
