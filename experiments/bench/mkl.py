"""PyTorch's products at their best on an AMD processor."""

import atexit
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

NAME = "MKL as on Intel"


def cpuinfo():
    """What Linux says of the processor; nothing elsewhere."""
    path = Path("/proc/cpuinfo")
    return path.read_text() if path.exists() else ""


@functools.cache
def as_on_intel():
    """(environment, sentence): with what PyTorch's MKL takes its AVX-512 kernels, and what is said
    of it below a table. The environment is empty where MKL takes them by itself or cannot.

    MKL asks a function of its own whether the processor is Intel's, and runs AVX2 kernels if not.
    A library with a function of that name, loaded first, answers that it is.
    """
    about = cpuinfo()
    if "AuthenticAMD" not in about or "avx512f" not in about:
        return {}, "PyTorch's MKL ran the kernels that it chooses."
    if not shutil.which("cc"):
        return {}, ("PyTorch's MKL ran the kernels that it chooses, on AMD processors not its "
                    "best: the library that tells it otherwise needs a C compiler, cc.")
    folder = tempfile.mkdtemp(prefix="npdl-bench-")
    atexit.register(shutil.rmtree, folder)
    library = Path(folder) / "intel.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", library], check=True,
                   input="int mkl_serv_intel_cpu_true(void) { return 1; }", text=True)
    return {"LD_PRELOAD": str(library)}, (
        f"{NAME!r}: a preloaded library has PyTorch's MKL run its AVX-512 kernels.")
