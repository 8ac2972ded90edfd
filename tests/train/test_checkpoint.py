"""A checkpoint loads exactly as it was saved, or not at all. A failed save keeps the old one."""

import errno
import hashlib
import json
import os
import zipfile

import numpy as np
import pytest

from npdl.errors import CheckpointError
from npdl.train import checkpoint
from npdl.train.run import read_resumed_config, train

META = {"step": 7, "model": {"layers": 2, "bias": True, "p": None}, "lr": 1e-3, "note": "é ∘"}


def make_example_arrays():
    rng = np.random.default_rng(0)
    W = rng.standard_normal((5, 4)).astype(np.float32)
    return {"embedding.W": W, "param/decoder.0.b": rng.standard_normal(3), "adam.step": np.array(7),
            "strided": W.T[::-2], "none": W[:0], "codes": np.arange(6, dtype="u1").reshape(2, 3).T}


def get_refusal_message(path, data=None):
    """Return the one-line message of `load`, which must refuse the file."""
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(CheckpointError) as caught:
        checkpoint.load(path)
    message = str(caught.value)
    assert str(path) in message and "\n" not in message
    return message


def assert_same_arrays(got, expected):
    assert set(got) == set(expected)
    for name, array in expected.items():
        assert got[name].dtype == array.dtype and got[name].shape == array.shape, name
        assert got[name].tobytes() == array.tobytes(), name


def test_arrays_round_trip_and_files_are_deterministic(tmp_path):
    arrays = make_example_arrays()
    checkpoint.save(tmp_path / "a.npz", arrays, META)
    checkpoint.save(tmp_path / "b.npz", dict(reversed(arrays.items())),
                    dict(reversed(META.items())))
    first = (tmp_path / "a.npz").read_bytes()
    assert first == (tmp_path / "b.npz").read_bytes()
    assert first[-64:] == hashlib.sha256(first[:-64]).hexdigest().encode()
    got, meta = checkpoint.load(tmp_path / "a.npz")
    assert_same_arrays(got, arrays)
    assert meta == META
    with np.load(tmp_path / "a.npz", allow_pickle=False) as file:
        np.testing.assert_array_equal(file["embedding.W"], arrays["embedding.W"])
        assert json.loads(file["meta.json"]) == META


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_are_not_saved(tmp_path, bad):
    path = tmp_path / "a.npz"
    checkpoint.save(path, make_example_arrays(), META)
    with pytest.raises(CheckpointError, match=r"'decoder\.1\.W' holds NaN or infinity"):
        checkpoint.save(path, {"decoder.1.W": np.array([1, bad], "f4")}, META)
    assert_same_arrays(checkpoint.load(path)[0], make_example_arrays())


@pytest.mark.parametrize("changes, what", [
    ({"param/new": np.ones(1, "f4")}, "array 'param/new' is unknown"),
    ({"m/embedding.W": None}, "array 'm/embedding.W' is missing"),
    ({"param/classifier.b": np.ones(4, "f4")}, "float32 (4,); this model needs float32 (10,)"),
    ({"param/classifier.b": np.ones(10)}, "float64 (10,); this model needs float32 (10,)")])
def test_arrays_of_another_model_are_refused(copy_run, changes, what):
    path = copy_run("gpt") / "checkpoint.npz"
    arrays, meta = checkpoint.load(path)
    checkpoint.save(path, {name: array for name, array in (arrays | changes).items()
                           if array is not None}, meta)
    with pytest.raises(CheckpointError, match="does not fit this model: ") as caught:
        train(read_resumed_config(path.parent, {}), path.parent, quiet=True)
    assert what in str(caught.value)


def test_every_flipped_byte_and_every_truncation_is_refused(tmp_path):
    path = tmp_path / "a.npz"
    checkpoint.save(path, {"W": np.ones(3, "f4")}, {"step": 1})
    good = path.read_bytes()
    for place in range(len(good)):
        get_refusal_message(path, good[:place] + bytes([good[place] ^ 1]) + good[place + 1:])
        get_refusal_message(path, good[:place])
    get_refusal_message(path, good + b"x")
    path.write_bytes(good)
    assert checkpoint.load(path)[1] == {"step": 1}


def write_archive_with_digest(path, members):
    """Write an archive with these members and a correct digest."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        archive.comment = b"0" * 64
    content = path.read_bytes()[:-64]
    path.write_bytes(content + hashlib.sha256(content).hexdigest().encode())


class Trap:
    def __reduce__(self):
        return os.mkdir, ("trapped",)


@pytest.mark.parametrize("members", [{}, {"meta.json": "[]"}, {"meta.json": "{"},
                                     {"meta.json": "{}", "W.npy": b"\x93NUMPY nonsense"}])
def test_a_wrong_archive_with_a_correct_digest_is_refused(tmp_path, members):
    write_archive_with_digest(tmp_path / "a.npz", members)
    get_refusal_message(tmp_path / "a.npz")


def test_a_pickle_is_never_loaded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save(tmp_path / "W.npy", np.array([Trap()], dtype=object), allow_pickle=True)
    members = {"meta.json": "{}", "W.npy": (tmp_path / "W.npy").read_bytes()}
    write_archive_with_digest(tmp_path / "a.npz", members)
    get_refusal_message(tmp_path / "a.npz")
    assert not (tmp_path / "trapped").exists()


@pytest.mark.parametrize("name", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"),
                                   KeyboardInterrupt()])
def test_a_failed_save_leaves_the_old_file_and_no_temporary(tmp_path, monkeypatch, name, error):
    path = tmp_path / "a.npz"
    checkpoint.save(path, make_example_arrays(), META)

    def fail(*_, **__):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(os, name, fail)
        with pytest.raises(CheckpointError if isinstance(error, OSError) else KeyboardInterrupt):
            checkpoint.save(path, {"W": np.ones(3)}, {})
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.npz"]
    assert_same_arrays(checkpoint.load(path)[0], make_example_arrays())
