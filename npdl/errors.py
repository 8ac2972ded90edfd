"""Checks of arrays, which raise the exceptions of npdl. The checks of options are in npdl.options.

Every message is one line: what was given, what is allowed, what to do. Models, losses and data
check all their inputs. A layer checks its inputs if NumPy would compute a wrong result without an
error, for example by broadcasting or in integer arithmetic. `owner` is the name of the layer or
function in the message.
"""

import functools
import numbers
import warnings

import numpy as np

from npdl.exceptions import BackendError, CheckpointError, InputError, NpdlError
from npdl.options import LARGEST_INTEGER

__all__ = ["BackendError", "CheckpointError", "InputError", "NpdlError"]
# {kinds of dtypes: what a message calls an array of these kinds}
KINDS = {"f": "floats", "iu": "integers", "b": "bools", "fiub": "real numbers"}


def can_broadcast(shape, target_shape):
    """Return True if an array of this shape can be broadcast to the shape `target_shape`."""
    return len(shape) <= len(target_shape) and all(
        n in (1, m) for n, m in zip(shape[::-1], target_shape[::-1], strict=False))


def is_array(x):
    """Return True for an array that is not masked. Many NumPy functions would ignore the mask."""
    return hasattr(x, "ndim") and hasattr(x, "dtype") and not isinstance(x, np.ma.MaskedArray)


def check_dtype_kinds(kinds, owner, **arrays):
    """Raise InputError unless each named value is an array whose dtype.kind is in `kinds`."""
    for name, x in arrays.items():
        if not is_array(x) or x.dtype.kind not in kinds:
            raise InputError(f"{owner}: {name.replace('_', ' ')} is {describe(x)}; it must be an "
                             f"array of {KINDS[kinds]}")


check_floats = functools.partial(check_dtype_kinds, "f")


def check_shape(owner, x, *shapes, kinds="fiub"):
    """Raise InputError unless the input `x` holds real numbers and has one of these shapes.

    A shape is a text such as "(B, S, 4)" or "(..., 4)". A letter is any length of at least 1, and
    "..." are any axes. `kinds` are the allowed values of dtype.kind; "f" allows only floats.
    """
    check_dtype_kinds(kinds, owner, the_input=x)
    if not any(_has_shape(x, shape, {}) for shape in shapes):
        raise InputError(f"{owner}: the input has shape {x.shape}; it must be "
                         f"{' or '.join(shapes)}{', and not empty' * (0 in x.shape)}")


def check_shapes(owner, kinds="fiub", **arrays):
    """Raise InputError unless the arrays fit together. Each value is a pair (array, shape).

    The arrays must hold real numbers. `kinds` and the shapes, which are texts, have the same
    meaning as in `check_shape`. A letter is the same length in all shapes, and "..." are the same
    axes.
    """
    check_dtype_kinds(kinds, owner, **{name: x for name, (x, _) in arrays.items()})
    lengths = {}
    if not all(_has_shape(x, shape, lengths) for x, shape in arrays.values()):
        given = ", ".join(f"{name} {x.shape}" for name, (x, _) in arrays.items())
        wanted = ", ".join(shape for _, shape in arrays.values())
        raise InputError(f"{owner}: {given} do not fit; they must be {wanted}, and not empty")


def _has_shape(x, shape, lengths):
    """Return True if `x` has the shape in a text. `lengths` collects {an axis's letter: length}."""
    axes, wanted = x.shape, shape.strip("(),").split(", ")
    if wanted[0] == "...":
        leading = max(0, len(axes) - len(wanted) + 1)
        axes = (axes[:leading], *axes[leading:])
    return len(axes) == len(wanted) and all(
        n == int(name) if name.isdigit() else n != 0 and n == lengths.setdefault(name, n)
        for n, name in zip(axes, wanted, strict=True))


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


def check_mask(owner, mask, shape, kinds="b", requirement="bool, True for the entries that count"):
    """Raise InputError unless `mask` is None, or an array that broadcasts to `shape`.

    Its dtype.kind must be in `kinds`. `requirement` ends the message, and describes a valid mask.
    """
    if mask is None:
        return
    if not is_array(mask) or mask.dtype.kind not in kinds or not can_broadcast(mask.shape, shape):
        raise InputError(f"{owner}: the mask is {describe(mask)}; it must broadcast to "
                         f"{tuple(shape)} and be {requirement}")


def check_attention_mask(mask, shape):
    """Raise InputError unless `mask` is None, or bools or floats that broadcast to `shape`."""
    check_mask("attention", mask, shape, "bf", "bool, True where a query may attend to a key "
               "(torch.nn.MultiheadAttention means the opposite), or floats that are added to the "
               "scores")


def checked_ids(ids, size, name="token ids"):
    """Return `ids` as an array. Raise InputError unless they are integers with 0 <= id < size.

    The range of an array on a GPU is not checked, because the program would have to wait for the
    GPU. For an index out of range, CuPy uses a wrong entry instead of raising an error.
    """
    if not hasattr(ids, "dtype"):
        try:
            ids = np.asarray(ids)
        except ValueError:
            raise InputError(f"{name} are rows of different lengths; give rows of one length, or "
                             "one row at a time") from None
        ids = ids if ids.size else ids.astype(int)          # NumPy makes floats of an empty list
    if not is_array(ids) or ids.dtype.kind not in "iu":
        raise InputError(f"{name} are {describe(ids)}; they must be integers")
    if not hasattr(ids, "get"):
        _check_range(ids, size - 1, name)
    return ids


def _check_range(values, largest, name, note=""):
    """Raise InputError unless all values are from 0 to `largest`. `note` explains this limit."""
    for value in (values.min(), values.max()) if values.size else ():
        if not 0 <= value <= largest:
            allowed = f"allowed are 0 to {largest}{note}" if largest >= 0 else (
                "no value is allowed, because there are no entries to select from")
            raise InputError(f"{name} contain {value}; {allowed}")


def checked_tokens(ids, owner, max_len=None, size=LARGEST_INTEGER):
    """Return token ids (B, S) as an array. Raise InputError unless S <= max_len and ids < size."""
    ids = checked_ids(ids, size)
    if ids.ndim != 2 or 0 in ids.shape:
        raise InputError(f"{owner}: ids have shape {ids.shape}; they must be (B, S), and not empty")
    if max_len is not None and ids.shape[1] > max_len:
        raise InputError(f"{owner}: sequences of {ids.shape[1]} tokens are longer than max_len = "
                         f"{max_len}; shorten them, or make the model with a larger max_len")
    return ids


def checked_positions(owner, x, positions, sizes):
    """Return the positions of the vectors in x (..., S, D) as an array, by default 0 .. S-1.

    Raises InputError unless they are integers below P that broadcast to x.shape[:-1]. `sizes` is
    (P, D): the number of positions and the width. x must have a float dtype, because position
    embeddings are converted to this dtype.
    """
    count, width = sizes
    shape = f"(..., S, {width})" if positions is None else f"(..., {width})"
    check_shape(owner, x, shape, kinds="f")
    if positions is None and x.shape[-2] > count:
        raise InputError(f"{owner}: the input has {x.shape[-2]} positions, but only {count} exist; "
                         "shorten it, or make the layer with a larger max_len")
    positions = np.arange(x.shape[-2]) if positions is None else positions
    positions = checked_ids(positions, count, f"{owner}: positions")
    if not can_broadcast(positions.shape, x.shape[:-1]):
        raise InputError(f"{owner}: positions have shape {positions.shape}; for an input {x.shape} "
                         f"they must broadcast to {x.shape[:-1]}")
    return positions


def checked_lengths(lengths, B, S, owner):
    """Return `lengths` as a NumPy array. Raise InputError unless it has integers (B,) in 0 .. S."""
    lengths = lengths.get() if hasattr(lengths, "get") else lengths
    lengths = lengths if hasattr(lengths, "dtype") else np.asarray(lengths)
    if not is_array(lengths) or lengths.shape != (B,) or lengths.dtype.kind not in "iu":
        raise InputError(f"{owner}: lengths are {describe(lengths)}; they must be "
                         f"integers of shape ({B},), one for each sequence")
    _check_range(lengths, S, f"{owner}: lengths", ", the number of steps")
    return lengths.astype(np.int64)


def checked_state(state, num_arrays, shape, owner):
    """Return a state of 1 or 2 arrays. Raise InputError unless they have this shape."""
    given = state if isinstance(state, (tuple, list)) else (state,)
    check_floats(owner, **{f"state_{i}": part for i, part in enumerate(given)})
    if [part.shape for part in given] != [shape] * num_arrays:
        raise InputError(f"{owner}: the state has shapes {[part.shape for part in given]}; it must "
                         f"consist of {num_arrays} array{'s' * (num_arrays > 1)} {shape}")
    return given[0] if num_arrays == 1 else tuple(given)


def short_repr(value, max_length=60):
    """Return the repr of a value on one line of at most `max_length` characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= max_length else f"{text[: max_length - 3]}..."


def describe(x):
    """Return the dtype and shape of an array, or the type of any other value."""
    kind = type(x).__name__
    if not hasattr(x, "dtype") or not hasattr(x, "shape"):
        return kind
    return f"{'' if is_array(x) else kind + ' '}{x.dtype} {x.shape}"


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


def warn_no_dropout():
    """Warn, once in a process, that a training step used no dropout."""
    warnings.warn("dropout had no effect: forward was called without rng before backward; train "
                  "with forward(.., rng=numpy.random.default_rng(0)), or with dropout 0",
                  stacklevel=1)
