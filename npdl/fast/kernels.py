"""The textbook's layers in fewer passes: results written into arrays that are already there.

Each kernel is a pair of functions (layer, x) -> (y, cache) and (layer, dy, cache) -> dx on rows
(N, D), and carries out the forward and the backward of the textbook's class beside it in KERNELS.
A layer that has no kernel, such as an adapter, runs as the textbook has it. A kernel may write
over an array that it made itself, and over nothing else.
"""

import functools
import math

import numpy as np

from npdl.backend import is_host, one_hot, xp
from npdl.core import Cache
from npdl.functions import ERF_FIT, ERF_FIT_END, normal_cdf, sum_by_index
from npdl.layers.activation import GELU
from npdl.layers.embedding import Embedding
from npdl.layers.linear import Linear
from npdl.layers.norm import LayerNorm

SMALL_TABLE = 1024      # up to so many rows, a product with one-hot rows beats adding one by one
SHORT_AXIS = 16         # NumPy's reduction pays for every row: over a short axis, columns are
                        # twenty times faster


def forward(layer, x):
    """layer.forward(x), by a kernel if there is one."""
    kernel = KERNELS.get(type(layer))
    return layer.forward(x) if kernel is None else kernel[0](layer, x)


def backward(layer, dy, cache):
    """layer.backward(dy, cache), by the kernel that `forward` used."""
    kernel = KERNELS.get(type(layer))
    return layer.backward(dy, cache) if kernel is None else kernel[1](layer, dy, cache)


def linear(layer, x):
    rows = x.reshape(-1, x.shape[-1])
    y = rows @ layer.W.data
    y = xp.add(y, layer.b.data, out=y)                      # y = rows W + b
    return y.reshape(*x.shape[:-1], y.shape[-1]), Cache(rows=rows, shape=x.shape)


def linear_backward(layer, dy, cache):
    dy_rows = dy.reshape(-1, dy.shape[-1])
    layer.W.grad += cache.rows.T @ dy_rows
    layer.b.grad += column_sums(dy_rows)
    return (dy_rows @ layer.W.data.T).reshape(cache.shape)


def layer_norm(layer, x):
    D = x.shape[-1]
    x_hat = x - x[..., :1]                                  # so that constant rows become 0
    x_hat = xp.subtract(x_hat, row_sums(x_hat) / D, out=x_hat)      # centred = x - mean
    var = row_sums(x_hat * x_hat) / D
    rstd = 1 / xp.sqrt(var + layer.eps)                     # 1 / std
    x_hat = xp.multiply(x_hat, rstd, out=x_hat)             # x_hat = centred / std
    y = x_hat * layer.gain.data
    y = xp.add(y, layer.bias.data, out=y)                   # y = gain * x_hat + bias
    return y, Cache(x_hat=x_hat, rstd=rstd)


def layer_norm_backward(layer, dy, cache):
    x_hat, D = cache.x_hat, dy.shape[-1]
    d = dy * x_hat
    layer.gain.grad += column_sums(d.reshape(-1, D))
    layer.bias.grad += column_sums(dy.reshape(-1, D))
    d = xp.multiply(dy, layer.gain.data, out=d)             # dx_hat
    shift = row_sums(d) / D
    stretch = row_sums(d * x_hat) / D
    d = xp.subtract(d, shift, out=d)
    d = xp.subtract(d, x_hat * stretch, out=d)
    return xp.multiply(d, cache.rstd, out=d)                # (dx_hat - shift - stretch x_hat) / std


def gelu(layer, x):
    cdf = fast_normal_cdf(x)
    slope = x * x
    slope = xp.multiply(slope, -0.5, out=slope)
    slope = xp.exp(slope, out=slope)
    slope = xp.multiply(slope, 1 / math.sqrt(2 * math.pi), out=slope)   # normal_density(x)
    slope = xp.multiply(slope, x, out=slope)
    slope = xp.add(slope, cdf, out=slope)                   # slope = cdf + x * normal_density(x)
    return xp.multiply(x, cdf, out=cdf), Cache(slope=slope)


def gelu_backward(layer, dy, cache):
    return dy * cache.slope


def fast_normal_cdf(x):
    """npdl.functions.normal_cdf, which see, in one array."""
    if x.dtype != np.float32:
        return normal_cdf(x)
    x2 = xp.minimum(x * x, ERF_FIT_END)
    p = x2 * ERF_FIT[-1]
    for coefficient in ERF_FIT[-2:0:-1]:
        p = xp.add(p, coefficient, out=p)
        p = xp.multiply(p, x2, out=p)
    p = xp.add(p, ERF_FIT[0], out=p)
    p = xp.multiply(p, x, out=p)
    p = xp.tanh(p, out=p)
    p = xp.add(p, 1.0, out=p)
    return xp.multiply(p, 0.5, out=p)


def embedding(layer, ids):
    return layer.W.data[ids], Cache(ids=ids)


def embedding_backward(layer, dy, cache):
    V = layer.W.shape[0]
    if V > SMALL_TABLE:
        dW = sum_by_index(dy, cache.ids, V)
    else:
        dW = one_hot(cache.ids, V, dy.dtype).T @ dy
    if layer.padding_id is not None:
        dW[layer.padding_id] = 0
    layer.W.grad += dW


KERNELS = {
    Linear: (linear, linear_backward),
    LayerNorm: (layer_norm, layer_norm_backward),
    GELU: (gelu, gelu_backward),
    Embedding: (embedding, embedding_backward),
}


def attend(q, k, v, mask):
    """npdl.layers.attention.attend: q (B, H, R, d), k and v (B, H, S, d), mask (R, S) or so."""
    scale = 1 / math.sqrt(q.shape[-1])
    scores = q @ k.swapaxes(-1, -2)
    scores = xp.multiply(scores, scale, out=scores)
    scores = xp.where(mask, scores, -math.inf)              # every query sees itself: none is empty
    A = xp.subtract(scores, row_max(scores), out=scores)
    A = xp.exp(A, out=A)
    A = xp.divide(A, row_sums(A), out=A)                    # A = softmax(scores, mask)
    return A @ v, Cache(q=q, k=k, v=v, A=A, scale=scale)


def attend_backward(dy, cache):
    A, scale = cache.A, cache.scale
    dv = A.swapaxes(-1, -2) @ dy
    dA = dy @ cache.v.swapaxes(-1, -2)
    d = dA * A
    along_A = row_sums(d)
    d = xp.subtract(dA, along_A, out=d)
    d = xp.multiply(d, A, out=d)                            # dscores = softmax_backward(dA, A)
    d = xp.multiply(d, scale, out=d)
    return d @ cache.k, d.swapaxes(-1, -2) @ cache.q, dv    # dq, dk, dv


def sigmoid(x):
    """npdl.functions.sigmoid, in place."""
    x = xp.multiply(x, 0.5, out=x)
    x = xp.tanh(x, out=x)
    x = xp.multiply(x, 0.5, out=x)
    return xp.add(x, 0.5, out=x)


def row_sums(x):
    """The sum over the last axis, kept as length 1: one product with a column of ones."""
    ones = xp.ones((x.shape[-1], 1), x.dtype)
    return (x.reshape(-1, x.shape[-1]) @ ones).reshape(*x.shape[:-1], 1)


def row_max(x):
    """The maximum over the last axis, kept as length 1."""
    length = x.shape[-1]
    if not is_host() or length > SHORT_AXIS:
        return x.max(-1, keepdims=True)
    return functools.reduce(xp.maximum, [x[..., i : i + 1] for i in range(length)])


def column_sums(x):
    """The sum over the rows (N, D) -> (D,): a product with a row of ones."""
    return xp.ones(len(x), x.dtype) @ x
