"""The metrics of a run: a file with one JSON object per line, to which the run appends.

Each record is written at once, and ends with a newline. So if a run is killed, only the last line
can be incomplete, and an incomplete line has no newline.
"""

import json

import numpy as np

from npdl.errors import InputError
from npdl.files import is_file, make_write_error, reason, reject_nan, write_atomically

METRICS = ("train_loss", "validation_loss", "train_accuracy", "validation_accuracy")


def append_record(path, record):
    """Append one record to the file `path`, which is created if it doesn't exist.

    Raises InputError if a value is not allowed in JSON, such as NaN. Raises CheckpointError if the
    file can't be written.
    """
    try:
        line = json.dumps(record, allow_nan=False, default=_convert_numpy_number) + "\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: record {str(record)[:80]!r} cannot be written as JSON "
                         f"({reason(error)}); use finite numbers and text") from error
    try:
        with open(path, "ab") as file:
            file.write(line.encode())
    except OSError as error:
        raise make_write_error(path, error) from error


def read_records(path):
    """Return the records of a run, without an incomplete last line.

    A record is a JSON object with an integer `step`, and numbers for some of METRICS. Raises
    InputError, which gives the number of the line, if a line isn't a record.
    """
    return [record for _, record in _read_lines_and_records(path) if record is not None]


def remove_records_after(path, step):
    """Remove the records after `step` and an incomplete last line. Return how many were removed."""
    lines = list(_read_lines_and_records(path))
    remaining = [line for line, record in lines if record is not None and record["step"] <= step]
    if len(remaining) < len(lines):
        write_atomically(path, lambda file: file.writelines(remaining))
    return len(lines) - len(remaining)


def _read_lines_and_records(path):
    """Yield (line, record) for each line; the record of an incomplete last line is None."""
    number = 0
    try:
        if not is_file(path):
            raise OSError("it is not a file")
        with open(path, "rb") as file:
            for number, line in enumerate(file, 1):     # noqa: B007  (the except clause reads it)
                yield line, _parse_record(line) if line.endswith(b"\n") else None
    except OSError as error:
        raise InputError(f"{path}: metrics cannot be read ({reason(error)}); give the path of a "
                         "metrics file") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: line {number} is not a record ({reason(error)}); correct or "
                         "remove it") from error


def _parse_record(line):
    """Return the record on a line. Raise ValueError if it is invalid."""
    record = json.loads(line, parse_constant=reject_nan)
    if not isinstance(record, dict) or type(record.get("step")) is not int or record["step"] < 0:
        raise ValueError("it has no step; a step is an integer, 0 or more")
    for name in METRICS:
        if type(record.get(name, 0.0)) not in (int, float, type(None)):
            raise ValueError(f"the value of {name} is not a number")
    return record


def _convert_numpy_number(value):
    """Return a NumPy number as a Python number. Raise TypeError for any other value."""
    if not isinstance(value, np.generic):
        raise TypeError(f"a {type(value).__name__} is not a number or a text")
    return value.item()
