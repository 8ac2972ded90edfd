"""Conversion of parameters between npdl and PyTorch, which differ in names and layouts.

    arrays = to_torch(model)                            # {name: NumPy array}
    from_torch(model, arrays)                           # into npdl's parameters, in place
    npdl.safetensors.write("model.safetensors", arrays)
    from_torch(model, npdl.safetensors.read("model.safetensors"))

For a PyTorch module, the arrays are ``{n: t.numpy() for n, t in module.state_dict().items()}``.

A name is the path to a layer, followed by torch's name, such as `weight` or `bias`. `style` says
how attention is written in torch:

    "course"  as in the code of a course: four Linears W_Q, W_K, W_V and W_O
    "torch"   as in torch.nn: MultiheadAttention (in_proj_weight, ...). This style also has RNN, GRU
              and LSTM (weight_ih_l0, ...)

The layouts differ, too:

- Matrices are (in, out) in npdl, and (out, in) in torch.
- The gates of an LSTM are input, forget, output, candidate in npdl, and input, forget, candidate,
  output in torch.
- Recurrent layers of torch have a second bias. from_torch adds it to the first, and to_torch sets
  it to zero.
- ResetAfterGRU of npdl.layers.gru has the equations of torch.nn.GRU, but if torch's update gate is
  z, npdl's is 1 - z. So the weights of this gate have the opposite sign.

If a module has other names for its parts, change the keys of the dict.
"""

import numpy as np

from npdl.adapt.linears import FrozenLinear, LoRALinear
from npdl.backend import to_device, to_host
from npdl.core import Param, walk
from npdl.errors import InputError, check_state_dict
from npdl.layers.attention import MultiHeadAttention
from npdl.layers.batch_norm import BatchNorm, GroupNorm
from npdl.layers.embedding import Embedding, LearnedPositions, Unembedding
from npdl.layers.gru import ResetAfterGRU
from npdl.layers.layer_norm import LayerNorm, RMSNorm
from npdl.layers.linear import Linear
from npdl.layers.recurrent import LSTM, RNN


def to_torch(layer, style="course"):
    """Return {torch's name: contiguous NumPy array} for every parameter of `layer`.

    An embedding matrix that two layers share (weight tying) is returned under both names, as in
    torch. Raises InputError for a layer without a counterpart in torch.
    """
    if any(isinstance(part, (FrozenLinear, LoRALinear)) for part in walk(layer)):
        raise InputError("torch has no counterpart of an adapter or a quantized layer; merge_lora "
                         "replaces adapters by plain matrices")
    arrays = {}
    for params, names, out, _ in _find_conversions(layer, "", style):
        values = out(*(to_host(param.data) for param in params))
        arrays |= {name: np.array(value, order="C")
                   for name, value in zip(names, values, strict=True)}
    return arrays


def from_torch(layer, arrays, style="course"):
    """Write PyTorch's arrays into the parameters of `layer`, converted to the parameters' dtype.

    Raises InputError, and changes nothing, if names or shapes differ, if an array is not of floats,
    if a number is too large for the dtype, or if the two arrays of a shared embedding matrix
    differ.
    """
    wanted = to_torch(layer, style)
    given = {name: np.ascontiguousarray(array) for name, array in arrays.items()
             if not name.endswith("num_batches_tracked")}
    with np.errstate(over="ignore"):
        check_state_dict(wanted, {
            name: array.astype(wanted[name].dtype) if name in wanted and array.dtype.kind == "f"
            else array for name, array in given.items()}, "array")
    values = {}
    for params, names, _, back in _find_conversions(layer, "", style):
        data = back(*(given[name] for name in names))
        for param, value in zip(params, data, strict=True):
            _, before = values.setdefault(id(param), (param, value))
            if not np.array_equal(before, value, equal_nan=True):
                raise InputError(f"array {names[0]!r} and another array belong to one "
                                 "parameter (tied weights), but differ; give equal arrays")
            largest = np.abs(value[np.isfinite(value)]).max(initial=0)
            if largest > np.finfo(param.data.dtype).max:
                raise InputError(f"array {' or '.join(map(repr, names))} has an entry of magnitude "
                                 f"{largest:.3g}, too large for {param.data.dtype}; load the "
                                 "arrays into layer.astype('float64')")
    for param, value in values.values():
        param.data[...] = to_device(value.astype(param.data.dtype))


def _find_conversions(layer, path, style):
    """Yield the conversions of a layer's parameters, each as (params, names, out, back).

    `path` is the layer's name. `names` are PyTorch's arrays with the same values as the Params
    `params`. `out(*data)` converts the data of the Params into the list of these arrays, and
    `back(*arrays)` does the opposite.
    """
    if style not in RULES:
        raise InputError(f"style = {style!r}; choose one of: {', '.join(RULES)}")
    for kind, rule in RULES[style].items():
        if isinstance(layer, kind):
            for params, names, out, back in rule(layer):
                yield params, [f"{path}.{n}" if path else n for n in names], out, back
            return
    if any(isinstance(value, Param) for value in vars(layer).values()):
        raise InputError(f"{path or 'the layer'}: npdl can't convert a {type(layer).__name__} to "
                         f"PyTorch with style={style!r}" + (
                             "; style='torch' converts LSTM, RNN and ResetAfterGRU"
                             if style == "course" else ""))
    for name, child in layer.children():
        yield from _find_conversions(child, f"{path}.{name}" if path else name, style)


def _find_plain_conversions(layer, prefix=""):
    """Yield the conversions of a layer in which each Param is one array in torch (see NAMES)."""
    def convert(*data):
        return [array.T if isinstance(layer, Linear) else array for array in data]
    for ours, theirs in NAMES.items():
        param = getattr(layer, ours, None)
        if isinstance(param, Param):
            yield [param], [prefix + theirs], convert, convert


def _find_attention_conversions(layer):
    """Yield the conversions to torch.nn.MultiheadAttention, which stacks W_Q, W_K and W_V."""
    inputs = [layer.W_Q, layer.W_K, layer.W_V]
    yield ([part.W for part in inputs], ["in_proj_weight"],
           lambda *W: [np.concatenate([w.T for w in W])],
           lambda W: [w.T for w in np.split(W, 3)])
    if isinstance(layer.W_Q.b, Param):
        yield ([part.b for part in inputs], ["in_proj_bias"],
               lambda *b: [np.concatenate(b)], lambda b: np.split(b, 3))
    yield from _find_plain_conversions(layer.W_O, "out_proj.")


def _make_recurrent_rule(*gates):
    """Return the function in RULES for torch.nn.RNN, GRU or LSTM.

    These layers stack their gates along the first axis, and have two biases. `gates` has, for each
    gate in torch's order, its place in npdl's order and the sign that converts it.
    """
    def to_torch_order(stacked):
        parts = np.split(stacked, len(gates))
        return np.concatenate([sign * parts[place] for place, sign in gates])

    def to_npdl_order(stacked):
        parts = dict(zip(gates, np.split(stacked, len(gates)), strict=True))
        return np.concatenate([sign * parts[place, sign] for place, sign in sorted(gates)])

    def find_stack_conversions(stack):
        for i, layer in enumerate(stack.layers):
            cell = layer.cell
            yield ([cell.W_x, cell.W_h], [f"weight_ih_l{i}", f"weight_hh_l{i}"],
                   lambda *W: [to_torch_order(w.T) for w in W],
                   lambda *W: [to_npdl_order(w).T for w in W])
            names = [f"bias_ih_l{i}", f"bias_hh_l{i}"]
            if isinstance(getattr(cell, "b_h", None), Param):
                yield ([cell.b, cell.b_h], names, lambda *b: [to_torch_order(part) for part in b],
                       lambda *b: [to_npdl_order(part) for part in b])
            elif isinstance(cell.b, Param):
                yield ([cell.b], names, lambda b: [to_torch_order(b), np.zeros_like(b)],
                       lambda b_x, b_h: [to_npdl_order(b_x + b_h)])
    return find_stack_conversions


NAMES = {"W": "weight", "b": "bias", "gain": "weight", "bias": "bias",
         "running_mean": "running_mean", "running_var": "running_var"}
_COMMON = dict.fromkeys((Linear, Embedding, Unembedding, LearnedPositions, LayerNorm, RMSNorm,
                         GroupNorm, BatchNorm), _find_plain_conversions)
RULES = {
    "course": _COMMON,
    "torch": _COMMON | {MultiHeadAttention: _find_attention_conversions,
                        LSTM: _make_recurrent_rule((0, 1), (1, 1), (3, 1), (2, 1)),
                        ResetAfterGRU: _make_recurrent_rule((1, 1), (0, -1), (2, 1)),
                        RNN: _make_recurrent_rule((0, 1))},
}
