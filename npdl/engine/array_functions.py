"""Record calls of some functions of NumPy and npdl as simpler operations, such as copies.

A function `record_x` takes the Recorder and the arguments of a call of x, and returns the recorded
result. For arguments that it does not support, it returns NotImplemented. Then, and for all other
functions, `Recorder.record_call` records the call as one operation.
"""

from functools import partial

import numpy as np

from npdl import backend, functions
from npdl.engine.recorded_array import Diverged, plain_value

# The results of these functions depend on shapes and dtypes only, and not on entries.
OF_SHAPES = {np.can_cast, np.common_type, np.iscomplexobj, np.isrealobj, np.ndim, np.result_type,
             np.shape, np.size}
# These functions return views of their arguments, which depend on the shapes only.
VIEW_FUNCTIONS = {np.atleast_1d, np.atleast_2d, np.atleast_3d, np.broadcast_arrays, np.ix_,
                  np.meshgrid}
IN_PLACE = {np.copyto, np.fill_diagonal, np.place, np.put, np.put_along_axis, np.putmask}


def record_where(recorder, condition, *choices):
    """Record np.where with three arguments as an elementwise operation."""
    if len(choices) != 2:
        return NotImplemented
    values = [plain_value(x) for x in (condition, *choices)]
    result = recorder.wrap_result(np.where(*values))
    loop = (np.dtype(bool), result.dtype, result.dtype, result.dtype)
    operands = [recorder.as_operand(x, i, loop) for i, x in enumerate((condition, *choices))]
    return recorder.add_operation("where", operands, result, run_where, loop=loop)


def run_where(condition, x, y, out):
    np.copyto(out, y, casting="unsafe")
    np.copyto(out, x, where=np.asarray(condition, bool), casting="unsafe")


def record_concatenate(recorder, parts, axis=0, out=None, **options):
    """Record np.concatenate as copies into slices of a new array."""
    if out is not None or axis is None or options or not all(
            isinstance(part, np.ndarray) for part in parts):
        return NotImplemented
    values = [plain_value(x) for x in parts]
    result = recorder.wrap_result(np.concatenate(values, axis))
    start = 0
    for part in parts:
        index = [slice(None)] * result.ndim
        index[axis] = slice(start, start + part.shape[axis])
        start += part.shape[axis]
        if part.size:
            recorder.record_copy(part, result[tuple(index)])
    return result


def record_stack(recorder, parts, axis=0, out=None, **options):
    """Record np.stack: give each part a new axis, and record np.concatenate."""
    if out is not None or options or not all(isinstance(part, np.ndarray) for part in parts):
        return NotImplemented
    return np.concatenate([np.expand_dims(part, axis) for part in parts], axis)


def record_full_like(recorder, like, fill_value, dtype=None, order="K", **options):
    """Record np.full_like as a copy of `fill_value` into a new array."""
    if options:
        return NotImplemented
    result = recorder.wrap_result(np.empty_like(like.value, dtype, order))
    return recorder.record_copy(fill_value, result)


def make_fill_like_recorder(fill_value):
    """Return a function that records np.zeros_like (`fill_value` 0) or np.ones_like (1)."""
    return lambda recorder, like, *args, **options: record_full_like(
        recorder, like, fill_value, *args, **options)


def record_as_one_operation(recorder, kind, function, inputs, **fields):
    """Record function(*inputs) as one operation `kind`. `fields` are more fields of Operation."""
    result = recorder.wrap_result(function(*map(plain_value, inputs)))
    return recorder.add_operation(kind, inputs, result, add_out_argument(function), **fields)


def add_out_argument(function):
    """Return run(*inputs, out=out), a function that copies function(*inputs) into `out`."""
    def run(*inputs, out):
        result = function(*inputs)
        if np.shape(result) != out.shape or getattr(result, "dtype", out.dtype) != out.dtype:
            raise Diverged("a result has another shape or dtype")
        np.copyto(out, result, casting="unsafe")
    return run


def record_subtract_one_hot(recorder, probabilities, index):
    """Record p - one_hot(index) as an elementwise subtraction.

    The result is bitwise identical to subtracting 1 at each index. Every replay checks that the
    indices are in range.
    """
    if not recorder.is_index_in_range(index, probabilities.shape[-1]):
        return NotImplemented
    at = np.where(index < 0, index + probabilities.shape[-1], index) if (index.min() < 0) else index
    return probabilities - (at[..., None] == np.arange(probabilities.shape[-1]))


def record_sum_by_index(recorder, rows, index, size):
    """Record `functions.sum_by_index` as one operation. Replays check the range of the indices."""
    if index.size and not ((index.min() >= 0) & (index.max() < size)):
        return NotImplemented
    return record_as_one_operation(recorder, "sum_by_index", functions.sum_by_index,
                                   [rows, index, size])


def record_take_along_axis(recorder, x, index, axis=-1):
    """Record np.take_along_axis as one operation. Replays check the range of the indices."""
    if axis is None:
        return NotImplemented
    recorder.is_index_in_range(index, x.shape[axis])
    return record_as_one_operation(
        recorder, "take_along_axis", partial(np.take_along_axis, axis=axis), [x, index],
        options={"axis": axis % x.ndim})


def make_method_recorder(method_name):
    """Return a function that records a call such as np.sum(x, ..) as x.sum(..)."""
    return lambda recorder, x, *args, **options: getattr(x, method_name)(*args, **options)


FUNCTIONS = {
    np.where: record_where, np.concatenate: record_concatenate, np.stack: record_stack,
    np.zeros_like: make_fill_like_recorder(0), np.ones_like: make_fill_like_recorder(1),
    np.full_like: record_full_like,
    backend.exact_erf: lambda recorder, x: record_as_one_operation(
        recorder, "erf", backend.exact_erf, [x], loop=(x.dtype, x.dtype)),
    functions.subtract_one_hot: record_subtract_one_hot,
    functions.sum_by_index: record_sum_by_index, np.take_along_axis: record_take_along_axis,
    **{getattr(np, name): make_method_recorder(name) for name in ("sum", "mean", "max", "min")},
}
