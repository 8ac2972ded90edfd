"""Compile C source once, and keep the library in the user's cache directory.

The name of a library is a digest of the source, the compiler and the processor. A library is loaded
only if it and its folder belong to this user, and nobody else may write there. A library is
compiled under a temporary name, and renamed when it is complete. So several processes can compile
the same source at the same time.
"""

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from npdl.errors import NpdlError

FLAGS = ("-O3 -march=native -std=gnu11 -fno-math-errno -fno-trapping-math -fwrapv "
         "-fopenmp-simd -shared -fPIC -w").split()
PATIENCE = 300          # seconds for one compilation


class CompilerError(NpdlError):
    """No C compiler was found, the compiler failed, or the library can't be saved or loaded."""


def compile_and_load(source):
    """Return the library (ctypes.CDLL) of a C source. Compile it if it is not in the cache."""
    compiler = find_compiler()
    version, processor = get_compiler_version(compiler), describe_processor()
    digest = hashlib.sha256("\0".join([source, version, processor, *FLAGS]).encode()).hexdigest()
    try:
        library = make_cache_folder() / f"{digest[:32]}.so"
        if not library.exists():
            _compile(source, compiler, library)
        _check_owner(library)
        return ctypes.CDLL(str(library))
    except OSError as error:
        raise CompilerError(f"the compiled step can't be saved or loaded ({error}); set "
                            "XDG_CACHE_HOME to another folder") from error


def find_compiler():
    """Return the path of a C compiler: $CC, or else the first of cc, gcc and clang."""
    name = os.environ.get("CC")
    for candidate in [name] if name else ["cc", "gcc", "clang"]:
        if path := shutil.which(candidate):
            return path
    raise CompilerError(f"no C compiler was found; install {name or 'cc, gcc or clang'}, or set "
                        "CC to the path of a compiler")


@functools.cache
def get_compiler_version(compiler):
    """Return the text that a compiler prints for --version."""
    try:
        process = subprocess.run([compiler, "--version"], capture_output=True, text=True,
                                 timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        raise CompilerError(f"the C compiler {compiler} can't be run ({error}); set CC to the path "
                            "of another compiler") from error
    return process.stdout


@functools.cache
def describe_processor():
    """Return a text with the processor's model and instruction sets, which the code depends on."""
    try:
        text = Path("/proc/cpuinfo").read_text()
        lines = {line for line in text.splitlines() if line.startswith(("model name", "flags"))}
        return "\n".join(sorted(lines)) or platform.machine()
    except OSError:
        return f"{platform.machine()} {platform.processor()} {platform.node()}"


def make_cache_folder():
    """Return the user's folder for compiled steps; create it if it does not exist."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if not os.path.isabs(base):
        raise CompilerError(f"compiled steps can't be saved in {base}, which is not an absolute "
                            "path; set HOME or XDG_CACHE_HOME")
    folder = Path(base) / "npdl" / "steps"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    _check_owner(folder)
    return folder


def _check_owner(path):
    """Raise CompilerError if another user owns the path or may write there."""
    if not hasattr(os, "getuid"):
        return
    status = path.stat()
    if status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise CompilerError(f"{path} belongs to another user, or others may write there, so no "
                            "compiled training step is loaded from it; set XDG_CACHE_HOME to a "
                            "folder of your own")


def _compile(source, compiler, library_path):
    """Compile a C source in a temporary folder, and then rename the result to `library_path`."""
    with tempfile.TemporaryDirectory(dir=library_path.parent) as folder:
        file, compiled = Path(folder) / "step.c", Path(folder) / "step.so"
        file.write_text(source)
        try:
            done = subprocess.run([compiler, *FLAGS, str(file), "-o", str(compiled), "-lm"],
                                  capture_output=True, text=True, timeout=PATIENCE)
        except subprocess.TimeoutExpired as error:
            raise CompilerError(f"the C compiler {compiler} did not finish in {PATIENCE} seconds; "
                                "set CC to the path of another compiler") from error
        if done.returncode < 0:
            raise CompilerError(f"the C compiler {compiler} was stopped by signal "
                                f"{-done.returncode}, perhaps because memory was full")
        if done.returncode:
            line = next(iter(done.stderr.strip().splitlines()), f"status {done.returncode}")
            raise CompilerError(f"the C compiler {compiler} failed: {line}")
        compiled.chmod(0o700)
        os.replace(compiled, library_path)
