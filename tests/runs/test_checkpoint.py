"""A checkpoint comes back exactly as it was saved."""

import hashlib
import json

import numpy as np
import pytest

from npdl.errors import CheckpointError, InputError
from npdl_train.runs import checkpoint
from tests.runs.checkpoint_example import META, assert_same, example, refused

# Round trip

@pytest.mark.parametrize("dtype", [
    "?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16",
    ">f4", ">i8", "S3", "U2",
])
def test_round_trip_of_every_dtype_and_layout(tmp_path, dtype):
    base = np.arange(24).reshape(4, 6).astype(dtype)
    arrays = {
        "plain": base, "transposed": base.T, "strided": base[::2, 1::3], "reversed": base[::-1],
        "fortran": np.asfortranarray(base), "broadcast": np.broadcast_to(base[0], (3, 6)),
        "scalar": base[2, 3].reshape(()), "empty": base[:0], "no columns": base[:, :0],
        "one": base[:1, :1, None], "read only": base.copy(),
    }
    arrays["read only"].flags.writeable = False
    checkpoint.save(tmp_path / "a.npz", arrays, META)
    got, meta = checkpoint.load(tmp_path / "a.npz")
    assert_same(got, arrays)
    assert meta == META


def test_numpy_scalar_and_no_arrays(tmp_path):
    checkpoint.save(tmp_path / "a.npz", {"s": np.float32(0.1)}, {})
    assert_same(checkpoint.load(tmp_path / "a.npz")[0], {"s": np.array(0.1, np.float32)})
    checkpoint.save(tmp_path / "a.npz", {}, META)
    assert checkpoint.load(tmp_path / "a.npz") == ({}, META)


def test_larger_than_one_chunk(tmp_path):
    arrays = {"W": np.random.default_rng(1).standard_normal((700, 601)).astype(np.float32)}
    assert arrays["W"].nbytes > checkpoint.CHUNK_BYTES
    checkpoint.save(tmp_path / "a.npz", arrays, META)
    assert_same(checkpoint.load(tmp_path / "a.npz")[0], arrays)


def test_numpy_opens_it_too(tmp_path):
    checkpoint.save(tmp_path / "a.npz", example(), META)
    with np.load(tmp_path / "a.npz", allow_pickle=False) as file:
        for name, array in example().items():
            np.testing.assert_array_equal(file[name], array)
        assert json.loads(file["meta.json"]) == META


def test_same_content_same_bytes(tmp_path):
    arrays = example()
    checkpoint.save(tmp_path / "a.npz", arrays, META)
    turned = {name: np.asfortranarray(arrays[name]) for name in reversed(arrays)}
    turned["adam.step"] = arrays["adam.step"]
    checkpoint.save(tmp_path / "b.npz", turned, dict(reversed(META.items())))
    first = (tmp_path / "a.npz").read_bytes()
    assert first == (tmp_path / "b.npz").read_bytes()
    assert first[-64:] == hashlib.sha256(first[:-64]).hexdigest().encode()
    arrays["adam.step"] = np.array(8)
    checkpoint.save(tmp_path / "b.npz", arrays, META)
    assert first != (tmp_path / "b.npz").read_bytes()


# What save refuses

@pytest.mark.parametrize("arrays", [
    {"a": np.array([{}])}, {"a": [1.0]}, {"a": np.zeros(2, [("x", "f4")])},
    {"a": np.array("2020-01-01", "M8[D]")}, {"": np.ones(1)}, {"a\0b": np.ones(1)},
    {"a\\b": np.ones(1)}, {"a\nb": np.ones(1)}, {"meta.json": np.ones(1)}, {3: np.ones(1)},
])
def test_save_refuses_what_the_file_cannot_hold(tmp_path, arrays):
    with pytest.raises(InputError) as caught:
        checkpoint.save(tmp_path / "a.npz", arrays, {})
    assert "\n" not in str(caught.value)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("meta", [
    [1], None, {"a": float("nan")}, {"a": {1, 2}}, {"a": np.float32(1)}, {1: "a", "b": 2},
])
def test_save_refuses_meta_that_is_not_json(tmp_path, meta):
    with pytest.raises(InputError, match="meta"):
        checkpoint.save(tmp_path / "a.npz", example(), meta)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8"])
def test_not_finite_is_refused_on_both_sides(tmp_path, bad, dtype, monkeypatch):
    path = tmp_path / "a.npz"
    checkpoint.save(path, example(), META)
    arrays = example() | {"decoder.1.W": np.array([1, bad], dtype)}
    with pytest.raises(CheckpointError, match=r"'decoder\.1\.W' holds NaN or infinity"):
        checkpoint.save(path, arrays, META)
    assert_same(checkpoint.load(path)[0], example())
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "_is_finite", lambda array: True)
        checkpoint.save(path, arrays, META)
    assert "'decoder.1.W' holds NaN or infinity" in refused(path)


# Does it fit the model?

@pytest.mark.parametrize("changes, what", [
    ({"new": np.ones(1, "f4")}, "array 'new' is missing (1 names"),
    ({"adam.step": None}, "array 'adam.step' is unknown"),
    ({"decoder.0.b": np.ones(4)}, r"float64 (3,); this model needs float64 (4,)"),
    ({"decoder.0.b": np.ones(3, "f4")}, "this model needs float32 (3,)")])
def test_what_does_not_fit_the_model_is_refused_in_one_line(changes, what):
    checkpoint.check_fits("a.npz", example(), example())
    expected = {name: array for name, array in (example() | changes).items() if array is not None}
    with pytest.raises(CheckpointError) as caught:
        checkpoint.check_fits("a.npz", example(), expected)
    assert what in str(caught.value) and "\n" not in str(caught.value)
    assert str(caught.value).startswith("a.npz: does not fit this model: ")
