# gru: in `dn`: a factor is missing: \* r
import numpy as np


def gru_sample():
    r = np.random.default_rng(0)
    return (r.standard_normal((2, 4, 3)), r.standard_normal((2, 5)), r.standard_normal((3, 15))*.5,
            r.standard_normal((5, 15))*.5, r.standard_normal(15)*.1)


def sig(x):
    return 1 / (1 + np.exp(-x))


def gru_step(x, hp, Wx, Wh, b):
    H = hp.shape[1]
    a = x @ Wx + b
    u = hp @ Wh
    z = sig(a[:, :H] + u[:, :H])
    r = sig(a[:, H:2*H] + u[:, H:2*H])
    n = np.tanh(a[:, 2*H:] + r * u[:, 2*H:])
    h = (1 - z) * n + z * hp
    return h, (x, hp, Wx, Wh, z, r, n, u[:, 2*H:])


def gru_step_back(dh, c):
    x, hp, Wx, Wh, z, r, n, un = c
    dz = dh * (hp - n) * z * (1 - z)
    dn = dh * (1 - z) * (1 - n * n)
    dr = dn * un * r * (1 - r)
    da = np.hstack((dz, dr, dn))
    du = np.hstack((dz, dr, dn))  #~
    dhp = dh * z + du @ Wh.T
    return da @ Wx.T, dhp, x.T @ da, hp.T @ du, da.sum(axis=0)


def gru_forward(x, h0, Wx, Wh, b):
    h = h0
    hs, cs = [], []
    for t in range(x.shape[1]):
        h, c = gru_step(x[:, t], h, Wx, Wh, b)
        hs.append(h)
        cs.append(c)
    return np.array(hs).transpose(1, 0, 2), cs


def gru_backward(dout, cache):
    dx = []
    dh = dWx = dWh = db = 0
    for t in range(len(cache))[::-1]:
        dxt, dh, a, b, c = gru_step_back(dout[:, t] + dh, cache[t])
        dx.insert(0, dxt)
        dWx += a
        dWh += b
        db += c
    return np.stack(dx, 1), dh, dWx, dWh, db
