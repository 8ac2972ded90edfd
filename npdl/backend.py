"""The array backend: NumPy by default, CuPy on request. Layers and models use only this file.

Everything else writes ``from npdl.backend import xp`` and then ``xp.tanh(x)``; ``xp`` stands for
whichever module ``use`` has chosen. Both backends can take turns in one process:

    with backend.using("cupy"):
        model.to_backend()
"""

import contextlib
import functools
import math
import os

import numpy as np

from npdl.cublas import Products, uses_tf32
from npdl.errors import BackendError, InputError

NAMES = ("numpy", "cupy")


class _ArrayModule:
    """A stand-in for the chosen module: ``xp.name`` is ``numpy.name`` or ``cupy.name``."""

    def __init__(self):
        self._module = np

    def __getattr__(self, name):
        value = getattr(self._module, name)
        self.__dict__[name] = value  # found without this call next time
        return value

    def _choose(self, module):
        self.__dict__.clear()
        self._module = module
        if hasattr(getattr(module, "cuda", None), "Memory"):    # no stand-in of a test's
            self.matmul = _products(module)


xp = _ArrayModule()
_products = functools.cache(Products)    # of CuPy: its handles are made once


def tf32():
    """Return True if a GPU rounds the factors of float32 products to 10 bits.

    CUPY_TF32 or CuPy's own setting decides.
    """
    return isinstance(xp.__dict__.get("matmul"), Products) and uses_tf32(xp._module)


def _import_cupy():
    instead = "or use '--backend numpy'"
    try:
        import cupy
    except ModuleNotFoundError as error:
        raise BackendError(
            "backend 'cupy': CuPy is not installed; install cupy-cuda12x[ctk] or "
            f"cupy-cuda13x[ctk] to match your driver, {instead} ({error})"
        ) from error
    except ImportError as error:
        raise BackendError(
            "backend 'cupy': CuPy is installed but cannot be loaded; install just one of "
            f"cupy-cuda12x and cupy-cuda13x, {instead} ({_first_cause(error)})"
        ) from error
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # no driver, one that is too old, or no device
        raise BackendError(
            f"backend 'cupy': no usable GPU{_chosen()}; there is none, or its driver is older "
            "than this CuPy needs: compare with nvidia-smi, update the driver, "
            f"{instead} ({_first_cause(error)})"
        ) from error
    if count == 0:
        raise BackendError(f"backend 'cupy': no GPU was found{_chosen()}; look with nvidia-smi, "
                           f"{instead}")
    return cupy


def _chosen():
    """Return a note about CUDA_VISIBLE_DEVICES, which may hide every GPU, or "" without it."""
    shown = os.environ.get("CUDA_VISIBLE_DEVICES")
    return "" if shown is None else f" among those that CUDA_VISIBLE_DEVICES={shown!r} shows"


def _first_cause(error):
    """Return the message of the innermost of chained errors, on one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(str(error).split()) or type(error).__name__


@contextlib.contextmanager
def plain_errors():
    """Raise a BackendError of one line in place of CuPy's own errors inside the block.

    The most frequent one is a full GPU memory. Errors that are not CuPy's pass through.
    """
    try:
        yield
    except Exception as error:
        if not _is_cupys(error):
            raise
        if isinstance(error, MemoryError):
            raise BackendError(
                f"backend 'cupy': the GPU's memory{_memory_size(error)} is full; lower --batch, "
                f"--width, --layers or the length, or use '--backend numpy' ({_first_cause(error)})"
            ) from error
        raise BackendError(
            f"backend 'cupy': {type(error).__name__}: {_first_cause(error)}; check the GPU with "
            "nvidia-smi, and that cupy-cuda12x or cupy-cuda13x fits its driver, or use "
            "'--backend numpy'"
        ) from error


def _is_cupys(error):
    """Return True if an error is CuPy's own, or about a CUDA library that CuPy could not load."""
    if isinstance(error, ImportError) and not isinstance(error, ModuleNotFoundError):
        return not is_host()
    return type(error).__module__.split(".")[0] in ("cupy", "cupyx", "cupy_backends", "cuda")


def _memory_size(error):
    """Return the GPU's memory, as ' (80 GiB)', or CuPy's limit, or "" if the device can't tell."""
    try:
        limit = xp.get_default_memory_pool().get_limit()
        if limit and "limit" in str(error):
            return f", limited to {limit / 2**20:.0f} MiB (CUPY_GPU_MEMORY_LIMIT),"
        return f" ({xp.cuda.runtime.memGetInfo()[1] / 2**30:.0f} GiB)"
    except Exception:       # the device may answer nothing any more; its first error counts
        return ""


def use(name):
    """Choose the backend, 'numpy' or 'cupy', for everything that is created from now on.

    Raises InputError for another name, BackendError when CuPy or a GPU is missing.
    """
    if name not in NAMES:
        raise InputError(f"backend {name!r} is unknown; choose one of: {', '.join(NAMES)}")
    xp._choose(np if name == "numpy" else _import_cupy())


@contextlib.contextmanager
def using(name):
    """Choose a backend for the length of a ``with`` block."""
    before = xp._module
    use(name)
    try:
        yield
    finally:
        xp._choose(before)


def name():
    """Return the name of the chosen backend."""
    return xp._module.__name__


def is_host():
    """Return True if arrays are in the host's memory."""
    return xp._module is np


def to_host(array):
    """Return a NumPy array of the same values; waits for the device, if there is one."""
    return array.get() if hasattr(array, "get") else np.asarray(array)


def is_device_array(x):
    """Return True for an array in a GPU's memory."""
    return hasattr(x, "__cuda_array_interface__")


def to_device(array):
    """Return the same numbers as an array of the chosen backend; a recorded array as it is."""
    return array if replaces_functions(array) else xp.asarray(array)


def as_array(array):
    """Return an array as it is, also one of a subclass; anything else as the backend's array."""
    return array if isinstance(array, xp.ndarray) else xp.asarray(array)


def replaces_functions(array):
    """Return True if an array's type computes `replaceable` functions in its own way."""
    return getattr(type(array), "replaces_functions", False)


def synchronize():
    """Wait until the device has finished everything it was asked for; nothing to do on NumPy."""
    if not is_host():
        xp.cuda.get_current_stream().synchronize()


def stream(seed, *place):
    """Return a generator on the host keyed by (seed, place): the same key gives the same numbers.

    Every random draw of npdl comes from such a stream (`place` is, say, a step and a shard), so
    a resumed run needs no saved generator state and both backends see the same numbers.
    """
    return np.random.Generator(np.random.Philox(np.random.SeedSequence((seed, *place))))


def replaceable(function):
    """Decorate a function of arrays that an array type may compute in its own way.

    Such a type has `replaces_functions = True`, and its `__array_function__` is called as NumPy
    calls it for NumPy's own functions.
    """
    @functools.wraps(function)
    def call(*args):
        for x in args:
            if replaces_functions(x):
                return x.__array_function__(call, (type(x),), args, {})
        return function(*args)
    return call


@replaceable
def exact_erf(x):
    """Compute the error function of an array to the last digit, with Python or, on a GPU, CuPy."""
    if not is_host():
        from cupyx.scipy.special import erf

        return erf(x)
    return np.array([math.erf(value) for value in x.ravel()], x.dtype).reshape(x.shape)


def one_hot(index, size, dtype):
    """Return rows of the identity matrix: (...,) integers below `size` become (..., size).

    A product with this matrix is npdl's scatter-add: deterministic on every backend, where an
    atomic add on a GPU is not.
    """
    return (index[..., None] == xp.arange(size)).astype(dtype)
