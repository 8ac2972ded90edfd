"""Specify for every layer its constructor arguments, its inputs, and values for its options.

`samples` builds the layers and inputs; step, blame, homework and the tests use them. EXAMPLES has
three examples for each class: a sample, one that differs in every size, and one with sizes of 1. A
class that isn't listed uses the examples of its base class. Classes with the same examples are
listed together. For example, these are the examples of Linear:

    "Linear": (example((2, 3))(3, 4), example((4, 3, 5))(5, 2), example(ONE)(1, 1))

example((2, 3))(3, 4) means Linear(3, 4), whose forward gets a normal array of shape (2, 3). The
first parentheses have the inputs and options of forward, the second ones the constructor's
arguments.
"""

import inspect

import numpy as np

from npdl.backend import make_rng
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


def example(*inputs, **options):
    """Specify an example as example(inputs of forward)(arguments of the constructor).

    inputs   shapes of normal arrays, lists of shapes (a state), or functions of rng
    options  keyword arguments of forward
    The result is a function build(cls, rng, **more), which returns (layer, inputs, options). `more`
    are more arguments of the constructor.
    """
    def set_arguments(*args, **keywords):
        def build_example(cls, rng, **more):
            found = tuple(draw_input(rng, given) for given in inputs)
            return lazy(cls, *args, **keywords)(rng, **more), found, options
        return build_example
    return set_arguments


def lazy(cls, *args, **keywords):
    """Specify the layer cls(*args, **keywords), which may be an argument of another constructor.

    The result is a function build(rng, **more), which returns the layer; `more` are more arguments.
    If an argument, or an item of a list, is a function, its result function(rng) is used instead.
    """
    def draw_argument(rng, argument):
        return [draw_argument(rng, one) for one in argument] if isinstance(argument, list) else \
            argument(rng) if callable(argument) else argument

    def build_layer(rng, **more):
        taken = inspect.signature(cls)
        own = {"rng": rng} if "rng" in taken.parameters else {}
        bound = taken.bind(*(draw_argument(rng, argument) for argument in args), **keywords, **own)
        bound.arguments.update(more)
        return cls(*bound.args, **bound.kwargs)
    return build_layer


def lazy_birnn(*sizes):
    """Specify a bidirectional RNN; `sizes` are the arguments of its two RNNs."""
    return lazy(Bidirectional, lazy(RNN, *sizes), lazy(RNN, *sizes))


def draw_input(rng, specification):
    """Draw an input from its specification, which is a shape, a list of shapes or a function."""
    if callable(specification):
        return specification(rng)
    if isinstance(specification, list):
        return tuple(draw_input(rng, shape) for shape in specification)
    return rng.standard_normal(specification) if isinstance(specification, tuple) else specification


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


def nonzero(*shape):
    """Specify values with magnitudes from 0.1 to 2, because a ReLU has no derivative at 0."""
    return lambda rng: rng.uniform(0.1, 2, shape) * rng.choice([-1.0, 1.0], shape)


class FixedNoise:
    """A generator that draws the same numbers at every call, so that forward can be repeated."""

    def __init__(self, seed):
        self.seed = seed

    def random(self, shape):
        return make_rng(self.seed, *shape).random(shape)


ONE = (1, 1)

EXAMPLES = {
    **dict.fromkeys(("Sigmoid", "Tanh", "ReLU", "GELU", "TanhGELU"), (
        example(nonzero(3, 4))(), example(nonzero(2, 4, 3))(), example(nonzero(1, 1))())),
    **dict.fromkeys(("RNNCell", "GRUCell", "ResetBeforeGRUCell"), (
        example((3, 2), (3, 3))(2, 3), example((2, 3), (2, 4))(3, 4), example(ONE, ONE)(1, 1))),
    **dict.fromkeys(("RNN", "GRU", "ResetAfterGRU", "ResetBeforeGRU", "LSTM"), (
        example((2, 3, 2))(2, 3), example((3, 2, 4))(4, 2, 2), example((1, 1, 1))(1, 1))),
    **dict.fromkeys(("LearnedPositions", "SinusoidalPositions"), (
        example((2, 3, 4))(5, 4), example((3, 4, 6))(8, 6), example((1, 1, 4))(2, 4))),
    **dict.fromkeys(("Identity", "Softmax"), (
        example((3, 5))(), example((4, 2, 3))(), example((3, 1))())),
    **dict.fromkeys(("LayerNorm", "RMSNorm"), (
        example((3, 5))(5), example((4, 2, 3))(3), example(nonzero(1, 1))(1))),
    **dict.fromkeys(("GraphAttention", "ThresholdNeuron"), (
        example((4, 3))(3, 2), example((2, 5, 4))(4, 3), example(nonzero(1, 1))(1, 1))),
    **dict.fromkeys(("AttentiveRNN", "BiRNN"), (
        example((2, 3, 2))(2, 3), example((3, 4, 3))(3, 2), example((1, 1, 1))(1, 1))),
    **dict.fromkeys(("CrossEntropy", "StableMaxLoss"), (
        example((3, 4), ids(4, 3))(), example((2, 4, 3), ids(3, 2, 4))(),
        example((1, 2), ids(2, 1))())),
    **dict.fromkeys(("SquaredError", "KLDivergence"), (
        example((3, 4), (3, 4))(), example((4, 2, 3), (4, 2, 3))(), example((2, 1), (2, 1))())),
    "Linear": (example((2, 3))(3, 4), example((4, 3, 5))(5, 2), example(ONE)(1, 1)),
    "FrozenLinear": (example((2, 3))(lazy(Linear, 3, 4)), example((4, 3, 5))(lazy(Linear, 5, 2)),
                     example(ONE)(lazy(Linear, 1, 1))),
    "LoRALinear": (example((2, 3))(lazy(Linear, 3, 4), 2, alpha=3.0),
                   example((4, 3, 5))(lazy(Linear, 5, 6), 3, alpha=2.0),
                   example(ONE)(lazy(Linear, 1, 1), 1)),
    "Embedding": (example(ids(5, 2, 3))(5, 4), example(ids(7, 4, 5, 2))(7, 3),
                  example(ids(1, 1, 1))(1, 2)),
    "Unembedding": (example((2, 3, 4))(lazy(Embedding, 5, 4)),
                    example((4, 3, 2, 3))(lazy(Embedding, 7, 3)),
                    example(ONE)(lazy(Embedding, 1, 1))),
    "BatchNorm": (example((4, 3, 2))(3), example((5, 4))(4), example((4, 1, 1))(1)),
    "GroupNorm": (example((2, 6, 3))(6, 3), example((3, 4, 2))(4, 2), example((1, 2, 1))(2, 1)),
    "InstanceNorm": (example((2, 3, 4))(3), example((3, 2, 5))(2), example((1, 1, 2))(1)),
    "Dropout": (example((3, 4), rng=FixedNoise(5))(0.4), example((2, 5, 3), rng=FixedNoise(6))(0.4),
                example(ONE, rng=FixedNoise(7))(0.5)),
    "LSTMCell": (example((3, 2), [(3, 3), (3, 3)])(2, 3), example((2, 3), [(2, 4), (2, 4)])(3, 4),
                 example(ONE, [ONE, ONE])(1, 1)),
    "RecurrentLayer": (example((2, 3, 2), (2, 3))(lazy(RNNCell, 2, 3)),
                       example((3, 2, 4), (3, 2))(lazy(GRUCell, 4, 2)),
                       example((1, 1, 1), [ONE, ONE])(lazy(LSTMCell, 1, 1))),
    "Bidirectional": (example((2, 3, 2))(lazy(RNN, 2, 3), lazy(RNN, 2, 3)),
                      example((3, 2, 4))(lazy(RNN, 4, 2), lazy(RNN, 4, 2)),
                      example((1, 1, 1))(lazy(RNN, 1, 1), lazy(RNN, 1, 1))),
    "BidirectionalStack": (example((2, 3, 2))([lazy_birnn(2, 3), lazy_birnn(6, 3)]),
                           example((3, 2, 4))([lazy_birnn(4, 2)] * 3),
                           example((1, 1, 1))([lazy_birnn(1, 1)])),
    "DotAttention": (example((3, 2), (4, 2), (4, 3))(), example((3, 2, 4), (3, 5, 4), (3, 5, 2))(),
                     example((1, 1, 2), (1, 1, 2), (1, 1, 1))()),
    "AdditiveAttention": (example((3, 2), (4, 3), (4, 3))(2, 3, 4),
                          example((2, 4, 3), (2, 5, 2), (2, 5, 4))(3, 2, 5),
                          example((1, 1, 1), (1, 1, 1), (1, 1, 1))(1, 1, 1)),
    "MultiHeadAttention": (example(*[(1, 3, 4)] * 3, mask=causal_mask(3))(4, 2),
                           example((2, 4, 6), (2, 5, 6), (2, 5, 6))(6, 3),
                           example(*[(1, 1, 1)] * 3)(1, 1)),
    "Rotary": (example((2, 3, 4))(4), example((3, 4, 2, 6))(6), example((1, 2))(2)),
    "GroupedQueryAttention": (example((1, 3, 4), mask=causal_mask(3))(4, 2, 1),
                              example((2, 4, 12), mask=causal_mask(4))(12, 6, 3),
                              example((1, 1, 2))(2, 1, 1)),
    "FeedForward": (example((2, 3))(3, 2), example((4, 3, 2))(2, 3), example(ONE)(1, 1)),
    "SwiGLU": (example((2, 3))(3, 4), example((4, 3, 2))(2, 5), example(ONE)(1, 1)),
    "LlamaBlock": (example((1, 3, 4), mask=causal_mask(3))(4, 2, 1, 3),
                   example((2, 4, 12), mask=causal_mask(4))(12, 6, 3, 5),
                   example((1, 1, 2))(2, 1, 1, 1)),
    "Block": (example((1, 4, 6), mask=causal_mask(4))(6, 2, 2),
              example((2, 3, 9), mask=causal_mask(3))(9, 3, 1), example((1, 1, 1))(1, 1, 1)),
    "Decoder": (example((1, 3, 4))([lazy(PreNormBlock, 4, 2, 2)] * 2, LayerNorm(4)),
                example((2, 4, 6))([lazy(Block, 6, 3, 1)]),
                example((1, 1, 1))([lazy(Block, 1, 1, 1)])),
    "DecoderBlock": (example((1, 3, 4), (1, 2, 4), mask=causal_mask(3))(4, 2, 2),
                     example((2, 4, 6), (2, 5, 6), mask=causal_mask(4))(6, 3, 1),
                     example((1, 1, 1), (1, 1, 1))(1, 1, 1)),
    "CrossDecoder": (
        example((1, 3, 4), (1, 2, 4), mask=causal_mask(3))([lazy(PreNormDecoderBlock, 4, 2, 2)],
                                                           LayerNorm(4)),
        example((2, 4, 6), (2, 5, 6), mask=causal_mask(4))([lazy(DecoderBlock, 6, 3, 1)] * 2),
        example((1, 1, 2), (1, 1, 2))([lazy(DecoderBlock, 2, 1, 1)])),
    "ReLUUpdate": (example((4, 3), (4, 2))(3, 2), example((5, 2, 4), (5, 2, 3))(4, 3),
                   example(ONE, nonzero(1, 1))(1, 1)),
    "ReplaceUpdate": (example((4, 3), (4, 2))(), example((5, 2, 4), (5, 2, 3))(),
                      example(ONE, ONE)()),
    "MessagePassing": (example((4, 3), (4, 4))(lazy(Linear, 3, 2), lazy(ReLUUpdate, 3, 2)),
                       example((2, 5, 4), (2, 5, 5))(lazy(Linear, 4, 3), lazy(ReLUUpdate, 4, 3)),
                       example((1, 3), ONE)(lazy(Linear, 3, 2), lazy(ReLUUpdate, 3, 2))),
    "XOR": (example(nonzero(4, 2))(), example(nonzero(3, 5, 2))(), example(nonzero(1, 2))()),
    "SequenceLoss": (example((2, 3, 4), ids(4, 2, 3),
                             np.array([[True, True, False], [True, True, True]]))(),
                     example((3, 2, 5), ids(5, 3, 2),
                             np.array([[True, False], [True, True], [False, True]]))("sum"),
                     example((1, 1, 2), ids(2, 1, 1), np.array([[True]]))()),
    "WeightedCrossEntropy": (example((3, 4), ids(4, 3))((0.5, 2.0, 1.0, 0.0)),
                             example((2, 4, 3), ids(3, 2, 4))((2.0, 0.5, 1.5)),
                             example((1, 2), ids(2, 1))((0.5, 1.5))),
    "SoftCrossEntropy": (example((3, 4), probabilities(3, 4))(),
                         example((2, 4, 3), probabilities(2, 4, 3))(),
                         example((1, 2), probabilities(1, 2))()),
    "GPT": (example(ids(5, 1, 3))(5, d_model=4, num_layers=1, num_heads=2, multiplier=2, max_len=4),
            example(ids(7, 2, 4))(7, d_model=6, num_layers=2, num_heads=3, multiplier=1, max_len=5),
            example(ids(1, 1, 1))(1, d_model=1, num_layers=1, num_heads=1, multiplier=1,
                                  max_len=1)),
    "Llama": (example(ids(5, 1, 3))(5, d_model=4, num_layers=1, num_heads=2, num_kv_heads=1,
                                    d_inner=3, max_len=4),
              example(ids(7, 2, 4))(7, d_model=12, num_layers=2, num_heads=6, num_kv_heads=3,
                                    d_inner=5, max_len=5),
              example(ids(1, 1, 1))(1, d_model=2, num_layers=1, num_heads=1, num_kv_heads=1,
                                    d_inner=1, max_len=1)),
    "LSTMLM": (example(ids(5, 2, 3))(5, d_model=2, num_layers=1, d_hidden=3),
               example(ids(7, 3, 2))(7, d_model=2, num_layers=2, d_hidden=4),
               example(ids(1, 1, 1))(1, 1, 1, 1)),
    "Seq2Seq": (example(ids(4, 1, 3), ids(4, 1, 2))(4, 4, d_model=4, num_layers=1, num_heads=2,
                                                    multiplier=1, max_len=4),
                example(ids(5, 2, 4), ids(5, 2, 3))(5, 5, d_model=6, num_layers=2, num_heads=3,
                                                    multiplier=2, max_len=5),
                example(ids(2, 1, 1), ids(3, 1, 1))(2, 3, 1, 1, 1, 1, 1)),
    "LSTMSeq2Seq": (example(ids(4, 2, 3), ids(4, 2, 2))(4, 4, d_model=2, d_hidden=3),
                    example(ids(6, 3, 2), ids(6, 3, 4))(6, 6, d_model=4, num_layers=2, d_hidden=2),
                    example(ids(1, 1, 1), ids(1, 1, 1))(1, 1, 1)),
    "BiRNNLoss": (example((2, 3, 2), (2, 3, 2))(lazy(BiRNN, 2)),
                  example((3, 4, 3), (3, 4, 3))(lazy(BiRNN, 3)),
                  example((1, 1, 1), (1, 1, 1))(lazy(BiRNN, 1))),
    "Autoencoder": (example((3, 2), (3, 2))(2, 4, 3), example((2, 4, 3), (2, 4, 3))(3, 2, 4),
                    example((2, 1), (2, 1))(1, 1, 1)),
    "MLP": (example((3, 2))([2, 4, 3]), example((2, 4, 3))([3, 2, 5, 4]),
            example((2, 1))([1, 1, 1])),
    "AutoencoderLoss": (example((3, 2), (3, 2), ids(3, 3))(lazy(Autoencoder, 2, 4, 3)),
                        example((4, 3), (4, 3), ids(5, 4))(lazy(Autoencoder, 3, 2, 5)),
                        example(ONE, ONE, ids(1, 1))(lazy(Autoencoder, 1, 1, 1))),
    "Sequential": (example((2, 3))(lazy(Linear, 3, 4), lazy(Tanh), lazy(Linear, 4, 2)),
                   example((4, 3, 5))(lazy(Linear, 5, 2), lazy(Tanh), lazy(Linear, 2, 3)),
                   example(ONE)(lazy(Linear, 1, 1))),
}


def draw_attention_mask(layer, inputs, rng):
    """Draw a mask (queries, keys), True where a query attends to a key. No row is all False."""
    keys = 1 if len(inputs) == 3 else 0
    seen = rng.random((inputs[0].shape[-2], inputs[keys].shape[-2])) < 0.6
    seen[-1, -1] = False
    seen[:, 0] = True
    return seen


def draw_lengths(layer, inputs, rng, input_number=0):
    """Draw the lengths (B,) of sequences (B, S, ..); the first one is shorter than S."""
    B, S = inputs[input_number].shape[:2]
    found = rng.integers(1, S + 1, B)
    found[0] = max(1, S - 1)
    return found


def make_mask_drawer(input_number):
    """Return a function that draws a mask (B, S) of valid tokens for an input of forward."""
    return lambda layer, inputs, rng: np.arange(inputs[input_number].shape[1]) < draw_lengths(
        layer, inputs, rng, input_number)[:, None]


def draw_state(layer, inputs, rng):
    """Draw an initial state like the state that forward returns."""
    (_, last), _ = getattr(layer, "model", layer).forward(inputs[0])
    return map_leaves(last, lambda a: rng.standard_normal(a.shape))


def draw_adjacency_mask(layer, inputs, rng):
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
DRAWN = {"key_mask": [make_mask_drawer(0)], "lengths": [draw_lengths],
         "mask": [draw_attention_mask], "neighbours": [draw_adjacency_mask],
         "memory_mask": [lambda *given: make_mask_drawer(1)(*given)[:, None, None]],
         "positions": [lambda layer, inputs, rng: rng.integers(0, 4, inputs[0].shape[-2])],
         "source_mask": [make_mask_drawer(0)], "target_mask": [make_mask_drawer(1)],
         "state": [draw_state], "training": [lambda *given: False],
         "visible": [lambda layer, inputs, rng: rng.random(inputs[0].shape) < 0.7]}
