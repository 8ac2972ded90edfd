"""Edges at which npdl once gave a wrong number, or NumPy's own error, without a word.

One table of values, one of refusals; what takes more than a line stands below them.
"""

import math

import numpy as np
import pytest

from npdl.adapt import add_lora, quantize_linears
from npdl.adapt.quantize import dequantize, pack, quantize, unpack
from npdl.backend import stream
from npdl.errors import InputError
from npdl.functions import log_softmax
from npdl.layers.attention import DotAttention, MultiHeadAttention, ScaledDotAttention
from npdl.layers.bidirectional import Bidirectional
from npdl.layers.embedding import Embedding, LearnedPositions, SinusoidalPositions
from npdl.layers.graph import AddReLU, GraphAttention, MessagePassing
from npdl.layers.linear import Linear
from npdl.layers.neuron import ThresholdNeuron
from npdl.layers.norm import LayerNorm, RMSNorm
from npdl.layers.norms import BatchNorm
from npdl.layers.recurrent import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNCell
from npdl.layers.transformer import Block, PreNormBlock
from npdl.losses import (
    CrossEntropy,
    KLDivergence,
    SequenceLoss,
    SquaredError,
    exact_match,
)
from npdl.models.autoencoder import Autoencoder
from npdl.models.birnn import BiRNN
from npdl.models.gpt import GPT
from npdl.models.lstm_lm import LSTMLM
from npdl.models.seq2seq import Seq2Seq
from npdl.pretrained.exchange import from_torch, to_torch
from npdl.training.truncated import truncated_bptt

D64 = {"dtype": "float64"}
NAN, INF = np.nan, np.inf
BYTES = np.array([[100, 120, 200, 250]], "uint8")
SMALL = np.array([[100, 120, -56, -6]], "int8")
BOOLS = np.array([[True, False, True, False]])
HALF = (100 * stream(0).standard_normal((1, 512))).astype("float16")
STEPS = stream(1).standard_normal((2, 6, 3))
MANY = np.ones((1, 200, 3))                     # more than int8 counts


def y_of(layer, *inputs):
    return layer.forward(*inputs)[0]


def segments(layer=None, x=STEPS, lengths=None):
    """The outputs of truncated backpropagation, two steps at a time."""
    layer = LSTM(3, 4, **D64) if layer is None else layer
    return truncated_bptt(layer, x, lambda y, span: y, 2, lengths=lengths)[0]


def whole(x, lengths):
    """The same without segments."""
    return LSTM(3, 4, **D64).forward(x, lengths=np.array(lengths))[0][0]


def normalised(x, mean=True, eps=1e-5):
    """LayerNorm's formula, or RMSNorm's, in float64."""
    x = x.astype("float64")
    x = x - x.mean(-1, keepdims=True) if mean else x
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)


def embedding_gradient(layer):
    """Of a table one wide: NaN arrives at 1, ones at 0 and 2."""
    dy = np.array([1, NAN, 1])[:, None]
    is_table = isinstance(layer, Embedding)
    _, cache = layer.forward(np.arange(3) if is_table else np.zeros((3, 1)))
    layer.backward(dy, cache)
    return layer.W.grad.ravel()


def bias_gradient(layer, name):
    """A million rows of 0.1, in float32."""
    x = np.ones((10**6, 2), "float32")
    _, cache = layer.forward(x)
    layer.backward(np.full_like(x, 0.1), cache)
    return getattr(layer, name).grad


def gradient(loss, *inputs):
    _, cache = loss.forward(*inputs)
    return loss.backward(1.0, cache)


def packed(W, bits):
    """W after quantization and the way through its packed bits."""
    codes, step = quantize(W, bits)
    return dequantize(unpack(pack(codes, bits), W.shape), step)


BAD_ROW = np.array([[0.0, 0, 0], [NAN, -INF, 0]])
SEQUENCE = BAD_ROW[None], np.array([[0, 9]]), np.array([[True, False]])
IGNORED = BAD_ROW, np.array([0, -1])
LOG2, LOG3 = math.log(2), math.log(3)
VALUES = {                                      # name: (found, wanted, relative error)
    **{f"segments, {kind} lengths": (lambda kind=kind: segments(lengths=np.array([1, 6], kind)),
                                     lambda: whole(STEPS, [1, 6]), 1e-14)
       for kind in ("uint8", "uint64", "int8", "int64")},
    "segments, int8 lengths of many steps": (
        lambda: segments(x=MANY, lengths=np.array([100], "int8")), lambda: whole(MANY, [100]),
        1e-14),
    **{f"{cls.__name__} of {x.dtype}": (lambda cls=cls, x=x: y_of(cls(4), x),
                                        lambda x=x, mean=mean: normalised(x, mean), 1e-5)
       for cls, mean in ((LayerNorm, True), (RMSNorm, False)) for x in (BYTES, SMALL, BOOLS)},
    "PreNormBlock of bytes": (lambda: y_of(PreNormBlock(4, 2), BYTES[None]),
                              lambda: y_of(PreNormBlock(4, 2), BYTES[None].astype("f")), 1e-5),
    **{f"{cls.__name__} of integers": (lambda cls=cls: y_of(cls(), *[np.eye(2, dtype=int)] * 3),
                                       lambda cls=cls: y_of(cls(), *[np.eye(2)] * 3), 1e-14)
       for cls in (DotAttention, ScaledDotAttention)},
    "LayerNorm of float16": (lambda: y_of(LayerNorm(512), HALF), lambda: normalised(HALF), 1e-3),
    "RMSNorm of float16": (lambda: y_of(RMSNorm(512), HALF), lambda: normalised(HALF, False), 1e-3),
    "quantize float16, 13 bits": (lambda: packed(np.array([[3.9, -1.0]], "float16"), 13),
                                  [[3.9, -1.0]], 2e-3),
    **{f"LayerNorm of a constant {value}, {D} wide, {rows} rows": (
        lambda rows=rows, D=D, value=value: y_of(LayerNorm(D), np.full((rows, D), value, "f")),
        np.zeros((rows, D)), 0)
       for value in (1000.1, 123456.7) for D in (128, 1000, 4096) for rows in (1, 4)},
    "CrossEntropy, NaN where it is ignored": (
        lambda: y_of(CrossEntropy(-1), *IGNORED), LOG3, 1e-14),
    "its gradient": (lambda: gradient(CrossEntropy(-1), *IGNORED),
                     [[-2 / 3, 1 / 3, 1 / 3], [0, 0, 0]], 1e-14),
    "SequenceLoss, NaN where nothing counts": (
        lambda: y_of(SequenceLoss(), *SEQUENCE), LOG3, 1e-14),
    "and its gradient": (lambda: gradient(SequenceLoss(), *SEQUENCE),
                         [[[-2 / 3, 1 / 3, 1 / 3], [0, 0, 0]]], 1e-14),
    "NaN into one row of a table": (lambda: embedding_gradient(Embedding(4, 1, **D64)),
                                    [1, NAN, 1, 0], 0),
    "NaN into the padding row": (lambda: embedding_gradient(Embedding(4, 1, 1, **D64)),
                                 [1, 0, 1, 0], 0),
    "NaN into one position": (lambda: embedding_gradient(LearnedPositions(4, 1, **D64)),
                              [1, NAN, 1, 0], 0),
    "log_softmax of an impossible choice": (lambda: log_softmax(np.array([0, -INF, 0])),
                                            [-LOG2, -INF, -LOG2], 1e-15),
    "the loss of an impossible target": (
        lambda: y_of(CrossEntropy(), np.array([[0, -INF]]), np.array([1])), INF, 0),
    "an impossible token that is not the target": (
        lambda: y_of(CrossEntropy(), np.array([[0, -INF]]), np.array([0])), 0, 0),
    **{f"the gradient of {type(layer).__name__}'s bias over a million rows": (
        lambda layer=layer, name=name: bias_gradient(layer, name), [1e5, 1e5], 1e-6)
       for layer, name in ((Linear(2, 2), "b"), (LayerNorm(2), "bias"), (BatchNorm(2), "bias"))},
    **{f"{type(loss).__name__} of nothing": (
        lambda loss=loss, inputs=inputs: y_of(loss, *inputs), 0, 0) for loss, *inputs in (
        (SquaredError(), np.ones((0, 2)), np.ones((0, 2))),
        (KLDivergence(), np.ones((0, 2)), np.ones((0, 2))),
        (CrossEntropy(), np.ones((0, 2)), np.ones(0, int)))},
    "tokens in lists": (lambda: y_of(LSTMLM(5, 4), [[1, 2], [3, 4]])[0],
                        lambda: y_of(LSTMLM(5, 4), np.array([[1, 2], [3, 4]]))[0], 0),
    "a mask (1, S)": (lambda: y_of(Block(4, 2), BYTES[None], np.array([[True]])),
                      lambda: y_of(Block(4, 2), BYTES[None]), 0),
}


@pytest.mark.parametrize("name", VALUES)
def test_values(name):
    found, wanted, relative = VALUES[name]
    wanted = wanted() if callable(wanted) else wanted
    np.testing.assert_allclose(found(), wanted, rtol=relative, atol=relative)


FLAT = {"LSTM": LSTM(3, 4), "GRU": GRU(3, 4), "RNN": RNN(3, 4)}
NOT_ARRAYS = {"lists": [[[1.0, 2.0, 3.0]]], "None": None, "a number": 1.0}
X34 = np.ones((2, 3, 4), "float32")
REFUSED = {                                     # name: (call, what the message says)
    "segments with lengths out of range": (lambda: segments(lengths=[9, -5]), "0 to 6"),
    "segments of no steps": (lambda: segments(x=STEPS[:, :0]), "none of them 0"),
    "segments of a BiRNN": (lambda: segments(BiRNN(3, **D64)), "bidirectional"),
    "segments of no length": (
        lambda: truncated_bptt(LSTM(3, 4), STEPS, lambda y, span: y, 0), "segment = 0"),
    "two directions of two widths": (
        lambda: Bidirectional(RNN(4, 2), RNN(3, 2)), "both read the same input"),
    "neurons of two counts": (lambda: ThresholdNeuron.of([[1, 1]], [0, 0, 0]), "do not fit"),
    "fixed positions of integers": (
        lambda: SinusoidalPositions(4, 4).forward(np.ones((1, 3, 4), int)), "floats"),
    **{f"{name} given {what}": (lambda layer=layer, x=x: layer.forward(x), "array of real numbers")
       for name, layer in FLAT.items() for what, x in NOT_ARRAYS.items()},
    **{f"{cell.__name__} given two steps": (lambda cell=cell: cell(4, 2).forward(X34), "2 axes")
       for cell in (RNNCell, GRUCell, LSTMCell)},
    **{f"{model.__name__} given {what}": (lambda model=model, ids=ids: model(5, 4).forward(ids),
                                          message)
       for model in (GPT, LSTMLM)
       for what, ids, message in (("ragged lists", [[1, 2], [3]], "different lengths"),
                                  ("None", None, "integers"), ("text", "abc", "integers"))},
    "Autoencoder given lists": (lambda: Autoencoder(1, 2, 2).forward([[1.0]], [[1.0]]), "array"),
    **{f"{type(loss).__name__} given {what}": (
        lambda loss=loss, count=count, given=given: loss.forward(*[given] * count), "must hold")
       for loss, count in ((CrossEntropy(), 2), (SequenceLoss(), 3), (SquaredError(), 2),
                           (KLDivergence(), 2))
       for what, given in (("lists", [[0.0]]), ("None", None))},
    "SquaredError of no width": (
        lambda: SquaredError().forward(np.ones((2, 0)), np.ones((2, 0))), r"\(2, 0\)"),
    "KLDivergence of no width": (
        lambda: KLDivergence().forward(np.ones((2, 0)), np.ones((2, 0))), r"\(2, 0\)"),
    "attention of no width": (lambda: ScaledDotAttention().forward(
        np.ones((2, 0)), np.ones((2, 0)), np.ones((2, 1))), "not 0"),
    "a mask of another shape": (
        lambda: Block(4, 2).forward(X34, np.ones((2, 4), bool)), "broadcast"),
    "a mask in lists": (lambda: Block(4, 2).forward(X34, [[True] * 3] * 3), "bool"),
    "exact_match by the median": (lambda: exact_match(
        np.ones((1, 1, 2)), np.zeros((1, 1), int), np.ones((1, 1), bool), "median"), "choose"),
    "padding_id True": (lambda: Embedding(4, 2, padding_id=True), "padding_id"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name):
    call, message = REFUSED[name]
    with pytest.raises(InputError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def mapped(rng, *shape):
    return rng.standard_normal(shape).astype("float32")


ADAPTED = {
    "GraphAttention": (lambda: GraphAttention(4, 4), lambda r: [mapped(r, 3, 4)]),
    "MessagePassing and AddReLU": (
        lambda: MessagePassing(Linear(4, 4), AddReLU(4, 4)), lambda r: [mapped(r, 3, 4),
                                                                        mapped(r, 3, 3)]),
    "MultiHeadAttention": (lambda: MultiHeadAttention(4, 2), lambda r: [mapped(r, 1, 3, 4)] * 3),
    "Seq2Seq": (lambda: Seq2Seq(5, 5, 4, 1, 2), lambda r: [r.integers(0, 5, (2, 3))] * 2),
    "Autoencoder": (lambda: Autoencoder(2, 3, 2), lambda r: [mapped(r, 3, 2)] * 2),
}


@pytest.mark.parametrize("bits", [None, 4])
@pytest.mark.parametrize("name", ADAPTED)
def test_adapters_fit_wherever_a_map_is(name, bits):
    """Fresh adapters change nothing, and their gradients arrive."""
    make, draw = ADAPTED[name]
    model, inputs = make(), draw(stream(2))
    if bits:
        quantize_linears(model, bits)
    before, _ = model.forward(*inputs)
    add_lora(model, 2)
    after, cache = model.forward(*inputs)
    many = isinstance(after, tuple)
    for a, b in zip(after, before, strict=True) if many else [(after, before)]:
        np.testing.assert_array_equal(a, b)
    model.backward(tuple(map(np.ones_like, after)) if many else np.ones_like(after), cache)
    names = {name for name, param in model.params() if param.grad.any()}
    assert names and all(name.endswith(".B") for name in names)     # A's come once B is not 0


def test_a_model_cast_to_float64_has_float64s_positions():
    cast = GPT(7, 16, 2, 2, max_len=5).astype("float64")
    own = GPT(7, 16, 2, 2, max_len=5, rng=1, dtype="float64")
    own.load_state_dict(cast.state_dict())
    ids = np.array([[1, 2, 3, 4]])
    np.testing.assert_array_equal(y_of(cast, ids), y_of(own, ids))
    assert y_of(SinusoidalPositions(3, 4), np.zeros((1, 3, 4)))[0, 1, 0] == math.sin(1)


def test_exchange_takes_nan_and_lists():
    model = GPT(5, 4, 1, 2, max_len=4, tied=True)
    model.embedding.W.data[2, 1] = np.nan               # equal to itself in both its places
    from_torch(model, to_torch(model))
    linear = Linear(1, 1)
    from_torch(linear, {"weight": [[3.0]], "bias": [2.0]})
    assert linear.W.data == 3 and linear.b.data == 2
