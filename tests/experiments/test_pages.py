"""The pages: filled from the records, short, and saying nothing that the records no longer say."""

import re

import pytest
from matplotlib.figure import Figure as Canvas

from experiments import report
from experiments.study.figures import digest_of, draw_panels, mean_and_deviation, write_png
from experiments.study.pages import Table, fill
from experiments.study.panels import best_table, family, figure
from experiments.study.questions import verdicts
from experiments.study.records import Store, variant
from npdl.errors import InputError

WORDS = {"REPORT.md": 4000, "rule.md": 1800, "laboratory.md": 1400, "last-digit.md": 400,
         "papers.md": 1500, "results.md": 800}


@pytest.fixture(scope="module")
def store():
    return Store()


@pytest.mark.slow
def test_pages_and_figures_are_up_to_date(capsys):
    status = report.main(["--check"])
    assert status == 0, f"run: python experiments/report.py\n{capsys.readouterr().out}"


def test_what_is_no_longer_so_is_said(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(report, "FIGURES", tmp_path)
    monkeypatch.setattr(report, "drawn", lambda store: ({}, {}))
    monkeypatch.setattr(report, "pages", lambda store, figures: {})
    monkeypatch.setattr(report, "facts", lambda store: {"the moon is full": False, "it is": True})
    assert report.main(["--check"]) == 1
    assert capsys.readouterr().out.endswith(
        "no longer so, and said in experiments/pages: the moon is full\n")


@pytest.mark.slow
def test_every_number_that_is_computed_is_on_a_page(store):
    text = "".join((report.PAGES / name).read_text(encoding="utf-8") for name in report.BY_HAND)
    used = {" ".join(name.split()) for name in re.findall(r"\{\{([^{}]+)\}\}", text)}
    generated = {"collapse table", "faster table", "circuit table"}
    assert set(report.values(store, verdicts(store))) - used == generated


@pytest.mark.parametrize("name", WORDS)
def test_a_page_is_short(name):
    assert len(report.BY_HAND[name].read_text(encoding="utf-8").split()) <= WORDS[name]


def test_each_answer_is_a_sentence_and_its_paragraph_short():
    text = report.BY_HAND["REPORT.md"].read_text(encoding="utf-8")
    sections = [part for part in text.split("\n## ") if part.startswith("Question")]
    assert len(sections) == 7
    for section in sections:
        title, answer, *rest = section.split("\n\n")
        assert answer.startswith("**") and len(answer.split()) <= 25, title
        shown = [part for part in rest if part.startswith(("|", "!"))]
        said = [part for part in rest if part not in shown and part.strip()]
        assert shown and len(said) == 2 and said[1].startswith("*Not known:*"), title
        assert len(said[0].split()) <= 80, title


# --- parts ----------------------------------------------------------------------------------------
def test_a_page_is_filled():
    table = Table(("a", "b"), [("x", "1|2")])
    page = fill("# T\n\nIt is {{one\nnumber}}.\n\n{{table}}", {"one number": "5", "table": table})
    assert page == "# T\n\nIt is 5.\n\n| a | b |\n| --- | ---: |\n| x | 1\\|2 |\n"
    with pytest.raises(InputError, match="{{two}}, which no record gives; one of one"):
        fill("{{two}}", {"one": "1"})
    with pytest.raises(InputError, match="a row has 1 cells, the heading 2"):
        Table(("a", "b"), [("x",)])


def test_a_table_marks_its_best(store):
    table = best_table(store, ("model",), [("LSTM", variant("lstm")), ("GPT", variant("gpt"))])
    column = [row[table.heading.index("t_f(A_train)")] for row in table.rows]
    assert column[0] == "400 ± 0" and column[1].startswith("**")


def test_a_picture_is_known_by_its_data(tmp_path, store):
    data = family(store, {"": {0.5: variant("gpt")}}, "r_train", ("train_loss",), (1, 1))
    one = figure("one", "1", "", data, (4, 3))
    write_png(one, tmp_path)
    assert digest_of(tmp_path / "one.png") == one.digest()
    data["panels"][0]["lines"][0]["seeds"][0][0] += 1
    assert one.digest() != digest_of(tmp_path / "one.png")
    assert digest_of(tmp_path / "two.png") is None and one.draw is draw_panels


def test_lines_are_named_and_told_apart_without_colour(store):
    data = family(store, {"": {p: variant("gpt", r_train=p) for p in (0.4, 0.5, 0.6)}}, "r_train",
                  ("train_loss",), (1, 1))
    canvas = Canvas(layout="constrained")
    draw_panels(canvas, figure("one", "1", "", data, (4, 3)).data)
    lines = canvas.axes[0].lines                        # a mean over seeds each, in its band
    assert len(lines) == len(canvas.axes[0].collections) == 3
    assert len({line.get_marker() for line in lines}) == 3
    assert [text.get_text() for text in canvas.legends[0].get_texts()] == [
        "r_train:", "0.4", "0.5", "0.6"]


def test_a_band_is_the_deviation_around_the_mean():
    middle, low, high = mean_and_deviation([[1.0, 2.0], [3.0, 2.0]], False)
    assert (middle.tolist(), low.tolist(), high.tolist()) == ([2, 2], [1, 2], [3, 2])
    assert mean_and_deviation([[1.0], [100.0]], True)[0] == pytest.approx([10])


def test_a_caption_says_what_its_symbols_mean(store):
    for title, module in report.MODULES.items():
        for one in module.figures(store):
            if one.draw is draw_panels:
                labels = " ".join(f"{panel['title']} {panel['y']}" for panel in one.data["panels"])
                for symbol in ("L", "A", "t_f"):
                    assert (f"{symbol}: " in one.caption) == bool(
                        re.search(rf"\b{symbol}[_(]", labels)), (title, one.label)
