"""Document 004, Problem 4, in the ledger: the report's verdicts by the kept records."""

import re
from pathlib import Path

import pytest

from exercises import d004_study as study
from exercises.framework import FAILED
from experiments.reporting.parts import (
    AGAIN,
    CONTRADICTED,
    DEPENDS,
    FAILS,
    HOLDS,
    MISSING,
    NO_CLAIM,
    OPEN,
    Verdict,
)

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def claims():
    return study.claims()


@pytest.mark.parametrize("given, verdict", [
    ((HOLDS,), "confirmed"), ((FAILS,), "wrong"), ((OPEN,), "undecided"), ((MISSING,), FAILED),
    ((CONTRADICTED, HOLDS), "confirmed"), ((CONTRADICTED, FAILS), "wrong"),
    ((CONTRADICTED,), "wrong"),
    ((CONTRADICTED, OPEN), "under-specified"), ((DEPENDS,), "under-specified"),
    ((CONTRADICTED, HOLDS, "0.7"), "slip"),
    ((CONTRADICTED, "", "0.7"), "slip"), ((CONTRADICTED, FAILS, "0.7"), "wrong"),
])
def test_the_ledgers_words_for_the_reports(given, verdict):
    assert study.verdict_of(*given) == verdict


def test_what_runs_decide_weighs_as_runs(claims):
    wrong = [claim for claim in claims if claim.verdict == "wrong"]
    assert len(wrong) > 20 and {claim.weight for claim in wrong} == {"runs"}

    def weight(*given):
        return study.weight_of(Verdict(*given), "")

    assert weight("3 (d)", "it is 2", "2", "it says 3, too", CONTRADICTED) == "answer"
    assert weight("Figure 4", "it is 2", "2", "it says 3, too", CONTRADICTED) == "step"
    assert weight("3 (d)", "it is 2", "2", "seed 0: no", FAILS) == "runs"
    assert study.luck().startswith("**Luck.** ")


def test_every_claim_of_the_report_is_in_the_ledger_once(claims):
    verdicts = [v for section in study.report() for v in section.verdicts]
    assert len(claims) == len([v for v in verdicts if v.verdict not in (NO_CLAIM, AGAIN)]) > 120
    assert {claim.number for claim in claims} == {f"4.{n}" for n in range(2, 9)}
    assert not [claim for claim in claims if claim.verdict == FAILED]


def test_every_link_is_a_heading_of_the_report(claims):
    text = (ROOT / "experiments" / "REPORT.md").read_text(encoding="utf-8")
    known = {study.anchor(title) for title in re.findall(r"^## (.*)$", text, re.M)}
    assert {claim.link for claim in claims} <= {f"experiments/REPORT.md#{name}" for name in known}


@pytest.mark.parametrize("words, verdict", [
    ("BOS is an anchor", "wrong"), ("a decay of 0.7 was run", "slip"),
    ("the GPT fluctuates more with larger batches", "wrong"),
    ("the GPT generalises later, or less steadily", "wrong"),
    ("with a low budget the GPT's A_val is the higher one", "under-specified"),
    ("with a low budget L_val grows more steeply", "undecided"),
    ("LSTM, L = 1: A_val improves with d", "wrong"),
    ("each curve is of a batch size d", "slip"),
])
def test_what_the_document_says_twice_is_judged(claims, words, verdict):
    (found,) = [claim for claim in claims if claim.claim.startswith(words)]
    assert found.verdict == verdict and found.verdict.basis == "computed"


@pytest.mark.parametrize("title, where, place", [
    ("Scaling data size (question 3)", "Figure 4", "3, Figure 4"),
    ("Scaling data size (question 3)", "3 (c)", "3 (c)"),
    ("Sanity check (questions 1 and 2)", "2, table", "2, table"),
])
def test_the_question_stands_in_front(title, where, place):
    assert study.question(title, where) == place
