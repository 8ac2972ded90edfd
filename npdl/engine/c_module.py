"""Write the C source of a recorded training step, and the C functions of two single operations.

The two are `sum_by_index` (the backward pass of a look-up) and many small products of matrices (the
heads of an attention). `c_source` can't write them, because they are not loops over rows. They have
C functions because NumPy is slow at both.
"""

from npdl.engine import c_math
from npdl.engine.c_math import TYPES
from npdl.engine.c_source import GroupSource, loop_heads, offset_expression
from npdl.engine.rows import broadcast_strides, has_c_arrays, merge_axes

SMALL = 4096        # multiplications of one product; BLAS computes larger products
HEAD = """#include <stddef.h>
#include <stdint.h>
#include <math.h>
"""


class SumByIndexSource:
    """The C function of one `npdl.functions.sum_by_index`. It adds rows in double, in their order.

    In the C code, `total` has one row for each index that occurs. place[v] is the number of the row
    of index v, counted from 1. If v does not occur, place[v] is 0.
    """

    def __init__(self, name, op):
        rows, index, out = self.views = op.views
        (size, width), kind = out.shape, TYPES[rows.dtype.name]
        most = min(size, index.size) * width
        self.scratch = 8 * (most + size)
        sizes, (row_steps, index_steps) = merge_axes(
            index.shape, [rows.strides[:-1], index.strides])
        v_step, j_step = (s // out.dtype.itemsize for s in out.strides)
        row_step = rows.strides[-1] // rows.dtype.itemsize
        self.text = "\n".join([f"""void {name}(char **P) {{
double *total = (double *)P[0]; int64_t *place = (int64_t *)(total + {most}), count = 0;
for (size_t v = 0; v < {size}; v++) place[v] = 0;""", *loop_heads(sizes), f"""
int64_t v = (({TYPES[index.dtype.name]} *)P[2])[{offset_expression(index_steps, index)}];
if (!place[v]) {{
double *sum = total + count * {width}; place[v] = ++count;
for (size_t j = 0; j < {width}; j++) sum[j] = 0;
}}
{kind} *row = ({kind} *)P[1] + {offset_expression(row_steps, rows)};
double *sum = total + (place[v] - 1) * {width};
#pragma omp simd
for (size_t j = 0; j < {width}; j++) sum[j] += row[j * {row_step}];
{"}" * len(sizes)}
{TYPES[out.dtype.name]} *out = ({TYPES[out.dtype.name]} *)P[3];
for (size_t v = 0; v < {size}; v++)
for (size_t j = 0; j < {width}; j++)
out[v * {v_step} + j * {j_step}] = place[v] ? total[(place[v] - 1) * {width} + j] : 0;
}}
"""])

    @staticmethod
    def can_compute(op):
        """Return True if an operation is a `sum_by_index` of rows of floats."""
        return op.kind == "sum_by_index" and has_c_arrays(op) and op.output.dtype.kind == "f" and (
            op.inputs[0].ndim == op.inputs[1].ndim + 1)


class SmallProductsSource:
    """The C function of many small products out = a @ b, such as the heads of an attention.

    If the rows of b are contiguous, the inner loop goes along a row: out[i] += a[i, k] * b[k]. If b
    is transposed, the inner loop goes along k: out[i, j] = sum_k a[i, k] * b[k, j].
    """

    def __init__(self, name, op):
        a, _, out = self.views = op.views
        kind, size, self.scratch = TYPES[out.dtype.name], out.dtype.itemsize, 0
        leads = [broadcast_strides(x, out.ndim)[:-2] for x in self.views]
        sizes, leads = merge_axes(out.shape[:-2], leads)
        (m, n), k = out.shape[-2:], a.shape[-1]
        lines = [f"void {name}(char **P) {{", *loop_heads(sizes)]
        lines += [f"{kind} *{letter} = ({kind} *)P[{i}] + {offset_expression(lead, view)};"
                  for i, letter, lead, view in zip((1, 2, 3), "abc", leads, self.views,
                                                   strict=True)]
        (a_i, a_k), (b_k, b_j), (c_i, c_j) = (
            tuple(s // size for s in x.strides[-2:]) for x in self.views)
        lines.append(f"for (size_t i = 0; i < {m}; i++) {{")
        if b_j == 1:
            lines += [f"{kind} sum[{n}];", "__builtin_memset(sum, 0, sizeof sum);",
                      f"for (size_t k = 0; k < {k}; k++) {{ {kind} x = a[i * {a_i} + k * {a_k}];",
                      "#pragma omp simd",
                      f"for (size_t j = 0; j < {n}; j++) "
                      f"sum[j] += x * b[k * {b_k} + j]; }}",
                      f"for (size_t j = 0; j < {n}; j++) c[i * {c_i} + j * {c_j}] = sum[j];"]
        else:
            lines += [f"for (size_t j = 0; j < {n}; j++) {{ {kind} sum = 0;",
                      "#pragma omp simd reduction(+:sum)",
                      f"for (size_t k = 0; k < {k}; k++)",
                      f"sum += a[i * {a_i} + k * {a_k}] * b[k * {b_k} + j * {b_j}];",
                      f"c[i * {c_i} + j * {c_j}] = sum; }}"]
        self.text = "\n".join([*lines, "}" * (len(sizes) + 2), ""])

    @staticmethod
    def can_compute(op):
        """Return True if an operation multiplies stacks of matrices that are too small for BLAS."""
        if op.kind != "matmul" or not has_c_arrays(op) or not op.output.size or (
                min(view.ndim for view in op.views) < 3) or (
                len({view.dtype for view in op.views}) > 1 or op.output.dtype.kind != "f"):
            return False
        (m, n), k = op.output.shape[-2:], op.inputs[0].shape[-1]
        return m * n * k <= SMALL


SINGLE = (SumByIndexSource, SmallProductsSource)        # C functions of one operation


def generate_c_module(groups):
    """Return the C source of all groups that C can compute, and {group: its source object}."""
    sources = {}
    for group in groups:
        name, op = f"g{len(sources)}", group.operations[0]
        if group.row_ops:
            sources[group] = GroupSource(name, group)
        elif kinds := [kind for kind in SINGLE if kind.can_compute(op)]:
            sources[group] = kinds[0](name, op)
    texts = [source.text for source in sources.values()]
    return "\n".join([HEAD, c_math.generate_math_functions(), *texts]), sources
