"""The README's programs run, its code is the library's, and its links resolve."""

import contextlib
import io
import re
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", TEXT, re.M | re.S)
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")),
         *sorted((ROOT / "exercises").glob("*.md")), *sorted((ROOT / "experiments").glob("*.md"))]


def block(words):
    return next(text for text in BLOCKS if words in text)


def test_printed_backward_is_the_librarys():
    file = (ROOT / "npdl" / "layers" / "layer_norm.py").read_text(encoding="utf-8")
    assert textwrap.indent(block("def backward(self, dy, cache):"), "    ") in file


def test_training_loop_learns_and_saves(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out, names = io.StringIO(), {}
    with contextlib.redirect_stdout(out):
        exec(compile(block("optimizer.step()"), "README.md", "exec"), names)
    loss, accuracy = map(float, out.getvalue().split())
    assert loss < 0.1 and accuracy == 1
    W = names["model"].state_dict()["embedding.W"].copy()
    names["model"].embedding.W.data[:] = 0
    names["model"].load("gpt.safetensors")
    assert (names["model"].embedding.W.data == W).all()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_resolve(page):
    for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert "://" in link or (page.parent / link).exists(), link
