"""Adapt a trained model: quantize it, add adapters, merge them, and count parameters.

    quantize_linears(model, bits=4)         # only for QLoRA
    add_lora(model, rank=4)                 # then train as usual: only the adapters change
    print(report(model))
    merge_lora(model)                       # Linears again, without adapters
"""

import math
from dataclasses import dataclass

from npdl.adapt.linears import FrozenLinear, LoRALinear, QuantLinear
from npdl.core import Layer, Param, named_layers, walk
from npdl.errors import InputError
from npdl.init import generator
from npdl.layers.linear import Linear


def add_lora(model, rank=4, *, alpha=None, where=None, rng=0):
    """Replace linear layers of `model` by LoRALinears, and freeze all other parameters.

    `where` selects the layers:
        None                     every Linear and QuantLinear
        a name, or several       layers whose dotted name is, or ends with, a name such as "W_Q"
        a function               layers for whose dotted names the function returns True
    `rank`, `alpha` and `rng` are the arguments of LoRALinear. Changes `model` in place and returns
    the dotted names of the adapters. Make the optimizer after this call. Raises InputError, and
    changes nothing, if no layer is selected or the model already has adapters.
    """
    if any(isinstance(layer, LoRALinear) for _, layer in named_layers(model)):
        raise InputError("add_lora: the model already has adapters; merge_lora removes them")
    rng = generator(rng)
    chosen = _choose(model, (Linear, QuantLinear), where, "add_lora")
    adapters = {}                                           # make all before the model is changed
    for layer in chosen.values():
        if id(layer) not in adapters:                       # a shared layer has one adapter
            adapters[id(layer)] = LoRALinear(layer, rank, alpha=alpha, rng=rng)
    model.set_trainable(False)
    for name, layer in chosen.items():
        _put(model, name, adapters[id(layer)])
    return list(chosen)


def quantize_linears(model, bits=4, *, rounding="floor", block=None, double=False, where=None):
    """Replace the Linears of `model` that `where` selects (see add_lora) by QuantLinears.

    The other arguments are those of QuantLinear. Changes `model` in place and returns the dotted
    names of the layers. Raises InputError, and changes nothing, if no layer is selected or the
    weights can't be quantized.
    """
    chosen = _choose(model, (Linear,), where, "quantize_linears")
    quantized = {}
    for layer in chosen.values():
        if id(layer) not in quantized:
            quantized[id(layer)] = QuantLinear(layer, bits, rounding=rounding, block=block,
                                               double=double)
    for name, layer in chosen.items():
        _put(model, name, quantized[id(layer)])
    return list(chosen)


def merge_lora(model):
    """Replace every adapter by a Linear that computes the same, and return {name: adapter}.

    The parameters then have the same names as before add_lora. Quantized weights become floats. All
    parameters are frozen; model.set_trainable(True) unfreezes them.
    """
    adapters = {n: layer for n, layer in named_layers(model) if isinstance(layer, LoRALinear)}
    if not adapters:
        raise InputError("merge_lora: the model has no adapters; add_lora adds them")
    merged = {id(adapter): merged_linear(adapter) for adapter in adapters.values()}
    for name, adapter in adapters.items():
        _put(model, name, merged[id(adapter)])
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
class Row:
    """One linear layer of a Report. `kind` is its class; Report explains the other fields."""

    name: str
    kind: str
    trainable: int
    stored_bytes: int
    multiplies: int


@dataclass
class Report:
    """The linear layers of a model, and the totals over all its parameters.

    `trainable` and `frozen` count parameters, and `stored_bytes` is their memory. `multiplies` is
    the number of multiplications in the linear layers for `rows` rows of input.
    """

    rows: int
    layers: list
    trainable: int
    frozen: int
    stored_bytes: int

    @property
    def multiplies(self):
        return sum(row.multiplies for row in self.layers)

    def __str__(self):
        width = max([len(row.name) for row in self.layers] + [20])
        head = ("layer", "kind", "trainable", "bytes", f"multiplies ({self.rows} rows)")
        table = [(r.name, r.kind, r.trainable, r.stored_bytes, r.multiplies) for r in self.layers]
        table.append(("all parameters", "", self.trainable, self.stored_bytes, self.multiplies))
        lines = [f"{head[0]:<{width}}  {head[1]:<22}{head[2]:>12}{head[3]:>12}  {head[4]:>22}"]
        for name, kind, trainable, stored, multiplies in table:
            lines.append(f"{name:<{width}}  {kind:<22}{trainable:>12,}{stored:>12,}"
                         f"  {multiplies:>22,}")
        lines.append(f"frozen parameters: {self.frozen:,}")
        return "\n".join(lines)


def report(model, rows=1):
    """Return a Report on `model`, with the multiplications of a forward pass over `rows` rows.

    The stored bytes of a quantized layer are those of its codes and step sizes.
    """
    layers, inside, num_entries = [], set(), {}
    for name, layer in named_layers(model):
        if isinstance(layer, (Linear, FrozenLinear, LoRALinear)) and id(layer) not in inside:
            inside.update(id(part) for part in walk(layer))
            kind = type(layer).__name__
            if isinstance(layer, LoRALinear):
                kind += "+" + type(layer.base).__name__
            layers.append(Row(name, kind, layer.count_params(), _bytes(layer),
                              multiplies(layer, rows)))
        if isinstance(layer, QuantLinear):
            num_entries |= {id(layer.packed): math.prod(layer.sizes), id(layer.step): 0,
                           id(layer.scale): 0}
    frozen = sum(num_entries.get(id(param), param.data.size)
                 for _, param in model.params(frozen=True) if not param.trainable)
    return Report(rows, layers, model.count_params(), frozen, _bytes(model))


def _choose(model, kinds, where, caller):
    """Return {dotted name: layer} of the layers of these kinds that `where` selects."""
    ends = (where,) if isinstance(where, str) else where
    if where is None or callable(where):
        wanted = where or (lambda name: True)
    elif isinstance(ends, (tuple, list)) and all(isinstance(end, str) for end in ends):
        def wanted(name):
            return any(name == end or name.endswith("." + end) for end in ends)
    else:
        raise InputError(f"{caller}: where = {where!r}; it must be a name, several names, a "
                         "function of a name, or None")

    candidates = {name: layer for name, layer in named_layers(model)
                  if name and isinstance(layer, kinds)}
    chosen = {name: layer for name, layer in candidates.items() if wanted(name)}
    if not chosen:
        raise InputError(
            f"{caller}: no linear layer fits where = {where!r}; "
            f"the model has: {', '.join(candidates) or 'none'}"
        )
    return chosen


def _put(owner, name, layer):
    """Return `owner` with `layer` at a dotted name, such as decoder.blocks.0.attention.W_Q.

    Layers, lists and dicts are changed in place; a tuple on the way is replaced.
    """
    if not name:
        return layer
    first, _, rest = name.partition(".")
    if isinstance(owner, Layer):
        setattr(owner, first, _put(getattr(owner, first), rest, layer))
        return owner
    keys = list(owner) if isinstance(owner, dict) else list(range(len(owner)))
    key = next(key for key in keys if str(key) == first)
    part = _put(owner[key], rest, layer)
    if isinstance(owner, tuple):
        return (*owner[:key], part, *owner[key + 1 :])
    owner[key] = part
    return owner


def _bytes(layer):
    return sum(param.data.nbytes for _, param in layer.params(frozen=True))


def multiplies(layer, rows):
    """Return the number of multiplications of a linear layer's forward over `rows` rows.

    Dequantizing W (D, E) counts as D * E; the multiplication by a scale of 1 is not counted.
    """
    D, E = layer.sizes
    if isinstance(layer, LoRALinear):
        rank = layer.A.shape[1]
        scaling = 0 if layer.scale == 1 else rows * rank
        return multiplies(layer.base, rows) + rows * rank * (D + E) + scaling
    return rows * D * E + (D * E if isinstance(layer, QuantLinear) else 0)
