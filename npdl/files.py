"""Files and folders: published whole or not at all, and read with distrust."""

import contextlib
import errno
import json
import math
import os
import re
import shutil
import stat
from pathlib import Path

from npdl.errors import CheckpointError, InputError
from npdl.process import has_ended

LARGEST_JSON = 64 << 20         # bytes; the characters of a text are the largest part of any
LARGEST_NUMBER = 1 << 63
TEMPORARY = re.compile(r"\..+\.([1-9][0-9]*)\.tmp")


def write_atomically(path, write):
    """Let `write(file)` fill a temporary file beside `path`, then put it in the place of `path`.

    A reader sees the old file or the new one, never a part, and so does a machine that lost its
    power. After a failure no temporary is left; OSError becomes CheckpointError. A link is
    followed; where something else than a file is, say a device, a rename would take its name away,
    so it is refused.
    """
    path = Path(path)
    if not path.name:
        raise InputError(f"{str(path)!r} is a folder; give the path of a file in it")
    try:
        if not is_file(path, or_nothing=True):
            raise CheckpointError(f"{path}: cannot be written (it is there and is not a file); "
                                  "give the path of a file, or a new one")
        path = Path(os.path.realpath(path))
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    except OSError as error:
        raise _unwritable(path, error) from error
    try:
        with open(temporary, "w+b") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync(path.parent)
    except OSError as error:
        raise _unwritable(path, error) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def _unwritable(path, error):
    return CheckpointError(f"{path}: cannot be written ({reason(error)}); free space or choose "
                           "another folder")


def is_file(path, or_nothing=False):
    """Whether an ordinary file is there (or nothing). Whoever opens a named pipe waits for ever,
    so this is asked before. OSError when it cannot be seen."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return or_nothing


def read_json(path):
    """What a file of JSON holds. Raises OSError, or ValueError for anything that write_json would
    not have written: see parse_json."""
    if not is_file(path, or_nothing=True):
        raise ValueError("it is not a file")
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size > LARGEST_JSON:
            raise ValueError(f"it has more than {LARGEST_JSON >> 20} MiB")
        return parse_json(file.read())


def parse_json(content):
    """The value of a text in JSON. ValueError for what is none, for numbers that Python's floats
    and NumPy's integers cannot hold, and for what is nested too deeply."""
    try:
        return _decode(content if isinstance(content, str) else content.decode())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def refuse_constant(constant):
    """The NaN and Infinity of json: ValueError."""
    raise ValueError(f"{constant} is not JSON")


def _integer(text):
    if len(text) > 20 or abs(int(text)) >= LARGEST_NUMBER:
        raise ValueError(f"the number {text[:20]}... is too large")
    return int(text)


def _float(text):
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:20]} is too large")
    return value


_decode = json.JSONDecoder(parse_int=_integer, parse_float=_float,
                           parse_constant=refuse_constant).decode


def write_json(path, value):
    """Write a value as JSON, whole or not at all."""
    text = json.dumps(value, indent=1) + "\n"
    write_atomically(path, lambda file: file.write(text.encode()))


@contextlib.contextmanager
def new_folder(path, replace=False):
    """Yield a folder to fill, which becomes `path` when the block ends, whole: one rename.

    After an error, a kill or lost power nothing new is there, and the same call can be made again.
    With `replace`, a folder that is there stays until the new one is whole; between the two
    renames neither is, and whoever is killed there has to make it again. Raises InputError unless
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
                _sync(Path(folder, name))
            _sync(Path(folder))
        if path.exists():
            os.rename(path, old) if os.listdir(path) else path.rmdir()
        os.rename(temporary, path)
        _sync(path.parent)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise taken from error                      # another process was quicker
        raise _unwritable(path, error) from error
    except CheckpointError as error:                    # of a file that will have another name
        raise CheckpointError(str(error).replace(str(temporary), str(path))) from error
    finally:
        if old.exists() and not path.exists():
            os.rename(old, path)
        for left in (temporary, old):
            shutil.rmtree(left, ignore_errors=True)


def _left_behind(folder, name=None):
    """The temporaries in a folder whose processes no longer live; of one name, if that is given."""
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


def reason(error):
    """What went wrong, on one line."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(text.split())[:200]


def _sync(path):
    """Wait until a file or a folder is on the disk."""
    if os.name != "posix":                # elsewhere a folder cannot be opened
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
