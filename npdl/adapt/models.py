"""Adapt a trained model: quantize it, add adapters, merge them, and count parameters.

    quantize_linears(model, bits=4)         # only for QLoRA
    add_lora(model, rank=4)                 # then train as usual: only the adapters change
    make_report(model).trainable            # the number of parameters that are trained
    merge_lora(model)                       # Linears again, without adapters
"""

import math
from dataclasses import dataclass

from npdl.adapt.linears import FrozenLinear, LoRALinear, QuantLinear
from npdl.core import Param, map_nested, named_layers, walk
from npdl.errors import InputError
from npdl.init import generator
from npdl.layers.linear import Linear


def add_lora(model, rank=4, *, alpha=None, where=None, rng=0):
    """Replace linear layers of `model` by LoRALinears, and freeze all other parameters.

    `where` selects the layers:
        None                     every Linear and QuantLinear
        a name, or several       the layers whose dotted name is this name, or ends with a dot and
                                 this name: "W_Q" selects "blocks.0.W_Q"
    `rank`, `alpha` and `rng` are the arguments of LoRALinear. Changes `model` in place and returns
    the dotted names of the adapters. Make the optimizer after this call. Raises InputError, and
    changes nothing, if no layer is selected or the model already has adapters.
    """
    if any(isinstance(layer, LoRALinear) for _, layer in named_layers(model)):
        raise InputError("add_lora: the model already has adapters; merge_lora removes them")
    rng = generator(rng)
    names, layers = _select_layers(model, (Linear, QuantLinear), where, "add_lora")
    adapters = {id(layer): LoRALinear(layer, rank, alpha=alpha, rng=rng) for layer in layers}
    model.set_trainable(False)          # only now, because making an adapter may raise an error
    _replace_layers(model, adapters)
    return names


def quantize_linears(model, bits=4, *, rounding="floor", block=None, double=False, where=None):
    """Replace the Linears of `model` that `where` selects (see add_lora) by QuantLinears.

    The other arguments are those of QuantLinear. Changes `model` in place and returns the dotted
    names of the layers. Raises InputError, and changes nothing, if no layer is selected or the
    weights can't be quantized.
    """
    names, layers = _select_layers(model, Linear, where, "quantize_linears")
    _replace_layers(model, {
        id(layer): QuantLinear(layer, bits, rounding=rounding, block=block, double=double)
        for layer in layers})
    return names


def merge_lora(model):
    """Replace every adapter by a Linear with the same output, and return {name: adapter}.

    The parameters then have the same names as before add_lora. Quantized weights become floats. All
    parameters are frozen; model.set_trainable(True) unfreezes them.
    """
    adapters = {n: layer for n, layer in named_layers(model) if isinstance(layer, LoRALinear)}
    if not adapters:
        raise InputError("merge_lora: the model has no adapters; add_lora adds them")
    _replace_layers(model, {id(adapter): merged_linear(adapter) for adapter in adapters.values()})
    return adapters


def merged_linear(adapter):
    """Return a frozen Linear with the weights W + scale A B^T and the bias b of a LoRALinear.

    The arrays are copies, and the LoRALinear does not change.
    """
    W, b = adapter.base.weight(), adapter.base.b
    linear = Linear(*adapter.sizes, bias=isinstance(b, Param), dtype=W.dtype)
    linear.W.data[...] = W + adapter.scale * (adapter.A.data @ adapter.B.data.T)
    if isinstance(b, Param):
        linear.b.data[...] = b.data
    linear.set_trainable(False)
    return linear


@dataclass
class Report:
    """Numbers of parameters, their bytes, and the multiplications for one row of input."""

    trainable: int
    frozen: int
    stored_bytes: int
    multiplies: int


def make_report(model):
    """Return a Report of the parameters of `model` and the multiplications of its linear layers.

    The stored bytes of a quantized layer are those of its codes and step sizes.
    """
    multiplications, inside, num_entries = 0, set(), {}
    for layer in walk(model):
        if isinstance(layer, (Linear, FrozenLinear, LoRALinear)) and id(layer) not in inside:
            inside.update(id(part) for part in walk(layer))
            multiplications += count_multiplications(layer, 1)
        if isinstance(layer, QuantLinear):
            num_entries |= {id(layer.packed): math.prod(layer.sizes), id(layer.step): 0,
                           id(layer.scale): 0}
    params = [param for _, param in model.params(with_frozen=True)]
    frozen = sum(num_entries.get(id(param), param.data.size)
                 for param in params if not param.trainable)
    return Report(model.count_params(), frozen, sum(param.data.nbytes for param in params),
                  multiplications)


def _select_layers(model, classes, where, caller):
    """Return the names of the layers that `where` selects (see add_lora), and each layer once.

    A shared layer has several names.
    """
    ends = (where,) if isinstance(where, str) else () if where is None else where
    if not isinstance(ends, (tuple, list)) or not all(isinstance(end, str) for end in ends):
        raise InputError(f"{caller}: where = {where!r}; it must be a name, a list of names or None")
    candidates = {name: layer for name, layer in named_layers(model)
                  if name and isinstance(layer, classes)}
    chosen = {name: layer for name, layer in candidates.items() if where is None
              or any(name == end or name.endswith("." + end) for end in ends)}
    if not chosen:
        raise InputError(f"{caller}: no linear layer fits where = {where!r}; "
                         f"the model has: {', '.join(candidates) or 'none'}")
    return list(chosen), {id(layer): layer for layer in chosen.values()}.values()


def _replace_layers(model, replacements):
    """Replace layers of `model` in place. `replacements` is {id(layer): its new layer}."""
    for layer in list(walk(model)):
        for name, value in vars(layer).items():
            new = map_nested(lambda item: replacements.get(id(item), item), value)
            setattr(layer, name, new)


def count_multiplications(layer, rows):
    """Return the number of multiplications of a linear layer's forward over `rows` rows.

    Dequantizing W (D, E) counts as D * E. A LoRA scale of 1 is not counted.
    """
    D, E = layer.sizes
    if isinstance(layer, LoRALinear):
        rank = layer.A.shape[1]
        scaling = 0 if layer.scale == 1 else rows * rank
        return count_multiplications(layer.base, rows) + rows * rank * (D + E) + scaling
    return rows * D * E + (D * E if isinstance(layer, QuantLinear) else 0)
