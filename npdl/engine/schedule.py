"""Group the operations of a recording that can share a loop over rows (explained in `rows`).

    x_hat = centred / std        one group: for each row, first the entries of x_hat,
    y = gain * x_hat + bias      then those of y, while the row is in the cache

Operations are placed in the order in which they were recorded. An operation may join an earlier
group if it may run before all operations in between.
"""

from collections import Counter

from npdl.engine.operation import may_overlap
from npdl.engine.rows import find_common_axis_sizes, find_joined_stride, make_row_operation

LOOK_BACK = 24          # latest groups that an operation may join; more would make planning slow
# A processor is slow if it reads many large arrays at a time. So an unrelated operation joins a
# group only if this group uses fewer than MOST_ARRAYS arrays of more than SMALL bytes.
MOST_ARRAYS = 8
SMALL = 1 << 14


class Group:
    """Operations that are computed together, for example by one C function.

    row_ops  the operations as loops over rows (RowOperation); empty for a single operation that
             can't be such a loop
    sizes    the lengths of the axes that count the rows; None if `row_ops` is empty
    uses     {buffer: [(View, True if it is written, RowOperation or None)]}
    large    the large buffers that the group uses, except temporary buffers
    local    the temporary buffers that only this group uses; each needs memory for one row only
    """

    def __init__(self, op, row_op=None):
        self.operations, self.row_ops, self.uses, self.large, self.local = [], [], {}, set(), set()
        self.sizes = None if row_op is None else row_op.sizes
        self._add(op, row_op)

    def _add(self, op, row_op):
        self.operations.append(op)
        if row_op is not None:
            self.row_ops.append(row_op)
        for view in op.views:
            self.uses.setdefault(view.buffer, []).append((view, view is op.output, row_op))
            if not view.buffer.is_temporary and view.buffer.nbytes > SMALL:
                self.large.add(view.buffer)

    @property
    def column_sum_ops(self):
        """Return the RowOperations that are sums over the rows."""
        return [row_op for row_op in self.row_ops if row_op.form == "column_sum"]

    @property
    def per_row_ops(self):
        """Return the RowOperations that compute each row separately."""
        return [row_op for row_op in self.row_ops if row_op.form != "column_sum"]

    def shares_array_with(self, op):
        """Return True if an operation uses an array that the group uses."""
        return any(view.buffer in self.uses for view in op.views if view.buffer.role != "number")

    def has_conflict_with(self, op):
        """Return True if `op` must run after the group, because one writes what the other uses."""
        return any(may_overlap(view, other) and (is_written or view is op.output)
                   for view in op.views for other, is_written, _ in self.uses.get(view.buffer, ()))

    def try_add(self, op):
        """Add an operation to the group's loop over rows; return False if that is impossible."""
        if not self.row_ops:
            return False
        row_op = make_row_operation(op, self.row_ops[0].row_count)
        sizes = None if row_op is None else find_common_axis_sizes(self.sizes, row_op.sizes)
        if sizes is None:
            return False
        row_op = row_op.split_row_axes(sizes)
        related = {id(member): member for view in op.views
                   for _, _, member in self.uses.get(view.buffer, ())}
        if not all(can_share_loop(x.split_row_axes(sizes), row_op) for x in related.values()):
            return False
        self.sizes = sizes
        self._add(op, row_op)
        return True


def group_operations(operations, results):
    """Return the groups of a recording, in the order of their execution.

    `results` are Views that are read after the last group.
    """
    groups = []
    for op in operations:
        if not _try_join_group(groups, op):
            groups.append(Group(op, make_row_operation(op)))
    for group in groups:
        group.row_ops = [row_op.split_row_axes(group.sizes) for row_op in group.row_ops]
    _set_local_buffers(groups, results)
    return groups


def _try_join_group(groups, op):
    """Add an operation to the latest group that can take it. Return False if there is none."""
    for i, group in enumerate(reversed(groups[-LOOK_BACK:])):
        joins = i == 0 and len(group.large) < MOST_ARRAYS or group.shares_array_with(op)
        if joins and group.try_add(op):
            return True
        if group.has_conflict_with(op):
            return False
    return False


def can_share_loop(before, after):
    """Return True if one loop over rows can compute both operations, `before` first."""
    pairs = [(before.output, x) for x in after.operands]
    pairs += [(x, after.output) for x in before.operands[:-1]]
    for a, b in pairs:
        if may_overlap(a.view, b.view) and (
                "column_sum" in (before.form, after.form) or not is_overlap_row_by_row(
                    a, before.width, b, after.width, before.sizes)):
            return False
    return True


def is_overlap_row_by_row(a, width_a, b, width_b, sizes):
    """Return True if row i of operand `a` shares memory only with row i of operand `b`."""
    lead = [(n, s) for n, s in zip(sizes, a.lead, strict=True) if n != 1]
    if a.lead != b.lead or any(s <= 0 for _, s in lead) or a.inner < 0 or b.inner < 0:
        return False
    low = min(a.view.offset, b.view.offset)
    ends = [x.view.offset + (width - 1) * x.inner + x.view.dtype.itemsize
            for x, width in ((a, width_a), (b, width_b))]
    extent = max(ends) - low
    for n, stride in sorted(lead, key=lambda axis: axis[1]):
        if extent > stride:
            return False
        extent = n * stride
    return True


def _set_local_buffers(groups, results):
    """Set `local` of each group: the temporary buffers that no other group and no result uses."""
    users = Counter(buffer for group in groups for buffer in group.uses)
    users.update(view.buffer for view in results)
    for group in groups:
        whole = {x.view.buffer for row_op in group.row_ops for x in row_op.operands
                 if row_op.form == "column_sum" or (
                     x.view.offset >= (row_pitch(x, row_op.sizes) or 0))}   # not in the first row
        group.local = {x.view.buffer for row_op in group.row_ops for x in row_op.operands
                       if x.view.buffer.is_temporary and users[x.view.buffer] == 1} - whole


def row_pitch(operand, sizes):
    """Return the distance in bytes from each row to the next, or None if it is not constant."""
    long = [i for i, n in enumerate(sizes) if n != 1]
    if not long:
        return operand.view.buffer.nbytes or None
    pitch = find_joined_stride([sizes[i] for i in long], [operand.lead[i] for i in long])
    return pitch if pitch and pitch > 0 else None
