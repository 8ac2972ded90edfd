"""Matrix products on a GPU, with cuBLAS handles that npdl makes.

A CUDA graph stores the operations of a stream and repeats them with one call. CuPy raises an error
for a matrix product while a stream is captured into a graph. cuBLAS itself can be captured if its
workspace is allocated before. This module calls the cuBLAS library that CuPy has loaded, with the
same calls inside and outside of a graph, so the results are bitwise identical. Only backend.py
imports this module.
"""

import ctypes
import math
import re
from pathlib import Path

import numpy as np

from npdl.errors import BackendError

SPACE = 32 << 20            # bytes of workspace, as NVIDIA recommends for its largest GPUs
TF32 = 3                    # CUBLAS_TF32_TENSOR_OP_MATH
KINDS = {np.dtype("float32"): ("S", ctypes.c_float), np.dtype("float64"): ("D", ctypes.c_double)}


def library(cupy):
    """Return the cuBLAS library that CuPy has loaded."""
    from cupy_backends.cuda.libs import cublas  # a module that is linked to the library

    cupy.cuda.device.get_cublas_handle()
    for name in (cublas.__file__, *_mapped()):
        candidate = ctypes.CDLL(name)
        if hasattr(candidate, "cublasCreate_v2"):
            return candidate
    raise BackendError("backend 'cupy': cuBLAS is not among the libraries that CuPy has loaded")


def _mapped():
    """Return the paths of the cuBLAS libraries of this process, or [] if the system isn't Linux."""
    maps = Path("/proc/self/maps")
    return re.findall(r"/\S*/libcublas\.so\S*", maps.read_text()) if maps.exists() else []


def uses_tf32(cupy):
    """Return True if CuPy's matrix products round float32 to 10 bits of mantissa (CUPY_TF32=1)."""
    linalg = cupy._core._routines_linalg
    return linalg.get_compute_type("f") == linalg.COMPUTE_TYPE_TF32


class Handle:
    """A cuBLAS handle for one stream, with a workspace.

    If a handle gets another stream, cuBLAS resets its workspace. So each stream has its own handle.
    """

    def __init__(self, cupy, stream):
        self.library, self.handle = library(cupy), ctypes.c_void_p()
        self.call("cublasCreate_v2", ctypes.byref(self.handle))
        self.space = cupy.cuda.Memory(SPACE)                # not from CuPy's pool, which is shared
        self.call("cublasSetStream_v2", self.handle, ctypes.c_void_p(stream))
        self.call("cublasSetWorkspace_v2", self.handle, ctypes.c_void_p(self.space.ptr),
                  ctypes.c_size_t(SPACE))
        if uses_tf32(cupy):
            self.call("cublasSetMathMode", self.handle, TF32)

    def call(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        if status:
            raise BackendError(f"backend 'cupy': {name}: status {status} of cuBLAS")

    def product(self, dtype, sizes, factors, out, count):
        """Compute out = a b for `count` matrices in column-major order.

        a, b (in `factors`) and `out` are (pointer, leading dimension, stride to the next matrix).
        `sizes` is (is a transposed, is b transposed, rows of out, columns of out, inner size).
        """
        letter, number = KINDS[dtype]
        i, stride = ctypes.c_int, ctypes.c_longlong
        (a, b), scales = factors, (ctypes.byref(number(1)), ctypes.byref(number(0)))
        a, b, out = ([ctypes.c_void_p(x[0]), i(x[1]), *([stride(x[2])] if count > 1 else [])]
                     for x in (a, b, out))
        name = f"cublas{letter}gemm" + ("_v2" if count == 1 else "StridedBatched")
        self.call(name, self.handle, *map(i, sizes), scales[0], *a, *b, scales[1], *out,
                  *([i(count)] if count > 1 else []))

    def products(self, dtype, sizes, transposed, leading, addresses, count):
        """Compute out = a b for `count` matrices. `addresses` has an array of pointers for each."""
        letter, number = KINDS[dtype]
        matrices = [argument for x, step in zip(addresses, leading, strict=True)
                    for argument in (ctypes.c_void_p(x.data.ptr), ctypes.c_int(step))]
        self.call(f"cublas{letter}gemmBatched", self.handle, *map(ctypes.c_int, transposed),
                  *map(ctypes.c_int, sizes), ctypes.byref(number(1)), *matrices[:4],
                  ctypes.byref(number(0)), *matrices[4:], ctypes.c_int(count))


def layout(x, lead):
    """Return how cuBLAS reads x, a stack of matrices (R, C) that is broadcast to (*lead, R, C).

    The result is (1 if transposed else 0, leading dimension, stride from one matrix to the next),
    or None if cuBLAS cannot read this memory layout.
    """
    *steps, row, column = (step // x.itemsize for step in x.strides)
    R, C = x.shape[-2:]
    if column == 1 or C == 1:
        transposed, leading = 0, max(row if R > 1 else C, C)
    elif row == 1 or R == 1:
        transposed, leading = 1, max(column, R)
    else:
        return None
    strides = [0 if n == 1 else step for n, step in zip(x.shape[:-2], steps, strict=True)]
    strides = [0] * (len(lead) - len(strides)) + strides
    axes = [(n, stride) for n, stride in zip(lead, strides, strict=True) if n > 1]
    for (_, outer), (n, inner) in zip(axes, axes[1:], strict=False):
        if outer != n * inner:
            return None
    return transposed, leading, axes[-1][1] if axes else 0


class Products:
    """The function xp.matmul on a GPU.

    Products of (stacks of) matrices in float32 and float64 are computed with the Handle of the
    current stream. CuPy computes all other products.
    """

    def __init__(self, cupy):
        self.cupy, self.handles = cupy, {}

    def handle(self):
        """Return the Handle of the current stream of the current device."""
        stream = self.cupy.cuda.get_current_stream().ptr
        key = self.cupy.cuda.runtime.getDevice(), stream
        if key not in self.handles:
            self.handles[key] = Handle(self.cupy, stream)
        return self.handles[key]

    def __call__(self, a, b, out=None):
        """Return the product a b. If `out` is given, the product is written into it."""
        plan = self.plan(a, b, out)
        if plan is None:
            return self.cupy.matmul(a, b, out=out)
        out, count, (A, B, C) = plan
        (M, K), N = a.shape[-2:], b.shape[-1]
        if C[0]:                                    # a transposed result: out^T = b^T a^T
            self(b.swapaxes(-1, -2), a.swapaxes(-1, -2), out.swapaxes(-1, -2))
            return out
        # cuBLAS stores matrices by columns, so it reads each as its transpose: out^T = b^T a^T
        self.handle().product(out.dtype, (B[0], A[0], N, M, K),
                              ((b.data.ptr, *B[1:]), (a.data.ptr, *A[1:])),
                              (out.data.ptr, *C[1:]), count)
        return out

    def plan(self, a, b, out):
        """Return (out, number of products, layouts of a, b, out), or None if CuPy must compute."""
        if (a.dtype not in KINDS or a.dtype != b.dtype or a.ndim < 2 or b.ndim < 2
                or a.shape[-1] != b.shape[-2] or not a.size or not b.size):
            return None
        lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        shape = (*lead, a.shape[-2], b.shape[-1])
        if out is None:
            out = self.cupy.empty(shape, a.dtype)
        elif out.shape != shape or out.dtype != a.dtype:
            return None
        layouts = [layout(x, lead) for x in (a, b, out)]
        return None if None in layouts else (out, math.prod(lead), layouts)

    def stacked(self, a, b, out):
        """Return a function that computes a b into `out` with one call of cuBLAS.

        The distance between the matrices of a stack may vary. Returns None if cuBLAS cannot read
        the layout within a matrix.
        """
        lead = out.shape[:-2]
        first = [layout(x[(0,) * (x.ndim - 2)], ()) for x in (b, a, out)]
        if a.dtype not in KINDS or not a.dtype == b.dtype == out.dtype or not out.size or (
                not a.size or None in first or first[2][0]):
            return None
        addresses = []
        for x in (b, a, out):
            steps = (0,) * (out.ndim - x.ndim) + tuple(
                0 if n == 1 else step for n, step in zip(x.shape, x.strides, strict=True))[:-2]
            place = sum(np.arange(n).reshape(-1, *(1,) * (len(lead) - axis - 1)) * step
                        for axis, (n, step) in enumerate(zip(lead, steps, strict=True)))
            addresses.append(self.cupy.asarray((x.data.ptr + place).astype(np.uint64)))
        sizes = b.shape[-1], a.shape[-2], a.shape[-1]
        transposed, leading = [x[0] for x in first[:2]], [x[1] for x in first]

        def call():
            self.handle().products(out.dtype, sizes, transposed, leading, addresses,
                                   math.prod(lead))
        return call
