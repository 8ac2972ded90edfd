"""The programs and links of the README and of the package's page; version numbers agree."""

import re
import textwrap
import tomllib
from pathlib import Path

import pytest

import npdl

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", TEXT, re.M | re.S)
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")),
         *sorted((ROOT / "exercises").glob("*.md")), *sorted((ROOT / "experiments").glob("*.md"))]
PAGE = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"]["readme"]["text"]


def find_code_block(words):
    return next(text for text in BLOCKS if words in text)


def test_printed_backward_is_the_librarys():
    file = (ROOT / "npdl" / "layers" / "layer_norm.py").read_text(encoding="utf-8")
    assert textwrap.indent(find_code_block("def backward(self, dy, cache):"), "    ") in file


def test_training_loop_learns_and_saves(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(compile(find_code_block("optimizer.step()"), "README.md", "exec"), names)
    loss, accuracy = map(float, capsys.readouterr().out.split())
    assert loss < 0.1 and accuracy == 1
    W = names["model"].state_dict()["embedding.W"].copy()
    names["model"].embedding.W.data[:] = 0
    names["model"].load("gpt.safetensors")
    assert (names["model"].embedding.W.data == W).all()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_resolve(page):
    for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert "://" in link or (page.parent / link).exists(), link


def test_changes_and_citation_are_of_this_version():
    changes, citation = ((ROOT / name).read_text() for name in ("CHANGELOG.md", "CITATION.cff"))
    last = re.search(r"^## (\d\S*)(?: - (\S+))?$", changes, re.M).groups()
    cited = [re.search(rf"^{key}: (\S+)$", citation, re.M)[1] for key in (
        "version", "date-released")]
    assert last == tuple(cited) and last[0] == npdl.__version__


def test_the_package_page_has_absolute_links_and_code_that_runs(capsys):
    assert not re.search(r"\]\((?!https://)", PAGE)       # on PyPI, a relative link leads nowhere
    exec(re.search(r"```python\n(.*?)```", PAGE, re.S)[1], {})
    assert "W_x" in capsys.readouterr().out
