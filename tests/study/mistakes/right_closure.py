"""A forward that returns its backward as a closure."""
import numpy as np


def softplus_sample():
    return np.random.default_rng(6).standard_normal((3, 4))


def softplus_forward(x):
    out = np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)

    def backward(dout):
        return dout / (1 + np.exp(-x))

    return out, backward
