"""Files: written atomically, and read with limits."""

import contextlib
import json
import os
import stat
from pathlib import Path

from npdl.errors import CheckpointError, InputError
from npdl.exceptions import remedy

LARGEST_JSON = 64 << 20         # bytes; the characters of a text are the largest part of any
LARGEST_NUMBER = 1 << 63        # above it, NumPy's integers overflow


def write_atomically(path, write):
    """Let `write(file)` fill a temporary file next to `path`, then put it in the place of `path`.

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
        raise unwritable(path, error) from error
    try:
        temporary.unlink(missing_ok=True)       # of a killed process with the same number
        with open(temporary, "x+b") as file:    # x: never through a link that somebody planted
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync(path.parent)
    except OSError as error:
        raise unwritable(path, error) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def unwritable(path, error):
    return CheckpointError(f"{path}: cannot be written ({reason(error)}); {remedy(error)}")


def is_file(path, or_nothing=False):
    """Return True if `path` is an ordinary file or, with `or_nothing`, if nothing is there.

    Call this before opening: opening a named pipe waits for ever. Raises OSError if `path` cannot
    be seen.
    """
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return or_nothing


def read_json(path):
    """Return the value in a JSON file.

    Raises OSError, or ValueError if it is not a file, too large, or not JSON.
    """
    if not is_file(path, or_nothing=True):
        raise ValueError("it is not a file")
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size > LARGEST_JSON:
            raise ValueError(f"it has more than {LARGEST_JSON >> 20} MiB")
        return parse_json(file.read())


def parse_json(content):
    """Return the value of a JSON text; ValueError if it is not JSON or is nested too deeply.

    As in Python's json, NaN and Infinity are allowed, and the last of two equal names counts:
    files of other programs have them in places that npdl does not use.
    """
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def refuse_constant(constant):
    """Raise ValueError for the NaN and Infinity that Python's json accepts."""
    raise ValueError(f"{constant} is not JSON")


def write_json(path, value):
    """Write a value as JSON, whole or not at all."""
    text = json.dumps(value, indent=1) + "\n"
    write_atomically(path, lambda file: file.write(text.encode()))


def reason(error):
    """Return an error's message on one line, of at most 200 characters."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(text.split())[:200]


def sync(path):
    """Wait until a file or a folder is on the disk."""
    if os.name != "posix":                # elsewhere a folder cannot be opened
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
