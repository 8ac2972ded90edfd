"""The array backend: NumPy (the default) or CuPy.

Layers and models use arrays only through this file. They write ``from npdl.backend import xp`` and
then ``xp.tanh(x)``. ``xp`` is NumPy or CuPy, as chosen by ``use``. A process can use both backends,
one after the other:

    with backend.using("cupy"):
        model.to_backend()
"""

import contextlib
import functools
import math
import os

import numpy as np

from npdl.errors import BackendError
from npdl.options import require_choice

NAMES = ("numpy", "cupy")


class _ArrayModule:
    """An object whose attributes are those of the chosen module, NumPy or CuPy."""

    def __init__(self):
        self._module = np

    def __getattr__(self, name):
        value = getattr(self._module, name)
        self.__dict__[name] = value  # the next access doesn't call __getattr__
        return value

    def _use_module(self, module):
        self.__dict__.clear()
        self._module = module


xp = _ArrayModule()


def is_tf32():
    """Return True if matrix products round float32 to 10 bits of mantissa (CUPY_TF32=1)."""
    if is_host():
        return False
    linalg = xp._module._core._routines_linalg
    return linalg.get_compute_type("f") == linalg.COMPUTE_TYPE_TF32


def _import_cupy():
    """Return the module cupy. Raise BackendError if it or a usable GPU is missing."""
    instead = "or use '--backend numpy'"
    try:
        import cupy
    except ModuleNotFoundError as error:
        raise BackendError("backend 'cupy': CuPy is not installed; install cupy-cuda12x[ctk] or "
                           "cupy-cuda13x[ctk] to match your driver, "
                           f"{instead} ({error})") from error
    except ImportError as error:
        raise BackendError("backend 'cupy': CuPy is installed but cannot be loaded; install just "
                           "one of cupy-cuda12x and cupy-cuda13x, "
                           f"{instead} ({_describe_cause(error)})") from error
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # no driver, one that is too old, or no device
        raise BackendError(f"backend 'cupy': no usable GPU{_describe_visible_devices()}; if "
                           "nvidia-smi lists a GPU, its driver may be too old for this CuPy: "
                           f"update the driver, {instead} ({_describe_cause(error)})") from error
    if count == 0:
        raise BackendError(f"backend 'cupy': no GPU was found{_describe_visible_devices()}; check "
                           f"with nvidia-smi, {instead}")
    return cupy


def _describe_visible_devices():
    """Return a note that CUDA_VISIBLE_DEVICES may hide GPUs, or "" if it is not set."""
    shown = os.environ.get("CUDA_VISIBLE_DEVICES")
    return "" if shown is None else f" among those that CUDA_VISIBLE_DEVICES={shown!r} shows"


def _describe_cause(error):
    """Return the message of the innermost of chained errors, on one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(str(error).split()) or type(error).__name__


@contextlib.contextmanager
def convert_cupy_errors():
    """Convert CuPy's errors inside the block to BackendErrors with a message of one line.

    The most frequent error is a full GPU memory. Other errors are not changed.
    """
    try:
        yield
    except Exception as error:
        if not _is_cupy_error(error):
            raise
        if isinstance(error, MemoryError):
            raise BackendError("backend 'cupy': the GPU's memory is full; lower --batch, --width, "
                               "--layers or the length, or use '--backend numpy' "
                               f"({_describe_cause(error)})") from error
        raise BackendError(f"backend 'cupy': {type(error).__name__}: {_describe_cause(error)}; "
                           "check the GPU with nvidia-smi, and that cupy-cuda12x or cupy-cuda13x "
                           "fits its driver, or use '--backend numpy'") from error


def _is_cupy_error(error):
    """Return True if an error comes from CuPy, for example if it can't load a CUDA library."""
    if isinstance(error, ImportError) and not isinstance(error, ModuleNotFoundError):
        return not is_host()
    return type(error).__module__.split(".")[0] in ("cupy", "cupyx", "cupy_backends", "cuda")


def use(name):
    """Choose the backend, 'numpy' or 'cupy', for all arrays that are made from now on.

    Raises InputError for another name, and BackendError if CuPy or a GPU is missing.
    """
    require_choice("backend", name, NAMES)
    xp._use_module(np if name == "numpy" else _import_cupy())


@contextlib.contextmanager
def using(name):
    """Choose a backend inside a ``with`` block; after it, the earlier backend is used again."""
    before = xp._module
    use(name)
    try:
        yield
    finally:
        xp._use_module(before)


def is_host():
    """Return True if the backend is NumPy, whose arrays are in the memory of the host (CPU)."""
    return xp._module is np


def to_host(array):
    """Return a NumPy array with the same values. Wait for the GPU if the array is there."""
    return array.get() if hasattr(array, "get") else np.asarray(array)


def is_device_array(x):
    """Return True for an array in the memory of a GPU."""
    return hasattr(x, "__cuda_array_interface__")


def to_device(array):
    """Return `array` as an array of the backend. A recorded array (npdl.engine) stays as it is."""
    return array if overrides_functions(array) else xp.asarray(array)


def as_array(array):
    """Convert a value to an array of the backend. Arrays of the backend stay as they are."""
    return array if isinstance(array, xp.ndarray) else xp.asarray(array)


def overrides_functions(array):
    """Return True if the array's type has its own versions of npdl's and NumPy's functions."""
    return getattr(type(array), "overrides_functions", False)


def synchronize():
    """Wait until the GPU has finished all its work. With NumPy there is nothing to wait for."""
    if not is_host():
        xp.cuda.get_current_stream().synchronize()


def make_rng(seed, *key):
    """Return a NumPy generator. The same seed and key give the same random numbers.

    For example, `key` is the number of the step. All random numbers of npdl are drawn from such
    generators. So a run can be resumed without a saved generator, and both backends use the same
    random numbers.
    """
    return np.random.Generator(np.random.Philox(np.random.SeedSequence((seed, *key))))


def dispatch_on_array_type(function):
    """Decorate a function of arrays, so that an array type can replace it by its own version.

    If an argument's type has `overrides_functions = True`, its `__array_function__` is called
    instead of the function. NumPy's own functions follow the same protocol.
    """
    @functools.wraps(function)
    def dispatch(*args):
        for x in args:
            if overrides_functions(x):
                return x.__array_function__(dispatch, (type(x),), args, {})
        return function(*args)
    return dispatch


@dispatch_on_array_type
def exact_erf(x):
    """Return the error function of an array, exact except for the last digits."""
    if not is_host():
        from cupyx.scipy.special import erf

        return erf(x)
    return np.array([math.erf(value) for value in x.ravel()], x.dtype).reshape(x.shape)


def one_hot(index, size, dtype):
    """Return the one-hot vectors (..., size) of integers (...) below `size`.

    npdl.functions.sum_by_index multiplies by them on a GPU, because a matrix product is
    deterministic and atomic additions are not.
    """
    return (index[..., None] == xp.arange(size)).astype(dtype)
