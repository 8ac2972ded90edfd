"""Kept records: one compressed JSON file each, the same bytes for the same value."""

import gzip
import json
import math
import zlib

from npdl.files import LARGEST_JSON, is_file, parse_json, write_atomically

# what reading a damaged or foreign file, and looking into it, may raise
UNREADABLE = (OSError, EOFError, zlib.error, ValueError, LookupError, TypeError, AttributeError)


def write_record(path, value):
    data = gzip.compress(json.dumps(value, separators=(",", ":")).encode(), 9, mtime=0)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, lambda file: file.write(data))


def read_record(path):
    """The value in a file; raises one of UNREADABLE where there is none."""
    if not is_file(path):
        raise ValueError("it is not a file")
    with gzip.open(path) as file:
        return parse_json(file.read(LARGEST_JSON))


def short(value):
    """A number to five digits; None for one that JSON cannot hold."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.5g}") if math.isfinite(value) else None
