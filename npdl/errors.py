"""Checks of arguments, which raise the exceptions of npdl.

Every message is one line: what was given, what is allowed, what to do. Constructors, models, losses
and data check all their arguments. A layer checks its inputs if NumPy would compute a wrong result
without an error, for example by broadcasting or in integer arithmetic. `owner` is the name of the
layer or function in the message.
"""

import math
import numbers
import warnings

import numpy as np

from npdl.exceptions import BackendError, CheckpointError, InputError, NpdlError

__all__ = ["BackendError", "CheckpointError", "InputError", "NpdlError"]
FLOATS = ("float32", "float64", "float")
LARGEST_INTEGER = 2**63 - 1         # integer of NumPy


def is_integer(value):
    """Return True if a value is an integer, but not a bool."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def broadcasts(shape, full):
    """Return True if a shape broadcasts to `full` without changing it."""
    return len(shape) <= len(full) and all(
        n in (1, m) for n, m in zip(shape[::-1], full[::-1], strict=False))


def is_array(x):
    """Return True for arrays except masked ones, whose mask many NumPy functions ignore."""
    return hasattr(x, "ndim") and hasattr(x, "dtype") and not isinstance(x, np.ma.MaskedArray)


def require_bool(**flags):
    """Raise InputError unless every named value is True or False."""
    for name, value in flags.items():
        if not isinstance(value, (bool, np.bool_)):
            raise InputError(f"{name} = {value!r}; it must be True or False")


def require_dtype(dtype):
    """Raise InputError unless `dtype` is float32 or float64.

    In float16 an optimizer's eps of 1e-8 is rounded to 0, so its first step could divide 0 by 0.
    """
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", None) or getattr(
        dtype, "__name__", "")
    if name not in FLOATS:
        raise InputError(f"dtype = {dtype!r}; it must be 'float32' or 'float64'")


def require_number(name, value, allowed, wanted):
    """Raise InputError unless `value` is a real number (not a bool) and allowed(value) is true."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not allowed(value):
        raise InputError(f"{name} = {value!r}; it must be {wanted}")


def _requirement(allowed, wanted):
    """Return a function of named numbers, which calls `require_number` for each of them."""
    def require(**named):
        for name, value in named.items():
            require_number(name, value, allowed, wanted)
    return require


# These raise InputError unless every named number is valid. Example: require_positive(width=3).
require_positive = _requirement(lambda n: is_integer(n) and n >= 1, "a positive integer")
require_above_0 = _requirement(lambda x: 0 < x < math.inf, "a finite number above 0")
require_not_negative = _requirement(lambda x: 0 <= x < math.inf, "a finite number, 0 or more")
require_below_1 = _requirement(lambda x: 0 <= x < 1, "at least 0 and below 1")
require_share = _requirement(lambda x: 0 < x <= 1, "above 0 and at most 1")


def checked_integer(name, value, low, high=LARGEST_INTEGER):
    """Return `value` as an int, after a check that it is an integer from `low` to `high`."""
    require_number(name, value, lambda n: is_integer(n) and low <= n <= high,
                   f"an integer, {low} or more" if high == LARGEST_INTEGER else
                   f"an integer from {low} to {high}")
    return int(value)


def require_choice(name, value, choices):
    """Raise InputError unless `value` is one of `choices`."""
    if not any(value is choice or (isinstance(value, str) and value == choice)
               for choice in choices):
        raise InputError(f"{name} = {value!r}; choose one of: {', '.join(map(str, choices))}")


def check_real(owner, **arrays):
    """Raise InputError unless each named value is an array of real numbers."""
    for name, x in arrays.items():
        if not is_array(x) or x.dtype.kind not in "fiub":
            raise InputError(f"{owner}: {name.replace('_', ' ')} is {describe(x)}; it must be an "
                             "array of real numbers")


def check_floats(owner, **arrays):
    """Raise InputError unless each named value is an array of floats with at least one axis."""
    for name, x in arrays.items():
        if not is_array(x) or x.dtype.kind != "f" or x.ndim == 0:
            raise InputError(f"{owner}: {name.replace('_', ' ')} is {describe(x)}; it must be an "
                             "array of floats with at least one axis")


def check_rng(owner, rng):
    """Raise InputError unless `rng` is a NumPy generator or None."""
    if rng is not None and not hasattr(rng, "random"):
        raise InputError(f"{owner}: rng = {rng!r}; give a NumPy generator, such as "
                         "numpy.random.default_rng(0), or None for no dropout")


def check_width(x, width, owner, ndim=None):
    """Raise InputError unless `x` is (..., width), with `ndim` axes if `ndim` is given."""
    check_real(owner, the_input=x)
    if x.ndim == 0 or x.shape[-1] != width or x.ndim != (ndim or x.ndim):
        axes = f", and it must have {ndim} axes" if ndim else ""
        raise InputError(f"{owner}: the input has shape {x.shape}; its last axis must have length "
                         f"{width}{axes}")


def check_channels(x, channels, owner, needs_positions=False):
    """Raise InputError unless `x` is (N, C, L), or (N, C) if `needs_positions` is False."""
    check_real(owner, the_input=x)
    if x.ndim not in ((3,) if needs_positions else (2, 3)) or 0 in x.shape:
        wanted = "(N, C, L)" if needs_positions else "(N, C, L) or (N, C)"
        raise InputError(f"{owner}: the input has shape {x.shape}; it must be {wanted}, and not "
                         "empty")
    if x.shape[1] != channels:
        raise InputError(f"{owner}: the input {x.shape} has {x.shape[1]} channels; it must have "
                         f"{channels}")


def check_gradient(dy, shape, owner):
    """Raise InputError unless the upstream gradient `dy` is an array of this shape.

    If the shape is (), `dy` may also be a number.
    """
    is_number = isinstance(dy, numbers.Real) and not shape
    if not is_number and (not is_array(dy) or dy.shape != tuple(shape)):
        has_fitting_item = isinstance(dy, tuple) and any(
            getattr(item, "shape", None) == tuple(shape) for item in dy)
        hint = "; it is a tuple of gradients, one for each input; give one of them"
        raise InputError(f"{owner}: the gradient is {describe(dy)}; it must have the output's "
                         f"shape {tuple(shape)}{hint * has_fitting_item}")


def check_mask(owner, mask, shape):
    """Raise InputError unless `mask` is None, or a bool array that broadcasts to `shape`."""
    if mask is None:
        return
    if not is_array(mask) or mask.dtype.kind != "b" or not broadcasts(mask.shape, shape):
        raise InputError(f"{owner}: the mask is {describe(mask)}; it must be bool and broadcast "
                         f"to {tuple(shape)}, True for the entries that count")


def check_attention_mask(mask, shape):
    """Raise InputError unless `mask` is None, or bools or floats that broadcast to `shape`."""
    if mask is None:
        return
    if not is_array(mask) or mask.dtype.kind not in "bf" or not broadcasts(mask.shape, shape):
        raise InputError(f"attention: the mask is {describe(mask)}; it must broadcast to "
                         f"{tuple(shape)} and be bool, True where a query may attend to a key "
                         "(torch.nn.MultiheadAttention means the opposite), or floats that are "
                         "added to the scores")


def checked_ids(ids, size, name="token ids"):
    """Return `ids` as an array of integers, after a check that 0 <= id < size.

    An array on a GPU is not checked, because the program would have to wait for the GPU. For an
    index out of range, CuPy uses a wrong entry instead of raising an error.
    """
    if not isinstance(ids, (np.ndarray, np.generic, list, tuple, int, float, str, type(None))):
        return ids
    try:
        ids = _as_array(ids)
    except ValueError:
        raise InputError(f"{name} are rows of different lengths; pad them to one length") from None
    if not is_array(ids) or ids.dtype.kind not in "iu":
        raise InputError(f"{name} are {describe(ids)}; they must be integers")
    _check_range(ids, size - 1, name)
    return ids


def _check_range(values, largest, name, note=""):
    """Raise InputError unless all values are from 0 to `largest`. `note` explains this limit."""
    for value in (values.min(), values.max()) if values.size else ():
        if not 0 <= value <= largest:
            raise InputError(f"{name} contain {value}; allowed are 0 to {largest}{note}")


def checked_tokens(ids, owner, max_len=None, size=LARGEST_INTEGER):
    """Return `ids` as an array, after a check that they are (B, S) integers with S <= max_len."""
    ids = checked_ids(ids, size)
    if ids.ndim != 2 or 0 in ids.shape:
        raise InputError(f"{owner}: ids have shape {ids.shape}; they must be (B, S), and not "
                         "empty")
    if max_len is not None and ids.shape[1] > max_len:
        raise InputError(f"{owner}: sequences of {ids.shape[1]} tokens are longer than max_len = "
                         f"{max_len}")
    return ids


def checked_key_mask(key_mask, shape, owner):
    """Return `key_mask` as an array, after a check that it is bool and (B, S) like the ids."""
    mask = np.asarray(key_mask) if isinstance(key_mask, (list, tuple)) else key_mask
    if not is_array(mask) or mask.shape != tuple(shape) or mask.dtype.kind != "b":
        raise InputError(f"{owner}: key_mask is {describe(mask)}; it must be bool "
                         f"{tuple(shape)}, the shape of the ids, and True for valid tokens")
    return mask


def check_sequence(x, width, owner):
    """Raise InputError unless `x` is (B, S, width), with real numbers, B >= 1 and S >= 1."""
    check_real(owner, the_input=x)
    if x.ndim != 3 or 0 in x.shape[:2] or x.shape[2] != width:
        raise InputError(f"{owner}: the input has shape {x.shape}; it must be (B, S, {width}) with "
                         "B, S >= 1")


def checked_positions(x, positions, table):
    """Return `positions`, by default 0 .. S-1, after a check that they fit x and `table` (P, D).

    x (.., D) must have a float dtype, because position embeddings are converted to this dtype.
    """
    check_floats("positions", the_input=x)
    check_width(x, table.shape[1], "positions")
    if positions is None:
        if x.ndim < 2 or x.shape[-2] > table.shape[0]:
            raise InputError(f"positions: the input has shape {x.shape}; at most "
                             f"{table.shape[0]} positions exist")
        return np.arange(x.shape[-2])
    positions, lead = checked_ids(positions, table.shape[0], "positions"), x.shape[:-1]
    if not broadcasts(positions.shape, lead):
        raise InputError(f"positions have shape {positions.shape}; for an input {x.shape} they "
                         f"must broadcast to {lead}")
    return positions


def _as_array(x):
    """Return an array unchanged, and any other value as a NumPy array."""
    # np.asanyarray would raise an error for a recorded array, which is an ndarray already
    return x if isinstance(x, np.ndarray) else np.asanyarray(x)


def checked_lengths(lengths, B, S, owner):
    """Return `lengths` as a NumPy array, after a check that they are (B,) integers from 0 to S."""
    lengths = _as_array(lengths.get() if hasattr(lengths, "get") else lengths)
    if not is_array(lengths) or lengths.shape != (B,) or lengths.dtype.kind not in "iu":
        raise InputError(f"{owner}: lengths are {describe(lengths)}; they must be "
                         f"integers of shape ({B},), one for each sequence")
    _check_range(lengths, S, f"{owner}: lengths", ", the number of steps")
    return lengths.astype(np.int64)


def checked_state(state, parts, shape, owner):
    """Return the state h or (h, c), after a check that it has `parts` float arrays of `shape`."""
    given = state if isinstance(state, (tuple, list)) else (state,)
    check_floats(owner, **{f"state_{i}": part for i, part in enumerate(given)})
    if [part.shape for part in given] != [shape] * parts:
        raise InputError(f"{owner}: the state has shapes {[part.shape for part in given]}; it must "
                         f"consist of {parts} {'array' if parts == 1 else 'arrays'} {shape}")
    return given[0] if parts == 1 else tuple(given)


def check_attention(q, k, v, mask=None, same_width=True):
    """Raise InputError unless q (..., R, d), k (..., S, d), v (..., S, e) and mask fit together."""
    check_floats("attention", q=q, k=k, v=v)
    lead = q.shape[:-2]
    fits = min(q.ndim, k.ndim, v.ndim) >= 2 and 0 not in (k.shape[-2], q.shape[-1]) and (
        k.shape[:-2] == v.shape[:-2] == lead and k.shape[-2] == v.shape[-2])
    if not fits or (same_width and q.shape[-1] != k.shape[-1]):
        widths = "(..., R, d), (..., S, d)" if same_width else "(..., R, d), (..., S, d')"
        raise InputError(f"attention: q {q.shape}, k {k.shape} and v {v.shape} do not fit; they "
                         f"must be {widths} and (..., S, e), with S, d >= 1")
    check_attention_mask(mask, (*lead, q.shape[-2], k.shape[-2]))


def check_heads(Q, K, V, mask, heads):
    """Raise InputError unless Q (B, R, D), K (B, S, D), V (B, S, D) and the mask fit together."""
    check_real("attention", Q=Q, K=K, V=V)
    q, k, v = Q.shape, K.shape, V.shape
    if not len(q) == len(k) == len(v) == 3 or not q[0] == k[0] == v[0] or k[1] != v[1] or 0 in (
            *q[:2], k[1]):
        raise InputError(f"attention: Q {q}, K {k} and V {v} do not fit; they must be (B, R, D), "
                         "(B, S, D) and (B, S, D), with B, R, S >= 1")
    check_attention_mask(mask, (q[0], heads, q[1], k[1]))               # (B, H, R, S)


def checked_rotary_positions(x, positions, width):
    """Return the positions (S,) of x (..., S, width), by default 0 .. S-1, after a check."""
    check_floats("Rotary", the_input=x)
    check_width(x, width, "Rotary")
    if x.ndim < 2:
        raise InputError(f"Rotary: the input has shape {x.shape}; it must be (..., S, {width})")
    if positions is None:
        return np.arange(x.shape[-2])
    positions = checked_ids(positions, LARGEST_INTEGER, "positions")
    if positions.shape != x.shape[-2:-1]:
        raise InputError(f"Rotary: positions have shape {positions.shape}; for an input {x.shape} "
                         f"they must be {x.shape[-2:-1]}")
    return positions


def check_graph(h, *edges):
    """Raise InputError unless `h` is (..., N, D) with floats and N >= 1, and the edges fit.

    The edges, if they are given, must be (N, N) or (..., N, N).
    """
    check_floats("graph", h=h)
    N = h.shape[-2] if h.ndim > 1 else 0
    for e in edges:
        check_real("graph", edges=e)
    shape = edges[0].shape if edges else (N, N)
    if N == 0 or shape not in ((N, N), (*h.shape[:-2], N, N)):
        raise InputError(f"graph: states {h.shape} and edges {shape} do not fit; they must be "
                         "(..., N, D) with N >= 1, and (N, N) or (..., N, N)")


def shown(value, most=60):
    """Return the repr of a value on one line of at most `most` characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= most else f"{text[: most - 3]}..."


def describe(x):
    """Return the dtype and shape of an array, or the type of any other value."""
    kind = type(x).__name__
    if not hasattr(x, "dtype") or not hasattr(x, "shape"):
        return kind
    return f"{'' if is_array(x) else kind + ' '}{x.dtype} {x.shape}"


# Losses, optimizers and loaded arrays

def check_kinds(owner, **arrays):
    """Raise InputError unless, for each (array, kinds), the array's dtype.kind is in `kinds`."""
    words = {"f": "floats", "iu": "integers", "b": "bools"}
    for name, (array, kinds) in arrays.items():
        if not is_array(array) or array.dtype.kind not in kinds:
            raise InputError(f"{owner}: {name} is {describe(array)}; it must hold {words[kinds]}")


def check_loss_shapes(logits, targets, counted):
    """Raise InputError unless `logits`, the shape of the logits, is (B, S, V) and the arrays fit.

    `targets` must be integers (B, S), and `counted` bools (B, S).
    """
    check_kinds("loss", targets=(targets, "iu"), counted=(counted, "b"))
    if len(logits) != 3 or targets.shape != logits[:2] or counted.shape != targets.shape:
        raise InputError(
            f"loss: logits {logits}, targets {targets.shape} and counted {counted.shape} "
            "do not fit; they must be (B, S, V), (B, S) and (B, S)"
        )


def require_betas(betas):
    """Raise InputError unless `betas` are two numbers, at least 0 and below 1."""
    if not isinstance(betas, (tuple, list)) or len(betas) != 2:
        raise InputError(f"betas = {betas!r}; they must be two numbers")
    require_below_1(**{f"betas[{i}]": beta for i, beta in enumerate(betas)})


def check_layer(owner, layer):
    """Raise InputError unless `layer` has the method `params`, as every Layer has."""
    if not callable(getattr(layer, "params", None)):
        raise InputError(f"{owner}: given {describe(layer)}; give a Layer, such as a model, and "
                         "not its parameters")


def require_layers(owner, layers, example):
    """Raise InputError, with an example, unless `layers` is a list of at least one Layer."""
    items = layers if isinstance(layers, (list, tuple)) else [layers]
    invalid = [describe(layer) for layer in items
               if isinstance(layer, type) or not hasattr(layer, "backward")]
    if invalid or not items:
        raise InputError(f"{owner}: given {invalid[0] if invalid else 'nothing'}; give layers, "
                         f"such as {example}")


def checked_params(owner, params):
    """Return `params` as a list, after a check that they are trainable Params."""
    params = list(params) if hasattr(params, "__iter__") else [params]
    for param in params:
        if not hasattr(param, "grad") or not hasattr(param, "trainable"):
            raise InputError(f"{owner}: given {describe(param)}; give Params, such as "
                             "optimizer.params.values()")
        check_trainable(owner, param)
    return params


def check_trainable(owner, param):
    """Raise InputError if a Param is frozen and so has no gradient."""
    if not param.trainable:
        raise InputError(f"{owner}: {param} is frozen and has no gradient; make the optimizer "
                         "after freezing")


def check_optimizer_state(expected, state):
    """Raise InputError unless `state` has the entries of `expected`, with the same array shapes."""
    if not isinstance(state, dict) or state.keys() != expected.keys():
        given = describe(state)
        if isinstance(state, dict):
            given = ", ".join(map(str, state)) or "an empty dict"
        raise InputError(f"optimizer state: given {given}; it must have {', '.join(expected)}")
    checked_integer("steps", state["steps"], 0)
    for moment in expected.keys() - {"steps"}:
        check_state_dict(expected[moment], state[moment], f"{moment} of")


def check_state_dict(expected, arrays, kind="parameter"):
    """Raise InputError unless `arrays` has the names, shapes and dtypes of `expected`, a dict."""
    differing = sorted(expected.keys() ^ arrays.keys())
    if differing:
        how = "missing" if differing[0] in expected else "unknown"
        raise InputError(f"{kind} {differing[0]!r} is {how} (in all, {len(differing)} names are "
                         "missing or unknown); give the arrays of a model of the same class, made "
                         "with the same options")
    for name, wanted in expected.items():
        given = arrays[name]
        if not is_array(given) or (given.shape, given.dtype) != (wanted.shape, wanted.dtype):
            raise InputError(f"{kind} {name!r} is {describe(given)}; this model needs "
                             f"{describe(wanted)}")


def warn_undropped():
    """Warn, once in a process, that a training step used no dropout."""
    warnings.warn("dropout had no effect: forward was called without rng before backward; train "
                  "with forward(.., rng=numpy.random.default_rng(0)), or with dropout 0",
                  stacklevel=1)
