"""What is given away: one version everywhere and a page that stands alone."""

import contextlib
import io
import re
import tomllib
from pathlib import Path

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
