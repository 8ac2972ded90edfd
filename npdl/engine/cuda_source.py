"""Write CUDA kernels for groups of operations, for look-ups of rows, and for sums by index.

cuBLAS computes matrix products. CuPy computes sums over the rows, and reductions that no group can
contain (`is_library_call`).

The lines of a group are those of the C target (`c_source.GroupSource`); only the loops differ.
One thread computes a short row, or an entry if all operations are maps of contiguous arrays. A
block of threads computes a long row. The threads of a block compute a sum together (`block_sum`).

No kernel uses atomic additions, so the results are bitwise identical in each run.
"""

from npdl.engine import recorded_array
from npdl.engine.c_math import TYPES
from npdl.engine.c_module import SumByIndexSource
from npdl.engine.c_source import GroupSource, flatten_to_one_row, offset_expression
from npdl.engine.cublas import can_multiply
from npdl.engine.operation import may_overlap
from npdl.engine.rows import (
    Operand,
    broadcast_strides,
    has_c_arrays,
    make_row_operation,
    merge_axes,
)

SHORT = 32              # the longest row that one thread computes
SHARED = 40960          # bytes of a block's shared memory for scratch rows
THREADS = 256           # of a block
MANY = 128              # if there are more rows than this, the blocks have fewer threads
MOST_BLOCKS = 2048      # of a launch; if there is more work, each computes several rows or entries

HEAD = """
#ifdef __CUDACC_RTC__
typedef signed char int8_t; typedef unsigned char uint8_t; typedef short int16_t;
typedef int int32_t; typedef long long int64_t;
#define INT64_C(x) x##LL
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fc00000)
#endif
#define exp_f expf
#define exp_d exp
#define log_f logf
#define log_d log
#define tanh_f tanhf
#define tanh_d tanh
#define erf_f erff
#define erf_d erf
"""
BLOCK_FUNCTION = """
__device__ {T} block_{name}({T} x) {{
  __shared__ {T} warps_{name}_{T}[32];
  for (int lanes = 16; lanes; lanes /= 2) {{
    {T} y = __shfl_xor_sync(0xffffffffu, x, lanes); x = {combine};
  }}
  if (threadIdx.x % 32 == 0) warps_{name}_{T}[threadIdx.x / 32] = x;
  __syncthreads();
  x = warps_{name}_{T}[0];
  for (unsigned i = 1; i < blockDim.x / 32; i++) {{
    {T} y = warps_{name}_{T}[i]; x = {combine};
  }}
  __syncthreads();
  return x;
}}"""
COMBINE = {"+": ("sum", "x + y"), "max": ("max", "x > y ? x : y"), "min": ("min", "x < y ? x : y")}
HEAD += "".join(BLOCK_FUNCTION.format(T=T, name=name, combine=combine)
                for T in ("float", "double") for name, combine in COMBINE.values())
# CuPy's method that computes a reduction
REDUCTIONS = {f"{ufunc.__name__}.reduce": name
              for name, ufunc in recorded_array.REDUCTIONS.items()}


class Kernel:
    """A CUDA kernel, and the numbers of blocks and threads with which it is launched.

    text   the source
    views  the Views whose addresses are its arguments
    grid   the number of blocks
    block  the number of threads in each block
    """

    def set_source(self, name, lines):
        """Set the source to `lines`, in which a0, a1, .. point to the entries of the views."""
        arguments = ", ".join(f"{TYPES[x.dtype.name]} *a{i}" for i, x in enumerate(self.views))
        self.text = "\n".join([f'extern "C" __global__ void {name}({arguments}) {{', *lines, "}\n"])
        self.name = name

    def set_launch_size(self, count, threads=THREADS):
        """Set `grid` and `block` for about one thread for each of `count` rows or entries."""
        self.grid, self.block = (min(MOST_BLOCKS, max(1, -(-count // threads))),), (threads,)


class GroupKernel(GroupSource, Kernel):
    """The kernel of a group of maps and reductions along rows.

    has_blocks   True if a block of threads computes each row; False if one thread does
    """

    def _reshape_row_ops(self, row_ops):
        """Return maps of contiguous arrays as maps of rows with one entry: one thread for each.

        If an entry depends on another entry, return `row_ops`, because threads don't wait.
        """
        flat = flatten_to_one_row(row_ops)
        outputs, operands = [op.output for op in flat], [x for op in flat for x in op.operands]
        if flat is row_ops or any(x.inner < 0 for x in operands) or any(
                x != out and may_overlap(x.view, out.view) for x in operands for out in outputs):
            return row_ops
        return list(map(make_one_entry_rows, flat))

    def _choose_row_loops(self):
        super()._choose_row_loops()
        self.row_count = self.row_ops[0].row_count
        width = max(row_op.width for row_op in self.row_ops)
        self.has_blocks = width > SHORT
        self.set_launch_size(self.row_count, THREADS if width == 1 else 128)
        if self.has_blocks:
            self.grid = (min(self.row_count, 65535),)
            most = THREADS if self.row_count > MANY else 1024
            self.block = (min(most, -(-width // 32) * 32),)

    def _make_loop_head(self, loop):
        start, step = ("threadIdx.x", "blockDim.x") if self.has_blocks else ("0", "1")
        return [f"for (size_t j = {start}; j < {loop.width}; j += {step}) {{"]

    def _make_loop_tail(self, loop):
        if not self.has_blocks:
            return ["}"]
        clauses = [clause.split(":") for clause in loop.reductions]
        return ["}", *(f"{name} = block_{COMBINE[operator][0]}({name});"
                       for operator, name in clauses), "__syncthreads();"]

    def _make_store(self, entry, value):
        line = super()._make_store(entry, value)
        if self.has_blocks and self._loop is None:          # all threads have the same value
            return f"__syncthreads(); if (threadIdx.x == 0) {line} __syncthreads();"
        return line

    def _format_function(self, name, lines, scratch_rows):
        start, step = ("blockIdx.x", "gridDim.x") if self.has_blocks else (GLOBAL, ALL)
        self.scratch = sum(8 * width for _, _, width in scratch_rows)
        shared = "__shared__ " if self.has_blocks else ""
        self._before += [f"{shared}{kind} {row}[{width}];" for row, kind, width in scratch_rows]
        table = ", ".join(f"(char *)a{i}" for i in range(len(self.views)))
        self.set_source(name, [f"char *P[] = {{0, {table}}};", *self._before,
                               f"for (size_t r = {start}; r < {self.row_count}; r += {step}) {{",
                               *unravel_index_lines("r", self.sizes), *self._moving, *lines, "}"])
        return self.text


def make_one_entry_rows(row_op):
    """Return a map of one row as a map of many rows, which have one entry each."""
    def swap_axes(x):
        return x._replace(lead=(x.inner,), inner=0) if isinstance(x, Operand) else x
    return row_op._replace(sizes=(row_op.width,), width=1, output=swap_axes(row_op.output),
                           inputs=tuple(map(swap_axes, row_op.inputs)))


GLOBAL = "blockIdx.x * (size_t)blockDim.x + threadIdx.x"        # the number of a thread
ALL = "gridDim.x * (size_t)blockDim.x"                          # the number of all threads


def unravel_index_lines(flat_index, sizes):
    """Return C lines that compute an entry's indices i0, i1, .. from its number `flat_index`."""
    if len(sizes) < 2:
        return [f"size_t i0 = {flat_index};"] * len(sizes)
    lines = [f"size_t i = {flat_index};"]
    lines += [f"size_t i{axis} = i % {sizes[axis]}; i /= {sizes[axis]};"
              for axis in range(len(sizes) - 1, 0, -1)]
    return [*lines, "size_t i0 = i;"]


class TakeKernel(Kernel):
    """A look-up: the rows x[index] of a table x, or np.take_along_axis."""

    def __init__(self, name, op):
        x, index, out = self.views = op.views
        if op.kind == "take":
            axis, steps = 0, index.strides
            rest = [0] * index.ndim + list(x.strides[1:])
        else:
            axis, steps = op.options["axis"], broadcast_strides(index, out.ndim)
            rest = [0 if i == axis else s for i, s in enumerate(broadcast_strides(x, out.ndim))]
        self.set_launch_size(out.size)
        self.set_source(name, [
            f"for (size_t e = {GLOBAL}; e < {out.size}; e += {ALL}) {{",
            *unravel_index_lines("e", out.shape),
            f"int64_t row = a1[{offset_expression(steps, index)}];",
            f"if (row < 0) row += {x.shape[axis]};",
            f"a2[{offset_expression(out.strides, out)}] = "
            f"a0[row * {x.strides[axis] // x.dtype.itemsize} + {offset_expression(rest, x)}]; }}"])

    @staticmethod
    def can_compute(op):
        return op.kind in ("take", "take_along_axis") and has_c_arrays(op) and (
            op.inputs[0].dtype == op.output.dtype)


class SumByIndexKernel(Kernel):
    """functions.sum_by_index: a block for each row of the result, a thread for each column.

    Each thread adds in double, in the order of the batch.
    """

    def __init__(self, name, op):
        rows, index, out = self.views = op.views
        size, width = out.shape
        self.grid, self.block = (min(size, 65535),), (min(THREADS, -(-width // 32) * 32),)
        sizes, (row_steps, index_steps) = merge_axes(index.shape, [rows.strides[:-1],
                                                                    index.strides])
        self.set_source(name, [
            f"for (size_t v = blockIdx.x; v < {size}; v += gridDim.x)",
            f"for (size_t j = threadIdx.x; j < {width}; j += blockDim.x) {{ double sum = 0;",
            f"for (size_t n = 0; n < {index.size}; n++) {{", *unravel_index_lines("n", sizes),
            f"if (a1[{offset_expression(index_steps, index)}] == v)",
            f"sum += a0[{offset_expression(row_steps, rows)} + "
            f"j * {rows.strides[-1] // rows.dtype.itemsize}]; }}",
            f"a2[v * {out.strides[0] // out.dtype.itemsize} + "
            f"j * {out.strides[1] // out.dtype.itemsize}] = sum; }}"])

    can_compute = staticmethod(SumByIndexSource.can_compute)


SINGLE = (TakeKernel, SumByIndexKernel)         # of one operation


def can_run_on_gpu(op):
    """Return True if the GPU can compute an operation: by a kernel, cuBLAS or CuPy."""
    if op.output is None or op.has_effect:
        return False
    return op.output.size == 0 or make_row_operation(op) is not None or is_library_call(op) or any(
        kernel.can_compute(op) for kernel in SINGLE)


def is_library_call(op):
    """Return True if cuBLAS computes an operation (a product), or CuPy (a reduction)."""
    if not has_c_arrays(op) or not all(x.size for x in op.read_views):
        return False
    if op.kind == "matmul":
        return can_multiply(*op.inputs, op.output)
    has_dtype = {"dtype"} if REDUCTIONS.get(op.kind) in ("sum", "prod") else set()     # in CuPy
    return op.kind in REDUCTIONS and not op.options.keys() - {"axis", "keepdims"} - has_dtype


def make_kernels(group, name):
    """Return a list: the Kernels of a group, and the operations that cuBLAS or CuPy computes."""
    if not group.row_ops:
        return [op if is_library_call(op) else
                next(kernel for kernel in SINGLE if kernel.can_compute(op))(name, op)
                for op in group.operations if op.output.size]
    kernels, columns = [], group.column_sum_ops
    group.row_ops = group.per_row_ops
    if group.row_ops:
        kernel = GroupKernel(name, group)
        if kernel.has_blocks and kernel.scratch > SHARED:
            group.local = set()
            kernel = GroupKernel(name, group)
        kernels.append(kernel)
    return kernels + [row_op.op for row_op in columns]
