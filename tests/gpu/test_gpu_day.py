"""experiments/gpu_day.py: what it refuses, its rows and table; whole, on an emulated card."""

import json
import subprocess
import sys
import time

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


def test_words_that_are_no_expression_are_one_line(capsys):
    assert "--only speed(: no regular expression" in refused(capsys, "--only=speed(")


def test_only_what_is_asked_for_is_measured(tmp_path):
    with device.numpy_as_cupy(), gpu_day.backend.using("cupy"):
        day = gpu_day.Day(True, tmp_path, 9, only="speed.*fast")
        for what in ("npdl fast", "npdl eager"):
            day.attempt("speed", what, lambda day: ("1.0", None))
    assert [row["what"] for row in day.rows] == ["npdl fast"]


@pytest.mark.slow
def test_each_row_is_kept_at_once_and_the_next_day_goes_on(tmp_path, capsys):
    def fails(day, number):
        raise ValueError(f"no\n{number}")

    def kept():
        return [row["good"] for row in json.loads((tmp_path / "gpu-day.json").read_text())["rows"]]

    with device.numpy_as_cupy(), gpu_day.backend.using("cupy"):
        day = gpu_day.Day(True, tmp_path, 9, {"device": "none"})
        day.attempt("a", "works", lambda day: ("1.0", True))
        assert kept() == [True]
        day.attempt("b", "fails", fails, 3)
        day.end = 0
        day.attempt("c", "late", lambda day: ("1.0", True))
        assert kept() == [True, False, "left out"]
        text = (tmp_path / "gpu-day.md").read_text()
        assert "| a | works | 1.0 | ok |" in text
        assert "| b | fails | ValueError: no 3 | BAD |" in text
        assert "bad: 1, left out: 1" in text and "| left out |" in text
        assert "left out  c: late: the time was over" in capsys.readouterr().out

        again = gpu_day.Day(True, tmp_path, 9, {"device": "none"})
        again.attempt("a", "works", fails, 4)           # it is there
        again.attempt("c", "late", lambda day: ("2.0", True))
        assert kept() == [True, False, True]
        other = gpu_day.Day(True, tmp_path, 9, {"device": "another"})
        assert not other.rows


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


MINUTES = "1"           # what does not fit into them on an emulated card is left out, and said


@pytest.mark.slow
@pytest.mark.skipif(not cupy_on_cpu.installed(), reason="for an emulated card: minutes, else")
def test_the_whole_day_on_an_emulated_card_killed_on_its_way(tmp_path):
    kept = tmp_path / "gpu-day.json"
    command = [sys.executable, gpu_day.__file__, "--quick", "--out", tmp_path]
    day = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while not kept.exists() or len(json.loads(kept.read_text())["rows"]) < 3:
        assert day.poll() is None
        time.sleep(0.1)
    day.kill()
    day.wait()
    before = json.loads(kept.read_text())["rows"]
    assert all(row["good"] for row in before)
    assert gpu_day.main(["--quick", "--minutes", MINUTES, "--out", str(tmp_path)]) == 0
    found = json.loads(kept.read_text())
    assert found["rows"][: len(before)] == before
    assert found["facts"]["times"].startswith("meaningless")
    assert {row["good"] for row in found["rows"]} <= {None, True, gpu_day.LEFT_OUT}
    parts = [row["part"] for row in found["rows"]]
    assert {*parts} == {"first steps", "graph", "repeated", "to the end", "speed", "column sum",
                        "gradients"}
    assert parts.index("speed") > max(i for i, part in enumerate(parts) if part == "gradients")
    assert (tmp_path / "gpu-day.md").read_text().count("\n| ") == len(found["rows"]) + 1
