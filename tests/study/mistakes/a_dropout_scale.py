"""Dropout with a fixed mask as two functions; backward forgets to divide by the kept fraction."""
import numpy as np


def dropout_sample():
    return np.random.default_rng(21).standard_normal((4, 5))


def dropout_forward(x, keep=0.7):
    mask = np.random.default_rng(3).random(x.shape) < keep
    out = x * mask / keep
    return out, (mask, keep)


def dropout_backward(dout, cache):
    mask, keep = cache
    dx = dout * mask  # correct: dx = dout * mask / keep
    return dx
