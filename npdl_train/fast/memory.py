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

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4           # <malloc.h>
MEBIBYTE = 1 << 20
CHUNK = 16 * MEBIBYTE   # bytes asked for at once; what is not written to takes no memory
KNOWN = 4096            # arrays that are remembered by place and shape
ALIGN = 64              # bytes: a line of the processor's cache
ALIGN_DEVICE = 512      # as CuPy's own pool aligns


def keep_freed_memory():
    """Tell glibc to reuse freed blocks, of any size, instead of returning them.

    Acts on the whole process; memory in use is not touched. Returns whether glibc agreed: False
    on systems with another C library, where nothing happens.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    agreed = [
        mallopt(M_MMAP_MAX, 0),                         # a block of its own would be returned
        mallopt(M_TRIM_THRESHOLD, -1),                  # never
        mallopt(M_TOP_PAD, 64 * MEBIBYTE),
    ]
    return all(agreed)


def give_freed_memory_back():
    """Tell glibc to return what was freed by now; elsewhere nothing happens."""
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)


def aligned(size, dtype):
    """An array (size,) whose first number begins a line of the cache, as C's memory need not: NumPy
    adds and multiplies two arrays that do in half of the time."""
    if not is_host():
        return xp.empty(size, dtype)
    nbytes = size * np.dtype(dtype).itemsize
    memory = np.empty(nbytes + ALIGN, np.uint8)
    start = -memory.__array_interface__["data"][0] % ALIGN
    return memory[start : start + nbytes].view(dtype)


class Arena:
    """A step's arrays, one behind the other, in memory that is kept from step to step.

    `empty(*shape)` gives the next one, in `dtype`. What is handed out inside `with arena.scratch:`
    may be written over after it. `reset()` starts anew. `once` keeps views of such arrays.
    """

    def __init__(self, dtype):
        self.dtype = np.dtype(dtype)
        self.chunks = []
        self.place = (0, 0)     # the chunk, and how many numbers of it are taken
        self.known = {}         # {(place, shape): (array, the place behind it)}
        self.views = {}         # {(make, more, arrays' ids): what it made of them}
        self.mine = set()       # ids of the arrays in `known` and in `views`
        self.scratch = _Scratch(self)
        self.written = set()    # ids of the gradients that this step has added to (kernels.add)

    def reset(self):
        self.place = (0, 0)
        if len(self.known) > KNOWN:
            self.mine.clear()           # first: what is cut off here trusts no id of an old array
            self.views.clear()
            self.known.clear()

    def empty(self, *shape):
        key = self.place, shape
        if key not in self.known:
            self.known[key] = self.cut(shape)
            self.mine.add(id(self.known[key][0]))
        array, self.place = self.known[key]
        return array

    def once(self, make, arrays, *more):
        """make(*arrays, *more): views of arrays, in tuples or lists. Those of this arena's arrays
        are made once: on a device a view costs nearly as much time as a launch."""
        key = make, more, *map(id, arrays)
        found = self.views.get(key)
        if found is None:
            found, kept = make(*arrays, *more), all(id(array) in self.mine for array in arrays)
            made = list(arrays_in(found))
            if kept and all(view.base is not None for view in made):        # no copies
                self.views[key] = found
                self.mine.update(map(id, made))
        return found

    def cut(self, shape):
        """The next array, and the place behind it."""
        size, (chunk, start) = math.prod(shape), self.place
        align = ALIGN if is_host() else ALIGN_DEVICE
        taken = -(-size * self.dtype.itemsize // align) * align // self.dtype.itemsize
        while chunk < len(self.chunks) and start + taken > self.chunks[chunk].size:
            chunk, start = chunk + 1, 0
        if chunk == len(self.chunks):
            self.chunks.append(aligned(max(taken, CHUNK // self.dtype.itemsize), self.dtype))
        array = self.chunks[chunk][start : start + size].reshape(shape)
        return array, (chunk, start + taken)


def arrays_in(nest):
    """The arrays in tuples and lists."""
    for each in nest if isinstance(nest, (tuple, list)) else ():
        yield from arrays_in(each)
    if not isinstance(nest, (tuple, list)):
        yield nest


class _Scratch:
    def __init__(self, arena):
        self.arena, self.places = arena, []

    def __enter__(self):
        self.places.append(self.arena.place)

    def __exit__(self, *error):
        self.arena.place = self.places.pop()
