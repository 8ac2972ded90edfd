"""The textbook's layers on rows (N, D), their results written into arrays that are already there.

Each kernel carries out the forward or the backward of the textbook's class beside it. `m` is the
Arena that arrays come from. A map or an activation of another class than those here, such as an
adapter, runs as the textbook has it; which there may be, PARTS of each model says. What a kernel
may write over, its comment says.
"""

import functools

import numpy as np

from npdl.adapt.linears import FrozenLinear, LoRALinear, QuantLinear
from npdl.backend import is_host, name, xp
from npdl.core import Param
from npdl.functions import normal_cdf, sum_by_index, sum_rows
from npdl.layers.activation import GELU
from npdl.layers.embedding import Unembedding
from npdl.layers.layer_norm import LayerNorm
from npdl.layers.linear import Linear
from npdl.layers.transformer import Same
from npdl_train.fast import cuda, fused

SMALL_TABLE = 1024      # up to so many rows, a product with one-hot rows beats adding one by one
SHORT_AXIS = 16         # NumPy's loops pay for every row: over a short axis, columns and products
                        # with ones are many times faster
SMALL = 40              # no sum of so small scores' exponentials leaves float32: over a long axis,
                        # no maximum is taken from them
TURNED = 64             # rows of so many numbers are turned into columns for their maximum
COLUMN = 2048           # rows that are summed in float32, beyond which it loses digits
BLOCK = 131072          # numbers that a chain of elementwise operations takes at a time
BASES = (FrozenLinear, QuantLinear)         # what an adapter may stand on
MAPS = (Linear, LoRALinear, *BASES)         # what may stand where the textbook has a Linear


def learns(param):
    """Whether there is such a parameter (no NoBias), and it is not frozen."""
    return isinstance(param, Param) and param.trainable


def copied(y, m, out=None):
    """A textbook layer's output in the wing's own memory: its cache may read the array that it
    returned, and what comes next writes over what it is given."""
    out = m.empty(*y.shape) if out is None else out
    out[...] = y
    return out


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
    else:
        add_matmul(x.T, dy, grad, m)


def add_matmul(a, b, out, m):
    """out += a b, on a GPU by the product itself."""
    if cuda.possible():
        xp.matmul(a, b, out=out, beta=1)
        return
    with m.scratch:
        xp.add(out, xp.matmul(a, b, out=m.empty(*out.shape)), out=out)


def add_sum(b, dy, m):
    """b.grad += the sum of the rows dy (N, D)."""
    if learns(b):
        add_sum_into(b.grad, is_first(b.grad, m), dy)


def add_sum_into(grad, first, dy):
    """grad += the sum of the rows dy (N, D)."""
    if first and not is_host():
        xp.matmul(ones(1, len(dy), dy.dtype, name()), dy, out=grad.reshape(1, -1))
    else:
        grad += column_sums(dy)


# --- maps ----------------------------------------------------------------------------------------
def linear(layer, x, m, out=None, late=False):
    """Linear.forward, Unembedding.forward -> y, cache. `late`: a Linear's bias (`late_bias`) is
    still to be added."""
    if type(layer) not in (Linear, Unembedding):
        y, cache = layer.forward(x)
        return copied(y, m, out), cache
    W = layer.W.data if type(layer) is Linear else layer.W.data.T
    out = m.empty(len(x), W.shape[1]) if out is None else out
    y = xp.matmul(x, W, out=out)
    if type(layer) is Linear and isinstance(layer.b, Param) and not late:
        y = xp.add(y, layer.b.data, out=y)                      # y = x W + b
    return y, x


def late_bias(layer):
    """The bias that `layer_norm` may add in its own kernel, or None."""
    if cuda.possible() and type(layer) is Linear and isinstance(layer.b, Param):
        return layer.b.data
    return None


def linear_backward(layer, dy, cache, m, over=True):
    """Linear.backward, Unembedding.backward -> dx, written over the input if `over`."""
    if type(layer) not in (Linear, Unembedding):
        return layer.backward(dy, cache)
    if type(layer) is Linear:
        add_product(layer.W, cache, dy, m)                      # y = x W + b
        add_sum(layer.b, dy, m)
        W_T = layer.W.data.T                                    # dx = dy_rows @ W.data.T
    else:
        add_product(layer.W, dy, cache, m)                      # y = x W^T
        W_T = layer.W.data                                      # dx = dy_rows @ W.data
    return xp.matmul(dy, W_T, out=cache if over else m.empty(*cache.shape))


def linear_backward_onto(layer, dy, cache, dx, m):
    """dx += Linear.backward."""
    if not cuda.possible() or type(layer) is not Linear:
        return xp.add(dx, linear_backward(layer, dy, cache, m), out=dx)
    add_product(layer.W, cache, dy, m)
    add_sum(layer.b, dy, m)
    add_matmul(dy, layer.W.data.T, dx, m)
    return dx


# --- several maps of one input: queries, keys and values; an LSTM's four gates ------------------
def products_of(x, W, out):
    """x W of all maps, W (D, G E), into out (G, N, E)."""
    return xp.matmul(x, apart(W, len(out)), out=out)


def empty_group(m, G, N, D):
    """An array (G, N, D): on NumPy one behind the other, as it is fastest on what lies together;
    on a device beside each other, so that the G products are one."""
    return m.empty(G, N, D) if is_host() else m.once(apart, (m.empty(N, G * D),), G)


def apart(W, G):
    """(D, G E) -> (G, D, E), a view."""
    return W.reshape(len(W), G, -1).swapaxes(0, 1)


def beside(x):
    """A device's (G, N, D) as the (N, G D) that it is."""
    return x.swapaxes(0, 1).reshape(x.shape[1], -1)


def products(x, W, out, m):
    """products_of, into an array of `empty_group`."""
    if is_host():
        return products_of(x, W, out)
    xp.matmul(x, W, out=m.once(beside, (out,)))
    return out


# --- LayerNorm -----------------------------------------------------------------------------------
def blocks(N, D, most=BLOCK):
    """Slices of N rows of width D, of at most so many numbers: a chain of operations stays in a
    cache."""
    rows = max(1, most // D) if is_host() else max(N, 1)
    return [slice(start, min(start + rows, N)) for start in range(0, N, rows)]


def layer_norm(layer, x, m, plus=None, late=None):
    """LayerNorm.forward of x, or of x + late + plus, which is left in x -> y, cache. `late` is a
    bias (D,), `plus` (N, D)."""
    if cuda.possible() and type(layer) is LayerNorm:
        x_hat, y, squares = m.empty(*x.shape), m.empty(*x.shape), m.empty(len(x), 1)
        cuda.norm(x, plus, late, layer.gain.data, bias_of(layer), layer.eps, x_hat, y, squares)
        return y, (x_hat, squares)
    if plus is not None:
        x = xp.add(x, plus, out=x)
    if type(layer) is Same:
        return x, None
    if type(layer) is not LayerNorm:
        y, cache = layer.forward(x)
        return copied(y, m), cache
    x_hat, y, squares = m.empty(*x.shape), m.empty(*x.shape), m.empty(len(x), 1)
    for part in blocks(*x.shape):
        normalise(layer, x[part], x_hat[part], squares[part], y[part])
    return y, (x_hat, squares)


def column(x):
    """(N,) -> (N, 1)."""
    return x.reshape(-1, 1)


def normalise(layer, x, x_hat, squares, y):
    """LayerNorm.forward of some rows, into x_hat, the sums of squares behind std, and y."""
    share = 1 / x.shape[1]
    x_hat = xp.subtract(x, x[:, :1], out=x_hat)
    # from the first entry, so that equal entries become 0 whatever the sum's rounding
    x_hat = xp.subtract(x_hat, row_sums(x_hat) * share, out=x_hat)
    np.vecdot(x_hat, x_hat, out=squares[:, 0])
    fused.scale_rows(x_hat, squares, share, layer.eps, layer.gain.data, bias_of(layer), y)


def bias_of(layer):
    """A layer's bias, or None where it was made without."""
    return layer.bias.data if isinstance(layer.bias, Param) else None


def layer_norm_backward(layer, dy, cache, m):
    """LayerNorm.backward -> dx; writes over dy and the cache."""
    if type(layer) is Same:
        return dy
    if type(layer) is not LayerNorm:
        return layer.backward(dy, cache)
    x_hat, squares = cache
    with m.scratch:
        if cuda.possible():
            grads = [param.grad if learns(param) else None for param in (layer.gain, layer.bias)]
            firsts = [grad is None or is_first(grad, m) for grad in grads]
            partial = m.empty(-(-len(dy) // cuda.CHUNK), 2, dy.shape[1])
            cuda.norm_backward(dy, x_hat, squares, layer.gain.data, *grads, layer.eps, firsts,
                               partial)
            return dy
        spare = None
        for part in blocks(*dy.shape):
            spare = m.empty(*dy[part].shape) if spare is None else spare[: len(dy[part])]
            normalise_backward(layer, dy[part], x_hat[part], squares[part], spare, m)
    return dy


def normalise_backward(layer, dy, x_hat, squares, spare, m):
    """LayerNorm.backward of some rows: dy becomes dx; writes over x_hat."""
    gain, share = layer.gain.data, 1 / dy.shape[1]
    product = xp.multiply(dy, x_hat, out=spare)
    add_sum(layer.bias, dy, m)
    add_sum(layer.gain, product, m)
    shift, stretch = (np.matmul(each, column(gain)) for each in (dy, product))  # dx_hat = dy * gain
    fused.normalise_backward(dy, x_hat, shift, stretch, squares, share, layer.eps, gain)


# --- GELU ----------------------------------------------------------------------------------------
def activation(layer, x, m):
    """GELU.forward -> y, cache. Writes over x."""
    if type(layer) is not GELU:
        y, cache = layer.forward(x)
        return copied(y, m), cache
    slope = m.empty(*x.shape)
    if not is_host() and x.dtype == np.float32:
        fused.gelu(x, slope, None, None)
        return x, slope
    with m.scratch:
        spare = None
        for part in blocks(*x.shape):
            spare = m.empty(2, *x[part].shape) if spare is None else spare[:, : len(x[part])]
            if x.dtype == np.float32:
                fused.gelu(x[part], slope[part], *spare)
            else:
                fused.gelu_of(x[part], normal_cdf(x[part]), slope[part], spare[0])
    return x, slope


def activation_backward(layer, dy, cache, m):
    """GELU.backward -> dx. Writes over dy."""
    if type(layer) is not GELU:
        return layer.backward(dy, cache)
    return xp.multiply(dy, cache, out=dy)


# --- tables --------------------------------------------------------------------------------------
def add_to_table(W, d, entries, what, m, padding_id=None):
    """W.grad += the sum of the rows d (N, D) that read each row of W: Embedding.backward."""
    if not learns(W):
        return
    (V, D), first = W.shape, is_first(W.grad, m)
    with m.scratch:
        dW = W.grad if first else m.empty(V, D)
        if V > SMALL_TABLE:
            dW[...] = sum_by_index(d, entries.readers(what, V).index, V)
        else:
            entries.readers(what, V).sum(d, dW)
        if padding_id is not None:
            dW[padding_id] = 0
        if not first:
            W.grad += dW


# --- softmax, sums ----------------------------------------------------------------------
def softmax(x, scale, hidden, m):
    """x (..., R, S) <- softmax(scale x + hidden) over the last axis; hidden (R, S) is 0 or -inf."""
    if cuda.possible():
        cuda.softmax(x, scale, hidden)
        return x
    R, S = x.shape[-2:]
    x = xp.multiply(x, scale, out=x)
    small = S > SHORT_AXIS and x.max() < SMALL and x.min() > -SMALL
    if hidden is not None:
        whole = x.reshape(-1, R * S)
        xp.add(whole, hidden.reshape(-1), out=whole)
    rows = x.reshape(-1, S)
    with m.scratch:
        if not small:
            rows = xp.subtract(rows, row_max(rows, m), out=rows)
        rows = xp.exp(rows, out=rows)
        xp.divide(rows, broadcast_row_sums(rows, m), out=rows)
    return x


def softmax_backward(dy, y, scale, m):
    """dy <- scale * npdl.functions.softmax_backward(dy, y)."""
    d, y = m.once(as_rows, (dy, y))
    if cuda.possible():
        cuda.softmax_backward(d, y, scale)
        return dy
    with m.scratch:
        total = broadcast_row_sums(xp.multiply(d, y, out=m.empty(*d.shape)), m)
        fused.softmax_backward(d, y, total, scale)
    return dy


def as_rows(*stacks):
    """Each (..., S) as (N, S)."""
    return [x.reshape(-1, x.shape[-1]) for x in stacks]


def broadcast_row_sums(x, m):
    """The sum over the last axis, at every entry that it is the sum of: (N, S), or (N, 1)."""
    N, S = x.shape
    if is_host() and S <= SHORT_AXIS:
        return xp.matmul(x, ones(S, S, x.dtype, name()), out=m.empty(N, S))
    return row_sums(x)


def row_max(x, m):
    """The maximum over the last axis of (N, S), kept as length 1."""
    N, S = x.shape
    if not is_host() or S > TURNED:
        return x.max(-1, keepdims=True)
    columns = m.empty(S, N)
    columns[...] = x.T
    return columns.max(0)[:, None]


@functools.cache                            # never given back: a CUDA graph may read it
def ones(rows, columns, dtype, name):
    """A matrix of ones; `name` is the backend's."""
    return xp.ones((rows, columns), dtype)


def row_sums(x):
    """The sum over the last axis, kept as length 1: on NumPy a product with a column of ones."""
    if not is_host():
        return x.sum(-1, keepdims=True)
    return np.matmul(x, ones(x.shape[-1], 1, x.dtype, name()))


def column_sums(x):
    """The sum over the rows (N, D) -> (D,): a product with a row of ones, since a GPU would give a
    sum down a column few of its blocks; on NumPy one for each COLUMN, and theirs by sum_rows."""
    if is_host() and len(x) > COLUMN:
        return sum_rows(np.stack([column_sums(x[part]) for part in blocks(len(x), 1, COLUMN)]))
    return xp.matmul(ones(1, len(x), x.dtype, name()), x)[0]
