# rnn: term|dnext|dprev|dh|carry|step
import numpy as np


def rnn_sample():
    rng = np.random.default_rng(1)
    return (rng.normal(size=(2, 4, 3)), rng.normal(size=(2, 3)), rng.normal(size=(3, 3)),
            rng.normal(size=(3, 3)), rng.normal(size=3))


def step_forward(x, prev_h, Wx, Wh, b):
    next_h = np.tanh(x @ Wx + prev_h @ Wh + b)
    return next_h, (x, prev_h, Wx, Wh, next_h)


def step_backward(dnext_h, cache):
    x, prev_h, Wx, Wh, next_h = cache
    dz = dnext_h * (1 - next_h ** 2)
    return dz @ Wx.T, dz @ Wh.T, x.T @ dz, prev_h.T @ dz, dz.sum(axis=0)


def rnn_forward(x, h0, Wx, Wh, b):
    N, T, D = x.shape
    h = np.zeros((N, T, h0.shape[1]))
    caches = []
    prev = h0
    for t in range(T):
        prev, c = step_forward(x[:, t, :], prev, Wx, Wh, b)
        h[:, t, :] = prev
        caches.append(c)
    return h, caches


def rnn_backward(dh, caches):
    N, T, H = dh.shape
    D = caches[0][0].shape[1]
    dx, dWx, dWh, db = np.zeros((N, T, D)), np.zeros((D, H)), np.zeros((H, H)), np.zeros(H)
    dprev = np.zeros((N, H))
    for t in reversed(range(T)):
        dxt, dprev, dwx, dwh, dbt = step_backward(dh[:, t, :], caches[t])  #~
        dx[:, t, :] = dxt
        dWx += dwx
        dWh += dwh
        db += dbt
    return dx, dprev, dWx, dWh, db
