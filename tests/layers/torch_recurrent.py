"""What PyTorch computes for recurrent layers and the models made of them (see torch_layers.py)."""

import torch
import torch.nn.functional as F
from torch import nn

from npdl.functions import map_state
from npdl.layers.attention import AdditiveAttention, ScaledDotAttention
from npdl.layers.bidirectional import Bidirectional, BidirectionalStack
from npdl.layers.gru import (
    ResetAfterGRU,
    ResetAfterGRUCell,
    ResetAfterGRULayer,
    ResetBeforeGRUCell,
)
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
from npdl.models.attentive_rnn import AttentiveRNN
from npdl.models.birnn import BiRNN, BiRNNLoss
from npdl.models.lstm_lm import LSTMLM
from npdl.models.lstm_seq2seq import LSTMSeq2Seq
from tests.layers.torch_layers import linear

# Which of npdl's blocks torch has at each place: r, z, n for the GRU; i, f, g, o for the LSTM.
ORDER = {RNNCell: [0], GRUCell: [1, 0, 2], ResetAfterGRUCell: [1, 0, 2], LSTMCell: [0, 1, 3, 2]}
# torch's update gate keeps the old state: it is sigmoid(-a) where document 002 has sigmoid(a).
SIGN = {RNNCell: [1], GRUCell: [1, -1, 1], ResetAfterGRUCell: [1, -1, 1], LSTMCell: [1, 1, 1, 1]}
MODULES = {RNNCell: nn.RNN, GRUCell: nn.GRU, ResetAfterGRUCell: nn.GRU, LSTMCell: nn.LSTM}
CELLS = {RNNCell: torch.rnn_tanh_cell, GRUCell: torch.gru_cell, ResetAfterGRUCell: torch.gru_cell,
         LSTMCell: torch.lstm_cell}


def weights(cell, P, name):
    """torch's four arrays of the cell called `name`: weights (G, rows), and two biases."""
    kind, found, W_h = type(cell), [], P[f"{name}W_h"]
    zero = torch.zeros_like(W_h[0])
    for array in (P[f"{name}W_x"], W_h, P.get(f"{name}b", zero), P.get(f"{name}b_h", zero)):
        blocks = array.chunk(len(ORDER[kind]), -1)
        order = zip(ORDER[kind], SIGN[kind], strict=True)
        joined = torch.cat([sign * blocks[i] for i, sign in order], -1)
        found.append(joined.T if joined.ndim == 2 else joined)
    return found


def run(cells, P, x, state=None, lengths=None, **options):
    """nn.RNN, GRU or LSTM of {name: cell}; packed where there are lengths."""
    first = next(iter(cells.values()))
    D, H = P[f"{next(iter(cells))}W_x"].shape[0], first.d_hidden
    depth = len(cells) // (2 if options.get("bidirectional") else 1)
    module = MODULES[type(first)](D, H, depth, batch_first=True, dtype=x.dtype, **options)
    module._flat_weights = [w for name, cell in cells.items() for w in weights(cell, P, name)]
    if lengths is None:
        return module(x, state)
    rows = nn.utils.rnn.pack_padded_sequence(x, torch.tensor(lengths), batch_first=True,
                                             enforce_sorted=False)
    y, final = module(rows, state)
    return nn.utils.rnn.pad_packed_sequence(y, batch_first=True, total_length=x.shape[1])[0], final


def cell(layer, P, x, state=None):
    if state is None:
        zeros = x.new_zeros(len(x), layer.d_hidden)
        state = (zeros, zeros) if isinstance(layer, LSTMCell) else zeros
    return CELLS[type(layer)](x, state, *weights(layer, P, ""))


def one_layer(layer, P, x, state=None, lengths=None):
    state = None if state is None else map_state(lambda s: s[None], state)
    y, final = run({"cell.": layer.cell}, P, x, state, lengths)
    return y, map_state(lambda s: s[0], final)


def stack(layer, P, x, state=None, lengths=None, name=""):
    cells = {f"{name}layers.{i}.cell.": own.cell for i, own in enumerate(layer.layers)}
    return run(cells, P, x, state, lengths)


def reset_before(layer, P, x, h=None):
    """Cho et al. 2014."""
    h = x.new_zeros(len(x), layer.d_hidden) if h is None else h
    a_z, a_r, a_h = (x @ P["W_x"] + P.get("b", 0)).chunk(3, -1)
    W_z, W_r, W_c = P["W_h"].chunk(3, -1)
    z, r = torch.sigmoid(a_z + h @ W_z), torch.sigmoid(a_r + h @ W_r)
    return (1 - z) * h + z * torch.tanh(a_h + (r * h) @ W_c)


def both_ways_stacked(layer, P, x, start=None, lengths=None):
    cells = {f"layers.{i}.{side}.layers.0.cell.": getattr(own, side).layers[0].cell
             for i, own in enumerate(layer.layers) for side in ("ahead", "back")}
    state = None if start is None else torch.cat([s for pair in start for s in pair])
    y, final = run(cells, P, x, state, lengths, bidirectional=True)
    return y, tuple((final[i : i + 1], final[i + 1 : i + 2]) for i in range(0, len(final), 2))


def both_ways(layer, P, x, start=None, lengths=None, name=""):
    cells = {f"{name}{side}.layers.0.cell.": getattr(layer, side).layers[0].cell
             for side in ("ahead", "back")}
    state = None if start is None else torch.cat(start) if torch.is_tensor(start[0]) else tuple(
        map(torch.cat, zip(*start, strict=True)))
    y, final = run(cells, P, x, state, lengths, bidirectional=True)
    return y, tuple(map_state(lambda s, i=i: s[i : i + 1], final) for i in range(2))


def birnn(layer, P, x, state=None, lengths=None, name=""):
    h, final = both_ways(layer.rnn, P, x, state, lengths, f"{name}rnn.")
    h_f, h_b = h.chunk(2, -1)
    return linear(P, h_f, f"{name}V_f.") + linear(P, h_b, f"{name}V_b."), final


def birnn_loss(layer, P, x, z, state=None, lengths=None):
    y, _ = birnn(layer.model, P, x, state, lengths, "model.")
    real = torch.arange(x.shape[1]) < torch.tensor([x.shape[1]] * len(x) if lengths is None
                                                   else lengths)[:, None]
    return (real[..., None] * (z - y) ** 2).sum()


def lstm_lm(layer, P, ids, state=None, lengths=None):
    x = F.embedding(ids, P["embedding.W"], layer.embedding.padding_id)
    y, final = stack(layer.lstm, P, x, state, lengths, "lstm.")
    return linear(P, y, "classifier."), final


def lstm_seq2seq(layer, P, source, target, lengths=None):
    """nn.LSTM twice, and Luong et al.'s formulas between them."""
    x, y = (F.embedding(ids, P[f"{side}_embedding.W"])
            for side, ids in (("source", source), ("target", target)))
    memory, state = stack(layer.encoder, P, x, None, lengths, "encoder.")
    h, _ = stack(layer.decoder, P, y, state, None, "decoder.")
    scores = torch.einsum("bth,bsh->bts", h, memory)
    if lengths is not None:
        padding = torch.arange(source.shape[1]) >= torch.tensor(lengths)[:, None]
        scores = scores.masked_fill(padding[:, None], -torch.inf)
    a = torch.einsum("bts,bsh->bth", scores.softmax(-1), memory)
    u = torch.tanh(linear(P, torch.cat([a, h], -1), "combine."))
    return linear(P, u, "classifier.")


def attentive(layer, P, x, start=None):
    """Document 002, Problem 5."""
    def scores(q, keys):                                    # q (B, H), keys (B, n, H) -> (B, n)
        if isinstance(layer.attention, AdditiveAttention):
            u, w = q @ P["attention.W_q.W"], keys @ P["attention.W_k.W"]
            return torch.tanh(u[:, None] + w) @ P["attention.a"]
        dot = (keys * q[:, None]).sum(-1)
        return dot / q.shape[1] ** 0.5 if isinstance(layer.attention, ScaledDotAttention) else dot

    W_h = P["cell.W_h"]
    h, past = (x.new_zeros(len(x), len(W_h)), x.new_zeros(len(x), 0, len(W_h))) if start is None \
        else start
    states = list(past.unbind(1))
    for t in range(x.shape[1]):
        s, q = torch.tanh(x[:, t] @ P["cell.W_x"] + h @ W_h + P.get("cell.b", 0)), h
        h = s
        if states:
            keys = torch.stack(states, 1)
            alpha = scores(s if layer.query == "preliminary" else q, keys).softmax(-1)
            h = s + (alpha[..., None] * keys).sum(1)
        states.append(h)
    states = torch.stack(states, 1)
    return states[:, past.shape[1]:], (h, states)


THEIRS = {
    **dict.fromkeys((RNNCell, GRUCell, ResetAfterGRUCell, LSTMCell), cell),
    **dict.fromkeys((RNNLayer, GRULayer, ResetAfterGRULayer, LSTMLayer), one_layer),
    **dict.fromkeys((RNN, GRU, ResetAfterGRU, LSTM), stack),
    ResetBeforeGRUCell: reset_before, BidirectionalStack: both_ways_stacked,
    Bidirectional: both_ways, BiRNN: birnn, BiRNNLoss: birnn_loss, AttentiveRNN: attentive,
    LSTMLM: lstm_lm, LSTMSeq2Seq: lstm_seq2seq,
}
