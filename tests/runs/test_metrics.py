"""A metrics file survives a kill, and tells damage from a torn last line."""

import json
import math
import time

import numpy as np
import pytest

from npdl.errors import CheckpointError, InputError
from npdl_train.runs.metrics import MetricsWriter, read_metrics, truncate_after


def write(path, records):
    with MetricsWriter(path) as writer:
        for record in records:
            writer.write(record)


def test_round_trip_and_append(tmp_path):
    path = tmp_path / "metrics.jsonl"
    records = [{"step": 0, "train_loss": 3.25, "note": "line\nbreak é", "none": None},
               {"step": 1, "train_loss": 0.1, "list": [1, {"a": True}]}]
    write(path, records[:1])
    write(path, records[1:])
    assert read_metrics(path) == (records, False)
    assert path.read_bytes().count(b"\n") == 2


def test_every_record_is_readable_at_once(tmp_path):
    writer = MetricsWriter(tmp_path / "m")
    for step in range(3):
        writer.write({"step": step})
        assert len(read_metrics(tmp_path / "m")[0]) == step + 1
    writer.close()
    writer.close()


def test_numpy_numbers_are_numbers(tmp_path):
    write(tmp_path / "m", [{"step": np.int64(3), "loss": np.float32(0.5), "ok": np.bool_(True)}])
    assert read_metrics(tmp_path / "m")[0] == [{"step": 3, "loss": 0.5, "ok": True}]


@pytest.mark.parametrize("record", [
    {"loss": float("nan")}, {"loss": math.inf}, {"loss": np.float32("nan")}, {"a": [-math.inf]},
    {"a": {1}}, {"a": np.ones(2)}, {(1, 2): 3},
])
def test_what_json_cannot_hold_is_refused_and_not_written(tmp_path, record):
    with MetricsWriter(tmp_path / "m") as writer:
        writer.write({"step": 0})
        with pytest.raises(InputError) as caught:
            writer.write(record)
        assert "\n" not in str(caught.value)
        writer.write({"step": 1})
    assert read_metrics(tmp_path / "m") == ([{"step": 0}, {"step": 1}], False)


def test_a_torn_last_line_is_dropped_wherever_it_was_cut(tmp_path):
    path = tmp_path / "m"
    write(path, [{"step": 0, "loss": 1.5}, {"step": 1, "loss": 0.5}])
    whole = path.read_bytes()
    start = whole.index(b"\n") + 1
    for end in range(start, len(whole) + 1):
        path.write_bytes(whole[:end])
        records, torn = read_metrics(path)
        assert len(records) == (2 if end == len(whole) else 1)
        assert torn == (start < end < len(whole))
    path.write_bytes(whole[:start] + b"\0" * 9)
    assert read_metrics(path) == ([{"step": 0, "loss": 1.5}], True)
    with pytest.raises(InputError, match="last line is torn; call"):
        MetricsWriter(path)
    assert truncate_after(path, 5) == 1
    write(path, [{"step": 1}])
    assert [record["step"] for record in read_metrics(path)[0]] == [0, 1]


@pytest.mark.parametrize("broken", [
    b'{"step": 1', b"", b"[1]", b"3", b'{"step": NaN}', b'{"step": 1}{"step": 1}', b"\xff", b"\0",
    b"[" * 100_000,
])
def test_a_broken_line_in_the_middle_is_refused_with_its_number(tmp_path, broken):
    path = tmp_path / "m"
    path.write_bytes(b'{"step": 0}\n' + broken + b'\n{"step": 2}\n')
    for read in (read_metrics, lambda path: truncate_after(path, 0)):
        with pytest.raises(InputError, match="line 2 is broken") as caught:
            read(path)
        assert "\n" not in str(caught.value) and str(path) in str(caught.value)
    assert path.read_bytes().endswith(b'\n{"step": 2}\n')


def test_missing_and_unwritable(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        read_metrics(tmp_path / "none")
    with pytest.raises(InputError, match="No such file"):
        truncate_after(tmp_path / "none", 1)
    with pytest.raises(InputError, match="cannot be opened"):
        MetricsWriter(tmp_path)
    with pytest.raises(InputError, match="cannot be opened"):
        MetricsWriter(tmp_path / "none" / "m")


def test_a_full_disk_is_a_checkpoint_error(tmp_path):
    writer = MetricsWriter(tmp_path / "m")
    writer._file.close()

    class Full:
        closed = False

        def write(self, data):
            raise OSError(28, "No space left on device")

        close = flush = lambda self: self.write(b"")

    writer._file = Full()
    with pytest.raises(CheckpointError, match="No space left"):
        writer.write({"step": 0})
    with pytest.raises(CheckpointError, match="No space left"):
        writer.close()


def test_empty_file(tmp_path):
    (tmp_path / "m").write_bytes(b"")
    assert read_metrics(tmp_path / "m") == ([], False)
    assert truncate_after(tmp_path / "m", 0) == 0


def test_truncate_after(tmp_path):
    path = tmp_path / "m"
    path.write_bytes(b"".join(b'{"step":  %d}\n' % step for step in (0, 5, 10, 15)) + b'{"step"')
    assert truncate_after(path, 10) == 2
    assert path.read_bytes() == b'{"step":  0}\n{"step":  5}\n{"step":  10}\n'
    before = path.stat()
    assert truncate_after(path, 10) == 0
    assert path.stat().st_ino == before.st_ino
    assert truncate_after(path, -1) == 3
    assert path.read_bytes() == b""
    assert [entry.name for entry in tmp_path.iterdir()] == ["m"]
    for line in (b'{"loss": 1}\n', b'{"step": "1"}\n', b'{"step": true}\n'):
        path.write_bytes(line)
        with pytest.raises(InputError, match="line 1 has no integer 'step'"):
            truncate_after(path, 10)


def test_reading_is_fast(tmp_path):
    line = json.dumps({"step": 123456, "train_loss": 0.12345678, "train_accuracy": 0.98765,
                       "validation_loss": 1.23456, "validation_accuracy": 0.5}) + "\n"
    (tmp_path / "m").write_text(line * 50_000)
    start = time.perf_counter()
    assert len(read_metrics(tmp_path / "m")[0]) == 50_000
    assert time.perf_counter() - start < 3        # a million in a few seconds, on a quiet machine
