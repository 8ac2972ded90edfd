"""Plan the memory of a recording: one block, the arena, in which temporaries take turns.

Two buffers may share bytes if one is used for the last time before the other is used for the
first time. Example: of three operations a -> b -> c -> d, d may lie where b was.
"""

import numpy as np

ALIGNMENT = 64          # bytes: a cache line, and the widest vector


class Arena:
    """The memory of a recording's buffers.

    groups   in the order of their execution; `results` are read after the last one
    offsets  {id of a temporary buffer: its first byte in the arena}
    """

    def __init__(self, groups, results):
        self._first, self._last, self._buffers = {}, {}, {}
        for i, group in enumerate(groups):
            for view in views_of(group.operations):
                if view.buffer.is_temporary and id(view.buffer) not in group.local:
                    self._buffers[id(view.buffer)] = view.buffer
                    self._first.setdefault(id(view.buffer), i)
                    self._last[id(view.buffer)] = i
        for view in results:
            self._last[id(view.buffer)] = len(groups)
        self.offsets, self.nbytes = self._place()
        self.allocate()

    def allocate(self):
        """Make the block of memory."""
        memory = np.zeros(self.nbytes + ALIGNMENT, np.uint8)
        self.memory = memory[-memory.ctypes.data % ALIGNMENT:]
        self.address = self.memory.ctypes.data

    def _place(self):
        """Place the largest buffers first, each in the first gap between those used meanwhile.

        Returns ({id of a buffer: its first byte}, size of the arena).
        """
        keys = sorted(self._buffers, key=lambda key: -self._buffers[key].nbytes)
        first, last = (np.array([uses[key] for key in keys]) for uses in (self._first, self._last))
        low, high = np.zeros((2, len(keys)), np.int64)
        for i, key in enumerate(keys):
            meanwhile = np.flatnonzero((first[:i] <= last[i]) & (last[:i] >= first[i]))
            meanwhile = meanwhile[np.argsort(low[meanwhile])]
            ends = np.maximum.accumulate(np.append(0, high[meanwhile]))     # where a gap may begin
            size = rounded(self._buffers[key].nbytes)
            fits = np.flatnonzero(low[meanwhile] - ends[:-1] >= size)
            low[i] = ends[fits[0] if len(fits) else -1]
            high[i] = low[i] + size
        return dict(zip(keys, low.tolist(), strict=True)), int(high.max(initial=0))

    def array(self, view):
        """Return the NumPy array of a view."""
        if view.buffer.is_temporary:
            return view.array_at(self.address + self.offsets[id(view.buffer)], self.memory)
        return view.array_at(view.buffer.address, view.buffer.array)


def views_of(operations):
    """Yield every View that some operations read or write."""
    for op in operations:
        yield from op.reads
        if op.output is not None:
            yield op.output


def rounded(size):
    return max(ALIGNMENT, -(-size // ALIGNMENT) * ALIGNMENT)
