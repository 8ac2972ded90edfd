"""Cases of the remaining layers on views that are not contiguous, and with sizes of 1."""

import numpy as np

from npdl.layers.adapters import QuantLinear
from npdl.layers.attention import causal_mask
from npdl.layers.bidirectional import Bidirectional
from npdl.layers.dropout import Dropout
from npdl.layers.embedding import Embedding, LearnedPositions, SinusoidalPositions, Unembedding
from npdl.layers.encoder import DecoderBlock
from npdl.layers.graph import AddReLU, MessagePassing, Replace
from npdl.layers.gru import GRU
from npdl.layers.linear import Linear
from npdl.layers.neuron import XOR, ThresholdNeuron
from npdl.layers.recurrent import LSTM
from npdl.layers.rnn import RNN
from npdl.layers.transformer import Block, Decoder, FeedForward
from npdl.losses import SequenceLoss
from npdl.models.autoencoder import Autoencoder, AutoencoderLoss
from npdl.models.birnn import BiRNN, BiRNNLoss
from npdl.models.gpt import GPT
from npdl.models.lstm_lm import LSTMLM
from npdl.models.seq2seq import Seq2Seq
from npdl.prefix import Select
from tests.cases import Case, normal, off_zero, strided
from tests.cases.engine import same_mask


def view(rng, *shape):
    """Normal values in a view that is not contiguous."""
    return strided(normal(rng, *shape))


def off_zero_view(rng, *shape):
    return strided(off_zero(rng, *shape))


def ids(rng, high, B, S):
    """Tokens (B, S), a transposed view."""
    return rng.integers(0, high, (S, B)).T


def floats(cls, what, make, *shapes, draw=view, forward=None, entries=None, **options):
    """A Case whose inputs are all floats of the given shapes."""
    return Case(cls, what, lambda rng: (make(rng), tuple(draw(rng, *s) for s in shapes), options),
                forward, entries)


def deep(cls, build):
    """A stack with a state, in Fortran's order."""
    def case(rng):
        start = (view(rng, 1, 2, 3), view(rng, 1, 2, 3))
        return build(rng), (view(rng, 2, 3, 2), start if cls is LSTM else start[0]), {}

    return Case(cls, "strided x and state", case)


def both_ways(rng):
    layer = Bidirectional(RNN(2, 3, rng=rng), GRU(2, 2, rng=rng))
    return layer, (view(rng, 3, 3, 2), (view(rng, 1, 3, 3), view(rng, 1, 3, 2))), {
        "lengths": np.array([2, 3, 1])}


def birnn_loss(rng):
    return BiRNNLoss(BiRNN(2, rng=rng)), (view(rng, 2, 3, 2), view(rng, 2, 3, 2)), {}


def autoencoder_loss(what, draw, *sizes, rows):
    """sizes = (d_x, d_parent, classes)."""
    def build(rng):
        loss = AutoencoderLoss(Autoencoder(*sizes, rng=rng))
        x1, x2 = (draw(rng, rows, sizes[0]) for _ in range(2))
        return loss, (x1, x2, rng.integers(0, sizes[2], rows)), {}

    return Case(AutoencoderLoss, what, build)


def sequence_loss(rng):
    return (SequenceLoss(), (view(rng, 3, 4, 5), ids(rng, 5, 3, 4), ids(rng, 2, 3, 4) == 1), {})


def gpt(rng):
    return GPT(4, 4, 1, 2, 2, max_len=4, rng=rng), (ids(rng, 4, 2, 3),), {}


def lstm_lm(rng):
    state = view(rng, 1, 2, 3), view(rng, 1, 2, 3)
    return LSTMLM(4, 2, 1, 3, rng=rng), (ids(rng, 4, 2, 3), state), {}


def seq2seq(rng):
    model = Seq2Seq(5, 4, d_model=6, num_layers=1, num_heads=2, multiplier=1, max_len=6, rng=rng)
    return model, (ids(rng, 5, 2, 3), ids(rng, 4, 2, 4)), {}


CASES = [
    floats(QuantLinear, "strided", lambda rng: QuantLinear(Linear(3, 2, rng=rng)), (2, 4, 3)),
    floats(Dropout, "sizes of 1", lambda rng: Dropout(0.5), (1, 1), draw=normal, forward=same_mask),
    floats(Unembedding, "sizes of 1", lambda rng: Unembedding(Embedding(1, 1, rng=rng)), (1, 1),
           draw=normal),
    floats(LearnedPositions, "strided", lambda rng: LearnedPositions(5, 4, rng), (2, 3, 4)),
    floats(SinusoidalPositions, "strided", lambda rng: SinusoidalPositions(5, 4), (2, 3, 4)),
    floats(Select, "strided", lambda rng: Select(), (2, 3, 4), at=np.array([2, 0])),
    floats(FeedForward, "strided", lambda rng: FeedForward(4, 2, rng=rng), (2, 3, 4)),
    *(floats(cls, "strided", make, (2, 3, 4), mask=causal_mask(3), entries=8) for cls, make in (
        (Block, lambda rng: Block(4, 2, 2, rng=rng)),
        (Decoder, lambda rng: Decoder(2, 4, 2, 2, rng=rng)))),
    floats(DecoderBlock, "strided, lengths differ", lambda rng: DecoderBlock(4, 2, 2, rng=rng),
           (2, 2, 4), (2, 3, 4), mask=causal_mask(2)),
    floats(DecoderBlock, "sizes of 1", lambda rng: DecoderBlock(1, 1, 1, rng=rng), (1, 1, 1),
           (1, 1, 1), draw=normal),
    floats(AddReLU, "strided", lambda rng: AddReLU(3, 2, rng=rng), (4, 3), (4, 2),
           draw=off_zero_view),
    floats(AddReLU, "sizes of 1", lambda rng: AddReLU(1, 1, rng=rng), (1, 1), (1, 1),
           draw=off_zero),
    floats(Replace, "strided", lambda rng: Replace(), (2, 3, 2), (2, 3, 2)),
    floats(Replace, "sizes of 1", lambda rng: Replace(), (1, 1), (1, 1), draw=normal),
    floats(MessagePassing, "strided",
           lambda rng: MessagePassing(Linear(3, 2, rng=rng), AddReLU(3, 2, rng=rng)),
           (2, 4, 3), (4, 4)),
    floats(ThresholdNeuron, "flat, strided", lambda rng: ThresholdNeuron(3, 2, rng), (2, 4, 3)),
    floats(ThresholdNeuron, "flat, sizes of 1", lambda rng: ThresholdNeuron(1, 1, rng), (1, 1),
           draw=off_zero),
    floats(XOR, "flat, strided", lambda rng: XOR(), (2, 3, 2), draw=off_zero_view),
    floats(XOR, "flat, one row", lambda rng: XOR(), (1, 2), draw=off_zero),
    deep(RNN, lambda rng: RNN(2, 3, rng=rng)),
    deep(GRU, lambda rng: GRU(2, 3, rng=rng)),
    Case(Bidirectional, "strided, lengths", both_ways),
    floats(BiRNN, "strided", lambda rng: BiRNN(2, 3, 2, rng=rng), (2, 3, 2)),
    Case(BiRNNLoss, "strided", birnn_loss),
    floats(Autoencoder, "strided", lambda rng: Autoencoder(2, 3, 2, rng=rng), (3, 2), (3, 2)),
    autoencoder_loss("strided", view, 2, 3, 4, rows=3),
    autoencoder_loss("sizes of 1", normal, 1, 1, 1, rows=1),
    Case(SequenceLoss, "strided", sequence_loss),
    Case(GPT, "ids in a transposed view", gpt, entries=6),
    Case(LSTMLM, "ids in a transposed view, strided state", lstm_lm),
    Case(Seq2Seq, "ids in a transposed view", seq2seq, entries=3),
]
