"""npdl's parameter names and layouts for the models of torch_reference.

`load(model, values)` fills a torch model from npdl's parameters; `arrays(model)` and
`gradients(model)` give the model's own under npdl's names, so a test compares dictionaries.

The two libraries store matrices differently. npdl's Linear computes x W + b with W (in, out),
torch's x W^T + b with W (out, in). npdl keeps the four gates of an LSTM side by side in the order
input, forget, output, candidate; `nn.LSTM` stacks input, forget, candidate, output and has a
second bias, which is set to zero here.
"""

import torch
from torch import nn

# Each npdl array is one or several pieces of torch parameters side by side. A piece is
# (parameter, index into it, whether npdl stores it transposed).

ALL = slice(None)


def _linear(name, linear):
    pieces = {f"{name}.W": [(linear.weight, ALL, True)]}
    if linear.bias is not None:
        pieces[f"{name}.b"] = [(linear.bias, ALL, False)]
    return pieces


def _norm(name, norm):
    pieces = {f"{name}.gain": [(norm.weight, ALL, False)]}
    if norm.bias is not None:
        pieces[f"{name}.bias"] = [(norm.bias, ALL, False)]
    return pieces


def _gpt_pieces(model):
    pieces = {"embedding.W": [(model.embedding.weight, ALL, False)]}
    if isinstance(model.positions, nn.Parameter):
        pieces["positions.W"] = [(model.positions, ALL, False)]
    for i, block in enumerate(model.blocks):
        for letter in "QKVO":
            linear = getattr(block.attention, f"W_{letter}")
            pieces |= _linear(f"decoder.blocks.{i}.attention.W_{letter}", linear)
        pieces |= _norm(f"decoder.blocks.{i}.norm1", block.norm1)
        pieces |= _linear(f"decoder.blocks.{i}.ffn.up", block.ffn.up)
        pieces |= _linear(f"decoder.blocks.{i}.ffn.down", block.ffn.down)
        pieces |= _norm(f"decoder.blocks.{i}.norm2", block.norm2)
    if isinstance(model.final_norm, nn.LayerNorm):
        pieces |= _norm("decoder.norm", model.final_norm)
    if model.classifier.weight is not model.embedding.weight:
        pieces |= _linear("classifier", model.classifier)
    return pieces


def _per_gate_pieces(model):
    pieces = {"embedding.W": [(model.embedding.weight, ALL, False)]}
    for i, cell in enumerate(model.cells):
        d_x = cell.input_gate.in_features - model.d_h
        name = f"lstm.layers.{i}.cell"
        pieces[f"{name}.W_x"] = [(g.weight, (ALL, slice(d_x)), True) for g in cell.gates()]
        pieces[f"{name}.W_h"] = [(g.weight, (ALL, slice(d_x, None)), True) for g in cell.gates()]
        if cell.input_gate.bias is not None:
            pieces[f"{name}.b"] = [(g.bias, ALL, False) for g in cell.gates()]
    return pieces | _linear("classifier", model.classifier)


def _lstm_pieces(model):
    pieces = {"embedding.W": [(model.embedding.weight, ALL, False)]}
    H = model.lstm.hidden_size
    order = [slice(k * H, (k + 1) * H) for k in (0, 1, 3, 2)]  # i f g o, read as i f o g
    for i in range(model.lstm.num_layers):
        name = f"lstm.layers.{i}.cell"
        for ours, theirs in (("W_x", "weight_ih"), ("W_h", "weight_hh"), ("b", "bias_ih")):
            if ours != "b" or model.lstm.bias:
                param = getattr(model.lstm, f"{theirs}_l{i}")
                pieces[f"{name}.{ours}"] = [(param, gate, ours != "b") for gate in order]
    return pieces | _linear("classifier", model.classifier)


def _pieces(model):
    if hasattr(model, "blocks"):
        return _gpt_pieces(model)
    return _per_gate_pieces(model) if hasattr(model, "cells") else _lstm_pieces(model)


def _gather(model, tensor_of):
    found = {}
    for name, pieces in _pieces(model).items():
        parts = [tensor_of(param)[index] for param, index, _ in pieces]
        parts = [part.T if piece[2] else part for part, piece in zip(parts, pieces, strict=True)]
        found[name] = torch.cat(parts, dim=-1).detach().clone().numpy()
    return found


def arrays(model):
    """{npdl's name: NumPy array in npdl's layout} of every parameter."""
    return _gather(model, lambda param: param)


def gradients(model):
    """The same for the gradients, after `loss.backward()`."""
    return _gather(model, lambda param: param.grad)


@torch.no_grad()
def load(model, values):
    """Copy npdl's parameters into `model`.

    Raises KeyError when names differ, ValueError when a shape does.
    """
    places = _pieces(model)
    if places.keys() != values.keys():
        raise KeyError(f"names differ: {sorted(places.keys() ^ values.keys())}")
    for name, pieces in places.items():
        parts = torch.from_numpy(values[name]).chunk(len(pieces), dim=-1)
        for (param, index, transposed), part in zip(pieces, parts, strict=True):
            target = param[index]
            part = part.T if transposed else part
            if target.shape != part.shape:
                raise ValueError(f"{name}: {tuple(part.shape)} given, {tuple(target.shape)} needed")
            target.copy_(part)
    if hasattr(model, "lstm") and model.lstm.bias:
        for i in range(model.lstm.num_layers):
            getattr(model.lstm, f"bias_hh_l{i}").zero_()
