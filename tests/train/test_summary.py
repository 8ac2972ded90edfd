"""The summary of a run against values by hand, its tables and its picture."""

import json
import math

import pytest

from npdl.errors import CheckpointError, InputError
from npdl.train.curves import plot_curves
from npdl.train.summary import format_table, summarise

NAMES = ("step", "train_loss", "train_accuracy", "validation_loss", "validation_accuracy")
RECORDS = [dict(zip(NAMES, row, strict=True)) for row in (
    (0, 3.0, 0.1, 3.0, 0.0), (10, 1.0, 0.9, 4.0, 0.1), (20, 0.5, 1.0, 5.0, None),
    (30, 0.25, 1.0, 2.0, 0.75), (40, 0.25, 0.98, 0.5, 0.95), (50, 0.5, 1.0, 0.5, 0.95))]


def test_summary_equals_values_by_hand():
    summary = summarise(RECORDS)
    assert summary == {
        "train_loss": 0.25, "t_f_train_loss": 30, "train_accuracy": 1.0, "t_f_train_accuracy": 20,
        "validation_loss": 0.5, "t_f_validation_loss": 40, "validation_accuracy": 0.95,
        "t_f_validation_accuracy": 40, "delta_t_loss": 10, "delta_t_accuracy": 20,
        "final": RECORDS[-1]}
    assert summarise(RECORDS[::-1]) == summary
    assert json.loads(json.dumps(summary)) == summary


def test_summary_without_validation_or_with_nan_or_of_nothing():
    records = [{"step": 1, "train_loss": 2.0}, {"step": 2, "train_loss": math.nan}]
    summary = summarise(records)
    assert (summary["train_loss"], summary["t_f_train_loss"]) == (2.0, 1)
    for key in ("validation_loss", "t_f_validation_loss", "delta_t_loss", "train_accuracy",
                "delta_t_accuracy"):
        assert summary[key] is None
    assert math.isnan(summary["final"]["train_loss"])
    assert "| L_val | - |" in format_table({"one": [summary]})
    with pytest.raises(InputError, match="no records to summarise"):
        summarise([])


def test_format_table_equals_expected_text():
    summary = summarise(RECORDS)
    worse = summary | {"train_loss": 0.75, "t_f_train_loss": 45, "validation_accuracy": None}
    columns = {"LSTM": [summary, worse], "GPT": [summary]}
    marked = format_table(columns).splitlines()
    assert marked[:3] == ["| Metric | LSTM | GPT |", "| --- | ---: | ---: |",
                          "| L_train | 0.5 ± 0.25 | **0.25** |"]
    assert "37.5 ± 7.5" in marked[6] and "(1 of 2 runs)" in marked[5]
    assert marked[4] == "| A_train | 1.0000 ± 0.0000 | 1.0000 |"
    assert "**" not in format_table({"GPT": columns["GPT"]})
    columns = {"A": [summary], "B": [summary | {"train_accuracy": 0.5}]}
    assert "| A_train | **1.0000** | 0.5000 |" in format_table(columns)


@pytest.mark.slow
def test_curves_png_is_deterministic(tmp_path):
    groups = {"a title with $ and _": [RECORDS]}
    plot_curves(groups, tmp_path / "a.png")
    plot_curves(groups, tmp_path / "b.png")
    plot_curves(groups, tmp_path / "c.png", log_steps=True)
    first = (tmp_path / "a.png").read_bytes()
    assert first.startswith(b"\x89PNG") and b"Software" not in first
    assert first == (tmp_path / "b.png").read_bytes() != (tmp_path / "c.png").read_bytes()
    assert len(list(tmp_path.iterdir())) == 3


def test_curves_of_few_or_no_records(tmp_path):
    with pytest.raises(InputError):
        plot_curves({"empty": [[]]}, tmp_path / "a.png")
    plot_curves({"zero": [[{"step": 0, "train_loss": 0.0}]]}, tmp_path / "a.png", log_steps=True)
    assert (tmp_path / "a.png").exists()
    with pytest.raises(CheckpointError, match="cannot be written"):
        plot_curves({"no folder": [RECORDS]}, tmp_path / "none" / "a.png")
