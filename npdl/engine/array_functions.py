"""Record some functions of NumPy and npdl in a special way, such as an elementwise operation.

`Recorder.call` records all other functions as one operation each. It also records a call for which
a function of this module returns NotImplemented.
"""

import numpy as np

from npdl import backend, functions
from npdl.engine.recorded_array import plain_value

# Their results depend on no entry, so they need no guard.
OF_SHAPES = {np.can_cast, np.common_type, np.iscomplexobj, np.isrealobj, np.ndim, np.result_type,
             np.shape, np.size}
IN_PLACE = {np.copyto, np.fill_diagonal, np.place, np.put, np.put_along_axis, np.putmask}


def where(recorder, condition, *choices):
    """Record np.where with three arguments as an elementwise operation."""
    if len(choices) != 2:
        return NotImplemented
    values = [plain_value(x) for x in (condition, *choices)]
    result = recorder.new(np.where(*values))
    loop = (np.dtype(bool), result.dtype, result.dtype, result.dtype)
    operands = [recorder.as_operand(x, i, loop) for i, x in enumerate((condition, *choices))]
    return recorder.add("where", operands, result, run_where, loop=loop)


def run_where(condition, x, y, out):
    np.copyto(out, y, casting="unsafe")
    np.copyto(out, x, where=condition, casting="unsafe")


def concatenate(recorder, parts, axis=0, out=None, **options):
    """Record np.concatenate as copies into slices of a new array."""
    if out is not None or axis is None or options:
        return NotImplemented
    values = [plain_value(x) for x in parts]
    result = recorder.new(np.concatenate(values, axis))
    start = 0
    for part in parts:
        index = [slice(None)] * result.ndim
        index[axis] = slice(start, start + part.shape[axis])
        start += part.shape[axis]
        if part.size:
            recorder.copy(part, result[tuple(index)])
    return result


def stack(recorder, parts, axis=0, out=None, **options):
    """Record np.stack as np.concatenate of parts with one more axis."""
    if out is not None or options:
        return NotImplemented
    place = axis % (parts[0].ndim + 1)
    return np.concatenate([part[(slice(None),) * place + (None,)] for part in parts], place)


def make_fill(value):
    """Return a function that records a copy of the number `value` into a new array.

    For np.full_like, `value` is None, because the number is an argument.
    """
    def make(recorder, like, *args, **options):
        if options.get("subok") or options.get("shape") is not None:
            return NotImplemented
        number = args[0] if value is None else value
        dtype = dict(enumerate(args)).get(1 if value is None else 0, options.get("dtype"))
        return recorder.copy(number, recorder.new(np.empty_like(like.value, dtype)))
    return make


def erf(recorder, x):
    """Record the error function as an elementwise operation."""
    result = recorder.new(backend.exact_erf(x.value))

    def run(x, out):
        np.copyto(out, backend.exact_erf(x))
    return recorder.add("erf", [x], result, run, loop=(x.dtype, x.dtype))


def minus_one_hot(recorder, p, index):
    """Record p - one_hot(index) as an elementwise subtraction.

    The result is bitwise identical to subtracting 1 at each index. A guard checks that the indices
    are in range.
    """
    if not recorder.check_range(index, p.shape[-1]):
        return NotImplemented
    at = np.where(index < 0, index + p.shape[-1], index) if (index.min() < 0) else index
    return p - (at[..., None] == np.arange(p.shape[-1]))


def sum_by_index(recorder, rows, index, size):
    """Record `functions.sum_by_index` as one operation, if all indices are in range."""
    if index.size and not ((index.min() >= 0) & (index.max() < size)):
        return NotImplemented
    values = [plain_value(x) for x in (rows, index)]
    result = recorder.new(functions.sum_by_index(*values, size))
    return recorder.add("sum_by_index", [rows, index], result, make_sum_by_index(size),
                        options={"size": size})


def make_sum_by_index(size):
    def run(rows, index, out):
        np.copyto(out, functions.sum_by_index(rows, index, size))
    return run


def take_along_axis(recorder, x, index, axis=-1):
    """Record np.take_along_axis as one operation, and a guard on the range of the indices."""
    if axis is None or not isinstance(x, np.ndarray) or x.ndim != index.ndim:
        return NotImplemented
    values = [plain_value(a) for a in (x, index)]
    result = recorder.new(np.take_along_axis(*values, axis))
    recorder.check_range(index, x.shape[axis])

    def run(x, index, out):
        np.copyto(out, np.take_along_axis(x, index, axis))
    return recorder.add("take_along_axis", [x, index], result, run,
                        options={"axis": axis % x.ndim})


def record_as_method(name):
    """Return a function that records np.sum(x, ..) as x.sum(..)."""
    return lambda recorder, x, *args, **options: getattr(x, name)(*args, **options)


FUNCTIONS = {
    np.where: where, np.concatenate: concatenate, np.stack: stack,
    np.zeros_like: make_fill(0), np.ones_like: make_fill(1), np.full_like: make_fill(None),
    backend.exact_erf: erf, functions.minus_one_hot: minus_one_hot,
    functions.sum_by_index: sum_by_index, np.take_along_axis: take_along_axis,
    **{getattr(np, name): record_as_method(name) for name in ("sum", "mean", "max", "min")},
}
