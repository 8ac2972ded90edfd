"""Memory that stays at hand: freed blocks that the C library keeps, and a step's own arrays.

A training step needs the same megabytes over and over. By default the C library of Linux (glibc)
gives large blocks back to the kernel at once and, for each new one, takes a page fault for every
4 KiB: a quarter of a step's time. PyTorch's and NumPy's arrays are alike in this.
`keep_freed_memory` asks glibc to keep what was freed for the next array; an `Arena` hands the
wing's arrays out of memory that it never gives back.
"""

import ctypes
import math
import platform

import numpy as np

from npdl.backend import is_host, xp

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3      # <malloc.h>
MEBIBYTE = 1 << 20
CHUNK = 16 * MEBIBYTE   # bytes asked for at once; what is not written to takes no memory
KNOWN = 4096            # arrays that are remembered by place and shape
ALIGN = 64              # bytes: a line of the processor's cache


def keep_freed_memory():
    """Tell glibc to reuse freed blocks of up to 32 MiB instead of returning them.

    Acts on the whole process; memory in use is not touched. Returns whether glibc agreed: False
    on systems with another C library, where nothing happens.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    agreed = [
        mallopt(M_MMAP_THRESHOLD, 32 * MEBIBYTE),       # the largest that glibc allows
        mallopt(M_TRIM_THRESHOLD, 1024 * MEBIBYTE),
        mallopt(M_TOP_PAD, 64 * MEBIBYTE),
    ]
    return all(agreed)


class Arena:
    """A step's arrays, one behind the other, in memory that is kept from step to step.

    `empty(*shape)` gives the next one, in `dtype`. What is handed out inside `with arena.scratch:`
    may be written over after it. `reset()` starts anew. On a device CuPy's own pool does as much.
    """

    def __init__(self, dtype):
        self.dtype = np.dtype(dtype)
        self.chunks = []
        self.place = (0, 0)     # the chunk, and how many numbers of it are taken
        self.known = {}         # {(place, shape): (array, the place behind it)}
        self.scratch = _Scratch(self)
        self.written = set()    # ids of the gradients that this step has added to (kernels.add)

    def reset(self):
        self.place = (0, 0)
        if len(self.known) > KNOWN:
            self.known.clear()

    def empty(self, *shape):
        key = self.place, shape
        if key not in self.known:
            if not is_host():
                return xp.empty(shape, self.dtype)
            self.known[key] = self.cut(shape)
        array, self.place = self.known[key]
        return array

    def cut(self, shape):
        """The next array, and the place behind it."""
        size, (chunk, start) = math.prod(shape), self.place
        taken = -(-size * self.dtype.itemsize // ALIGN) * ALIGN // self.dtype.itemsize
        while chunk < len(self.chunks) and start + taken > self.chunks[chunk].size:
            chunk, start = chunk + 1, 0
        if chunk == len(self.chunks):
            self.chunks.append(np.empty(max(taken, CHUNK // self.dtype.itemsize), self.dtype))
        array = self.chunks[chunk][start : start + size].reshape(shape)
        return array, (chunk, start + taken)


class _Scratch:
    def __init__(self, arena):
        self.arena, self.places = arena, []

    def __enter__(self):
        self.places.append(self.arena.place)

    def __exit__(self, *error):
        self.arena.place = self.places.pop()
