"""What the parity tests of the recurrent layers share: names, orders and signs of parameters."""

import numpy as np
import torch
from npdl.layers.gru import GRU
from npdl.layers.rnn import RNN

from npdl.layers.recurrent import LSTM

LIMIT = 1e-10
KINDS = {RNN: torch.nn.RNN, GRU: torch.nn.GRU, LSTM: torch.nn.LSTM}
# Which of npdl's blocks torch has at each place: r, z, n for the GRU; i, f, g, o for the LSTM.
ORDER = {RNN: [0], GRU: [1, 0, 2], LSTM: [0, 1, 3, 2]}
# torch's update gate keeps the old state: it is sigmoid(-a) where document 002 has sigmoid(a).
SIGN = {RNN: [1], GRU: [1, -1, 1], LSTM: [1, 1, 1, 1]}


def tensor(array, grad=True):
    return torch.tensor(np.ascontiguousarray(array), requires_grad=grad)


def close(a, b):
    b = b.detach().numpy() if isinstance(b, torch.Tensor) else b
    assert a.shape == b.shape
    assert np.abs(a - b).max(initial=0) <= LIMIT * max(1, np.abs(b).max(initial=0))


def parts(state):
    return state if isinstance(state, tuple) else (state,)


def state_of(kind, rng, *shape):
    return tuple(rng.standard_normal(shape) for _ in range(2)) if kind is LSTM else (
        rng.standard_normal(shape))


def to_torch(kind, W):
    """npdl's (rows, G) -> torch's (G, rows), its blocks in torch's order and sign."""
    blocks = np.split(W, len(ORDER[kind]), axis=-1)
    packed = [sign * blocks[i] for i, sign in zip(ORDER[kind], SIGN[kind], strict=True)]
    return np.concatenate(packed, axis=-1).T


def torch_parameters(kind, stack, module, suffix="", offset=0):
    """Yield (npdl Param, torch parameter); of torch's two biases the one on the input's side."""
    for i, layer in enumerate(stack.layers):
        names = {"W_x": "weight_ih", "W_h": "weight_hh", "b": "bias_ih"}
        for mine, theirs in names.items():
            param = getattr(layer.cell, mine)
            if param is not None:
                yield param, getattr(module, f"{theirs}_l{i + offset}{suffix}")


def load(kind, pairs, module):
    """Give torch npdl's values, and zeros for its second biases."""
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if name.startswith("bias_hh"):
                parameter.zero_()
        for param, parameter in pairs:
            parameter.copy_(torch.tensor(to_torch(kind, param.data)))


def torch_run(module, x, state, lengths):
    """(y, final state), with packed sequences when there are lengths."""
    if lengths is None:
        return module(x, state)
    packed = torch.nn.utils.rnn.pack_padded_sequence(
        x, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
    y, final = module(packed, state)
    y, _ = torch.nn.utils.rnn.pad_packed_sequence(y, batch_first=True, total_length=x.shape[1])
    return y, final


def backward_of(outputs, gradients):
    torch.autograd.backward(list(outputs), [torch.tensor(g) for g in gradients])


def tensors_of(layer):
    """{name: leaf tensor} of a layer's parameters."""
    return {name: tensor(param.data) for name, param in layer.params()}


def close_gradients(layer, tensors):
    for name, param in layer.params():
        close(param.grad, tensors[name].grad)
