"""Checkpoints: one file of named arrays and a JSON value that is whole, or is refused.

The file is an uncompressed `.npz` without pickles, so plain `numpy.load` opens it too. Beside
the arrays it holds a member `meta.json`, and the archive's comment, its last 64 bytes, is the
SHA-256 of every byte before it. The digest tells an intact file from a damaged one; it does not
tell who wrote the file, so `load` also trusts no size or type that the file declares.

Sources: the ZIP application note (section 4.3, layout of the end record); the NPY format
description in NumPy's reference manual.
"""

import hashlib
import json
import math
import os
import zipfile
from collections.abc import Mapping

import numpy as np

from npdl.errors import CheckpointError, InputError
from npdl.files import is_file, parse_json, reason, write_atomically
from npdl.training_errors import check_state_dict

META = "meta.json"
DIGEST_BYTES = 64                         # SHA-256 in hexadecimal
END_RECORD_BYTES = 22                     # of a ZIP archive, without its comment
CHUNK_BYTES = 1 << 20
KINDS = "biufcSU"                         # bool, integers, floats, complex, bytes, text
EPOCH = (1980, 1, 1, 0, 0, 0)             # the earliest time a ZIP archive can state
ADVICE = "go back to an earlier checkpoint or a copy of this one"


def save(path, arrays, meta):
    """Write `arrays` and `meta` to `path`, replacing a file there only once the new one is safe.

    The same content gives the same bytes, in whatever order the names come. `meta` holds what
    JSON can: string keys, finite numbers; a tuple comes back as a list. Raises InputError for a
    name, a dtype or a `meta` that the file cannot hold; CheckpointError for NaN or infinity (a
    diverged run must not overwrite a good checkpoint) and when the system refuses the write.
    """
    text = _encode_meta(meta)
    members = {name: _as_stored(name, arrays[name], path) for name in sorted(arrays, key=str)}

    def write(file):
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr(_member_info(META), text)
            for name, array in members.items():
                with archive.open(_member_info(f"{name}.npy"), "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)
            archive.comment = b"0" * DIGEST_BYTES    # its length is part of what is hashed
        digest = _digest(file, file.seek(0, os.SEEK_END) - DIGEST_BYTES)
        file.seek(-DIGEST_BYTES, os.SEEK_END)
        file.write(digest)

    write_atomically(path, write)


def load(path):
    """Read a checkpoint: `(arrays, meta)`, the arrays writable and in C order.

    Raises CheckpointError, naming the file and what is wrong, for anything that `save` would not
    have written. The digest is verified before anything is parsed.
    """
    try:
        if not is_file(path, or_nothing=True):
            raise CheckpointError(f"{path}: not a file; give the path of a checkpoint file")
        with open(path, "rb") as file:
            size = _verify_digest(path, file)
            return _parse(path, file, size)
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such file; give a saved checkpoint's path") from None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({reason(error)}); {ADVICE}") from error


def check_fits(path, arrays, expected):
    """Raise CheckpointError unless `arrays` has the names, shapes and dtypes of `expected`."""
    try:
        check_state_dict(expected, arrays, "array")
    except InputError as error:
        raise CheckpointError(f"{path}: does not fit this model: {error}; build the model with the "
                              "options the checkpoint was saved with") from error


def _encode_meta(meta):
    if not isinstance(meta, Mapping):
        raise InputError(f"meta is a {type(meta).__name__}; it must be a dict; wrap it in one")
    try:
        text = json.dumps(dict(meta), sort_keys=True, allow_nan=False)
        parse_json(text)                        # what cannot be loaded is not saved
        return text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"meta cannot be written as JSON ({reason(error)}); "
            "use dicts, lists, text, finite numbers, bools and None"
        ) from error


def _as_stored(name, value, path):
    """The array as it will be written: checked, in C order, its shape kept."""
    # A ZIP reader cuts a name at NUL and, on some systems, turns a backslash into a slash.
    if not isinstance(name, str) or not name.isprintable() or "\\" in name or name in ("", META):
        raise InputError(
            f"array name {name!r}; a name is printable text without backslash, not {META!r}; "
            "rename the array"
        )
    if not isinstance(value, (np.ndarray, np.generic)) or value.dtype.kind not in KINDS:
        kind = getattr(value, "dtype", type(value).__name__)
        raise InputError(
            f"array {name!r} is {kind}; a checkpoint holds NumPy arrays of bools, numbers or text; "
            "convert it first"
        )
    if not _is_finite(value):
        raise CheckpointError(
            f"{path}: not written, array {name!r} holds NaN or infinity; "
            "resume from the last checkpoint with a smaller learning rate"
        )
    return np.ascontiguousarray(value).reshape(value.shape)    # it makes a 0-d array 1-d


def _member_info(name):
    info = zipfile.ZipInfo(name, EPOCH)
    info.create_system = 3                # else the bytes would depend on the operating system
    info.external_attr = 0o644 << 16
    return info


def _verify_digest(path, file):
    """The size of the file in bytes, once its last 64 bytes are the digest of all the others."""
    size = file.seek(0, os.SEEK_END)
    end = size - DIGEST_BYTES
    if end >= END_RECORD_BYTES:
        file.seek(end - END_RECORD_BYTES)
        tail = file.read()
        length = int.from_bytes(tail[20:22], "little")
        if tail.startswith(b"PK\x05\x06") and length == DIGEST_BYTES:
            if tail[END_RECORD_BYTES:] == _digest(file, end):
                return size
            raise CheckpointError(f"{path}: damaged, its SHA-256 does not match; {ADVICE}")
    raise CheckpointError(
        f"{path}: truncated, extended, or not a checkpoint ({size} bytes, no digest at the end); "
        f"{ADVICE}"
    )


def _parse(path, file, size):
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            _check_members(members, size)
            meta = parse_json(archive.read(META))
            if not isinstance(meta, dict):
                raise ValueError(f"{META} is not a JSON object")
            arrays = {info.filename.removesuffix(".npy"): _read_array(archive, info)
                      for info in members if info.filename != META}
    # The digest was right, so someone made this file so, and three parsers read it: what they
    # raise between them has no list.
    except Exception as error:
        raise CheckpointError(f"{path}: not a valid checkpoint ({reason(error)}); {ADVICE}"
                              ) from error
    for name, array in arrays.items():
        if not _is_finite(array):
            raise CheckpointError(f"{path}: array {name!r} holds NaN or infinity; {ADVICE}")
    return arrays, meta


def _check_members(members, size):
    names = [info.filename for info in members]
    if META not in names:
        raise ValueError(f"{META} is missing")
    if len(set(names)) < len(names):
        raise ValueError("two members have the same name")
    for info in members:
        if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
            raise ValueError(f"member {info.filename!r} is compressed")
        if info.filename != META and not info.filename.endswith(".npy"):
            raise ValueError(f"member {info.filename!r} is not an array")
    # The sum, not each: members may overlap.
    if sum(info.file_size for info in members) > size:
        raise ValueError("the members declare more bytes than the file has")


def _read_array(archive, info):
    """One `.npy` member; memory is taken only after its header agrees with the member's size."""
    with archive.open(info) as member:
        version = np.lib.format.read_magic(member)
        if version != (1, 0):
            raise ValueError(f"member {info.filename!r} has NPY version {version}, not (1, 0)")
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(member)
        if dtype.hasobject or dtype.kind not in KINDS or dtype.subdtype is not None:
            raise ValueError(f"member {info.filename!r} has dtype {dtype}")
        if fortran or any(length < 0 for length in shape):
            raise ValueError(f"member {info.filename!r} has a layout that save does not write")
        if math.prod(shape) * dtype.itemsize != info.file_size - member.tell():
            raise ValueError(f"member {info.filename!r} declares shape {shape}, its size differs")
    with archive.open(info) as member:                  # from its start: NumPy's own reader
        return np.lib.format.read_array(member, allow_pickle=False)


def _is_finite(array):
    return array.dtype.kind not in "fc" or bool(np.isfinite(array).all())


def _digest(file, end):
    file.seek(0)
    sha256 = hashlib.sha256()
    while end > 0 and (chunk := file.read(min(CHUNK_BYTES, end))):
        sha256.update(chunk)
        end -= len(chunk)
    return sha256.hexdigest().encode()
