"""The study: its kept tables, its statistical rule, its command and its report."""

import csv

import numpy as np
import pytest

from experiments.study import __main__ as command
from experiments.study import report, runs
from experiments.study.runs import L_VAL, LABELS, METRICS, Curves, Study
from experiments.study.verdict import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED, judge_claim
from npdl.errors import InputError


@pytest.fixture(scope="module")
def study():
    return Study()


# --- the kept runs --------------------------------------------------------------------------------
def test_each_table_has_the_best_values_of_its_curves(study):
    for row in study.rows:
        kept = study.evaluations[runs.make_run_key(row["model"], row["recipe"], row)]
        step, values = kept[int(row["seed"])]
        curves = Curves(step, [0], {metric: values[metric][None] for metric in METRICS})
        for metric in METRICS:
            assert float(row[LABELS[metric]]) == pytest.approx(curves.best(metric)[0], rel=2e-5)
            assert int(row[f"t_f({LABELS[metric]})"]) == curves.best_step(metric)[0]


def test_no_run_that_the_report_reads_is_missing(study):
    assert len(study.rows) == 404
    assert not command.find_missing_runs(study, report.QUESTIONS)
    assert not command.find_missing_runs(study, report.QUESTIONS, "release")
    assert len(command.find_missing_runs(study, ["data"], seeds=[9])) == 2 * 8


def test_a_damaged_table_is_refused(tmp_path):
    np.savez(tmp_path / "data.npz", step=np.arange(3), train_loss=np.zeros((2, 3), "float32"))
    (tmp_path / "data.csv").write_text("model,recipe,seed\ngpt,default,0\n")
    with pytest.raises(InputError, match=r"data.csv has 1 runs, but train_loss has the shape"):
        Study(tmp_path)


# --- the rule -------------------------------------------------------------------------------------
CLEAR, UNSURE = np.array([1.0, 1.1, 0.9, 1.0, 1.2]), np.array([1.0, -1.1, 0.9, -1.0, 0.3])


@pytest.mark.parametrize("effects, any_of, word", [
    ([CLEAR], False, REPRODUCED), ([-CLEAR], False, NOT_REPRODUCED),
    ([UNSURE], False, INCONCLUSIVE), ([CLEAR, UNSURE], False, INCONCLUSIVE),
    ([CLEAR, -CLEAR], False, NOT_REPRODUCED), ([CLEAR, UNSURE], True, REPRODUCED),
    ([UNSURE, -CLEAR], True, INCONCLUSIVE), ([-CLEAR, -CLEAR], True, NOT_REPRODUCED),
    ([CLEAR[:1]], False, INCONCLUSIVE)])
def test_the_word_of_constructed_effects(effects, any_of, word):
    assert judge_claim(effects, any_of).word == word


def test_a_failed_part_needs_more_evidence_among_many():
    edge = np.array([-1.0, -0.2, -0.6, 0.0, -0.9])
    assert judge_claim([edge]).word == NOT_REPRODUCED
    assert judge_claim([CLEAR] * 20 + [edge]).word == INCONCLUSIVE


# --- the report -----------------------------------------------------------------------------------
def test_the_report_is_what_the_tables_give(study):
    assert report.PAGE.read_text(encoding="utf-8") == report.make_page(study)
    names = {figure.name for module in report.QUESTIONS.values()
             for figure in module.make_figures(study)}
    assert names == {path.stem for path in report.FIGURES.glob("*.png")}


# --- the command ----------------------------------------------------------------------------------
def test_a_new_run_is_added_to_its_table(tmp_path):
    records = [{"step": step, "lr": 1e-3, "l2_norm": 3.0, **dict.fromkeys(METRICS, 1 / step)}
               for step in (1, 2)]
    cells = {"model": "gpt", "recipe": "default", **runs.DEFAULTS, "seed": 7, "engine": "",
             "device": "a processor", "seconds": 3}
    for seed in (7, 8):
        command.add_runs("sanity", [(cells | {"seed": seed}, records)], tmp_path)
    study = Study(tmp_path)
    found = study.curves("gpt")
    assert found.seeds == [7, 8] and np.allclose(found.best(L_VAL), 0.5)
    with open(tmp_path / "sanity.csv", encoding="utf-8") as file:
        assert [row["t_f(L_val)"] for row in csv.DictReader(file)] == ["2", "2"]
    with pytest.raises(InputError, match="other steps"):
        command.add_runs("sanity", [(cells, records[:1])], tmp_path)


def test_settings_become_the_config_of_a_run():
    config = command.make_config("lstm", "release", {"p": 11, "orders": "2 3"}, 4)
    assert (config.p, config.orders, config.stratified, config.seed) == (11, (2, 3), True, 4)
    assert (config.clip, config.init) == (1.0, "xavier")


def test_an_unknown_question_is_one_line(capsys):
    with pytest.raises(SystemExit) as stop:
        command.main(["widths"])
    assert stop.value.code == 2
    assert "question 'widths' is unknown" in capsys.readouterr().err
