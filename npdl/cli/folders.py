"""Folders that are created atomically, and the removal of files that killed processes left."""

import contextlib
import errno
import os
import re
import shutil
from pathlib import Path

from npdl.cli.process import has_ended
from npdl.errors import CheckpointError, InputError
from npdl.files import make_write_error, reason, sync_to_disk

TEMPORARY = re.compile(r"\..+\.([1-9][0-9]*)\.tmp")


@contextlib.contextmanager
def create_folder_atomically(path):
    """Yield a temporary folder, which is renamed to `path` when the block ends.

    After an error, a kill or a power failure, `path` is as before, and the same call works again.
    Raises InputError if `path` exists and is not an empty folder, and CheckpointError if the system
    can't create the folder.
    """
    path = Path(os.path.realpath(path))
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    not_empty = InputError(f"--out {path} is not an empty folder; choose an empty or a new one")
    try:
        if os.path.lexists(path) and (not path.is_dir() or os.listdir(path)):
            raise not_empty
        if path == Path.cwd():                          # the shell's current folder would vanish
            raise InputError(f"--out {path} is the folder that you are in; name another one")
        path.parent.mkdir(parents=True, exist_ok=True)
        for stale in (*_find_stale_files(path.parent, path.name), temporary):
            shutil.rmtree(stale, ignore_errors=True)    # left by killed processes
        temporary.mkdir()
    except OSError as error:
        raise InputError(f"--out {path} cannot be created ({reason(error)}); choose a folder that "
                         "you may write to") from error
    try:
        yield temporary
        for folder, _, names in os.walk(temporary, topdown=False):
            for name in names:
                sync_to_disk(Path(folder, name))
            sync_to_disk(Path(folder))
        if path.exists():
            path.rmdir()
        os.rename(temporary, path)
        sync_to_disk(path.parent)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise not_empty from error                  # another process was quicker
        raise make_write_error(path, error) from error
    except CheckpointError as error:                    # use the final name in the message
        raise CheckpointError(str(error).replace(str(temporary), str(path))) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _find_stale_files(folder, final_name=None):
    """Yield the temporary files of ended processes in `folder`, or only those for `final_name`."""
    for entry in sorted(os.listdir(folder)):
        match = TEMPORARY.fullmatch(entry)
        if (match and (final_name is None or entry.startswith(f".{final_name}."))
                and has_ended(int(match[1]))):
            yield Path(folder, entry)


def remove_stale_files(folder):
    """Remove the temporary files in `folder` whose process has ended, and return their names.

    Don't call this while another machine writes into the folder: its processes seem to have ended.
    """
    removed = [path for path in _find_stale_files(folder) if path.is_file()]
    for path in removed:
        path.unlink()
    return [path.name for path in removed]
