"""Leaky ReLU, a pair of functions."""
import numpy as np

ALPHA = 0.1


def leaky_relu_forward(x):
    out = np.where(x > 0, x, ALPHA * x)
    return out, x


def leaky_relu_backward(dout, cache):
    x = cache
    dx = dout * np.where(x > 0, 1.0, -ALPHA)  # correct: dx = dout * np.where(x > 0, 1.0, ALPHA)
    return dx


def leaky_relu_sample():
    return (np.random.default_rng(2).standard_normal((3, 7)),)
