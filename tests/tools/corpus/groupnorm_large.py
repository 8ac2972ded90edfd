# GroupNorm: \* self\.gamma\.data
import numpy as np

from npdl.core import Cache, Layer, Param


class GroupNorm(Layer):
    def __init__(self, channels, groups, eps=1e-5):
        rng = np.random.default_rng(15)
        self.gamma = Param(1 + 0.5 * rng.standard_normal(channels))
        self.beta = Param(rng.standard_normal(channels))
        self.groups = groups
        self.eps = eps

    def forward(self, x):
        N, C, H, W = x.shape
        G = self.groups
        xg = x.reshape(N, G, C // G * H * W)
        mu = xg.mean(axis=2, keepdims=True)
        xc = xg - mu
        var = (xc ** 2).mean(axis=2, keepdims=True)
        ivar = 1 / np.sqrt(var + self.eps)
        xhat = (xc * ivar).reshape(N, C, H, W)
        y = self.gamma.data.reshape(1, C, 1, 1) * xhat + self.beta.data.reshape(1, C, 1, 1)
        return y, Cache(xhat=xhat, xc=xc, ivar=ivar)

    def backward(self, dy, cache):
        N, C, H, W = dy.shape
        G = self.groups
        M = C // G * H * W
        self.beta.grad += dy.sum(axis=(0, 2, 3))
        self.gamma.grad += (dy * cache.xhat).sum(axis=(0, 2, 3))

        dxhat = dy  #~
        dxhat = dxhat.reshape(N, G, -1)
        dvar = (dxhat * cache.xc).sum(axis=2, keepdims=True) * -0.5 * cache.ivar ** 3
        dxc = dxhat * cache.ivar
        dxc += 2 * cache.xc * dvar / M
        dmu = -dxc.sum(axis=2, keepdims=True)
        dx = dxc + dmu / M
        return dx.reshape(N, C, H, W)

    @classmethod
    def sample(cls):
        rng = np.random.default_rng(16)
        return cls(6, 3), 1.5 * rng.standard_normal((5, 6, 4, 7)) + 0.3
