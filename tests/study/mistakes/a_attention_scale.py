"""Scaled dot-product attention as two functions; the scale is used for one of two inputs."""
import numpy as np


def attention_sample():
    rng = np.random.default_rng(17)
    return tuple(rng.standard_normal((2, 3, 4)) for _ in range(3))


def attention_forward(q, k, v):
    d = q.shape[-1]
    s = q @ k.transpose(0, 2, 1) / np.sqrt(d)
    e = np.exp(s - s.max(-1, keepdims=True))
    a = e / e.sum(-1, keepdims=True)
    return a @ v, (q, k, v, a, d)


def attention_backward(dout, cache):
    q, k, v, a, d = cache
    dv = a.transpose(0, 2, 1) @ dout
    da = dout @ v.transpose(0, 2, 1)
    ds = a * (da - (a * da).sum(-1, keepdims=True))
    dq = ds @ k / np.sqrt(d)
    dk = ds.transpose(0, 2, 1) @ q  # correct: dk = ds.transpose(0, 2, 1) @ q / np.sqrt(d)
    return dq, dk, dv
