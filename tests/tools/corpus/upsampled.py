# up: transpose
import numpy as np


def up_sample():
    return (np.random.default_rng(0).standard_normal((2, 3, 4)),)


def up_forward(x):
    return np.repeat(x, 2, axis=1), x.shape


def up_backward(dout, shape):
    B, T, D = shape
    return dout.reshape(B, 2, T, D).sum(1)  #~
