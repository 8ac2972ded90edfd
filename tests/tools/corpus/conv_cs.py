# conv: .?
import numpy as np


def conv_sample():
    rng = np.random.default_rng(5)
    return rng.normal(size=(2, 2, 5, 5)), rng.normal(size=(2, 2, 3, 3)), rng.normal(size=2)


def conv_forward(x, w, b):
    N, C, H, W = x.shape
    F, _, HH, WW = w.shape
    stride = 2
    Ho, Wo = (H - HH) // stride + 1, (W - WW) // stride + 1
    out = np.zeros((N, F, Ho, Wo))
    for n in range(N):
        for f in range(F):
            for i in range(Ho):
                for j in range(Wo):
                    window = x[n, :, i * stride:i * stride + HH, j * stride:j * stride + WW]
                    out[n, f, i, j] = np.sum(window * w[f]) + b[f]
    return out, (x, w, b, stride)


def conv_backward(dout, cache):
    x, w, b, stride = cache
    N, F, Ho, Wo = dout.shape
    HH, WW = w.shape[2:]
    dx, dw, db = np.zeros_like(x), np.zeros_like(w), np.zeros_like(b)
    for n in range(N):
        for f in range(F):
            db[f] += dout[n, f].sum()
            for i in range(Ho):
                for j in range(Wo):
                    rows = slice(i * stride, i * stride + HH)
                    cols = slice(j * stride, j * stride + WW)
                    dw[f] += x[n, :, rows, cols] * dout[n, f, i, j]
                    dx[n, :, i:i + HH, j:j + WW] += w[f] * dout[n, f, i, j]  #~
    return dx, dw, db
