"""Metrics of a run: one JSON object a line, appended as the run goes.

A record is one write that ends with its newline, so a run that was killed leaves at most one
torn line, the last, and it is the one without a newline. Anything else that does not parse is
damage, and is refused.

Source: the JSON Lines convention.
"""

import json
import os

import numpy as np

from npdl.errors import CheckpointError, InputError
from npdl.files import is_file, reason, refuse_constant, write_atomically

LARGEST = 1e300             # no loss and no step is as large, so that sums of some stay finite
METRICS = ("train_loss", "validation_loss", "train_accuracy", "validation_accuracy")


class MetricsWriter:
    """Append records to the file `path`, which is made if it is not there.

    Raises InputError when the file cannot be opened, or ends with a torn line that a new record
    would be joined to (`truncate_after` removes it).
    """

    def __init__(self, path):
        self.path = path
        try:
            self._file = open(path, "ab+")
            size = self._file.seek(0, os.SEEK_END)
            self._file.seek(max(size - 1, 0))
            torn = self._file.read(1) not in (b"", b"\n")
        except OSError as error:
            raise InputError(
                f"{path}: metrics cannot be opened ({reason(error)}); choose a writable folder"
            ) from error
        if torn:
            self._file.close()
            raise InputError(f"{path}: the last line is torn; call truncate_after before appending")

    def write(self, record):
        """Append one record; it is in the system's hands when the call returns.

        Raises InputError for what JSON cannot hold, NaN and infinity included; CheckpointError
        when the system refuses the write.
        """
        try:
            line = json.dumps(record, allow_nan=False, default=_to_python) + "\n"
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(
                f"{self.path}: record {str(record)[:80]!r} cannot be written as JSON "
                f"({reason(error)}); use finite numbers, text, bools, None, lists and dicts"
            ) from error
        try:
            self._file.write(line.encode())
            self._file.flush()
        except OSError as error:
            raise CheckpointError(
                f"{self.path}: metrics cannot be written ({reason(error)}); free space and resume"
            ) from error

    def close(self):
        """Close the file; a second call does nothing."""
        try:
            self._file.close()
        except OSError as error:
            raise CheckpointError(
                f"{self.path}: metrics cannot be written ({reason(error)}); free space and resume"
            ) from error

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def read_metrics(path):
    """`(records, torn)`: every whole record, and whether a torn last line was left out.

    Raises InputError, with the line's number, for a whole line that is not a JSON object.
    """
    records = []
    for _, record in _lines(path):
        if record is None:
            return records, True
        records.append(record)
    return records, False


def read_records(path):
    """The records of a run, without a torn last line: each has a step, and numbers if anything
    for what is METRICS. Raises InputError, with the line's number, for what is none."""
    records, _ = read_metrics(path)
    for number, record in enumerate(records, 1):
        step = record.get("step")
        if type(step) is not int or not 0 <= step < LARGEST:
            raise InputError(f"{path}: line {number} has no 'step' that is an integer, 0 or more; "
                             "repair or remove it")
        for name in METRICS:
            value = record.get(name, 0.0)
            if value is not None and not (type(value) in (float, int) and abs(value) < LARGEST):
                raise InputError(f"{path}: line {number} has {str(value)[:40]!r} for {name!r}, "
                                 "which is a number; repair or remove it")
    return records


def truncate_after(path, step):
    """Keep the records with `record["step"] <= step`; return how many lines went.

    A torn last line goes too and is counted. The file is replaced atomically, and not touched
    when nothing has to go. Raises InputError as `read_metrics` does, and for a record without an
    integer step.
    """
    kept, dropped = [], 0
    for number, (line, record) in enumerate(_lines(path), 1):
        if record is not None and type(record.get("step")) is not int:
            raise InputError(f"{path}: line {number} has no integer 'step'; repair or remove it")
        if record is not None and record["step"] <= step:
            kept.append(line)
        else:
            dropped += 1
    if dropped:
        write_atomically(path, lambda file: file.writelines(kept))
    return dropped


def _lines(path):
    """Each line with its record; a torn last line has None."""
    decode = json.JSONDecoder(parse_constant=refuse_constant).decode
    number = 0
    try:
        if not is_file(path, or_nothing=True):
            raise OSError("it is not a file")
        with open(path, "rb") as file:
            for number, line in enumerate(file, 1):     # noqa: B007  (the last lines read it)
                if not line.endswith(b"\n"):
                    yield line, None
                    return
                record = decode(line.decode())      # quicker than parse_json, for a million
                if type(record) is not dict:
                    raise ValueError("it is not a JSON object")
                yield line, record
    except OSError as error:
        raise InputError(
            f"{path}: metrics cannot be read ({reason(error)}); give the path of a metrics file"
        ) from error
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path}: line {number} is broken ({reason(error)}); repair or remove it"
        ) from error


def _to_python(value):
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is not JSON")
