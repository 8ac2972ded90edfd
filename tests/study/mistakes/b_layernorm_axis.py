"""Layer normalisation, a pair of functions."""
import numpy as np


def layernorm_forward(x, gamma, beta):
    mu = x.mean(axis=1, keepdims=True)
    std = np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)
    xhat = (x - mu) / std
    return gamma * xhat + beta, (xhat, std, gamma)


def layernorm_backward(dout, cache):
    xhat, std, gamma = cache
    dgamma = (dout * xhat).sum(axis=0)
    dbeta = dout.sum(axis=0)
    dxhat = dout * gamma
    a = dxhat.mean(axis=1, keepdims=True)
    b = (dxhat * xhat).mean(axis=0, keepdims=True)  # correct: b = (dxhat * xhat).mean(axis=1, keepdims=True)
    dx = (dxhat - a - xhat * b) / std
    return dx, dgamma, dbeta


def layernorm_sample():
    rng = np.random.default_rng(9)
    return rng.standard_normal((4, 6)), rng.standard_normal(6), rng.standard_normal(6)
