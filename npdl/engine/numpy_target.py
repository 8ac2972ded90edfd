"""Translate a recording into NumPy calls, which write into memory that is allocated once.

A group of operations over many rows is computed in blocks of rows. So the result of one operation
is still in the processor's cache when the next operation reads it. A temporary array that only one
group uses needs memory for one block.
"""

import functools
import math

import numpy as np

from npdl.engine.arena import allocate, assign_offsets, plan_arena
from npdl.engine.operation import View
from npdl.engine.rows import REDUCTIONS, Operand
from npdl.engine.schedule import group_operations, row_pitch

BLOCK = 32768           # entries of one array in a block


class Calls:
    """The function calls that replay a recording.

    groups           the groups of operations (schedule.Group) that are computed together
    calls            functions without arguments
    call_operations  for each call, the operations that it computes
    results          the arrays of the results after the last call
    nbytes           the size of the temporary memory
    """

    def __init__(self, groups, results):
        offsets, self.nbytes = plan_arena(groups, results)
        allocate(offsets, self.nbytes)
        self.groups, self.results = groups, [view.as_array() for view in results]
        self.calls, self.call_operations = [], []
        for group in groups:
            for call, operations in self.make_group_calls(group):
                self.calls.append(call)
                self.call_operations.append(operations)

    def make_group_calls(self, group):
        """Return the calls that compute one group, a list of pairs (call, its operations)."""
        return [(make_call(op), [op]) for op in group.operations]


class NumPyCalls(Calls):
    """The NumPy calls that replay a recording. Groups are computed in blocks of rows."""

    def __init__(self, operations, results):
        groups = group_operations(operations, results)
        for group in groups:
            if choose_block_length(group) is None:
                group.local = set()
        super().__init__(groups, results)

    def make_group_calls(self, group):
        step = choose_block_length(group)
        if step is None:
            return super().make_group_calls(group)
        row_count = step * math.prod(group.sizes[1:])
        allocate(*assign_offsets([
            {x.view.buffer: row_pitch(x, group.sizes) * row_count for x in row_op.operands
             if x.view.buffer in group.local} for row_op in group.per_row_ops]))
        calls = [(make_call(select_rows(row_op, start, step, group.local)), [row_op.op])
                 for start in range(0, group.sizes[0], step) for row_op in group.per_row_ops]
        return calls + [(make_call(row_op.op), [row_op.op]) for row_op in group.column_sum_ops]


def select_rows(row_op, start, step, local):
    """Return the Operation on a block of `step` rows that begins at `start` on the first axis.

    Each array has the shape (*axes that count the rows, width). If all entries of a row are the
    same, the last axis has length 1. The buffers `local` have memory for one block only.
    """
    def select(x):
        if not isinstance(x, Operand):
            return x
        shape = (min(step, row_op.sizes[0] - start), *row_op.sizes[1:],
                 1 if x.inner == 0 else row_op.width)
        first = 0 if x.view.buffer in local else start * x.lead[0]
        return x.view._replace(shape=shape, strides=(*x.lead, x.inner),
                               offset=x.view.offset + first)
    op = row_op.op.replace(inputs=[select(x) for x in row_op.inputs],
                           output=select(row_op.output))
    if row_op.form == "row_reduction":
        return op.replace(run=functools.partial(op.run, axis=-1, keepdims=True))
    return op.replace(kind="copy") if op.kind in REDUCTIONS else op     # over axes of length 1


def make_call(op):
    """Return a function without arguments that computes `op`: if possible, a NumPy function."""
    inputs = [x.as_array() if isinstance(x, View) else x for x in op.inputs]
    out = None if op.output is None else op.output.as_array()
    if op.kind == "copy":
        return functools.partial(np.copyto, out, *inputs, casting="unsafe")
    return functools.partial(op.run, *inputs, out=out)


def choose_block_length(group):
    """Return the length of a block along the first axis; None if blocks would not help."""
    if len(group.per_row_ops) < 2 or not group.sizes:
        return None
    entries = math.prod(group.sizes[1:]) * max(row_op.width for row_op in group.per_row_ops)
    step = max(1, BLOCK // entries)
    return step if step < group.sizes[0] else None
