"""Compile each of CuPy's kernels by NVRTC as a check, then by g++ as a library for the CPU.

The library takes the place of the GPU code, also in CuPy's disk cache; runtime.cpp loads it.
"""

import re
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
FLAGS = ["-std=c++17", "-O1", "-ffp-contract=off", "-fno-strict-aliasing", "-fpermissive", "-w",
         "-fPIC"]
KERNEL = re.compile(
    r'extern\s+"C"\s+__global__\s+void\s+(?:__launch_bounds__\([^)]*\)\s*)?(\w+)\s*\(')
# threads of a block that work together: as shim.h has them; the rest g++ would not understand
TOGETHER = re.compile(r"__syncthreads|__shared__|__shfl_xor_sync|__shfl_sync")
REFUSED = re.compile(
    r"__sync(?!threads\(\))|__shfl(?!_xor_sync\b|_sync\b)|__ballot|__any|__all|__match|"
    r"__constant__|\basm\b|\bclock|cooperative_groups|CUPY_JIT_MODE|CUPY_FOR\(.*__shared__")
DYNAMIC = re.compile(r"extern __shared__ (\w+) (\w+)\[\];")
WHICH_THREAD = re.compile(r"\b(threadIdx|blockIdx|blockDim|gridDim)\b")
# CuPy's reduction, as its threads run it: from one __syncthreads to the next, one after another
REDUCTION = [
    (r"unsigned int _tid = threadIdx\.x;", "unsigned int _tid;"),
    (r"IndexT _J_offset = _tid [^;]*;(?: //.*)?\n\s*ptrdiff_t _j_offset = [^;]*;", ""),
    (r"(\s)_type_reduce _s = _type_reduce\(", r"""\1
      for (_tid = 0; _tid < sizeof _sdata_raw / sizeof *_sdata; _tid++) {
      IndexT _J_offset = _tid >> __popc(_block_stride - 1);
      ptrdiff_t _j_offset = (ptrdiff_t)_J_offset * _out_ind.size();
      _type_reduce _s = _type_reduce("""),
    (r"_sdata\[_tid\] = _s;\s+__syncthreads\(\);", "_sdata[_tid] = _s; }"),
    (r"if \(_tid < _block\) \{(\s+_REDUCE)", r"for (_tid = 0; _tid < _block; _tid++) {\1"),
    (r"if \(_tid < _block_stride\) \{\s+_s = _sdata\[_tid\];\s+\}\s+"
     r"if \(_tid < _block_stride && _i <",
     "for (_tid = 0; _tid < _block_stride; _tid++) if (ptrdiff_t _i = _i_base + _tid; _i <"),
    (r"POST_MAP\(_s\);", "{ _type_reduce _s = _sdata[_tid]; POST_MAP(_s); }"),
]


class NotFaked(NotImplementedError):
    """A CUDA feature that cupy_on_cpu does not emulate."""


def as_host_code(source):
    """Return the C++ source for g++, and the name of its first kernel."""
    source = source.replace("#include <cupy/atomics.cuh>", "")      # shim.h has no atomics
    names = KERNEL.findall(source)
    if not names:
        raise NotFaked('cupy_on_cpu: a kernel that is not extern "C" (a template: products of '
                       "integers, ...)")
    refused = REFUSED.search(source)
    if "_sdata_raw" in source and "_type_reduce" in source:
        modes = ["ALONE"]
        for pattern, by in REDUCTION:
            source, found = re.subn(pattern, by, source)
            if found != 1:
                raise NotFaked(f"cupy_on_cpu: {names[0]} is no reduction as CuPy 14.2 writes it")
    elif refused:
        raise NotFaked(f"cupy_on_cpu: {names[0]} uses {refused[0]}")
    else:
        source = DYNAMIC.sub(r"\1* \2 = (\1*)dynamic_shared;", source)
        bodies = KERNEL.split(source)[2::2] if len(names) > 1 else [source]
        modes = map(launch_mode, bodies)
    launches = [
        f'extern "C" void run_{name}(void** p, const unsigned* grid, const unsigned* block, '
        f"unsigned shared) {{ launch({name}, p, grid, block, shared, {mode}); }}\n"
        f'extern "C" size_t sizes_{name}(size_t* of) {{ return sizes({name}, of); }}\n'
        for name, mode in zip(names, modes, strict=True)]
    return '#include "shim.h"\n' + source + "\n" + "".join(launches), names[0]


def launch_mode(source):
    """Return how shim.h runs the threads of a kernel."""
    if TOGETHER.search(source):
        return "TOGETHER"
    return "ALONE" if "CUPY_FOR(" in source and not WHICH_THREAD.search(source) else "EVERY"


def host_library(source, options, folder):
    """Return the bytes of the compiled shared library."""
    code, name = as_host_code(source)
    import cupy

    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch, "kernel.so")
        given = [option for option in options if option.startswith("-D")]
        result = subprocess.run(
            ["g++", *FLAGS, *given, "-shared", "-I", folder, "-I", HERE, *includes(cupy.__file__),
             "-x", "c++", "-", "-o", made], input=code, capture_output=True, text=True)
        if result.returncode:
            raise NotFaked(f"cupy_on_cpu: {name} is no host C++:\n{result.stderr[:1500]}")
        return made.read_bytes()


def includes(cupy_file):
    """Return g++'s options for the headers in CuPy's package."""
    base = Path(cupy_file).parent / "_core/include"
    cccl = base / "cupy/_cccl"
    return [f"-I{folder}" for folder in (base, cccl / "thrust", cccl / "libcudacxx", cccl / "cub")]


def patch(compiler, folder):
    """Make cupy.cuda.compiler call g++ after NVRTC."""
    nvrtc = compiler._compile_using_nvrtc_no_warning

    def compile_twice(source, options=(), *rest, **more):
        _, mapping = nvrtc(source, options, *rest, **more)
        return host_library(source, options, folder), mapping

    compiler._compile_using_nvrtc_no_warning = compile_twice
