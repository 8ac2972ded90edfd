"""Processes of this machine: which of them live, where their numbers mean the same, how much memory
this one has taken, and limits for one that runs what a stranger wrote."""

import contextlib
import ctypes
import os
import sys
from pathlib import Path

try:
    import resource
except ImportError:         # Windows
    resource = None

DIE_WITH_PARENT = 1         # Linux's prctl(PR_SET_PDEATHSIG)


def born(pid):
    """When a process began, in the kernel's ticks; 0 if it has ended; None if nothing tells.

    One that has ended and waits for its parent to ask how, a zombie, has ended.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return 0 if fields[0] in "ZX" else int(fields[19])
    except (FileNotFoundError, ProcessLookupError):
        return 0 if os.path.exists("/proc/self/stat") else _asked(pid)
    except (OSError, ValueError, IndexError):
        return None


def _asked(pid):
    """0 when a process has ended, else None, where there is no /proc to look into."""
    if os.name != "posix":              # there, "signal 0" would end the process
        return None
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return 0
    except OSError:
        pass
    return None


def place():
    """Where process numbers mean the same: this boot of this machine, this container."""
    found = []
    with contextlib.suppress(OSError):
        found.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        found.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(found)


def peak_memory():
    """The most memory, in bytes, that this process has held at once; None where nothing tells.

    Linux says it of this process alone; elsewhere `resource` counts what it was started from too.
    """
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
    unit = 1 if sys.platform == "darwin" else 1024
    return resource and resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def confine(parent, for_good=True, **limits):
    """End when the process `parent` does, and take limits, AS=bytes, CPU=seconds, as far as the
    system has such; `for_good`, so that they can't be raised again. It is for a process that runs
    what a stranger wrote, before it does."""
    if sys.platform == "linux":
        import signal  # a browser has none, and reads files too

        ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:                              # it has ended before that call
        os._exit(1)
    for name, most in limits.items():
        with contextlib.suppress(AttributeError, ValueError, OSError):      # macOS, Windows
            which = getattr(resource, f"RLIMIT_{name}")
            hard = resource.getrlimit(which)[1]
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(which, (most, most if for_good else hard))


def memory():
    """Bytes of memory that this machine has, or None where it does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
