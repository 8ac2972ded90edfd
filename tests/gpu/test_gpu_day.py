"""experiments/gpu_day.py: what it refuses, its rows and table; whole, on an emulated card."""

import json

import pytest

from experiments import gpu_day
from experiments.bench.cases import Case
from experiments.bench.gpu_sides import torch_side
from tests.tools import cupy_on_cpu, device
from tests.tools.refusals import status_of

SMALL = {"gpt": Case("gpt", batch=12, width=8, heads=2), "lstm": Case("lstm", batch=12, width=8)}


def refused(capsys, *arguments):
    """The one line with which the script refuses, after a check of its exit status."""
    assert status_of(gpu_day.main, list(arguments)) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    return line


@pytest.mark.parametrize("minutes", ["0", "-1", "nan", "soon"])
def test_bad_minutes_are_one_line(capsys, minutes):
    line = refused(capsys, f"--minutes={minutes}")
    assert "--minutes" in line and minutes in line


def test_a_part_that_fails_or_is_late_is_a_bad_row_and_stops_nothing(tmp_path, capsys):
    def fails(day, number):
        raise ValueError(f"no\n{number}")

    with device.installed(), gpu_day.backend.using("cupy"):
        day = gpu_day.Day(True, tmp_path, 9)
        day.attempt("a", "works", lambda day: ("1.0", True))
        day.attempt("b", "fails", fails, 3)
        day.end = 0
        day.attempt("c", "late", lambda day: ("1.0", True))
    assert [row["good"] for row in day.rows] == [True, False, False]
    text = gpu_day.table({"device": "none"}, day.rows)
    assert "| a | works | 1.0 | ok |" in text and "| b | fails | ValueError: no 3 | BAD |" in text
    assert "the time was over" in text and "BAD c: late" in capsys.readouterr().out


def test_what_differs_is_measured(monkeypatch):
    one = [gpu_day.np.array([2.0, gpu_day.np.nan]), gpu_day.np.ones(3)]
    assert gpu_day.difference(one, one) == 0
    assert gpu_day.difference([one[1]], [one[1] * 4]) == 0.75
    assert gpu_day.difference(one[:1], [gpu_day.np.ones(2)]) == gpu_day.np.inf
    with pytest.raises(ArithmeticError, match="float32"):
        gpu_day.difference([one[1].astype("float32")], [one[1]])


@pytest.mark.torch
@pytest.mark.parametrize("model", SMALL)
def test_pytorchs_step_learns(model):
    pytest.importorskip("torch")
    side = torch_side(SMALL[model], device="cpu")
    first = float(side.step())
    for _ in range(20):
        loss = side.step()
    assert float(loss) < first


@pytest.mark.slow
@pytest.mark.skipif(not cupy_on_cpu.installed(), reason="for an emulated card: minutes, else")
def test_the_whole_day_on_an_emulated_card(tmp_path):
    assert gpu_day.main(["--quick", "--minutes", "60", "--out", str(tmp_path)]) == 0
    found = json.loads((tmp_path / "gpu-day.json").read_text())
    assert found["facts"]["times"].startswith("meaningless") and found["facts"]["bad rows"] == 0
    assert {row["part"] for row in found["rows"]} == {
        "first steps", "repeated", "to the end", "speed", "column sum", "gradients"}
    assert (tmp_path / "gpu-day.md").read_text().count("\n| ") == len(found["rows"]) + 1
