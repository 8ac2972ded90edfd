"""Max pooling of pairs as two functions; the gradient goes to the smaller one."""
import numpy as np


def pool_sample():
    return np.random.default_rng(25).standard_normal((3, 6))


def pool_forward(x):
    pairs = x.reshape(len(x), -1, 2)
    return pairs.max(-1), pairs


def pool_backward(dout, pairs):
    best = pairs == pairs.min(-1, keepdims=True)  # correct: best = pairs == pairs.max(-1, keepdims=True)
    dpairs = best * dout[..., None]
    return dpairs.reshape(len(dout), -1)
