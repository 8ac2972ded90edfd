"""The site where it is published: under a folder of a server, its addresses, for every reader."""

import contextlib
import functools
import http.server
import json
import os
import re
import threading
from pathlib import Path
from urllib.parse import urlsplit
from xml.etree import ElementTree

import pytest

pytest.importorskip("docutils", reason="the book is built with it")
from docs.book import address, api, front
from docs.book.site import Site
from tests.tools import chromium, workflow

ROOT = Path(__file__).resolve().parents[2]
ADDRESSES = {"Source": "https://github.com/someone/npdl", "Site": "https://someone.github.io/npdl",
             "DOI": "https://doi.org/10.5281/zenodo.1"}
# One page of each kind.
LOOKED_AT = ("index.html", "chapters/06-lstm.html", "chapters/10-attention.html",
             "guide/find-your-way.html", "docs/study-tools.html", "api/index.html",
             "source/npdl.layers.recurrent.html", "report/REPORT.html", "search.html",
             "steps/LSTMCell.html")


@pytest.fixture(params=[{}, ADDRESSES], ids=["nowhere", "somewhere"])
def urls(request, monkeypatch):
    monkeypatch.setattr(address, "urls", lambda: request.param)
    return request.param


def test_what_is_written_by_hand_has_the_addresses_of_the_one_place():
    for path, text in address.written().items():
        assert path.read_text(encoding="utf-8") == text, f"run python -m docs.book.address: {path}"


def test_a_page_says_what_it_is_and_where(urls):
    found = address.tags('The "LSTM"', "It remembers. " * 30, "chapters/06-lstm.html")
    elements = ElementTree.fromstring("<head>" + re.sub(r"(<(?:meta|link)[^>]*)>", r"\1/>", found)
                                      + "</head>")
    named = {e.get("name") or e.get("property") or e.get("rel"): e.get("content") or e.get("href")
             for e in elements}
    assert len(named["description"]) <= 160 and named["description"].endswith("remembers. It …")
    assert named["og:title"] == 'The "LSTM"'
    at = "https://someone.github.io/npdl/chapters/06-lstm.html" if urls else None
    assert named.get("canonical") == named.get("og:url") == at
    assert ("og:image" in named) == bool(urls)


def test_the_citation_and_the_badges(urls):
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    found = address.cited(address.cited(text))
    assert ('repository-code: "https://github.com/someone/npdl"\n' in found) == bool(urls)
    assert ('doi: "10.5281/zenodo.1"\n' in found) == bool(urls)
    assert found.count("\nurl: ") == bool(urls)
    assert address.badges().count("](") == 4 * bool(urls)


def test_a_source_and_a_notebook_are_linked_where_they_are(urls):
    assert ("/blob/main/npdl/core.py" in address.at_source("npdl/core.py")) == bool(urls)
    assert ("/blob/main/npdl/core.py#L3" in address.at_line("npdl/core.py", 3)) == bool(urls)
    assert ("colab.research.google.com/github/someone/npdl/blob/gh-pages/notebooks/06-lstm.ipynb"
            in address.in_colab("06-lstm")) == bool(urls)
    assert bool(address.wheel("npdl.whl")) == bool(urls)


def test_a_page_of_the_reference_leads_to_the_line_of_each_class(urls):
    name, file = "npdl.layers.layer_norm", "npdl/layers/layer_norm.py"
    line = (ROOT / file).read_text().splitlines().index("class RMSNorm(Layer):") + 1
    made = Site._api(None, api.pages()[name])
    assert f'<a href="../source/{name}.html#line-{line}">Line {line}</a>' in made
    assert (f"/blob/main/{file}#L{line}" in made) == bool(urls)


def test_the_first_page_shows_three_things():
    """A backward, mistakes, and a run: from what is kept, or made as the page is built."""
    page = (ROOT / "docs" / "book" / "pages" / "index.md").read_text(encoding="utf-8")
    assert [mark for mark in front.PARTS if mark not in page] == []
    shown = front.filled("<!-- grokking -->")
    run = json.loads(re.search(r'application/json">(.*?)</script>', shown)[1])
    assert len(run["at"]) == len(run["places"]) > 40 and len(run["places"][0]) == run["p"]
    assert run["at"][-1] == len(run["step"]) - 1 == len(run["validation_accuracy"]) - 1


def test_what_a_host_and_a_search_engine_read(urls, tmp_path):
    (tmp_path / "chapters").mkdir()
    for name in ("index.html", "chapters/06-lstm.html"):
        (tmp_path / name).write_text("<p>")
    address.finish(tmp_path)
    assert (tmp_path / ".nojekyll").exists()
    assert ("https://someone" in (tmp_path / "404.html").read_text()) == bool(urls)
    assert ("Sitemap: https://" in (tmp_path / "robots.txt").read_text()) == bool(urls)
    assert (tmp_path / "sitemap.xml").exists() == bool(urls)
    if urls:
        entries = ElementTree.parse(tmp_path / "sitemap.xml").getroot()
        assert [entry[0].text for entry in entries] == [
            f"https://someone.github.io/npdl/{name}" for name in (
                "chapters/06-lstm.html", "index.html")]


def test_the_workflows_run_what_is_run_here():
    """Each command of theirs is one of the README's, or of .ci/run, which takes it from there."""
    known = (ROOT / "README.md").read_text() + (ROOT / ".ci" / "run").read_text()
    install, test, _ = workflow.steps("tests").values()
    assert install.removeprefix("python -m ") in known and test in known
    for name in ("tests Train", "site", "release"):
        assert f"tests.tools.workflow {name} | " in known
        assert len(workflow.steps(name.split()[0])) == 3


@contextlib.contextmanager
def served(site, under="/npdl/"):
    """The address of the site below a folder of a server; paths asked for outside of it."""
    outside = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def translate_path(self, path):
            if not path.startswith(under):
                outside.append(path)
                return str(site / "nowhere")
            return super().translate_path("/" + path.removeprefix(under))

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0),
                                             functools.partial(Handler, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}{under}", outside
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.slow
@pytest.mark.skipif(chromium.find() is None, reason="no browser")
def test_below_a_folder_of_a_server_nothing_is_asked_for_elsewhere(site):
    with served(site) as (at, outside), chromium.browser() as page:
        for name in (*LOOKED_AT, "404.html"):
            page.open(at + name, "document.readyState == 'complete'")
            assert page.value("!!document.querySelector('link[rel~=icon]')"), name
            assert page.value("!!document.querySelector('meta[name=description]')"
                              ) or name == "404.html", name
            assert page.complaints == [], (name, page.complaints)
        page.open(at + "index.html", "document.readyState == 'complete'")
        weight = page.value("performance.getEntries().reduce("
                            "(n, e) => n + (e.encodedBodySize || 0), 0)")
        painted = page.value("performance.getEntriesByName('first-contentful-paint')[0]?.startTime")
        print(f"the first page: {weight / 1e3:.0f} kB, painted after {painted or 0:.0f} ms")
        assert weight < 1_000_000
    own = urlsplit(at)
    assert set(outside) <= {"/favicon.ico"}
    assert {urlsplit(url).netloc for url in page.requests if url.startswith("http")} == {own.netloc}


@pytest.mark.slow
@pytest.mark.skipif(chromium.find() is None, reason="no browser")
@pytest.mark.skipif("NPDL_AXE" not in os.environ, reason="NPDL_AXE names no axe.min.js of axe-core")
def test_an_audit_of_accessibility_finds_nothing_serious(site):
    """By axe-core, in both modes: what keeps somebody out."""
    axe = Path(os.environ["NPDL_AXE"]).read_text(encoding="utf-8")
    found = {}
    with served(site) as (at, _), chromium.browser() as page:
        for name in LOOKED_AT:
            for dark in (False, True):
                page.dark(dark)
                page.open(at + name, "document.readyState == 'complete'")
                page.value(f"{axe};window.done = null;"
                           "axe.run().then(r => { window.done = r.violations.map(v => "
                           "[v.impact, v.id, v.nodes.length, v.nodes[0].html.slice(0, 200)]) });0")
                page.wait("window.done !== null", 120)
                for impact, *what in page.value("window.done"):
                    if impact in ("serious", "critical"):
                        found.setdefault(tuple(what[:1]), []).append((name, dark, *what[1:]))
    assert found == {}
