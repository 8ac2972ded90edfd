"""The published site: its addresses, and an audit of its accessibility."""

import os
from pathlib import Path

import pytest

pytest.importorskip("docutils", reason="the book is built with it")
from docs.book import address
from tests.tools import chromium, workflow

ROOT = Path(__file__).resolve().parents[2]
ADDRESSES = {"Source": "https://github.com/someone/npdl", "Site": "https://someone.github.io/npdl"}
# One page of each kind.
LOOKED_AT = ("index.html", "chapters/06-lstm.html", "chapters/10-attention.html",
             "guide/find-your-way.html", "docs/study-tools.html", "api/index.html",
             "source/npdl.layers.recurrent.html", "report/REPORT.html", "search.html",
             "steps/LSTMCell.html")


@pytest.fixture(params=[{}, ADDRESSES], ids=["nowhere", "somewhere"])
def urls(request, monkeypatch):
    monkeypatch.setattr(address, "urls", lambda: request.param)
    return request.param


def test_a_source_and_a_notebook_are_linked_where_they_are(urls):
    assert ("/blob/main/npdl/core.py" in address.at_source("npdl/core.py")) == bool(urls)
    assert ("/blob/main/npdl/core.py#L3" in address.at_source("npdl/core.py", 3)) == bool(urls)
    assert ("colab.research.google.com/github/someone/npdl/blob/gh-pages/notebooks/06-lstm.ipynb"
            in address.in_colab("06-lstm")) == bool(urls)
    assert bool(address.wheel("npdl.whl")) == bool(urls)


def test_the_workflows_run_what_is_run_here():
    """Each command of theirs is one of the README's, or of .ci/run, which takes it from there."""
    known = (ROOT / "README.md").read_text() + (ROOT / ".ci" / "run").read_text()
    install, test, _ = workflow.steps("tests").values()
    assert install.removeprefix("python -m ") in known and test in known
    for name in ("tests Train", "site", "release"):
        assert f"tests.tools.workflow {name} | " in known
        assert len(workflow.steps(name.split()[0])) == 3


@pytest.mark.slow
@pytest.mark.skipif(chromium.find() is None, reason="no browser")
@pytest.mark.skipif("NPDL_AXE" not in os.environ, reason="NPDL_AXE names no axe.min.js of axe-core")
def test_an_audit_of_accessibility_finds_nothing_serious(site):
    """By axe-core, in both modes: what keeps somebody out."""
    axe = Path(os.environ["NPDL_AXE"]).read_text(encoding="utf-8")
    found = {}
    with chromium.browser() as page:
        for name in LOOKED_AT:
            for dark in (False, True):
                page.dark(dark)
                page.open((site / name).as_uri(), "document.readyState == 'complete'")
                page.value(f"{axe};window.done = null;"
                           "axe.run().then(r => { window.done = r.violations.map(v => "
                           "[v.impact, v.id, v.nodes.length, v.nodes[0].html.slice(0, 200)]) });0")
                page.wait("window.done !== null", 120)
                for impact, *what in page.value("window.done"):
                    if impact in ("serious", "critical"):
                        found.setdefault(tuple(what[:1]), []).append((name, dark, *what[1:]))
    assert found == {}
