"""Translate a recording into NumPy calls, which write into memory that is allocated once.

A group of operations over many rows is computed in blocks of rows. So the result of one operation
is still in the processor's cache when the next operation reads it. A temporary array that only one
group uses needs memory for one block.
"""

import functools
import math

import numpy as np

from npdl.engine.arena import Arena, allocate_aligned, assign_memory
from npdl.engine.operation import View
from npdl.engine.rows import REDUCTIONS, Operand
from npdl.engine.schedule import row_pitch, schedule

BLOCK = 32768           # entries of one array in a block


class Calls:
    """The function calls that replay a recording.

    groups           the groups of operations (schedule.Group) that are computed together
    calls            functions without arguments
    call_operations  for each call, the operations that it computes
    array            a function that returns the array of a View
    nbytes           the size of the temporary memory
    """

    def __init__(self, groups, results):
        arena = Arena(groups, results)
        arena.allocate()
        self.groups, self.array, self.nbytes = groups, arena.array, arena.nbytes
        self.calls, self.call_operations = [], []
        for group in groups:
            for call, operations in self.lower(group):
                self.calls.append(call)
                self.call_operations.append(operations)

    def lower(self, group):
        """Return the calls that compute one group, a list of pairs (call, its operations)."""
        return [(make_call(op, self.array), [op]) for op in group.operations]


class NumPyCalls(Calls):
    """The NumPy calls that replay a recording. Groups are computed in blocks of rows."""

    def __init__(self, operations, results):
        groups = schedule(operations, results)
        for group in groups:
            if block_size(group) is None:
                group.local = set()
        super().__init__(groups, results)

    def lower(self, group):
        step = block_size(group)
        if step is None:
            return super().lower(group)
        block = Block(self.array, group.row_by_row, group.local, step)
        calls = [(block.make_call(rows, start), [rows.op])
                 for start in range(0, group.sizes[0], step) for rows in group.row_by_row]
        return calls + [(make_call(rows.op, self.array), [rows.op]) for rows in group.column_sums]


class Block:
    """The temporary arrays of a block of rows. `slots` is {buffer: its first byte in `memory`}."""

    def __init__(self, array, members, local, step):
        self.array, self.local, self.step, self.sizes = array, local, step, members[0].sizes
        count = step * math.prod(self.sizes[1:])
        self.slots, nbytes = assign_memory([
            {x.view.buffer: row_pitch(x, self.sizes) * count for x in rows.operands
             if x.view.buffer in local} for rows in members])
        self.memory = allocate_aligned(nbytes)

    def make_call(self, rows, start):
        """Return a call of one operation on the block that begins at `start` on the first axis."""
        inputs = [self.operand_array(x, rows, start) if isinstance(x, Operand) else x
                  for x in rows.inputs]
        out = self.operand_array(rows.output, rows, start)
        if rows.form == "row":
            options = {**rows.op.options, "axis": -1, "keepdims": True}
            return make_direct_call(rows.op.replace(options=options), inputs, out)
        if rows.op.kind in REDUCTIONS:                  # over axes of length 1
            return functools.partial(np.copyto, out, inputs[0], casting="unsafe")
        return make_direct_call(rows.op, inputs, out)

    def operand_array(self, x, rows, start):
        """Return the array of an operand in the block that begins at `start`.

        Its shape is (*axes that count the rows, width). If all entries of a row are the same, the
        last axis has length 1.
        """
        count = min(self.step, self.sizes[0] - start)
        width = 1 if x.inner == 0 else rows.width
        view = x.view._replace(shape=(count, *self.sizes[1:], width), strides=(*x.lead, x.inner))
        if x.view.buffer in self.local:
            return view.array_at(self.memory.ctypes.data + self.slots[x.view.buffer],
                                 self.memory)
        return self.array(view._replace(offset=view.offset + start * x.lead[0]))


def make_call(op, array):
    """Return one operation as a function without arguments; array(view) is the array of a View."""
    inputs = [array(x) if isinstance(x, View) else x for x in op.inputs]
    return make_direct_call(op, inputs, None if op.output is None else array(op.output))


def make_direct_call(op, inputs, out):
    """Return a function without arguments that computes `op`: if possible, a NumPy function."""
    if op.kind == "copy":
        return functools.partial(np.copyto, out, *inputs, casting="unsafe")
    if op.ufunc is None:
        return functools.partial(op.run, *inputs, out=out)
    if op.kind.endswith(".reduce"):
        return functools.partial(op.ufunc.reduce, *inputs, out=out, **op.options)
    return functools.partial(op.ufunc, *inputs, out=out, **op.options)


def block_size(group):
    """Return the length of a block along the first axis; None if blocks would not help."""
    if len(group.row_by_row) < 2 or not group.sizes:
        return None
    entries = math.prod(group.sizes[1:]) * max(rows.width for rows in group.row_by_row)
    step = max(1, BLOCK // entries)
    return step if step < group.sizes[0] else None
