"""How often blame is right: 60 files with a mistake, correct files, mutants of npdl's layers."""

import itertools

import pytest

from tests.tools import blame_files
from tests.tools.blame_files import make_answer, read_mistake, reports_error, run_blame
from tests.tools.blame_mutants import make_neutral_mutants, score_mutants, yield_shuffled_mutants
from tests.tools.layer_styles import list_layer_styles, make_source

QUICK = ("a_attention_scale", "b_dropout_scale", "b_rnn_step_tanh")
QUICK_LAYERS = [("LayerNorm", "functions"), ("GRUCell", "self"), ("Linear", "cache")]


@pytest.mark.parametrize(("names", "count", "least"), [
    (QUICK, 3, 3), pytest.param((), 60, 56, marks=pytest.mark.slow)])
def test_most_mistakes_are_named_and_no_verified_fix_is_false(names, count, least, tmp_path):
    found = []
    for wrong, line, right in (read_mistake(path) for path in blame_files.list_mistake_files()
                               if path.stem in names or not names):
        found.append(make_answer(wrong, line, tmp_path))
        assert run_blame(right, tmp_path).right
    assert len(found) == count and sum(a.is_on_line for a in found) >= least
    assert not any(a.report.right or a.is_true is False for a in found)
    assert max(a.seconds for a in found) < 10


def test_correct_files_in_odd_styles_are_correct_in_all_their_gradients(tmp_path):
    paths = blame_files.FOLDER.glob("right_*.py")
    reports = [run_blame(path.read_text(), tmp_path) for path in paths]
    assert len(reports) == 14 and not [report for report in reports if not report.right]
    assert sum(len(report.rows) for report in reports) == 24


@pytest.mark.parametrize("find", [
    lambda: QUICK_LAYERS, pytest.param(lambda: list_layer_styles()[::4], marks=pytest.mark.slow)])
def test_no_layer_of_npdl_is_accused_and_an_answer_takes_at_most_ten_seconds(find, tmp_path):
    answers = {layer: make_answer(make_source(*layer), 0, tmp_path) for layer in find()}
    assert not [layer for layer, answer in answers.items() if reports_error(answer.report)]
    assert max(answer.seconds for answer in answers.values()) < 10


@pytest.mark.slow
def test_of_the_mutants_90_percent_are_named_and_no_verified_fix_is_false(tmp_path):
    found, longest = score_mutants(yield_shuffled_mutants(1), 40, tmp_path)
    assert found["on the line"] >= 36 and found["called right"] == 0
    assert found["mutants"] == 40 and found["raised"] == 0
    assert found["fixes false"] == 0 and longest < 10


@pytest.mark.slow
def test_no_neutral_mutant_is_accused(tmp_path):
    pool = list(itertools.islice(yield_shuffled_mutants(1, make_neutral_mutants), 30))
    assert len(pool) == 30
    assert not [str(mutant) for mutant in pool if reports_error(run_blame(mutant.text, tmp_path))]
