# MHA: swapaxes\(1, 2\)
import numpy as np

from npdl.core import Layer, Param


class MHA(Layer):
    def __init__(self):
        r = np.random.default_rng(0)
        self.Wqkv = Param(r.standard_normal((6, 18)) * .4)
        self.Wo = Param(r.standard_normal((6, 6)) * .4)

    @classmethod
    def sample(cls):
        return cls(), (np.random.default_rng(1).standard_normal((2, 4, 6)),)

    def split(self, a):
        B, T, _ = a.shape
        return a.reshape(B, T, 2, 3).transpose(0, 2, 1, 3)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = np.split(x @ self.Wqkv.data, 3, axis=-1)
        q, k, v = self.split(q), self.split(k), self.split(v)
        att = q @ k.swapaxes(-2, -1) * 3 ** -0.5
        att = np.where(np.tril(np.ones((T, T), bool)), att, -1e30)
        att = np.exp(att - att.max(-1, keepdims=True))
        att /= att.sum(-1, keepdims=True)
        o = (att @ v).transpose(0, 2, 1, 3).reshape(B, T, C)
        return o @ self.Wo.data, (x, q, k, v, att, o)

    def backward(self, dy, cache):
        x, q, k, v, att, o = cache
        B, T, C = x.shape
        self.Wo.grad += o.reshape(-1, C).T @ dy.reshape(-1, C)
        do = self.split(dy @ self.Wo.data.T)
        datt = do @ v.swapaxes(-2, -1)
        dv = att.swapaxes(-2, -1) @ do
        datt = att * (datt - np.sum(datt * att, axis=-1, keepdims=True)) * 3 ** -0.5
        dq, dk = datt @ k, datt.swapaxes(-2, -1) @ q
        dq = dq.reshape(B, T, C)  #~
        dk = dk.transpose(0, 2, 1, 3).reshape(B, T, C)
        dv = dv.transpose(0, 2, 1, 3).reshape(B, T, C)
        dqkv = np.concatenate([dq, dk, dv], axis=-1)
        self.Wqkv.grad += x.reshape(-1, C).T @ dqkv.reshape(-1, 3 * C)
        return dqkv @ self.Wqkv.data.T
