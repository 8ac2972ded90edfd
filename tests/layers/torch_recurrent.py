"""Compute with PyTorch what npdl's recurrent layers compute (see torch_layers.py)."""

import torch
from torch import nn

from npdl.functions import map_state
from npdl.layers.bidirectional import Bidirectional, BidirectionalStack
from npdl.layers.gru import ResetAfterGRU, ResetAfterGRUCell
from npdl.layers.recurrent import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNCell

# The index of npdl's gate for each gate of torch: r, z, n of the GRU; i, f, g, o of the LSTM.
ORDER = {RNNCell: [0], GRUCell: [1, 0, 2], ResetAfterGRUCell: [1, 0, 2], LSTMCell: [0, 1, 3, 2]}
# torch's update gate keeps the old state: it is sigmoid(-a) where document 002 has sigmoid(a).
SIGN = {RNNCell: [1], GRUCell: [1, -1, 1], ResetAfterGRUCell: [1, -1, 1], LSTMCell: [1, 1, 1, 1]}
MODULES = {RNNCell: nn.RNN, GRUCell: nn.GRU, ResetAfterGRUCell: nn.GRU, LSTMCell: nn.LSTM}
CELLS = {RNNCell: torch.rnn_tanh_cell, GRUCell: torch.gru_cell, ResetAfterGRUCell: torch.gru_cell,
         LSTMCell: torch.lstm_cell}


def torch_weights(cell, P, name):
    """Return torch's four arrays for a cell: two weights (G, rows) and two biases (G,)."""
    kind, found, W_h = type(cell), [], P[f"{name}W_h"]
    zero = torch.zeros_like(W_h[0])
    for array in (P[f"{name}W_x"], W_h, P.get(f"{name}b", zero), P.get(f"{name}b_h", zero)):
        blocks = array.chunk(len(ORDER[kind]), -1)
        order = zip(ORDER[kind], SIGN[kind], strict=True)
        joined = torch.cat([sign * blocks[i] for i, sign in order], -1)
        found.append(joined.T if joined.ndim == 2 else joined)
    return found


def run_torch_rnn(cells, P, x, state=None, lengths=None, **options):
    """Run nn.RNN, nn.GRU or nn.LSTM with the weights of {name: cell}."""
    first = next(iter(cells.values()))
    D, H = P[f"{next(iter(cells))}W_x"].shape[0], first.d_hidden
    depth = len(cells) // (2 if options.get("bidirectional") else 1)
    module = MODULES[type(first)](D, H, depth, batch_first=True, dtype=x.dtype, **options)
    module._flat_weights = [w for name, cell in cells.items() for w in torch_weights(cell, P, name)]
    if lengths is None:
        return module(x, state)
    rows = nn.utils.rnn.pack_padded_sequence(x, torch.tensor(lengths), batch_first=True,
                                             enforce_sorted=False)
    y, final = module(rows, state)
    return nn.utils.rnn.pad_packed_sequence(y, batch_first=True, total_length=x.shape[1])[0], final


def run_cell(layer, P, x, state=None):
    if state is None:
        zeros = x.new_zeros(len(x), layer.d_hidden)
        state = (zeros, zeros) if isinstance(layer, LSTMCell) else zeros
    return CELLS[type(layer)](x, state, *torch_weights(layer, P, ""))


def recurrent_stack(layer, P, x, state=None, lengths=None):
    cells = {f"layers.{i}.cell.": own.cell for i, own in enumerate(layer.layers)}
    return run_torch_rnn(cells, P, x, state, lengths)


def bidirectional_stack(layer, P, x, states=None, lengths=None):
    cells = {f"layers.{i}.{side}.layers.0.cell.": getattr(own, side).layers[0].cell
             for i, own in enumerate(layer.layers) for side in ("ahead", "back")}
    state = None if states is None else torch.cat([s for pair in states for s in pair])
    y, final = run_torch_rnn(cells, P, x, state, lengths, bidirectional=True)
    return y, tuple((final[i : i + 1], final[i + 1 : i + 2]) for i in range(0, len(final), 2))


def bidirectional(layer, P, x, states=None, lengths=None):
    cells = {f"{side}.layers.0.cell.": getattr(layer, side).layers[0].cell
             for side in ("ahead", "back")}
    state = None if states is None else torch.cat(states) if torch.is_tensor(states[0]) else tuple(
        map(torch.cat, zip(*states, strict=True)))
    y, final = run_torch_rnn(cells, P, x, state, lengths, bidirectional=True)
    return y, tuple(map_state(lambda s, i=i: s[i : i + 1], final) for i in range(2))


THEIRS = {
    **dict.fromkeys((RNNCell, GRUCell, ResetAfterGRUCell, LSTMCell), run_cell),
    **dict.fromkeys((RNN, GRU, ResetAfterGRU, LSTM), recurrent_stack),
    Bidirectional: bidirectional, BidirectionalStack: bidirectional_stack,
}
