"""What is given away: one version everywhere, a page that stands alone, what the archive has."""

import contextlib
import io
import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest

import npdl

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PAGE = PROJECT["readme"]["text"]


def test_changes_and_citation_are_of_this_version():
    changes, citation = ((ROOT / name).read_text() for name in ("CHANGELOG.md", "CITATION.cff"))
    last = re.search(r"^## (\d\S*)(?: - (\S+))?$", changes, re.M).groups()
    cited = [re.search(rf"^{key}: (\S+)$", citation, re.M)[1] for key in (
        "version", "date-released")]
    assert last == tuple(cited) and last[0] == npdl.__version__


def test_the_page_of_the_package():
    assert not re.search(r"\]\((?!https://)", PAGE)       # a relative link leads nowhere from there
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(re.search(r"```python\n(.*?)```", PAGE, re.S)[1], {})
    assert "W_x" in said.getvalue()


def test_the_archive_of_the_source(tmp_path):
    pytest.importorskip("hatchling")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", tmp_path],
                   cwd=ROOT, check=True, capture_output=True)
    with tarfile.open(next(tmp_path.iterdir())) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"npdl/core.py", "pyproject.toml", "requirements.txt", "LICENSE", "README.md",
            "tests/conftest.py", "docs/trust.md", "experiments/REPORT.md"} <= names
