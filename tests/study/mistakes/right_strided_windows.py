"""A convolution over windows made by sliding_window_view."""
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view


def windows_sample():
    rng = np.random.default_rng(25)
    return rng.standard_normal((2, 7)), rng.standard_normal(3)


def windows_forward(x, w):
    seen = sliding_window_view(x, 3, axis=1)
    return seen @ w, (x, w)


def windows_backward(dout, cache):
    x, w = cache
    dw = np.tensordot(dout, sliding_window_view(x, 3, axis=1), axes=([0, 1], [0, 1]))
    dx = sum(np.pad(dout * w[k], ((0, 0), (k, 2 - k))) for k in range(3))
    return dx, dw
