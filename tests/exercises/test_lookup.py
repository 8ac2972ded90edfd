"""What `python -m exercises` shows of a question: the list, the numbers, where it is answered."""

import pytest

from exercises import asked as asked_for
from exercises import lookup
from exercises.__main__ import main
from exercises.d002 import exploding_training, gradient_remedies, lstm_statements
from exercises.worked import solution_text
from npdl_study.check.target import find_class


def printed(capsys, *given):
    assert main([*given]) == 0
    return capsys.readouterr().out


def test_the_list_has_a_number_once_and_the_cause_before_its_effects(capsys):
    header, *lines = printed(capsys, "--list").splitlines()
    assert "python -m exercises 000.2.4a" in header and len(header) <= 100
    numbers = [line.split()[0] for line in lines if not line.startswith(" ")]
    assert len(numbers) == len(set(numbers)) < len(lines)
    start = next(i for i, line in enumerate(lines) if line.startswith("002.1 "))
    assert [line[11:15] for line in lines[start:start + 3]] == ["Why ", "What", "What"]
    assert [line[:11].strip() for line in lines[start:start + 4]] == ["002.1", "", "", "002.2a"]


@pytest.mark.parametrize("number, place", [
    ("4.1", "questions-1-and-2-the-default-recipe"),
    ("4.2", "questions-1-and-2-the-default-recipe"),
    ("4.5", "question-5-layers-and-width"), ("4.8", "question-8-attention"),
])
def test_a_question_without_a_solution_says_where_it_is_answered(number, place, capsys):
    shown = printed(capsys, f"004.{number}", "--solution")
    assert f"{number} is answered in experiments/REPORT.md#{place}\n" in shown


@pytest.mark.parametrize("number, numbers", [
    ("000.3.1", "T = 3, d = 4 and random matrices"),
    pytest.param("001.1", "random distributions", marks=pytest.mark.slow),
    ("001.3.3", "D_x = 3, D_p = 4 and random matrices"), ("001.4.1", "random inputs"),
])
def test_the_numbers_of_the_claims_stand_with_the_claims(number, numbers, capsys):
    both, alone = printed(capsys, number), printed(capsys, number, "--solution")
    assert numbers in printed(capsys, number, "--claims") and numbers not in alone
    assert both.index("What the document says") < both.index(numbers)


def test_what_comes_from_the_question_before_says_so(capsys):
    assert "δ₂ (3.2) = ⎡ 3 ⎤" in printed(capsys, "001.3.3", "--solution")


@pytest.mark.parametrize("module, changes, lines", [
    (lstm_statements, {"KEPT": 0.5}, ["0 · 0.5 of the old memory", "cₜ₋₁ = 0.5; fₜ kept"]),
    (lstm_statements, {"MEMORY": -0.5, "CANDIDATE": 0.5},
     ["cₜ₋₁ = −0.5, fₜ = iₜ = 0.731, c̃ₜ = 0.5:  cₜ = −0.366 + 0.366 = 0.000"]),
    (exploding_training, {"PLAIN": (3.0, 0.5), "STEPS": 4, "START": 2.0},
     ["h₄ = 3⁴ · 2 = 162,   L = 162²/2 = 13122", "162 · 4 · 3³ · 2 = 34992",
      "w ← w − 0.5 dL/dw", "learning rate 0.5", "w = 3 − 0.5 · 34992 = −17493.0"]),
    (gradient_remedies, {"LIMIT": 2.0, "SCALES": (0.5, 2.0), "STEPS": 10},
     ["c = 2: (1.200, 1.600)", "cut to ±2 instead: (2.000, 2.000)", "32 after 10 steps",
      "0.408 for a = 0.5, 1.633 for a = 2; ratio 4.000 = 4.000"]),
])
def test_the_numbers_of_a_solution_follow_its_constants(module, changes, lines, monkeypatch):
    for name, value in changes.items():
        monkeypatch.setattr(module, name, value)
    shown = " ".join(" ".join(map(solution_text, module.solutions())).split())
    assert [line for line in lines if " ".join(line.split()) not in shown] == []
    assert all(check.holds for solution in module.solutions() for check in solution.checks)


@pytest.mark.parametrize("text, numbers", [
    ("000.2.4", ["000.2.4a", "000.2.4b"]), ("000.2.4b", ["000.2.4b"]),
    ("Greedy decoding on", ["000.2.4a"]), ("004.4.6c", ["004.4.6"]), ("004.4.1", ["004.4.1"]),
    ("004.4.2", ["004.4.2", "004.4.2"]), ("002.2a.1", ["002.2a"]), ("000.1.7", ["000.1"]),
])
def test_a_question_is_found_or_the_closest_that_it_is_a_part_of(text, numbers):
    assert [number for number, *_ in lookup.find(text)] == numbers


def test_several_questions_at_once(capsys):
    shown = printed(capsys, "000.2.4a", "003.6c", "--solution")
    assert shown.count("Worked solution of") == 2
    assert shown.index("Worked solution of 2.4a") < shown.index("Worked solution of 6c")
    assert printed(capsys, "Greedy", "decoding", "on", "003.6c", "--solution").count("Worked") == 2
    assert printed(capsys, "000.2.4", "000.2.4a", "--solution").count("Worked solution of") == 2


@pytest.mark.parametrize("asked", [
    ["000.9"], ["999.1"], ["no such words"], ["a"], ["000.2.4x.y", "000.2.1", "000.9"],
    ["000.2.1", "999.1"],
])
def test_a_wrong_question_is_one_line_and_2_and_leaves_nothing_behind(asked, capsys, tmp_path):
    assert main([*asked, "--figures", str(tmp_path / "new")]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ") and captured.err.count("\n") == 1
    assert not captured.out and not (tmp_path / "new").exists()


def test_one_question_alone(capsys, tmp_path):
    both = printed(capsys, "000.2.4a")
    assert "Worked solution of 2.4a" in both and "2.4b:" not in both
    assert "Q2 4a:" in both and "Q2 4b:" not in both
    assert both.index("Answer:") < both.index("Q2 4a:")
    shown = printed(capsys, "000.3.1", "--claims", "--figures", str(tmp_path))
    assert "Worked solution" not in shown and "Q3 1:" in shown and "wrote" in shown


@pytest.mark.parametrize("options", [
    ["--solution"], ["000.2.4", "--only", "000"], ["000.2.4", "--ledger"],
])
def test_options_that_do_not_fit_are_one_line_and_2(options, capsys):
    assert main(options) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_what_asks_for_code_says_where_it_is_and_how_it_is_practised(capsys):
    shown = printed(capsys, "004.2.5", "--solution")
    assert "Code:     MultiHeadAttention.forward, npdl/layers/attention.py:" in shown
    assert "--forward --layers MultiHeadAttention" in shown
    assert "Code:" not in printed(capsys, "004.2.5", "--claims")
    assert "Code:" not in printed(capsys, "004.2.6", "--solution")


@pytest.mark.parametrize("question", asked_for.CODE)
def test_the_code_that_is_asked_for_is_there(question):
    _, name, script, layer = asked_for.CODE[question]
    path, line = asked_for.place(question).split(":")
    text = (asked_for.ROOT / path).read_text(encoding="utf-8").splitlines()[int(line) - 1]
    assert f"def {name.split('.')[-1]}(" in text
    assert (asked_for.ROOT / "experiments" / f"{script}.py").exists()
    assert layer == "--level lstm" or find_class(layer).__name__ == layer
    question = question.split()[0]
    assert {number for number, *_ in lookup.find(question)} == {question}
