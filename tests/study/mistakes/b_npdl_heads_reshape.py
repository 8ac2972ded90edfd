"""Splitting into heads, scaling each head and merging, a layer of npdl's form."""
import numpy as np

from npdl import Cache, Layer, Param


class HeadScale(Layer):
    def __init__(self, heads=2):
        self.heads = heads
        self.s = Param(np.random.default_rng(33).standard_normal((heads, 1, 1)))

    def forward(self, x):
        B, S, D = x.shape
        h = x.reshape(B, S, self.heads, D // self.heads).transpose(0, 2, 1, 3)
        y = (h * self.s.data).transpose(0, 2, 1, 3).reshape(B, S, D)
        return y, Cache(h=h, shape=x.shape)

    def backward(self, dy, cache):
        B, S, D = cache.shape
        dh = dy.reshape(B, self.heads, S, D // self.heads)  # correct: dh = dy.reshape(B, S, self.heads, D // self.heads).transpose(0, 2, 1, 3)
        self.s.grad += (dh * cache.h).sum((0, 2, 3))[:, None, None]
        return (dh * self.s.data).transpose(0, 2, 1, 3).reshape(B, S, D)

    @classmethod
    def sample(cls):
        return cls(), np.random.default_rng(34).standard_normal((2, 3, 4))
