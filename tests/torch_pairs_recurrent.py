"""Pairs of recurrent layers and of the models made of them (tests.torch_compare)."""

import torch
import torch.nn.functional as F
from npdl.layers.gru import GRU, GRUCell, GRULayer
from npdl.layers.rnn import RNN, RNNCell, RNNLayer
from torch import nn

from npdl.layers.bidirectional import Bidirectional
from npdl.layers.recurrent import LSTM, LSTMCell, LSTMLayer
from npdl.models.birnn import BiRNN
from npdl.models.lstm_lm import LSTMLM, LSTMOutput
from tests.torch_compare import Pair, sizes
from tests.torch_recurrent import ORDER, SIGN

FAMILY = {RNNCell: RNN, RNNLayer: RNN, RNN: RNN, GRUCell: GRU, GRULayer: GRU, GRU: GRU,
          LSTMCell: LSTM, LSTMLayer: LSTM, LSTM: LSTM}
MODULES = {RNN: nn.RNN, GRU: nn.GRU, LSTM: nn.LSTM}
CELLS = {RNN: torch.rnn_tanh_cell, GRU: torch.gru_cell, LSTM: torch.lstm_cell}


def packed(kind, P, name):
    """torch's four arrays of the cell called `name`: weights (G, rows), and a second bias of 0."""
    found = []
    for part in ("W_x", "W_h", "b"):
        blocks = P[name + part].chunk(len(ORDER[kind]), -1)
        order = zip(ORDER[kind], SIGN[kind], strict=True)
        joined = torch.cat([sign * blocks[i] for i, sign in order], -1)
        found.append(joined.T if joined.ndim == 2 else joined)
    return [*found, torch.zeros_like(found[-1])]


def run_module(module, weights, x, state=None, lengths=None):
    """nn.RNN, GRU or LSTM with these weights; packed where there are lengths."""
    module._flat_weights = weights
    if lengths is None:
        return module(x, state)
    rows = nn.utils.rnn.pack_padded_sequence(x, torch.tensor(lengths), batch_first=True,
                                             enforce_sorted=False)
    y, final = module(rows, state)
    return nn.utils.rnn.pad_packed_sequence(y, batch_first=True, total_length=x.shape[1])[0], final


def random_state(kind, rng, *shape):
    state = tuple(rng.standard_normal(shape) for _ in range(2 if kind is LSTM else 1))
    return state if kind is LSTM else state[0]


def cell(cls):
    kind = FAMILY[cls]

    def build(rng):
        B, D, H = sizes(rng, 3)
        return cls(D, H, rng=rng), (rng.standard_normal((B, D)), random_state(kind, rng, B, H)), {}

    return Pair(cls, "one step", f"nn.{cls.__name__}", build,
                lambda P, x, state: CELLS[kind](x, state, *packed(kind, P, "")))


def recurrent(cls, ragged):
    """A layer, or a stack of two."""
    kind, deep = FAMILY[cls], FAMILY[cls] is cls

    def build(rng):
        B, S, D, H = sizes(rng, 4)
        x, lead = rng.standard_normal((B, S, D)), (2,) if deep else ()
        layer = cls(D, H, 2, rng=rng) if deep else cls(D, H, rng=rng)
        options = {"lengths": rng.integers(1, S + 1, B)} if ragged else {}
        return layer, (x, random_state(kind, rng, *lead, B, H)), options

    def theirs(P, x, state, lengths=None):
        names = [f"layers.{i}.cell." for i in range(2)] if deep else ["cell."]
        weights = [w for name in names for w in packed(kind, P, name)]
        D, H = P[names[0] + "W_x"].shape[0], P[names[0] + "W_h"].shape[0]
        module = MODULES[kind](D, H, len(names), batch_first=True, dtype=x.dtype)
        if deep:
            return run_module(module, weights, x, state, lengths)
        state = tuple(s[None] for s in state) if kind is LSTM else state[None]
        y, final = run_module(module, weights, x, state, lengths)
        return y, tuple(s[0] for s in final) if kind is LSTM else final[0]

    return Pair(cls, "lengths" if ragged else "state", f"nn.{kind.__name__}", build, theirs)


def both_ways(kind, ragged):
    def build(rng):
        B, S, D, H = sizes(rng, 4)
        options = {"lengths": rng.integers(1, S + 1, B)} if ragged else {}
        layer = Bidirectional(kind(D, H, rng=rng), kind(D, H, rng=rng))
        start = tuple(random_state(kind, rng, 1, B, H) for _ in range(2))
        return layer, (rng.standard_normal((B, S, D)), start), options

    def theirs(P, x, start, lengths=None):
        weights = [w for side in ("ahead", "back") for w in packed(kind, P,
                                                                   f"{side}.layers.0.cell.")]
        D, H = P["ahead.layers.0.cell.W_x"].shape[0], P["ahead.layers.0.cell.W_h"].shape[0]
        module = MODULES[kind](D, H, batch_first=True, bidirectional=True, dtype=x.dtype)
        if kind is LSTM:
            state = tuple(torch.cat(part) for part in zip(*start, strict=True))
        else:
            state = torch.cat(start)
        y, final = run_module(module, weights, x, state, lengths)
        ends = [tuple(s[i : i + 1] for s in final) if kind is LSTM else final[i : i + 1]
                for i in range(2)]
        return y, tuple(ends)

    what = f"{kind.__name__}{', lengths' if ragged else ''}"
    return Pair(Bidirectional, what, f"nn.{kind.__name__}", build, theirs)


def birnn(rng):
    B, S, D, H, E = sizes(rng, 5)
    start = rng.standard_normal((1, B, H)), rng.standard_normal((1, B, H))
    return BiRNN(D, H, E, rng=rng), (rng.standard_normal((B, S, D)), start), {}


def their_birnn(P, x, start):
    weights = [P[f"rnn.{side}.layers.0.cell.{part}"].T for side in ("ahead", "back")
               for part in ("W_x", "W_h")]
    H, D = weights[0].shape
    module = nn.RNN(D, H, bias=False, batch_first=True, bidirectional=True, dtype=x.dtype)
    h, final = run_module(module, weights, x, torch.cat(start))
    y = F.linear(h[..., :H], P["V_f.W"].T) + F.linear(h[..., H:], P["V_b.W"].T)
    return y, (final[:1], final[1:])


def lstm_lm(rng):
    B, S, D, H = sizes(rng, 4)
    state = random_state(LSTM, rng, 2, B, H)
    lengths = rng.integers(1, S + 1, B)
    return LSTMLM(7, D, 2, H, rng=rng), (rng.integers(0, 7, (B, S)), state), {"lengths": lengths}


def their_lstm_lm(P, ids, state, lengths):
    weights = [w for i in range(2) for w in packed(LSTM, P, f"lstm.layers.{i}.cell.")]
    D, H = P["lstm.layers.0.cell.W_x"].shape[0], P["lstm.layers.0.cell.W_h"].shape[0]
    module = nn.LSTM(D, H, 2, batch_first=True, dtype=state[0].dtype)
    y, final = run_module(module, weights, F.embedding(ids, P["embedding.W"]), state, lengths)
    return LSTMOutput(F.linear(y, P["classifier.W"].T, P["classifier.b"]), final)


PAIRS = [
    *map(cell, (RNNCell, GRUCell, LSTMCell)),
    *(recurrent(cls, ragged) for cls in (RNNLayer, GRULayer, LSTMLayer, RNN, GRU, LSTM)
      for ragged in (False, True)),
    *(both_ways(kind, ragged) for kind in MODULES for ragged in (False, True)),
    Pair(BiRNN, "state", "nn.RNN and nn.Linear", birnn, their_birnn),
    Pair(LSTMLM, "state, lengths", "nn.LSTM and nn.Linear", lstm_lm, their_lstm_lm),
]
