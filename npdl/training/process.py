"""Processes of this machine: which of them live, and where their numbers mean the same."""

import contextlib
import os
from pathlib import Path


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
