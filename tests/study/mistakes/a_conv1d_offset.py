"""A one-dimensional convolution with loops; the window in the input starts one too late."""
import numpy as np


def conv_sample():
    rng = np.random.default_rng(22)
    return rng.standard_normal((2, 6)), rng.standard_normal(3)


def conv_forward(x, w):
    n = x.shape[1] - len(w) + 1
    out = np.zeros((len(x), n))
    for j in range(n):
        out[:, j] = x[:, j:j + len(w)] @ w
    return out, (x, w)


def conv_backward(dout, cache):
    x, w = cache
    dx, dw = np.zeros_like(x), np.zeros_like(w)
    for j in range(dout.shape[1]):
        dx[:, j:j + len(w)] = dout[:, j:j + 1] * w  # correct: dx[:, j:j + len(w)] += dout[:, j:j + 1] * w
        dw += dout[:, j] @ x[:, j:j + len(w)]
    return dx, dw
