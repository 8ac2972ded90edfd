"""A ReLU as two functions; the mask is taken from the upstream gradient."""
import numpy as np


def relu_sample():
    return np.random.default_rng(4).standard_normal((4, 5))


def relu_forward(x):
    return np.maximum(x, 0), x


def relu_backward(dout, x):
    dx = dout.copy()
    dx[dx <= 0] = 0  # correct: dx[x <= 0] = 0
    return dx
