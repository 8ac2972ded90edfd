"""Gradient-check cases: every example of `npdl.study.check.examples`, and the unusual inputs in
EDGES: fully masked queries, NaN after the end of a sequence, losses without unmasked targets, and
layers in layers.

    case(Linear, "no leading axis", (3, 2), (3,))       # Linear(3, 2, rng=rng) on a normal array

Views that are not contiguous need no cases: tests/layers/test_contract.py runs every case on them.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from npdl import losses
from npdl.adapt.linears import LoRALinear, QuantLinear
from npdl.backend import to_device
from npdl.errors import InputError
from npdl.layers import activation, attention, embedding, graph, recurrent, transformer
from npdl.layers.batch_norm import BatchNorm
from npdl.layers.bidirectional import Bidirectional
from npdl.layers.dropout import Dropout
from npdl.layers.layer_norm import LayerNorm
from npdl.layers.linear import Linear
from npdl.layers.sequential import Sequential
from npdl.models.attentive_rnn import AttentiveRNN
from npdl.models.birnn import BiRNN, BiRNNLoss
from npdl.models.gpt import GPT
from npdl.study.check.examples import FixedNoise, draw_input, ids, lazy, nonzero
from npdl.study.check.samples import ROW, make_sample_builders
from tests.tools.running import npdl_layers

COMPOSED = ("npdl.models", "npdl.layers.transformer", "npdl.layers.cross_attention",
            "npdl.layers.bidirectional", "npdl.layers.llama")
STACKS = ("npdl.layers.recurrent.RNN", "npdl.layers.recurrent.GRU", "npdl.layers.recurrent.LSTM")


@dataclass
class Case:
    """One gradient check: `build(rng)` returns (layer, inputs, options) for gradcheck.

    `layer_class` is the class that the case stands for; `of_option` is whether it is there for one
    option of the class.
    """

    layer_class: type
    what: str
    build: Callable
    of_option: bool = False

    def __str__(self):
        return f"{self.layer_class.__name__}: {self.what}"


def case(cls, description, args, *inputs, **options):
    """Return a Case of cls(*args) or args(rng). A dict at the end of `args` are keywords.

    inputs   shapes of normal arrays; lists of shapes, a state; arrays; functions of rng
    options  what forward takes by name; functions of rng are called
    """
    make = args
    if not callable(args):
        *sizes, keywords = args if args and isinstance(args[-1], dict) else (*args, {})
        make = lazy(cls, *sizes, **keywords)

    def build(rng):
        layer = make(rng)
        chosen = {name: value(rng) if callable(value) else value for name, value in options.items()}
        return layer, tuple(draw_input(rng, given) for given in inputs), chosen

    return Case(cls, description, build)


def strided(array):
    """Return the same values in a view that is not contiguous."""
    return np.repeat(array, 2, axis=-1)[..., ::2]


def is_composed(cls):
    """Return True if a class consists of layers that have cases of their own."""
    name = f"{cls.__module__}.{cls.__name__}"
    return name.startswith(COMPOSED) or name in STACKS


def find_sample_builders(cls):
    """Return {name: build(rng)} of a layer, or {} if one is missing (see test_gradcheck.py)."""
    try:
        return make_sample_builders(cls)
    except InputError:
        return {}


@functools.cache
def all_cases():
    """Return the examples of every layer, and the EDGES."""
    return [Case(cls, what, build, of_option=what not in ROW)
            for cls in npdl_layers() for what, build in find_sample_builders(cls).items()] + EDGES


# Tokens, and masks that say which of them a query may attend to
TOKENS = np.array([[0, 1, 2], [3, 1, 1]])
MASK = FixedNoise(5)                                        # dropout's mask is the same every time
SEEN = np.array([[True, True, True], [False, True, True]])          # a fully masked query
BLIND = np.array([[True, True, False], [False, False, False]])      # a fully masked sequence
HIDDEN = np.array([[1, 0, 1, 1], [0, 0, 0, 0], [0, 1, 1, 0]], bool)
COUNTED = np.array([[True, True, False], [False, False, False], [True, False, False]])
RAGGED = np.array([2, 4, 0, 4, 1])                          # unsorted; full, empty, equal
AT = np.array([[0, 1], [3, 3]])                             # positions, some twice
SMALL = {"d_model": 4, "num_layers": 1, "num_heads": 2, "multiplier": 2, "max_len": 4}


def lazy_padded(D, lengths=RAGGED, S=4):
    """Return a function that draws x (B, S, D), with NaN after the end of each sequence."""
    def draw(rng):
        real = np.arange(S)[:, None] < np.array(lengths)[:, None, None]
        return np.where(real, rng.standard_normal((len(lengths), S, D)), np.nan)

    return draw


def state_shapes(cell_class, *shape):
    """Return the shape of a state: that of h, or of (h, c) for an LSTM."""
    return [shape, shape] if cell_class.__name__.startswith("LSTM") else shape


def batch_norm_with_statistics(rng):
    """Return a BatchNorm whose running statistics are not 0 and 1."""
    layer = BatchNorm(3)
    layer.running_mean.data[...] = to_device(rng.standard_normal(3))
    layer.running_var.data[...] = to_device(rng.uniform(0.5, 2, 3))
    return layer


def isolating_edges(rng):
    """Return bool edges (4, 4) in which the first node has no neighbours."""
    return (rng.random((4, 4)) < 0.5) & (np.arange(4) > 0)[:, None]


def message_passing(rng):
    """Return a layer that passes messages of width 2 between states of width 3."""
    return graph.MessagePassing(Linear(3, 2, rng=rng), graph.ReLUUpdate(3, 2, rng=rng))


def nested_sequential(rng):
    """Return a Sequential that contains another Sequential."""
    inner = Sequential(activation.Tanh(), Dropout(0.3))
    return Sequential(Linear(3, 4, rng=rng), inner, Linear(4, 2, rng=rng))


EDGES = [
    case(Linear, "no leading axis", (3, 2), (3,)),
    case(Linear, "an empty batch", (3, 2), (0, 3)),
    *(case(cls, "given positions (B, S)", (5, 4), (2, 2, 4), positions=AT)
      for cls in (embedding.LearnedPositions, embedding.SinusoidalPositions)),
    *(case(cls, "large and small values", (), lambda rng: 10 * nonzero(7)(rng))
      for cls in (activation.Sigmoid, activation.Tanh, activation.GELU, activation.TanhGELU)),
    case(activation.Softmax, "a row with nothing visible", (), (3, 4), visible=HIDDEN),
    case(activation.Softmax, "visible broadcast over rows", (), (2, 3, 4), visible=HIDDEN[2]),
    case(Dropout, "rate 0", (0.0,), (2, 3), rng=MASK),
    case(Dropout, "no generator", (0.4,), (2, 3)),
    case(LayerNorm, "far from zero", (6,), lambda rng: 20 + rng.standard_normal((3, 6))),
    case(BatchNorm, "one sample", (2,), (1, 2, 4)),
    case(BatchNorm, "running statistics", batch_norm_with_statistics, (2, 3, 4), training=False),
    *(case(losses.SequenceLoss, f"{how}, a sample without counted tokens", how, (3, 3, 4),
           ids(4, 3, 3), COUNTED) for how in (("mean", "sample"), ("none", "token"))),
    case(losses.CrossEntropy, "ignored and smoothed", (-100, 0.2), (2, 4, 3),
         lambda rng: np.where(np.arange(4) % 2, rng.integers(0, 3, (2, 4)), -100)),
    case(losses.CrossEntropy, "one vector, V = 1", (), (1,), ids(1)),
    case(losses.KLDivergence, "none, V = 1", ("none",), (2, 1), (2, 1)),
    case(Sequential, "a chain in it", nested_sequential, (2, 5, 3), rng=MASK),
    case(graph.MessagePassing, "one graph for a batch", message_passing, (2, 3, 4, 3), (4, 4)),
    case(graph.MessagePassing, "edges yes or no", message_passing, (2, 4, 3), isolating_edges),
    case(graph.GraphAttention, "neighbours, a node that hears no one, scaled",
         (3, 2, {"scale": 0.7, "bias": True}), (2, 4, 3), neighbours=isolating_edges),

    # Attention
    *(case(kind, "(B, H, R, d), a query that sees nothing", args, (2, 2, 3, 2),
           (2, 2, 4, d_key), (2, 2, 4, 5), mask=HIDDEN)
      for kind, args, d_key in ((attention.DotAttention, (), 2),
                                (attention.ScaledDotAttention, (), 2),
                                (attention.AdditiveAttention, (2, 3, 4), 3))),
    case(attention.MultiHeadAttention, "cross, a sequence that sees nothing", (4, 2), (2, 4, 4),
         (2, 3, 4), (2, 3, 4), mask=transformer.expand_mask(BLIND)),
    case(GPT, "padding, one query sees nothing", (4, SMALL), TOKENS, key_mask=SEEN),

    # Recurrent layers and the models made of them
    *(case(recurrent.RecurrentLayer, f"{kind.__name__}, lengths, given state",
           lambda rng, kind=kind: recurrent.RecurrentLayer(kind(2, 3, rng=rng)), lazy_padded(2),
           state_shapes(kind, 5, 3), lengths=RAGGED)
      for kind in (recurrent.RNNCell, recurrent.GRUCell, recurrent.LSTMCell)),
    *(case(kind, "two layers, lengths, dropout", (3, 2, 2, {"dropout": 0.4}), lazy_padded(3),
           state_shapes(kind, 2, 5, 2), lengths=RAGGED, rng=MASK)
      for kind in (recurrent.RNN, recurrent.GRU, recurrent.LSTM)),
    case(Bidirectional, "GRU and LSTM, two layers, lengths", lambda rng: Bidirectional(
        recurrent.GRU(2, 3, 2, rng=rng), recurrent.LSTM(2, 2, 2, rng=rng)), lazy_padded(2),
         [(2, 5, 3), [(2, 5, 2)] * 2], lengths=RAGGED),
    case(BiRNNLoss, "ragged", lambda rng: BiRNNLoss(BiRNN(2, rng=rng)), lazy_padded(2),
         lazy_padded(2), lengths=RAGGED),
    case(AttentiveRNN, "a state without a past", (2, 3, {"query": "previous"}), (2, 3, 2),
         [(2, 3), (2, 0, 3)]),

    # Adapters
    case(LoRALinear, "over a quantized layer (QLoRA), one vector", lambda rng: LoRALinear(
        QuantLinear(Linear(4, 3, bias=False, rng=rng), 4), rank=2, alpha=5, rng=rng), (4,)),
]
