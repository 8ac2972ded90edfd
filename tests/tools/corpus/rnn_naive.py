# rnn: db \+= c
import numpy as np


def rnn_step_forward(x, prev_h, Wx, Wh, b):
    nh = np.tanh(x @ Wx + prev_h @ Wh + b)
    return nh, (x, prev_h, Wx, Wh, nh)


def rnn_step_backward(dnh, cache):
    x, prev_h, Wx, Wh, nh = cache
    dz = dnh * (1 - nh**2)
    return dz @ Wx.T, dz @ Wh.T, x.T @ dz, prev_h.T @ dz, dz.sum(0)


def rnn_sample():
    r = np.random.default_rng(0)
    return (r.standard_normal((2, 3, 4)), r.standard_normal((2, 5)), r.standard_normal((4, 5)),
            r.standard_normal((5, 5)), r.standard_normal(5))


def rnn_forward(x, h0, Wx, Wh, b):
    N, T, D = x.shape
    h, cache = np.zeros((N, T, h0.shape[1])), []
    ph = h0
    for t in range(T):
        h[:, t], c = rnn_step_forward(x[:, t], ph, Wx, Wh, b)
        ph = h[:, t]
        cache.append(c)
    return h, (cache, D)


def rnn_backward(dh, cache):
    cache, D = cache
    N, T, H = dh.shape
    dx = np.zeros((N, T, D))
    dWx, dWh, db = np.zeros((D, H)), np.zeros((H, H)), np.zeros(H)
    dprev = np.zeros((N, H))
    for t in reversed(range(T)):
        dx[:, t], dprev, a, b, c = rnn_step_backward(dh[:, t] + dprev, cache[t])
        dWx += a
        dWh += b
        db = c  #~
    return dx, dprev, dWx, dWh, db
