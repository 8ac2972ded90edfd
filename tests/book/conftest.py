"""Build the whole site once for all tests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """Return the folder of a new site: NPDL_SITE if it is set, or else a folder built here."""
    for name in ("sphinx", "furo", "myst_parser", "nbformat", "ziamath"):
        pytest.importorskip(name)
    if "NPDL_SITE" in os.environ:
        return Path(os.environ["NPDL_SITE"])
    out = tmp_path_factory.mktemp("book") / "site"
    done = subprocess.run([sys.executable, "-m", "docs.book", "--out", str(out)], text=True,
                          capture_output=True, cwd=Path(__file__).resolve().parents[2])
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stdout + done.stderr
    return out
