"""Who works in a run folder: a claim that one process holds at a time, and that ends with it.

A claim is the file claim.json, made exclusively and touched every few seconds. On the machine of
its process it ends with the process, however long that may be stopped or busy; seen from another
machine, it ends after a minute without a sign of life. A process that comes back after its claim
went to another one finds that out before it writes.
"""

import contextlib
import json
import os
import socket
import time
import uuid
from pathlib import Path

from npdl.errors import CheckpointError, NpdlError
from npdl.training.files import reason
from npdl.training.meanwhile import meanwhile

try:
    import fcntl
except ImportError:                     # Windows: there O_EXCL alone decides
    fcntl = None

HEARTBEAT, EXPIRY = 5.0, 60.0           # seconds between signs of life; without one a claim lapses
PATIENCE = 10.0                         # seconds to wait for another launcher's look at a claim


class TakenOver(NpdlError):
    """The run that this process worked on is another one's by now."""


class Claim:
    """This process's claim on a folder."""

    def __init__(self, folder):
        self.path = Path(folder) / "claim.json"
        self.text = json.dumps({"host": socket.gethostname(), "place": _place(),
                                "pid": os.getpid(), "born": _born(os.getpid()),
                                "token": uuid.uuid4().hex})

    def holds(self):
        """Whether the claim in the folder is this one."""
        try:
            return self.path.read_text() == self.text
        except FileNotFoundError:
            return not self.path.parent.exists()        # then the next write says so
        except OSError:
            return True                                 # nothing says that it is lost

    def check(self):
        """Raise TakenOver unless the claim in the folder is this one."""
        if not self.holds():
            raise TakenOver(f"{self.path.parent}: another launcher took this run over while this "
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
    """Write a claim where none is: all of it, or nothing."""
    file = open(mine.path, "x")
    try:
        with file:
            file.write(mine.text)
    except OSError:
        mine.path.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def _alone(folder):
    """While no other launcher is in this block for `folder`, yield the time by the folder's clock.

    None if another one does not leave it. Two launchers that both find a dead one's claim would
    otherwise each remove what the other has just put there. (And another machine's clock may be
    wrong: only times of one file system are compared.)
    """
    path = Path(folder) / "claim.lock"
    with open(path, "ab") as file:
        if not _locked(file):
            yield None
            return
        os.utime(path)
        yield path.stat().st_mtime


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
        age = now - path.stat().st_mtime
        alive = _is_alive(json.loads(path.read_text()))
    except FileNotFoundError:
        return False
    except (OSError, ValueError, AttributeError):       # half of a claim, or none
        alive = None
    return age > EXPIRY if alive is None else not alive


def _is_alive(owner):
    """Whether a claim's process lives; None where that cannot be known."""
    pid = owner.get("pid")
    here = owner.get("host") == socket.gethostname() and owner.get("place", _place()) == _place()
    if not here or type(pid) is not int or pid < 1:
        return None
    born = _born(pid)
    if born == 0 or born is None or owner.get("born") is None:
        return False if born == 0 else None
    return born == owner["born"]                        # else its number is another process's now


def _born(pid):
    """When a process began, in the kernel's ticks; 0 if it has ended; None if nothing tells."""
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


def _place():
    """Where process numbers mean the same: this boot of this machine, this container."""
    found = []
    with contextlib.suppress(OSError):
        found.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        found.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(found)
