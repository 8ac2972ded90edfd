"""The framework of the exercises: questions, checks, claims, verdicts and their text."""

import pytest

from exercises import course
from exercises.course import FAILED, Question, format_arrays, format_table, judge, vec


@pytest.mark.parametrize("holds, words, verdict", [
    (True, (), "confirmed"), (False, (), "wrong"), (True, ("under-specified",), "under-specified"),
    (False, ("under-specified",), FAILED), (False, ("confirmed", "slip"), "slip"),
])
def test_judge_gives_the_verdict_of_a_comparison(holds, words, verdict):
    assert judge(holds, *words) == verdict


def test_a_question_can_run_again_and_shows_text_steps_answer_and_checks():
    def work(say, step, answer, check, claim):
        """Add one and one."""
        say("Two numbers.")
        step("Add them.", "1 + 1", "= 2")
        answer(f"It is {2:.1f}, not {-2}.")
        check("counted by hand", True)
        claim("", "1 + 1 = 2", "2", "2", judge(True), "counted")

    question = Question("000.1", "A sum", work)
    question.run()
    assert question.run().format_solution() == """\
# 000.1 A sum

Add one and one.

Two numbers.

1. Add them.

       1 + 1
       = 2

Answer: It is 2.0, not −2.

- Check: counted by hand"""
    assert len(question.claims) == 1


@pytest.mark.parametrize("number, found", [
    ("002.6a", ["002.6a"]), ("002.6", ["002.6a", "002.6b", "002.6c", "002.6d"]),
    ("000.2.4", ["000.2.4a", "000.2.4b"]), ("002.1", ["002.1"] * 3), ("002.60", []), ("9", []),
])
def test_find_returns_a_question_or_its_parts_in_order(number, found):
    assert [question.number for question in course.find_questions(number)] == found


def test_numbers_are_in_the_order_of_the_documents():
    numbers = [question.number for question in course.find_questions("002")]
    assert numbers.index("002.2a") < numbers.index("002.6d") < numbers.index("002.7.1")
    assert course.find_questions("002.1")[0].title.startswith("Why gradients")


@pytest.mark.parametrize("text, shown", [
    ("3 + -2 = -1", "3 − 2 = −1"), ("-0.000 and -0.001", "0.000 and −0.001"), ("5e-05", "5e-05"),
    ("h_(t-1), x-1, --figures", "h_(t-1), x-1, --figures"), ("(-inf, -∞)", "(-inf, −∞)"),
])
def test_set_minus_signs(text, shown):
    assert course.set_minus_signs(text) == shown


def test_vec_format_table_and_format_arrays():
    assert vec([0.5, -1.0], 1) == "(0.5, −1.0)" and vec([1, -2]) == "(1, −2)"
    assert vec([1e-9, 2.0], ".0e") == "(1e-09, 2e+00)"
    assert format_table(("n", "value", "kind"), [(1, -0.5, "a"), (10, 2.0, "b")], 1) == """\
 n  value  kind
──  ─────  ────
 1   −0.5  a
10    2.0  b"""
    assert format_arrays({"M": [[1.0, -2.5], [0, 3]], "x": [1, 2]}) == """\
M = ⎡ 1.0  −2.5 ⎤  x = ⎡ 1 ⎤
    ⎣ 0.0   3.0 ⎦      ⎣ 2 ⎦"""
    assert format_arrays({"x": [[1, 2]]}) == "x = [ 1  2 ]"
