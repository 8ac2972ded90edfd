"""The contents of a recording: blocks of memory, views of them, numbers, and operations.

A recording of `y = x * 2 + b` is two operations on views of four buffers:

    multiply   x, 2      -> t           t is temporary: its memory is in the arena (`arena`)
    add        t, b      -> y

A `View` describes where an array lies (buffer, offset, strides) but holds no numbers. So a
recording needs no memory for results, and an operation can be translated into NumPy or into C.
"""

import operator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import byte_bounds

from npdl.backend import is_device_array
from npdl.engine.recorded_array import Recorded


@dataclass(eq=False, slots=True)
class Buffer:
    """One block of memory.

    role     "temporary" (in the arena), "input" (an argument of the step), "state" (a parameter, a
             gradient or a moment), "number" (one entry that every replay sets), "scalar" (an
             attribute that is a NumPy scalar), "constant", or "shared" (on CUDA: the CPU computes
             it, the GPU reads it)
    array    the array that owns the memory; None for a temporary without memory
    address  the lowest address of the memory; the offset of a View is counted from it
    """

    role: str
    address: int
    nbytes: int
    array: Any = None

    @classmethod
    def from_array(cls, root, role):
        """Make the Buffer of `root`, an array that owns its memory."""
        low, high = byte_bounds(root) if root.size else (get_address(root),) * 2
        return cls(role, low, high - low, None if role == "temporary" else root)

    @property
    def is_temporary(self):
        return self.role == "temporary"


class View(NamedTuple):
    """Says where an array lies in a Buffer, a block of memory. Offset and strides are in bytes."""

    buffer: Buffer
    offset: int
    shape: tuple
    strides: tuple
    dtype: np.dtype

    @classmethod
    def from_array(cls, array, buffer):
        """Describe a NumPy array whose memory belongs to `buffer`."""
        return cls(buffer, get_address(array) - buffer.address, array.shape, array.strides,
                   array.dtype)

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def size(self):
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def is_contiguous(self):
        """Return True if the entries lie next to each other in C order."""
        expected = contiguous_strides(self.shape, self.dtype.itemsize)
        return all(n == 1 or stride == wanted for n, stride, wanted
                   in zip(self.shape, self.strides, expected, strict=True))

    @property
    def covers_buffer(self):
        """Return True if the view covers its whole buffer, in C order."""
        return self.is_contiguous and self.size * self.dtype.itemsize == self.buffer.nbytes

    @property
    def byte_range(self):
        """Return (start, end), the range of the bytes of the buffer that belong to the view."""
        low, high = self.offset, self.offset + self.dtype.itemsize
        for n, stride in zip(self.shape, self.strides, strict=True):
            low, high = low + min(0, (n - 1) * stride), high + max(0, (n - 1) * stride)
        return (low, high) if self.size else (low, low)

    def reshaped(self, *shape):
        """Return a contiguous view of the same memory, with the shape `shape`."""
        return self._replace(shape=shape, strides=contiguous_strides(shape, self.dtype.itemsize))

    def as_array(self):
        """Return the view's NumPy array, in the memory of the buffer on the CPU."""
        return np.asarray(_Memory(self))


class _Memory:
    """The memory that a View describes. np.asarray makes an array of it and keeps `owner` alive."""

    def __init__(self, view):
        self.owner = view.buffer.array
        self.__array_interface__ = {
            "version": 3, "typestr": view.dtype.str, "shape": view.shape, "strides": view.strides,
            "data": (view.buffer.address + view.offset, False)}


class Number(Recorded):
    """A Python number that changes from step to step, such as the learning rate.

    Arithmetic with a Number makes another Number, which every replay computes again. An `if` on a
    Number records a guard: replays check that the condition has the same result. A NumPy ufunc of a
    Number records an operation.
    """

    __slots__ = ("recorder", "value")

    def __init__(self, recorder, value):
        self.recorder, self.value = recorder, value

    @property
    def __class__(self):                # so that isinstance(t, int) is True for a number of steps
        return type(self.value)

    def __repr__(self):
        return repr(self.value)


def _make_number_operator(function, reverse=False):
    def method(self, *others):
        arguments = (*others, self) if reverse else (self, *others)
        return self.recorder.record_number(function, arguments)
    return method


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    setattr(Number, f"__{_name}__", _make_number_operator(getattr(operator, _name)))
    setattr(Number, f"__r{_name}__", _make_number_operator(getattr(operator, _name), reverse=True))
for _name in ("neg", "pos", "abs", "lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Number, f"__{_name}__", _make_number_operator(getattr(operator, _name)))


@dataclass(eq=False, repr=False, slots=True)
class Operation:
    """One array operation.

    kind     its name: "add" (a ufunc), "add.reduce", "copy", "take", "guard", ..; a name with "()",
             such as "sort()", is any other function, which a replay simply calls
    inputs   Views, and Python or NumPy scalars
    output   a View; None for a guard (a check that a replay takes the same path)
    run      a function: run(*inputs, out=output) computes the operation with NumPy. None for "copy"
    loop     for an elementwise operation, the dtypes to which NumPy casts the inputs, and the dtype
             of its result; else None
    options  further arguments, such as the axis of a sum
    source   (file, line) of the recorded code, for example of a layer
    """

    kind: str
    inputs: list
    output: Any
    run: Any
    loop: Any = None
    options: dict = field(default_factory=dict)
    source: Any = None

    replace = replace               # op.replace(inputs=..) returns a copy with other inputs

    @property
    def read_views(self):
        """Return the Views that are read."""
        return [x for x in self.inputs if isinstance(x, View)]

    @property
    def written_views(self):
        """Return the Views that are written: the output, or nothing for a guard."""
        return [] if self.output is None else [self.output]

    @property
    def views(self):
        return self.read_views + self.written_views

    @property
    def has_effect(self):
        """Return True for a guard or a draw, which run even if nothing reads their output."""
        return self.kind in ("guard", "draw")

    @property
    def can_diverge(self):
        """Return True if a replay may fail here: at a guard, or at a call such as "sort()"."""
        return self.kind == "guard" or self.kind.endswith("()")

    def __repr__(self):
        shapes = ", ".join(str(x.shape) if isinstance(x, View) else repr(x) for x in self.inputs)
        return f"{self.kind}({shapes}) -> {self.output.shape if self.output else ''}"


def get_address(array):
    return array.__array_interface__["data"][0]


def find_base_array(array):
    """Return the array that owns the memory of `array`, an array on the CPU or the GPU."""
    while isinstance(array.base, np.ndarray) or is_device_array(array.base):
        array = array.base
    return array


def contiguous_strides(shape, itemsize):
    """Return the strides of a C-contiguous array."""
    strides = []
    for n in reversed(shape):
        strides.append(itemsize)
        itemsize *= n
    return tuple(reversed(strides))


def may_overlap(a, b):
    """Return True if two Views may share memory."""
    if a.buffer is not b.buffer:
        return False
    (a_low, a_high), (b_low, b_high) = a.byte_range, b.byte_range
    return a_low < b_high and b_low < a_high
