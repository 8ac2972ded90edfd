"""How often blame is right: 60 files with a mistake, correct files, mutants of npdl's layers."""

import itertools

import pytest

from tests.tools import slow
from tests.tools.blame_files import (
    MARK,
    is_right,
    list_mistakes,
    list_right_files,
    make_answer,
    read_mistake,
    reports_error,
    run_blame,
)
from tests.tools.blame_mutants import choose_mutants, make_neutral_mutants, score_mutants
from tests.tools.layer_styles import STYLES, layers, make_source

QUICK = ("a_attention_scale", "b_dropout_scale", "b_rnn_step_tanh")
QUICK_RIGHT = ("right_einsum_attention", "right_gradient_made_in_forward", "right_lambda_list",
               "right_one_name", "right_strided_windows", "right_try_and_while")
QUICK_LAYERS = [("LayerNorm", "functions"), ("GRUCell", "self"), ("Linear", "cache")]


@pytest.mark.parametrize("path", slow.mark_except(QUICK, list_mistakes(), lambda path: path.stem),
                         ids=lambda path: path.stem)
def test_a_file_has_one_mistake_and_is_right_without_it(path, tmp_path):
    assert path.read_text().count(MARK) == 1
    wrong, _, right = read_mistake(path)
    assert is_right(right, tmp_path) and not is_right(wrong, tmp_path)


def score_of_files(paths, folder):
    """Return how many answers are on the line, and how many verified fixes are false."""
    found = [make_answer(*read_mistake(path)[:2], folder) for path in paths]
    assert not any(a.report.right for a in found) and max(a.seconds for a in found) < 10
    return sum(a.on_line for a in found), sum(a.is_true is False for a in found)


def test_a_few_mistakes_are_named_with_true_fixes(tmp_path):
    paths = [path for path in list_mistakes() if path.stem in QUICK]
    assert score_of_files(paths, tmp_path) == (len(QUICK), 0)


@pytest.mark.slow
def test_of_60_mistakes_80_percent_are_named_and_no_verified_fix_is_false(tmp_path):
    on_line, false = score_of_files(list_mistakes(), tmp_path)
    assert len(list_mistakes()) == 60 and on_line >= 48 and false == 0


@pytest.mark.parametrize("path", slow.mark_except(
    QUICK_RIGHT, list_right_files(), lambda path: path.stem), ids=lambda path: path.stem)
def test_a_correct_file_in_an_odd_style_is_correct(path, tmp_path):
    assert run_blame(path.read_text(), tmp_path).right


@pytest.mark.parametrize(("name", "style"), QUICK_LAYERS)
def test_a_layer_of_npdl_is_not_accused(name, style, tmp_path):
    assert not reports_error(run_blame(make_source(name, style), tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("style", STYLES)
def test_no_layer_of_npdl_is_accused_in_a_style(style, tmp_path):
    names = [name for name, own in layers() if own == style]
    assert not [name for name in names
                if reports_error(run_blame(make_source(name, style), tmp_path))]


@pytest.mark.slow
def test_of_the_mutants_90_percent_are_named_and_no_verified_fix_is_false(tmp_path):
    found, longest = score_mutants(choose_mutants(1), 80, tmp_path)
    assert found["on the line"] >= 71 and found["called right"] == 0
    assert found["mutants"] == 80 and found["raised"] == 0
    assert found["fixes false"] == 0 and longest < 10


@pytest.mark.slow
def test_no_neutral_mutant_is_accused(tmp_path):
    pool = list(itertools.islice(choose_mutants(1, make_neutral_mutants), 60))
    assert len(pool) == 60
    assert not [str(mutant) for mutant in pool if reports_error(run_blame(mutant.text, tmp_path))]
