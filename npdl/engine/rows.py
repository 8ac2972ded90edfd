"""Describe an operation as a loop over rows.

A row lies along the last axis, or axes, of an array. An operation is a map (each entry separately),
a reduction along each row, or a sum over the rows. For example, `x - x.mean(-1, keepdims=True)` on
x (B, S, D) has B * S rows of width D. Operations with the same number of rows can share one loop
over the rows, so that a row stays in the cache while all of them work on it.
"""

import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from npdl.engine.c_math import EXPRESSIONS, TYPES
from npdl.engine.operation import View, may_overlap

REDUCTIONS = frozenset("add.reduce maximum.reduce minimum.reduce".split())
# Elementwise operations that also compute with bools
LOGIC = frozenset("bitwise_and bitwise_or copy equal greater greater_equal invert less less_equal "
                  "logical_and logical_not logical_or not_equal where maximum minimum".split())


class Operand(NamedTuple):
    """An array that a loop over rows reads or writes.

    lead   the strides in bytes along the axes that count the rows
    inner  the stride in bytes along a row
    """

    view: View
    lead: tuple
    inner: int

    @property
    def c_type(self):
        return TYPES[self.view.dtype.name]


class RowOperation(NamedTuple):
    """An operation as a loop over rows.

    form    "elementwise", "row_reduction" (along each row), or "column_sum" (over the rows)
    sizes   the lengths of the axes that count the rows; their product is the number of rows
    width   the number of entries in a row
    inputs  Operands and scalars
    """

    op: Any
    form: str
    sizes: tuple
    width: int
    inputs: tuple
    output: Operand

    @property
    def row_count(self):
        return math.prod(self.sizes)

    @property
    def operands(self):
        return [x for x in self.inputs if isinstance(x, Operand)] + [self.output]

    def split_row_axes(self, sizes):
        """Return the operation, with the axes that count its rows split into axes of `sizes`."""
        if sizes == self.sizes:
            return self
        def split_lead(x):
            return x._replace(lead=split_strides(x.lead, self.sizes, sizes)) if isinstance(
                x, Operand) else x
        return self._replace(sizes=sizes, inputs=tuple(map(split_lead, self.inputs)),
                             output=split_lead(self.output))


def make_row_operation(op, row_count=None):
    """Return an operation as a RowOperation with `row_count` rows, or None if that is not possible.

    If `row_count` is None, the rows of an elementwise operation are along the last axis.
    """
    if op.output is None or not _can_generate_code(op):
        return None
    form, shape, strides, reduced = _find_form_and_axes(op)
    if form is None or 0 in shape:
        return None
    cut = _count_row_axes(form, shape, reduced, row_count)
    if cut is None:
        return None
    operands = {}
    for view, along in strides:
        inner = find_joined_stride(shape[cut:], along[cut:])
        if inner is None:
            return None
        operands[view] = Operand(view, along[:cut], inner)
    output = operands[op.output]
    if any(may_overlap(x.view, output.view) and (x.view.offset, x.lead, x.inner) != (
            output.view.offset, output.lead, output.inner) for x in operands.values()):
        return None                         # x[1:] = x[:-1]: NumPy first copies the overlap
    inputs = tuple(operands[x] if isinstance(x, View) else x for x in op.inputs)
    return RowOperation(op, form, shape[:cut], math.prod(shape[cut:]), inputs, output)


def has_c_arrays(op):
    """Return True if C has all dtypes of an operation, and all its arrays are aligned."""
    return all(x.dtype.name in TYPES and x.dtype.isnative and not any(
        s % x.dtype.itemsize for s in (x.offset, *x.strides)) for x in op.views)


def _can_generate_code(op):
    """Return True if code can be generated for an operation and its dtypes."""
    if not has_c_arrays(op) or any(dtype.name not in TYPES for dtype in op.loop or ()):
        return False
    if op.kind in REDUCTIONS:
        return op.read_views[0].dtype.kind == "f" and op.output.dtype.kind == "f" and not (
            op.options.keys() - {"axis", "keepdims", "dtype"})
    if op.kind not in EXPRESSIONS or (op.loop is None and op.kind != "copy"):
        return False
    return op.loop is None or op.loop[0].kind != "b" or op.kind in LOGIC


def _find_form_and_axes(op):
    """Find the form of an operation and its axes, without axes of length 1.

    Return (form, shape, [(view, strides)], number of reduced axes). The last view is the output.
    The form is None if the operation is not a loop over rows.
    """
    if op.kind not in REDUCTIONS:
        shape, reduced = op.output.shape, set()
    else:
        shape, axis = op.read_views[0].shape, op.options["axis"]
        axes = range(len(shape)) if axis is None else np.atleast_1d(axis)
        reduced = {int(i) % len(shape) for i in axes if shape}
    long = [i for i, n in enumerate(shape) if n != 1]
    output = broadcast_strides(op.output, len(shape))
    if op.output.ndim != len(shape):            # a reduction without keepdims
        remaining = iter(op.output.strides)
        output = tuple(0 if i in reduced else next(remaining) for i in range(len(shape)))
    strides = [(x, broadcast_strides(x, len(shape))) for x in op.read_views] + [(op.output, output)]
    flags = [i in reduced for i in long]
    count = sum(flags)
    if not count:
        form = "elementwise"
    elif all(flags[len(flags) - count:]):
        form = "row_reduction"
    elif all(flags[:count]) and op.kind == "add.reduce":
        form = "column_sum"
    else:
        form = None
    return form, tuple(shape[i] for i in long), [
        (view, tuple(along[i] for i in long)) for view, along in strides], count


def _count_row_axes(form, shape, reduced_count, row_count):
    """Return how many leading axes count the rows, or None if there can't be `row_count` rows."""
    preferred = {"elementwise": max(0, len(shape) - 1), "column_sum": reduced_count,
                 "row_reduction": len(shape) - reduced_count}[form]
    if row_count is None:
        return preferred
    cuts = range(len(shape), -1, -1) if form == "elementwise" else [preferred]
    return next((cut for cut in cuts if math.prod(shape[:cut]) == row_count), None)


def broadcast_strides(view, ndim):
    """Return the strides of a view that is broadcast to `ndim` axes."""
    strides = tuple(0 if n == 1 else s for n, s in zip(view.shape, view.strides, strict=True))
    return (0,) * (ndim - len(strides)) + strides


def find_joined_stride(sizes, strides):
    """Return the stride of several axes joined into one, or None if they can't be joined."""
    _, (joined,) = merge_axes(sizes, [strides])
    return None if len(joined) > 1 else joined[0] if joined else 0


def find_common_axis_sizes(sizes_a, sizes_b):
    """Return the axis lengths to which axes of lengths `sizes_a` and `sizes_b` can be split.

    Axes are split as little as possible. (6,) and (2, 3) give (2, 3); (2, 3) and (3, 2) give None.
    """
    cuts = sorted({math.prod(sizes[i:]) for sizes in (sizes_a, sizes_b)
                   for i in range(len(sizes) + 1)}, reverse=True)
    pairs = list(itertools.pairwise(cuts))
    if any(outer % inner for outer, inner in pairs):
        return None
    return tuple(outer // inner for outer, inner in pairs)


def split_strides(strides, sizes, new_sizes):
    """Split axes of lengths `sizes` into axes of `new_sizes`. Return the new axes' strides."""
    result, axes = [], list(zip(sizes, strides, strict=True))
    left, stride = 1, 0
    for n in reversed(new_sizes):
        if left == 1:
            left, stride = axes.pop()
        result.append(stride)
        stride, left = stride * n, left // n
    return tuple(reversed(result))


def merge_axes(sizes, strides_of_arrays):
    """Join neighbouring axes if each array has one stride along both. Return (sizes, [strides])."""
    sizes, strides_of_arrays = list(sizes), [list(s) for s in strides_of_arrays]
    for i in range(len(sizes) - 2, -1, -1):
        if all(s[i] == s[i + 1] * sizes[i + 1] for s in strides_of_arrays):
            sizes[i] *= sizes.pop(i + 1)
            for s in strides_of_arrays:
                s[i] = s.pop(i + 1)
    return tuple(sizes), [tuple(s) for s in strides_of_arrays]
