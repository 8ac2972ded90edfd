"""Write files atomically, and read JSON from untrusted files."""

import contextlib
import json
import os
import stat
from pathlib import Path

from npdl.errors import CheckpointError, InputError
from npdl.exceptions import suggest_remedy

LARGEST_JSON = 64 << 20         # bytes; the largest files are vocabularies
LARGEST_NUMBER = 1 << 63        # NumPy's integers are smaller than this


def write_atomically(path, write):
    """Call `write(file)` with a temporary file next to `path`, then rename the file to `path`.

    So other programs read the old file or the whole new file, also after a power failure. The
    temporary file is deleted after an error. Symbolic links are followed. Raises CheckpointError if
    the file can't be written, or if `path` is, for example, a device, which the rename would
    replace by a file.
    """
    path = Path(path)
    if not path.name:
        raise InputError(f"{str(path)!r} is a folder; give the path of a file in it")
    try:
        if not is_file(path, or_missing=True):
            raise CheckpointError(f"{path} cannot be written (it exists and is not a file); "
                                  "give the path of a file, or a new one")
        path = Path(os.path.realpath(path))
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            temporary.unlink(missing_ok=True)       # left by a killed process with the same id
            with open(temporary, "x+b") as file:    # x: don't follow an existing link
                write(file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
            sync_to_disk(path.parent)
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink()
    except OSError as error:
        raise make_write_error(path, error) from error


def make_write_error(path, error):
    """Return the CheckpointError for an OSError while `path` was written."""
    return CheckpointError(f"{path} cannot be written ({reason(error)}); {suggest_remedy(error)}")


def is_file(path, or_missing=False):
    """Return True if `path` is an ordinary file.

    With `or_missing`, also return True if `path` does not exist. Call this before you open a file,
    because opening a named pipe would wait for ever. Raises OSError if there is no permission to
    read the folder.
    """
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return or_missing


def read_bytes(path, max_bytes=LARGEST_JSON):
    """Return a file's bytes. Raise ValueError if it isn't a file or is larger than `max_bytes`."""
    if not is_file(path, or_missing=True):
        raise ValueError("it is not a file")
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size > max_bytes:
            raise ValueError(f"it has more than {max_bytes >> 20} MiB")
        return file.read()


def read_json(path):
    """Return the value in a JSON file. Raise OSError if it can't be read, ValueError if invalid."""
    return parse_json(read_bytes(path))


def parse_json(content):
    """Return the value of a JSON text. Raise ValueError if it is invalid or nested too deeply.

    NaN, Infinity and repeated names are allowed, as in Python's json, because files of other
    programs contain them. If a name is repeated, its last value counts.
    """
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def reject_nan(constant):
    """Raise ValueError. Give this to json.loads as `parse_constant` to reject NaN and Infinity."""
    raise ValueError(f"{constant} is not allowed in JSON")


def write_json(path, value):
    """Write a value as JSON, atomically."""
    text = json.dumps(value, indent=1) + "\n"
    write_atomically(path, lambda file: file.write(text.encode()))


def reason(error):
    """Return the message of an error on one line of at most 200 characters."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(text.split())[:200]


def sync_to_disk(path):
    """Wait until a file or a folder is written to the disk."""
    if os.name != "posix":                # Windows can't open a folder
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
