"""Worked solutions: how they are shown, and that they print what a pencil gives."""

import ast
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from exercises import arithmetic, worked
from exercises.d004 import layer_norm
from exercises.framework import draw, modules, name_of, solutions_of
from exercises.worked import (
    Check,
    Solution,
    Step,
    Table,
    num,
    solution_text,
    step_lines,
    sub,
    terms,
    vec,
)
from npdl.errors import InputError
from tests.exercises import slips
from tests.tools import slow


def test_numbers_as_they_are_written():
    assert [num(v) for v in (4, -1.5, Fraction(14, 9), -0.0001, np.float64(2), -np.inf)] == [
        "4", "−1.500", "14/9", "0.000", "2.000", "−∞"]
    assert num(2 / 3, 1) == "0.7"
    assert vec([1, -0.5], 1) == "(1, −0.5)"
    assert terms([-1, 2, -0.25], 2) == "−1 + 2 − 0.25"
    assert [sub(12), sub("T"), sub("T-1")] == ["₁₂", "_T", "_(T-1)"]
    with pytest.raises(InputError):
        num(True)


def test_a_step_as_a_terminal_shows_it():
    step = Step("Multiply.", "y = W x", f"1 · 3 = {num(3)}",
                {"W": [[1, 0], [0, -2]], "x": [3, 4], "s": [[5]]},
                Table(("word", "log p"), (("the", -1.7), ("a", -2.0)), 1))
    assert step_lines(step) == [
        "     y = W x",
        "     1 · 3 = 3",
        "     W = ⎡ 1   0 ⎤   x = ⎡ 3 ⎤   s = [ 5 ]",
        "         ⎣ 0  −2 ⎦       ⎣ 4 ⎦",
        "     word  log p",
        "     ────  ─────",
        "     the    −1.7",
        "     a      −2.0",
    ]


def test_arrays_that_are_too_wide_go_below_each_other():
    lines = step_lines(Step("Look.", arrays={name: np.full((1, 8), 0.1234) for name in "AB"}))
    assert len(lines) == 2 and lines[1].startswith("     B = ")


def test_a_solution_says_what_failed():
    text = solution_text(Solution("1", steps=[Step("Add.")], answer="2",
                                  checks=[Check("counted", False)]), "Sum")
    assert text.startswith("Worked solution of 1: Sum\n-------------------------\n")
    assert "1. Add." in text and "Answer: 2" in text
    assert "OUR COMPUTATION FAILED:  counted" in text


@pytest.mark.parametrize("changes", [
    {"steps": []}, {"checks": []}, {"answer": "one\ntwo"}, {"answer": " "},
])
def test_what_is_no_solution_is_refused(changes):
    given = {"number": "1", "steps": [Step("Add.")], "answer": "2",
             "checks": [Check("counted", True)]}
    assert Solution(**given).whole().answer == "2"
    with pytest.raises(InputError):
        Solution(**given | changes).whole()
    with pytest.raises(InputError):
        Table(("one", "two"), ((1,),))


SOLVED = [module for module in modules() if hasattr(module, "solutions")]


@pytest.mark.parametrize("module", SOLVED, ids=name_of)
def test_every_question_has_its_worked_solution(module):
    solutions = solutions_of(module)
    assert [solution.number for solution in solutions] == list(module.TITLES)
    for solution in solutions:
        assert [check.text for check in solution.checks if not check.holds] == []
        for step in solution.steps:
            assert max(map(len, step_lines(step)), default=0) <= 110


DRAWN = [module for module in SOLVED if hasattr(module, "picture")]


@pytest.mark.parametrize("module", slow.but(["d003.threshold_neurons"], DRAWN, name_of),
                         ids=map(name_of, DRAWN))
def test_a_picture_is_drawn_where_a_solution_speaks_of_one(module, tmp_path):
    path, = draw(module, tmp_path / "new")
    assert path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 10_000
    assert any(solution.picture for solution in solutions_of(module))


def test_only_what_is_code_or_the_runs_answer_has_no_solution():
    assert [name_of(m) for m in modules() if m not in SOLVED] == ["d003.notebook", "d004.kept_runs"]


def test_the_pencil_has_lines_of_solutions_alone():
    known = {f"{name_of(module)} {number}" for module in SOLVED for number in module.TITLES}
    assert len(arithmetic.PENCIL) > 60 and set(arithmetic.PENCIL) <= known
    assert all(all(lines) and lines for lines in arithmetic.PENCIL.values())


def test_a_number_that_is_printed_and_not_so_is_a_failure_of_ours(monkeypatch):
    def checks(numbers, answer="2"):
        monkeypatch.setattr(layer_norm, "solutions", lambda: [Solution(
            "2.1", steps=[Step("Add.", "a + b", numbers)], answer=answer,
            checks=[Check("counted", True)])])
        solution, = solutions_of(layer_norm)
        return [check.text for check in solution.checks if not check.holds]

    monkeypatch.setitem(arithmetic.PENCIL, "d004.layer_norm 2.1", ["1 + 1 = 2"])
    assert checks("1 + 1 = 2") == []
    assert checks("1 + 1 = 3") == ["1 + 1 = 3 is printed", "a pencil has '1 + 1 = 2'"]
    assert checks("1 + 1 = 2", "that gives 1 − 1 = 2") == ["1 - 1 = 2 is printed"]


ROOM = Path(worked.__file__).parent


def lengths(tree):
    """(first line, lines) of the statements of functions that hold no other ones; no docstrings."""
    return [(node.lineno, node.end_lineno - node.lineno + 1) for function in ast.walk(tree)
            if isinstance(function, ast.FunctionDef) for node in ast.walk(function)
            if isinstance(node, ast.stmt) and not hasattr(node, "body") and not (
                isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))]


def is_text(node):
    return isinstance(node, ast.JoinedStr) or isinstance(getattr(node, "value", None), str)


def computes(node):
    """Whether an expression combines numbers: places of a subscript and joined texts are none."""
    if isinstance(node, ast.Subscript):
        return computes(node.value)
    if isinstance(node, ast.BinOp) and not (is_text(node.left) or is_text(node.right)):
        return True
    return any(map(computes, ast.iter_child_nodes(node)))


def lines_that_compute(tree):
    """The lines of f-strings with arithmetic between their braces."""
    return [node.lineno for node in ast.walk(tree)
            if isinstance(node, ast.FormattedValue) and computes(node)]


def test_arithmetic_between_braces_is_found():
    for text in ("{100 * share:.1f}", "{num(a * b)}", "{max(x ** 2 for x in a)}", "{(a @ b)[0]}",
                 "{', '.join(num(x - 1) for x in a)}", "{a:{b + 1}}", "{' ' * (a + 1)}"):
        assert set(lines_that_compute(ast.parse(f'\nf"{text}"'))) == {2}, text
    for text in ("{x[t - 1]}", "{'-' * n}", "{num(-a)}", "{f'{a}' + b}", "{sum(a)}"):
        assert lines_that_compute(ast.parse(f'f"{text}"')) == [], text


@pytest.mark.parametrize("path", sorted(ROOM.glob("**/*.py")), ids=lambda path: path.stem)
def test_an_exercise_can_be_stepped_through(path):
    tree = ast.parse(path.read_text("utf-8"))
    assert [place for place in lengths(tree) if place[1] > 15] == []
    assert [f"{path.relative_to(ROOM)}:{line}: arithmetic in an f-string; name the number before"
            for line in lines_that_compute(tree)] == []


@pytest.mark.slow
def test_an_operator_that_slips_in_a_solution_is_noticed():
    """One operator of a solution's code exchanged: of those that change the print, 19 in 20."""
    fates = Counter(fate for module in SOLVED for fate in slips.fates(module, count=4, seed=3))
    assert fates["seen"] > 80 and fates["unseen"] <= 0.05 * fates["seen"]
