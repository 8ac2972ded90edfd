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
from docs.book import checks, graphs, opening, pictures, sources, trained
from docs.book.chapter import CITED, read_chapter, split_labels
from docs.book.formulas import to_mathml
from docs.book.proofs import check_examples
from npdl import Block, LSTMCell
from npdl import step as npdl_step
from tests.book import printed_signs

ROOT = Path(__file__).resolve().parents[2]
PATHS = chapters.list_chapters()
NAMES = [path.stem for path in PATHS]
SECTIONS = ["What it does", "Diagram and shapes", "Forward", "Backward by hand", "The derivation",
            "Summary", "Backward, line by line", "The proof", "What goes wrong here", "Exercises",
            "Write it yourself", "Elsewhere"]
GRAPHS = sorted({part.given for path in PATHS for part in read_chapter(path).directives("graph")})


def test_equations_are_numbered_and_each_is_cited():
    """By the text, a mistake's reason, or a line of a source."""
    known, cited = [], []
    for chapter in map(read_chapter, PATHS):
        given = [part.given for part in chapter.directives("equation")]
        word = given[0].rpartition("-")[0]
        assert given == [f"{word}-{n}" for n in range(1, len(given) + 1)]
        known += given
        for part in chapter.directives("", "mistakes"):
            cited += CITED.findall(part.body)
        for part in chapter.directives("source"):
            cited += re.findall("<-(.*)", part.body)
    assert len(known) == len(set(known)) > 200
    assert set(known) <= set(split_labels(" ".join(cited)))


@pytest.mark.parametrize("path", PATHS, ids=NAMES)
def test_a_chapter_has_its_form(path):
    text = path.read_text(encoding="utf-8")
    assert re.findall("^## (.*)$", text, re.M) == SECTIONS
    for line in ("You will be able to", "You need", "Time"):
        assert f"\n> **{line}** " in text
    exercises = re.search("^## Exercises$(.*?)^## ", text, re.M | re.S)[1]
    grades = dict(re.findall("^### (.*?)$(.*?)(?=^### |\\Z)", exercises, re.M | re.S))
    for grade in ("Easy", "Medium", "Hard"):
        assert "<details><summary>Solution" in grades[grade]


@pytest.mark.parametrize("path", [       # the slowest is tried when the book is built
    pytest.param(path, marks=pytest.mark.slow) if "research" in path.stem else path
    for path in PATHS], ids=NAMES)
def test_equations_hold_and_are_cited_by_the_source(path):
    chapter = read_chapter(path)
    assert chapter.title
    assert set(checks.run_checks(chapter)) == chapter.formulas.keys()
    for part in chapter.directives("equation"):
        assert to_mathml(part.body, block=True).startswith("<math")
    assert {"picture", "sum", "ask"} <= {part.name for part in chapter.parts}
    for part in chapter.directives("picture"):
        opening.make_picture(part)
    for part in chapter.directives("sum"):
        opening.check_sum(chapter, part)
    for part in chapter.directives("ask"):
        opening.make_question(chapter, part)
    for part in chapter.directives("source"):
        assert sources.make_cited_listing(chapter, part).lines
    for part in chapter.directives("proof"):
        for name in part.given.split():
            count, error, _ = check_examples(name)
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
        assert list(chapters.find_relations(text)) == [], page.name


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
    assert apart(trained.read_record(name), trained.train_model(name)) == []


def test_a_graph_is_the_layers_own():
    """Its boxes are what the run wrote; its lines, what it read; it ends in every gradient."""
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


@pytest.mark.parametrize("name", [*pictures.list_names(), *GRAPHS])
def test_a_picture_is_drawn_inside_its_frame(name):
    svg, caption = (graphs.draw_graph(name) if name in GRAPHS else
                    (pictures.draw_picture(name, "A picture."), "A picture."))
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
    (["--train", "lstm"], 2, "--train: invalid choice: 'lstm' (choose from 'thermometers', "),
])
def test_the_command(arguments, status, said):
    done = subprocess.run([sys.executable, "-m", "docs.book", *arguments], cwd=ROOT,
                          capture_output=True, text=True)
    assert done.returncode == status and said in done.stdout + done.stderr
    assert not status or done.stderr.count("\n") == 1
