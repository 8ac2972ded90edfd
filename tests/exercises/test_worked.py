"""Worked solutions: their data, how they are shown, and the command that finds a question."""

import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

from exercises import ledger, questions
from exercises.__main__ import main
from exercises.framework import solutions_of
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


SOLVED = [name for name in ledger.modules() if name != "d004_study"]    # it has its own report


@pytest.mark.parametrize("name", SOLVED)
def test_every_question_has_its_worked_solution(name):
    module = vars(questions.importlib.import_module(f"exercises.{name}"))
    solutions = solutions_of(module)
    assert [solution.number for solution in solutions] == list(module["TITLES"])
    for solution in solutions:
        assert [check.text for check in solution.checks if not check.holds] == []
        for step in solution.steps:
            assert max(map(len, step_lines(step)), default=0) <= 110


@pytest.mark.parametrize("question, lines", [
    ("000.1", ["channel  values                   μ      σ²          μ ≈    σ² ≈",
               "σ² = ((2 − 31/12)² + (5 − 31/12)² + …) / 12 = 227/12 / 12 = 227/144",
               "μ = (2 + 5 + 1 + 4 + 3 + 4) / 6 = 19 / 6 = 19/6",
               "1       2 5 1 4 3 4  19/6  65/36  3.1667  1.8056",
               "1, 2             4 3 4   11/3  2/9   3.6667  0.2222",
               "4, 1             3 4 3   10/3  2/9   3.3333  0.2222"]),
    ("000.2.3", ["<BOS>      0.500  0.300  0.200", "0.500 · 0.500 = 0.250",
                 "xy 0.250, yx 0.180, xz 0.150, xx 0.100, yy 0.090, yz 0.030        xy 0.250, "
                 "yx 0.180"]),
    ("000.2.4", ["1  (a, blue)     −2.0 − 2.7 = −4.7  kept",
                 "2  (a, red)      −2.0 − 2.9 = −4.9  kept",
                 "3  (the, red)    −1.7 − 3.3 = −5.0  pruned",
                 "(the, green)  −1.7 − 3.6 = −5.3  pruned"]),
    ("000.2.5", ["c   u   0.200       0.950    0.190", "B = 2: (b, u) with 0.180"]),
    ("000.3.2", ["W_f = ⎡ 1.0  0.0 ⎤   U_f = ⎡ 0.5  −1.0 ⎤   V_f = ⎡ 1.0  0.5 ⎤   W_b = ⎡ 0  1 ⎤",
                 "⎣ 0.5  1.0 ⎦         ⎣ 0.0   0.5 ⎦         ⎣ 0.0  1.0 ⎦         ⎣ 1  0 ⎦",
                 "U_b = ⎡ 0.5   0.0 ⎤   V_b = ⎡  1  0 ⎤   x₁ = ⎡ 1 ⎤   x₂ = ⎡  0.5 ⎤   "
                 "z₁ = ⎡ 1 ⎤   z₂ = ⎡ 0 ⎤",
                 "⎣ 1.0  −0.5 ⎦         ⎣ −1  1 ⎦        ⎣ 0 ⎦        ⎣ −0.5 ⎦        "
                 "⎣ 0 ⎦        ⎣ 1 ⎦",
                 "f₀ = ⎡ 0.5 ⎤   b₃ = ⎡  0.0 ⎤", "⎣ 0.0 ⎦        ⎣ −0.5 ⎦",
                 "= tanh(1.00 + 0.00 + 0.25 + 0.00) = 0.848",
                 "= 2 · (0.5 · (−0.148) + 1.0 · 0.906) = 1.664"]),
    ("002.3b", ["i = o = 0.622, c̃ = 0.462, c' = i c̃ = 0.288"]),
    ("002.4a", ["∂C₂/∂h₁ = 0.116 + 0.146 + 0.358 = 0.620",
                "0.705 · (1 − 0.710²) = 0.350,   0.710 · 0.208 = 0.148"]),
    ("002.7.1", ["0.731 · (1, 0) + 0.269 · (0, 2) = (0.731, 0.538)"]),
    ("003.5", ["entry 2: 2 c₂ = 1, so c₂ = 0.5", "|h₁| = 4.04, |h₅₀| = 3.23e−10",
               "∂L/∂h₁ = W (1, 0) = (0.50, 0.35),   ∂L/∂h₀ = W ∂L/∂h₁ = (0.250, 0.595)"]),
    ("003.7", ["0.7 · 0.617 + 0.3 · 1.057 = 0.7491, 0.1382 above the floor"]),
    ("004.1.2", ["c = 0.731 · 0 + 0.731 · 0.762 = 0.557,   h = 0.731 · tanh(0.557) = 0.370"]),
])
def test_a_step_shows_how_its_first_number_comes_about(question, lines, capsys):
    assert main([question, "--solution"]) == 0
    shown = capsys.readouterr().out
    assert [line for line in lines if line not in shown] == []


def test_list_has_one_line_for_each_question(capsys):
    assert main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "000.2.4a   Greedy decoding on a tree" in lines
    assert len(lines) == len(questions.listing()) == len(set(lines))


@pytest.mark.parametrize("text, numbers", [
    ("000.2.4", ["000.2.4a", "000.2.4b"]), ("000.2.4b", ["000.2.4b"]),
    ("Greedy decoding on", ["000.2.4a"]),
])
def test_a_question_is_found(text, numbers):
    assert [number for number, *_ in questions.find(text)] == numbers


@pytest.mark.parametrize("words", [["000.9"], ["999.1"], ["no such words"], ["a"], ["000.2.4x"]])
def test_an_unknown_question_is_one_line_and_2(words, capsys):
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ") and captured.err.count("\n") == 1
    assert not captured.out


def test_one_question_alone(capsys, tmp_path):
    assert main(["000.2.4a"]) == 0
    both = capsys.readouterr().out
    assert "Worked solution of 2.4a" in both and "2.4b:" not in both
    assert "Q2 4a:" in both and "Q2 4b:" not in both
    assert both.index("Answer:") < both.index("Q2 4a:")
    assert main(["000.2.4a", "--solution"]) == 0
    assert "Q2 4a:" not in capsys.readouterr().out
    assert main(["000.2.4a", "--claims", "--figures", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "Worked solution" not in shown and "Q2 4a:" in shown and "wrote" in shown


@pytest.mark.parametrize("options", [
    ["--solution"], ["000.2.4", "--json"], ["000.2.4", "--only", "000"], ["000.2.4", "--ledger"],
])
def test_options_that_do_not_fit_are_one_line_and_2(options, capsys):
    assert main(options) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_reader_of_a_script_who_stops_early_sees_no_traceback():
    script = questions.importlib.import_module("exercises.d000_decoding").__file__
    run = subprocess.run(f'"{sys.executable}" "{script}" | head -c 1', shell=True,
                         capture_output=True, text=True, timeout=60)
    assert run.stdout == "A" and not run.stderr
