"""Bad input to the library's public calls: refused by name, or taken because it is right.

Hypothesis makes arrays of any shape, dtype and content, and values of any kind. Each call says
when its argument is right; then it must work, and otherwise raise InputError with one line that
says what came and what is wanted.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from npdl.layers.gru import GRU
from npdl.layers.rnn import RNN
from npdl.prefix import PrefixTree

from npdl import losses, optim, quantize
from npdl.adapt import add_lora
from npdl.data import ModularArithmetic, batch_indices
from npdl.data.text import Characters
from npdl.decoding import filtered
from npdl.errors import InputError
from npdl.layers.attention import MultiHeadAttention
from npdl.layers.dropout import Dropout
from npdl.layers.embedding import Embedding, LearnedPositions, SinusoidalPositions, Unembedding
from npdl.layers.linear import Linear
from npdl.layers.norm import LayerNorm
from npdl.layers.norms import RMSNorm
from npdl.layers.recurrent import LSTM
from npdl.models.gpt import GPT
from npdl.models.lstm_lm import LSTMLM
from npdl.schedule import schedule

EXAMPLES = settings(max_examples=80, deadline=None, derandomize=True,
                    suppress_health_check=list(HealthCheck))


@dataclass
class Call:
    """A public call of one array or value, and whether it is right."""

    name: str
    call: Any
    right: Any

    def __str__(self):
        return self.name

    def check(self, given):
        try:
            right = bool(self.right(given))
        except (TypeError, ValueError, AttributeError, OverflowError):
            right = False                       # cannot even be compared
        if right:
            self.call(given)
            return
        with pytest.raises(InputError) as caught:
            self.call(given)
        message = str(caught.value)
        assert message and "\n" not in message
        shape = getattr(given, "shape", None)
        what = [str(shape), str(getattr(given, "dtype", given)), repr(given), "contain"]
        assert any(word in message for word in what), f"{message!r} does not say what came"
        assert any(word in message for word in ("must", "allowed", "choose", "at most", "needs",
                                                   "raise r_train", "equal part"))


@st.composite
def arrays(draw):
    """Arrays of shapes that are often nearly right, of every kind of dtype."""
    shape = tuple(draw(st.lists(st.sampled_from([0, 1, 2, 2, 3, 3, 4, 4, 4, 5]), max_size=4)))
    kind = draw(st.sampled_from("fffiiibcUO"))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    if kind == "i":
        low, high = draw(st.sampled_from([(0, 2), (0, 5), (-2, 5), (0, 12)]))
        return np.asarray(rng.integers(low, high, shape))
    values = np.asarray(rng.standard_normal(shape))
    if kind == "O":
        return values.astype(object)
    return values.astype({"f": "float32", "b": bool, "c": complex, "U": "U8"}[kind])


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
GPT_, LSTM_ = GPT(9, 4, 1, 2, max_len=5), LSTMLM(9, 4)

ARRAYS = [
    Call("Linear", Linear(4, 3).forward, is_wide),
    Call("LayerNorm", LayerNorm(4).forward, is_wide),
    Call("RMSNorm", RMSNorm(4).forward, is_wide),
    Call("Embedding", TABLE.forward, lambda a: is_ids(a, 9)),
    Call("Unembedding", Unembedding(TABLE).forward, is_wide),
    Call("SinusoidalPositions", SinusoidalPositions(3, 4).forward,
         lambda a: is_wide(a) and a.ndim >= 2 and a.shape[-2] <= 3),
    Call("LearnedPositions", LearnedPositions(3, 4).forward,
         lambda a: is_wide(a) and a.ndim >= 2 and a.shape[-2] <= 3),
    Call("LSTM", LSTM(4, 3).forward, is_sequence),
    Call("GRU", GRU(4, 3).forward, is_sequence),
    Call("RNN", RNN(4, 3).forward, is_sequence),
    Call("LSTM's state", lambda a: LSTM(4, 3).forward(floats(2, 3, 4), (a, a)),
         lambda a: a.shape == (1, 2, 3)),
    Call("attention to itself", lambda a: ATTENTION.forward(a, a, a), is_sequence),
    Call("attention's queries", lambda a: ATTENTION.forward(a, floats(2, 3, 4), floats(2, 3, 4)),
         lambda a: is_sequence(a) and a.shape[0] == 2),
    Call("attention's values", lambda a: ATTENTION.forward(floats(2, 3, 4), floats(2, 3, 4), a),
         lambda a: is_sequence(a) and a.shape[:2] == (2, 3)),
    Call("attention's mask", lambda a: ATTENTION.forward(*[floats(2, 3, 4)] * 3, a),
         lambda a: a.dtype.kind == "b" and np.broadcast_shapes(a.shape, (2, 2, 3, 3))
         == (2, 2, 3, 3)),
    Call("GPT", GPT_.forward, is_batch),
    Call("GPT's positions", lambda a: GPT_.forward(IDS, a), lambda a: is_ids(a, 3) and (
        a.ndim == 1 or (a.ndim == 2 and len(a) == 2))),
    Call("GPT's padding", lambda a: GPT_.forward(IDS, key_mask=a),
         lambda a: a.dtype.kind == "b" and a.shape == (2, 3)),
    Call("LSTMLM", LSTM_.forward, lambda a: is_ids(a, 9) and a.ndim == 2 and 0 not in a.shape),
    Call("LSTMLM's positions", lambda a: LSTM_.forward(IDS, at=a), lambda a: is_ids(a, 3) and (
        a.ndim == 1 or (a.ndim == 2 and len(a) == 2))),
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
    Call("PrefixTree", PrefixTree, lambda a: a.dtype.kind in "iu" and a.ndim == 2
         and 0 not in a.shape),
    Call("load_state_dict", lambda a: Linear(4, 3, bias=False).load_state_dict({"W": a}),
         lambda a: a.dtype == "float32" and a.shape == (4, 3)),
]


@pytest.mark.parametrize("call", ARRAYS, ids=str)
@EXAMPLES
@given(array=arrays())
def test_arrays(call, array):
    call.check(array)


def is_count(value, low=1):
    return not isinstance(value, bool) and isinstance(value, int) and value >= low


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_share(value):
    return is_number(value) and 0 < value <= 1


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 9), st.floats(-2, 3), st.text(max_size=3),
    st.sampled_from([math.nan, math.inf, -math.inf, 0.0, [], {}, (2,), b"x", 1j, 0.5]),
)

OPTIONS = [
    Call("Linear's width", lambda v: Linear(v, 2), is_count),
    Call("GPT's layers", lambda v: GPT(5, 4, num_layers=v, num_heads=2), is_count),
    Call("GPT's heads", lambda v: GPT(5, 4, num_heads=v), lambda v: is_count(v) and 4 % v == 0),
    Call("LSTM's layers", lambda v: LSTM(3, 4, v), is_count),
    Call("Dropout", Dropout, lambda v: is_number(v) and 0 <= v < 1),
    Call("AdamW's lr", lambda v: optim.AdamW(Linear(2, 2), lr=v),
         lambda v: is_number(v) and 0 <= v < math.inf),
    Call("SGD's momentum", lambda v: optim.SGD(Linear(2, 2), momentum=v),
         lambda v: is_number(v) and 0 <= v < 1),
    Call("schedule", lambda v: schedule(v), lambda v: v in ("constant", "linear", "cosine")),
    Call("p", lambda v: ModularArithmetic(p=v), lambda v: is_count(v, 2)),
    Call("q", lambda v: ModularArithmetic(p=5, q=v), lambda v: v is None or is_count(v)),
    Call("r_train", lambda v: ModularArithmetic(p=9, r_train=v),
         lambda v: is_share(v) and round(81 * v) > 0),
    Call("operator", lambda v: ModularArithmetic(p=5, operator=v),
         lambda v: isinstance(v, str) and v in ("+", "-", "*", "/")),
    Call("batch size", lambda v: batch_indices(9, v, 0, 0), is_count),
    Call("bits", lambda v: quantize.quantize(floats(2, 3), v),
         lambda v: is_count(v) and 2 <= v <= 16),
    Call("temperature", lambda v: filtered(np.log(np.full((1, 3), 1 / 3)), v),
         lambda v: is_number(v) and 0 < v < math.inf),
    Call("top_k", lambda v: filtered(np.log(np.full((1, 3), 1 / 3)), top_k=v),
         lambda v: v is None or is_count(v)),
    Call("top_p", lambda v: filtered(np.log(np.full((1, 3), 1 / 3)), top_p=v),
         lambda v: v is None or is_share(v)),
    Call("rank", lambda v: add_lora(GPT(5, 4, 1, 2), rank=v),
         lambda v: is_count(v) and v <= 4),
    Call("characters", lambda v: Characters(v),
         lambda v: isinstance(v, str) and v and list(v) == sorted(set(v))),
]


@pytest.mark.parametrize("call", OPTIONS, ids=str)
@EXAMPLES
@given(value=VALUES)
def test_options(call, value):
    call.check(value)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_numbers_that_are_none_are_refused_or_found(bad):
    """Layers do not look at every number (find_nonfinite does); what stores them does."""
    from npdl.study.nonfinite import find_nonfinite

    x = floats(2, 3, 4)
    x[0, 1, 2] = bad
    assert find_nonfinite(ATTENTION, x, x, x).array == "input Q"
    with pytest.raises(InputError, match="finite"):
        quantize.quantize(x, 4)
