"""A seccomp filter for a process that runs untrusted code (Linux on x86_64 and aarch64).

A sealed process can compute, and read and write the files that it has open. It can't open files,
use the network, or start or signal processes.
"""

import ctypes
import errno
import os
import platform
import struct
import subprocess
import sys

NO_NEW_PRIVILEGES, FILTER = 38, 1
# {machine: (its number in seccomp, the number of the call seccomp, the numbers of read, write,
# mmap, mprotect, munmap, brk, mremap, futex, rt_sigreturn, clock_gettime, getrandom, exit_group)}
MACHINES = {
    ("linux", "x86_64"): (0xC000003E, 317, (0, 1, 9, 10, 11, 12, 25, 202, 15, 228, 318, 231)),
    ("linux", "aarch64"): (0xC00000B7, 277, (63, 64, 222, 226, 215, 214, 216, 98, 139, 113, 278,
                                             94)),
}
LOAD, IF_EQUAL, RETURN = 0x20, 0x15, 0x06           # instructions of the filter's language
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def seal():
    """Refuse all system calls but those of MACHINES, for good. Raises OSError if that fails."""
    number, seccomp, calls = MACHINES[sys.platform, platform.machine()]
    steps = [(LOAD, 0, 0, 4), (IF_EQUAL, 0, len(calls) + 1, number), (LOAD, 0, 0, 0)]
    steps += [(IF_EQUAL, len(calls) - i, 0, call) for i, call in enumerate(calls)]
    steps += [(RETURN, 0, 0, REFUSE), (RETURN, 0, 0, ALLOW)]
    program = _Program(len(steps), b"".join(struct.pack("HBBI", *step) for step in steps))
    libc = ctypes.CDLL(None, use_errno=True)
    if (libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
            or libc.syscall(seccomp, FILTER, 1, ctypes.byref(program))):
        raise OSError(ctypes.get_errno(), "seccomp is not available")


def can_seal():
    """Return True if `seal` works on this system; a process of its own tries it."""
    if (sys.platform, platform.machine()) not in MACHINES:
        return False
    done = subprocess.run([sys.executable, os.path.abspath(__file__)], stderr=subprocess.DEVNULL)
    return done.returncode == 0


if __name__ == "__main__":
    seal()
    os._exit(0)
