"""What README.md prints is what the project does."""

import contextlib
import io
import re
from pathlib import Path

from tests.tools.trace_table import layers

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", TEXT, re.M | re.S)


def test_the_lstms_backward_stands_in_the_file():
    assert BLOCKS[0] in (ROOT / "npdl" / "layers" / "recurrent.py").read_text()


def test_the_training_loop_runs_learns_and_saves(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out, made = io.StringIO(), {}
    with contextlib.redirect_stdout(out):
        exec(compile(BLOCKS[1], "README.md", "exec"), made)
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
