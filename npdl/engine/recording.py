"""Record a training step: run the step once on arrays that record their operations.

    recorder = Recorder()
    x = recorder.wrap_array(np.ones(3), "input")    # a RecordedArray
    y = np.exp(2 * x)                               # computes, and records two operations
    recorder.operations                             # [multiply(2, (3,)) -> (3,), exp((3,)) -> (3,)]

While it is recorded, the step also computes, and writes into the model's arrays. If Python code
reads a value (`if`, `float`, an index), a *guard* is recorded: replays check that the value is the
same.

If the state (parameters, gradients, moments) is on a GPU, the step is recorded on the CPU with a
copy of the state. Afterwards the recording refers to the arrays on the GPU again.
"""

import contextlib
import copy
import functools
import itertools
import operator
import sys
import threading

import numpy as np

from npdl import backend
from npdl.core import map_nested, rebuild
from npdl.engine.array_functions import (
    FUNCTIONS,
    IN_PLACE,
    OF_SHAPES,
    VIEW_FUNCTIONS,
    add_out_argument,
)
from npdl.engine.operation import Buffer, Number, Operation, View, find_base_array
from npdl.engine.recorded_array import (
    Diverged,
    RecordedArray,
    RecordedGenerator,
    Unsupported,
    plain_value,
)

SKIPPED = (__file__.rpartition("recording")[0], np.__file__.rpartition("__init__")[0],
           backend.__file__, copy.__file__)
_recorders = threading.local()          # `active` is the Recorder that this thread uses now


class Recorder:
    """Records the operations of a step, with the numbers and the generators that they use.

    operations     [Operation]
    before_replay  functions that a replay calls before the operations. They compute the Numbers
                   (numbers that change from step to step), check the guards on Numbers, and write
                   Numbers into arrays
    generators     [RecordedGenerator]
    """

    def __init__(self):
        self.operations, self.before_replay, self.generators = [], [], []
        self._unwritten = {}            # see expect_write
        self._buffers, self._saved, self._known, self._exit = {}, {}, {}, contextlib.ExitStack()
        self._roots = {}                # id: (array on the GPU, its copy on the CPU)

    def __enter__(self):
        if getattr(_recorders, "active", None) is not None:
            raise Unsupported("a recorded step was called inside of another recorded step; record "
                              "only the outer step")
        if not backend.is_host():
            self._exit.enter_context(backend.using("numpy"))
        _recorders.active = self
        return self

    def __exit__(self, *error):
        _recorders.active = None
        self._exit.close()
        for device, host in self._roots.values():
            self._buffers[id(host)].array = device

    # Arguments and results

    def wrap_array(self, array, buffer_role):
        """Return a RecordedArray. The role of its Buffer is "input", "state" or "constant"."""
        if backend.is_device_array(array):
            array = self._copy_to_host(array)
        return RecordedArray(self, array, self._get_buffer(array, buffer_role))

    def _copy_to_host(self, array):
        root = find_base_array(array)
        if not root.flags.c_contiguous:
            raise Unsupported(f"the model has an array of shape {root.shape}, which is not "
                              "contiguous; replace this array by cupy.ascontiguousarray(array)")
        if id(root) not in self._roots:
            self._roots[id(root)] = root, root.get()
        return np.ndarray(array.shape, array.dtype, self._roots[id(root)][1],
                          array.data.ptr - root.data.ptr, array.strides)

    def record_number(self, function, arguments):
        """Return function(*arguments) as a Number, or NotImplemented if an argument is an array."""
        if not all(isinstance(x, Number | int | float) for x in arguments):
            return NotImplemented
        key = (function, *((id(x) if isinstance(x, Number) else (type(x), x)) for x in arguments))
        if key not in self._known:
            number = Number(self, None)

            def compute():
                number.value = function(*map(plain_value, arguments))
            self._call_now_and_in_replays(compute)
            self._known[key] = number
        return self._known[key]

    def _call_now_and_in_replays(self, function):
        """Call function() now and before the operations of every replay."""
        function()
        self.before_replay.append(function)

    def wrap_generator(self, generator):
        """Return a random generator as a RecordedGenerator, which records its draws."""
        if hasattr(generator, "get_state") or hasattr(generator, "getstate"):
            raise Unsupported(f"the step has a generator of the type {type(generator).__name__}; "
                              "give it a generator of np.random.default_rng")
        self.generators.append(RecordedGenerator(self, generator))
        if hasattr(generator, "bit_generator"):
            bits = generator.bit_generator
            self._saved[id(generator)] = functools.partial(setattr, bits, "state", bits.state)
        return self.generators[-1]

    def roll_back(self):
        """Restore the arrays and the generators that the recorded step has changed."""
        for restore in self._saved.values():
            restore()
        self._saved.clear()

    def check_overlaps(self):
        """Raise Unsupported if two arrays share memory and are not views of one array."""
        buffers = sorted(self._buffers.values(), key=lambda buffer: buffer.address)
        if any(a.address + a.nbytes > b.address for a, b in itertools.pairwise(buffers)):
            raise Unsupported("two arrays of the step share memory, but NumPy doesn't know it ("
                              "their `base` is not one array); use slices of one array")

    def get_view(self, array):
        """Return the View of a recorded or plain array, which says where its memory lies."""
        if type(array) is RecordedArray:
            return View.from_array(array.value, array.buffer)
        return View.from_array(array, self._get_buffer(array, "constant"))

    def _get_buffer(self, array, role):
        root = find_base_array(array)
        if id(root) not in self._buffers:
            self._buffers[id(root)] = Buffer.from_array(root, role)
        return self._buffers[id(root)]

    # Operations

    def add_operation(self, kind, inputs, output, run, **fields):
        """Record an Operation with these attributes. Return `output`, a RecordedArray or None."""
        *views, out = [self.get_view(x) if isinstance(x, np.ndarray) else x
                       for x in (*inputs, output)]
        self.operations.append(Operation(kind, views, out, run, source=find_caller(), **fields))
        return output

    def wrap_result(self, value):
        """Return the result of an operation as a RecordedArray with a Buffer of its own."""
        value = np.asarray(value)
        if value.dtype.kind not in "fiub":
            raise Unsupported(f"an operation of the step returned the dtype {value.dtype}, which "
                              "can't be recorded; use floats, integers or bools")
        return RecordedArray(self, value, Buffer.from_array(find_base_array(value), "temporary"))

    def save_before_write(self, array):
        """Save the entries of an array for `roll_back`, and return the array."""
        if type(array) is not RecordedArray:
            raise Unsupported("the step writes into an array that is not an attribute of a layer; "
                              "write into a new array, such as np.zeros_like(x)")
        if not array.value.flags.writeable:
            refuse_row_copy()
        root = array.buffer.array
        if root is not None and id(root) not in self._saved:
            before = root.copy() if root.any() else 0           # new gradients and moments are 0
            self._saved[id(root)] = functools.partial(np.copyto, root, before, "unsafe")
        return array

    def record_ufunc(self, ufunc, method, inputs, options):
        """Record a call of a ufunc or of one of its methods."""
        if options.get("where", True) is not True:
            raise Unsupported(f"{ufunc.__name__} was called with where=; use np.where")
        (out,) = options.pop("out", None) or (None,)
        if ufunc is np.matmul and out is not None:      # it may overlap an input
            return self.record_copy(np.matmul(*inputs, **options), self.save_before_write(out))
        if ufunc is np.matmul:
            a, b = (x if type(x) is RecordedArray else self.wrap_array(np.asarray(x), "constant")
                    for x in inputs)
            if a.dtype != b.dtype:              # BLAS and cuBLAS multiply arrays of one dtype
                wide = np.promote_types(a.dtype, b.dtype)
                return np.matmul(a.astype(wide), b.astype(wide), **options)
            if b.ndim == 1:                             # a vector is a matrix of one column or row
                return np.matmul(a, b[:, None], **options)[..., 0]
            if a.ndim == 1:
                return np.matmul(a[None], b, **options)[..., 0, :]
        call = ufunc if method == "__call__" else getattr(ufunc, method)
        if method == "at":
            return self.record_in_place_call(call, inputs, options)
        if ufunc.nout > 1 or method not in ("__call__", "reduce"):
            return self.record_call(call, inputs, options | {"out": out})
        inputs = [np.asarray(x) if isinstance(x, (list, tuple)) else x for x in inputs]
        if method == "reduce":
            options = {"axis": 0} | options
        values = [plain_value(x) for x in inputs]
        if out is None:
            result = self.wrap_result(call(*values, **options))
        else:
            result = self.save_before_write(out)
            call(*values, out=result.value, **options)
        is_elementwise = method == "__call__" and ufunc.signature is None and (
            not options.keys() - {"casting", "subok"})
        loop = find_loop_dtypes(ufunc, inputs) if is_elementwise else None
        operands = [self.as_operand(x, i, loop) for i, x in enumerate(inputs)]
        kind = ufunc.__name__ if method == "__call__" else ufunc.__name__ + ".reduce"
        return self.add_operation(kind, operands, result, functools.partial(call, **options),
                                  loop=loop, options=options)

    def as_operand(self, value, position, loop_dtypes):
        """Return `value` as input number `position` of an operation.

        For a Number, return an array with one entry, into which every replay writes the Number.
        """
        if not isinstance(value, Number):
            return np.asarray(value) if isinstance(value, (list, tuple)) else value
        key = id(value), None if loop_dtypes is None else loop_dtypes[position]
        if key not in self._known:
            self._known[key] = entry = np.array(value.value, key[1])
            self._call_now_and_in_replays(lambda: np.copyto(entry, value.value, casting="unsafe"))
            self._get_buffer(entry, "number")
        return self._known[key]

    def record_known_function(self, function, args, options):
        """Record a call of a NumPy function, or of an npdl function that can be replaced."""
        if function in FUNCTIONS:
            answer = FUNCTIONS[function](self, *args, **options)
            if answer is not NotImplemented:
                return answer
        if function in IN_PLACE:
            return self.record_in_place_call(function, args, options)
        return self.record_call(function, args, options)

    def record_call(self, function, args, options):
        """Record a call of any function that returns arrays and changes no array except `out`."""
        out = options.pop("out", None)
        if out is not None:
            return self.record_copy(self.record_call(function, args, options),
                                    self.save_before_write(out))
        inputs, put_back = take_out_recorded_arrays((args, options))

        def call(*arrays):
            args, options = put_back(arrays)
            return function(*args, **options)
        result = call(*(x.value for x in inputs))
        others = args if function is np.nan_to_num else args[1:]    # np.atleast_1d(x) returns x
        if any(result is plain_value(x) for x in (*others, *options.values())):
            raise Unsupported(f"{get_function_name(function)}() writes into an argument; give this "
                              "argument as out=, or leave out copy=False")
        if not isinstance(result, (tuple, list)):
            return self._record_result(function, inputs, result, call)
        return rebuild(result, [
            self._record_result(function, inputs, part, lambda *arrays, i=i: call(*arrays)[i])
            for i, part in enumerate(result)])

    def _record_result(self, function, inputs, result, compute):
        """Return a function's result as a RecordedArray: a view of an input, or a new array.

        compute(*inputs) returns the result again. A Python number is returned as it is. If it may
        depend on entries of arrays, replays check that it is the same. Raises Unsupported for any
        other result.
        """
        if function in OF_SHAPES:
            return result
        if not isinstance(result, (np.ndarray, np.generic, bool, int, float)):
            raise Unsupported(f"{get_function_name(function)} returned {result!r}, which can't be "
                              "recorded; call functions that return arrays or numbers")
        for i, x in enumerate(inputs):
            if x.value.size and np.may_share_memory(x.value, result):
                # The offset and the strides of a view may depend on integers, as in np.split
                for j, other in enumerate(inputs):
                    if function is np.trim_zeros or i != j and (
                            other.dtype.kind in "iu" and function not in VIEW_FUNCTIONS):
                        other.tolist()
                return RecordedArray(self, result, x.buffer)
        name, output = get_function_name(function) + "()", self.wrap_result(result)
        recorded = self.add_operation(name, inputs, output, add_out_argument(compute))
        is_plain = type(result) in (bool, int, float)
        return self.record_guard(type(result), recorded) if is_plain else recorded

    def record_in_place_call(self, function, args, options):
        """Record a call of a function that writes into its first argument."""
        target = self.save_before_write(args[0])
        inputs, put_back = take_out_recorded_arrays((args[1:], options))
        args, options = put_back([x.value for x in inputs])
        function(target.value, *args, **options)

        def run(_, *arrays, out):
            args, options = put_back(arrays)
            function(out, *args, **options)
        self.add_operation(get_function_name(function) + "()", [target, *inputs], target, run)

    def record_copy(self, value, out):
        """Record that `value` is written into `out`. The value is cast and broadcast as needed."""
        np.copyto(out.value, plain_value(value), casting="unsafe")
        value = self.as_operand(value, 0, (out.dtype,))
        while getattr(value, "ndim", 0) > out.ndim:         # x[0] = y for y of shape (1, ..)
            value = value[0]
        return self.add_operation("copy", [value], out, run=None)

    def record_getitem(self, x, index):
        """Record x[index], a view or a copy of x.

        If the index is an integer that the step computes, NumPy returns a view, but a replay makes
        a copy. So the result is read-only.
        """
        result = self._record_entries(x, index)
        parts = index if isinstance(index, tuple) else (index,)
        arrays = [i for i in parts if isinstance(i, (np.ndarray, list))]
        if arrays and result.ndim and all(
                isinstance(i, np.ndarray) and i.ndim == 0 and i.dtype.kind in "iu" for i in arrays):
            result.value.setflags(write=False)
        return result

    def _record_entries(self, x, index):
        """Record x[index] as a view of x, a look-up of rows ("take"), or any other copy."""
        if isinstance(index, np.ndarray) and index.dtype.kind in "iu" and index.size:
            result = self.wrap_result(x.value[plain_value(index)])
            if type(index) is RecordedArray:
                self.is_index_in_range(index, len(x))
            if index.min() < 0:
                index = np.where(index < 0, index + len(x), index)
            return self.add_operation("take", [x, index], result, run_take)
        return self.record_call(operator.getitem, (x, index), {})

    def expect_write(self, value):
        """Return x[i] + y, the result of `x[i] += y`; remember it until it is written into x[i]."""
        self._unwritten[id(value)] = value, find_caller()
        return value

    def check_written(self):
        """Raise Unsupported if a result of `expect_write` was not written."""
        for _, (path, line) in self._unwritten.values():
            refuse_row_copy(f" ({path}:{line})")

    def is_index_in_range(self, index, size):
        """Return True if -size <= i < size for all entries i of `index`. Replays check it again."""
        return not index.size or self.record_guard(
            bool, (index.min() >= -size) & (index.max() < size))

    def record_setitem(self, x, index, value):
        if self._unwritten.get(id(value), (None, None))[1] == find_caller():
            del self._unwritten[id(value)]
        x, index = self.save_before_write(x), index if isinstance(index, tuple) else (index,)
        if any(isinstance(i, (np.ndarray, list, tuple, range, bool, np.bool_)) for i in index):
            self.record_in_place_call(operator.setitem, (x, index, value), {})
            return
        if not any(i is Ellipsis for i in index):       # x[1, ...] is a view even if x is 1-D
            index = (*index, ...)
        self.record_copy(value, RecordedArray(self, x.value[index], x.buffer))

    def record_draw(self, rng, method_name, args, options):
        """Record a call of a method of a RecordedGenerator, such as rng.random(shape)."""
        recorded, put_back = take_out_recorded_arrays((args, options))
        if recorded:
            raise Unsupported(f"the random generator's {method_name}() got an array as an argument;"
                              " give it numbers")

        def draw():
            args, options = put_back(())
            return getattr(rng.generator, method_name)(*args, **options)
        result = draw()
        if not isinstance(result, np.ndarray) or any(
                result is x for x in (*args, *options.values())):
            raise Unsupported(f"the random generator's {method_name}() returned no new array; give "
                              "a shape, and no out=")

        def run(out):
            np.copyto(out, draw())
        return self.add_operation("draw", [], self.wrap_result(result), run)

    def record_guard(self, convert, value):
        """Return convert(x), for example bool(x). Replays check that the result is the same."""
        expected = convert(plain_value(value))

        def check(value, out=None):
            actual = convert(value)
            if actual != expected and not (actual != actual and expected != expected):     # NaN
                raise Diverged("a guard does not hold")
        if isinstance(value, Number):
            self._call_now_and_in_replays(lambda: check(value.value))
        else:
            self.add_operation("guard", [value], None, check, options={"convert": convert})
        return expected


def refuse_row_copy(place=""):
    """Raise Unsupported, because a replay copies a row x[i] into which the step writes."""
    raise Unsupported("for an integer i that the step computes, y = x[i] is a copy in replays, but "
                      f"the step writes into y; write x[i] instead of y{place}")


def take_out_recorded_arrays(nested):
    """Take the recorded arrays out of nested tuples, lists and dicts. Return (recorded, put_back).

    `recorded` is the list of these arrays. The function put_back(arrays) returns the same nested
    structure, with `arrays` in their place, and with the current value of each Number. It has no
    reference to the recorded arrays, so that their memory can be freed. Guards are recorded for
    integers that change from step to step, because views and shapes may depend on them.
    """
    recorded, removed = [], object()

    def remove(value):
        if isinstance(value, Number) and isinstance(value.value, int):
            return value.recorder.record_guard(type(value.value), value)    # a position or a shape
        if isinstance(value, slice):
            return slice(*(i if i is None else operator.index(i) for i in (
                value.start, value.stop, value.step)))
        if type(value) is not RecordedArray:
            return value
        recorded.append(value)
        return removed
    rest = map_nested(remove, nested)

    def put_back(arrays):
        arrays = iter(arrays)
        return map_nested(lambda x: next(arrays) if x is removed else plain_value(x), rest)
    return recorded, put_back


def find_loop_dtypes(ufunc, inputs):
    """Return the dtypes in which a ufunc computes, one for each input and for the output."""
    kinds = [x.dtype if hasattr(x, "dtype") else np.dtype(bool) if isinstance(x, bool)
             else type(plain_value(x)) for x in inputs]
    return ufunc.resolve_dtypes((*kinds, None), casting="unsafe")


def run_take(x, index, out):
    np.take(x, index, 0, out, "wrap")           # a guard has checked the range


def get_function_name(function):
    return getattr(function, "__name__", type(function).__name__)


def find_caller():
    """Return (file, line) of the code that called the engine or NumPy, for example of a layer."""
    frame = sys._getframe(1)
    while frame.f_back and frame.f_code.co_filename.startswith(SKIPPED) and (
            not frame.f_code.co_filename.endswith("prefix.py")):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno
