"""Small inputs for every layer, so that `step` and `blame` need nothing but its name.

A sample is (layer, inputs, options): layer.forward(*inputs, **options) runs. A user's own class
brings its own: a classmethod `sample()` that returns such a triple, a pair without options, or
layer, *inputs. A class with the name of one of npdl's, or derived from one, is given that one's.

`samples` has a second for each of npdl's: every size another, one more axis where the layer takes
(..., D), and numbers of another size. A backward that is right in the first only is found there.
"""

import numpy as np

import npdl
from npdl.backend import stream
from npdl.core import Layer
from npdl.errors import InputError
from npdl.layers.activation import Tanh
from npdl.layers.attention import causal_mask
from npdl.layers.embedding import Embedding
from npdl.layers.graph import AddReLU
from npdl.layers.linear import Linear
from npdl.layers.recurrent import RNN, RNNCell, RNNLayer
from npdl.models.autoencoder import Autoencoder
from npdl.models.birnn import BiRNN
from npdl_study.trees import is_float


def _x(*shape):
    """A sample of one array, the class built with the given arguments."""
    def of(*args, state=None, **options):
        def build(cls, rng):
            inputs = (rng.standard_normal(shape),)
            if state is not None:
                inputs += (_arrays(rng, state),)
            return cls(*args, **_seeded(cls, rng)), inputs, options
        return build
    return of


def _arrays(rng, shapes):
    """One array, or a tuple of arrays when `shapes` is a list."""
    if isinstance(shapes, list):
        return tuple(rng.standard_normal(shape) for shape in shapes)
    return rng.standard_normal(shapes)


def _seeded(cls, rng):
    """{"rng": rng} when the class takes one."""
    code = getattr(cls.__init__, "__code__", None)
    return {"rng": rng} if code and "rng" in code.co_varnames[: code.co_argcount] else {}


def _arguments(*shapes):
    """A sample of several arrays."""
    def of(*args, **options):
        return lambda cls, rng: (cls(*args, **_seeded(cls, rng)),
                                 tuple(_arrays(rng, shape) for shape in shapes), options)
    return of


def _ids(vocab, *shapes):
    """A sample of token ids."""
    def of(*args, **keywords):
        return lambda cls, rng: (cls(*args, **keywords, **_seeded(cls, rng)),
                                 tuple(rng.integers(0, vocab, shape) for shape in shapes), {})
    return of


def _off_zero(*shape):
    """Values between 0.1 and 2 in size, away from the kink of a ReLU."""
    return lambda cls, rng: (
        cls(), (rng.uniform(0.1, 2, shape) * rng.choice([-1.0, 1.0], shape),), {})


def _dropout(cls, rng):
    return cls(0.4), (rng.standard_normal((3, 4)),), {"rng": Repeated(5)}


def _loss(cls, rng):
    counted = np.array([[True, True, False], [True, True, True]])
    return cls(), (rng.standard_normal((2, 3, 4)), rng.integers(0, 4, (2, 3)), counted), {}


def _message_passing(cls, rng):
    layer = cls(Linear(3, 2, rng=rng), AddReLU(3, 2, rng=rng))
    return layer, (rng.standard_normal((4, 3)), rng.standard_normal((4, 4))), {}


def _autoencoder_loss(cls, rng):
    inputs = (rng.standard_normal((3, 2)), rng.standard_normal((3, 2)), rng.integers(0, 3, 3))
    return cls(Autoencoder(2, 4, 3, rng=rng)), inputs, {}


def _adapter(cls, rng):
    return cls(Linear(3, 4, rng=rng)), (rng.standard_normal((2, 3)),), {}


class Repeated:
    """A generator that draws the same numbers at every call: forward can be run again."""

    def __init__(self, seed):
        self.seed = seed

    def random(self, shape):
        return stream(self.seed, *shape).random(shape)


SAMPLES = {
    "Linear": _x(2, 3)(3, 4),
    "FrozenLinear": _adapter,
    "QuantLinear": _adapter,
    "LoRALinear": lambda cls, rng: (cls(Linear(3, 4, rng=rng), 2, alpha=3.0, rng=rng),
                                    (rng.standard_normal((2, 3)),), {}),
    "Embedding": _ids(5, (2, 3))(5, 4),
    "Unembedding": lambda cls, rng: (cls(Embedding(5, 4, rng=rng)),
                                     (rng.standard_normal((2, 3, 4)),), {}),
    "LearnedPositions": _x(2, 3, 4)(5, 4),
    "SinusoidalPositions": _x(2, 3, 4)(5, 4),
    "Sigmoid": _off_zero(3, 4),
    "Tanh": _off_zero(3, 4),
    "ReLU": _off_zero(3, 4),
    "GELU": _off_zero(3, 4),
    "TanhGELU": _off_zero(3, 4),
    "Same": _x(3, 4)(),
    "Softmax": _x(3, 5)(),
    "LayerNorm": _x(3, 5)(5),
    "RMSNorm": _x(3, 5)(5),
    "BatchNorm": _x(4, 3, 2)(3),
    "GroupNorm": _x(2, 6, 3)(6, 3),
    "InstanceNorm": _x(2, 3, 4)(3),
    "Dropout": _dropout,
    "RNNCell": _x(3, 2)(2, 3, state=(3, 3)),
    "GRUCell": _x(3, 2)(2, 3, state=(3, 3)),
    "LSTMCell": _x(3, 2)(2, 3, state=[(3, 3), (3, 3)]),
    "Cell": lambda cls, rng: SAMPLES["RNNCell"](RNNCell, rng),
    "RNNLayer": _x(2, 3, 2)(2, 3, state=(2, 3)),
    "GRULayer": _x(2, 3, 2)(2, 3, state=(2, 3)),
    "LSTMLayer": _x(2, 3, 2)(2, 3, state=[(2, 3), (2, 3)]),
    "RecurrentLayer": lambda cls, rng: SAMPLES["RNNLayer"](RNNLayer, rng),
    "RNN": _x(2, 3, 2)(2, 3),
    "GRU": _x(2, 3, 2)(2, 3),
    "LSTM": _x(2, 3, 2)(2, 3),
    "Recurrent": lambda cls, rng: SAMPLES["RNN"](RNN, rng),
    "Bidirectional": lambda cls, rng: (cls(RNN(2, 3, rng=rng), RNN(2, 3, rng=rng)),
                                       (rng.standard_normal((2, 3, 2)),), {}),
    "DotAttention": _arguments((3, 2), (4, 2), (4, 3))(),
    "ScaledDotAttention": _arguments((3, 2), (4, 2), (4, 3))(),
    "AdditiveAttention": _arguments((3, 2), (4, 3), (4, 3))(2, 3, 4),
    "MultiHeadAttention": _arguments((1, 3, 4), (1, 3, 4), (1, 3, 4))(4, 2, mask=causal_mask(3)),
    "Rotary": _x(2, 3, 4)(4),
    "GroupedQueryAttention": _x(1, 3, 4)(4, 2, 1, mask=causal_mask(3)),
    "FeedForward": _x(2, 3)(3, 2),
    "SwiGLU": _x(2, 3)(3, 4),
    "LlamaBlock": _x(1, 3, 4)(4, 2, 1, 3, mask=causal_mask(3)),
    "Block": _x(1, 4, 6)(6, 2, 2, mask=causal_mask(4)),
    "PreNormBlock": _x(1, 4, 6)(6, 2, 2, mask=causal_mask(4)),
    "Decoder": _x(1, 3, 4)(2, 4, 2, 2, mask=causal_mask(3)),
    "Encoder": _x(1, 3, 4)(1, 4, 2, 2),
    "DecoderBlock": _arguments((1, 3, 4), (1, 2, 4))(4, 2, 2, mask=causal_mask(3)),
    "PreNormDecoderBlock": _arguments((1, 3, 4), (1, 2, 4))(4, 2, 2, mask=causal_mask(3)),
    "CrossDecoder": _arguments((1, 3, 4), (1, 2, 4))(1, 4, 2, 2, mask=causal_mask(3)),
    "AddReLU": _arguments((4, 3), (4, 2))(3, 2),
    "Replace": _arguments((4, 3), (4, 2))(),
    "MessagePassing": _message_passing,
    "GraphAttention": _x(4, 3)(3, 2),
    "ThresholdNeuron": _x(4, 3)(3, 2),
    "XOR": _off_zero(4, 2),
    "SequenceLoss": _loss,
    "CrossEntropy": lambda cls, rng: (cls(), (rng.standard_normal((3, 4)),
                                              rng.integers(0, 4, 3)), {}),
    "StableMaxLoss": lambda cls, rng: (cls(), (rng.standard_normal((3, 4)),
                                               rng.integers(0, 4, 3)), {}),
    "SquaredError": _arguments((3, 4), (3, 4))(),
    "KLDivergence": _arguments((3, 4), (3, 4))(),
    "GPT": _ids(5, (1, 3))(5, d_model=4, num_layers=1, num_heads=2, multiplier=2, max_len=4),
    "GPT2": _ids(5, (1, 3))(5, d_model=4, num_layers=1, num_heads=2, multiplier=2, max_len=4),
    "Llama": _ids(5, (1, 3))(5, d_model=4, num_layers=1, num_heads=2, num_kv_heads=1, d_inner=3,
                             max_len=4),
    "LSTMLM": _ids(5, (2, 3))(5, d_model=3, num_layers=1, d_hidden=3),
    "Seq2Seq": _ids(4, (1, 3), (1, 2))(4, 4, d_model=4, num_layers=1, num_heads=2, multiplier=1,
                                       max_len=4),
    "LSTMSeq2Seq": _ids(4, (2, 3), (2, 2))(4, 4, d_model=2, d_hidden=3),
    "AttentiveRNN": _x(2, 3, 2)(2, 3),
    "BiRNN": _x(2, 3, 2)(2, 3),
    "BiRNNLoss": lambda cls, rng: (cls(BiRNN(2, rng=rng)), (rng.standard_normal((2, 3, 2)),
                                                            rng.standard_normal((2, 3, 2))), {}),
    "Autoencoder": _arguments((3, 2), (3, 2))(2, 4, 3),
    "MLP": _x(3, 2)([2, 4, 3]),
    "AutoencoderLoss": _autoencoder_loss,
    "Sequential": lambda cls, rng: (cls(Linear(3, 4, rng=rng), Tanh(), Linear(4, 2, rng=rng)),
                                    (rng.standard_normal((2, 3)),), {}),
}


# Every size differs from that of the sample; one more axis in front wherever the layer takes it.
OTHERS = {
    "Linear": _x(4, 3, 5)(5, 2),
    "FrozenLinear": lambda cls, rng: (cls(Linear(5, 2, rng=rng)),
                                      (rng.standard_normal((4, 3, 5)),), {}),
    "LoRALinear": lambda cls, rng: (cls(Linear(5, 6, rng=rng), 3, alpha=2.0, rng=rng),
                                    (rng.standard_normal((4, 3, 5)),), {}),
    "Embedding": _ids(7, (4, 5, 2))(7, 3),
    "Unembedding": lambda cls, rng: (cls(Embedding(7, 3, rng=rng)),
                                     (rng.standard_normal((4, 3, 2, 3)),), {}),
    "LearnedPositions": _x(3, 4, 6)(8, 6),
    "SinusoidalPositions": _x(3, 4, 6)(8, 6),
    "Sigmoid": _off_zero(2, 4, 3),
    "Tanh": _off_zero(2, 4, 3),
    "ReLU": _off_zero(2, 4, 3),
    "GELU": _off_zero(2, 4, 3),
    "TanhGELU": _off_zero(2, 4, 3),
    "Same": _x(2, 4, 3)(),
    "Softmax": _x(4, 2, 3)(),
    "Sequential": lambda cls, rng: (cls(Linear(5, 2, rng=rng), Tanh(), Linear(2, 3, rng=rng)),
                                    (rng.standard_normal((4, 3, 5)),), {}),
    "LayerNorm": _x(4, 2, 3)(3),
    "RMSNorm": _x(4, 2, 3)(3),
    "BatchNorm": _x(5, 4)(4),
    "GroupNorm": _x(3, 4, 2)(4, 2),
    "InstanceNorm": _x(3, 2, 5)(2),
    "Dropout": lambda cls, rng: (cls(0.4), (rng.standard_normal((2, 5, 3)),),
                                 {"rng": Repeated(6)}),
    "RNNCell": _x(2, 3)(3, 4, state=(2, 4)),
    "GRUCell": _x(2, 3)(3, 4, state=(2, 4)),
    "LSTMCell": _x(2, 3)(3, 4, state=[(2, 4), (2, 4)]),
    "RNNLayer": _x(3, 2, 4)(4, 2, state=(3, 2)),
    "GRULayer": _x(3, 2, 4)(4, 2, state=(3, 2)),
    "LSTMLayer": _x(3, 2, 4)(4, 2, state=[(3, 2), (3, 2)]),
    "RNN": _x(3, 2, 4)(4, 2, 2),
    "GRU": _x(3, 2, 4)(4, 2, 2),
    "LSTM": _x(3, 2, 4)(4, 2, 2),
    "Bidirectional": lambda cls, rng: (cls(RNN(4, 2, rng=rng), RNN(4, 2, rng=rng)),
                                       (rng.standard_normal((3, 2, 4)),), {}),
    "DotAttention": _arguments((3, 2, 4), (3, 5, 4), (3, 5, 2))(),
    "ScaledDotAttention": _arguments((3, 2, 4), (3, 5, 4), (3, 5, 2))(),
    "AdditiveAttention": _arguments((2, 4, 3), (2, 5, 2), (2, 5, 4))(3, 2, 5),
    "MultiHeadAttention": _arguments((2, 4, 6), (2, 5, 6), (2, 5, 6))(6, 3),
    "Rotary": _x(3, 4, 2, 6)(6),
    "GroupedQueryAttention": _x(2, 4, 12)(12, 6, 3, mask=causal_mask(4)),
    "FeedForward": _x(4, 3, 2)(2, 3),
    "SwiGLU": _x(4, 3, 2)(2, 5),
    "LlamaBlock": _x(2, 4, 12)(12, 6, 3, 5, mask=causal_mask(4)),
    "Block": _x(2, 3, 9)(9, 3, 1, mask=causal_mask(3)),
    "PreNormBlock": _x(2, 3, 9)(9, 3, 1, mask=causal_mask(3)),
    "Decoder": _x(2, 4, 6)(1, 6, 3, 1, mask=causal_mask(4)),
    "Encoder": _x(2, 4, 6)(2, 6, 3, 1),
    "DecoderBlock": _arguments((2, 4, 6), (2, 5, 6))(6, 3, 1, mask=causal_mask(4)),
    "PreNormDecoderBlock": _arguments((2, 4, 6), (2, 5, 6))(6, 3, 1, mask=causal_mask(4)),
    "CrossDecoder": _arguments((2, 4, 6), (2, 5, 6))(2, 6, 3, 1, mask=causal_mask(4)),
    "AddReLU": _arguments((5, 2, 4), (5, 2, 3))(4, 3),
    "Replace": _arguments((5, 2, 4), (5, 2, 3))(),
    "MessagePassing": lambda cls, rng: (cls(Linear(4, 3, rng=rng), AddReLU(4, 3, rng=rng)), (
        rng.standard_normal((2, 5, 4)), rng.standard_normal((2, 5, 5))), {}),
    "GraphAttention": _x(2, 5, 4)(4, 3),
    "ThresholdNeuron": _x(2, 5, 4)(4, 3),
    "XOR": _off_zero(3, 5, 2),
    "CrossEntropy": lambda cls, rng: (cls(), (rng.standard_normal((2, 4, 3)),
                                              rng.integers(0, 3, (2, 4))), {}),
    "SquaredError": _arguments((4, 2, 3), (4, 2, 3))(),
    "KLDivergence": _arguments((4, 2, 3), (4, 2, 3))(),
    "SequenceLoss": lambda cls, rng: (cls("sum"), (rng.standard_normal((3, 2, 5)), rng.integers(
        0, 5, (3, 2)), np.array([[True, False], [True, True], [False, True]])), {}),
    "GPT": _ids(7, (2, 4))(7, d_model=6, num_layers=2, num_heads=3, multiplier=1, max_len=5),
    "GPT2": _ids(7, (2, 4))(7, d_model=6, num_layers=2, num_heads=3, multiplier=1, max_len=5),
    "Llama": _ids(7, (2, 4))(7, d_model=12, num_layers=2, num_heads=6, num_kv_heads=3, d_inner=5,
                             max_len=5),
    "LSTMLM": _ids(7, (3, 2))(7, d_model=2, num_layers=2, d_hidden=4),
    "Seq2Seq": _ids(5, (2, 4), (2, 3))(5, 5, d_model=6, num_layers=2, num_heads=3, multiplier=2,
                                       max_len=5),
    "LSTMSeq2Seq": _ids(6, (3, 2), (3, 4))(6, 6, d_model=4, num_layers=2, d_hidden=2),
    "AttentiveRNN": _x(3, 4, 3)(3, 2),
    "BiRNN": _x(3, 4, 3)(3, 2),
    "BiRNNLoss": lambda cls, rng: (cls(BiRNN(3, rng=rng)), (rng.standard_normal((3, 4, 3)),
                                                            rng.standard_normal((3, 4, 3))), {}),
    "Autoencoder": _arguments((2, 4, 3), (2, 4, 3))(3, 2, 4),
    "MLP": _x(2, 4, 3)([3, 2, 5, 4]),
    "AutoencoderLoss": lambda cls, rng: (cls(Autoencoder(3, 2, 5, rng=rng)), (
        rng.standard_normal((4, 3)), rng.standard_normal((4, 3)), rng.integers(0, 5, 4)), {}),
}
OTHERS |= {"QuantLinear": OTHERS["FrozenLinear"], "StableMaxLoss": OTHERS["CrossEntropy"],
           "Cell": lambda cls, rng: OTHERS["RNNCell"](RNNCell, rng),
           "RecurrentLayer": lambda cls, rng: OTHERS["RNNLayer"](RNNLayer, rng),
           "Recurrent": lambda cls, rng: OTHERS["RNN"](RNN, rng)}
SMALLER = 0.1


def layer_classes():
    """{name: class} of every layer and model of npdl."""
    public = {name: getattr(npdl, name) for name in npdl.__all__}
    return {name: cls for name, cls in public.items()
            if isinstance(cls, type) and issubclass(cls, Layer) and cls is not Layer}


def sample(cls, seed=0, **options):
    """(layer, inputs, options) for a class: its own `sample()`, or npdl's for its name, there made
    with these options of the constructor too.

    Raises InputError when there is none.
    """
    own = getattr(cls, "sample", None)
    if callable(own):
        return _taken_apart(own(), cls)
    made = type(cls.__name__, (cls,), {"__init__": lambda self, *given, **named: cls.__init__(
        self, *given, **named, **options)}) if options else cls
    found = _of_name(made, SAMPLES, stream(seed, 11))
    if options:
        found[0].__class__ = cls
    if found is not None:
        return found
    raise InputError(f"no inputs are known for {cls.__name__}: give it a classmethod sample() that "
                     "returns (layer, inputs), or use --input, say --input x=2,3,4")


def samples(cls, seed=0):
    """The sample of a class, and npdl's second for its name, if it has one: a list."""
    second = _of_name(cls, OTHERS, stream(seed, 12))
    if second is None:
        return [sample(cls, seed)]
    layer, inputs, options = second
    small = [SMALLER * a if isinstance(a, np.ndarray) and is_float(a) else a for a in inputs]
    return [sample(cls, seed), (layer, tuple(small), options)]


def _of_name(cls, table, rng):
    """What a table builds for a class or one of its bases, by name; None if it has nothing."""
    for base in cls.__mro__:
        if base.__name__ in table:
            return table[base.__name__](cls, rng)
    return None


def _taken_apart(built, cls):
    """(layer, inputs, options) of what a class's own sample() returned."""
    layer, *rest = built if isinstance(built, tuple) and built else (None,)
    options = rest.pop() if rest and isinstance(rest[-1], dict) else {}
    if not isinstance(layer, Layer) or not rest:
        raise InputError(f"{cls.__name__}.sample() must return (layer, inputs), (layer, inputs, "
                         "options) or layer, *inputs: an instance, a tuple of arrays, a dict")
    alone = len(rest) == 1 and isinstance(rest[0], tuple)
    return layer, rest[0] if alone else tuple(rest), options
