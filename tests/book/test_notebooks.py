"""The notebooks' first cell, and the wheel beside them."""

import contextlib
import io
import json
import re
import subprocess
import sys
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

pytest.importorskip("docutils")
pytest.importorskip("pygments")

import npdl
from docs.book import notebooks
from docs.book.chapter import BookError, paths, read
from docs.book.notebooks import WHEEL, install
from docs.book.site import Site

ROOT = Path(__file__).resolve().parents[2]
IPYTHON = """
class Shell:
    run_line_magic = staticmethod(print)
get_ipython = Shell
"""


def first_cell(folder, before="", needed="npdl"):
    """The first cell of a notebook, run where nothing is installed."""
    return subprocess.run([sys.executable, "-I", "-S", "-c", before + install(needed)], cwd=folder,
                          capture_output=True, text=True)


@pytest.mark.parametrize("needed", ["npdl", "matplotlib"])
def test_a_notebook_without_what_it_needs_asks_for_the_wheel(tmp_path, needed):
    done = first_cell(tmp_path, needed=needed)
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith(f"{needed} is missing: ")
    assert f"put {WHEEL}" in done.stderr and str(tmp_path) in done.stderr


def test_a_notebook_installs_the_wheel_beside_it_and_nothing_else(tmp_path):
    (tmp_path / WHEEL).touch()
    done = first_cell(tmp_path, IPYTHON)
    assert (done.returncode, done.stdout) == (0, f"pip install -q '{WHEEL}[train]'\n"), done.stderr
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(install(), {})                             # here npdl is
    assert said.getvalue() == ""


@pytest.mark.parametrize("page, link", [("index", "notebooks/"), ("teachers", "../notebooks/"),
                                        ("find-your-way", "../notebooks/")])
def test_the_pages_that_say_how_to_install(tmp_path, monkeypatch, page, link):
    monkeypatch.setattr("docs.book.site.front.filled", str)     # what is to be looked at: drawn
    site = Site(tmp_path / "pages", tmp_path / "extra")
    site.notebooks = {}
    origin = f"docs/book/pages/{page}.md"
    text = (ROOT / origin).read_text(encoding="utf-8")
    site.wheel = True
    shown = site._filled(text, origin)
    assert f'<a href="{link}{WHEEL}" download>' in shown and "VERSION" not in shown
    site.wheel = False
    assert f"`{WHEEL}` (in the folder of npdl's source, " in site._filled(text, origin)


def test_the_wheel(tmp_path, monkeypatch):
    pytest.importorskip("hatchling")
    assert notebooks.write_wheel(tmp_path)
    with zipfile.ZipFile(tmp_path / WHEEL) as wheel:
        names = {name: wheel.read(name) for name in wheel.namelist()}
    assert {name for name in names if name.startswith("npdl/")} == {
        p.relative_to(ROOT).as_posix() for p in (ROOT / "npdl").rglob("*")
        if p.is_file() and "__pycache__" not in p.parts}
    about = message_from_bytes(next(text for name, text in names.items()
                                    if name.endswith("METADATA")))
    assert (about["Version"], about["Project-URL"]) == (npdl.__version__, None)
    assert "python -m npdl step" in about.get_payload()
    monkeypatch.setattr(notebooks, "ROOT", tmp_path)
    with pytest.raises(BookError, match=f"{WHEEL} is not built"):
        notebooks.write_wheel(tmp_path / "empty")


def test_without_hatchling_there_is_no_wheel(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "hatchling", None)
    assert not notebooks.write_wheel(tmp_path) and not any(tmp_path.iterdir())


CHAPTERS = [read(path) for path in paths()]
ASKING = [chapter for chapter in CHAPTERS if notebooks.asks_for(chapter)]


@pytest.mark.parametrize("chapter", [
    chapter if chapter.number in (1, 6, 9) else pytest.param(chapter, marks=pytest.mark.slow)
    for chapter in ASKING], ids=lambda chapter: chapter.name)
def test_a_notebook_asks_for_a_backward_and_knows_when_it_is_right(chapter):
    """At the blank it fails; with the solution in it, it does not."""
    pytest.importorskip("jupytext")
    known = {label: one for one in CHAPTERS for label in one.equations}
    text = notebooks.notebook(notebooks.chapter_script(chapter, known))
    for made, right in ((text, False), (notebooks.filled(text), True)):
        cells = json.loads(made)["cells"]
        at = next(n for n, cell in enumerate(cells) if "blank" in cell["metadata"].get("tags", ()))
        setup, blank, check = ("".join(cells[n]["source"]) for n in (2, at, at + 1))
        space = {}
        exec(setup, space)
        exec(blank, space)
        if right:
            exec(check, space)
        else:
            with pytest.raises(AssertionError, match="your backward of"):
                exec(check, space)


def test_hints_come_one_by_one_and_the_solution_last():
    chapter = next(one for one in CHAPTERS if one.number == 6)
    known = {label: one for one in CHAPTERS for label in one.equations}
    text = notebooks.chapter_script(chapter, known)
    hints = [int(n) for n in re.findall(r"<summary>Hint (\d+) of 16<", text)]
    assert hints == list(range(1, 17))
    assert text.rindex("<summary>Hint") < text.index("<summary>The solution<")


def test_pictures_are_outputs():
    pytest.importorskip("jupytext")
    known = {label: one for one in CHAPTERS for label in one.equations}
    made = json.loads(notebooks.notebook(notebooks.chapter_script(CHAPTERS[5], known)))
    drawn = [output["data"]["image/svg+xml"] for cell in made["cells"]
             for output in cell.get("outputs", ())]
    assert len(drawn) == 3          # the trained model, the sliders, the diagram of the cell
    assert all("".join(picture).startswith("<svg ") for picture in drawn)
    assert "data:image" not in json.dumps(made)


BUILD = """
import sys
sys.modules["hatchling"] = None
from docs.book.__main__ import main
sys.exit(main(["--only", "1", "--out", sys.argv[1]]))
"""


@pytest.mark.slow
def test_the_book_is_built_without_a_wheel_and_says_so(tmp_path):
    for name in ("sphinx", "furo", "myst_parser", "jupytext", "ziamath"):
        pytest.importorskip(name)
    done = subprocess.run([sys.executable, "-c", BUILD, str(tmp_path / "site")], cwd=ROOT,
                          capture_output=True, text=True)
    assert done.returncode == 0 and (tmp_path / "site" / "notebooks" / "01-linear.ipynb").exists()
    assert done.stdout.splitlines()[-1] == (
        f"no wheel: pip install hatchling and build again, or put {WHEEL} into "
        f"{tmp_path / 'site' / 'notebooks'}")
