"""Safetensors files: a header and named arrays. The reader validates untrusted files.

A file has three parts:
1. 8 bytes: the length N of the header (little-endian);
2. N bytes of JSON: {name: {"dtype", "shape", "data_offsets": [begin, end]}}, and possibly
   "__metadata__";
3. the entries of the arrays in C order. The offsets count from the beginning of this part.
The header is checked against the size of the file before memory is allocated.
"""

import json
import math
import mmap
import os
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from npdl.backend import to_host
from npdl.errors import CheckpointError, InputError
from npdl.files import LARGEST_JSON, LARGEST_NUMBER, is_file, parse_json, reason, write_atomically

DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4",
          "I16": "<i2", "I8": "i1", "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1",
          "BOOL": "?"}
FLOATS = ("F64", "F32", "F16", "BF16")
AT_ONCE = 1 << 17           # entries that are converted together


@dataclass(frozen=True)
class Entry:
    """An array of a file: the name of its dtype, its shape, and the byte where it starts."""

    dtype: str
    shape: tuple
    start: int

    @property
    def size(self):
        return math.prod(self.shape)

    @property
    def stored_dtype(self):
        return np.dtype(DTYPES[self.dtype])

    @property
    def end(self):
        return self.start + self.size * self.stored_dtype.itemsize


class SafetensorsFile:
    """A safetensors file, whose arrays are read one by one. `entries` is {name: Entry}.

    The constructor reads only the header. Raises CheckpointError if the file is not a safetensors
    file, is cut short, or has an invalid header.
    """

    def __init__(self, path):
        self.path = path
        try:
            if not is_file(path):
                raise ValueError("it is not a file")
            with open(path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                length = int.from_bytes(file.read(8), "little")
                if size < 8 or length > size - 8:
                    raise ValueError(f"it has {size:,} bytes, but its header alone has "
                                     f"{length + 8:,}: it is cut short, or not a "
                                     "safetensors file")
                if length > LARGEST_JSON:
                    raise ValueError(f"its header has more than {LARGEST_JSON >> 20} MiB")
                self.entries = _parse_entries(parse_json(file.read(length)), 8 + length, size)
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{path} cannot be read as safetensors ({reason(error)}); "
                                  "download it again, or check its name") from error

    @cached_property
    def _mapped_file(self):
        with open(self.path, "rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)

    def map_array(self, name):
        """Return the array `name`, memory-mapped from the file. BF16 is returned as uint16.

        Memory is used only for the entries that are read. An array that is not aligned in
        the file is copied. Writing into the array does not change the file.
        """
        entry = self.entries[name]
        if not entry.size:
            return np.empty(entry.shape, entry.stored_dtype)
        flat = np.frombuffer(self._mapped_file, entry.stored_dtype, entry.size, entry.start)
        return (flat if flat.flags.aligned else flat.copy()).reshape(entry.shape)

    def read(self, name, dtype=None):
        """Read the array `name` into new memory, and return it.

        Floats are converted to `dtype`. If `dtype` is None, only BF16 is converted, to float32. The
        conversion needs no second array of this size.
        """
        entry = self.entries[name]
        is_bf16, is_float = entry.dtype == "BF16", entry.dtype in FLOATS
        wanted = np.dtype(dtype or "f4" if is_bf16 else dtype or entry.stored_dtype if is_float
                          else entry.stored_dtype)
        values = np.empty(entry.size, wanted)
        with open(self.path, "rb") as file:
            file.seek(entry.start)
            for start in range(0, entry.size, AT_ONCE):
                part = values[start : start + AT_ONCE]
                given = np.fromfile(file, entry.stored_dtype, part.size)
                if given.size < part.size:
                    raise CheckpointError(f"{self.path} was cut short while it was read; "
                                          "download it again")
                part[...] = (given.astype("<u4") << 16).view("<f4") if is_bf16 else given
        return values.reshape(entry.shape)


def _parse_entries(header, data_start, file_size):
    """Return {name: Entry} of a header. Raise ValueError unless the arrays fill the whole file."""
    if not isinstance(header, dict):
        raise ValueError("its header is not a JSON object")
    entries = {name: _parse_entry(name, fields, data_start) for name, fields in header.items()
               if name != "__metadata__"}
    last = data_start
    for start, end, name in sorted((e.start, e.end, name) for name, e in entries.items()):
        if end > file_size:
            raise ValueError(f"array {name!r} ends at byte {end:,} of {file_size:,}; the file is "
                             "cut short, or its header is wrong")
        if start != last:
            raise ValueError(f"array {name!r} begins inside another array" if start < last else
                             f"{start - last:,} bytes before array {name!r} belong to no array")
        last = end
    if last < file_size:
        raise ValueError(f"{file_size - last:,} bytes at the end of the file belong to no array")
    return entries


def _parse_entry(name, fields, data_start):
    """Return the Entry of the array that `fields` describes, or raise ValueError."""
    try:
        dtype, shape, (begin, end) = fields["dtype"], fields["shape"], fields["data_offsets"]
        is_valid = all(type(n) is int and n >= 0 for n in (*shape, begin, end))
        is_valid = is_valid and math.prod(max(n, 1) for n in shape) < LARGEST_NUMBER
    except (KeyError, TypeError, ValueError):
        is_valid = False
    if not is_valid or not isinstance(shape, list) or len(shape) > 32:
        raise ValueError(f"array {name!r} has an invalid dtype, shape or offset")
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise ValueError(f"array {name!r} has dtype {str(dtype)[:20]!r}; supported: "
                         f"{', '.join(DTYPES)}")
    entry = Entry(dtype, tuple(shape), data_start + begin)
    if entry.end != data_start + end:
        raise ValueError(f"array {name!r} of {dtype} {entry.shape} does not have the size of "
                         f"{end - begin:,} bytes that the header gives")
    return entry


def read(path):
    """Return {name: array} of a file. BF16 is converted to float32.

    Raises CheckpointError if the file is not in this format, or is damaged.
    """
    file = SafetensorsFile(path)
    return {name: file.read(name) for name in file.entries}


def write(path, arrays, metadata=None):
    """Write {name: array} as a safetensors file, atomically.

    A value may also be a function that returns an array. This function is called twice, for the
    header and for the entries, so only one array needs to be in memory at a time. Raises InputError
    for a dtype that the format does not have, and for an array named __metadata__. Raises
    CheckpointError if the file can't be written.
    """
    if "__metadata__" in arrays:
        raise InputError("an array is named '__metadata__', a name that safetensors files "
                         "reserve; give it another name")
    names = {np.dtype(stored): name for name, stored in DTYPES.items() if name != "BF16"}
    header, end = {"__metadata__": metadata} if metadata else {}, 0
    for name, array in arrays.items():
        array = to_numpy(array)
        if array.dtype.newbyteorder("<") not in names:
            raise InputError(f"array {name!r} has the dtype {array.dtype}; convert it to one of "
                             f"{', '.join(map(str, names))}")
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": names[array.dtype.newbyteorder("<")],
                        "shape": list(array.shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)

    def write_contents(file):
        file.write(len(text).to_bytes(8, "little") + text)
        for array in arrays.values():
            array = to_numpy(array)
            file.write(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).data)

    write_atomically(path, write_contents)


def to_numpy(array_or_function):
    """Return a NumPy array. `array_or_function` is an array, or a function that returns one."""
    return to_host(array_or_function() if callable(array_or_function) else array_or_function)
