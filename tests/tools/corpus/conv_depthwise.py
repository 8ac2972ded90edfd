# dwconv: j \* STRIDE
import numpy as np

STRIDE = 2
PADDING = 1


def pad(x, p):
    return np.pad(x, ((0, 0), (0, 0), (p, p), (p, p)))


def dwconv_forward(x, w, b):
    '''
    Depthwise convolution: every channel has one filter of its own.
    x: (N, C, H, W)   w: (C, HH, WW)   b: (C,)
    '''
    N, C, H, W = x.shape
    _, HH, WW = w.shape
    Ho = (H + 2 * PADDING - HH) // STRIDE + 1
    Wo = (W + 2 * PADDING - WW) // STRIDE + 1
    xp = pad(x, PADDING)
    out = np.zeros((N, C, Ho, Wo))
    for i in range(Ho):
        for j in range(Wo):
            hs, ws = i * STRIDE, j * STRIDE
            window = xp[:, :, hs:hs + HH, ws:ws + WW]
            out[:, :, i, j] = np.sum(window * w, axis=(2, 3)) + b
    return out, (x, w, b)


def dwconv_backward(dout, cache):
    x, w, b = cache
    N, C, H, W = x.shape
    _, HH, WW = w.shape
    _, _, Ho, Wo = dout.shape
    xp = pad(x, PADDING)
    dxp = np.zeros_like(xp)
    dw = np.zeros_like(w)
    db = np.sum(dout, axis=(0, 2, 3))
    for i in range(Ho):
        for j in range(Wo):
            top = i * STRIDE
            left = j  #~
            g = dout[:, :, i, j][:, :, None, None]
            dw += np.sum(g * xp[:, :, top:top + HH, left:left + WW], axis=0)
            dxp[:, :, top:top + HH, left:left + WW] += g * w
    dx = dxp[:, :, PADDING:PADDING + H, PADDING:PADDING + W]
    return dx, dw, db


def dwconv_sample():
    rng = np.random.default_rng(17)
    return rng.standard_normal((2, 6, 7, 5)), rng.standard_normal((6, 3, 4)), rng.standard_normal(6)
