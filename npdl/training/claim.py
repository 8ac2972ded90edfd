"""Who works in a run folder: a claim that one process holds at a time, and that ends with it.

A claim is the file claim.json, made exclusively and touched every few seconds. On the machine of
its process it ends with the process, however long that may be stopped or busy; seen from another
machine, it ends after a minute without a sign of life. A process that comes back after its claim
went to another one finds that out before it writes. Every training holds one, a script's as a
sweep's; both files are gone when it ends.
"""

import contextlib
import errno
import json
import os
import socket
import time
import uuid
from pathlib import Path

from npdl.errors import CheckpointError, InputError, NpdlError
from npdl.files import is_file, parse_json, reason
from npdl.process import born, place
from npdl.training.meanwhile import meanwhile

try:
    import fcntl
except ImportError:                     # Windows: there O_EXCL alone decides
    fcntl = None

HEARTBEAT, EXPIRY = 5.0, 60.0           # seconds between signs of life; without one a claim lapses
PATIENCE = 10.0                         # seconds to wait for another process's look at a claim
CLAIM, LOCK = "claim.json", "claim.lock"
LARGEST = 1 << 16                       # bytes of a claim that are read
# What a file system without links says; half of a claim may stay there, and lapses with its age.
LINKLESS = (errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)


class TakenOver(NpdlError):
    """The run that this process worked on is another one's by now."""


class Claim:
    """This process's claim on a folder."""

    def __init__(self, folder):
        self.path = Path(folder) / CLAIM
        self.text = json.dumps({"host": socket.gethostname(), "place": place(),
                                "pid": os.getpid(), "born": born(os.getpid()),
                                "token": uuid.uuid4().hex})

    def holds(self):
        """Whether the claim in the folder is this one."""
        try:
            return _content(self.path) == self.text.encode()
        except FileNotFoundError:
            return not self.path.parent.exists()        # then the next write says so
        except OSError:
            return True                                 # nothing says that it is lost

    def check(self):
        """Raise TakenOver unless the claim in the folder is this one."""
        if not self.holds():
            raise TakenOver(f"{self.path.parent}: another process took this run over while this "
                            "one was silent; nothing more is written here, it goes on there")


@contextlib.contextmanager
def claim(folder):
    """Yield a Claim if this process may work in `folder`, None if another one does.

    Raises CheckpointError when the claim cannot be written.
    """
    mine = Claim(folder)
    if not _take(mine):
        yield None
        return

    def beat():
        with contextlib.suppress(OSError):
            if mine.holds():
                os.utime(mine.path)

    try:
        with meanwhile(beat, HEARTBEAT):
            yield mine
    finally:
        with contextlib.suppress(OSError), _alone(mine.path.parent) as now:
            if now is not None and mine.holds():
                mine.path.unlink(missing_ok=True)
                (mine.path.parent / LOCK).unlink(missing_ok=True)


@contextlib.contextmanager
def claimed(folder):
    """As `claim`, where another process's is an InputError."""
    with claim(folder) as mine:
        if mine is None:
            raise InputError(f"{folder}: {_owner(folder)} works here; wait for its end (if it is "
                             f"dead, for {EXPIRY:.0f} s at most), or choose another folder")
        yield mine


def is_claimed(folder):
    """Whether a claim, living or dead, is in a folder."""
    return os.path.lexists(Path(folder) / CLAIM)


def _owner(folder):
    """The process that holds a folder's claim, in words."""
    try:
        owner = parse_json(_content(Path(folder) / CLAIM))
        return f"process {int(owner['pid'])} on {str(owner['host'])[:40]!r}"
    except (OSError, ValueError, LookupError, TypeError):
        return "another process"


def _content(path):
    """The bytes of a claim's file; OSError for something else, such as a pipe to wait for."""
    if not is_file(path, or_nothing=True):
        raise OSError(f"{path.name} is not a file")
    with open(path, "rb") as file:
        return file.read(LARGEST)


def _take(mine):
    """Put a claim into its folder unless a living one is there; whether that was done."""
    try:
        with _alone(mine.path.parent) as now:
            if now is None:
                return False
            if _has_lapsed(mine.path, now):
                mine.path.unlink(missing_ok=True)
            _make(mine)
        return True
    except FileExistsError:
        return False
    except OSError as error:
        raise CheckpointError(f"{mine.path}: cannot be written ({reason(error)}); free space or "
                              "choose another folder") from error


def _make(mine):
    """Put a claim where none is, whole or not at all; FileExistsError where one is."""
    temporary = mine.path.with_name(f".{CLAIM}.{os.getpid()}.tmp")
    try:
        _write(temporary, "wb", mine.text)
        try:
            os.link(temporary, mine.path)
        except OSError as error:
            if error.errno not in LINKLESS:
                raise
            _write(mine.path, "xb", mine.text)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def _write(path, mode, text):
    with open(path, mode) as file:
        file.write(text.encode())


@contextlib.contextmanager
def _alone(folder):
    """While no other process is in this block for `folder`, yield the time by the folder's clock.

    None if another one does not leave it. Two processes that both find a dead one's claim would
    otherwise each remove what the other has just put there. (And another machine's clock may be
    wrong: only times of one file system are compared.)
    """
    path = Path(folder) / LOCK
    while True:
        if not is_file(path, or_nothing=True):
            raise OSError(f"{LOCK} is not a file")
        with open(path, "ab") as file:
            if not _locked(file):
                yield None
                return
            if not _is_named(file, path):       # who held it has removed it
                continue
            os.utime(file.fileno() if os.utime in os.supports_fd else path)
            yield os.fstat(file.fileno()).st_mtime
            return


def _is_named(file, path):
    """Whether an open file is still the one that `path` names."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


def _locked(file):
    """Lock a file, which its closing ends; False if another process keeps it locked."""
    end = time.monotonic() + PATIENCE
    while fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > end:
                return False
            time.sleep(0.01)
        except OSError:                 # a file system without locks: O_EXCL alone decides
            return True
    return True


def _has_lapsed(path, now):
    """Whether the claim in a file is nobody's any more."""
    try:
        age = now - path.lstat().st_mtime
        alive = _is_alive(parse_json(_content(path)))
    except FileNotFoundError:
        return False
    except (OSError, ValueError, AttributeError):       # half of a claim, or none
        alive = None
    return age > EXPIRY if alive is None else not alive


def _is_alive(owner):
    """Whether a claim's process lives; None where that cannot be known."""
    pid = owner.get("pid")
    here = owner.get("host") == socket.gethostname() and owner.get("place", place()) == place()
    if not here or type(pid) is not int or pid < 1:
        return None
    began = born(pid)
    if began == 0 or began is None or owner.get("born") is None:
        return False if began == 0 else None
    return began == owner["born"]                        # else its number is another process's now
