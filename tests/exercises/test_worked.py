"""Worked solutions: how they are shown, and that they print what a pencil gives."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from exercises.__main__ import main
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
    text = solution_text(Solution("1", (Step("Add."),), "2", (Check("counted", False),)), "Sum")
    assert text.startswith("Worked solution of 1: Sum\n-------------------------\n")
    assert "1. Add." in text and "Answer: 2" in text
    assert "OUR COMPUTATION FAILED:  counted" in text


@pytest.mark.parametrize("changes", [
    {"steps": ()}, {"checks": ()}, {"answer": "one\ntwo"}, {"answer": " "}, {"steps": ("Add.",)},
])
def test_what_is_no_solution_is_refused(changes):
    given = {"number": "1", "steps": (Step("Add."),), "answer": "2",
             "checks": (Check("counted", True),)}
    with pytest.raises(InputError):
        Solution(**given | changes)
    with pytest.raises(InputError):
        Table(("one", "two"), ((1,),))


SOLVED = [module for module in modules() if hasattr(module, "solutions")]
PRINTS = {question: [line.removeprefix("    ") for line in lines] for question, *lines in (
    block.splitlines() for block in (Path(__file__).parent / "worked_prints.txt").read_text(
        encoding="utf-8").split("\n\n")[1:])}


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


def test_only_what_the_runs_answer_has_no_solution():
    assert [name_of(m) for m in modules() if m not in SOLVED] == ["d004.kept_runs"]


@pytest.mark.parametrize("question", PRINTS)
def test_the_print_has_the_numbers_of_the_pencil(question, capsys):
    assert main([question, "--solution"]) == 0
    shown = capsys.readouterr().out
    assert [line for line in PRINTS[question] if line not in shown] == []
