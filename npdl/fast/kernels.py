"""The textbook's layers on rows (N, D), their results written into arrays that are already there.

Each kernel carries out the forward or the backward of the textbook's class beside it. `m` is the
Arena that arrays come from. A map, norm or activation of another class than those here, such as
an adapter, runs as the textbook has it. What a kernel may write over, its comment says.
"""

import functools
import math

import numpy as np

from npdl.backend import is_host, xp
from npdl.core import Param
from npdl.functions import ERF_FIT, normal_cdf, sum_by_index
from npdl.layers.activation import GELU
from npdl.layers.embedding import Unembedding
from npdl.layers.linear import Linear
from npdl.layers.norm import LayerNorm

SMALL_TABLE = 1024      # up to so many rows, a product with one-hot rows beats adding one by one
SHORT_AXIS = 16         # NumPy's loops pay for every row: over a short axis, columns and products
                        # with ones are many times faster
BLOCK = 131072          # numbers that a chain of elementwise operations takes at a time


def learns(param):
    """Whether there is such a parameter (no Absent bias), and it is not frozen."""
    return isinstance(param, Param) and param.trainable


# --- gradients -----------------------------------------------------------------------------------
def is_first(grad, m):
    """Whether a step adds to this gradient, which is zero, for the first time."""
    first = id(grad) not in m.written
    m.written.add(id(grad))
    return first


def add_product(W, x, dy, m):
    """W.grad += x^T dy."""
    if learns(W):
        add_into(W.grad, is_first(W.grad, m), x, dy, m)


def add_into(grad, first, x, dy, m):
    """grad += x^T dy; written at once where it is the `first` to be added."""
    if first:
        xp.matmul(x.T, dy, out=grad)
        return
    with m.scratch:
        grad += xp.matmul(x.T, dy, out=m.empty(*grad.shape))


def add_sum(b, dy):
    """b.grad += the sum of the rows dy."""
    if learns(b):
        b.grad += column_sums(dy)


# --- maps ----------------------------------------------------------------------------------------
def linear(layer, x, m, out=None):
    """Linear.forward, Unembedding.forward -> y, cache."""
    if type(layer) not in (Linear, Unembedding):
        y, cache = layer.forward(x)
        if out is not None:
            out[...] = y
        return (y if out is None else out), cache
    W = layer.W.data if type(layer) is Linear else layer.W.data.T
    out = m.empty(len(x), W.shape[1]) if out is None else out
    y = xp.matmul(x, W, out=out)
    if type(layer) is Linear and isinstance(layer.b, Param):
        y = xp.add(y, layer.b.data, out=y)                      # y = x W + b
    return y, x


def linear_backward(layer, dy, cache, m, over=True):
    """Linear.backward, Unembedding.backward -> dx, written over the input if `over`."""
    if type(layer) not in (Linear, Unembedding):
        return layer.backward(dy, cache)
    if type(layer) is Linear:
        add_product(layer.W, cache, dy, m)                      # y = x W + b
        add_sum(layer.b, dy)
        W_T = layer.W.data.T
    else:
        add_product(layer.W, dy, cache, m)                      # y = x W^T
        W_T = layer.W.data
    return xp.matmul(dy, W_T, out=cache if over else m.empty(*cache.shape))


# --- LayerNorm -----------------------------------------------------------------------------------
def blocks(N, D):
    """Slices of N rows of width D, in each of which a chain of operations stays in cache."""
    rows = max(1, BLOCK // D) if is_host() else max(N, 1)
    return [slice(start, min(start + rows, N)) for start in range(0, N, rows)]


def layer_norm(layer, x, m, plus=None):
    """LayerNorm.forward of x, or of x + plus, which is left in x -> y, cache."""
    if type(layer) is not LayerNorm:
        return layer.forward(x if plus is None else xp.add(x, plus, out=x))
    N, D = x.shape
    x_hat, y, rstd = m.empty(N, D), m.empty(N, D), m.empty(N, 1)
    for part in blocks(N, D):
        if plus is not None:
            xp.add(x[part], plus[part], out=x[part])
        normalise(layer, x[part], x_hat[part], rstd[part], y[part])
    return y, (x_hat, rstd)


def normalise(layer, x, x_hat, rstd, y):
    """LayerNorm.forward of some rows, into x_hat, rstd = 1 / std and y."""
    D = x.shape[1]
    x_hat = xp.subtract(x, x[:, :1], out=x_hat)                 # so that constant rows become 0
    x_hat = xp.subtract(x_hat, row_sums(x_hat) / D, out=x_hat)  # centred = x - mean
    var = row_dots(x_hat, x_hat, y) / D
    rstd = xp.divide(1, xp.sqrt(var + layer.eps), out=rstd)
    x_hat = xp.multiply(x_hat, rstd, out=x_hat)                 # x_hat = centred / std
    y = xp.multiply(x_hat, layer.gain.data, out=y)
    if isinstance(layer.bias, Param):
        xp.add(y, layer.bias.data, out=y)                       # y = gain * x_hat + bias


def layer_norm_backward(layer, dy, cache, m):
    """LayerNorm.backward -> dx; writes over dy and the cache."""
    if type(layer) is not LayerNorm:
        return layer.backward(dy, cache)
    x_hat, rstd = cache
    with m.scratch:
        spare = None
        for part in blocks(*dy.shape):
            spare = m.empty(*dy[part].shape) if spare is None else spare[: len(dy[part])]
            normalise_backward(layer, dy[part], x_hat[part], rstd[part], spare)
    return dy


def normalise_backward(layer, dy, x_hat, rstd, spare):
    """LayerNorm.backward of some rows: dy becomes dx; writes over x_hat."""
    D = dy.shape[1]
    if learns(layer.gain):
        layer.gain.grad += column_sums(xp.multiply(dy, x_hat, out=spare))
    add_sum(layer.bias, dy)
    d = xp.multiply(dy, layer.gain.data, out=dy)        # dx_hat
    shift = row_sums(d) / D
    stretch = row_dots(d, x_hat, spare) / D
    d = xp.subtract(d, shift, out=d)
    d = xp.subtract(d, xp.multiply(x_hat, stretch, out=x_hat), out=d)
    xp.multiply(d, rstd, out=d)                         # (dx_hat - shift - stretch x_hat) / std


# --- GELU ----------------------------------------------------------------------------------------
def activation(layer, x, m):
    """GELU.forward -> y, cache. Writes over x."""
    if type(layer) is not GELU:
        return layer.forward(x)
    slope = m.empty(*x.shape)
    with m.scratch:
        spare = None
        for part in blocks(*x.shape):
            spare = m.empty(2, *x[part].shape) if spare is None else spare[:, : len(x[part])]
            gelu(x[part], slope[part], *spare)
    return x, slope


def activation_backward(layer, dy, cache, m):
    """GELU.backward -> dx. Writes over dy."""
    if type(layer) is not GELU:
        return layer.backward(dy, cache)
    return xp.multiply(dy, cache, out=dy)


def gelu(x, slope, x2, cdf):
    """x <- x Phi(x), slope <- its derivative; x2 and cdf are to write to."""
    x2 = xp.multiply(x, x, out=x2)
    cdf = normal_cdf_into(x, x2, cdf)
    density = xp.multiply(x2, -0.5, out=slope)
    density = xp.exp(density, out=density)
    density = xp.multiply(density, 1 / math.sqrt(2 * math.pi), out=density)
    density = xp.multiply(density, x, out=density)              # x * normal_density(x)
    xp.add(density, cdf, out=slope)                             # slope = cdf + x * density
    xp.multiply(x, cdf, out=x)                                  # y = x * cdf


def normal_cdf_into(x, x2, p):
    """npdl.functions.normal_cdf, which see, of x into p; x2 is x * x.

    Without ERF_FIT_END: beyond it the fit grows on, and its tanh is 1 in float32.
    """
    if x.dtype != np.float32:
        p[...] = normal_cdf(x)
        return p
    p = xp.multiply(x2, ERF_FIT[-1], out=p)
    for coefficient in ERF_FIT[-2:0:-1]:
        p = xp.add(p, coefficient, out=p)
        p = xp.multiply(p, x2, out=p)
    p = xp.add(p, ERF_FIT[0], out=p)
    p = xp.multiply(p, x, out=p)
    p = xp.tanh(p, out=p)
    p = xp.add(p, 1.0, out=p)
    return xp.multiply(p, 0.5, out=p)


# --- tables --------------------------------------------------------------------------------------
def add_to_table(W, d, entries, what, m, padding_id=None):
    """W.grad += the sum of the rows d (N, D) that read each row of W: Embedding.backward."""
    if not learns(W):
        return
    V, D = W.shape
    with m.scratch:
        if V > SMALL_TABLE:
            dW = sum_by_index(d, entries.readers(what, V).index, V)
        else:
            dW = entries.readers(what, V).sum(d, m.empty(V, D))
        if padding_id is not None:
            dW[padding_id] = 0
        W.grad += dW
        is_first(W.grad, m)


# --- softmax, sums ----------------------------------------------------------------------
def softmax(x, scale, bias, m):
    """x (..., R, S) <- softmax(scale x + bias) over the last axis; bias (R, S) is 0 or -inf."""
    R, S = x.shape[-2:]
    x = xp.multiply(x, scale, out=x)
    if bias is not None:
        flat = x.reshape(-1, R * S)
        flat = xp.add(flat, bias.reshape(-1), out=flat)
    rows = x.reshape(-1, S)
    with m.scratch:
        rows = xp.subtract(rows, row_max(rows, m), out=rows)
        rows = xp.exp(rows, out=rows)
        xp.divide(rows, along(rows, m), out=rows)
    return x


def softmax_backward(dy, y, scale, m):
    """dy <- scale * npdl.functions.softmax_backward(dy, y)."""
    S = y.shape[-1]
    d, y = dy.reshape(-1, S), y.reshape(-1, S)
    with m.scratch:
        product = xp.multiply(d, y, out=m.empty(*d.shape))
        d = xp.subtract(d, along(product, m), out=d)
    d = xp.multiply(d, y, out=d)
    xp.multiply(d, scale, out=d)
    return dy


def along(x, m):
    """The sum over the last axis, at every entry that it is the sum of: (N, S), or (N, 1)."""
    N, S = x.shape
    if is_host() and S <= SHORT_AXIS:
        return xp.matmul(x, ones(S, S, x.dtype), out=m.empty(N, S))
    return row_sums(x)


def row_max(x, m):
    """The maximum over the last axis of (N, S), kept as length 1."""
    N, S = x.shape
    if not is_host() or S > SHORT_AXIS:
        return x.max(-1, keepdims=True)
    top = m.empty(N, 1)
    top[...] = x[:, :1]
    for i in range(1, S):
        np.maximum(top, x[:, i : i + 1], out=top)
    return top


@functools.lru_cache(maxsize=64)
def _host_ones(shape, dtype):
    return np.ones(shape, dtype)


def ones(rows, columns, dtype):
    return _host_ones((rows, columns), dtype) if is_host() else xp.ones((rows, columns), dtype)


def row_sums(x):
    """The sum over the last axis, kept as length 1: one product with a column of ones."""
    return xp.matmul(x, ones(x.shape[-1], 1, x.dtype))


def row_dots(a, b, spare):
    """The sum over the last axis of a * b, kept as length 1."""
    if is_host():
        return np.einsum("ij,ij->i", a, b)[:, None]
    return row_sums(xp.multiply(a, b, out=spare))


def column_sums(x):
    """The sum over the rows (..., N, D) -> (..., D): a product with a row of ones."""
    return xp.matmul(ones(1, x.shape[-2], x.dtype), x)[..., 0, :]
