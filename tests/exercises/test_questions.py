"""What `python -m exercises` shows of a question: the list, the numbers, where it is answered."""

import importlib

import pytest

from exercises.__main__ import main
from exercises.worked import solution_text


def printed(capsys, *given):
    assert main([*given]) == 0
    return capsys.readouterr().out


def test_the_list_has_a_number_once_and_the_cause_before_its_effects(capsys):
    lines = printed(capsys, "--list").splitlines()
    numbers = [line.split()[0] for line in lines if not line.startswith(" ")]
    assert len(numbers) == len(set(numbers)) < len(lines)
    start = next(i for i, line in enumerate(lines) if line.startswith("002.1 "))
    assert [line[11:15] for line in lines[start:start + 3]] == ["Why ", "What", "What"]
    assert [line[:11].strip() for line in lines[start:start + 4]] == ["002.1", "", "", "002.2a"]


@pytest.mark.parametrize("number, place", [
    ("4.2", "sanity-check-questions-1-and-2"), ("4.5", "scaling-model-size-question-5"),
    ("4.8", "attention-maps-question-8"),
])
def test_a_question_without_a_solution_says_where_it_is_answered(number, place, capsys):
    shown = printed(capsys, f"004.{number}", "--solution")
    assert f"{number} is answered in experiments/REPORT.md#{place}\n" in shown


@pytest.mark.parametrize("number, numbers", [
    ("000.3.1", "T = 3, d = 4 and random matrices"), ("001.1", "random distributions"),
    ("001.3.3", "D_x = 3, D_p = 4 and random matrices"), ("001.4.1", "random inputs"),
])
def test_the_numbers_of_the_claims_stand_with_the_claims(number, numbers, capsys):
    both, alone = printed(capsys, number), printed(capsys, number, "--solution")
    assert numbers in printed(capsys, number, "--claims") and numbers not in alone
    assert both.index("What the document says") < both.index(numbers)


def test_what_comes_from_the_question_before_says_so(capsys):
    assert "δ₂ (3.2) = ⎡ 3 ⎤" in printed(capsys, "001.3.3", "--solution")


@pytest.mark.parametrize("module, changes, lines", [
    ("d002_lstm_statements", {"KEPT": 0.5}, ["0 · 0.5 of the old memory", "c = 0.5, and f"]),
    ("d002_lstm_statements", {"MEMORY": -0.5, "CANDIDATE": 0.5},
     ["c = −0.5, f = i = 0.731, c̃ = 0.5:  c' = −0.366 + 0.366 = 0.000"]),
    ("d002_exploding_training", {"PLAIN": (3.0, 0.5), "STEPS": 4, "START": 2.0},
     ["h₄ = 3⁴ · 2 = 162,   L = 162²/2 = 13122", "162 · 4 · 3³ · 2 = 34992",
      "w ← w − 0.5 dL/dw", "learning rate 0.5", "w = 3 − 0.5 · 34992 = −17493.0"]),
    ("d002_gradient_remedies", {"LIMIT": 2.0, "SCALES": (0.5, 2.0), "STEPS": 10},
     ["c = 2: (1.200, 1.600)", "cut to ±2 instead: (2.000, 2.000)", "32 after 10 steps",
      "0.408 for a = 0.5, 1.633 for a = 2; ratio 4.000 = 4.000"]),
])
def test_the_numbers_of_a_solution_follow_its_constants(module, changes, lines, monkeypatch):
    solved = importlib.import_module(f"exercises.solved.{module}")
    for name, value in changes.items():
        monkeypatch.setattr(solved, name, value)
    shown = " ".join(" ".join(map(solution_text, solved.solutions())).split())
    assert [line for line in lines if " ".join(line.split()) not in shown] == []
    assert all(check.holds for solution in solved.solutions() for check in solution.checks)
