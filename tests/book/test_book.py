"""The book: every equation's check, every line's citation, what must break a build; the site."""

import dataclasses
import os
import posixpath
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit
from xml.etree import ElementTree

import numpy as np
import pytest

pytest.importorskip("docutils")
pytest.importorskip("pygments")

from docs.book import chapter as chapters
from docs.book import checks, frame, graphs, opening, sources, trained
from docs.book.chapter import BookError, complete, every_equation, read
from docs.book.formulas import in_parts, mathml
from docs.book.frame import step_names
from docs.book.mistakes import blamed, mistakes
from docs.book.notebooks import filled
from docs.book.pictures import PICTURES
from docs.book.proofs import proof
from docs.book.render import Page, on_one_line
from docs.book.solved import asked
from docs.book.unicode import HIGH, LOW, mathematics
from exercises import lookup
from exercises.framework import solutions_of
from npdl import Block, LSTMCell, backend
from npdl import step as npdl_step
from npdl.__main__ import COMMANDS
from npdl_study.homework.assignment import homework
from tests.book import printed_signs
from tests.tools import chromium, device

ROOT = Path(__file__).resolve().parents[2]
PATHS = chapters.paths()
NAMES = [path.stem for path in PATHS]


@pytest.mark.parametrize("path", [       # the slowest is tried when the book is built
    pytest.param(path, marks=pytest.mark.slow) if "grokking" in path.stem else path
    for path in PATHS], ids=NAMES)
def test_equations_hold_and_are_cited_by_the_source(path):
    chapter = read(path)
    complete(chapter)
    assert set(checks.run(chapter)) == {*chapter.equations, *chapter.formulas}
    for part in chapter.directives("equation"):
        assert mathml(part.body, block=True).startswith("<math")
    assert {"model", "sum", "ask"} <= {part.name for part in chapter.parts}
    for part in chapter.directives("model", "sum", "ask"):
        OPENED[part.name](chapter, part)
    for part in chapter.directives("source"):
        assert sources.cited(chapter, part).lines
    for part in chapter.directives("proof"):
        assert all(map(proof, part.given.split()))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_change_of_a_printed_equation_is_noticed(capsys):
    """Of three chapters here; `python -m tests.book.printed_signs` does all."""
    assert printed_signs.main(["--only", "1", "3", "6"]) == 0
    tried, equations, noticed, true, lost = map(int, re.findall(
        r"\d+", capsys.readouterr().out))
    assert tried == noticed + true > 600 and equations > 40 and true < 10 and lost == 0


def test_the_pages_by_hand_claim_no_formula():
    """What a page says in formulas stands in a chapter, and is checked there."""
    for page in (ROOT / "docs" / "book" / "pages").glob("*.md"):
        assert list(chapters.claims(page.read_text(encoding="utf-8"))) == [], page.name


def test_every_equation_is_cited():
    found = every_equation([read(path) for path in PATHS])
    cited = set().union(*(read(path).cited for path in PATHS))
    assert cited == set(found)


@pytest.mark.parametrize("path", PATHS, ids=NAMES)
def test_no_formula_is_cut_where_a_list_could_begin(path):
    cut = re.compile(r"\$[^$\n]*\n([-+*>] |\d+[.)] |#)[^$\n]*\$")
    assert not cut.search(path.read_text(encoding="utf-8"))


def test_the_chapters_are_numbered_and_their_pictures_are_theirs():
    assert [int(name[:2]) for name in NAMES] == list(range(1, len(NAMES) + 1))
    assert set(PICTURES) <= set(NAMES)


def test_every_model_is_shown_once():
    shown = [part.given for path in PATHS for part in read(path).directives("model")]
    assert sorted(shown) == sorted(trained.MODELS)
    assert {path.stem for path in trained.DATA.glob("*")} == set(trained.MODELS)


def apart(kept, made, name=""):
    """Where two records differ by more than rounding and a little drift."""
    if isinstance(kept, dict):
        assert kept.keys() == made.keys(), name
        return [one for key in kept for one in apart(kept[key], made[key], f"{name}.{key}")]
    if isinstance(kept, list):
        assert len(kept) == len(made), name
        return [one for n, pair in enumerate(zip(kept, made, strict=True))
                for one in apart(*pair, f"{name}[{n}]")]
    if isinstance(kept, float):
        return [] if abs(kept - made) <= 0.02 + 0.01 * abs(kept) else [(name, kept, made)]
    return [] if kept == made else [(name, kept, made)]


@pytest.mark.parametrize("name", [
    name if name in ("thermometers", "bends", "week", "valley") else
    pytest.param(name, marks=pytest.mark.slow) for name in trained.MODELS])
def test_what_is_kept_of_a_model_is_what_its_training_leaves(name):
    assert apart(trained.record(name), trained.train(name)) == []


def test_a_graph_is_the_layers_own():
    """Its boxes are what the run wrote; its lines, what it read; it ends in every gradient."""
    nodes = graphs.nodes_of(npdl_step(LSTMCell(2, 3), np.ones((4, 2))).recording, "backward")
    named = {node.name: node for node in nodes}
    assert named["dz"].shape == (4, 12) and named["dx"].shape == (4, 2)
    assert [one.name for one in named["dz"].made_of] == ["dz_i", "dz_f", "dz_o", "dz_g"]
    read = {id(one) for node in nodes for one in node.made_of}
    assert {node.name for node in nodes if id(node) not in read} == {
        "dW_x", "dW_h", "db", "dx", "dh_prev", "dc_prev"}
    block = graphs.nodes_of(npdl_step(Block(4, 2), np.ones((1, 3, 4))).recording, "forward")
    residual = next(node for node in block if node.name == "u")
    assert {"x", "a"} <= {one.name for one in residual.made_of}


@pytest.mark.parametrize("name", [*PICTURES, *trained.MODELS, *(f"graph of {n}" for n in NAMES)])
def test_a_picture_is_drawn_inside_its_frame(name):
    svg, caption = (PICTURES[name]() if name in PICTURES else
                    (trained.drawn(name, "A model."), "A model.") if name in trained.MODELS else
                    frame.graph(read(ROOT / f"docs/book/chapters/{name[9:]}.md")) or (None, None))
    if svg is None:
        assert name[9:] in ("14-adamw-clipping", "15-decoding")         # no layers there
        return
    tree = ElementTree.fromstring(svg)
    width, height = float(tree.get("width")), float(tree.get("height"))
    assert width <= 358                         # a phone's
    assert tree.get("aria-label") == caption and len(tree) > 5
    for line in tree.iter("polyline"):
        for point in line.get("points").split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= width and 0 <= y <= height, (name, point)


def test_the_first_page_has_a_line_for_each_chapter():
    first = (ROOT / "docs" / "book" / "pages" / "index.md").read_text(encoding="utf-8")
    said = re.findall(r"^- \[(.*)\]\(\.\./chapters/(.*)\): .{30,110}\.$", first, re.M)
    assert said == [(read(path).title, path.name) for path in PATHS]


def test_a_statement_of_several_lines_is_shown_as_one():
    assert on_one_line("    return f(\n        a, b,\n        c\n    )") == "    return f(a, b, c)"
    assert on_one_line("return y, Cache(s=s,\n                x=x)") == "return y, Cache(s=s, x=x)"


SEARCHED = {"bptt": "05", "vanishing gradient": "05", "teacher forcing": "13", "dropout": "02",
            "forget gate": "06", "softmax": "03", "layernorm": "09", "beam search": "15",
            "causal mask": "11", "weight decay": "14", "rope": "18", "softmax derivative": "03",
            "lora": "16", "attention mask": "11", "adam": "14", "layer norm backward": "09",
            "gru": "07", "perplexity": "13"}
CUT = """[...document.querySelectorAll('.equation math, .source .formula, .worked')].filter(
    m => m.scrollWidth > m.clientWidth + 1).map(m => m.textContent)"""
OPEN = "document.querySelectorAll('details:not(.step)').forEach(fold => { fold.open = true; })"
SMALLEST_LABEL = """(labels => labels.length ? Math.min(...labels) : null)([
    ...document.querySelectorAll('figure.picture text')].map(label => parseFloat(
    getComputedStyle(label).fontSize) * label.ownerSVGElement.getScreenCTM().a))"""


WHOLE = """# 1. A map

Why?

## What it does

```{model} thermometers
It ends at {slopes[-1]::.1f}.
```
```{sum}
y = 2 \\cdot 3 = 6
z = \\sqrt{2} \\approx 1.41
---
y, z = np.array(6.0), np.sqrt(2)
holds()
```
```{ask}
How far is it from {steps[0]} to {steps[-1]}?
> steps[-1] - steps[0]
: {answer::.0f} steps.
```

## Forward

```{source} npdl.layers.linear:Linear.forward
```

## The derivation

```{equation} map-1
y = x W
```
```{check} map-1
x, W = rng.standard_normal((2, 3)), rng.standard_normal((3, 4))
holds(y=x @ W)
```

Row by row $y_n = x_n W$.

```{said}
holds("y_n", y=x @ W)
```

## Backward, line by line

```{source} npdl.layers.linear:Linear.backward
dy_rows = dy.reshape(-1, E)   <- map-1
self.W.grad += rows.T @ dy_rows <- map-1
self.b.grad += sum_rows(dy_rows) <- map-1
dx = dy_rows @ self.W.data.T <- map-1
return dx.reshape(cache.shape) <- map-1
-- plumbing:
rows, E = cache.rows, self.W.shape[1]
```

## The proof

```{proof} Linear
```

## What goes wrong here

```{mistakes} npdl.layers.linear:Linear
dx = dy_rows @ self.W.data.T -> dx = -dy_rows @ self.W.data.T
: A sign.
```

## Questions of the course

```{questions} 001.3.1
```

## Write it yourself
"""


OPENED = {"model": opening.picture, "sum": opening.summed, "ask": opening.question}


def everything(path):
    """What a build asks of one chapter, in its order."""
    read.cache_clear()
    chapter = read(path)
    complete(chapter)
    checks.run(chapter)
    every_equation([chapter])
    for part in chapter.directives("model", "sum", "ask"):
        OPENED[part.name](chapter, part)
    for part in chapter.directives("source"):
        sources.cited(chapter, part)
    for part in chapter.directives("mistakes"):
        assert "sign is wrong" in mistakes(chapter, part)[0].said
    for part in chapter.directives("questions"):
        assert asked(part.given)
    return chapter


def test_a_chapter_in_good_form(tmp_path):
    path = tmp_path / "01-map.md"
    path.write_text(WHOLE)
    assert step_names(everything(path)) == ["Linear"]


def test_another_line_is_first_where_the_chapter_says_why(tmp_path, monkeypatch):
    def elsewhere(*arguments):
        report = blamed(*arguments)
        return dataclasses.replace(report, line=report.line + 1)

    monkeypatch.setattr("docs.book.mistakes.blamed", elsewhere)
    path = tmp_path / "01-map.md"
    path.write_text(WHOLE)
    chapter = read(path)
    with pytest.raises(BookError, match=r"blame first names line \d+ of Linear\.backward, not"):
        mistakes(chapter, chapter.directives("mistakes")[0])
    path.write_text(WHOLE.replace(": A sign.", ": Left out.\n! Either line\n! can have it."))
    read.cache_clear()
    chapter = read(path)
    made, = mistakes(chapter, chapter.directives("mistakes")[0])
    assert (made.why, made.other) == ("Left out.", "Either line can have it.")
    page = Page(chapter, every_equation([chapter])).mistakes(chapter.directives("mistakes")[0])
    assert "<p>Either line can have it.</p>" in page


@pytest.mark.parametrize("old, new, said", [
    ("y = x W", "y = -x W", ":35: check map-1 fails"),
    ("y_n = x_n W", "y_n = -x_n W", ":41: check said-1 fails"),
    ("y_n = x_n W", r"y_n \\text{ is } x_n W = b", "equation y_n"),
    ('holds("y_n"', 'holds("x_n"', "0 formulas of the text above begin with 'x_n'"),
    ('holds("y_n", y=x @ W)', "x", "does not evaluate statement 1 of its equation"),
    ("Why?", "Why $x = y$?", "check x = y does not evaluate statement 1"),
    ("The proof\n", "The proof\n\nOf $x \\le y$.\n", r":58: $x \le y$ has a relation and no check"),
    ("y = x W", "y = x W^\\top", ":35: check map-1 fails"),
    ("y = x W", "y = x V", "V has no value"),
    ("y = x W", "y = x W, \\quad x = y W^\\top", "map-1 fails"),
    ("y = x W", "y \\text{ is } x W", "equation map-1: no relation"),
    ("y=x @ W", "y=(x @ W).T", "shapes"),
    ("y=x @ W", "x=0 * x, y=0 * x @ W", "compares nothing"),
    ("y=x @ W)", "y=x @ W, rel=1e-3)", "compares nothing"),
    ("y=x @ W", "x=x * np.nan, y=x @ W", "not finite"),
    ("y = x W", r"y \le x W", "no strict case of inequality 1.1"),
    ("y = x W", r"y = \mathbf{1}[9 > 8]\,x W", "never true, or never false"),
    ("y = x W", r"y_n = \max_{k} x_n W", "is of what has none"),
    ("y = x W", r"y_n = \sum_n x_n W", "stands outside of it"),
    ("y=x @ W)", "y=(lambda n: (x @ W)[n - 1])(0))", "there is no place -1"),
    ("holds(y", "dict(y", "does not evaluate statement 1 of its equation"),
    ("y=x @ W", "y=nothing", "NameError"),
    ("```{check} map-1", "```{check} map-2", "has no check"),
    ("{equation} map-1", "{equation} map-2", "must be map-1"),
    ("dx = dy_rows @ self.W.data.T <-", "dx = dy_rows @ self.W.data <-", "is no line of Linear"),
    ("dx = dy_rows @ self.W.data.T <- map-1\n", "", "cites no equation"),
    ("self.b.grad += sum_rows(dy_rows) <- map-1", "self.b.grad += sum_rows(dy_rows)", "nothing"),
    ("<- map-1", "<- ", "cited by no line"),
    ("## The proof\n", "", "section 5 must be"),
    ("# 1. A map", "A map", "first line must be the title"),
    ("Linear.forward", "Linear.fforward", "is not there"),
    ("dx = dy_rows @ self.W.data.T ->", "dx = dy_rows ->", "is no statement of"),
    ("-> dx = -dy_rows @ self.W.data.T", "-> dx = dy_rows @ self.W.data.T + 0", "nothing wrong"),
    (": A sign.", ": A sign.\n> Linear(2, 3).W.shape", "is (2, 3) with 'dx = -dy_rows"),
    (": A sign.", ": A sign.\n> nothing", "nothing: NameError"),
    (": A sign.", ": A sign.\n! Another.", "itself: take the ! line out"),
    ("{model} thermometers", "{model} thermo", "model 'thermo': there are: thermometers, "),
    ("{slopes[-1]::.1f}", "{slope::.1f}", "NameError"),
    ("2 \\cdot 3 = 6", "2 \\cdot 3 = 7", ":15: check of the sum fails"),
    ("approx 1.41", "approx 1.42", "1.414214 is not 1.42, rounded"),
    ("---\n", "--\n", "a sum is TeX, a line ---"),
    ("> steps[-1]", "steps[-1]", "an {ask} has a question"),
    ("> steps[-1]", "> stops[-1]", "NameError"),
    ("```{questions} 001.3.1\n```", "```{question} 001.3.1\n```", "'question' is unknown"),
    ("```{questions} 001.3.1\n```", "```{questions} 001.3.1", "never closed"),
])
def test_what_breaks_a_build(old, new, said, tmp_path):
    path = tmp_path / "01-map.md"
    assert old in WHOLE
    path.write_text(WHOLE.replace(old, new))
    with pytest.raises(BookError, match=r"^01-map\.md:\d+: ") as found:
        everything(path)
    assert said in str(found.value)


def test_a_mistake_that_a_number_shows():
    """As it is and with the mistake, out of what the checks of the chapter leave."""
    chapter = read(next(path for path in PATHS if path.stem == "14-adamw-clipping"))
    said = [m.said for part in chapter.directives("mistakes") for m in mistakes(chapter, part)]
    assert [text.count("with the mistake: ") for text in said] == [1] * 3
    assert "[-1.]]" in said[0] and "[-3.1623]]" in said[0]
    assert "[-1.]]" in said[1] and "[nan]]" in said[1]
    kept, lost = (np.array(re.findall(r"\d\.\d+", line), float) for line in said[2].split("\n"))
    assert np.abs(kept - 2 * (1 - 0.01 * np.array([0.5, 1e-3])) ** 9).max() < 1e-4
    assert 2 - lost[1] > 0.089 > 20 * (2 - kept[1])


def test_the_commands_that_the_book_names_are_there(tmp_path):
    """Of npdl, and of homework every set of layers that is named."""
    texts = [p.read_text(encoding="utf-8") for p in [*PATHS, *(
        ROOT / "docs" / "book" / "pages").glob("*.md")]]
    named = {name for text in texts for name in re.findall(r"python -m npdl ([a-z][\w-]*)", text)}
    assert {"step", "blame", "homework"} <= named <= COMMANDS.keys()
    layers = {names for text in texts for names in re.findall(r"--layers ([A-Z][\w ]*)", text)}
    assert len(layers) > 10
    for number, names in enumerate(sorted(layers)):
        assert homework(tmp_path / str(number), layers=names.split()).holes


@pytest.mark.parametrize("arguments, status, said", [
    (["--check", "--only", "1"], 0, "linear-1 "),
    (["--only", "99"], 2, "--only 99: there is no such chapter"),
    (["--out", "docs"], 2, "--out docs: holds something else than a site"),
    (["--train", "lstm"], 2, "--train lstm: there is no such model; there are: thermometers, "),
    (["--out", "README.md"], 2, "--out README.md: is no folder"),
])
def test_the_command(arguments, status, said):
    done = subprocess.run([sys.executable, "-m", "docs.book", *arguments], cwd=ROOT,
                          capture_output=True, text=True)
    assert done.returncode == status and said in done.stdout + done.stderr
    assert not status or done.stderr.count("\n") == 1


def test_numeric_and_inside():
    x, dout = np.array([0.3, -1.2]), np.array([2.0, -0.5])
    assert abs(checks.slope(np.sin) - 1) < 1e-12
    assert np.abs(checks.numeric(np.sin, x, dout) - dout * np.cos(x)).max() < 1e-11

    def double(a):
        b = a + a
        return b * 1.5

    def twice(a):
        return double(a) + double(a + 1)

    assert [call.a for call in checks.inside(twice, 2.0, of=double)[1]] == [2.0, 3.0]
    found, own = checks.inside(double, 2.0)
    assert (found, own.b) == (6.0, 4.0) and sys.getprofile() is None


def test_tex_that_is_none_is_refused():
    with pytest.raises(Exception, match="Unknown LaTeX command"):
        mathml(r"\nosuch x")
    assert "<munderover" not in mathml(r"\dot x_k") and "<munderover" in mathml(
        r"\sum_{t=1}^{T} x", block=True)
    assert "mspace" in mathml(r"\tanh c") and "mspace" in mathml(r"\tanh^2 c")
    assert "mspace" not in mathml(r"\tanh(c)") + mathml(r"x^2 c")


@pytest.mark.parametrize("tex, wanted", [
    (r"y = x W + b, \qquad u = 0", [["y", "=xW+b,"], ["u", "=0"]]),
    (r"B = 0 \quad\Rightarrow\quad y = x, \quad z = 0", [["B", "=0"], ["⇒y", "=x,"], ["z", "=0"]]),
    (r"f(a = b) \le [a,\; b]", [["f(a=b)", "≤[a,b]"]]),
])
def test_the_parts_in_which_an_equation_may_break(tex, wanted):
    tree = ElementTree.fromstring(f"<all>{in_parts(tex)}</all>")
    assert [["".join(part.itertext()).replace("\u2061", "") for part in group]
            for group in tree] == wanted


@pytest.mark.parametrize("text, wanted", [
    ("δ₂ xᵀ", "<msub>δ 2</msub> <msup>x T</msup>"),
    ("h_T₋₁²", "<msubsup>h T−1 2</msubsup>"),
    ("(U_f)_ij", "<msub>(<msub>U f</msub>) ij</msub>"),
    ("e^(x_i)/√d", "<msup>e <msub>x i</msub></msup>/<msqrt>d</msqrt>"),
    ("2^(m−1) tanh(c')", "<msup>2 m−1</msup> tanh(<msup>c ′</msup>)"),
    ("w̄₁ < f(", "<msub>w̄ 1</msub> < f("),
])
def test_what_a_solution_prints_is_mathematics(text, wanted):
    tree = ElementTree.fromstring(mathematics(text))

    def shown(element):
        inside = [shown(child) for child in element]
        if element.tag in ("msub", "msup", "msubsup", "msqrt"):
            return f"<{element.tag}>{' '.join(inside)}</{element.tag}>"
        return element.text or "".join(inside) or (" " if element.tag == "mspace" else "")

    assert shown(tree) == wanted


def test_no_letter_of_a_solution_is_lost():
    def letters(text):
        return sorted(re.sub(r"[\s_^√()]", "", "".join(LOW.get(c, HIGH.get(c, c)) for c in text)))

    for module in {module for number in ("000", "001", "002", "003", "004")
                   for _, _, module in lookup.find(number)}:
        for step in (step for s in solutions_of(module) for step in s.steps):
            for text in filter(None, (step.formula, step.numbers)):
                tree = ElementTree.fromstring(mathematics(text))
                assert letters("".join(tree.itertext())) == letters(text)


def html(site):
    """{path from the site: text} of the pages that Sphinx made."""
    return {str(p.relative_to(site)): p.read_text(encoding="utf-8") for p in sorted(
        site.rglob("*.html")) if p.parts[len(site.parts)] not in ("_static", "steps")}


@pytest.mark.slow
def test_links_are_alive_and_nothing_comes_from_elsewhere(site):
    pages = html(site)
    ids = {name: set(re.findall(r'\bid="([^"]+)"', text)) for name, text in pages.items()}
    for name, text in pages.items():
        for tag, target in re.findall(
                r'<(\w+)\b[^>]*?\b(?:href|src)="([^"]+)"', text):
            url = urlsplit(target.replace("&amp;", "&"))
            if url.scheme or url.netloc:                # a link one may follow; nothing is loaded
                assert tag == "a", f"{name} loads {target}"
                continue
            path = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(url.path)))
            at = name if not url.path else path
            assert (site / at).is_file(), f"{name}: {target}"
            if url.fragment and at in ids and at.endswith(".html"):
                assert unquote(url.fragment) in ids[at], f"{name}: {target}"


@pytest.mark.slow
def test_no_place_of_this_machine_in_the_site(site):
    for path in site.rglob("*"):
        if path.suffix in (".html", ".js", ".ipynb", ".css"):
            assert str(ROOT) not in path.read_text(encoding="utf-8"), path


@pytest.mark.slow
@pytest.mark.skipif(chromium.find() is None, reason="no browser")
def test_every_page_in_a_browser(site):
    """No word on the console, no request elsewhere, formulas as such, nothing wider than the
    window, in four looks."""
    with chromium.browser() as page:
        for name in sorted(str(p.relative_to(site)) for p in site.rglob("steps/*.html")):
            page.open((site / name).as_uri())           # ready when its last line has run
            assert page.complaints == [], (name, page.complaints)
        for name, text in html(site).items():
            assert "&lt;no title&gt;" not in text and text.count("<h1") == 1, name
            looks = [(1330, False), (390, True)] if not name.startswith("chapters/") else [
                (width, dark) for width in (1330, 390) for dark in (False, True)]
            for width, dark in looks:
                page.resize(width, 900, mobile=width < 600)
                page.dark(dark)
                page.open((site / name).as_uri(), "document.readyState == 'complete'")
                assert page.complaints == [], (name, page.complaints)
                wide = page.value("document.documentElement.scrollWidth")
                assert wide <= width + 1, f"{name} is {wide} wide in a window of {width}"
            if name.startswith("chapters/"):
                shown = page.value("[...document.querySelectorAll('.equation math')].map("
                                   "m => m.getBoundingClientRect()).filter(r => r.height > 8 "
                                   f"&& r.right < {width}).length")
                assert shown == page.value("document.querySelectorAll('.equation math').length") > 0
                page.value(OPEN)
                cut = page.value(CUT)
                assert cut == [], (name, width, cut)
                small = page.value(SMALLEST_LABEL)
                assert small is None or small >= 11, (name, width, small)
                colours = page.value("[getComputedStyle(document.body).backgroundColor, "
                                     "getComputedStyle(document.body).color].join()")
                assert colours.count("rgb") == 2 and "rgb(255" not in colours.split("),")[0]
        page.open((site / "chapters/06-lstm.html").as_uri(), "document.readyState == 'complete'")
        page.value("(d => { d.open = true; d.scrollIntoView(); })("
                   "document.querySelector('details.step'))")
        end = time.time() + 20
        while not any(url.endswith("/steps/LSTMCell.html") for url in page.requests):
            assert time.time() < end, page.requests[-3:]
            page.value("1")
        for words, chapter in SEARCHED.items():
            page.open((site / "search.html").as_uri() + f"?q={quote(words)}",
                      "document.querySelectorAll('.search li a').length > 0")
            first = page.value("document.querySelector('.search li a').href")
            assert f"/chapters/{chapter}" in first, (words, first)
        assert page.complaints == []
        assert {urlsplit(url).scheme for url in page.requests} <= {"file", "data", "blob", "about"}


@pytest.mark.slow
def test_every_notebook_runs(site, tmp_path):
    """From a folder of its own, with npdl installed, from the first cell to the last, the blanks
    filled from the solutions."""
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    found = sorted((site / "notebooks").glob("*.ipynb"))
    assert {path.stem for path in found} > set(NAMES)
    for path in found:
        nbformat.validate(nbformat.read(path, 4))
        made = nbformat.reads(filled(path.read_text(encoding="utf-8")), 4)
        shutil.copy(path, tmp_path)
        nbclient.NotebookClient(made, timeout=300, kernel_name="python3",
                                resources={"metadata": {"path": str(tmp_path)}}).execute()


def test_the_training_notebook_on_a_device(monkeypatch):
    """Its lines run where arrays do not mix with the host's, as on a GPU."""
    monkeypatch.setattr("matplotlib.pyplot.show", lambda: None)
    script = (ROOT / "docs" / "book" / "notebooks" / "train-and-look.py").read_text()
    space = {}
    with device.installed(), backend.using("cupy"):
        exec(script.replace("range(200)", "range(20)"), space)
        assert type(space["model"].decoder.blocks[0].ffn.up.W.data) is backend.xp.ndarray
    assert space["maps"].shape == (2, 6, 6) and np.abs(space["maps"].sum(-1) - 1).max() < 1e-5
