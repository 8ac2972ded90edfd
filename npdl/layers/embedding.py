"""Embedding matrices of tokens and positions, and the tied classifier."""

import numpy as np

from npdl.backend import to_device, xp
from npdl.core import Cache, Layer, Param
from npdl.errors import check_gradient, check_shape, checked_ids, checked_positions, describe
from npdl.exceptions import InputError
from npdl.functions import sum_by_index
from npdl.init import generator, standard_normal
from npdl.options import checked_integer, require_choice, require_dtype, require_positive


class Embedding(Layer):
    """y = W[ids].

    Shapes: ids (...,) -> y (..., D), with the embedding matrix W (V, D). W is initialised with
    standard normal numbers. If `padding_id` is given, W[padding_id] is initialised with zeros and
    gets no gradient. Raises InputError for ids that are not integers in [0, V).
    """

    is_embedding = True

    def __init__(self, vocab_size, d_model, *, padding_id=None, rng=0, dtype="float32"):
        require_positive(vocab_size=vocab_size, d_model=d_model)
        self.W = Param(standard_normal(generator(rng), (vocab_size, d_model), dtype))
        self.padding_id = padding_id
        if padding_id is not None:
            checked_integer("padding_id", padding_id, 0, vocab_size - 1)
            self.W.data[padding_id] = 0

    def forward(self, ids):
        ids = to_device(checked_ids(ids, self.W.shape[0]))
        y = self.W.data[ids]                                    # y (..., D)
        return y, Cache(ids=ids)

    def backward(self, dy, cache):
        ids, (V, D) = cache.ids, self.W.shape
        check_gradient(dy, (*ids.shape, D), "Embedding")
        if self.padding_id is not None:
            dy = xp.where((ids == self.padding_id)[..., None], 0, dy)
        if self.W.trainable:
            self.W.grad += sum_by_index(dy, ids, V)             # y = W[ids], equal ids add up
        return None                                             # integers have no gradient


class Unembedding(Layer):
    """y = x W^T, with the Param W (V, D) of an Embedding (weight tying).

    Shapes: (..., D) -> (..., V). Both layers use W, so the gradients of both are added to W.grad.
    """

    def __init__(self, embedding):
        if not isinstance(getattr(embedding, "W", None), Param):
            raise InputError(f"Unembedding: got {describe(embedding)}; give the Embedding "
                             "whose matrix the classifier should use")
        self.W = embedding.W

    def forward(self, x):
        V, D = self.W.shape
        check_shape("Unembedding", x, f"(..., {D})")
        rows = x.reshape(-1, D)                                 # rows (N, D)
        y = rows @ self.W.data.T                                # y    (N, V)
        return y.reshape(*x.shape[:-1], V), Cache(rows=rows, shape=x.shape)

    def backward(self, dy, cache):
        V = self.W.shape[0]
        check_gradient(dy, (*cache.shape[:-1], V), "Unembedding")
        dy_rows = dy.reshape(-1, V)                             # dy_rows (N, V)
        if self.W.trainable:
            self.W.grad += dy_rows.T @ cache.rows               # y = x W^T
        dx = dy_rows @ self.W.data                              # dx      (N, D)
        return dx.reshape(cache.shape)


def sinusoidal(length, d_model, exponent="k/d", dtype="float32"):
    """Return the sinusoidal position embeddings (S, D).

    Column 2k is sin(position / 10000^e), and column 2k + 1 is cos(position / 10000^e). The exponent
    e is "2k/d", as in Vaswani et al. 2017, or "k/d". From the first column to the last, wavelengths
    grow by a factor of about 10000 for "2k/d", and of about 100 for "k/d".
    """
    require_positive(length=length, d_model=d_model)
    require_dtype(dtype)
    require_choice("exponent", exponent, ("k/d", "2k/d"))
    k = np.arange(d_model) // 2
    power = (2 * k if exponent == "2k/d" else k) / d_model
    angle = np.arange(length)[:, None] / 10000.0**power
    table = np.where(np.arange(d_model) % 2 == 0, np.sin(angle), np.cos(angle))
    return to_device(table.astype(dtype))


class SinusoidalPositions(Layer):
    """y = x + PE[position], with the fixed matrix PE (max_len, D) of `sinusoidal`.

    forward(x) takes x (B, S, D), with the positions 0 .. S-1. forward(x, positions) takes x
    (..., D) and a position (an integer) for each of its vectors. PE is stored in float64, and
    converted to the dtype of x. The layer has no parameters. Raises InputError if x does not hold
    floats, and for positions out of range.
    """

    def __init__(self, max_len, d_model, *, exponent="k/d"):
        self.table = sinusoidal(max_len, d_model, exponent, "float64")

    def forward(self, x, positions=None):
        positions = checked_positions("SinusoidalPositions", x, positions, self.table.shape)
        y = x + self.table.astype(x.dtype)[to_device(positions)]
        return y, Cache(shape=x.shape)

    def backward(self, dy, cache):
        check_gradient(dy, cache.shape, "SinusoidalPositions")
        dx = dy
        return dx


class LearnedPositions(Layer):
    """y = x + W[position], with a trainable matrix W (max_len, D).

    The shapes are those of SinusoidalPositions. W is initialised with standard normal numbers.
    """

    is_embedding = True

    def __init__(self, max_len, d_model, *, rng=0, dtype="float32"):
        require_positive(max_len=max_len, d_model=d_model)
        self.W = Param(standard_normal(generator(rng), (max_len, d_model), dtype))

    def forward(self, x, positions=None):
        positions = to_device(checked_positions("LearnedPositions", x, positions, self.W.shape))
        y = x + self.W.data[positions]
        return y, Cache(positions=xp.broadcast_to(positions, x.shape[:-1]))

    def backward(self, dy, cache):
        positions, (length, D) = cache.positions, self.W.shape
        check_gradient(dy, (*positions.shape, D), "LearnedPositions")
        if self.W.trainable:
            self.W.grad += sum_by_index(dy, positions, length)  # y = x + W[positions]
        dx = dy
        return dx


POSITIONS = ("k/d", "2k/d", "learned")


def make_positions(kind, max_len, d_model, *, rng, dtype):
    """Return LearnedPositions for "learned", or SinusoidalPositions with the exponent `kind`."""
    require_choice("positions", kind, POSITIONS)
    if kind == "learned":
        return LearnedPositions(max_len, d_model, rng=rng, dtype=dtype)
    return SinusoidalPositions(max_len, d_model, exponent=kind)
