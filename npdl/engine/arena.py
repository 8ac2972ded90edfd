"""Plan the memory of a recording: one block, the arena, in which temporaries take turns.

Two buffers may share bytes if one is used for the last time before the other is used for the
first time. Example: b is computed from a, c from b, and d from c. Then d may lie where b was.
"""

import numpy as np

ALIGNMENT = 64          # bytes: a cache line, and the widest vector


class Arena:
    """The memory of a recording's buffers.

    groups   in the order of their execution; `results` are read after the last one
    offsets  {temporary Buffer: its first byte in the arena}
    """

    def __init__(self, groups, results):
        first, last, sizes = {}, {}, {}
        for i, group in enumerate(groups):
            for view in [view for op in group.operations for view in op.views]:
                buffer = view.buffer
                if buffer.is_temporary and buffer not in group.local:
                    sizes[buffer], last[buffer] = buffer.nbytes, i
                    first.setdefault(buffer, i)
        last |= {view.buffer: len(groups) for view in results}
        self.offsets, self.nbytes = place(sizes, first, last)
        self.allocate()

    def allocate(self):
        """Make the block of memory."""
        self.memory = aligned(self.nbytes)
        self.address = self.memory.ctypes.data

    def array(self, view):
        """Return the NumPy array of a view."""
        if view.buffer.is_temporary:
            return view.array_at(self.address + self.offsets[view.buffer], self.memory)
        return view.array_at(view.buffer.address, view.buffer.array)


def place(sizes, first, last):
    """Place the largest blocks first.

    Each goes into the first gap between the placed blocks that are in use at the same time.

    sizes  {key of a block: its bytes}
    first  {key of a block: the number of its first use}
    last   {key of a block: the number of its last use}

    Returns ({key: its first byte}, the bytes of all).
    """
    keys = sorted(sizes, key=lambda key: -sizes[key])
    begin, end = (np.array([uses[key] for key in keys]) for uses in (first, last))
    low, high = np.zeros((2, len(keys)), np.int64)
    for i, key in enumerate(keys):
        meanwhile = np.flatnonzero((begin[:i] <= end[i]) & (end[:i] >= begin[i]))
        meanwhile = meanwhile[np.argsort(low[meanwhile])]
        gaps = np.maximum.accumulate(np.append(0, high[meanwhile]))     # where each may begin
        size = rounded(sizes[key])
        fits = np.flatnonzero(low[meanwhile] - gaps[:-1] >= size)
        low[i] = gaps[fits[0] if len(fits) else -1]
        high[i] = low[i] + size
    return dict(zip(keys, low.tolist(), strict=True)), int(high.max(initial=0))


def aligned(nbytes):
    """Return memory whose address is a multiple of ALIGNMENT."""
    memory = np.zeros(nbytes + ALIGNMENT, np.uint8)
    return memory[-memory.ctypes.data % ALIGNMENT:]


def rounded(size):
    return max(ALIGNMENT, -(-size // ALIGNMENT) * ALIGNMENT)
