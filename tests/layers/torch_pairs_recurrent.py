"""Pairs of recurrent layers and of the models made of them (tests.layers.torch_compare)."""

import torch
import torch.nn.functional as F
from torch import nn

from npdl.layers.bidirectional import Bidirectional
from npdl.layers.recurrent import (
    GRU,
    LSTM,
    RNN,
    GRUCell,
    GRULayer,
    LSTMCell,
    LSTMLayer,
    RNNCell,
    RNNLayer,
)
from npdl.models.attentive_rnn import QUERIES, SCORES, AttentiveRNN
from npdl.models.birnn import BiRNN, BiRNNLoss
from npdl.models.lstm_lm import LSTMLM
from npdl.models.lstm_seq2seq import LSTMSeq2Seq
from tests.layers.torch_compare import Pair, sizes

# Which of npdl's blocks torch has at each place: r, z, n for the GRU; i, f, g, o for the LSTM.
ORDER = {RNN: [0], GRU: [1, 0, 2], LSTM: [0, 1, 3, 2]}
# torch's update gate keeps the old state: it is sigmoid(-a) where document 002 has sigmoid(a).
SIGN = {RNN: [1], GRU: [1, -1, 1], LSTM: [1, 1, 1, 1]}
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
    return F.linear(y, P["classifier.W"].T, P["classifier.b"]), final


def lstm_seq2seq(rng):
    B, S, T, D, H = sizes(rng, 5)
    source, target = (rng.integers(0, 7, (B, length)) for length in (S, T))
    lengths = rng.integers(1, S + 1, B)
    return LSTMSeq2Seq(7, 7, D, 2, H, rng=rng), (source, target), {"lengths": lengths}


def their_lstm_seq2seq(P, source, target, lengths):
    """nn.LSTM twice, and Luong et al.'s formulas between them."""
    def run(side, part, ids, *more):
        weights = [w for i in range(2) for w in packed(LSTM, P, f"{side}.layers.{i}.cell.")]
        H, W = P[f"{side}.layers.0.cell.W_h"].shape[0], P[f"{part}_embedding.W"]
        module = nn.LSTM(W.shape[1], H, 2, batch_first=True, dtype=W.dtype)
        return run_module(module, weights, F.embedding(ids, W), *more)

    memory, state = run("encoder", "source", source, None, lengths)
    h, _ = run("decoder", "target", target, state)
    scores = torch.einsum("bth,bsh->bts", h, memory)
    padding = torch.arange(source.shape[1]) >= torch.tensor(lengths)[:, None]
    scores = scores.masked_fill(padding[:, None], -torch.inf)
    a = torch.einsum("bts,bsh->bth", scores.softmax(-1), memory)
    u = torch.tanh(F.linear(torch.cat([a, h], -1), P["combine.W"].T, P["combine.b"]))
    return F.linear(u, P["classifier.W"].T, P["classifier.b"])


def gru_formula(rng):
    B, S, D, H = sizes(rng, 4)
    lengths = rng.integers(0, S + 1, B)
    return (GRU(D, H, rng=rng), (rng.standard_normal((B, S, D)), rng.standard_normal((1, B, H))),
            {"lengths": lengths})


def their_gru_formula(P, x, state, lengths):
    """Document 002, Problem 2, step by step."""
    W, U, b = (P[f"layers.0.cell.{part}"].chunk(3, -1) for part in ("W_x", "W_h", "b"))
    h, ys = state[0], []
    for t in range(x.shape[1]):
        z, r = (torch.sigmoid(x[:, t] @ W[i] + h @ U[i] + b[i]) for i in range(2))
        h_hat = torch.tanh(x[:, t] @ W[2] + b[2] + r * (h @ U[2]))
        real = torch.tensor(lengths)[:, None] > t
        h = torch.where(real, (1 - z) * h + z * h_hat, h)
        ys.append(torch.where(real, h, 0.0))
    return torch.stack(ys, 1), h[None]


def birnn_loss(rng):
    B, S, D = sizes(rng, 3)
    start = rng.standard_normal((1, B, D)), rng.standard_normal((1, B, D))
    return (BiRNNLoss(BiRNN(D, rng=rng)),
            (rng.standard_normal((B, S, D)), rng.standard_normal((B, S, D)), start), {})


def their_birnn_loss(P, x, z, start):
    P = {name.removeprefix("model."): value for name, value in P.items()}
    y, _ = their_birnn(P, x, start)
    return ((z - y) ** 2).sum()


def attentive(score, query):
    def build(rng):
        B, S, past, D, H = sizes(rng, 5)
        start = rng.standard_normal((B, H)), rng.standard_normal((B, past, H))
        layer = AttentiveRNN(D, H, score=score, query=query, rng=rng)
        return layer, (rng.standard_normal((B, S, D)), start), {}

    def scores(P, q, keys):
        """q (B, H), keys (B, n, H) -> (B, n)."""
        if score == "additive":
            u, w = q @ P["attention.W_q.W"], keys @ P["attention.W_k.W"]
            return torch.tanh(u[:, None] + w) @ P["attention.a"]
        dot = (keys * q[:, None]).sum(-1)
        return dot / q.shape[1] ** 0.5 if score == "scaled-dot" else dot

    def theirs(P, x, start):
        h, states = start[0], list(start[1].unbind(1))
        for t in range(x.shape[1]):
            s = torch.tanh(x[:, t] @ P["cell.W_x"] + h @ P["cell.W_h"] + P["cell.b"])
            keys = torch.stack(states, 1)
            alpha = scores(P, s if query == "preliminary" else h, keys).softmax(-1)
            h = s + (alpha[..., None] * keys).sum(1)
            states.append(h)
        states = torch.stack(states, 1)
        return states[:, start[1].shape[1]:], (h, states)

    return Pair(AttentiveRNN, f"{score}, {query}", "its formula", build, theirs)


PAIRS = [
    *map(cell, (RNNCell, GRUCell, LSTMCell)),
    *(recurrent(cls, ragged) for cls in (RNNLayer, GRULayer, LSTMLayer, RNN, GRU, LSTM)
      for ragged in (False, True)),
    *(both_ways(kind, ragged) for kind in MODULES for ragged in (False, True)),
    Pair(BiRNN, "state", "nn.RNN and nn.Linear", birnn, their_birnn),
    Pair(GRU, "the document's formula", "its formula", gru_formula, their_gru_formula),
    Pair(BiRNNLoss, "the document's sizes", "its formula", birnn_loss, their_birnn_loss),
    *(attentive(score, query) for score in SCORES for query in QUERIES),
    Pair(LSTMLM, "state, lengths", "nn.LSTM and nn.Linear", lstm_lm, their_lstm_lm),
    Pair(LSTMSeq2Seq, "lengths", "nn.LSTM, its formula", lstm_seq2seq, their_lstm_seq2seq),
]
