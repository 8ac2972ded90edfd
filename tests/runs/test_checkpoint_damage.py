"""A file that is damaged, or was made to do harm, is refused with one line that says why."""

import hashlib
import io
import os
import pickle
import tracemalloc
import zipfile

import numpy as np
import pytest

from npdl_train.runs import checkpoint
from tests.runs.checkpoint_example import META, assert_same, example, refused


def seal(body):
    """`body` without its last 64 bytes, and the right digest after it."""
    return body[:-64] + hashlib.sha256(body[:-64]).hexdigest().encode()


def npy(header, data, version=b"\x01\x00"):
    return b"\x93NUMPY" + version + len(header).to_bytes(2, "little") + header + data


def header(shape, descr="'<f4'", fortran=False):
    text = f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n"
    return text.encode()


def archive(members, compression=zipfile.ZIP_STORED):
    """A sealed archive of the pairs (name, bytes), as a hostile hand could make it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as file:
        for name, data in members:
            file.writestr(name, data)
        file.comment = b"0" * 64
    return seal(buffer.getvalue())


def test_missing_folder_and_pipe(tmp_path):
    assert "no such file" in refused(tmp_path / "none.npz")
    assert "not a file" in refused(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert "not a file" in refused(tmp_path / "pipe")


@pytest.mark.slow
def test_every_flipped_byte_is_refused(tmp_path):
    path = tmp_path / "a.npz"
    checkpoint.save(path, example(), META)
    good = path.read_bytes()
    rng = np.random.default_rng(0)
    assert len(good) > 900
    for position in range(len(good)):
        bad = bytearray(good)
        bad[position] ^= 1 << rng.integers(8)
        refused(path, bytes(bad))
    path.write_bytes(good)
    assert_same(checkpoint.load(path)[0], example())


def test_every_truncation_and_tail_is_refused(tmp_path):
    path = tmp_path / "a.npz"
    checkpoint.save(path, example(), META)
    good = path.read_bytes()
    for length in [*range(0, len(good), 3), *range(len(good) - 100, len(good))]:
        refused(path, good[:length])
    for tail in (b"\0", b"\n", b"0" * 64, good, good[-64:], good[-86:]):
        refused(path, good + tail)
        refused(path, tail + good)
    refused(path, b"PK" * 500)


GOOD = npy(header("(2,)"), np.ones(2, np.float32).tobytes())
J = ("meta.json", b"{}")


def test_the_hostile_hand_can_write_a_good_file(tmp_path):
    (tmp_path / "a.npz").write_bytes(archive([J, ("a.npy", GOOD)]))
    assert_same(checkpoint.load(tmp_path / "a.npz")[0], {"a": np.ones(2, np.float32)})


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("members, words", [
    ([("a.npy", GOOD)], "meta.json is missing"),
    ([("meta.json", b"{"), ("a.npy", GOOD)], "not a valid checkpoint"),
    ([("meta.json", b"[1]")], "not a JSON object"),
    ([("meta.json", b'{"a": NaN}')], "NaN"),
    ([("meta.json", b"\xff")], "not a valid checkpoint"),
    ([("meta.json", b"[" * 200_000)], "not a valid checkpoint"),
    ([J, ("a.npy", GOOD), ("a.npy", GOOD)], "same name"),
    ([J, J], "same name"),
    ([J, ("a.txt", GOOD)], "not an array"),
    ([J, ("a/", b"")], "not an array"),
    ([J, ("a.npy", b"")], "not a valid checkpoint"),
    ([J, ("a.npy", b"hello, hello")], "not a valid checkpoint"),
    ([J, ("a.npy", GOOD[:-1])], "size differs"),
    ([J, ("a.npy", GOOD + b"\0")], "size differs"),
    ([J, ("a.npy", GOOD[:20])], "not a valid checkpoint"),
    ([J, ("a.npy", npy(header("(2,)"), b"\0" * 8, b"\x03\x00"))], "version"),
    ([J, ("a.npy", npy(header("(2,)", fortran=True), b"\0" * 8))], "layout"),
    ([J, ("a.npy", npy(header("(-1, -2)"), b"\0" * 8))], "layout"),
    ([J, ("a.npy", npy(header("(2.0,)"), b"\0" * 8))], "not a valid checkpoint"),
    ([J, ("a.npy", npy(header("(0, 1" + "0" * 30 + ")"), b""))], "not a valid checkpoint"),
    ([J, ("a.npy", npy(header("(1,)", "'|O'"), b"\0" * 8))], "dtype object"),
    ([J, ("a.npy", npy(header("(1,)", "[('x', '|O')]"), b"\0" * 8))], "dtype"),
    ([J, ("a.npy", npy(header("(1,)", "[('x', '<f4')]"), b"\0" * 4))], "dtype"),
    ([J, ("a.npy", npy(header("(1,)", "'|V4'"), b"\0" * 4))], "dtype"),
])
def test_hostile_members_are_refused(tmp_path, members, words):
    assert words in refused(tmp_path / "a.npz", archive(members))


def test_a_pickle_is_never_run(tmp_path):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "trapped"),)

    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.array([Trap()], object), allow_pickle=True)
    assert "dtype object" in refused(
        tmp_path / "a.npz", archive([J, ("a.npy", buffer.getvalue())])
    )
    refused(tmp_path / "a.npz", archive([J, ("a.npy", pickle.dumps(Trap()))]))
    assert not (tmp_path / "trapped").exists()


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compressed_members_are_refused(tmp_path, method):
    for data in (bytes(1_000_000), np.random.default_rng(0).bytes(1_000_000)):
        member = npy(header("(250000,)", "'<u4'"), data)
        assert "compressed" in refused(tmp_path / "a.npz", archive([J, ("a.npy", member)], method))


def test_claims_beyond_the_file_take_no_memory(tmp_path):
    huge = archive([J, ("a.npy", npy(header("(20000000000,)"), b"\0" * 64))])
    sizes = bytearray(archive([J, ("a.npy", GOOD)]))
    entry = sizes.rindex(b"PK\x01\x02")
    sizes[entry + 20:entry + 28] = (4_000_000_000).to_bytes(4, "little") * 2
    shared = bytearray(archive([J, ("a.npy", npy(header("(500,)"), bytes(2000))),
                                ("b.npy", b""), ("c.npy", b"")]))
    first = shared.index(b"PK\x01\x02", shared.index(b"PK\x01\x02") + 4)
    for name in (b"b.npy", b"c.npy"):     # the later entries claim the first array's bytes too
        later = shared.rindex(name) - 46
        shared[later + 16:later + 28] = shared[first + 16:first + 28]
        shared[later + 42:later + 46] = shared[first + 42:first + 46]
    tracemalloc.start()
    assert "size differs" in refused(tmp_path / "a.npz", huge)
    assert "more bytes than the file" in refused(tmp_path / "a.npz", seal(bytes(sizes)))
    assert "more bytes than the file" in refused(tmp_path / "a.npz", seal(bytes(shared)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * checkpoint.CHUNK_BYTES


def test_loading_takes_little_more_memory_than_the_file(tmp_path):
    path = tmp_path / "a.npz"
    checkpoint.save(path, {f"W{i}": np.ones((512, 512)) for i in range(8)}, META)
    tracemalloc.start()
    checkpoint.load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.2 * path.stat().st_size + 4 * checkpoint.CHUNK_BYTES
