# VAE: 1/2
import numpy as np

from npdl.core import Cache, Layer, Param


class VAE(Layer):
    def __init__(self):
        r = np.random.default_rng(0)
        self.Wm = Param(r.standard_normal((4, 3)))
        self.Wv = Param(r.standard_normal((4, 3)) * .3)

    @classmethod
    def sample(cls):
        r = np.random.default_rng(1)
        return cls(), (r.standard_normal((5, 4)), r.standard_normal((5, 3)))

    def forward(self, x, eps):
        mu = x @ self.Wm.data
        logvar = x @ self.Wv.data
        std = np.exp(0.5 * logvar)
        z = mu + std * eps
        kl = 0.5 * np.sum(mu**2 + np.exp(logvar) - 1 - logvar) / len(x)
        return (z, kl), Cache(x=x, eps=eps, mu=mu, logvar=logvar, std=std)

    def backward(self, dout, cache):
        dz, dkl = dout
        x, eps = cache.x, cache.eps
        n = len(x)
        dmu = dz + dkl * cache.mu / n
        dlogvar = dz * eps * cache.std  #~
        dlogvar = dlogvar + dkl * 0.5 * (np.exp(cache.logvar) - 1) / n
        self.Wm.grad += x.T @ dmu
        self.Wv.grad += x.T @ dlogvar
        return dmu @ self.Wm.data.T + dlogvar @ self.Wv.data.T, dz * cache.std
