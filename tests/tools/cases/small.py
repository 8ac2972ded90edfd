"""Cases of the autoencoder, the MLP, threshold neurons and message passing."""

import numpy as np

from npdl.layers.activation import Tanh
from npdl.layers.bidirectional import Bidirectional
from npdl.layers.dropout import Dropout
from npdl.layers.embedding import Embedding
from npdl.layers.graph import AddReLU, GraphAttention, MessagePassing, Replace
from npdl.layers.linear import Linear
from npdl.layers.recurrent import LSTM
from npdl.layers.sequential import Sequential
from npdl.models.autoencoder import Autoencoder
from npdl.study.check.examples import ids
from tests.tools.cases import case, same_mask


def passing(update=True):
    """Messages of width 2 from states of width 3."""
    def make(rng):
        f = Linear(3, 2, bias=True, rng=rng)
        return MessagePassing(f, AddReLU(3, 2, bias=True, rng=rng) if update else Replace())

    return make


def directed(rng):
    """A random graph without a node that hears no one."""
    return (rng.random((4, 4)) < 0.5) | np.eye(4, dtype=bool)


def deaf(rng):
    """A graph whose first node hears no one."""
    edges = directed(rng)
    edges[0] = False
    return edges


def chain(*layers):
    return lambda rng: Sequential(*(make(rng) for make in layers))


CASES = [
    case(Sequential, "maps and a nonlinearity, a chain in it", chain(
        lambda rng: Linear(3, 4, rng=rng), lambda rng: Sequential(Tanh(), Dropout(0.3)),
        lambda rng: Linear(4, 2, rng=rng)), (2, 5, 3), forward=same_mask),
    case(Sequential, "tokens with lengths, both ways", chain(
        lambda rng: Embedding(5, 3, rng=rng),
        lambda rng: Bidirectional(LSTM(3, 2, rng=rng), LSTM(3, 2, rng=rng)),
        lambda rng: Linear(4, 3, rng=rng)), ids(5, 3, 4), lengths=np.array([4, 2, 0])),
    case(Autoencoder, "two leading axes", (3, 2, 2), (2, 2, 3), (2, 2, 3)),
    case(MessagePassing, "one graph for a batch", passing(), (2, 3, 4, 3), (4, 4)),
    case(MessagePassing, "a graph each, kept messages only", passing(False), (2, 4, 3), (2, 4, 4)),
    case(MessagePassing, "edges yes or no", passing(), (2, 4, 3), directed),
    case(GraphAttention, "neighbours, a node that hears no one, scaled",
         (3, 2, {"scale": 0.7, "bias": True}), (2, 4, 3), neighbours=deaf),
]
