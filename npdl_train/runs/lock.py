"""Who works in a run folder: one process at a time, the one that has its claim.json locked.

The system frees the lock when the process ends, however it ends, and keeps it while the process is
stopped or busy. On a disk that machines share, its server does, and frees the lock of a machine
that it does not hear of any more. The file says whose the lock is; it is gone when the work ends,
and one that a killed process has left is nobody's.
"""

import contextlib
import json
import os
import socket
import stat
from pathlib import Path

from npdl.errors import CheckpointError, InputError
from npdl.files import parse_json, reason

try:
    import fcntl
except ImportError:                     # Windows
    fcntl = None
    import msvcrt

FILE = "claim.json"                     # as runs of earlier versions lock
LARGEST = 1 << 16                       # bytes of it that are read
# A link or a pipe that somebody has put there is neither written to nor waited for.
HOW = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


@contextlib.contextmanager
def lock(folder):
    """Yield whether this process may work in `folder`: no other one may until the block ends.

    Raises CheckpointError where nothing can be locked.
    """
    path = Path(folder) / FILE
    try:
        file = _opened(path)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be locked ({reason(error)}); free space, remove "
                              "what is there, or choose another folder") from error
    if file is None:
        yield False
        return
    with file:
        try:
            yield True
        finally:
            with contextlib.suppress(OSError):
                path.unlink()


@contextlib.contextmanager
def locked(folder):
    """As `lock`, where another process has it: InputError."""
    with lock(folder) as is_mine:
        if not is_mine:
            raise InputError(f"{folder}: {_owner(folder)} works here; wait for its end, or choose "
                             "another folder")
        yield


def _owner(folder):
    """The process that has a folder locked, in words."""
    try:
        with open(Path(folder) / FILE, "rb") as file:
            owner = parse_json(file.read(LARGEST))
        return f"process {int(owner['pid'])} on {str(owner['host'])[:40]!r}"
    except (OSError, ValueError, LookupError, TypeError):
        return "another process"


def _opened(path):
    """The file `path` of this process, open and locked, or None if another process has it."""
    while True:
        file = open(os.open(path, HOW, 0o666), "r+b", buffering=0)
        try:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError("it is not a file")
            if not _try_lock(file):
                file.close()
                return None
            if _is_named(file, path):           # else who held it has just removed it
                file.truncate(0)
                file.write(json.dumps({"host": socket.gethostname(), "pid": os.getpid()}).encode())
                return file
        except BaseException:
            file.close()
            raise
        file.close()


def _try_lock(file):
    """Lock an open file, until it is closed; False if another process has it locked."""
    try:
        if fcntl is None:
            file.seek(LARGEST)                  # there, what is locked cannot be read either
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
            file.seek(0)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except (BlockingIOError, PermissionError):
        return False


def _is_named(file, path):
    """Whether an open file is still the one that `path` names."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False
