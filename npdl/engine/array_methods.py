"""The methods of a RecordedArray, and the functions that are recorded in a way of their own.

A method or function that is not listed here is recorded as one call: `Recorder.call`.
"""

import numpy as np

from npdl import backend, functions

# Methods of ndarray that change nothing; each is recorded as one call.
CALLS = ("argmax", "argmin", "argsort", "clip", "cumprod", "cumsum", "diagonal", "dot", "flatten",
         "nonzero", "ravel", "repeat", "round", "searchsorted", "squeeze", "std", "swapaxes",
         "take", "trace", "transpose", "var", "view")
ATTRIBUTES = ("dtype", "itemsize", "nbytes", "ndim", "shape", "size", "strides", "flags")
IN_PLACE = {np.copyto, np.fill_diagonal, np.place, np.put, np.put_along_axis, np.putmask}


class Methods:
    """Those of an array that layers use. `self.recorder` records, `self.value` is the array."""

    __slots__ = ()

    @property
    def T(self):
        return self.recorder.call(np.ndarray.transpose, (self,), {})

    def __pow__(self, exponent):
        """As NumPy's own: a square for the exponent 2, a root for 0.5."""
        if type(exponent) in (int, float) and self.dtype.kind == "f":
            quick = {2: np.square, 0.5: np.sqrt, 1: np.positive, -1: np.reciprocal}.get(exponent)
            if quick is not None:
                return quick(self)
        return np.power(self, exponent)

    def sum(self, axis=None, dtype=None, out=None, keepdims=False):
        return reduce(np.add, self, axis, dtype, out, keepdims)

    def prod(self, axis=None, dtype=None, out=None, keepdims=False):
        return reduce(np.multiply, self, axis, dtype, out, keepdims)

    def max(self, axis=None, out=None, keepdims=False):
        return reduce(np.maximum, self, axis, None, out, keepdims)

    def min(self, axis=None, out=None, keepdims=False):
        return reduce(np.minimum, self, axis, None, out, keepdims)

    def any(self, axis=None, out=None, keepdims=False):
        return reduce(np.logical_or, self, axis, None, out, keepdims)

    def all(self, axis=None, out=None, keepdims=False):
        return reduce(np.logical_and, self, axis, None, out, keepdims)

    def mean(self, axis=None, dtype=None, out=None, keepdims=False):
        """As NumPy's own: a sum, then a division by the count in place."""
        if self.dtype == np.float16 or out is not None:
            return self.recorder.call(np.mean, (self, axis, dtype), {"keepdims": keepdims})
        axes = range(self.ndim) if axis is None else np.atleast_1d(axis)
        count = np.prod([self.shape[i] for i in axes], dtype=np.intp)
        wide = np.float64 if dtype is None and self.dtype.kind in "iub" else dtype
        total = reduce(np.add, self, axis, wide, None, keepdims)
        return np.true_divide(total, count, out=total, casting="unsafe")

    def astype(self, dtype, order="K", casting="unsafe", subok=True, copy=True):
        if not copy and self.dtype == dtype:
            return self
        return self.recorder.copy(self, self.recorder.new(np.empty_like(self.value, dtype)))

    def copy(self, order="C"):
        return self.recorder.copy(self, self.recorder.new(np.empty_like(self.value, order=order)))

    def fill(self, value):
        self[...] = value

    def reshape(self, *shape, order="C"):
        shape = shape[0] if len(shape) == 1 else shape
        result = self.value.reshape(shape, order=order)
        if np.may_share_memory(result, self.value) or order != "C":
            return self.recorder.call(np.reshape, (self, shape), {"order": order})
        result = np.empty(result.shape, result.dtype)
        out = self.recorder.new(result)
        self.recorder.copy(self, self.recorder.call(np.reshape, (out, self.shape), {}))
        return out


def reduce(ufunc, x, axis, dtype, out, keepdims):
    """Record a reduction."""
    options = {"axis": axis, "keepdims": keepdims} | ({} if dtype is None else {"dtype": dtype})
    return ufunc.reduce(x, **options) if out is None else ufunc.reduce(x, out=out, **options)


def _call(name):
    method = getattr(np.ndarray, name)
    return lambda self, *args, **options: self.recorder.call(method, (self, *args), options)


for _name in CALLS:
    setattr(Methods, _name, _call(_name))
for _name in ATTRIBUTES:
    setattr(Methods, _name, property(lambda self, name=_name: getattr(self.value, name)))


def where(recorder, condition, *choices):
    """np.where of three arguments is elementwise."""
    if len(choices) != 2:
        return NotImplemented
    values = [getattr(x, "value", x) for x in (condition, *choices)]
    result = recorder.new(np.where(*values))
    loop = (np.dtype(bool), result.dtype, result.dtype, result.dtype)
    operands = [recorder._as_cell(x, i, loop) for i, x in enumerate((condition, *choices))]
    return recorder.add("where", operands, result, run_where, loop=loop)


def run_where(condition, x, y, out):
    np.copyto(out, y, casting="unsafe")
    np.copyto(out, x, where=condition, casting="unsafe")


def concatenate(recorder, parts, axis=0, out=None, **options):
    """Copies into the parts of a new array."""
    if out is not None or axis is None or options:
        return NotImplemented
    values = [getattr(x, "value", x) for x in parts]
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
    """Copies into the entries of a new axis."""
    if out is not None or options:
        return NotImplemented
    parts = list(parts)
    result = recorder.new(np.stack([getattr(x, "value", x) for x in parts], axis))
    along = np.moveaxis(result, axis, 0)
    for i, part in enumerate(parts):
        if part.size:
            recorder.copy(part, along[i])
    return result


def filled(value):
    """np.zeros_like and its kin: a copy of one number."""
    def make(recorder, like, *args, **options):
        if options.get("subok") or options.get("shape") is not None:
            return NotImplemented
        number = args[0] if value is None else value
        dtype = dict(enumerate(args)).get(1 if value is None else 0, options.get("dtype"))
        return recorder.copy(number, recorder.new(np.empty_like(like.value, dtype)))
    return make


def erf(recorder, x):
    """The error function is elementwise."""
    result = recorder.new(backend.exact_erf(x.value))

    def run(x, out):
        np.copyto(out, backend.exact_erf(x))
    return recorder.add("erf", [x], result, run, loop=(x.dtype, x.dtype))


def minus_one_hot(recorder, p, index):
    """p - one_hot(index), elementwise; the same bits as subtracting 1 at each index."""
    recorder._check_range(index, p.shape[-1])
    at = np.where(index < 0, index + p.shape[-1], index) if (index.min() < 0) else index
    return p - (at[..., None] == np.arange(p.shape[-1]))


def sum_by_index(recorder, rows, index, size):
    """One operation: its result does not depend on how the rows are sorted."""
    values = [getattr(x, "value", x) for x in (rows, index)]
    result = recorder.new(functions.sum_by_index(*values, size))

    def run(rows, index, out):
        np.copyto(out, functions.sum_by_index(rows, index, size))
    return recorder.add("sum_by_index", [rows, index], result, run, options={"size": size})


FUNCTIONS = {
    np.where: where, np.concatenate: concatenate, np.stack: stack,
    np.zeros_like: filled(0), np.ones_like: filled(1), np.full_like: filled(None),
    np.sum: lambda recorder, x, *args, **options: x.sum(*args, **options),
    np.mean: lambda recorder, x, *args, **options: x.mean(*args, **options),
    np.max: lambda recorder, x, *args, **options: x.max(*args, **options),
    np.min: lambda recorder, x, *args, **options: x.min(*args, **options),
    np.reshape: lambda recorder, x, *args, **options: NotImplemented,
    backend.exact_erf: erf, functions.minus_one_hot: minus_one_hot,
    functions.sum_by_index: sum_by_index,
}
