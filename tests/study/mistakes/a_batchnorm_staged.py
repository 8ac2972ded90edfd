"""Batch normalisation, step by step as in a computation graph; the sign of dmu's path is lost."""
import numpy as np


def bn_sample():
    rng = np.random.default_rng(9)
    return rng.standard_normal((5, 3)), rng.standard_normal(3)


def bn_forward(x, gamma):
    n = x.shape[0]
    mu = x.sum(0) / n
    xmu = x - mu
    var = (xmu ** 2).sum(0) / n
    ivar = 1 / np.sqrt(var + 1e-5)
    out = xmu * ivar * gamma
    return out, (xmu, ivar, gamma, n)


def bn_backward(dout, cache):
    xmu, ivar, gamma, n = cache
    dgamma = np.sum(dout * xmu * ivar, axis=0)
    dxhat = dout * gamma
    divar = np.sum(dxhat * xmu, axis=0)
    dvar = divar * -0.5 * ivar ** 3
    dxmu = dxhat * ivar
    dxmu += 2 * xmu * dvar / n
    dmu = dxmu.sum(axis=0)  # correct: dmu = -dxmu.sum(axis=0)
    dx = dxmu + dmu / n
    return dx, dgamma
