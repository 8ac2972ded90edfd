"""Cases of RNN, GRU and LSTM, both directions, and the models made of them.

With lengths, what stands after a sequence's end is NaN: nothing may come of it.
"""

import numpy as np

from npdl.functions import length_mask
from npdl.layers.bidirectional import Bidirectional
from npdl.layers.recurrent import (
    GRU,
    LSTM,
    RNN,
    GRULayer,
    LSTMCell,
    LSTMLayer,
    RNNLayer,
)
from npdl.models.attentive_rnn import QUERIES, SCORES, AttentiveRNN
from npdl.models.birnn import BiRNN, BiRNNLoss
from npdl.models.lstm_lm import LSTMLM
from npdl.models.lstm_seq2seq import LSTMSeq2Seq
from npdl.study.check.examples import ids
from tests.tools.cases import case, same_mask
from tests.tools.composites import WithLoss

RAGGED = np.array([2, 4, 0, 4, 1])                          # unsorted, full, none, ties
NO_BIAS = {"bias": False}


def state(kind, *shape):
    """A state for an RNN, GRU or LSTM class: h, or (h, c)."""
    return [shape, shape] if kind in (LSTM, LSTMLayer, LSTMCell) else shape


def padded(lengths, S, D):
    """x (B, S, D), NaN after the end of each sequence."""
    def x(rng):
        real = np.arange(S)[:, None] < np.array(lengths)[:, None, None]
        return np.where(real, rng.standard_normal((len(lengths), S, D)), np.nan)

    return x


CASES = []
for kind in (RNNLayer, GRULayer, LSTMLayer):
    CASES += [
        case(kind, "lengths, given state", (2, 3), padded(RAGGED, 4, 2), state(kind, 5, 3),
             lengths=RAGGED),
        case(kind, "lengths all 0", (2, 2), padded([0, 0], 3, 2), state(kind, 2, 2),
             lengths=np.array([0, 0])),
        case(kind, "sizes of 1 with a length", (1, 1), (1, 1, 1), state(kind, 1, 1),
             lengths=np.array([1])),
    ]
for kind in (RNN, GRU, LSTM):
    CASES += [
        case(kind, "two layers, given state", (2, 3, 2), (2, 2, 2), state(kind, 2, 2, 3)),
        case(kind, "two layers, lengths, dropout", (3, 2, 2, {"dropout": 0.4}),
             padded([1, 3], 3, 3), state(kind, 2, 2, 2), lengths=np.array([1, 3]),
             forward=same_mask),
        case(kind, "three layers, no bias, dropout", (2, 2, 3, {**NO_BIAS, "dropout": 0.4}),
             (2, 2, 2), forward=same_mask),
    ]


def both_ways(ahead, back, layers=1, dropout=0.0):
    """ahead and back are (class, width)."""
    def make(rng):
        return Bidirectional(*(kind(2, width, layers, dropout=dropout, rng=rng)
                               for kind, width in (ahead, back)))

    return make


def both_states(ahead, back, B, layers=1):
    return [state(kind, layers, B, width) for kind, width in (ahead, back)]


R, G, L = (RNN, 3), (GRU, 2), (LSTM, 2)
CASES += [
    case(Bidirectional, "GRU, lengths", both_ways(G, G), padded(RAGGED, 4, 2),
         both_states(G, G, 5), lengths=RAGGED),
    case(Bidirectional, "LSTM, zero state", both_ways(L, L), (2, 3, 2)),
    case(Bidirectional, "LSTM, two layers, lengths", both_ways(L, L, 2), padded([3, 1, 2], 3, 2),
         both_states(L, L, 3, 2), lengths=np.array([3, 1, 2])),
    case(Bidirectional, "two layers, dropout", both_ways(G, G, 2, 0.4), (2, 2, 2),
         both_states(G, G, 2, 2), forward=same_mask),
    case(Bidirectional, "RNN ahead, LSTM of another width back", both_ways(R, L), (2, 3, 2),
         both_states(R, L, 2)),
    case(BiRNN, "the document's square sizes", (3,), (2, 3, 3), [(1, 2, 3)] * 2),
    case(BiRNN, "ragged", (2, 3, 2), padded(RAGGED, 4, 2), [(1, 5, 3)] * 2, lengths=RAGGED),
    case(BiRNNLoss, "the document's three steps", lambda rng: BiRNNLoss(BiRNN(2, rng=rng)),
         (1, 3, 2), (1, 3, 2), [(1, 1, 2)] * 2),
    case(BiRNNLoss, "ragged", lambda rng: BiRNNLoss(BiRNN(2, rng=rng)), padded(RAGGED, 4, 2),
         padded(RAGGED, 4, 2), lengths=RAGGED),
]

CASES += [
    case(AttentiveRNN, f"{score}, {query}, a past of 2", (2, 3, {"score": score, "query": query}),
         (2, 3, 2), [(2, 3), (2, 2, 3)])
    for score in SCORES for query in QUERIES
] + [
    case(AttentiveRNN, f"{query}, no past, no bias",
         (2, 3, {"score": "dot", "query": query, "bias": False}), (2, 3, 2))
    for query in QUERIES
] + [
    case(AttentiveRNN, "state without a past", (2, 3, {"score": "dot", "query": "previous"}),
         (2, 3, 2), [(2, 3), (2, 0, 3)]),
]

TOKENS = np.array([[0, 1, 2], [0, 1, 3], [3, 1, 2], [0, 1, 2]])     # one sequence twice
START = [(2, 4, 3)] * 2
SOME = np.array([2, 3, 0, 1])


def with_loss(model_options, *loss_options):
    return lambda rng: WithLoss(LSTMLM(4, 2, rng=rng, **model_options), *loss_options)


CASES += [
    case(LSTMLM, "a padding token that is not read", (5, 2, {"padding_id": 4}), TOKENS),
    case(LSTMLM, "lengths, given state", (4, 2, 2, 3), TOKENS, START, lengths=SOME),
    case(LSTMLM, "lengths, dropout, zero state", (4, 2, {"dropout": 0.4}), TOKENS, lengths=SOME,
         forward=same_mask),
    case(LSTMLM, "with its loss, lengths", with_loss({"d_hidden": 3}), TOKENS, ids(4, 4, 3),
         length_mask(SOME, 3), lengths=SOME),
    case(LSTMLM, "with its loss, sum by token, three layers",
         with_loss({"num_layers": 3}, "sum", "token"), TOKENS, ids(4, 4, 3),
         lambda rng: rng.random((4, 3)) < 0.7),
]

CASES += [
    case(LSTMSeq2Seq, "ragged", (5, 4, 2, 1, 3), ids(5, 4, 3), ids(4, 4, 2), lengths=SOME),
    case(LSTMSeq2Seq, "two layers, lengths, dropout, no bias",
         (5, 4, 2, 2, 3, {**NO_BIAS, "dropout": 0.4}), ids(5, 4, 3), ids(4, 4, 2), lengths=SOME,
         forward=same_mask),
]
