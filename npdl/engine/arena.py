"""Plan the memory of a recorded training step: one block, the arena, for all temporary buffers.

Two buffers may share bytes if one is used for the last time before the other is used for the
first time. Example: b is computed from a, c from b, and d from c. Then d may lie where b was.
"""

import numpy as np

ALIGNMENT = 64          # bytes: a cache line, and the widest vector


def plan_arena(groups, results):
    """Place the temporary buffers of a recording; return the same as `assign_offsets`.

    groups   the groups of operations (schedule.Group), in the order of their execution
    results  the Views (operation.View) that are read after the last group
    """
    used = [[buffer for buffer in group.uses if buffer not in group.local] for group in groups]
    used.append([view.buffer for view in results])
    return assign_offsets([{buffer: buffer.nbytes for buffer in buffers if buffer.is_temporary}
                           for buffers in used])


def assign_offsets(sizes_in_use):
    """Place buffers in one block; return ({buffer: its first byte}, the number of bytes).

    sizes_in_use  for each point in time, {buffer in use: its number of bytes}

    The largest buffers are placed first. Each buffer goes into the first gap that is large enough.
    Gaps are the bytes that no placed buffer needs while this buffer is in use.
    """
    first, last, sizes = {}, {}, {}
    for i, used in enumerate(sizes_in_use):
        sizes |= used
        last |= dict.fromkeys(used, i)
        for buffer in used:
            first.setdefault(buffer, i)
    keys = sorted(sizes, key=lambda key: -sizes[key])
    begin, end = (np.array([times[key] for key in keys]) for times in (first, last))
    low, high = np.zeros((2, len(keys)), np.int64)
    for i, key in enumerate(keys):
        meanwhile = np.flatnonzero((begin[:i] <= end[i]) & (end[:i] >= begin[i]))
        meanwhile = meanwhile[np.argsort(low[meanwhile])]
        gaps = np.maximum.accumulate(np.append(0, high[meanwhile]))     # where each gap begins
        size = align_size(sizes[key])
        fits = np.flatnonzero(low[meanwhile] - gaps[:-1] >= size)
        low[i] = gaps[fits[0] if len(fits) else -1]
        high[i] = low[i] + size
    return dict(zip(keys, low.tolist(), strict=True)), int(high.max(initial=0))


def allocate(offsets, nbytes):
    """Make one block in the host's memory for buffers at the given offsets."""
    memory = allocate_aligned(nbytes)
    for buffer, offset in offsets.items():
        buffer.array, buffer.address = memory, memory.ctypes.data + offset


def allocate_aligned(nbytes):
    """Return an array of `nbytes` or more bytes, whose address is a multiple of ALIGNMENT."""
    memory = np.zeros(nbytes + ALIGNMENT, np.uint8)
    return memory[-memory.ctypes.data % ALIGNMENT:]


def align_size(size):
    return max(ALIGNMENT, -(-size // ALIGNMENT) * ALIGNMENT)
