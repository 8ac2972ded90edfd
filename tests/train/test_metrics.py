"""Metrics are appended line by line, read back, and cut off at the step where a run resumes."""

import json

import numpy as np
import pytest

from npdl.errors import CheckpointError, InputError
from npdl.train.metrics import append_record, read_records, remove_records_after

RECORDS = [{"step": step, "train_loss": 1 / (step + 1)} for step in range(4)]


def write_records(path, records):
    for record in records:
        append_record(path, record)


def test_records_are_appended_read_and_removed(tmp_path):
    path = tmp_path / "m.jsonl"
    write_records(path, RECORDS[:2])
    write_records(path, RECORDS[2:])
    assert read_records(path) == RECORDS
    write_records(path, [{"step": np.int64(9), "train_loss": np.float32(0.1)}])
    assert read_records(path)[-1] == {"step": 9, "train_loss": float(np.float32(0.1))}
    assert remove_records_after(path, 9) == 0 and remove_records_after(path, 1) == 3
    assert read_records(path) == RECORDS[:2]


@pytest.mark.parametrize("record", [{"step": 1, "x": float("nan")}, {"step": 1, "x": np.ones(2)},
                                    {"step": 1, "x": {1, 2}}])
def test_a_value_that_json_cannot_hold_is_refused(tmp_path, record):
    with pytest.raises(InputError, match="cannot be written as JSON"):
        append_record(tmp_path / "m.jsonl", record)
    assert not (tmp_path / "m.jsonl").exists()


def test_an_incomplete_last_line_is_left_out_and_removed(tmp_path):
    path = tmp_path / "m.jsonl"
    write_records(path, RECORDS)
    whole = path.read_bytes()
    last = whole.rindex(b"\n", 0, -1) + 1
    for cut in range(last + 1, len(whole)):
        path.write_bytes(whole[:cut])
        assert read_records(path) == RECORDS[:-1]
        assert remove_records_after(path, 99) == 1
        assert path.read_bytes() == whole[:last]


@pytest.mark.parametrize("broken", [
    "nonsense", "[1]", "{}", '{"step": 1.5}', '{"step": -1}', '{"step": true}',
    '{"step": 1, "train_loss": "x"}', '{"step": 1, "train_loss": [1.0]}',
    '{"step": 1, "validation_accuracy": NaN}'])
def test_a_line_that_is_not_a_record_is_refused_with_its_number(tmp_path, broken):
    path = tmp_path / "m.jsonl"
    path.write_text(f"{json.dumps(RECORDS[0])}\n{broken}\n{json.dumps(RECORDS[1])}\n")
    with pytest.raises(InputError, match="line 2 is not a record"):
        read_records(path)


def test_a_missing_file_and_a_full_disk_give_one_error_line(tmp_path):
    with pytest.raises(InputError, match="metrics cannot be read"):
        read_records(tmp_path / "m.jsonl")
    for place in (tmp_path / "none" / "m.jsonl", "/dev/full"):
        with pytest.raises(CheckpointError, match="free space|make the folder"):
            append_record(place, RECORDS[0])
