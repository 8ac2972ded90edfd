"""CuPy without a GPU: an emulation of CUDA's libraries on the CPU (see README.md).

    python -m venv VENV && VENV/bin/python tests/tools/cupy_on_cpu/build.py

After that, `import cupy` in VENV's Python loads the emulation. record() lists the CUDA operations
of a block:

    with record() as events:
        step()
    assert not events.of_kind("synchronisation") and len(events.of_kind("launch")) == 146
"""

import contextlib
import ctypes
import hashlib
import importlib.machinery
import importlib.util
import os
import sys
from collections import namedtuple
from pathlib import Path

CUPY = "14.2.0"             # another version may write its kernels otherwise
HERE = Path(__file__).resolve().parent
NAME = "host memory (cupy_on_cpu)"      # of the device
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
HOME = Path(os.environ.get("CUPY_ON_CPU") or CACHE / "npdl-cupy-on-cpu").resolve()
RUNTIME = "cupy_backends.cuda.api.runtime"
Event = namedtuple("Event", "kind name bytes")


class Events(list):
    """CUDA operations. Kinds: launch, product, copy, memset, synchronisation, allocation, free,
    graph, and node (an operation of a graph). A launch's name ends with its blocks and threads.
    """

    def of_kind(self, kind):
        return [event for event in self if event.kind == kind]


def built():
    """Return the folder of the built libraries, named by this Python and all sources here."""
    files = sorted(file for kind in ("*.py", "*.cpp", "*.h") for file in HERE.glob(kind))
    text = b"".join(file.read_bytes() for file in files)
    tag = f"{sys.implementation.cache_tag}-{os.uname().machine}"
    return HOME / f"{tag}-{hashlib.sha256(text).hexdigest()[:12]}"


class _Card:
    """The emulated libraries, loaded once, before CuPy loads libraries with their names."""

    def __init__(self):
        import importlib.metadata

        import numpy

        if importlib.metadata.version("cupy-cuda12x") != CUPY:
            raise ImportError(f"cupy_on_cpu: needs cupy-cuda12x {CUPY}; run build.py again")
        self.folder = built()
        if not self.folder.exists():
            raise ImportError(f"cupy_on_cpu: there is no {self.folder}; run build.py again")
        wheels = Path(numpy.__file__).parents[1]
        libraries = list(wheels.glob("numpy.libs/libscipy_openblas64_*"))
        if not libraries:
            raise ImportError("cupy_on_cpu: needs NumPy's wheel from PyPI, with its OpenBLAS")
        self.driver = ctypes.CDLL(str(self.folder / "libcuda.so.1"))
        self.driver.fake_event.restype = ctypes.c_char_p
        self.driver.fake_event.argtypes = [ctypes.c_size_t]
        self.driver.fake_count.restype = ctypes.c_size_t
        self.empty = ctypes.CDLL(str(self.folder / "libcublasLt.so.12"))
        self.blas = ctypes.CDLL(str(self.folder / "libcublas.so.12"))
        openblas = ctypes.CDLL(str(libraries[0]))
        self.blas.fake_gemm(*(
            ctypes.cast(getattr(openblas, f"scipy_cblas_{name}64_"), ctypes.c_void_p)
            for name in ("sgemm", "dgemm")))


class _Finder:
    """An import finder that replaces CuPy's runtime module, and adds g++ to CuPy's compiler."""

    card = None

    def find_spec(self, name, path=None, target=None):
        if name == "cupy":
            os.environ["CUPY_CACHE_DIR"] = str(find_card().folder / "kernels")
        if name == RUNTIME:
            file = str(find_card().folder / "runtime.so")
            loader = importlib.machinery.ExtensionFileLoader(name, file)
            return importlib.util.spec_from_file_location(name, file, loader=loader)
        if name == "cupy.cuda.thrust":
            raise ImportError("cupy_on_cpu does not emulate Thrust")
        if name in AFTER:
            spec = importlib.machinery.PathFinder.find_spec(name, path)
            if spec:
                run = spec.loader.exec_module
                spec.loader.exec_module = lambda module: (run(module), AFTER[name](module))
            return spec
        return None


def _patch_compiler(module):
    from tests.tools.cupy_on_cpu import kernels

    kernels.patch(module, find_card().folder)


def _leave_out_cub(cupy):
    """Disable CUB (a library of C++ templates), so that CuPy uses kernels of its own."""
    cupy._core.set_reduction_accelerators([])
    cupy._core.set_routine_accelerators([])


AFTER = {"cupy.cuda.compiler": _patch_compiler, "cupy": _leave_out_cub}


def find_card():
    if _Finder.card is None:
        _Finder.card = _Card()
    return _Finder.card


def install():
    """Make later imports of cupy load the emulation. VENV's Python calls this at its start."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def installed():
    """Return True if `import cupy` loads the emulation."""
    return any(isinstance(finder, _Finder) for finder in sys.meta_path)


@contextlib.contextmanager
def record():
    """Yield a list of Events, filled with the operations of the block at its end. Don't nest it."""
    driver, events = find_card().driver, Events()
    driver.fake_record(1)
    try:
        yield events
    finally:
        driver.fake_record(0)
        for i in range(driver.fake_count()):
            kind, name, size = driver.fake_event(i).decode().split("\t")
            events.append(Event(kind, name, int(size)))
