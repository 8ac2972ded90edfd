"""A stand-in for CuPy that needs no GPU: NumPy behind a wrapper that refuses what CuPy refuses.

Installed in place of the module `cupy`, it lets every layer of npdl run on the "device" and
proves, where there is no GPU, that
  * host and device arrays never mix (TypeError, as in CuPy), lists are not taken for arrays;
  * only functions, methods, operators and keywords that CuPy has are used (tests/tools/cupy_names.json
    lists them, tests/tools/cupy_namespace.py made it);
  * reductions return 0-d arrays, not scalars, so nothing comes back by accident;
  * nothing inside a training step waits for the device: `waits` counts each float(), int(),
    bool(), .item(), .get() and .tolist().
It is a wrapper and no subclass of ndarray: NumPy would convert a subclass without a word.
`launches` counts what a GPU would at least have to start (`count_launch`), a fused function once,
whose operations it carries out one by one; `doubles` names the calls that gave float64.
"""

import contextlib
import math
import sys
import types

import numpy as np

from tests.tools.fakecupy_array import (
    FUNCTIONS,
    NAMES,
    Fused,
    call,
    done,
    doubles,
    launches,
    memory,
    ndarray,
    used,
    waits,
)
from tests.tools.fakecupy_gpu import make_cuda

__all__ = ["VERSION", "doubles", "install", "installed", "launches", "memory", "ndarray", "used",
           "waits"]

VERSION = NAMES["version"]


class _Module(types.ModuleType):
    """The module: NumPy's function of a name, if CuPy has that name."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in FUNCTIONS:
            raise AttributeError(f"module 'cupy' has no attribute {name!r}")
        value = getattr(np, name)
        if isinstance(value, type) or not callable(value):
            return value                        # dtypes, pi, newaxis

        def function(*args, **kwargs):
            return call(name, value, args, kwargs)

        function.__name__ = name
        return function


def make_module(limit=None):
    """A fresh module object named cupy, with one device; its memory is counted if limited."""
    memory.reset(limit)
    module = _Module("cupy")
    module.__version__ = VERSION
    module.ndarray = ndarray

    def asarray(value, dtype=None):
        if isinstance(value, ndarray):
            return value if dtype is None else value.astype(dtype)
        return done("asarray", np.array(value, dtype), ())

    module.asarray = module.array = asarray
    module.fuse = Fused
    module.cuda = make_cuda(memory, waits)
    module.get_default_memory_pool = memory.pool
    return module


def _erf(x):
    host = np.vectorize(math.erf, otypes=[x._host.dtype])(x._host)
    return done("special.erf", host, (x._host,))


def install(limit=None):
    """Let `import cupy` find the stand-in from now on; counts start at nothing."""
    special = types.ModuleType("cupyx.scipy.special")
    special.erf = _erf
    modules = {"cupy": make_module(limit), "cupyx": types.ModuleType("cupyx"),
               "cupyx.scipy": types.ModuleType("cupyx.scipy"), "cupyx.scipy.special": special}
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    for counted in (used, launches, waits, doubles):
        counted.clear()
    return before


@contextlib.contextmanager
def installed(limit=None):
    """`import cupy` finds the stand-in inside this block, with `limit` bytes of memory."""
    before = install(limit)
    try:
        yield sys.modules["cupy"]
    finally:
        for name, module in before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module
