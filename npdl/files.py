"""Files: published whole or not at all, and read with distrust."""

import contextlib
import json
import math
import os
import stat
from pathlib import Path

from npdl.errors import CheckpointError, InputError
from npdl.exceptions import remedy

LARGEST_JSON = 64 << 20         # bytes; the characters of a text are the largest part of any
LARGEST_NUMBER = 1 << 63


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
        raise unwritable(path, error) from error
    try:
        with open(temporary, "w+b") as file:
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
    """The value of a text in JSON. ValueError for what is none, for a name that stands twice,
    for numbers that Python's floats and NumPy's integers cannot hold, and for what is nested too
    deeply."""
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


def _once(pairs):
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice[:40]!r} stands twice in an object")
    return found


_decode = json.JSONDecoder(parse_int=_integer, parse_float=_float, object_pairs_hook=_once,
                           parse_constant=refuse_constant).decode


def write_json(path, value):
    """Write a value as JSON, whole or not at all."""
    text = json.dumps(value, indent=1) + "\n"
    write_atomically(path, lambda file: file.write(text.encode()))


def reason(error):
    """What went wrong, on one line."""
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
