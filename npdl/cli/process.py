"""Inspect processes, cores and memory, and limit processes that run untrusted code."""

import contextlib
import ctypes
import os
import sys
from pathlib import Path

try:
    import resource
except ImportError:         # Windows
    resource = None

DIE_WITH_PARENT = 1      # PR_SET_PDEATHSIG of Linux's prctl


def has_ended(pid):
    """Return True if a process has ended or is a zombie. Outside of Linux, return False."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return os.path.exists("/proc/self/stat")


def count_usable_cores():
    """Return the number of processor cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def peak_memory_bytes():
    """Return the peak memory of this process in bytes, or None if it is unknown.

    On systems other than Linux, the result can include the memory of the parent process.
    """
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
    unit = 1 if sys.platform == "darwin" else 1024
    return resource and resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def limit_this_process(parent_pid, **limits):
    """Limit the memory or time of this process, and let it end when its parent process ends.

    The names of `limits` are those of the system's RLIMIT constants: AS=bytes, CPU=seconds.
    `parent_pid` is the parent's process id. Only Linux ends a process together with its parent. The
    limits can't be raised again. A limit that the system doesn't have is ignored. Call this before
    the process runs untrusted code.
    """
    if sys.platform == "linux":
        import signal  # not in a browser, which imports this module, too

        ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)
        if os.getppid() != parent_pid:                          # the parent ended before that call
            os._exit(1)
    for name, most in limits.items():
        with contextlib.suppress(AttributeError, ValueError, OSError):      # macOS, Windows
            which = getattr(resource, f"RLIMIT_{name}")
            hard = resource.getrlimit(which)[1]
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(which, (most, most))


def total_memory_bytes():
    """Return the size of this machine's memory in bytes, or None if it is unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
