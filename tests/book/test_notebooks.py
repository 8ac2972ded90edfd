"""The notebooks' first cell, and the wheel beside them."""

import contextlib
import io
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
from docs.book.chapter import BookError
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
    assert (done.returncode, done.stdout) == (0, f"pip install -q {WHEEL}[train]\n"), done.stderr
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(install(), {})                             # here npdl is
    assert said.getvalue() == ""


@pytest.mark.parametrize("page, link", [("index", "notebooks/"), ("teachers", "../notebooks/"),
                                        ("find-your-way", "../notebooks/")])
def test_the_pages_that_say_how_to_install(tmp_path, page, link):
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
