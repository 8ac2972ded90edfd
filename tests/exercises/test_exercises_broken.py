"""What breaks of ours says nothing about a document: no verdict moves but to our failure."""

from fractions import Fraction

import numpy as np
import pytest

from exercises import arithmetic, ledger
from exercises.__main__ import main
from exercises.d000 import counting, decoding_trees, normalisation
from exercises.d001 import autoencoder_gradients, kl_identity
from exercises.d002 import dot_product, gru_gates, lstm_gradient, positions_heads
from exercises.d003 import message_passing, parity_lstm, points_and_review
from exercises.d004 import first_tables, layer_norm, parameter_counts, training_budget
from exercises.framework import (
    FAILED,
    Claim,
    claims_of,
    failures,
    judge,
    loaded,
    solutions_of,
)
from exercises.worked import Check, Solution, Step
from tests.tools import slow
from tests.tools.exercise_mutation import forget


def verdicts(module):
    forget()
    return {(claim.part, claim.claim): str(claim.verdict) for claim in claims_of(module)}


FOURTEEN = [
    (normalisation, "exact_statistics", lambda tensor, axes: ([1], [2]), 4),
    (counting, "total_probability", lambda N, T: 0.5, 1),
    (decoding_trees, "path_sum", lambda tree, path: -1.0, 3),
    (dot_product, "right_variance", lambda mu, sigma: 2 * sigma**2 * len(mu), 2),
    (lstm_gradient, "gradient_by_differences", lambda *given: np.ones((2, 3)), 1),
    (gru_gates, "symmetry_error", lambda x: 1.0, 1),
    (parameter_counts, "lstm_formula", lambda *given, bias=True: 1, 3),
    (training_budget, "seeds", lambda model: {"L_val": []}, 10),
    (first_tables, "deviation", lambda a, b, kind="population": abs(a - b), 13),
    (positions_heads, "relative_head", lambda **given: 0.5, 1),
    (parity_lstm, "wrong_memories", lambda *given, **named: (1, 5, 1.0), 5),
    (message_passing, "by_npdl", lambda *given, **named: np.ones(3), 1),
    (points_and_review, "expected_loss", lambda n, p=0.3: 1 / 0, 5),
    (layer_norm, "expected_variance", lambda population, n, correction=0: 1, 1),
]


@pytest.mark.parametrize("module, name, wrong, failing", slow.but(
    ["total_probability", "symmetry_error", "by_npdl"], FOURTEEN, lambda row: row[1]))
def test_fourteen_functions_one_by_one(module, name, wrong, failing, monkeypatch):
    before = verdicts(module)
    monkeypatch.setattr(module, name, wrong)
    now = verdicts(module)
    assert list(now.values()).count(FAILED) >= (1 if len(now) == 1 else failing)
    assert {now[key] for key in before if key in now and now[key] != before[key]} <= {FAILED}
    forget()


def test_a_unit_at_0_and_a_false_identity_are_seen():
    """`h >= 0` for `h > 0` moves no verdict on random numbers: units at exactly 0 are in a test."""
    net = {name: np.zeros_like(value) for name, value in autoencoder_gradients.example().items()}
    assert not autoencoder_gradients.gradients(net | {"x": net["x"] + 1})["d_2"].any()
    half = [Fraction(1, 2)] * 2
    assert kl_identity.exact_ratios_agree([Fraction(1, 4), Fraction(3, 4)], half, half)


@pytest.mark.parametrize("part, line", [
    ("claims", f"{FAILED}: 004 Q2.1: The claims on 2.1, Layer normalisation, were computed."),
    ("solutions", f"{FAILED}: solution of 2.1: ValueError in stop, test_exercises_broken.py: no"),
])
def test_what_breaks_in_one_exercise_stops_no_other(part, line, monkeypatch, capsys):
    def stop():
        raise ValueError("no")

    monkeypatch.setattr(layer_norm, part, stop)
    assert main(["004.2.1", "004.2.3"]) == 1
    captured = capsys.readouterr()
    assert captured.err.splitlines() == [line]
    assert FAILED.upper() in captured.out.upper() and "2.3: mask" not in captured.err
    assert "Worked solution of 2.3" in captured.out and "Problem 2.3" in captured.out


def test_a_module_that_cannot_be_imported_is_our_failure():
    module = loaded("exercises.d004.none")
    assert [claim.verdict for claim in claims_of(module)] == [FAILED]
    assert failures(solutions_of(module), []) and "ModuleNotFoundError" in claims_of(
        module)[0].evidence


@pytest.mark.parametrize("given, holds, status", [
    ([True], True, 0), ([False], True, 0), ([False, "under-specified"], True, 1),
    ([True], False, 1),
])
def test_a_failure_of_our_own_is_status_1_and_no_error(given, holds, status, monkeypatch, capsys):
    verdict = judge(*given)
    claim = Claim("004", "Problem 2.1", "", "1 = 1.", "yes", "1", verdict, "counted")
    monkeypatch.setattr(arithmetic, "PENCIL", {})           # which has lines of the true solution
    monkeypatch.setattr(layer_norm, "claims", lambda: [claim])
    monkeypatch.setattr(layer_norm, "solutions", lambda: [
        Solution("2.1", steps=[Step("Add.", "1 + 1 = 2")], answer="2",
                 checks=[Check("counted", holds)])])
    assert main(["004.2.1"]) == status
    captured = capsys.readouterr()
    assert captured.err.count(FAILED) == captured.out.upper().count(FAILED.upper()) == status
    assert len(ledger.errors([claim])) == (verdict == "wrong")
