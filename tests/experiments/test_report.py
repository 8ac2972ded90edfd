"""experiments/report.py: up to date with the records; whole, empty, and in between."""

import dataclasses
import re

import pytest
from matplotlib.figure import Figure as Canvas

from experiments import report, study
from experiments.reporting import data_size, decay, draw, front, parts, sanity, shapes
from experiments.reporting.parts import (
    AGAIN,
    CONTRADICTED,
    FAILS,
    HOLDS,
    MISSING,
    NO_CLAIM,
    OPEN,
    VERDICTS,
)
from experiments.reporting.records import Store
from npdl.errors import InputError
from tests.tools import report_fakes
from tests.tools.report_fakes import put_runs

REMEDY = "run: python experiments/report.py"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with made-up runs, all of the study's."""
    path = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "RESULTS", path)
        report_fakes.store_all()
    return path


@pytest.fixture
def whole(folder):
    """Their Store."""
    return Store(folder)


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """An empty folder of kept runs."""
    monkeypatch.setattr(study, "RESULTS", tmp_path / "kept")
    return tmp_path / "kept"


# --- the committed report -------------------------------------------------------------------------
def test_the_report_and_its_figures_are_up_to_date():
    store = Store()
    assert not report.stale(store, report.sections(store)), REMEDY


def test_the_figures_are_small():
    sizes = {path.name: path.stat().st_size for path in report.FIGURES.glob("*.png")}
    assert sizes and max(sizes.values()) <= 90_000 and sum(sizes.values()) < 2_500_000


@pytest.mark.slow
def test_a_new_record_makes_the_report_out_of_date(kept, monkeypatch, tmp_path):
    monkeypatch.setattr(report, "REPORT", tmp_path / "REPORT.md")
    monkeypatch.setattr(report, "FIGURES", tmp_path / "figures")
    for name in ("DOCS", "README"):
        page = tmp_path / f"{name}.md"
        page.write_text(f"Words.\n{report.MARKS[0]}{report.MARKS[1]}\nMore.\n")
        monkeypatch.setattr(report, name, page)
    monkeypatch.setattr(front, "answers", lambda store, found: [])
    monkeypatch.setattr(report, "sections", lambda store: [sanity.section(store)])
    put_runs(sanity.CONFIGS["lstm"])
    assert report.main([]) == 0 and report.main(["--check"]) == 0
    put_runs(sanity.CONFIGS["gpt"])
    assert report.main(["--check"]) == 1
    assert report.main(["--text"]) == 0 and report.main(["--check"]) == 1    # figures are old
    assert report.main([]) == 0 and report.main(["--check"]) == 0
    assert "| L_val |" in report.DOCS.read_text() and "More." in report.DOCS.read_text()
    assert "\n| GPT, document | 0.0001" in report.README.read_text()
    (tmp_path / "figures" / "other.png").write_bytes(b"")
    assert report.main(["--check"]) == 1


# --- the whole of it ------------------------------------------------------------------------------
@pytest.mark.slow
def test_every_figure_of_the_document_is_drawn_and_judged(whole):
    found = [module.section(whole) for module in report.FROM_RECORDS]
    everything = report.sections(Store())
    labels = {figure.label for figure in report.figures(Store(), everything)}
    assert {str(i) for i in (*range(1, 24), *range(32, 35))} | {"24 to 31"} <= labels
    judged = set()
    for section in found + everything:
        for verdict in section.verdicts:
            for numbers in re.findall(r"^Figures? ([\d, ]+)", verdict.where):
                judged |= set(map(int, numbers.split(",")))
    assert judged >= set(range(1, 38))
    names = [figure.name for figure in report.figures(Store(), everything)]
    assert len(names) == len(set(names))


@pytest.mark.slow
def test_with_every_run_everything_is_decided(whole):
    verdicts = [v for module in report.FROM_RECORDS for v in module.section(whole).verdicts]
    assert len(verdicts) > 100 and {v.verdict for v in verdicts} <= set(VERDICTS) - {MISSING}
    assert {HOLDS, FAILS, CONTRADICTED, OPEN, NO_CLAIM, AGAIN} <= {v.verdict for v in verdicts}
    text = report.markdown(whole, [module.section(whole) for module in report.FROM_RECORDS])
    assert not re.search(r"\bnan\b|\binf\b|Not run|\| not run|None", text)


def test_without_runs_the_report_says_what_is_missing(kept):
    found = [module.section(Store()) for module in report.FROM_RECORDS]
    verdicts = [v for section in found for v in section.verdicts]
    assert {v.verdict for v in verdicts} == {MISSING, CONTRADICTED, NO_CLAIM, AGAIN}
    assert all("missing" in v.ours for v in verdicts if v.verdict == MISSING)
    text = report.markdown(Store(), found)
    assert "No run is kept yet" in text and "missing 2 of 2 runs: LSTM seed 0" in text
    assert "python experiments/study.py" in text
    assert text.count("Not answered: the runs are missing.") == 6      # of 8 the maps are there


def test_two_builds_are_equal(folder):
    texts = [report.markdown(store, [module.section(store) for module in report.FROM_RECORDS[:2]])
             for store in (Store(folder), Store(folder))]
    assert texts[0] == texts[1]


def test_runs_steps_and_seconds_are_counted_once(kept):
    put_runs(sanity.CONFIGS["lstm"])                        # also of "data" and "model"
    report_fakes.store_run(sanity.CONFIGS["gpt"], made=False)
    rows = {row[0]: row[1:] for row in front.run_counts(Store()).rows}
    assert rows["1, 2: the default recipe"][:3] == ("3", "1", "30,003")
    assert rows["3: r_train"][:2] == ("3", "33")
    total = rows["**all that are kept, each once**"]
    assert total[0] == "3" and total[2] == "30,003" and total[4] == "0.3 h (2 of 3 runs)"
    assert "2 runs LSTM on a CPU (x86_64), npdl 0.1.0" in front.machine_words(Store())


def test_luck_is_counted_by_the_seeds_that_disagree():
    def verdict(kind, *seeds):
        return parts.Verdict("1", "a", "b", "c", kind, seeds=dict(enumerate(seeds)))

    found = [verdict(OPEN, True, False)] * 3 + [verdict(HOLDS, True, True)] * 7
    assert "in 3 the seeds disagree, in 7 they agree" in front.luck(found)
    assert "about 3 of the 7" in front.luck(found)
    printed = [parts.Verdict("2, table", "a", "b", "c", kind) for kind in [HOLDS] * 19 + [FAILS]]
    assert front.luck(printed).endswith(
        " 20 printed numbers were tested at 5 %: at most 1.0 would be expected to fail by chance; "
        "1 does.")
    assert front.odds(2) == 1 and front.odds(5) == pytest.approx(12 / 20)


# --- parts ----------------------------------------------------------------------------------------
def test_a_picture_carries_the_digest_of_its_data(tmp_path):
    def draw(figure, data):
        figure.subplots().plot(data["x"])

    figure = parts.Figure("curve", "A1", "A curve.", {"x": [1, 2.0, 3]}, draw, (2, 2))
    parts.write_png(figure, tmp_path)
    assert parts.digest_of(tmp_path / "curve.png") == figure.digest()
    assert f"data {figure.digest()}" in parts.part_markdown(figure)
    other = dataclasses.replace(figure, data={"x": [1, 2.0, 4]})
    assert other.digest() != figure.digest()
    nearly = dataclasses.replace(figure, data={"x": [1, 2.0000000001, 3]})
    assert nearly.digest() == figure.digest()
    assert parts.digest_of(tmp_path / "none.png") is None


def test_a_panel_of_ones_says_so():
    def panel(title, *values):
        return {"title": title, "y": "", "scale": "accuracy",
                "lines": [{"label": "GPT", "x": [1, 2], "seeds": [list(values)]}]}

    data = {"shape": [1, 2], "x": {"label": "x", "scale": "linear", "values": [1, 2]}, "bar": None,
            "panels": [panel("A_train", 1.0, 1.0), panel("A_val", 1.0, 0.9)]}
    made = shapes.figure(Store(), "1", "name", "Words.", data, [], str, (4, 2))
    assert made.caption == "Words."
    assert [one["scale"] for one in made.data["panels"]] == ["none", "accuracy"]
    assert made.data["panels"][0]["note"] == "A_train = 1 everywhere"
    canvas = Canvas(layout="constrained")
    draw.draw_panels(canvas, made.data)
    assert [[text.get_text() for text in axes.texts] for axes in canvas.axes] == [
        ["A_train = 1 everywhere"], []]


def test_many_curves_have_fainter_values():
    def faint(seeds):
        axes = Canvas().subplots()
        draw.draw_lines(axes, [{"label": "a", "x": list(range(20)), "seeds": [[1.0] * 20] * seeds}],
                        {})
        return axes.lines[0]

    few, many = faint(2), faint(20)
    assert few.get_alpha() == draw.FAINT > many.get_alpha() > 0
    assert few.get_linewidth() > many.get_linewidth() and few.get_zorder() < 2


def test_a_curves_median_drops_spikes_and_leaves_slopes():
    rising = [2.0**i for i in range(20)]
    assert draw.running_median(rising)[5:-5] == rising[5:-5]
    assert draw.running_median([1.0] * 6 + [9.0] + [1.0] * 6 + [9.0]) == [1.0] * 14


def test_tables_are_markdown():
    table = parts.Table("Words.", ("a", "b"), [("x|y", "1")])
    assert parts.table_markdown(table).splitlines() == [
        "| a | b |", "| --- | ---: |", "| x\\|y | 1 |"]
    with pytest.raises(InputError, match="row has 1 cells"):
        parts.Table("Words.", ("a", "b"), [("x",)])
    with pytest.raises(InputError, match="choose one of"):
        parts.Verdict("1", "a", "b", "c", "perhaps")


@pytest.mark.parametrize("module, place", [
    (sanity, 0), pytest.param(data_size, 2, marks=pytest.mark.slow),
    pytest.param(decay, 0, marks=pytest.mark.slow)])
def test_pictures_are_drawn_with_and_without_runs(whole, tmp_path, module, place):
    for store in (whole, Store(tmp_path / "nothing")):
        figure = module.section(store).figures()[place]
        parts.write_png(figure, tmp_path)
        path = tmp_path / f"{figure.name}.png"
        assert 1_000 < path.stat().st_size <= 90_000
        assert parts.digest_of(path) == figure.digest()
