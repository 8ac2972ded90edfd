"""Checkpoints: one file of named arrays and a JSON object, written and read as a whole.

The file is an `.npz` archive without pickles, so `numpy.load` opens it too. It also holds a member
`meta.json`. The archive's comment, its last 64 bytes, is the SHA-256 of all bytes before it, so a
damaged file is detected before anything of it is used.
"""

import hashlib
import json
import os
import zipfile

import numpy as np

from npdl.errors import CheckpointError, InputError
from npdl.files import is_file, parse_json, reason, write_atomically
from npdl.training_errors import check_state_dict

META = "meta.json"
DIGEST_BYTES = 64                         # SHA-256 in hexadecimal
ADVICE = "use an earlier checkpoint or a copy of this one"


def save(path, arrays, meta):
    """Write `arrays` ({name: array}) and `meta` (a dict) to `path`, atomically.

    Raises CheckpointError for NaN or infinity, so that a diverged run doesn't replace a good
    checkpoint, and if the system can't write the file.
    """
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise CheckpointError(f"{path}: not written, array {name!r} holds NaN or infinity; "
                                  "resume from the last checkpoint with a smaller learning rate")

    def write(file):
        np.savez(file, **{name: arrays[name] for name in sorted(arrays)})
        with zipfile.ZipFile(file, "a") as archive:
            archive.writestr(zipfile.ZipInfo(META), json.dumps(meta, sort_keys=True))
            archive.comment = b"0" * DIGEST_BYTES       # the digest depends on its length
        end = file.seek(0, os.SEEK_END) - DIGEST_BYTES
        digest = _digest(file, end)
        file.seek(end)
        file.write(digest)

    write_atomically(path, write)


def load(path):
    """Read a checkpoint; return (arrays, meta).

    Raises CheckpointError for a file that `save` did not write or that was damaged since.
    """
    try:
        if not is_file(path):
            raise ValueError("it is not a file")
        with open(path, "rb") as file:
            end = file.seek(0, os.SEEK_END) - DIGEST_BYTES
            file.seek(max(end, 0))
            if file.read() != _digest(file, end):
                raise ValueError("it is damaged or not a checkpoint: its SHA-256 does not match")
            file.seek(0)
            with np.load(file, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files if name != META}
                meta = parse_json(archive[META])
        if not isinstance(meta, dict):
            raise ValueError(f"its {META} is not a JSON object")
        return arrays, meta
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise CheckpointError(f"{path}: cannot be read ({reason(error)}); {ADVICE}") from error


def check_fits(path, arrays, expected):
    """Raise CheckpointError unless `arrays` has the names, shapes and dtypes of `expected`."""
    try:
        check_state_dict(expected, arrays, "array")
    except InputError as error:
        raise CheckpointError(f"{path}: does not fit this model: {error}; build the model with the "
                              "options that the checkpoint was saved with") from error


def _digest(file, end):
    """Return the SHA-256 of the first `end` bytes of an open file, in hexadecimal."""
    file.seek(0)
    sha256 = hashlib.sha256()
    while end > 0 and (chunk := file.read(min(1 << 20, end))):
        sha256.update(chunk)
        end -= len(chunk)
    return sha256.hexdigest().encode()
