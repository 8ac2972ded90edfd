"""Batch normalisation over the rows, a pair of functions with a dictionary as cache."""
import numpy as np


def batchnorm_forward(x, gamma, beta):
    mu = x.mean(axis=0)
    xc = x - mu
    var = (xc ** 2).mean(axis=0)
    ivar = 1 / np.sqrt(var + 1e-5)
    xhat = xc * ivar
    out = gamma * xhat + beta
    return out, {"xc": xc, "ivar": ivar, "xhat": xhat, "gamma": gamma}


def batchnorm_backward(dout, cache):
    xc, ivar, xhat, gamma = cache["xc"], cache["ivar"], cache["xhat"], cache["gamma"]
    N = dout.shape[0]
    dbeta = dout.sum(axis=0)
    dgamma = (dout * xhat).sum(axis=0)
    dxhat = dout * gamma
    divar = (dxhat * xc).sum(axis=0)
    dvar = -divar * ivar ** 3  # correct: dvar = -0.5 * divar * ivar ** 3
    dxc = dxhat * ivar + 2 * xc * dvar / N
    dx = dxc - dxc.mean(axis=0)
    return dx, dgamma, dbeta


def batchnorm_sample():
    rng = np.random.default_rng(3)
    return rng.standard_normal((6, 4)), rng.standard_normal(4), rng.standard_normal(4)
