"""The recorded array. It contains a NumPy array, computes with it, and records each operation.

    x = recorder.wrap_array(np.ones(3), "input")
    y = x.sum() + 1                     # 4.0, and the recorder has two more operations

RecordedArray is not a subclass of ndarray. So NumPy's C code can read the entries only through
`__array__`, which raises `Unsupported`. Otherwise NumPy could compute with the entries without a
record, and the results would be constants in all replays.
"""

import numpy as np

# Methods of ndarray that change nothing; each is recorded as one call.
CALLS = ("argmax", "argmin", "argpartition", "argsort", "choose", "clip", "compress", "conj",
         "cumprod", "cumsum", "diagonal", "dot", "flatten", "nonzero", "ravel", "repeat", "round",
         "searchsorted", "squeeze", "std", "swapaxes", "take", "trace", "transpose", "var", "view")
IN_PLACE_CALLS = ("partition", "put", "sort")
REDUCTIONS = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum,
              "any": np.logical_or, "all": np.logical_and}
ATTRIBUTES = ("dtype", "itemsize", "nbytes", "ndim", "shape", "size", "strides", "flags")


class Unsupported(Exception):
    """The step can't be recorded. Each call of the step then runs without a recording."""


class Diverged(Exception):
    """A value in a replay differs from the recorded one, so the recording can't be used."""


def refuse_copy(recorded, protocol):
    """Raise Unsupported if the module copy or pickle copies an array, a number or a generator."""
    raise Unsupported("an array, a number or a generator of the step was copied by the module copy "
                      "or by pickle; copy arrays with x.copy(), and don't copy generators")


class Recorded:
    """A base class that records calls of ufuncs. Its subclasses are RecordedArray and Number.

    If Python reads the value, a *guard* is recorded: replays check that the value is the same.
    """

    __slots__ = ()
    __hash__ = None
    __reduce_ex__ = refuse_copy

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        return self.recorder.record_ufunc(ufunc, method, inputs, options)

    def __bool__(self):
        return self.recorder.record_guard(bool, self)

    def __int__(self):
        return self.recorder.record_guard(int, self)

    def __float__(self):
        return self.recorder.record_guard(float, self)

    def __index__(self):
        return self.recorder.record_guard(int, self)

    def __str__(self):
        return self.recorder.record_guard(str, self)

    def __format__(self, spec):
        return self.recorder.record_guard(lambda x: format(x, spec), self)


def plain_value(x):
    """Return the plain value of a recorded array or Number. Return any other `x` as it is."""
    return x.value if issubclass(type(x), Recorded) else x


class RecordedArray(Recorded, np.lib.mixins.NDArrayOperatorsMixin):
    """An array whose operations are recorded. `value` is the plain array."""

    __slots__ = ("buffer", "recorder", "value")
    overrides_functions = True          # npdl.backend reads this

    def __init__(self, recorder, value, buffer):
        self.recorder, self.value, self.buffer = recorder, value, buffer

    @property
    def __class__(self):                # so that isinstance(x, np.ndarray) is True in layers
        return np.ndarray

    def __array_function__(self, function, types, args, options):
        return self.recorder.record_known_function(function, args, options)

    def __array__(self, dtype=None, copy=None):
        raise Unsupported("np.asarray(x), np.array(x), np.array([x, ..]), table[x] or a[i] = x was "
                          "called for an array x of the step; write npdl.backend.to_device(x) or "
                          "np.stack([x, ..]), make table an attribute of the layer, or make a with "
                          "np.zeros_like(x, shape=..)")

    def item(self, *index):
        return self.recorder.record_guard(np.ndarray.item, self[index] if index else self)

    def tolist(self):
        return self.recorder.record_guard(np.ndarray.tolist, self)

    def __len__(self):
        return len(self.value)

    def __iter__(self):
        return (self[i] for i in range(len(self.value)))

    def __repr__(self):
        return f"recorded {self.value!r}"

    def __getitem__(self, index):
        return self.recorder.record_getitem(self, index)

    def __setitem__(self, index, value):
        self.recorder.record_setitem(self, index, value)

    # Methods

    T, mT = property(np.transpose), property(np.matrix_transpose)

    def __pow__(self, exponent):
        """Compute np.square for the exponent 2 and np.sqrt for 0.5, as NumPy does."""
        if type(exponent) is int or type(exponent) is float and self.dtype.kind == "f":
            quick = {2: np.square, 0.5: np.sqrt}.get(exponent)
            if quick is not None:
                return quick(self)
        return np.power(self, exponent)

    def mean(self, axis=None, dtype=None, out=None, keepdims=False):
        """Compute a sum, then divide by the count in place, as NumPy does."""
        if self.dtype == np.float16 or out is not None:
            return self.recorder.record_call(np.mean, (self, axis, dtype),
                                             {"out": out, "keepdims": keepdims})
        axes = range(self.ndim) if axis is None else np.atleast_1d(axis)
        count = np.prod([self.shape[i] for i in axes], dtype=np.intp)
        wide = np.float64 if dtype is None and self.dtype.kind in "iub" else dtype
        total = self.sum(axis, dtype=wide, keepdims=keepdims)
        return np.true_divide(total, count, out=total)

    def astype(self, dtype, order="K", casting="unsafe", subok=True, copy=True):
        if not copy and self.dtype == dtype:
            return self
        out = self.recorder.wrap_result(np.empty_like(self.value, dtype))
        return self.recorder.record_copy(self, out)

    def copy(self, order="C"):
        out = self.recorder.wrap_result(np.empty_like(self.value, order=order))
        return self.recorder.record_copy(self, out)

    def fill(self, value):
        self[...] = value

    def reshape(self, *shape, order="C"):
        shape = shape[0] if len(shape) == 1 else shape
        is_view = np.may_share_memory(self.value.reshape(shape, order=order), self.value)
        source = self if is_view or order != "C" else self.copy()
        return self.recorder.record_call(np.reshape, (source, shape), {"order": order})


class RecordedGenerator:
    """A random generator whose draws are operations: every replay draws from `generator` again."""

    __reduce_ex__ = refuse_copy

    def __init__(self, recorder, generator):
        self.recorder, self.generator = recorder, generator

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if not callable(getattr(self.generator, name)) or name == "spawn":
            raise Unsupported(f"the attribute {name} of a random generator was read; only calls of "
                              "methods that draw numbers can be recorded")
        return lambda *args, **options: self.recorder.record_draw(self, name, args, options)


def _make_in_place_method(name):
    method = getattr(np.lib.mixins.NDArrayOperatorsMixin, name)
    new_array_method = getattr(np.lib.mixins.NDArrayOperatorsMixin, name.replace("__i", "__"))

    def in_place(self, other):
        """Return NotImplemented for a NumPy scalar, so that `t += 1` makes a new t, as in NumPy."""
        if not self.value.flags.writeable:              # x[i] += 1: x[i] = x[i] + 1 must follow
            return self.recorder.expect_write(new_array_method(self, other))
        buffer = self.buffer
        is_scalar = self.ndim == 0 and buffer.nbytes == self.nbytes and (
            buffer.is_temporary or buffer.role == "scalar")
        return NotImplemented if is_scalar else method(self, other)
    return in_place


def _make_reduction_method(ufunc):
    def method(self, axis=None, *, keepdims=False, **options):
        options = {name: value for name, value in options.items() if value is not None}
        return ufunc.reduce(self, axis=axis, keepdims=keepdims, **options)
    return method


def _make_recorded_method(method_name, recorder_method):
    method = getattr(np.ndarray, method_name)
    return lambda self, *args, **options: getattr(self.recorder, recorder_method)(
        method, (self, *args), options)


for _name in "add sub mul matmul truediv floordiv mod pow lshift rshift and or xor".split():
    setattr(RecordedArray, f"__i{_name}__", _make_in_place_method(f"__i{_name}__"))
for _name, _ufunc in REDUCTIONS.items():
    setattr(RecordedArray, _name, _make_reduction_method(_ufunc))
for _name in CALLS:
    setattr(RecordedArray, _name, _make_recorded_method(_name, "record_call"))
for _name in IN_PLACE_CALLS:
    setattr(RecordedArray, _name, _make_recorded_method(_name, "record_in_place_call"))
for _name in ATTRIBUTES:
    setattr(RecordedArray, _name, property(lambda self, name=_name: getattr(self.value, name)))
