"""Checkpoints: one file of named arrays and a JSON object, written and read as a whole.

The file is an `.npz` archive without pickles, so `numpy.load` opens it, too. The JSON object is its
member `meta.json`. The last 64 bytes of the file (the archive's comment) are the SHA-256 of all
bytes before them. `load` checks it first, so a damaged file is not used.
"""

import hashlib
import json
import os
import zipfile

import numpy as np

from npdl.backend import to_device, to_host
from npdl.errors import CheckpointError, InputError, check_state_dict
from npdl.files import is_file, parse_json, reason, write_atomically

META = "meta.json"
DIGEST_BYTES = 64                         # SHA-256 in hexadecimal


def save(path, arrays, meta):
    """Write `arrays` ({name: array}) and `meta` (a dict) to `path`, atomically.

    Raises CheckpointError if the system can't write the file, or if an array holds NaN or infinity.
    So a diverged run doesn't replace a good checkpoint.
    """
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise CheckpointError(f"{path} was not written, because array {name!r} holds NaN or "
                                  "infinity; start again with a smaller learning rate")

    def write_archive(file):
        np.savez(file, **{name: arrays[name] for name in sorted(arrays)})
        with zipfile.ZipFile(file, "a") as archive:
            archive.writestr(zipfile.ZipInfo(META), json.dumps(meta, sort_keys=True))
            archive.comment = b"0" * DIGEST_BYTES       # the digest depends on its length
        end = file.seek(0, os.SEEK_END) - DIGEST_BYTES
        digest = _compute_sha256(file, end)
        file.seek(end)
        file.write(digest)

    write_atomically(path, write_archive)


def load(path):
    """Read a checkpoint, and return the (arrays, meta) that `save` has written.

    Raises CheckpointError if the file was not written by `save`, or is damaged.
    """
    try:
        if not is_file(path):
            raise ValueError("it is not a file" if os.path.lexists(path) else "it is missing")
        with open(path, "rb") as file:
            end = file.seek(0, os.SEEK_END) - DIGEST_BYTES
            file.seek(max(end, 0))
            if file.read() != _compute_sha256(file, end):
                raise ValueError("it is damaged or not a checkpoint: its SHA-256 does not match")
            file.seek(0)
            with np.load(file, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files if name != META}
                meta = parse_json(archive[META])
        if not isinstance(meta, dict):
            raise ValueError(f"its {META} is not a JSON object")
        return arrays, meta
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise CheckpointError(f"{path} cannot be read ({reason(error)}); restore it from a copy, "
                              "or start a new run") from error


def collect_state(config, model, optimizer, step, seconds=0.0):
    """Return the state of a run as (arrays, meta), the arguments of `save`.

    The arrays are the parameters and, if there is an optimizer, its moments. For a real model, only
    trained parameters are saved, because the model's own files have the others.
    """
    arrays = {f"param/{name}": to_host(param.data)
              for name, param in model.params(with_frozen=config.pretrained is None)}
    moments = {"steps": 0} if optimizer is None else optimizer.state_dict()
    updates = moments.pop("steps")
    for moment, values in moments.items():
        arrays.update({f"{moment}/{name}": value for name, value in values.items()})
    return arrays, {"step": step, "updates": updates, "seconds": seconds}


def restore(path, config, model, optimizer=None):
    """Read a checkpoint into a model and, if given, its optimizer. Return the `meta` of `save`.

    Raises CheckpointError if the file is missing or damaged, or if its arrays have other names,
    shapes or dtypes than those of this run.
    """
    arrays, meta = load(path)
    expected, _ = collect_state(config, model, optimizer, 0)
    if optimizer is None:
        arrays = {name: array for name, array in arrays.items() if name.startswith("param/")}
    try:
        check_state_dict(expected, arrays, "array")
    except InputError as error:
        raise CheckpointError(f"{path} does not fit this model: {error}; build the model with the "
                              "options that the checkpoint was saved with") from error
    counts, seconds = [meta.get(name) for name in ("step", "updates")], meta.get("seconds")
    if not (all(type(count) is int and 0 <= count <= config.steps for count in counts)
            and type(seconds) in (int, float) and seconds >= 0):
        raise CheckpointError(f"{path} has step {counts[0]!r:.20}, updates {counts[1]!r:.20} and "
                              f"seconds {seconds!r:.20}, which a run of {config.steps} steps "
                              "can't have; restore the file from a copy")
    parts = {}
    for key, value in arrays.items():
        part, name = key.split("/", 1)
        parts.setdefault(part, {})[name] = value
    params = parts.pop("param")
    for name, param in model.params(with_frozen=config.pretrained is None):
        param.data[...] = to_device(params[name])
    if optimizer is not None:
        optimizer.load_state_dict({"steps": meta["updates"], **parts})
    return meta


def _compute_sha256(file, end):
    """Return the SHA-256 of the first `end` bytes of an open file, in hexadecimal."""
    file.seek(0)
    sha256 = hashlib.sha256()
    while end > 0 and (chunk := file.read(min(1 << 20, end))):
        sha256.update(chunk)
        end -= len(chunk)
    return sha256.hexdigest().encode()
