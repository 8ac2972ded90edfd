"""Freed memory that stays at hand.

A training step allocates and frees the same megabytes over and over. By default the C library
of Linux (glibc) gives large blocks back to the kernel at once and, for each new one, takes a
page fault for every 4 KiB: a quarter of a step's time. PyTorch's and NumPy's arrays are alike in
this. `keep_freed_memory` asks glibc to keep what was freed for the next array.
"""

import ctypes
import platform

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3      # <malloc.h>
MEBIBYTE = 1 << 20


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
