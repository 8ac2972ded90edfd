"""Adapting a trained model: put adapters in, quantize, merge, and count.

    quantize_linears(model, bits=4)         # QLoRA; leave it out for LoRA
    add_lora(model, rank=4)                 # then train as ever: only the adapters learn
    print(report(model))
    merge_lora(model)                       # plain matrices again, no adapter to run
"""

import math
from dataclasses import dataclass

from npdl.adapt.linears import FrozenLinear, LoRALinear, QuantLinear
from npdl.core import Layer, Param, named_layers, walk
from npdl.errors import InputError
from npdl.init import generator
from npdl.layers.linear import Linear


def add_lora(model, rank=4, *, alpha=None, where=None, rng=0):
    """Replace chosen linear layers of `model` by adapters on them; freeze all the rest.

    where   which layers: None for every Linear (or QuantLinear); a name or several, such as
            ("W_Q", "W_V"), for those whose dotted name is or ends with one of them; or a function
            of the dotted name
    rank, alpha, rng   LoRALinear's
    Changes `model` in place and returns the dotted names of the adapters. Make the optimizer
    afterwards. Raises InputError when nothing fits or the model has adapters already, and changes
    nothing then.
    """
    if any(isinstance(layer, LoRALinear) for _, layer in named_layers(model)):
        raise InputError("add_lora: the model has adapters already; merge_lora puts them aside")
    rng = generator(rng)
    chosen = _choose(model, (Linear, QuantLinear), where, "add_lora")
    adapters = {}                                           # all are made before one is placed
    for layer in chosen.values():
        if id(layer) not in adapters:                       # a shared layer has one adapter
            adapters[id(layer)] = LoRALinear(layer, rank, alpha=alpha, rng=rng)
    model.set_trainable(False)
    for name, layer in chosen.items():
        _put(model, name, adapters[id(layer)])
    return list(chosen)


def quantize_linears(model, bits=4, *, rounding="floor", block=None, double=False, where=None):
    """Replace chosen Linears of `model` by QuantLinears; `where` as in add_lora.

    Changes `model` in place and returns the dotted names. Raises InputError, and changes nothing,
    when nothing fits or the weights cannot be quantized.
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
    """Replace every adapter by one Linear that computes the same; return {name: adapter}.

    The names of the parameters are then those of the model before add_lora. A quantized base
    becomes a matrix of floats. Everything stays frozen (model.set_trainable(True) frees it).
    """
    adapters = {n: layer for n, layer in named_layers(model) if isinstance(layer, LoRALinear)}
    if not adapters:
        raise InputError("merge_lora: the model has no adapters; add_lora puts them in")
    merged = {id(adapter): merged_linear(adapter) for adapter in adapters.values()}
    for name, adapter in adapters.items():
        _put(model, name, merged[id(adapter)])
    return adapters


def merged_linear(adapter):
    """Return one frozen Linear that computes what a LoRALinear does: W + scale A B^T, and b.

    Nothing of the adapter changes or is shared.
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
    """One linear layer of a report."""

    name: str
    kind: str
    trainable: int
    stored_bytes: int
    multiplies: int


@dataclass
class Report:
    """The linear layers of a model, and the totals over all its parameters.

    `trainable` and `frozen` count parameters, `stored_bytes` is their memory, and `multiplies` are
    the multiplications of a forward pass over `rows` rows in the linear layers.
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
    """Return a Report of the trainable parameters, the stored bytes and the multiplications.

    A parameter that is stored in m bits counts as m bits; its step sizes count, too.
    """
    layers, inside, stands_for = [], set(), {}
    for name, layer in named_layers(model):
        if isinstance(layer, (Linear, FrozenLinear, LoRALinear)) and id(layer) not in inside:
            inside.update(id(part) for part in walk(layer))
            kind = type(layer).__name__
            if isinstance(layer, LoRALinear):
                kind += "+" + type(layer.base).__name__
            layers.append(Row(name, kind, layer.count_params(), _bytes(layer),
                              multiplies(layer, rows)))
        if isinstance(layer, QuantLinear):
            stands_for |= {id(layer.packed): math.prod(layer.sizes), id(layer.step): 0,
                           id(layer.scale): 0}
    frozen = sum(stands_for.get(id(param), param.data.size)
                 for _, param in model.params(frozen=True) if not param.trainable)
    return Report(rows, layers, model.count_params(), frozen, _bytes(model))


def _choose(model, kinds, where, caller):
    """Return {dotted name: layer} of the layers of these kinds that `where` names."""
    ends = (where,) if isinstance(where, str) else where
    if where is None or callable(where):
        wanted = where or (lambda name: True)
    elif isinstance(ends, (tuple, list)) and all(isinstance(end, str) for end in ends):
        def wanted(name):
            return any(name == end or name.endswith("." + end) for end in ends)
    else:
        raise InputError(f"{caller}: where = {where!r}; it must be a name, several names, a "
                         "function of a name, or None")

    found = {name: layer for name, layer in named_layers(model)
             if name and isinstance(layer, kinds)}
    chosen = {name: layer for name, layer in found.items() if wanted(name)}
    if not chosen:
        raise InputError(
            f"{caller}: no linear layer fits where = {where!r}; "
            f"there are: {', '.join(found) or 'none'}"
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

    A quantized W is dequantized once; an adapter's scale of 1 costs nothing.
    """
    D, E = layer.sizes
    if isinstance(layer, LoRALinear):
        rank = layer.A.shape[1]
        scaling = 0 if layer.scale == 1 else rows * rank
        return multiplies(layer.base, rows) + rows * rank * (D + E) + scaling
    return rows * D * E + (D * E if isinstance(layer, QuantLinear) else 0)
