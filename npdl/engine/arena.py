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
        self.offsets, self.nbytes = self._place(len(groups))
        self.allocate()

    def allocate(self):
        """Make the block of memory."""
        memory = np.zeros(self.nbytes + ALIGNMENT, np.uint8)
        self.memory = memory[-memory.ctypes.data % ALIGNMENT:]
        self.address = self.memory.ctypes.data

    def _place(self, steps):
        """Place each buffer in the smallest gap that holds it (best fit)."""
        begins, ends = [[] for _ in range(steps + 1)], [[] for _ in range(steps + 1)]
        for key in self._first:
            begins[self._first[key]].append(key)
            ends[self._last[key]].append(key)
        offsets, gaps, top = {}, [], 0
        for i in range(steps):
            for key in sorted(begins[i], key=lambda key: -self._buffers[key].nbytes):
                size = rounded(self._buffers[key].nbytes)
                fitting = [gap for gap in gaps if gap[1] >= size]
                if fitting:
                    start, length = min(fitting, key=lambda gap: gap[1])
                    gaps.remove((start, length))
                    if length > size:
                        gaps.append((start + size, length - size))
                elif gaps and max(gaps)[0] + max(gaps)[1] == top:       # grow the last gap
                    start, length = max(gaps)
                    gaps.remove((start, length))
                    top = start + size
                else:
                    start, top = top, top + size
                offsets[key] = start
            for key in ends[i]:
                gaps = merged([*gaps, (offsets[key], rounded(self._buffers[key].nbytes))])
        return offsets, top

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


def merged(gaps):
    """Join neighbours among (start, length) of free memory."""
    joined = []
    for start, length in sorted(gaps):
        if joined and sum(joined[-1]) == start:
            joined[-1] = (joined[-1][0], joined[-1][1] + length)
        else:
            joined.append((start, length))
    return joined
