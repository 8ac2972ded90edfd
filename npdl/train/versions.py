"""The code, NumPy, BLAS, compiler and processor that compute a run.

They decide whether a resumed run is bitwise identical to an uninterrupted one.
"""

import functools
import hashlib
import platform
from pathlib import Path

import numpy as np

import npdl
from npdl.backend import is_host, is_tf32, xp
from npdl.engine import c_build
from npdl.threads import threadpool_info

ROOT = Path(npdl.__file__).parent
NOT_IN_STEPS = ("cli", "decoding", "study")         # folders whose code computes no training step


def collect_versions():
    """Return the versions of the code, the libraries and the machine that compute a run.

    The result is {"npdl": version, "engine": digest, ..}, with more keys on a GPU. Two runs with
    the same settings are bitwise identical if all of these are equal.
    """
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    values = {"npdl": npdl.__version__, "engine": compute_engine_digest(), "numpy": np.__version__,
              "blas": f"{blas.get('name')} {blas.get('version')}",
              "kernels": get_blas_architecture(), "compiler": describe_compiler(),
              "processor": get_processor_name()}
    if not is_host():
        values |= {"cupy": xp.__version__, "card": get_gpu_name(),
                   "products": "TF32" if is_tf32() else "float32"}
    return values


def describe_compiler():
    """Return the first line of the version text of the C compiler, or "none"."""
    try:
        return c_build.get_compiler_version(c_build.find_compiler()).split("\n")[0] or "unknown"
    except c_build.CompilerError:
        return "none"


def get_gpu_name():
    """Return the name of the first GPU that CUDA shows."""
    return xp.cuda.runtime.getDeviceProperties(0)["name"].decode()


@functools.cache
def compute_engine_digest():
    """Return 12 hexadecimal digits of the SHA-256 of npdl's files, without NOT_IN_STEPS."""
    total = hashlib.sha256()
    for file in sorted(ROOT.rglob("*.py")):
        name = file.relative_to(ROOT)
        if name.parts[0] not in NOT_IN_STEPS:
            total.update(name.as_posix().encode() + b"\0")
            total.update(file.read_bytes().replace(b"\r\n", b"\n"))
    return total.hexdigest()[:12]


@functools.cache
def get_processor_name():
    """Return the name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines
                    if line.startswith(("model name", "Model", "Hardware")))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"


@functools.cache
def get_blas_architecture():
    """Return the processor type for which BLAS chose its kernels, which decide rounding."""
    types = {info.get("architecture") for info in threadpool_info()
             if info.get("user_api") == "blas"}
    return ", ".join(sorted(filter(None, types))) or "unknown"
