"""The benchmark of real models: the tables on a small one, and refusals."""

from pathlib import Path

import pytest

from tests.tools.model_folders import LLAMA, TEXT, write_folder
from tests.tools.refusals import status_of

pytest.importorskip("tokenizers", reason="the text is in the model's tokens")
from experiments import bench_real


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[2]))
    write_folder(tmp_path / "model", LLAMA)
    (tmp_path / "fox.txt").write_text(TEXT * 100)
    return tmp_path / "model"


def rows(out, name):
    """The cells of the table's rows that begin with `name`."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in out.splitlines()
            if line.startswith(f"| {name}")]


@pytest.mark.slow
def test_three_ways_side_by_side(model, capsys):
    text = ["--text", str(model.parent / "fox.txt")]
    out = ["--steps", "3", "--out", str(model.parent / "o")]
    assert bench_real.main([str(model), *text, *out]) == 0
    out = capsys.readouterr().out
    [full], [lora], [qlora] = (rows(out, name) for name in ("full", "LoRA", "QLoRA"))
    assert full[2] == "0" and lora[2] == qlora[2] != "0"
    assert lora[7] == full[7] != qlora[7] and float(full[8]) < float(full[7])
    assert (model.parent / "o" / "bench_real-tuning.md").read_text().strip() == out.strip()


@pytest.mark.torch
@pytest.mark.slow
def test_beside_pytorch(model, capsys):
    pytest.importorskip("torch", reason="what npdl is compared with")
    pytest.importorskip("transformers", reason="what npdl is compared with")
    bench_real.main([str(model), "--quick", "--tokens", "4", "--threads", "1"])
    out = capsys.readouterr().out
    assert [rows(out, name)[0][1] for name in ("greedy", "a LoRA", "loading")] == ["1"] * 3


@pytest.mark.parametrize("arguments, mentioned", [
    (["--rounds", "0"], "at least 1"), (["--tokens", "x"], "invalid"),
])
def test_bad_options_are_one_line_and_status_2(model, capsys, arguments, mentioned):
    assert status_of(bench_real.main, [str(model), *arguments]) == 2
    errors = capsys.readouterr().err
    assert len(errors.strip().splitlines()) == 1 and mentioned in errors
