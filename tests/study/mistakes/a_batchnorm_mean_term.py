"""Batch normalisation as two functions; one of the two mean terms lacks x_hat."""
import numpy as np


def batchnorm_sample():
    rng = np.random.default_rng(8)
    return rng.standard_normal((6, 3)), rng.standard_normal(3), rng.standard_normal(3)


def batchnorm_forward(x, gamma, beta):
    mu, var = x.mean(0), x.var(0)
    std = np.sqrt(var + 1e-5)
    x_hat = (x - mu) / std
    return gamma * x_hat + beta, (x_hat, gamma, std)


def batchnorm_backward(dout, cache):
    x_hat, gamma, std = cache
    dbeta = dout.sum(0)
    dgamma = (dout * x_hat).sum(0)
    dx_hat = dout * gamma
    m1 = dx_hat.mean(0)
    m2 = (dx_hat * x_hat).mean(0)
    dx = (dx_hat - m1 - m2) / std  # correct: dx = (dx_hat - m1 - x_hat * m2) / std
    return dx, dgamma, dbeta
