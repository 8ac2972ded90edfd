# WaveBlock: another part of the array
import numpy as np

from npdl.core import Layer, Param


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


class WaveBlock(Layer):
    """WaveNet block: dilated causal convolutions, tanh times sigmoid, 1x1 and a residual."""

    def __init__(self, C, M, K, dil):
        rng = np.random.default_rng(8)
        self.K = K
        self.dil = dil
        self.Wf = Param(0.6 * rng.standard_normal((K, C, M)))
        self.Wg = Param(0.6 * rng.standard_normal((K, C, M)))
        self.Wo = Param(0.6 * rng.standard_normal((M, C)))

    def forward(self, x):
        B, T, C = x.shape
        M = self.Wo.data.shape[0]
        f = np.zeros((B, T, M))
        g = np.zeros((B, T, M))
        for k in range(self.K):
            lag = k * self.dil
            past = x[:, :T - lag]
            f[:, lag:] += past @ self.Wf.data[k]
            g[:, lag:] += past @ self.Wg.data[k]
        th = np.tanh(f)
        sg = sigmoid(g)
        y = x + (th * sg) @ self.Wo.data
        return y, (x, th, sg)

    def backward(self, dy, cache):
        x, th, sg = cache
        T = x.shape[1]
        self.Wo.grad += np.einsum('btm,btc->mc', th * sg, dy)
        dz = dy @ self.Wo.data.T
        df = dz * sg * (1 - th ** 2)
        dg = dz * th * sg * (1 - sg)
        dx = dy.copy()
        for k in range(self.K):
            lag = k * self.dil
            n = T - lag
            self.Wf.grad[k] += np.einsum('btc,btm->cm', x[:, :n], df[:, lag:])
            self.Wg.grad[k] += np.einsum('btc,btm->cm', x[:, :n], dg[:, lag:])
            dx[:, lag:] += df[:, :n] @ self.Wf.data[k].T  #~
            dx[:, :n] += dg[:, lag:] @ self.Wg.data[k].T
        return dx

    @classmethod
    def sample(cls):
        rng = np.random.default_rng(18)
        return cls(C=4, M=5, K=3, dil=2), rng.standard_normal((2, 7, 4))
