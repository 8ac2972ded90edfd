"""Arrays of any shape, dtype and content to the library's public calls: refused, or right.

Each call says when its argument is right; then it must work, and otherwise raise InputError with
one line that says what came and what is wanted.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from npdl import losses
from npdl.adapt import quantize
from npdl.errors import InputError
from npdl.layers.attention import MultiHeadAttention
from npdl.layers.embedding import Embedding, LearnedPositions, SinusoidalPositions, Unembedding
from npdl.layers.grouped import GroupedQueryAttention, Rotary
from npdl.layers.linear import Linear
from npdl.layers.llama import SwiGLU
from npdl.layers.norm import LayerNorm, RMSNorm
from npdl.layers.recurrent import GRU, LSTM, RNN
from npdl.models.gpt import GPT
from npdl.models.llama import Llama
from npdl.models.lstm_lm import LSTMLM


@dataclass
class Call:
    """A public call of one array, and whether it is right."""

    name: str
    call: Any
    right: Any

    def __str__(self):
        return self.name

    def check(self, given):
        """Whether the array was right, and so taken."""
        try:
            right = bool(self.right(given))
        except (TypeError, ValueError, AttributeError, OverflowError):
            right = False                       # cannot even be compared
        if right:
            self.call(given)
            return True
        with pytest.raises(InputError) as caught:
            self.call(given)
        message = str(caught.value)
        assert message and "\n" not in message
        what = [str(given.shape), str(given.shape[1:]), str(given.dtype), "contain"]
        assert any(word in message for word in what), f"{message!r} does not say what came"
        assert any(word in message for word in ("must", "allowed", "at most", "needs"))
        return False


def drawn(seed):
    """An array of a shape that is often nearly right, of any kind of dtype."""
    rng = np.random.default_rng(seed)
    shape = tuple(rng.choice([0, 1, 2, 2, 3, 3, 4, 4, 4, 5], rng.integers(0, 5)))
    shape = SHAPES[seed // 2 % len(SHAPES)] if seed % 2 else shape
    kind = rng.choice(list("fffiiibcUO"))
    if kind == "i":
        low, high = ((0, 2), (0, 5), (-2, 5), (0, 12))[rng.integers(4)]
        return np.asarray(rng.integers(low, high, shape))
    values = np.asarray(rng.standard_normal(shape))
    return values.astype({"f": "float32", "b": bool, "c": complex, "U": "U8", "O": object}[kind])


SHAPES = [(2, 3, 4), (2, 3), (4, 3), (1, 2, 3), (2, 3, 9), (3, 3)]
DRAWN = [drawn(seed) for seed in range(200)]


def is_real(a):
    return a.dtype.kind in "fiub"


def is_wide(a, width=4):
    return is_real(a) and a.ndim >= 1 and a.shape[-1] == width


def is_ids(a, size):
    return a.dtype.kind in "iu" and (a.size == 0 or (a.min() >= 0 and a.max() < size))


def is_sequence(a):
    return is_wide(a) and a.ndim == 3 and 0 not in a.shape


def is_batch(a):
    return is_ids(a, 9) and a.ndim == 2 and 0 not in a.shape and a.shape[1] <= 5


def floats(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


IDS = np.array([[1, 2, 3], [4, 5, 6]])
TRUE = np.ones((2, 3), bool)
ATTENTION, TABLE = MultiHeadAttention(4, 2), Embedding(9, 4)
GROUPED, LLAMA = GroupedQueryAttention(4, 2, 1), Llama(9, 4, 1, 2, 1, 3, max_len=5)
GPT_, LSTM_ = GPT(9, 4, 1, 2, max_len=5), LSTMLM(9, 4)

ARRAYS = [
    Call("Linear", Linear(4, 3).forward, is_wide),
    Call("LayerNorm", LayerNorm(4).forward, is_wide),
    Call("RMSNorm", RMSNorm(4).forward, is_wide),
    Call("Embedding", TABLE.forward, lambda a: is_ids(a, 9)),
    Call("Unembedding", Unembedding(TABLE).forward, is_wide),
    Call("SinusoidalPositions", SinusoidalPositions(3, 4).forward,
         lambda a: is_wide(a) and a.ndim >= 2 and a.shape[-2] <= 3 and a.dtype.kind == "f"),
    Call("LearnedPositions", LearnedPositions(3, 4).forward,
         lambda a: is_wide(a) and a.ndim >= 2 and a.shape[-2] <= 3),
    Call("LSTM", LSTM(4, 3).forward, is_sequence),
    Call("GRU", GRU(4, 3).forward, is_sequence),
    Call("RNN", RNN(4, 3).forward, is_sequence),
    Call("LSTM's state", lambda a: LSTM(4, 3).forward(floats(2, 3, 4), (a, a)),
         lambda a: a.shape == (1, 2, 3) and a.dtype.kind == "f"),
    Call("attention to itself", lambda a: ATTENTION.forward(a, a, a), is_sequence),
    Call("attention's queries", lambda a: ATTENTION.forward(a, floats(2, 3, 4), floats(2, 3, 4)),
         lambda a: is_sequence(a) and a.shape[0] == 2),
    Call("attention's values", lambda a: ATTENTION.forward(floats(2, 3, 4), floats(2, 3, 4), a),
         lambda a: is_sequence(a) and a.shape[:2] == (2, 3)),
    Call("attention's mask", lambda a: ATTENTION.forward(*[floats(2, 3, 4)] * 3, a),
         lambda a: a.dtype.kind == "b" and np.broadcast_shapes(a.shape, (2, 2, 3, 3))
         == (2, 2, 3, 3)),
    Call("GPT", GPT_.forward, is_batch),
    Call("GPT's padding", lambda a: GPT_.forward(IDS, key_mask=a),
         lambda a: a.dtype.kind == "b" and a.shape == (2, 3)),
    Call("rotary turns", Rotary(4).forward,
         lambda a: is_wide(a) and a.ndim >= 2 and a.dtype.kind == "f"),
    Call("rotary turns' positions", lambda a: Rotary(4).forward(floats(2, 3, 4), a),
         lambda a: a.dtype.kind in "iu" and a.shape == (3,) and a.min() >= 0),
    Call("SwiGLU", SwiGLU(4, 3).forward, is_wide),
    Call("grouped attention", GROUPED.forward, is_sequence),
    Call("grouped attention's mask", lambda a: GROUPED.forward(floats(2, 3, 4), a),
         lambda a: a.dtype.kind == "b" and np.broadcast_shapes(a.shape, (2, 1, 2, 3, 3))
         == (2, 1, 2, 3, 3)),
    Call("Llama", LLAMA.forward, is_batch),
    Call("Llama's padding", lambda a: LLAMA.forward(IDS, a),
         lambda a: a.dtype.kind == "b" and a.shape == (2, 3)),
    Call("LSTMLM", LSTM_.forward, lambda a: is_ids(a, 9) and a.ndim == 2 and 0 not in a.shape),
    Call("SequenceLoss's logits", lambda a: losses.SequenceLoss().forward(a, IDS, TRUE),
         lambda a: a.dtype.kind == "f" and a.shape[:2] == (2, 3) and a.ndim == 3
         and a.shape[2] > 6),
    Call("SequenceLoss's targets",
         lambda a: losses.SequenceLoss().forward(floats(2, 3, 4), a, TRUE),
         lambda a: is_ids(a, 4) and a.shape == (2, 3)),
    Call("SequenceLoss's counted",
         lambda a: losses.SequenceLoss().forward(floats(2, 3, 9), IDS, a),
         lambda a: a.dtype.kind == "b" and a.shape == (2, 3)),
    Call("CrossEntropy", lambda a: losses.CrossEntropy().forward(floats(2, 3, 4), a),
         lambda a: is_ids(a, 4) and a.shape == (2, 3)),
    Call("SquaredError", lambda a: losses.SquaredError().forward(a, floats(2, 3)),
         lambda a: a.dtype.kind == "f" and a.shape == (2, 3)),
    Call("KLDivergence", lambda a: losses.KLDivergence().forward(a, floats(2, 3)),
         lambda a: a.dtype.kind == "f" and a.shape == (2, 3)),
    Call("quantize", lambda a: quantize.quantize(a, 4),
         lambda a: a.dtype.kind == "f" and a.size > 0),
    Call("load_state_dict", lambda a: Linear(4, 3, bias=False).load_state_dict({"W": a}),
         lambda a: a.dtype == "float32" and a.shape == (4, 3)),
]


@pytest.mark.parametrize("call", ARRAYS, ids=str)
def test_arrays(call):
    taken = [call.check(array) for array in DRAWN]
    assert any(taken) and not all(taken)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_numbers_that_are_none_are_refused_or_found(bad):
    """Layers do not look at every number (find_nonfinite does); what stores them does."""
    from npdl.training.nonfinite import find_nonfinite

    x = floats(2, 3, 4)
    x[0, 1, 2] = bad
    assert find_nonfinite(ATTENTION, x, x, x).array == "input Q"
    with pytest.raises(InputError, match="finite"):
        quantize.quantize(x, 4)
