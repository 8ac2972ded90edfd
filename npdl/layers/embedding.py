"""Tables of vectors, looked up by token, and the tied map back to tokens."""

import numpy as np

from npdl.backend import one_hot, to_device, xp
from npdl.core import Cache, Layer, Param
from npdl.errors import InputError
from npdl.init import generator, require_dtype, require_positive, standard_normal
from npdl.layers.linear import check_width


def checked_ids(ids, size, what="token ids"):
    """`ids` as integers on the device, after a check on the host that 0 <= id < size.

    A device array is taken as checked: a look at its values would wait for the device, and
    CuPy wraps an index that is out of range without a word.
    """
    if not isinstance(ids, (np.ndarray, np.generic, list, tuple, int, float, str, type(None))):
        return ids
    try:
        ids = np.asarray(ids)
    except ValueError:
        raise InputError(f"{what} are rows of different lengths; fill them up") from None
    if not np.issubdtype(ids.dtype, np.integer):
        raise InputError(f"{what} have dtype {ids.dtype}; they must be integers")
    if ids.size and (ids.min() < 0 or ids.max() >= size):
        bad = ids.min() if ids.min() < 0 else ids.max()
        raise InputError(f"{what} contain {bad}; allowed are 0 to {size - 1}")
    return to_device(ids)


def checked_at(at, batch_shape):
    """Positions `at` (R,) or (B, R) in sequences (B, S), B or None, checked as `checked_ids` does.
    """
    B, S = batch_shape
    at = checked_ids(at, S, "positions 'at'")
    if at.ndim not in (1, 2) or (at.ndim == 2 and B not in (None, len(at))):
        raise InputError(f"positions 'at' have shape {at.shape}; they must be (R,) or "
                         f"({B or 'B'}, R)")
    return at


class Embedding(Layer):
    """y = W[ids]: (...,) integers below V -> (..., D), with W (V, D).

    W starts standard normal. The row `padding_id`, if there is one, starts at zero and gets no
    gradient. Raises InputError for ids that are not integers in [0, V).
    """

    is_embedding = True

    def __init__(self, vocab_size, d_model, padding_id=None, rng=0, dtype="float32"):
        require_positive(vocab_size=vocab_size, d_model=d_model)
        if padding_id is not None:
            checked_ids(int(padding_id), vocab_size, "padding_id")
        self.W = Param(standard_normal(generator(rng), (vocab_size, d_model), dtype))
        self.padding_id = padding_id
        if padding_id is not None:
            self.W.data[padding_id] = 0

    def forward(self, ids):
        ids = checked_ids(ids, self.W.shape[0])
        y = self.W.data[ids]
        return y, Cache(ids=ids)

    def backward(self, dy, cache):
        V, D = self.W.shape
        chosen = one_hot(cache.ids.reshape(-1), V, dy.dtype)    # chosen (N, V):  y = chosen W
        dW = chosen.T @ dy.reshape(-1, D)                       # dW     (V, D)
        if self.padding_id is not None:
            dW[self.padding_id] = 0
        self.W.grad += dW
        return None                                             # integers have no gradient


class Unembedding(Layer):
    """y = x W^T: (..., D) -> (..., V), sharing the Param W (V, D) of an Embedding (weight tying).

    The shared Param collects the gradients of both uses.
    """

    def __init__(self, embedding):
        self.W = embedding.W

    def forward(self, x):
        V, D = self.W.shape
        check_width(x, D, "Unembedding")
        rows = x.reshape(-1, D)                                 # rows (N, D)
        y = rows @ self.W.data.T                                # y    (N, V)
        return y.reshape(*x.shape[:-1], V), Cache(rows=rows, shape=x.shape)

    def backward(self, dy, cache):
        dy_rows = dy.reshape(-1, self.W.shape[0])               # dy_rows (N, V)
        self.W.grad += dy_rows.T @ cache.rows                   # y = x W^T
        dx = dy_rows @ self.W.data                              # dx      (N, D)
        return dx.reshape(cache.shape)


def sinusoidal(length, d_model, exponent="k/d", dtype="float32"):
    """The fixed position table (S, D): sin(pos / 10000^e) at i = 2k, cos of the same at 2k + 1.

    `exponent` e is "k/d" (document 004, Problem 2.7, as printed) or "2k/d" (the usual form,
    whose slowest wave is 10000 times longer than its fastest; with k/d it is 100 times).
    """
    require_positive(length=length, d_model=d_model)
    require_dtype(dtype)
    if exponent not in ("k/d", "2k/d"):
        raise InputError(f"exponent {exponent!r} is unknown; choose 'k/d' or '2k/d'")
    k = np.arange(d_model) // 2
    power = (2 * k if exponent == "2k/d" else k) / d_model
    angle = np.arange(length)[:, None] / 10000.0**power
    table = np.where(np.arange(d_model) % 2 == 0, np.sin(angle), np.cos(angle))
    return to_device(table.astype(dtype))


class SinusoidalPositions(Layer):
    """y = x + PE[position], with a fixed table PE (max_len, D). Nothing is learned.

    forward: x (B, S, D), the positions being 0..S-1, or x (..., D) with `positions` (...).
    """

    def __init__(self, max_len, d_model, exponent="k/d", dtype="float32"):
        self.table = sinusoidal(max_len, d_model, exponent, dtype)

    def forward(self, x, positions=None):
        positions = _positions(x, positions, self.table)
        y = x + self.table.astype(x.dtype, copy=False)[positions]
        return y, Cache()

    def backward(self, dy, cache):
        return dy


class LearnedPositions(Layer):
    """y = x + W[position], with a learned table W (max_len, D). Shapes as SinusoidalPositions."""

    is_embedding = True

    def __init__(self, max_len, d_model, rng=0, dtype="float32"):
        require_positive(max_len=max_len, d_model=d_model)
        self.W = Param(standard_normal(generator(rng), (max_len, d_model), dtype))

    def forward(self, x, positions=None):
        positions = _positions(x, positions, self.W.data)
        y = x + self.W.data[positions]
        return y, Cache(positions=positions, lead=x.shape[:-1])

    def backward(self, dy, cache):
        length, D = self.W.shape
        positions = xp.broadcast_to(cache.positions, cache.lead)
        chosen = one_hot(positions.reshape(-1), length, dy.dtype)   # y = x + chosen W
        self.W.grad += chosen.T @ dy.reshape(-1, D)
        return dy


def _positions(x, positions, table):
    check_width(x, table.shape[1], "positions")
    if positions is not None:
        positions, lead = checked_ids(positions, table.shape[0], "positions"), x.shape[:-1]
        lengths = zip(positions.shape[::-1], lead[::-1], strict=False)
        if positions.ndim > len(lead) or any(n not in (1, full) for n, full in lengths):
            raise InputError(f"positions: they have shape {positions.shape}; for an input "
                             f"{x.shape} they must broadcast to {lead}")
        return positions
    if x.ndim < 2 or x.shape[-2] > table.shape[0]:
        raise InputError(
            f"positions: the input has shape {x.shape}; at most {table.shape[0]} positions exist"
        )
    return xp.arange(x.shape[-2])
