# batchnorm: N|factor|1/4|4 times
import numpy as np


def batchnorm_sample():
    rng = np.random.default_rng(5)
    return rng.normal(size=(4, 3)), rng.normal(size=3), rng.normal(size=3)


def batchnorm_forward(x, gamma, beta):
    N, D = x.shape
    mu = 1.0 / N * np.sum(x, axis=0)
    xmu = x - mu
    sq = xmu ** 2
    var = 1.0 / N * np.sum(sq, axis=0)
    sqrtvar = np.sqrt(var + 1e-5)
    ivar = 1.0 / sqrtvar
    xhat = xmu * ivar
    out = gamma * xhat + beta
    cache = (xhat, gamma, xmu, ivar, sqrtvar)
    return out, cache


def batchnorm_backward(dout, cache):
    xhat, gamma, xmu, ivar, sqrtvar = cache
    N, D = dout.shape
    dbeta = np.sum(dout, axis=0)
    dgamma = np.sum(dout * xhat, axis=0)
    dxhat = dout * gamma
    divar = np.sum(dxhat * xmu, axis=0)
    dxmu1 = dxhat * ivar
    dsqrtvar = -1.0 / (sqrtvar ** 2) * divar
    dvar = 0.5 * 1.0 / sqrtvar * dsqrtvar
    dsq = 1.0 / N * np.ones((N, D)) * dvar
    dxmu2 = 2 * xmu * dsq
    dmu = -1 * np.sum(dxmu1, axis=0)
    dx1 = dxmu1 + dxmu2
    dx2 = np.ones((N, D)) * dmu  #~
    dx = dx1 + dx2
    return dx, dgamma, dbeta
