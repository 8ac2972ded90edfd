"""The arrays of tests/tools/fakecupy.py: NumPy's behind a wrapper that refuses what CuPy refuses."""

import json
import operator
from collections import Counter
from pathlib import Path

import numpy as np

from tests.tools.fakecupy_gpu import Memory

NAMES = json.loads((Path(__file__).parent / "cupy_names.json").read_text())
FUNCTIONS, METHODS, OPERATORS = (set(NAMES[k]) for k in ("functions", "methods", "operators"))
used = Counter()                                # calls: "tanh", ".sum", "__add__"
launches = Counter()                            # work for the device, by the same names
waits = []                                      # what made the host wait for the device
doubles = []                                    # calls whose result is in double precision
memory = Memory()


class ndarray:
    """An array on the pretended device. `_host` is for this file alone."""

    __slots__ = ("_host",)
    __array_priority__ = 100
    __hash__ = None

    def __init__(self, host):
        self._host = host

    def __array__(self, *args, **kwargs):
        raise TypeError("Implicit conversion to a NumPy array is not allowed. "
                        "Please use `.get()` to construct a NumPy array explicitly.")

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        if method != "__call__" or ufunc.__name__ not in FUNCTIONS:
            raise TypeError(f"CuPy has no {ufunc.__name__}.{method}")
        return call(ufunc.__name__, ufunc, inputs, kwargs)

    def __array_function__(self, function, types, args, kwargs):
        raise TypeError(f"numpy.{function.__name__} was called on a device array; use xp")

    def __getattr__(self, name):
        if name.startswith("__") or name not in METHODS:
            raise AttributeError(f"cupy.ndarray has no {name!r}")
        value = getattr(self._host, name)
        if not callable(value):
            used[f".{name}"] += 1
            return wrap(value) if isinstance(value, (np.ndarray, np.generic)) else value
        if name == "tolist":
            waits.append(name)
            return value
        return lambda *args, **kwargs: call(f".{name}", value, args, kwargs)

    def get(self):
        waits.append("get")
        return self._host.copy()

    def item(self):
        waits.append("item")
        return self._host.item()

    def __float__(self):
        waits.append("float")
        return float(self._host)

    def __int__(self):
        waits.append("int")
        return int(self._host)

    def __bool__(self):
        waits.append("bool")
        return bool(self._host)

    def __len__(self):
        return len(self._host)

    def __iter__(self):
        return (wrap(item) for item in self._host)

    def __repr__(self):
        return f"device_array(shape={self._host.shape}, dtype={self._host.dtype})"

    def __getitem__(self, index):
        index = plain_index(index)
        parts = index if isinstance(index, tuple) else (index,)
        if any(getattr(part, "dtype", None) == np.bool_ for part in parts):
            waits.append("boolean index")                  # how many are True?
        result = self._host[index]
        if not isinstance(result, np.ndarray):              # one entry is a 0-d view in CuPy
            used["__getitem__"] += 1
            return ndarray(np.asarray(result))
        return done("__getitem__", result, (self._host,))

    def __setitem__(self, index, value):
        if index is not Ellipsis:
            check_fusible("__setitem__")
        used["__setitem__"] += 1
        index, value = plain_index(index), plain(value)
        target = self._host[index]
        same = isinstance(value, np.ndarray) and (
            value.__array_interface__["data"], value.shape, value.strides) == (
            target.__array_interface__["data"], target.shape, target.strides)
        launches["__setitem__"] += not same     # CuPy too copies nothing after x[i] += y
        self._host[index] = value


def wrap(value):
    """NumPy's results as device arrays: scalars become 0-d arrays."""
    if isinstance(value, (np.ndarray, np.generic)):
        value = np.asarray(value)
        if value.base is None:
            memory.hold(value)
        return ndarray(value)
    if isinstance(value, (tuple, list)):
        return type(value)(wrap(item) for item in value)
    return value


def plain(value):
    """What an operand stands for; raises TypeError for what CuPy would refuse."""
    if isinstance(value, ndarray):
        return value._host
    if isinstance(value, np.ndarray):
        raise TypeError("Unsupported type <class 'numpy.ndarray'>")
    if isinstance(value, (list, tuple)):
        raise TypeError(f"Unsupported type {type(value)}")
    return value


def plain_index(index):
    """An index; NumPy arrays are refused here too, where CuPy copies them at every call."""
    if isinstance(index, tuple):
        return tuple(plain_index(part) for part in index)
    if isinstance(index, (np.ndarray, list)) and np.size(index):
        raise TypeError("an index on the host is copied to the device at every call")
    return index._host if isinstance(index, ndarray) else index


def done(name, result, operands):
    """Count a call that made `result` from NumPy arrays, and wrap the result."""
    check_fusible(name)
    used[name] += 1
    if isinstance(result, (np.ndarray, np.generic)):
        if result.dtype == np.float64:
            doubles.append(name)
        if result.size:
            count_launch(name, result, operands)
    return wrap(result)


def count_launch(name, result, operands):
    """Add what a GPU has to start for this result.

    At least one kernel or copy for each new array with entries; none for a view, nor for memory
    that is only set aside. A product of stacks of matrices (CuPy's matmul above two dimensions)
    first copies operands that are not contiguous.
    """
    if name.strip(".") in ("empty", "empty_like"):
        return
    arrays = [array for array in operands if isinstance(array, np.ndarray)]
    if any(np.may_share_memory(result, array) for array in arrays):
        return
    launches[name] += 1
    if name in ("matmul", "__matmul__") and result.ndim > 2:
        launches["copy for a stacked product"] += sum(
            not array.flags.c_contiguous for array in arrays)


def count_out(name, out, operands):
    """As count_launch, for a result that is written to `out`; a product of stacks is copied there
    where that is not contiguous."""
    launches[name] += bool(out.size)
    if name == "matmul" and out.ndim > 2:
        launches["copy for a stacked product"] += (not out.flags.c_contiguous) + sum(
            not array.flags.c_contiguous for array in operands if isinstance(array, np.ndarray))


# The positional arguments of these may be tuples that are no arrays: shapes, axes, permutations.
SHAPES = {"reshape", "transpose", "sum", "mean", "max", "min", "broadcast_to", "empty", "zeros",
          "ones", "full", "all", "any", "squeeze", "arange", "moveaxis", "tile", "expand_dims",
          "var", "std", "swapaxes", "flip", "prod", "argsort", "repeat"}
# The size of these results depends on the values: the host has to read it.
SIZE_BY_VALUE = {"argwhere", "compress", "extract", "flatnonzero", "nonzero", "unique"}
SEQUENCES = {"concatenate", "stack", "broadcast_arrays", "meshgrid"}


class Fused:
    """cupy.fuse: one kernel for what a function does to its arrays, be it many operations.

    As CuPy's, it takes arrays, numbers and None, all by position; inside are ufuncs alone, which
    may write to an argument, `x[...] = y`, and at the end one sum or maximum over an axis.
    """

    inside = False

    def __init__(self, function):
        self.function = function

    def __call__(self, *args):
        for arg in args:
            if not isinstance(arg, (ndarray, int, float, type(None))):
                raise TypeError(f"Invalid argument type for a fused function: {type(arg)}")
        if Fused.inside or not any(isinstance(arg, ndarray) for arg in args):
            return self.function(*args)
        before, Fused.inside = launches.copy(), True
        try:
            result = self.function(*args)
        finally:
            Fused.inside = False
        empty = all(arg._host.size == 0 for arg in args if isinstance(arg, ndarray))
        launches.clear()
        launches.update(before)
        launches["fused"] += not empty
        return result


def check_fusible(name):
    """Refuse inside a fused function what CuPy cannot fuse."""
    kind = getattr(np, name.strip("._"), None)
    elementwise = isinstance(kind, np.ufunc) and kind.signature is None     # matmul has one
    if Fused.inside and not (elementwise or name in ("sum", "max")
                             or name.strip("_") in FUSIBLE_OPERATORS):
        raise TypeError(f"{name} cannot be fused")


FUSIBLE_OPERATORS = {"add", "sub", "mul", "truediv", "radd", "rsub", "rmul", "rtruediv", "iadd",
                     "isub", "imul", "itruediv", "neg", "eq", "lt", "gt", "le", "ge"}


def call(name, function, args, kwargs):
    """Call a NumPy function, or a host array's method ".name", on the hosts of device arrays."""
    check_fusible(name)
    bare = name.strip(".")
    if bare in SIZE_BY_VALUE:
        waits.append(bare)
    known = NAMES["method_keywords" if name[0] == "." else "keywords"].get(bare)
    for keyword in kwargs:
        if known is not None and keyword not in known:
            raise TypeError(f"CuPy's {name} takes no keyword {keyword!r}; it takes {known}")
    out = kwargs.get("out")
    if out is not None and not isinstance(out, (ndarray, tuple)):
        raise TypeError("out must be a device array")

    def host(position, value):
        if isinstance(value, (tuple, list)):
            if bare in SEQUENCES:
                return type(value)(plain(item) for item in value)
            arrays = any(isinstance(item, (ndarray, np.ndarray)) for item in value)
            if not arrays and (bare in SHAPES or position != 0):
                return value
        return plain(value)

    args = [host(i, value) for i, value in enumerate(args)]
    kwargs = {key: host(key, value) if key != "out" else _plain_out(value)
              for key, value in kwargs.items()}
    result = function(*args, **kwargs)
    if isinstance(out, ndarray):
        used[name] += 1
        count_out(name, out._host, args)
        return out
    return done(name, result, (*args, getattr(function, "__self__", None)))


def _plain_out(out):
    out = out[0] if isinstance(out, tuple) else out
    return None if out is None else plain(out)


def _binary(name, function):
    def method(self, other):
        if isinstance(other, (list, tuple)):
            return NotImplemented
        value = plain(other)
        return done(name, function(self._host, value), (self._host, value))

    return method


def _in_place(name, function):
    def method(self, other):
        used[name] += 1
        launches[name] += 1
        self._host = function(self._host, plain(other))
        return self

    return method


def _unary(name, function):
    return lambda self: done(name, function(self._host), (self._host,))


def _add_operators():
    """Python's operators, as far as CuPy's arrays have them."""
    both = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor",
            "lshift", "rshift")
    made = {f"__{n}__": _unary(f"__{n}__", getattr(operator, n))
            for n in ("neg", "pos", "abs", "invert")}
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        made[f"__{name}__"] = _binary(f"__{name}__", getattr(operator, name))
    for name in both:
        function = getattr(operator, f"__{name}__")
        made[f"__{name}__"] = _binary(f"__{name}__", function)
        made[f"__r{name}__"] = _binary(f"__{name}__", lambda a, b, f=function: f(b, a))
        made[f"__i{name}__"] = _in_place(f"__i{name}__", getattr(operator, f"__i{name}__"))
    for name in made.keys() & OPERATORS:
        setattr(ndarray, name, made[name])


_add_operators()
