"""The finished site: its links, its pages in a browser, its accessibility, its notebooks."""

import json
import os
import posixpath
import re
import shutil
import time
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest

pytest.importorskip("docutils")

from npdl import backend
from tests.tools import chromium, device, workflow

ROOT = Path(__file__).resolve().parents[2]
WRITTEN = ROOT / "docs" / "book" / "notebooks"

# One page of each kind.
LOOKED_AT = ("index.html", "chapters/06-lstm.html", "chapters/10-attention.html",
             "guide/find-your-way.html", "docs/study-tools.html", "api/index.html",
             "source/npdl.layers.recurrent.html", "report/REPORT.html", "search.html",
             "steps/LSTMCell.html")
CUT = """[...document.querySelectorAll('.equation math, .source .formula')].filter(
    m => m.scrollWidth > m.clientWidth + 1).map(m => m.textContent)"""
OPEN = "document.querySelectorAll('details:not(.step)').forEach(fold => { fold.open = true; })"
SMALLEST_LABEL = """(labels => labels.length ? Math.min(...labels) : null)([
    ...document.querySelectorAll('figure.picture text')].map(label => parseFloat(
    getComputedStyle(label).fontSize) * label.ownerSVGElement.getScreenCTM().a))"""


def read_pages(site):
    """{path from the site: text} of the pages that Sphinx made."""
    return {str(p.relative_to(site)): p.read_text(encoding="utf-8") for p in sorted(
        site.rglob("*.html")) if p.parts[len(site.parts)] not in ("_static", "steps")}


@pytest.mark.slow
def test_links_are_alive_and_nothing_comes_from_elsewhere(site):
    pages = read_pages(site)
    ids = {name: set(re.findall(r'\bid="([^"]+)"', text)) for name, text in pages.items()}
    for name, text in pages.items():
        for tag, target in re.findall(r'<(\w+)\b[^>]*?\b(?:href|src)="([^"]+)"', text):
            url = urlsplit(target.replace("&amp;", "&"))
            if url.scheme or url.netloc:                # a link to another site
                assert tag == "a" or url.scheme == "data", f"{name} loads {target[:80]}"
                continue
            path = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(url.path)))
            at = name if not url.path else path
            assert (site / at).is_file(), f"{name}: {target}"
            if url.fragment and at in ids and at.endswith(".html"):
                assert unquote(url.fragment) in ids[at], f"{name}: {target}"


@pytest.mark.slow
@pytest.mark.skipif(chromium.find_browser() is None, reason="no browser")
def test_every_page_in_a_browser(site):
    """No word on the console, no request elsewhere, formulas as such, nothing wider than the
    window, in four looks."""
    with chromium.open_page() as page:
        for name in sorted(str(p.relative_to(site)) for p in site.rglob("steps/*.html")):
            page.open((site / name).as_uri())           # ready when its last line has run
            assert page.complaints == [], (name, page.complaints)
        for name, text in read_pages(site).items():
            assert "&lt;no title&gt;" not in text and text.count("<h1") == 1, name
            looks = [(width, dark) for width in (1330, 390) for dark in (False, True)]
            if not name.startswith("chapters/"):
                looks = looks[3:] if name.startswith("source/") else looks[::3]
            for width, dark in looks:
                page.resize(width, 900, mobile=width < 600)
                page.set_dark(dark)
                page.open((site / name).as_uri(), "document.readyState == 'complete'")
                assert page.complaints == [], (name, page.complaints)
                wide = page.evaluate("document.documentElement.scrollWidth")
                assert wide <= width + 1, f"{name} is {wide} wide in a window of {width}"
            if name.startswith("chapters/"):
                shown = page.evaluate("[...document.querySelectorAll('.equation math')].map("
                                   "m => m.getBoundingClientRect()).filter(r => r.height > 8 "
                                   f"&& r.right < {width}).length")
                assert 0 < shown == page.evaluate(
                    "document.querySelectorAll('.equation math').length")
                page.evaluate(OPEN)
                cut = page.evaluate(CUT)
                assert cut == [], (name, width, cut)
                small = page.evaluate(SMALLEST_LABEL)
                assert small is None or small >= 11, (name, width, small)
                colours = page.evaluate("[getComputedStyle(document.body).backgroundColor, "
                                     "getComputedStyle(document.body).color].join()")
                assert colours.count("rgb") == 2 and "rgb(255" not in colours.split("),")[0]
        page.open((site / "chapters/06-lstm.html").as_uri(), "document.readyState == 'complete'")
        page.evaluate("(d => { d.open = true; d.scrollIntoView(); })("
                   "document.querySelector('details.step'))")
        end = time.time() + 20
        while not any(url.endswith("/steps/LSTMCell.html") for url in page.requests):
            assert time.time() < end, page.requests[-3:]
            page.evaluate("1")
        assert page.complaints == []
        assert {urlsplit(url).scheme for url in page.requests} <= {"file", "data", "blob", "about"}


@pytest.mark.slow
def test_every_notebook_runs(site, tmp_path):
    """From a folder of its own, with npdl installed, from the first cell to the last, the blanks
    filled from the solutions."""
    nbclient = pytest.importorskip("nbclient")
    import nbformat

    from docs.book.notebooks import fill_in_solutions

    found = sorted((site / "notebooks").glob("*.ipynb"))
    assert len(found) == 17
    for path in found:
        nbformat.validate(nbformat.read(path, 4))
        made = nbformat.reads(fill_in_solutions(path.read_text(encoding="utf-8")), 4)
        shutil.copy(path, tmp_path)
        nbclient.NotebookClient(made, timeout=300, kernel_name="python3",
                                resources={"metadata": {"path": str(tmp_path)}}).execute()


def test_the_training_notebook_on_a_device(monkeypatch):
    """Its lines run where arrays do not mix with the host's, as on a GPU."""
    monkeypatch.setattr("matplotlib.pyplot.show", lambda: None)
    cells = json.loads((WRITTEN / "train-and-look.ipynb").read_text())["cells"]
    script = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    space = {}
    with device.cupy_or_numpy(), backend.using("cupy"):
        exec(script.replace("range(200)", "range(20)"), space)
        assert type(space["model"].decoder.blocks[0].ffn.up.W.data) is backend.xp.ndarray
    assert space["maps"].shape == (2, 6, 6) and np.abs(space["maps"].sum(-1) - 1).max() < 1e-5


def test_the_workflows_run_what_is_run_here():
    """Each command of theirs is one of the README's, or of .ci/run, which takes it from there."""
    known = (ROOT / "README.md").read_text() + (ROOT / ".ci" / "run").read_text()
    install, test, _ = workflow.read_steps("tests").values()
    assert install.removeprefix("python -m ") in known and test in known
    for name in ("tests Train", "site", "release"):
        assert f"tests.tools.workflow {name} | " in known
        assert len(workflow.read_steps(name.split()[0])) == 3


@pytest.mark.slow
@pytest.mark.skipif(chromium.find_browser() is None, reason="no browser")
@pytest.mark.skipif("NPDL_AXE" not in os.environ, reason="NPDL_AXE names no axe.min.js of axe-core")
def test_an_audit_of_accessibility_finds_nothing_serious(site):
    """By axe-core, in both modes: what keeps somebody out."""
    axe = Path(os.environ["NPDL_AXE"]).read_text(encoding="utf-8")
    found = {}
    with chromium.open_page() as page:
        for name in LOOKED_AT:
            for dark in (False, True):
                page.set_dark(dark)
                page.open((site / name).as_uri(), "document.readyState == 'complete'")
                page.evaluate(f"{axe};window.done = null;"
                           "axe.run().then(r => { window.done = r.violations.map(v => "
                           "[v.impact, v.id, v.nodes.length, v.nodes[0].html.slice(0, 200)]) });0")
                page.wait("window.done !== null", 120)
                for impact, *what in page.evaluate("window.done"):
                    if impact in ("serious", "critical"):
                        found.setdefault(tuple(what[:1]), []).append((name, dark, *what[1:]))
    assert found == {}
