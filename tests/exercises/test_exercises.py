"""All questions of the documents: their checks, their claims, and the command that shows them."""

from collections import Counter

import pytest

from exercises import course
from exercises.__main__ import main
from exercises.course import FAILED, VERDICTS
from exercises.d000 import normalisation
from exercises.d002 import gru_gates, lstm
from npdl.layers.batch_norm import centre_and_moments
from npdl.layers.recurrent import GRUCell
from tests.tools.refusals import check_refused

# By document: confirmed, wrong, slip, under-specified, convention, no answer given, essay.
COUNTED = {
    "000": (62, 16, 2, 23, 4, 1, 1), "001": (8, 1, 2, 8, 3, 14, 0), "002": (29, 11, 4, 33, 3, 1, 4),
    "003": (8, 1, 5, 9, 5, 15, 4), "004": (58, 5, 6, 18, 4, 5, 1),
}


@pytest.fixture(scope="module")
def questions():
    return [question.run() for question in course.find_questions()]


def test_all_questions_run_and_their_checks_hold(questions):
    assert {q.number: q.failed for q in questions if q.failed} == {}


def test_every_question_says_what_is_asked_its_answer_and_a_check(questions):
    for question in questions:
        asked = question.work.__doc__
        assert asked.endswith((".", "?")) and "\n" not in asked, question.number
        answers = [text for text in question.text if text.startswith("Answer: ")]
        assert len(answers) == 1 and question.checks or "REPORT.md" in question.text[-1], (
            question.number)


@pytest.mark.parametrize("document", COUNTED)
def test_the_claims_of_a_document_by_verdict(questions, document):
    found = Counter(c.verdict for q in questions for c in q.claims if q.number[:3] == document)
    assert tuple(found[word] for word in VERDICTS[:-1]) == COUNTED[document]
    assert found.keys() <= set(VERDICTS)


def test_claims_are_said_once(questions):
    claims = [(c.number[:3], c.part, c.says) for q in questions for c in q.claims]
    assert [claim for claim, count in Counter(claims).items() if count > 1] == []


def run_question(number):
    (question,) = course.find_questions(number)
    return question.run()


@pytest.mark.parametrize("number, module, name, wrong", [
    ("002.2a", gru_gates, "sigmoid", lambda x: 1 / (1 + abs(x))),
    ("002.4a", lstm, "npdl_gradient", lambda xs: 1.0),
    ("000.1", normalisation, "centre_and_moments",
     lambda x, axes: [s + 1 for s in centre_and_moments(x, axes)]),
])
def test_a_false_computation_is_reported_and_judges_nothing(monkeypatch, number, module, name,
                                                            wrong):
    monkeypatch.setattr(module, name, wrong)
    question = run_question(number)
    assert question.failed
    assert {claim.verdict for claim in question.claims} == {FAILED}


def test_a_verdict_follows_the_computation(monkeypatch):
    def verdict():
        return next(c.verdict for c in run_question("000.1").claims if "instance variances" in
                    c.says)

    assert verdict() == "wrong"
    right = {"instance": ("3.17 2.00 2.50 3.33", "1.81 1.00 0.92 0.89")}
    monkeypatch.setattr(normalisation, "PRINTED", normalisation.PRINTED | right)
    assert verdict() == "confirmed"


def test_an_exception_in_npdl_is_one_line_and_status_1(monkeypatch, capsys):
    def broken(*arguments):
        raise RuntimeError("broken")

    monkeypatch.setattr(GRUCell, "forward", broken)
    assert main(["002.2c"]) == 1
    captured = capsys.readouterr()
    assert "OUR COMPUTATION FAILED: RuntimeError in broken: broken" in captured.out
    assert f"{FAILED}: 002.2c: RuntimeError in broken: broken\n" in captured.err


def test_list_has_a_line_for_each_question(capsys):
    assert main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(course.find_questions())
    assert "002.6b     The variance of a dot product" in lines


def test_questions_by_number_with_solutions_and_claims(capsys):
    assert main(["002.6b", "000.2.4"]) == 0
    shown = capsys.readouterr().out
    heads = ["# 002.6b The variance", "# 000.2.4a Greedy decoding", "# 000.2.4b Beam search"]
    assert sorted(heads, key=shown.index) == heads
    assert shown.count("## What the document says") == 3 and "  - verdict: WRONG" in shown


def test_without_a_question_the_ledger_is_printed(monkeypatch, capsys):
    found = course.find_questions("000.2.4")
    monkeypatch.setattr(course, "find_questions", lambda number="": found)
    assert main([]) == 0
    shown = capsys.readouterr().out
    heads = ["## 000.2.4a Greedy", "## Wrong answers: 2\n\n- 000.2.4b: The best of the final beam",
             "## Wrong steps: 2\n\n- 000.2.4b: ", "## Slips: 1\n\n- 000.2.4a: ", "## Claims: 13"]
    assert "Answer:" not in shown and sorted(heads, key=shown.index) == heads
    assert shown.rpartition("    wrong ")[2].split()[:2] == ["4", "4"]


def test_figures_are_drawn_into_a_folder(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    assert main(["000.3.1", "--figures", str(tmp_path / "new")]) == 0
    path = tmp_path / "new" / "000.3.1.png"
    assert path.read_bytes()[:4] == b"\x89PNG" and f"wrote {path}" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [
    *(["000.2.1", number] for number in ("000.9", "999.1", "no such", "000.2.4x")),
    ["--odd"], ["--figures"], ["--figures", __file__]])
def test_unknown_numbers_and_bad_options_are_one_line_and_status_2(arguments, capsys):
    check_refused(main, arguments, arguments[-1], capsys)


def test_a_solution_needs_no_docstrings(monkeypatch):
    question = course.find_questions("002.6b")[0]                     # python -OO removes them
    whole = question.run().format_solution()
    monkeypatch.setattr(question.work, "__doc__", None)
    assert question.format_solution() == whole.replace("\n\n" + whole.split("\n\n")[1], "", 1)
