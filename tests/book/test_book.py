"""The book: every equation's check, every line's citation, pictures, mistakes, its command."""

import ast
import inspect
import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

pytest.importorskip("docutils")

from docs.book import chapter as chapters
from docs.book import graphs, pictures, sources, trained
from docs.book.chapter import CITED, read_chapter
from docs.book.render import Page
from npdl import Block, LSTMCell
from npdl import step as npdl_step

ROOT = Path(__file__).resolve().parents[2]
PATHS = chapters.list_chapters()
SECTIONS = ["What it does", "Diagram and shapes", "Forward", "Backward by hand", "The derivation",
            "Summary", "Backward, line by line", "Gradient check", "What goes wrong here",
            "Exercises", "Write it yourself", "Elsewhere"]
GRAPHS, TARGETS = (sorted({part.given for path in PATHS
                           for part in read_chapter(path).find_directives(name)})
                   for name in ("graph", "source"))


def test_equations_are_numbered_and_each_is_cited():
    """The text, the reason of a mistake, or a line of a source cites each equation."""
    known, cited = [], []
    for chapter in map(read_chapter, PATHS):
        word = next(iter(chapter.equations)).rpartition("-")[0]
        assert [*chapter.equations] == [
            f"{word}-{n}" for n, _ in enumerate(chapter.find_directives("equation"), 1)]
        known += chapter.equations
        for part in chapter.find_directives("", "mistakes"):
            cited += CITED.findall(part.body)
        for part in chapter.find_directives("source"):
            cited += re.findall("<-(.*)", part.body)
    assert len(known) == len(set(known)) > 200
    assert set(known) <= set(" ".join(cited).split())


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_chapter_has_its_form(path):
    text = path.read_text(encoding="utf-8")
    assert re.findall("^## (.*)$", text, re.M) == SECTIONS
    for line in ("You will be able to", "You need", "Time"):
        assert f"\n> **{line}** " in text
    exercises = re.search("^## Exercises$(.*?)^## ", text, re.M | re.S)[1]
    grades = dict(re.findall("^### (.*?)$(.*?)(?=^### |\\Z)", exercises, re.M | re.S))
    for grade in ("Easy", "Medium", "Hard"):
        assert "<details><summary>Solution" in grades[grade]


@pytest.mark.parametrize("path", [       # the slowest are tried when the book is built
    path for path in PATHS if path.stem[3:] not in ("block", "gpt", "llama", "research")],
    ids=lambda path: path.stem)
def test_equations_hold_and_directives_are_rendered(path):
    page = Page(read_chapter(path))
    assert page.chapter.title and page.closes.keys() == page.chapter.formulas.keys()
    assert {"picture", "sum", "ask"} <= {part.name for part in page.chapter.parts}
    for part in page.chapter.find_directives("equation", "picture", "sum", "ask", "source",
                                             "proof"):
        assert getattr(page, f"render_{part.name}")(part)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_the_code_of_a_solution_runs(path, capsys):
    for block in re.finditer("^( *)```python\n(.*?)^\\1```", path.read_text("utf-8"), re.M | re.S):
        exec(textwrap.dedent(block[2]), {})
        assert capsys.readouterr().out


@pytest.mark.parametrize("target", TARGETS)
def test_a_listing_has_the_syntax_tree_of_its_source(target):
    trees = []
    listing = sources.make_listing(target)
    for code in ("\n".join([listing.head, *(line.code for line in listing.lines)]),
                 inspect.getsource(inspect.unwrap(sources.find_object(target)))):
        function = ast.parse(textwrap.dedent(code)).body[0]
        if ast.get_docstring(function):
            function.body = function.body[1:]
        function.decorator_list = []                # inspect.unwrap looks behind a decorator
        trees.append(ast.dump(function))
    assert trees[0] == trees[1]


def test_the_pages_by_hand_claim_no_formula():
    """A formula with a relation belongs in a chapter, where it is checked."""
    for page in (ROOT / "docs" / "book" / "pages").glob("*.md"):
        text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
        assert list(chapters.find_relations(text)) == [], page.name


def list_differences(stored, new, name=""):
    """Return a list of differences between two records that are larger than rounding and drift."""
    if isinstance(stored, (dict, list)):
        assert len(stored) == len(new), name
        keys = stored if isinstance(stored, dict) else range(len(stored))
        return [one for key in keys
                for one in list_differences(stored[key], new[key], f"{name}[{key!r}]")]
    if isinstance(stored, float):
        return [] if abs(stored - new) <= 0.02 + 0.01 * abs(stored) else [(name, stored, new)]
    return [] if stored == new else [(name, stored, new)]


@pytest.mark.parametrize("name", [
    name if name in ("thermometer_line", "xor_networks", "weekday_embeddings", "valley") else
    pytest.param(name, marks=pytest.mark.slow) for name in trained.MODELS])
def test_a_stored_record_equals_that_of_a_new_training(name):
    kept = json.loads((trained.DATA / f"{name}.json").read_text(encoding="utf-8"))
    assert list_differences(kept, trained.make_record(name)) == []


def test_a_graph_shows_the_values_of_a_run():
    """Its boxes are the values that the run wrote, and its last ones are all gradients."""
    nodes = graphs.find_nodes(npdl_step(LSTMCell(2, 3), np.ones((4, 2))).recording, "backward")
    named = {node.name: node for node in nodes}
    assert named["dz"].shape == (4, 12) and named["dx"].shape == (4, 2)
    assert [one.name for one in named["dz"].made_of] == ["dz_i", "dz_f", "dz_o", "dz_g"]
    read = {id(one) for node in nodes for one in node.made_of}
    assert {node.name for node in nodes if id(node) not in read} == {
        "dW_x", "dW_h", "db", "dx", "dh_prev", "dc_prev"}
    block = graphs.find_nodes(npdl_step(Block(4, 2), np.ones((1, 3, 4))).recording, "forward")
    residual = next(node for node in block if node.name == "u")
    assert {"x", "a"} <= {one.name for one in residual.made_of}


@pytest.mark.parametrize("name", [*pictures.NAMES, *GRAPHS])
def test_a_picture_is_drawn_inside_its_frame(name):
    svg, caption = (graphs.draw_graph(name) if name in GRAPHS else
                    (pictures.render_picture(name, "A picture."), "A picture."))
    tree = ElementTree.fromstring(svg.partition("</svg>")[0] + "</svg>")    # without sliders
    width, height = float(tree.get("width")), float(tree.get("height"))
    assert width <= 358                         # a phone's
    assert tree.get("aria-label") == caption and len(list(tree.iter())) > 5
    points = [p for line in tree.iter("polyline") for p in line.get("points").split()]
    for x, y in [map(float, point.split(",")) for point in points]:
        assert 0 <= x <= width and 0 <= y <= height, (name, x, y)


@pytest.mark.parametrize("arguments, status, said", [
    (["--check", "--only", "1"], 0, "linear-1 "),
    (["--only", "99"], 2, "--only: invalid choice: 99 (choose from 1, 2, "),
    (["--out", "docs"], 2, "--out docs: the folder doesn't hold a site"),
    (["--train", "lstm"], 2, "--train: invalid choice: 'lstm' (choose from 'thermometer_line', "),
])
def test_the_command_builds_or_refuses_in_one_line(arguments, status, said):
    done = subprocess.run([sys.executable, "-m", "docs.book", *arguments], cwd=ROOT,
                          capture_output=True, text=True)
    assert done.returncode == status and said in done.stdout + done.stderr
    assert not status or done.stderr.count("\n") == 1
