"""A device for tests: CuPy on a GPU or on cupy_on_cpu, or NumPy in place of CuPy.

With NumPy, the tests show that the code for devices computes the same, but not that CuPy works.
"""

import contextlib
import importlib.util
import math
import sys
import types
import warnings

import numpy as np
import pytest

from npdl import backend
from npdl.errors import BackendError

TOTAL = 8 * 2**30           # bytes of memory that NumPy's device says it has


def make_numpy_cupy_module():
    """Return a module `cupy` with NumPy's functions. A copy to the device makes a copy."""
    cupy = types.ModuleType("cupy")
    cupy.__getattr__ = lambda name: getattr(np, name)
    cupy.__version__ = "0.0"
    cupy.asarray = lambda value, dtype=None: np.array(value, dtype)
    cupy.fuse = lambda function: function
    runtime = types.SimpleNamespace(getDeviceCount=lambda: 1, memGetInfo=lambda: (TOTAL, TOTAL),
                                    getDeviceProperties=lambda device: {"name": b"NumPy"})
    stream = types.SimpleNamespace(synchronize=lambda: None)
    linalg = types.SimpleNamespace(get_compute_type=lambda dtype: 0, COMPUTE_TYPE_TF32=3)
    cupy._core = types.SimpleNamespace(_routines_linalg=linalg)
    cupy.get_default_memory_pool = lambda: types.SimpleNamespace(free_all_blocks=lambda: None)
    cupy.cuda = types.SimpleNamespace(runtime=runtime, get_current_stream=lambda: stream)
    return cupy


def install_numpy_cupy():
    """Make every later `import cupy` load NumPy's functions."""
    special = types.ModuleType("cupyx.scipy.special")
    special.erf = np.vectorize(math.erf)
    sys.modules |= {"cupy": make_numpy_cupy_module(), "cupyx": types.ModuleType("cupyx"),
                    special.__name__: special, "cupyx.scipy": types.ModuleType("cupyx.scipy")}


def explain_missing_device():
    """Return the reason why CuPy can't be used here, or None."""
    if importlib.util.find_spec("cupy") is None:
        return "CuPy is not installed"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")         # CuPy warns if parts of CUDA are missing
        try:
            with backend.using("cupy"):
                return None
        except BackendError as error:
            return str(error)


REASON = explain_missing_device()
needs_cupy = [
    pytest.mark.skipif(REASON is not None, reason=str(REASON)),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:cupy", "ignore::UserWarning:cupy",
                               "ignore::FutureWarning:cupy"),
]


@contextlib.contextmanager
def forbid_waiting():
    """Make CuPy raise an error in this block if the program waits for the device."""
    import cupyx

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with cupyx.allow_synchronize(False):
            yield


@contextlib.contextmanager
def cupy_or_numpy():
    """Make `--backend cupy` work in this block, by NumPy if there is no CuPy."""
    with pytest.MonkeyPatch.context() as patch:
        if REASON is not None:
            for name in ("cupy", "cupyx", "cupyx.scipy", "cupyx.scipy.special"):
                patch.setitem(sys.modules, name, None)      # to be restored
            install_numpy_cupy()
        yield
