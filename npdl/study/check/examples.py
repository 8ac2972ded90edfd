"""Specify for every layer its constructor arguments, its inputs, and values for its options.

`samples` builds the layers and inputs; step, blame, homework and the tests use them. EXAMPLES has
three examples for each class: a sample, one that differs in every size, and one with sizes of 1. A
class that isn't listed uses the examples of its base class. Classes with the same examples are
listed together. For example, these are the examples of Linear:

    "Linear": (on((2, 3))(3, 4), on((4, 3, 5))(5, 2), on(ONE)(1, 1))

on((2, 3))(3, 4) means Linear(3, 4), whose forward gets a normal array of shape (2, 3). The first
parentheses have the inputs and options of forward, the second ones the constructor's arguments.
"""

import inspect

import numpy as np

from npdl.backend import stream
from npdl.functions import softmax
from npdl.layers.activation import Tanh
from npdl.layers.attention import causal_mask
from npdl.layers.bidirectional import Bidirectional
from npdl.layers.cross_attention import DecoderBlock, PreNormDecoderBlock
from npdl.layers.embedding import Embedding
from npdl.layers.graph import ReLUUpdate
from npdl.layers.layer_norm import LayerNorm
from npdl.layers.linear import Linear
from npdl.layers.recurrent import RNN, GRUCell, LSTMCell, RNNCell
from npdl.layers.rotary import LinearScaling, Llama3Scaling
from npdl.layers.transformer import Block, PreNormBlock
from npdl.models.autoencoder import Autoencoder
from npdl.models.birnn import BiRNN
from npdl.study.trees import map_leaves


def on(*inputs, **options):
    """Specify an example as on(inputs of forward)(arguments of the constructor).

    inputs   shapes of normal arrays, lists of shapes (a state), or functions of rng
    options  keyword arguments of forward
    The result is a function build(cls, rng, **others), which returns (layer, inputs, options).
    `others` are more arguments of the constructor.
    """
    def made(*args, **keywords):
        def build(cls, rng, **others):
            found = tuple(draw_input(rng, given) for given in inputs)
            return part(cls, *args, **keywords)(rng, **others), found, options
        return build
    return made


def part(cls, *args, **keywords):
    """Specify the layer cls(*args, **keywords), which may be an argument of another constructor.

    The result is a function build(rng, **others). `others` are more arguments. If an argument, or
    an item of a list, is a function, then the result of function(rng) is used in its place.
    """
    def draw(rng, arg):
        return [draw(rng, one) for one in arg] if isinstance(arg, list) else \
            arg(rng) if callable(arg) else arg

    def build(rng, **others):
        taken = inspect.signature(cls)
        own = {"rng": rng} if "rng" in taken.parameters else {}
        bound = taken.bind(*(draw(rng, arg) for arg in args), **keywords, **own)
        bound.arguments.update(others)
        return cls(*bound.args, **bound.kwargs)
    return build


def birnn(*sizes):
    """Specify a bidirectional RNN; `sizes` are the arguments of its two RNNs."""
    return part(Bidirectional, part(RNN, *sizes), part(RNN, *sizes))


def draw_input(rng, given):
    """Draw an input from its specification, which is a shape, a list of shapes or a function."""
    if callable(given):
        return given(rng)
    if isinstance(given, list):
        return tuple(draw_input(rng, shape) for shape in given)
    return rng.standard_normal(given) if isinstance(given, tuple) else given


def ids(high, *shape):
    """Specify random ids below `high`. The first is 1, the value of `ignored` and `padding_id`."""
    def draw(rng):
        found = rng.integers(0, high, shape)
        found.flat[0] = min(1, high - 1)
        return found
    return draw


def probabilities(*shape):
    """Specify probability distributions over the last axis."""
    return lambda rng: softmax(rng.standard_normal(shape))


def off_zero(*shape):
    """Specify values with magnitudes from 0.1 to 2, because a ReLU has no derivative at 0."""
    return lambda rng: rng.uniform(0.1, 2, shape) * rng.choice([-1.0, 1.0], shape)


class FixedNoise:
    """A generator that draws the same numbers at every call, so that forward can be repeated."""

    def __init__(self, seed):
        self.seed = seed

    def random(self, shape):
        return stream(self.seed, *shape).random(shape)


ONE = (1, 1)

EXAMPLES = {
    **dict.fromkeys(("Sigmoid", "Tanh", "ReLU", "GELU", "TanhGELU"), (
        on(off_zero(3, 4))(), on(off_zero(2, 4, 3))(), on(off_zero(1, 1))())),
    **dict.fromkeys(("RNNCell", "GRUCell", "ResetBeforeGRUCell"), (
        on((3, 2), (3, 3))(2, 3), on((2, 3), (2, 4))(3, 4), on(ONE, ONE)(1, 1))),
    **dict.fromkeys(("RNN", "GRU", "ResetAfterGRU", "ResetBeforeGRU", "LSTM"), (
        on((2, 3, 2))(2, 3), on((3, 2, 4))(4, 2, 2), on((1, 1, 1))(1, 1))),
    **dict.fromkeys(("LearnedPositions", "SinusoidalPositions"), (
        on((2, 3, 4))(5, 4), on((3, 4, 6))(8, 6), on((1, 1, 4))(2, 4))),
    **dict.fromkeys(("Identity", "Softmax"), (on((3, 5))(), on((4, 2, 3))(), on((3, 1))())),
    **dict.fromkeys(("LayerNorm", "RMSNorm"), (
        on((3, 5))(5), on((4, 2, 3))(3), on(off_zero(1, 1))(1))),
    **dict.fromkeys(("GraphAttention", "ThresholdNeuron"), (
        on((4, 3))(3, 2), on((2, 5, 4))(4, 3), on(off_zero(1, 1))(1, 1))),
    **dict.fromkeys(("AttentiveRNN", "BiRNN"), (
        on((2, 3, 2))(2, 3), on((3, 4, 3))(3, 2), on((1, 1, 1))(1, 1))),
    **dict.fromkeys(("CrossEntropy", "StableMaxLoss"), (
        on((3, 4), ids(4, 3))(), on((2, 4, 3), ids(3, 2, 4))(), on((1, 2), ids(2, 1))())),
    **dict.fromkeys(("SquaredError", "KLDivergence"), (
        on((3, 4), (3, 4))(), on((4, 2, 3), (4, 2, 3))(), on((2, 1), (2, 1))())),
    "Linear": (on((2, 3))(3, 4), on((4, 3, 5))(5, 2), on(ONE)(1, 1)),
    "FrozenLinear": (on((2, 3))(part(Linear, 3, 4)), on((4, 3, 5))(part(Linear, 5, 2)),
                     on(ONE)(part(Linear, 1, 1))),
    "LoRALinear": (on((2, 3))(part(Linear, 3, 4), 2, alpha=3.0),
                   on((4, 3, 5))(part(Linear, 5, 6), 3, alpha=2.0),
                   on(ONE)(part(Linear, 1, 1), 1)),
    "Embedding": (on(ids(5, 2, 3))(5, 4), on(ids(7, 4, 5, 2))(7, 3), on(ids(1, 1, 1))(1, 2)),
    "Unembedding": (on((2, 3, 4))(part(Embedding, 5, 4)), on((4, 3, 2, 3))(part(Embedding, 7, 3)),
                    on(ONE)(part(Embedding, 1, 1))),
    "BatchNorm": (on((4, 3, 2))(3), on((5, 4))(4), on((4, 1, 1))(1)),
    "GroupNorm": (on((2, 6, 3))(6, 3), on((3, 4, 2))(4, 2), on((1, 2, 1))(2, 1)),
    "InstanceNorm": (on((2, 3, 4))(3), on((3, 2, 5))(2), on((1, 1, 2))(1)),
    "Dropout": (on((3, 4), rng=FixedNoise(5))(0.4), on((2, 5, 3), rng=FixedNoise(6))(0.4),
                on(ONE, rng=FixedNoise(7))(0.5)),
    "LSTMCell": (on((3, 2), [(3, 3), (3, 3)])(2, 3), on((2, 3), [(2, 4), (2, 4)])(3, 4),
                 on(ONE, [ONE, ONE])(1, 1)),
    "RecurrentLayer": (on((2, 3, 2), (2, 3))(part(RNNCell, 2, 3)),
                       on((3, 2, 4), (3, 2))(part(GRUCell, 4, 2)),
                       on((1, 1, 1), [ONE, ONE])(part(LSTMCell, 1, 1))),
    "Bidirectional": (on((2, 3, 2))(part(RNN, 2, 3), part(RNN, 2, 3)),
                      on((3, 2, 4))(part(RNN, 4, 2), part(RNN, 4, 2)),
                      on((1, 1, 1))(part(RNN, 1, 1), part(RNN, 1, 1))),
    "BidirectionalStack": (on((2, 3, 2))([birnn(2, 3), birnn(6, 3)]),
                           on((3, 2, 4))([birnn(4, 2)] * 3), on((1, 1, 1))([birnn(1, 1)])),
    "DotAttention": (on((3, 2), (4, 2), (4, 3))(), on((3, 2, 4), (3, 5, 4), (3, 5, 2))(),
                     on((1, 1, 2), (1, 1, 2), (1, 1, 1))()),
    "AdditiveAttention": (on((3, 2), (4, 3), (4, 3))(2, 3, 4),
                          on((2, 4, 3), (2, 5, 2), (2, 5, 4))(3, 2, 5),
                          on((1, 1, 1), (1, 1, 1), (1, 1, 1))(1, 1, 1)),
    "MultiHeadAttention": (on(*[(1, 3, 4)] * 3, mask=causal_mask(3))(4, 2),
                           on((2, 4, 6), (2, 5, 6), (2, 5, 6))(6, 3),
                           on(*[(1, 1, 1)] * 3)(1, 1)),
    "Rotary": (on((2, 3, 4))(4), on((3, 4, 2, 6))(6), on((1, 2))(2)),
    "GroupedQueryAttention": (on((1, 3, 4), mask=causal_mask(3))(4, 2, 1),
                              on((2, 4, 12), mask=causal_mask(4))(12, 6, 3),
                              on((1, 1, 2))(2, 1, 1)),
    "FeedForward": (on((2, 3))(3, 2), on((4, 3, 2))(2, 3), on(ONE)(1, 1)),
    "SwiGLU": (on((2, 3))(3, 4), on((4, 3, 2))(2, 5), on(ONE)(1, 1)),
    "LlamaBlock": (on((1, 3, 4), mask=causal_mask(3))(4, 2, 1, 3),
                   on((2, 4, 12), mask=causal_mask(4))(12, 6, 3, 5),
                   on((1, 1, 2))(2, 1, 1, 1)),
    "Block": (on((1, 4, 6), mask=causal_mask(4))(6, 2, 2),
              on((2, 3, 9), mask=causal_mask(3))(9, 3, 1), on((1, 1, 1))(1, 1, 1)),
    "Decoder": (on((1, 3, 4))([part(PreNormBlock, 4, 2, 2)] * 2, LayerNorm(4)),
                on((2, 4, 6))([part(Block, 6, 3, 1)]), on((1, 1, 1))([part(Block, 1, 1, 1)])),
    "DecoderBlock": (on((1, 3, 4), (1, 2, 4), mask=causal_mask(3))(4, 2, 2),
                     on((2, 4, 6), (2, 5, 6), mask=causal_mask(4))(6, 3, 1),
                     on((1, 1, 1), (1, 1, 1))(1, 1, 1)),
    "CrossDecoder": (on((1, 3, 4), (1, 2, 4), mask=causal_mask(3))(
                         [part(PreNormDecoderBlock, 4, 2, 2)], LayerNorm(4)),
                     on((2, 4, 6), (2, 5, 6), mask=causal_mask(4))(
                         [part(DecoderBlock, 6, 3, 1)] * 2),
                     on((1, 1, 2), (1, 1, 2))([part(DecoderBlock, 2, 1, 1)])),
    "ReLUUpdate": (on((4, 3), (4, 2))(3, 2), on((5, 2, 4), (5, 2, 3))(4, 3),
                   on(ONE, off_zero(1, 1))(1, 1)),
    "ReplaceUpdate": (on((4, 3), (4, 2))(), on((5, 2, 4), (5, 2, 3))(), on(ONE, ONE)()),
    "MessagePassing": (on((4, 3), (4, 4))(part(Linear, 3, 2), part(ReLUUpdate, 3, 2)),
                       on((2, 5, 4), (2, 5, 5))(part(Linear, 4, 3), part(ReLUUpdate, 4, 3)),
                       on((1, 3), ONE)(part(Linear, 3, 2), part(ReLUUpdate, 3, 2))),
    "XOR": (on(off_zero(4, 2))(), on(off_zero(3, 5, 2))(), on(off_zero(1, 2))()),
    "SequenceLoss": (
        on((2, 3, 4), ids(4, 2, 3), np.array([[True, True, False], [True, True, True]]))(),
        on((3, 2, 5), ids(5, 3, 2), np.array([[True, False], [True, True], [False, True]]))("sum"),
        on((1, 1, 2), ids(2, 1, 1), np.array([[True]]))()),
    "WeightedCrossEntropy": (on((3, 4), ids(4, 3))((0.5, 2.0, 1.0, 0.0)),
                             on((2, 4, 3), ids(3, 2, 4))((2.0, 0.5, 1.5)),
                             on((1, 2), ids(2, 1))((0.5, 1.5))),
    "SoftCrossEntropy": (on((3, 4), probabilities(3, 4))(),
                         on((2, 4, 3), probabilities(2, 4, 3))(),
                         on((1, 2), probabilities(1, 2))()),
    "GPT": (on(ids(5, 1, 3))(5, d_model=4, num_layers=1, num_heads=2, multiplier=2, max_len=4),
            on(ids(7, 2, 4))(7, d_model=6, num_layers=2, num_heads=3, multiplier=1, max_len=5),
            on(ids(1, 1, 1))(1, d_model=1, num_layers=1, num_heads=1, multiplier=1, max_len=1)),
    "Llama": (on(ids(5, 1, 3))(5, d_model=4, num_layers=1, num_heads=2, num_kv_heads=1, d_inner=3,
                               max_len=4),
              on(ids(7, 2, 4))(7, d_model=12, num_layers=2, num_heads=6, num_kv_heads=3, d_inner=5,
                               max_len=5),
              on(ids(1, 1, 1))(1, d_model=2, num_layers=1, num_heads=1, num_kv_heads=1, d_inner=1,
                               max_len=1)),
    "LSTMLM": (on(ids(5, 2, 3))(5, d_model=2, num_layers=1, d_hidden=3),
               on(ids(7, 3, 2))(7, d_model=2, num_layers=2, d_hidden=4),
               on(ids(1, 1, 1))(1, 1, 1, 1)),
    "Seq2Seq": (on(ids(4, 1, 3), ids(4, 1, 2))(4, 4, d_model=4, num_layers=1, num_heads=2,
                                               multiplier=1, max_len=4),
                on(ids(5, 2, 4), ids(5, 2, 3))(5, 5, d_model=6, num_layers=2, num_heads=3,
                                               multiplier=2, max_len=5),
                on(ids(2, 1, 1), ids(3, 1, 1))(2, 3, 1, 1, 1, 1, 1)),
    "LSTMSeq2Seq": (on(ids(4, 2, 3), ids(4, 2, 2))(4, 4, d_model=2, d_hidden=3),
                    on(ids(6, 3, 2), ids(6, 3, 4))(6, 6, d_model=4, num_layers=2, d_hidden=2),
                    on(ids(1, 1, 1), ids(1, 1, 1))(1, 1, 1)),
    "BiRNNLoss": (on((2, 3, 2), (2, 3, 2))(part(BiRNN, 2)),
                  on((3, 4, 3), (3, 4, 3))(part(BiRNN, 3)),
                  on((1, 1, 1), (1, 1, 1))(part(BiRNN, 1))),
    "Autoencoder": (on((3, 2), (3, 2))(2, 4, 3), on((2, 4, 3), (2, 4, 3))(3, 2, 4),
                    on((2, 1), (2, 1))(1, 1, 1)),
    "MLP": (on((3, 2))([2, 4, 3]), on((2, 4, 3))([3, 2, 5, 4]), on((2, 1))([1, 1, 1])),
    "AutoencoderLoss": (on((3, 2), (3, 2), ids(3, 3))(part(Autoencoder, 2, 4, 3)),
                        on((4, 3), (4, 3), ids(5, 4))(part(Autoencoder, 3, 2, 5)),
                        on(ONE, ONE, ids(1, 1))(part(Autoencoder, 1, 1, 1))),
    "Sequential": (on((2, 3))(part(Linear, 3, 4), part(Tanh), part(Linear, 4, 2)),
                   on((4, 3, 5))(part(Linear, 5, 2), part(Tanh), part(Linear, 2, 3)),
                   on(ONE)(part(Linear, 1, 1))),
}


def draw_visible(layer, inputs, rng):
    """Draw a mask (queries, keys), True where a query attends to a key. No row is all False."""
    keys = 1 if len(inputs) == 3 else 0
    seen = rng.random((inputs[0].shape[-2], inputs[keys].shape[-2])) < 0.6
    seen[-1, -1] = False
    seen[:, 0] = True
    return seen


def draw_lengths(layer, inputs, rng, which=0):
    """Draw the lengths (B,) of sequences (B, S, ..); the first one is shorter than S."""
    B, S = inputs[which].shape[:2]
    found = rng.integers(1, S + 1, B)
    found[0] = max(1, S - 1)
    return found


def token_mask(which):
    """Return a function that draws a mask (B, S) of valid tokens for the input number `which`."""
    return lambda layer, inputs, rng: np.arange(inputs[which].shape[1]) < draw_lengths(
        layer, inputs, rng, which)[:, None]


def draw_state(layer, inputs, rng):
    """Draw an initial state like the state that forward returns."""
    (_, last), _ = getattr(layer, "model", layer).forward(inputs[0])
    return map_leaves(last, lambda a: rng.standard_normal(a.shape))


def draw_edges(layer, inputs, rng):
    """Draw a mask (N, N) that is True for neighbours; each node is its own neighbour."""
    N = inputs[0].shape[-2]
    return (rng.random((N, N)) < 0.6) & ~np.eye(N, k=1, dtype=bool) | np.eye(N, dtype=bool)


# {option of a constructor: values}. Some have an effect only with other options of the constructor
# and of forward (TOGETHER). EXAMPLES vary the SIZES; options in MUTE change no gradient.
SIZES = {"d_hidden", "d_inner", "d_model", "final_norm", "max_len", "multiplier", "num_heads",
         "num_kv_heads", "rank", "vocab_size"}
MUTE = {"dtype"}
VALUES = {"activation": ["relu"], "affine": [False], "alpha": [0.7], "attention_dropout": [0.4],
          "average": ["token"], "bias": [True, False], "bits": [3], "block": [1],
          "class_weights": [(0.5, 2.0, 1.0, 0.0)], "classifier_bias": [False], "d_head": [4],
          "d_out": [3], "double": [True], "dropout": [0.4], "eps": [0.3], "exponent": ["2k/d"],
          "factor": [0.6], "ffn_bias": [True], "ignored": [1], "momentum": [0.6], "norm": ["pre"],
          "norm_bias": [False], "num_layers": [2], "padding_id": [1],
          "positions": ["2k/d", "learned"], "qk_norm": [True], "qkv_bias": [True],
          "query": ["previous"], "reduction": ["none", "sum"], "rope_theta": [3.0],
          "rounding": ["nearest", "nf4"], "scale": [0.6],
          "scaling": [LinearScaling(2.0), Llama3Scaling(4.0, 1.0, 4.0, 12)],
          "score": ["dot", "additive"], "smoothing": [0.2], "tied": [True, False]}
TOGETHER = {"double": ({"block": 2}, {}), "attention_dropout": ({}, {"rng": FixedNoise(7)}),
            "dropout": ({"num_layers": 2}, {"rng": FixedNoise(7)}),
            "eps": ({"qk_norm": True}, {}), "rope_theta": ({"d_head": 4}, {}),
            "scaling": ({"d_head": 4}, {})}
# {option of forward: [a function that draws a value, of (layer, inputs, rng)]}
DRAWN = {"key_mask": [token_mask(0)], "lengths": [draw_lengths], "mask": [draw_visible],
         "memory_mask": [lambda *given: token_mask(1)(*given)[:, None, None]],
         "neighbours": [draw_edges],
         "positions": [lambda layer, inputs, rng: rng.integers(0, 4, inputs[0].shape[-2])],
         "source_mask": [token_mask(0)], "state": [draw_state], "target_mask": [token_mask(1)],
         "training": [lambda *given: False],
         "visible": [lambda layer, inputs, rng: rng.random(inputs[0].shape) < 0.7]}
