"""Install the CPU emulation of CuPy: python -m venv VENV && VENV/bin/python build.py

Installs the packages of CuPy and NVRTC. Builds the emulated libraries from CuPy's sources, if they
are not built yet. VENV's Python then loads them at its start. VENV must be a virtual environment,
and its CuPy must belong to this emulation.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT))
from tests.tools.cupy_on_cpu import CUPY, HOME, built
from tests.tools.cupy_on_cpu.kernels import FLAGS, includes

WHEELS = [f"cupy-cuda12x=={CUPY}", "nvidia-cuda-nvrtc-cu12==12.9.86",
          "nvidia-cuda-runtime-cu12==12.9.79"]
TOOLS = ["Cython>=3.2,<3.3,!=3.2.6", "nvidia-cuda-nvcc-cu12==12.9.86"]  # the latter for crt/*.h
CONSTANTS = {"CUPY_CUDA_VERSION": 12090, "CUPY_HIP_VERSION": 0, "CUPY_USE_CUDA_PYTHON": False,
             "CUPY_CUFFT_STATIC": False, "CUPY_CYTHON_VERSION": ""}     # as CuPy's own build has
# Right as they are without doing anything: all work is done when its call returns
NOTHING = set("""cudaGetLastError cudaPeekAtLastError cudaStreamDestroy cudaEventDestroy
    cublasSetPointerMode_v2""".split())
SITE = Path(sysconfig.get_path("purelib"))
START = SITE / "cupy_on_cpu.pth"
AT_START = f"{ROOT}\nimport tests.tools.cupy_on_cpu as card; card.install()\n"


def run(*command, **environment):
    result = subprocess.run([str(part) for part in command], env={**os.environ, **environment},
                            capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"build.py: failed: {' '.join(map(str, command))}\n"
                 f"{result.stdout[-2000:]}{result.stderr[-4000:]}")
    return result.stdout


def pip(*arguments, **environment):
    run(sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments, **environment)


def list_symbols(file, *options):
    """Return the names that the program nm lists, without their versions."""
    return {line.split()[-1].split("@")[0] for line in run("nm", *options, file).splitlines()}


class Build:
    """A build with a folder `scratch` for temporary files and a folder `made` for the results."""

    def __init__(self, scratch):
        self.scratch, self.made, self.tools = scratch, scratch / "made", scratch / "tools"
        self.made.mkdir()
        self.source = scratch / f"cupy-{CUPY}"
        cuda = [SITE / "nvidia/cuda_runtime/include", self.tools / "nvidia/cuda_nvcc/include"]
        self.include = [f"-I{folder}" for folder in (*cuda, scratch, sysconfig.get_path("include"))]

    def download(self):
        pip("install", "-q", "--no-deps", "--target", self.tools, *TOOLS)
        pip("download", "-q", "--no-deps", "--no-binary", "cupy", "-d", self.scratch,
            f"cupy=={CUPY}", CUPY_INSTALL_USE_STUB="1")     # its metadata without CUDA; no build
        with tarfile.open(self.scratch / f"cupy-{CUPY}.tar.gz") as archive:
            archive.extractall(self.scratch, filter="data")

    def gxx(self, target, *arguments):
        run("g++", "-std=c++17", "-O1", "-w", "-fPIC", *self.include, *arguments, "-o", target)
        return target

    def shared(self, name, *parts):
        """Compile a shared library, or an extension module of Python, into `made`."""
        return self.gxx(self.made / name, "-shared", f"-Wl,-soname,{name}", *parts)

    def cython(self, module):
        """Translate and compile one of CuPy's modules as CuPy does it."""
        source, made = self.source / module, self.scratch / f"{Path(module).stem}_pyx.cpp"
        constants = [f"-E{name}={value!r}" for name, value in CONSTANTS.items()]
        run(sys.executable, "-m", "cython", "--cplus", "-3", *constants, "-X", "binding=False",
            "-X", "c_api_binop_methods=True", "-I", self.source, "-o", made, source,
            PYTHONPATH=str(self.tools))
        return self.gxx(made.with_suffix(".o"), "-c", made, f"-I{source.parent}")

    def stubs(self, name, wanted, defined, status):
        """Return C source for missing functions that return `status`, or succeed without effect."""
        def body(call):
            return "return 0;" if call in NOTHING else f'return fake_refuse("{call}", {status});'

        file = self.scratch / f"{name}_stubs.cpp"
        file.write_text('extern "C" {\nint fake_refuse(const char*, int);\n' + "".join(
            f"int {call}() {{ {body(call)} }}\n" for call in sorted(wanted - defined)) + "}\n")
        return file

    def compile(self):
        (self.scratch / "cuda_profiler_api.h").write_text(
            '#include <cuda_runtime_api.h>\n'
            'extern "C" cudaError_t cudaProfilerStart(), cudaProfilerStop();\n')
        runtime = self.cython("cupy_backends/cuda/api/runtime.pyx")
        fake = self.gxx(self.scratch / "fake.o", "-c", HERE / "runtime.cpp")
        blas = self.gxx(self.scratch / "blas.o", "-c", HERE / "blas.cpp")
        driver = (self.source / "cupy_backends/cuda/api/_driver_extern.pxi").read_text()
        names = re.findall(r"_L\.get\(f?'(\w+)", driver)
        calls = {f"cu{name}{version}" for name in names for version in ("", "_v2")}
        calls |= {name for name in list_symbols(runtime, "-u") if name.startswith("cuda")}
        rest = self.stubs("runtime", calls, list_symbols(fake, "--defined-only"), 801)
        card = self.shared("libcuda.so.1", fake, rest, "-ldl")
        module, = SITE.glob("cupy_backends/cuda/libs/cublas.*.so")
        calls = {name for name in list_symbols(module, "-D", "-u") if name.startswith("cublas")}
        rest = self.stubs("blas", calls, list_symbols(blas, "--defined-only"), 15)
        versions, empty = self.scratch / "versions", self.scratch / "empty.cpp"
        versions.write_text("libcublas.so.12 { *; };\n")
        self.shared("libcublas.so.12", f"-Wl,--version-script={versions}", blas, rest, card)
        empty.write_text("")                        # cuda-pathfinder wants to see it loaded
        self.shared("libcublasLt.so.12", empty)
        self.shared("runtime.so", runtime, card)
        run("g++", *FLAGS, *includes(SITE / "cupy/__init__.py"), "-x", "c++-header",
            HERE / "shim.h", "-o", self.made / "shim.h.gch")


def explain_refusal():
    """Return the reason why this Python can't have the emulation, or None."""
    if sys.prefix == sys.base_prefix:
        return "this Python is no virtual environment; make one: python -m venv VENV"
    if not START.exists() and list(SITE.glob("cupy_cuda*")):
        return "this environment has a CuPy for a GPU; take a fresh one: python -m venv VENV"
    for tool in ("g++", "nm"):
        if not shutil.which(tool):
            return f"there is no {tool}; install it (Debian, Ubuntu: apt-get install g++)"
    return None


def main():
    began, why = time.time(), explain_refusal()
    if why:
        sys.exit(f"build.py: {why}")
    START.touch()                                   # from here on this environment is ours
    pip("install", "-q", "numpy>=2", *WHEELS)
    folder = built()
    if folder.exists():
        print(f"already built: {folder}")
    else:
        HOME.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=HOME) as scratch:
            build = Build(Path(scratch))
            build.download()
            print(f"downloaded after {time.time() - began:.0f} s")
            build.compile()
            build.made.rename(folder)
        print(f"built {folder} after {time.time() - began:.0f} s")
    START.write_text(AT_START)


if __name__ == "__main__":
    main()
