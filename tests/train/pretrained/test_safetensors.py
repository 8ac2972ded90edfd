"""Safetensors files agree with the package safetensors. Damaged files give one line."""

import json
import tracemalloc

import numpy as np
import pytest

from npdl.errors import CheckpointError, InputError
from npdl.safetensors import SafetensorsFile, write

ARRAYS = {
    "strided": np.arange(12.0, dtype="f4").reshape(3, 4).T[::2], "none": np.zeros((0, 3), "f4"),
    "one": np.array(2.5), "half": np.linspace(-3, 3, 7, dtype="f2"),
    "ids": np.arange(5, dtype="i8"), "bytes": np.arange(3, dtype="u1"), "yes": np.array([True]),
}


def write_safetensors_file(path, header, data=b""):
    """A file with this header (text or a value) and data; the header's length may be claimed."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def test_written_arrays_are_read_back(tmp_path):
    path = tmp_path / "a.safetensors"
    write(path, {name: lambda a=a: a for name, a in ARRAYS.items()}, {"format": "pt"})
    file = SafetensorsFile(path)
    assert list(file.entries) == list(ARRAYS)
    for name, array in ARRAYS.items():
        for found in (file.map_array(name), file.read(name)):
            assert found.dtype == array.dtype and found.shape == array.shape
            np.testing.assert_array_equal(found, array)
    assert file.read("strided", "f8").dtype == "f8" and file.read("ids", "f8").dtype == "i8"
    with pytest.raises(InputError, match="complex128"):
        write(path, {"c": np.ones(2) * 1j})


def test_safetensors_package_reads_and_writes_the_same(tmp_path):
    library = pytest.importorskip("safetensors.numpy", reason="compares with the package")
    path = tmp_path / "a.safetensors"
    write(path, ARRAYS, {"format": "pt"})
    for name, array in library.load_file(path).items():
        np.testing.assert_array_equal(array, ARRAYS[name])
    contiguous = {name: np.array(a, order="C") for name, a in ARRAYS.items()}
    library.save_file(contiguous, path)
    for name, array in contiguous.items():
        np.testing.assert_array_equal(SafetensorsFile(path).map_array(name), array)


def test_bfloat16_is_half_of_a_float32(tmp_path):
    values = np.random.default_rng(0).standard_normal(2 ** 20 + 5).astype("f4")
    halves = (values.view("u4") >> 16).astype("u2")
    header = {"w": {"dtype": "BF16", "shape": [len(values)], "data_offsets": [0, halves.nbytes]},
              "empty": {"dtype": "BF16", "shape": [0], "data_offsets": [0, 0]}}
    for padding in (b"", b" "):                     # with one of them, w is not aligned
        text = json.dumps(header).encode() + padding
        path = write_safetensors_file(tmp_path / "b", text, halves.tobytes())
        for name, codes in ("w", halves), ("empty", halves[:0]):
            np.testing.assert_array_equal(SafetensorsFile(path).map_array(name), codes, strict=True)
    found = SafetensorsFile(path).read("w")
    assert found.dtype == "f4"
    np.testing.assert_array_equal(found.view("u4"), halves.astype("u4") << 16)
    assert SafetensorsFile(path).read("w", "f8").dtype == "f8"


ONE = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}


@pytest.mark.parametrize("header, mentioned", [
    (b"no such thing", "cannot be read"), (b"[" * 100_000, "nested"), ([], "not a JSON object"),
    ({"w": 3}, "invalid dtype"), ({"w": {**ONE, "shape": "1"}}, "invalid dtype"),
    ({"w": {**ONE, "shape": [-1]}}, "invalid dtype"),
    ({"w": {**ONE, "shape": [True]}}, "invalid dtype"),
    ({"w": {**ONE, "shape": [0] + [2**62] * 2}}, "invalid dtype"),
    ({"w": {**ONE, "dtype": "F4"}}, "'F4'"), ({"w": {**ONE, "dtype": ["F32"]}}, "dtype"),
    ({"w": {**ONE, "data_offsets": [4, 0]}}, "does not have"),
    ({"w": {**ONE, "data_offsets": [0, 1, 2]}}, "invalid dtype"),
    ({"w": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}, "cut short"),
    ({"w": ONE, "v": {**ONE, "data_offsets": [2, 6]}}, "inside another"),
    ({"w": {**ONE, "data_offsets": [8, 12]}}, "cut short"),
    ({"w": {**ONE, "data_offsets": [4, 8]}}, "4 bytes before array 'w' belong to no array"),
    ({"w": ONE}, "4 bytes at the end of the file belong to no array"),
    ({}, "8 bytes at the end of the file"),
])
def test_damaged_header_gives_one_error_line_and_little_memory(tmp_path, header, mentioned):
    path = write_safetensors_file(tmp_path / "x", header, bytes(8))
    assert_refused(path, mentioned)


def test_truncated_or_missing_file_is_refused(tmp_path):
    for content in (b"", b"abc", (2**62).to_bytes(8, "little"), (9).to_bytes(8, "little") + b"{}"):
        (tmp_path / "x").write_bytes(content)
        assert_refused(tmp_path / "x", "")
    for path in (tmp_path, tmp_path / "absent"):
        assert_refused(path, "")


def assert_refused(path, mentioned):
    tracemalloc.start()
    with pytest.raises(CheckpointError, match=str(path)) as caught:
        SafetensorsFile(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert mentioned in str(caught.value) and "\n" not in str(caught.value)
    assert peak < 4 << 20
