"""Matrix products that a CUDA graph can contain.

A CUDA graph stores the operations of a stream (a queue of work for the GPU) and repeats them with
one call. CuPy raises an error for a matrix product while a stream is captured into a graph. cuBLAS
itself can be captured if its workspace is allocated before. So npdl.engine calls the cuBLAS library
that CuPy has loaded, inside and outside of a graph. Steps without a recording use CuPy's products.
"""

import ctypes
import math
import re
from pathlib import Path

import numpy as np

from npdl.backend import is_tf32
from npdl.engine.rows import broadcast_strides
from npdl.errors import BackendError

SPACE = 32 << 20            # bytes of workspace, as NVIDIA recommends for its largest GPUs
TF32 = 3                    # CUBLAS_TF32_TENSOR_OP_MATH
KINDS = {np.dtype("float32"): ("S", ctypes.c_float), np.dtype("float64"): ("D", ctypes.c_double)}


def find_library(cupy):
    """Return the cuBLAS library that CuPy has loaded, as a ctypes.CDLL."""
    from cupy_backends.cuda.libs import cublas  # a module that is linked to the library

    cupy.cuda.device.get_cublas_handle()
    for name in (cublas.__file__, *_find_mapped_libraries()):
        candidate = ctypes.CDLL(name)
        if hasattr(candidate, "cublasCreate_v2"):
            return candidate
    raise BackendError("backend 'cupy': CuPy has not loaded cuBLAS; reinstall CuPy")


def _find_mapped_libraries():
    """Return the paths of the cuBLAS libraries of this process, or [] if the system isn't Linux."""
    maps = Path("/proc/self/maps")
    return re.findall(r"/\S*/libcublas\.so\S*", maps.read_text()) if maps.exists() else []


class Handle:
    """A cuBLAS handle for one stream, with a workspace."""

    def __init__(self, cupy, stream):
        self.cupy, self.library, self.handle = cupy, find_library(cupy), ctypes.c_void_p()
        self.call("cublasCreate_v2", ctypes.byref(self.handle))
        self.space = cupy.cuda.Memory(SPACE)                # not from CuPy's pool, which is shared
        self.call("cublasSetStream_v2", self.handle, ctypes.c_void_p(stream))
        self.call("cublasSetWorkspace_v2", self.handle, ctypes.c_void_p(self.space.ptr),
                  ctypes.c_size_t(SPACE))                   # after the stream, which resets it
        if is_tf32():
            self.call("cublasSetMathMode", self.handle, TF32)

    def call(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        if status:
            raise BackendError(f"backend 'cupy': {name} of cuBLAS failed with status {status}; "
                               "check the GPU with nvidia-smi")

    def make_product_function(self, a, b, out):
        """Return a function that computes out = a b for matrices, or for stacks of matrices.

        can_multiply(a, b, out) must be True. The matrices of a stack may lie anywhere in memory.
        """
        # cuBLAS stores matrices by columns, so it reads each as its transpose: out^T = b^T a^T
        matrices = [x[(0,) * (x.ndim - 2)] for x in (b, a, out)]
        layouts = [find_layout(x) for x in matrices]
        (letter, number), count = KINDS[out.dtype], math.prod(out.shape[:-2])
        sizes = layouts[0][0], layouts[1][0], b.shape[-1], a.shape[-2], a.shape[-1]
        if count == 1:
            name, arrays, counts = f"cublas{letter}gemm_v2", matrices, ()
        else:
            name, counts = f"cublas{letter}gemmBatched", (count,)
            arrays = [self.cupy.asarray(matrix_addresses(x, out.shape[:-2])) for x in (b, a, out)]

        def multiply():
            factors = [argument for x, (_, leading) in zip(arrays, layouts, strict=True)
                       for argument in (ctypes.c_void_p(x.data.ptr), ctypes.c_int(leading))]
            self.call(name, self.handle, *map(ctypes.c_int, sizes), ctypes.byref(number(1)),
                      *factors[:4], ctypes.byref(number(0)), *factors[4:],
                      *map(ctypes.c_int, counts))
        return multiply


def can_multiply(a, b, out):
    """Return True if cuBLAS can compute out = a b for these matrices, or stacks of matrices.

    They must have one dtype, float32 or float64, and must not be empty. In each matrix of a and b,
    the rows or the columns must be contiguous, and in `out` the rows.
    """
    if min(a.ndim, b.ndim) < 2 or not a.size or not out.size:
        return False
    layouts = [find_layout(x) for x in (a, b, out)]
    return a.dtype == b.dtype == out.dtype and out.dtype in KINDS and (
        None not in layouts and not layouts[2][0])


def find_layout(x):
    """Return how cuBLAS reads the matrix or the stack `x`: a pair (transposed, leading dimension).

    `transposed` is 0 if the rows of a matrix are contiguous, and 1 if only the columns are. The
    leading dimension is the distance, in entries, from a row (or column) to the next. For any other
    matrix, which cuBLAS can't read, the result is None.
    """
    row, column = (step // x.dtype.itemsize for step in x.strides[-2:])
    R, C = x.shape[-2:]
    if column == 1 or C == 1:
        return 0, max(row if R > 1 else C, C)
    if row == 1 or R == 1:
        return 1, max(column, R)
    return None


def matrix_addresses(stack, batch_shape):
    """Return the address of each matrix in `stack`, broadcast to (*batch_shape, rows, columns)."""
    steps = broadcast_strides(stack, len(batch_shape) + 2)[:-2]
    places = np.indices(batch_shape).reshape(len(batch_shape), -1)
    return (stack.data.ptr + np.dot(steps, places)).astype(np.uint64)
