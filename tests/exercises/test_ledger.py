"""The ledger: up to date, complete, well formed; and the command that writes it."""

import ast
import difflib
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from exercises import ledger, lookup
from exercises.__main__ import main
from exercises.d000 import lora_tradeoffs
from exercises.d001 import attention_eigenvectors
from exercises.d003 import message_passing, parity_lstm, points_and_review
from exercises.d004 import layer_norm
from exercises.framework import (
    FAILED,
    VERDICTS,
    Claim,
    Verdict,
    judge,
    judgement,
    modules,
    name_of,
    present,
)
from npdl.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
FIELDS = ["document", "question", "part", "claim", "documents_answer", "computed", "verdict",
          "evidence"]


# By document: confirmed, wrong, slip, under-specified, convention, no answer given, essay.
COUNTED = {
    "000": (62, 16, 2, 23, 4, 1, 1),
    "001": (8, 1, 2, 8, 3, 14, 0),
    "002": (29, 11, 4, 33, 3, 1, 4),
    "003": (8, 1, 5, 9, 5, 15, 4),
    "004": (58, 5, 6, 18, 4, 5, 1),
}
WRONG = {       # where a document is wrong, and how often
    "000 Q1": 5, "000 Q2 2": 1, "000 Q2 3": 2, "000 Q2 4b": 4, "000 Q3 3": 2, "000 Q4 4": 1,
    "000 Q4 4a": 1, "001 Q4 2": 1, "002 Problem 1 cause": 1, "002 Problem 3 b, summary": 1,
    "002 Problem 4 a": 1, "002 Problem 5 a": 2, "002 Problem 6 b": 1, "002 Problem 6 c": 2,
    "002 Problem 6 d": 1, "002 Problem 7 1": 1, "002 Problem 7 3a": 1, "003 Q6 d, premise": 1,
    "004 Problem 1.3 answer": 1, "004 Problem 2.2 index": 1, "004 Problem 3 right-hand side": 1,
    "004 Problem 4 meaning of Delta t(L)": 1, "004 Problem 4 P already computed": 1,
}


@pytest.fixture(scope="module")
def claims():
    found, *_ = ledger.gather(modules())
    return found


@pytest.mark.slow
def test_ledger_is_up_to_date(claims):
    kept, now = ledger.LEDGER.read_text(encoding="utf-8"), ledger.as_markdown(claims)
    stale = [line[:200] for line in difflib.unified_diff(kept.splitlines(), now.splitlines(), n=0)]
    assert not stale, "\n".join(["write it again: python -m exercises --ledger", *stale[:12]])


@pytest.mark.slow
def test_every_document_and_every_verdict_has_claims(claims):
    assert {claim.document for claim in claims} == {"000", "001", "002", "003", "004"}
    counts = ledger.counts(claims)
    assert counts.pop(FAILED) == 0 and all(counts[word] for word in VERDICTS if word != FAILED)


@pytest.mark.slow
def test_verdicts_counted_and_errors_found(claims):
    computed = [claim for claim in claims if claim.basis != "runs"]
    assert {document: tuple(sum((c.document, c.verdict) == (document, word) for c in computed)
                            for word in VERDICTS[:-1]) for document in COUNTED} == COUNTED
    assert Counter(ledger.cited(c) for c in claims if c.verdict == "wrong") == WRONG


@pytest.mark.slow
def test_claims_are_said_once(claims):
    keys = [(claim.document, claim.question, claim.part, claim.claim) for claim in claims]
    assert sorted(set(keys)) == sorted(keys)


@pytest.mark.slow
def test_claims_hold_no_place_of_this_machine(claims):
    for claim in claims:
        text = " ".join(vars(claim).values())
        assert not re.search(r"/(home|tmp|root|usr)/|0x[0-9a-f]{6}| at 0x", text)


@pytest.mark.slow
def test_markdown_starts_with_counts_and_errors(claims):
    text = ledger.as_markdown(claims)
    errors = ledger.errors(claims)
    heads = ["## Counts", "## Errors of the documents", "## Not reproduced", "## Document 000"]
    assert sorted(heads, key=text.index) == heads
    for verdict, count in ledger.counts(claims).items():
        row = re.search(rf"^\| {verdict} \|(.*)\|$", text, re.M).group(1)
        *documents, total = map(int, row.split("|"))
        assert len(documents) == 5 and sum(documents) == total == count
    assert len(re.findall(r"^\d+\. \*\*", text, re.M)) == len(errors) > 0
    rows = [line for line in text.split("## Document", 1)[1].splitlines() if line.startswith("| ")]
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 7 for row in rows)


@pytest.mark.slow
def test_text_shows_every_claim(claims):
    text = ledger.as_text(claims, 80)
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("      evidence") == len(claims)


def a_claim(**changes):
    values = dict(zip(FIELDS, ["004", "Q1", "a", "1 = 1.", "yes", "1", judge(True),
                               "counted"], strict=True))
    return Claim(**{**values, **changes})


@pytest.mark.parametrize("changes", [
    {"verdict": "right"}, {"verdict": "wrong"}, {"weight": "heavy"}, {"claim": ""},
    {"evidence": "two\nlines"}, {"computed": 3}, {"evidence": " "},
])
def test_claim_refuses_what_is_no_claim(changes):
    with pytest.raises(InputError) as error:
        a_claim(**changes)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("holds, provided, names, verdict", [
    (True, True, (), "confirmed"), (False, True, (), "wrong"), (False, False, (), FAILED),
    (True, False, (), FAILED), (True, True, ("under-specified",), "under-specified"),
    (False, True, ("under-specified",), FAILED),    # a counter-example that is none
    (False, True, ("no answer given",), FAILED),    # an answer of ours that does not hold
    (False, True, ("confirmed", "slip"), "slip"),
])
def test_what_a_comparison_says(holds, provided, names, verdict):
    found = judge(holds, *names, provided=provided)
    assert found == verdict and found.basis == "computed"


@pytest.mark.slow
def test_every_verdict_is_computed_or_says_that_it_is_a_judgement(claims):
    assert {claim.basis for claim in claims} == {"computed", "judgement", "runs"}
    assert {str(c.verdict) for c in claims if c.basis == "judgement"} == {"essay", "convention"}


@pytest.mark.parametrize("module, words, as_it_is, change, then", [
    (attention_eigenvectors, "P[:i] is the i-th", "slip",
     {"orthogonal": lambda d, rng: np.eye(d)}, "confirmed"),
    (points_and_review, "extra credit", "slip", {"EXTRA_FOR": "4644"}, "confirmed"),
    (message_passing, "(22) has one reading", "under-specified",
     {"readings": lambda: dict.fromkeys(("entry by entry", "largest of all", "W by entry"), 1)},
     "confirmed"),
    (parity_lstm, "was mentioned in Question 1", "slip",
     {"TABLES": {"AND": (0, 1, 1, 0), "OR": (0, 1, 1, 1)}}, "confirmed"),
    (lora_tradeoffs, "performs better", "under-specified",
     {"fit_errors": lambda ranks: {r: (9 - r / 9, 9 - r / 9, 0.1) for r in ranks}}, FAILED),
])
def test_a_verdict_follows_what_is_computed(monkeypatch, module, words, as_it_is, change, then):
    def says():
        return next(claim.verdict for claim in module.claims() if words in claim.claim)

    assert says() == as_it_is
    for attribute, value in change.items():
        monkeypatch.setattr(module, attribute, value)
    assert says() == then


def test_no_verdict_is_a_literal():
    for path in (ROOT / "exercises").glob("*/*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "judge":
                assert not isinstance(node.args[0], ast.Constant), f"{path.name}: {node.lineno}"


def test_what_nothing_computes_is_a_judgement():
    assert judgement("essay").basis == "judgement"
    assert judgement("essay", provided=False) == FAILED
    with pytest.raises(InputError, match="only essay and convention"):
        judgement("wrong")
    assert "convention, a judgement" in ledger.as_text([a_claim(verdict=judgement("convention"))])


def test_the_ledger_command_ends_with_1_where_ours_failed(monkeypatch, capsys):
    claims = [a_claim(verdict=judge(True, provided=False))]
    monkeypatch.setattr(ledger, "gather", lambda *given: (claims, [], []))
    assert main([]) == 1
    assert capsys.readouterr().err == f"{FAILED}: 004 Q1 a: 1 = 1.\n"


def test_errors_stand_once_and_by_weight():
    wrong = judge(False)
    claims = [a_claim(verdict=judge(False, if_false="slip"), claim="slip"),
              a_claim(verdict=wrong, claim="step", error="sum"),
              a_claim(verdict=wrong, claim="alone"), a_claim(claim="right", error="sum"),
              a_claim(verdict=wrong, claim="answer", error="sum", weight="answer"),
              a_claim(verdict=Verdict("not reproduced", "runs"), claim="seeds")]
    found = [(kind, [claim.claim for claim in group]) for kind, group in ledger.errors(claims)]
    assert found == [("answer", ["answer", "step"]), ("step", ["alone"]), ("slip", ["slip"])]
    assert ledger.error_counts(claims) == "1 in answers, 1 on the way, 1 slips"
    assert ledger.run_counts(claims) == "1 of 1"


def test_what_runs_do_not_reproduce_and_what_may_mean_more_stand_apart():
    claims = [a_claim(claim="sum", verdict=judge(False)),
              a_claim(claim="seeds", verdict=Verdict("not reproduced", "runs")),
              a_claim(claim="vague", verdict=judge(False, if_false="under-specified"))]
    page = ledger.as_markdown(claims)
    errors, _, rest = page.partition("## Not reproduced by npdl's runs: 1 of 1\n")
    assert "sum" in errors and "seeds" not in errors and "- **004 Q1 a.** seeds" in rest
    shown, _, folded = page.partition("<details><summary>under-specified: 1</summary>")
    assert "| seeds |" in shown and "| vague |" in folded and "| vague |" not in shown
    assert "<details>" not in ledger.as_markdown(claims[:2])
    assert "Not reproduced by npdl's runs: 1 of 1" in ledger.as_text(claims)


@pytest.mark.parametrize("question, part, number", [
    ("Q2", "4a", "2.4a"), ("Q2", "", "2"), ("Problem 7", "1", "7.1"),
    ("Problem 2.3", "mask", "2.3"),
    ("Q6", "d, premise", "6d"), ("Points", "", ""), ("Problem 3", "b, summary", "3b"),
])
def test_the_number_of_a_claim(question, part, number):
    assert a_claim(question=question, part=part).number == number


def test_order_counts_numbers_and_keeps_topics():
    questions = ["Q10", "Q2"]
    parts = ["mask", "axis"]
    found = sorted([a_claim(question=q, part=p) for q in questions for p in parts],
                   key=ledger.place)
    assert [(claim.question, claim.part) for claim in found] == [
        ("Q2", "mask"), ("Q2", "axis"), ("Q10", "mask"), ("Q10", "axis")]
    lettered = sorted([a_claim(part="b"), a_claim(part="a")], key=ledger.place)
    assert [claim.part for claim in lettered] == ["a", "b"]


def test_escape_keeps_tables_whole():
    assert ledger.escape("a*b |x|") == r"a\*b \|x\|"
    assert ledger.escape("`a_b` c_d") == r"`a_b` c\_d"
    assert ledger.escape("it`s_") == r"it\`s\_"


@pytest.fixture
def one_module(monkeypatch):
    monkeypatch.setattr(lookup, "modules", lambda only=(): [layer_norm])


def test_ledger_option_writes_the_file(one_module, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(ledger, "ROOT", tmp_path)
    monkeypatch.setattr(ledger, "LEDGER", tmp_path / "ledger.md")
    assert main(["--ledger"]) == 0
    assert (tmp_path / "ledger.md").read_text(encoding="utf-8").startswith(ledger.TITLE)
    assert "Claims:" in capsys.readouterr().out


@pytest.mark.parametrize("options", [
    ["--only", "999"], ["--only", "04"], ["--ledger", "--only", "004"],
])
def test_bad_options_are_one_line_and_2(options, capsys):
    assert main(options) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ") and captured.err.count("\n") == 1
    assert not captured.out


def test_an_unknown_option_is_one_line_and_2(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--odd"])
    assert stop.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_file_that_cannot_be_written_is_one_line_and_2(one_module, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(ledger, "LEDGER", tmp_path / "absent" / "ledger.md")
    assert main(["--ledger"]) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("error: ")


def test_only_chooses_documents():
    names = [name_of(module) for module in modules(["004"])]
    assert names and all(name.startswith("d004.") for name in names)
    assert set(names) < {name_of(module) for module in modules()}


def test_present_shows_everything(capsys):
    present("What is 1?", [a_claim()], ["a.png"])
    shown = capsys.readouterr().out
    for text in ("What is 1?", "Q1 a: 1 = 1.", "yes", "counted", "CONFIRMED", "wrote a.png"):
        assert text in shown


@pytest.mark.slow
def test_a_reader_who_stops_early_sees_no_traceback():
    code = ("from exercises import ledger, lookup; from exercises.__main__ import main; "
            "from exercises.d004 import layer_norm; import sys; "
            "lookup.modules = lambda only=(): [layer_norm]; "
            "ledger.as_text = lambda *given: 'x' * 10**7; sys.exit(main([]))")
    run = subprocess.run(f'"{sys.executable}" -c "{code}" | head -c 1', shell=True, cwd=ROOT,
                         capture_output=True, text=True, timeout=60)
    assert run.stdout == "x"
    assert len(run.stderr.splitlines()) == 1 and "d004.layer_norm" in run.stderr
