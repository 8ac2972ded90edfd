"""What breaks of ours says nothing about a document: no verdict moves but to our failure."""

import functools
import inspect
import sys
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
    Verdict,
    claims_of,
    failures,
    judge,
    loaded,
    modules,
    name_of,
    solutions_of,
)
from exercises.worked import Check, Solution, Step, Table
from tests.tools import slow

SHOWN = (Claim, Verdict, Solution, Step, Table, Check)
MODULES = [module for module in modules() if hasattr(module, "solutions")]


def off(value):
    """The value with every number in it a little off, and every truth the other way round."""
    if isinstance(value, SHOWN) or callable(value):
        return value
    if isinstance(value, (bool, np.bool_)):
        return not value
    if isinstance(value, (int, np.integer)):
        return value + 1
    if isinstance(value, (float, np.floating, Fraction)):
        return value * 1.01 + 0.001
    if isinstance(value, np.ndarray):
        return {"f": value * 1.01 + 0.001, "b": ~value, "i": value + 1}.get(
            value.dtype.kind, value) if value.dtype.kind in "fbi" else value
    if type(value) in (list, tuple, set):
        return type(value)(map(off, value))
    return {key: off(inner) for key, inner in value.items()} if type(value) is dict else value


def stopped(value):
    raise IndexError("broken")


def broken(function, how):
    """The function that returns how(result)."""
    @functools.wraps(function)
    def wrong(*given, **named):
        return how(function(*given, **named))

    return wrong


def forget():
    for name, module in list(sys.modules.items()):
        if name.startswith("exercises."):
            for thing in vars(module).values():
                getattr(thing, "cache_clear", lambda: None)()


def verdicts(module):
    forget()
    return {(claim.part, claim.claim): str(claim.verdict) for claim in claims_of(module)}


def own(module):
    """{function of the module: where it is found, in all exercises}."""
    places = [other for name, other in sys.modules.items() if name.startswith("exercises.d")]
    return {thing: [(other, name) for other in places for name, found in vars(other).items()
                    if found is thing]
            for name, thing in vars(module).items() if inspect.isfunction(thing)
            and thing.__module__ == module.__name__ and name not in ("claims", "solutions")}


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_what_breaks_of_ours_is_no_verdict_on_a_document(module, monkeypatch):
    before, moved = verdicts(module), []
    for function, places in own(module).items():
        for how in (off, stopped):
            with monkeypatch.context() as patch:
                for owner, name in places:
                    patch.setattr(owner, name, broken(function, how))
                now = verdicts(module)
            moved += [(function.__name__, how.__name__, *key, now[key]) for key in before
                      if now.get(key, FAILED) not in (before[key], FAILED)]
    forget()
    assert moved == []


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
