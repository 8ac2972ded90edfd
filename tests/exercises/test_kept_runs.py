"""Document 004, Problem 4, in the ledger: the study's verdicts, and where they are explained."""

import pytest

from exercises.d004 import kept_runs
from exercises.framework import FAILED
from experiments.study.judge import Estimate, Verdict
from experiments.study.questions import verdicts


@pytest.fixture(scope="module")
def claims():
    return kept_runs.claims()


@pytest.mark.slow
def test_every_verdict_of_the_study_is_in_the_ledger_in_its_word(claims):
    by_runs = [claim for claim in claims if claim.basis == "runs"]
    assert [str(claim.verdict) for claim in by_runs] == [v.word for v in verdicts()]
    assert {claim.number for claim in by_runs} == {f"4.{n}" for n in range(2, 9)}
    assert not [claim for claim in claims if claim.verdict == FAILED]


@pytest.mark.slow
def test_every_link_is_a_heading_of_the_report(claims):
    text = (kept_runs.ROOT / kept_runs.REPORT).read_text(encoding="utf-8")
    known = {f"{kept_runs.REPORT}#{anchor}" for anchor in (
        "".join(c for c in line[3:].lower() if c.isalnum() or c in " -_").replace(" ", "-")
        for line in text.splitlines() if line.startswith("## "))}
    assert {claim.link for claim in claims if claim.basis == "runs"} <= known


@pytest.mark.parametrize("changes, where, verdict", [
    ({}, "3 (d)", "open"), ({"where": "Figure 12"}, "5, Figure 12", "open"),
    ({"word": "reproduced"}, "3 (d)", "reproduced"),
    ({"joint": {}, "note": "runs are missing"}, "3 (d)", FAILED),
])
def test_a_verdict_as_a_claim(changes, where, verdict):
    given = {"where": "3 (d)", "claim": "it is 2", "document": "2", "word": "open", "own": {},
             "joint": {"as worded": Estimate("open", 0.5, -1, 2, 4)}, "note": "one start differs",
             "numbers": "L: 3"} | changes
    claim = kept_runs.judged(Verdict(**given))
    assert (claim.part, claim.verdict) == (where, verdict)
    assert claim.evidence == "estimate +0.5 (-1 to +2; 4); " * bool(given["joint"]) + given["note"]


def test_settings_that_are_named_otherwise():
    assert [str(c.verdict) for c in kept_runs.setting_claims()] == ["slip", "slip"]
