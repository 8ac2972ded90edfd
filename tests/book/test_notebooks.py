"""The first cell of the notebooks, the wheel next to them, and their blanks."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("docutils")
nbformat = pytest.importorskip("nbformat")

from docs.book import notebooks
from docs.book.chapter import BookError, list_chapters, read_chapter
from docs.book.notebooks import INSTALL, WHEEL

ROOT = Path(__file__).resolve().parents[2]
IPYTHON = """
class Shell:
    run_line_magic = staticmethod(print)
get_ipython = Shell
"""


def first_cell(folder, before=""):
    """Run the first cell of a notebook where nothing is installed."""
    return subprocess.run([sys.executable, "-I", "-S", "-c", before + INSTALL], cwd=folder,
                          capture_output=True, text=True)


def test_a_notebook_without_npdl_asks_for_the_wheel(tmp_path):
    done = first_cell(tmp_path)
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("npdl is missing: ")
    assert f"put {WHEEL}" in done.stderr and str(tmp_path) in done.stderr


def test_a_notebook_installs_the_wheel_beside_it_and_nothing_else(tmp_path, capsys):
    (tmp_path / WHEEL).touch()
    done = first_cell(tmp_path, IPYTHON)
    assert (done.returncode, done.stdout) == (0, f"pip install -q '{WHEEL}[train]'\n"), done.stderr
    exec(INSTALL, {})                                   # here npdl is installed
    assert capsys.readouterr().out == ""


def test_the_wheel_holds_every_file_of_npdl(tmp_path, monkeypatch):
    pytest.importorskip("hatchling")
    notebooks.build_wheel(tmp_path)
    with zipfile.ZipFile(tmp_path / WHEEL) as wheel:
        names = {name: wheel.read(name) for name in wheel.namelist()}
    assert {name for name in names if name.startswith("npdl/")} == {
        p.relative_to(ROOT).as_posix() for p in (ROOT / "npdl").rglob("*")
        if p.is_file() and "__pycache__" not in p.parts}
    monkeypatch.setattr(notebooks, "ROOT", tmp_path)
    with pytest.raises(BookError, match=f"{WHEEL} could not be built"):
        notebooks.build_wheel(tmp_path / "empty")


@pytest.mark.parametrize("chapter", [
    chapter if chapter.number in (1, 6) else pytest.param(chapter, marks=pytest.mark.slow)
    for chapter in map(read_chapter, list_chapters()) if notebooks.find_exercise(chapter)],
    ids=lambda one: one.name)
def test_a_notebook_asks_for_a_backward_and_knows_when_it_is_right(chapter):
    """The blank raises an error, and the solution does not. No cell needs the repository."""
    made = notebooks.make_notebooks([chapter])
    assert not any("docs.book" in cell.source for one in made.values() for cell in one.cells)
    text = nbformat.writes(made[chapter.name])
    for notebook, right in ((text, False), (notebooks.fill_in_solutions(text), True)):
        cells = json.loads(notebook)["cells"]
        at = next(n for n, cell in enumerate(cells) if "solution" in cell["metadata"])
        setup, blank, check = ("".join(cells[n]["source"]) for n in (2, at, at + 1))
        space = {}
        exec(setup, space)
        exec(blank, space)
        if right:
            exec(check, space)
        else:
            with pytest.raises(AssertionError, match="your backward of"):
                exec(check, space)
