"""The book: every equation's check, every line's citation, pictures, mistakes, its command."""

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

pytest.importorskip("docutils")
pytest.importorskip("pygments")

from docs.book import chapter as chapters
from docs.book import checks, frame, graphs, opening, sources, trained
from docs.book.chapter import complete, every_equation, read
from docs.book.formulas import in_parts, mathml
from docs.book.mistakes import mistakes
from docs.book.pictures import PICTURES
from docs.book.proofs import proof
from docs.book.render import on_one_line
from npdl import Block, LSTMCell
from npdl import step as npdl_step
from npdl.__main__ import COMMANDS
from npdl.study.homework.handout import hand_out
from tests.book import printed_signs

ROOT = Path(__file__).resolve().parents[2]
PATHS = chapters.paths()
NAMES = [path.stem for path in PATHS]
OPENED = {"model": opening.picture, "sum": opening.summed, "ask": opening.question}


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
        for name in part.given.split():
            count, error, _ = proof(name)
            assert count >= 3 and error < 1e-7


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
        text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
        assert list(chapters.claims(text)) == [], page.name


def test_every_equation_is_cited():
    found = every_equation([read(path) for path in PATHS])
    cited = set().union(*(read(path).cited for path in PATHS))
    assert cited == set(found)


@pytest.mark.parametrize("path", PATHS, ids=NAMES)
def test_no_formula_is_cut_where_a_list_could_begin(path):
    formulas = chapters.FORMULA.findall(path.read_text(encoding="utf-8"))
    assert not [tex for tex in formulas if re.search(r"\n([-+*>] |\d+[.)] |#)", tex)]


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
        assert hand_out(tmp_path / str(number), layers=names.split())


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
