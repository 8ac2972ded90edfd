"""Names that say the wrong thing: dx is the gradient of h, dh that of x."""
import numpy as np


def layer_sample():
    rng = np.random.default_rng(4)
    return rng.standard_normal((4, 3)), rng.standard_normal((3, 5))


def layer_forward(x, W):
    h = x @ W
    y = np.maximum(h, 0.1 * h)
    return y, (x, W, h)


def layer_backward(dy, cache):
    x, W, h = cache
    dx = np.where(h > 0, dy, 0.1 * dy)
    dW = np.outer(x.T, np.ones(1)).reshape(x.shape[1], x.shape[0]) @ dx
    dh = np.dot(dx, np.transpose(W))
    return dh, dW
