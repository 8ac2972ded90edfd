"""What README.md prints is what the project does."""

import contextlib
import io
import json
import re
import textwrap
from pathlib import Path

import pytest

from tests.base.trace_table import layers

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", TEXT, re.M | re.S)


def test_the_backward_stands_in_the_file():
    file = (ROOT / "npdl" / "layers" / "layer_norm.py").read_text()
    assert textwrap.indent(BLOCKS[1], "    ") in file
    assert f"Llama | {len(BLOCKS[1].splitlines())} lines |" in TEXT


def test_no_line_of_a_block_is_cut():
    """In the column of 774 pixels, 91 letters of a block, that a repository's page has."""
    for block in re.findall(r"^```\w+\n(.*?)^```", TEXT, re.M | re.S):
        assert [line for line in block.splitlines() if len(line) > 91] == []


def test_what_the_first_command_prints_is_the_moving_pictures_run():
    run = json.loads((ROOT / "docs" / "book" / "data" / "grokking.json").read_text())
    lines = re.findall(r"^step +(\d+)/10001  train (\S+) +(\S+)%  val (\S+) +(\S+)%$", TEXT, re.M)
    assert len(lines) == 10
    for step, *said in lines:
        i = run["step"].index(int(step))
        kept = [run[f"{part}_{name}"][i] * (100 if name == "accuracy" else 1)
                for part in ("train", "validation") for name in ("loss", "accuracy")]
        assert [float(number) for number in said] == pytest.approx(kept, rel=6e-3, abs=6e-3)


def test_the_training_loop_runs_learns_and_saves(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out, made = io.StringIO(), {}
    with contextlib.redirect_stdout(out):
        exec(compile(BLOCKS[0], "README.md", "exec"), made)
    loss, accuracy = map(float, out.getvalue().split())
    assert loss < 0.1 and accuracy == 1
    W = made["model"].state_dict()["embedding.W"].copy()
    made["model"].embedding.W.data[:] = 0
    made["model"].load("gpt.safetensors")
    assert (made["model"].embedding.W.data == W).all()


def test_lines_that_run():
    found = {name: traced.of_pages()[2] for name, traced in layers().items()}
    said = re.search(r"LayerNorm's forward and backward are (\d+) lines, an LSTM's through time "
                     r"(\d+), a GPT's (\d+)", " ".join(TEXT.split()))
    assert tuple(map(int, said.groups())) == (found["LayerNorm"], found["LSTM through time"],
                                             found["GPT"])


def test_it_is_short_and_so_is_each_page_by_hand():
    assert len(TEXT.splitlines()) <= 110
    for page in (ROOT / "docs").glob("*.md"):
        assert len(page.read_text(encoding="utf-8").split()) <= 1200, page


def test_links_lead_somewhere():
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), ROOT / "experiments" / "REPORT.md"]
    for page in pages:
        for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in link:
                assert (page.parent / link).exists(), (page.name, link)
