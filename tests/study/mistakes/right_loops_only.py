"""A linear layer written in scalar loops."""
import numpy as np


def affine_sample():
    rng = np.random.default_rng(5)
    return rng.standard_normal((3, 2)), rng.standard_normal((2, 4))


def affine_forward(x, W):
    out = np.zeros((len(x), W.shape[1]))
    for n in range(len(x)):
        for j in range(W.shape[1]):
            for i in range(W.shape[0]):
                out[n, j] += x[n, i] * W[i, j]
    return out, (x, W)


def affine_backward(dout, cache):
    x, W = cache
    dx, dW = np.zeros_like(x), np.zeros_like(W)
    for n in range(len(x)):
        for j in range(W.shape[1]):
            for i in range(W.shape[0]):
                dx[n, i] += dout[n, j] * W[i, j]
                dW[i, j] += dout[n, j] * x[n, i]
    return dx, dW
