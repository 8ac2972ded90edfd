"""Folders: published whole or not at all, and cleaned of what killed processes left."""

import contextlib
import errno
import os
import re
import shutil
from pathlib import Path

from npdl.cli.process import has_ended
from npdl.errors import CheckpointError, InputError
from npdl.files import reason, sync, unwritable

TEMPORARY = re.compile(r"\..+\.([1-9][0-9]*)\.tmp")


@contextlib.contextmanager
def new_folder(path, replace=False):
    """Yield a folder to fill, which becomes `path` when the block ends, whole: one rename.

    After an error, a kill or lost power nothing new is there, and the same call can be made again.
    With `replace`, a folder that is there stays until the new one is whole; between the two
    renames neither is: if the process is killed there, make it again. Raises InputError unless
    `path` is new or an empty folder or may be replaced, CheckpointError when the system refuses.
    """
    path = Path(os.path.realpath(path))
    temporary, old = (path.with_name(f".{path.name}.{what}{os.getpid()}.tmp")
                      for what in ("", "old."))
    taken = InputError(f"--out {path}: is not an empty folder; choose one that is, or a new name")
    try:
        if os.path.lexists(path) and (not path.is_dir() or (os.listdir(path) and not replace)):
            raise taken
        if path == Path.cwd():                          # it would be gone for the shell
            raise InputError(f"--out {path}: is the folder that you are in; name another one")
        path.parent.mkdir(parents=True, exist_ok=True)
        for left in (*_left_behind(path.parent, path.name), temporary, old):
            shutil.rmtree(left, ignore_errors=True)     # of a killed process, maybe of this number
        temporary.mkdir()
    except OSError as error:
        raise InputError(f"--out {path}: cannot be made ({reason(error)}); choose a folder that "
                         "you may write to") from error
    try:
        yield temporary
        for folder, _, names in os.walk(temporary, topdown=False):
            for name in names:
                sync(Path(folder, name))
            sync(Path(folder))
        if path.exists():
            os.rename(path, old) if os.listdir(path) else path.rmdir()
        os.rename(temporary, path)
        sync(path.parent)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise taken from error                      # another process was quicker
        raise unwritable(path, error) from error
    except CheckpointError as error:                    # of a file that will have another name
        raise CheckpointError(str(error).replace(str(temporary), str(path))) from error
    finally:
        if old.exists() and not path.exists():
            os.rename(old, path)
        for left in (temporary, old):
            shutil.rmtree(left, ignore_errors=True)


def _left_behind(folder, name=None):
    """Yield the temporaries in a folder whose processes have ended; only of `name`, if given."""
    for found in sorted(os.listdir(folder)):
        match = TEMPORARY.fullmatch(found)
        if (match and (name is None or found.startswith(f".{name}."))
                and has_ended(int(match[1]))):
            yield Path(folder, found)


def clean_stale(folder):
    """Remove the temporaries that processes no longer alive left in `folder`; return their names.

    Only this machine's processes are known, so call it only where no other machine is writing.
    A folder that does not exist yet has none.
    """
    removed = []
    try:
        for path in _left_behind(folder):
            if path.is_file():
                path.unlink(missing_ok=True)
                removed.append(path.name)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise CheckpointError(
            f"{folder}: cannot be cleaned ({reason(error)}); check the folder's permissions"
        ) from error
    return removed
