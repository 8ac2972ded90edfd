"""Translate a recording into NumPy calls, which write into memory that is allocated once.

A group of operations over many rows is computed in blocks of rows. So the result of one operation
is still in the processor's cache when the next operation reads it. A temporary array that only one
group uses needs memory for one block.
"""

import functools
import math

import numpy as np

from npdl.engine.arena import Arena, allocate_aligned, assign_offsets
from npdl.engine.operation import View
from npdl.engine.rows import REDUCTIONS, Operand
from npdl.engine.schedule import group_operations, row_pitch

BLOCK = 32768           # entries of one array in a block


class Calls:
    """The function calls that replay a recording.

    groups           the groups of operations (schedule.Group) that are computed together
    calls            functions without arguments
    call_operations  for each call, the operations that it computes
    get_array        a function that returns the array of a View
    nbytes           the size of the temporary memory
    """

    def __init__(self, groups, results):
        arena = Arena(groups, results)
        arena.allocate()
        self.groups, self.get_array, self.nbytes = groups, arena.get_array, arena.nbytes
        self.calls, self.call_operations = [], []
        for group in groups:
            for call, operations in self.make_group_calls(group):
                self.calls.append(call)
                self.call_operations.append(operations)

    def make_group_calls(self, group):
        """Return the calls that compute one group, a list of pairs (call, its operations)."""
        return [(make_call(op, self.get_array), [op]) for op in group.operations]


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
        block = Block(self.get_array, group.per_row_ops, group.local, step)
        calls = [(block.make_call(row_op, start), [row_op.op])
                 for start in range(0, group.sizes[0], step) for row_op in group.per_row_ops]
        return calls + [(make_call(row_op.op, self.get_array), [row_op.op])
                        for row_op in group.column_sum_ops]


class Block:
    """The temporary arrays of a block of rows. `slots` is {buffer: its first byte in `memory`}."""

    def __init__(self, get_array, row_ops, local, step):
        self.get_array, self.local, self.step, self.sizes = get_array, local, step, row_ops[0].sizes
        count = step * math.prod(self.sizes[1:])
        self.slots, nbytes = assign_offsets([
            {x.view.buffer: row_pitch(x, self.sizes) * count for x in row_op.operands
             if x.view.buffer in local} for row_op in row_ops])
        self.memory = allocate_aligned(nbytes)

    def make_call(self, row_op, start):
        """Return a call of one operation on the block that begins at `start` on the first axis."""
        inputs = [self.get_operand_array(x, row_op, start) if isinstance(x, Operand) else x
                  for x in row_op.inputs]
        out = self.get_operand_array(row_op.output, row_op, start)
        if row_op.form == "row_reduction":
            options = {**row_op.op.options, "axis": -1, "keepdims": True}
            return make_numpy_call(row_op.op.replace(options=options), inputs, out)
        if row_op.op.kind in REDUCTIONS:                  # over axes of length 1
            return functools.partial(np.copyto, out, inputs[0], casting="unsafe")
        return make_numpy_call(row_op.op, inputs, out)

    def get_operand_array(self, operand, row_op, start):
        """Return the array of an operand in the block that begins at `start`.

        Its shape is (*axes that count the rows, width). If all entries of a row are the same, the
        last axis has length 1.
        """
        count = min(self.step, self.sizes[0] - start)
        width = 1 if operand.inner == 0 else row_op.width
        view = operand.view._replace(shape=(count, *self.sizes[1:], width),
                                     strides=(*operand.lead, operand.inner))
        if operand.view.buffer in self.local:
            return view.as_array(self.memory.ctypes.data + self.slots[operand.view.buffer],
                                 self.memory)
        return self.get_array(view._replace(offset=view.offset + start * operand.lead[0]))


def make_call(op, get_array):
    """Return one operation as a function without arguments. get_array(view) is the View's array."""
    inputs = [get_array(x) if isinstance(x, View) else x for x in op.inputs]
    return make_numpy_call(op, inputs, None if op.output is None else get_array(op.output))


def make_numpy_call(op, inputs, out):
    """Return a function without arguments that computes `op`: if possible, a NumPy function."""
    if op.kind == "copy":
        return functools.partial(np.copyto, out, *inputs, casting="unsafe")
    if op.ufunc is None:
        return functools.partial(op.run, *inputs, out=out)
    if op.kind.endswith(".reduce"):
        return functools.partial(op.ufunc.reduce, *inputs, out=out, **op.options)
    return functools.partial(op.ufunc, *inputs, out=out, **op.options)


def choose_block_length(group):
    """Return the length of a block along the first axis; None if blocks would not help."""
    if len(group.per_row_ops) < 2 or not group.sizes:
        return None
    entries = math.prod(group.sizes[1:]) * max(row_op.width for row_op in group.per_row_ops)
    step = max(1, BLOCK // entries)
    return step if step < group.sizes[0] else None
