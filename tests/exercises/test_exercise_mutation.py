"""The mutation score of the exercises: which mistakes are made, and how its table is kept."""

import inspect
import linecache

import pytest

from exercises import d001_attention_rank as rank
from exercises import d001_autoencoder as autoencoder
from tests.tools import exercise_mutation as score


def changes(function):
    return {(mutant.was, mutant.now) for mutant in score.mistakes(function)}


def test_the_mistakes_that_are_asked_for_are_made():
    assert {(">", ">="), ("@", "*"), ("x_new - net[\"x\"]", "x_new")} <= changes(
        autoencoder.gradients)
    assert ("==", "!=") not in changes(autoencoder.gradients)
    assert ("!=", "==") in changes(rank.exact_rank)
    assert not [m for m in score.mistakes(rank.ranks) if m.line == raised_at(rank.ranks)]


def raised_at(function):
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if "raise" in line)


def test_functions_that_compute_are_measured_and_claims_are_not():
    names = {function.__name__ for function in score.measured("d001_attention_rank")}
    assert {"exact_rank", "exact_weights", "random_ranks", "library_rank"} <= names
    assert not {"claims", "bound_claims", "exact_claims"} & names
    assert {f.__name__ for f in score.measured("solved/d003_message_passing")} == {
        "messages_of", "rounds", "by_matrix"}
    assert "total" in {f.__name__ for f in score.measured("d000_lora_costs")}   # a property


def test_a_worked_solution_is_measured_by_its_own_tests():
    for name, own in (("solved/d004_loss", "test_exercises_004_solved.py"),
                      ("solved/d000_birnn", "test_worked_000.py")):
        assert {path.name for path in score.tests_of(name)} == {
            own, "test_worked.py", "test_worked_arithmetic.py", "test_worked_print.py"}
    assert {"test_neurons.py", "test_exercises_003.py"} <= {
        path.name for path in score.tests_of("neurons")}


@pytest.mark.parametrize("now, caught", [("d_1 * (h < 0)", True), ("(h > 0) * d_1", False)])
def test_a_mistake_is_caught_by_a_fact_and_by_nothing_else(monkeypatch, now, caught):
    net = autoencoder.example()
    wanted = autoencoder.gradients(net)["W_1"]
    monkeypatch.setattr(score, "passes", lambda item: item())
    linecache.getlines(autoencoder.__file__)

    def fact():
        return (autoencoder.gradients(net)["W_1"] == wanted).all()

    facts = score.Facts([fact], [autoencoder.gradients, autoencoder.library_gradients])
    assert facts.running == {autoencoder.gradients: [fact]}
    lines, first = inspect.getsourcelines(autoencoder.gradients)
    place, line = next((i, s) for i, s in enumerate(lines) if "d_1 * (h > 0)" in s)
    mutant = score.Replacement(autoencoder.gradients, first + place, line.index("d_1 * (h > 0)"),
                               "d_1 * (h > 0)", now)
    assert facts.catch(mutant) == caught
    assert fact()                                           # the function is whole again


def test_the_table_keeps_its_rows():
    rows = {"d001_x": (10, 9, "0123456789ab", ["f: 1 -> 2 in `return 1`"]),
            "solved/d002_y": (4, 4, "ba9876543210", []),
            "solved/d002_z": (0, 0, "0ba987654321", [])}
    assert score.kept_rows(score.markdown(rows)) == rows
    assert score.share(rows) == 13 / 14 and score.low_rows(rows) == []
    assert score.low_rows(rows | {"d003_z": (10, 8, "", [])}) == ["d003_z"]
    assert score.digest("d001_autoencoder") != score.digest("d001_attention_rank")


def test_a_row_that_is_older_than_its_exercise_is_named(tmp_path, monkeypatch):
    rows = {name: (10, 9, score.digest(name), ["f: 1 -> 2 in `return 1`"])
            for name in ("d001_autoencoder", "d001_attention_rank")}
    assert score.stale(rows) == [] and "before the exercise" not in score.markdown(rows)
    rows["d001_autoencoder"] = (10, 9, "0123456789ab", [])
    assert score.stale(rows) == ["d001_autoencoder"]
    monkeypatch.setattr(score, "TABLE", tmp_path / "page.md")
    score.TABLE.write_text(score.markdown(rows).replace("Measured before", "Then"), "utf-8")
    assert score.main(["--page"]) == 0
    text = score.TABLE.read_text("utf-8")
    assert "\nMeasured before the exercise or its tests changed: d001_autoencoder.\n" in text
    assert score.kept_rows(text) == rows


def test_the_kept_table_names_what_it_lacks_and_reaches_the_goal():
    text = score.TABLE.read_text(encoding="utf-8")
    rows = score.kept_rows(text)
    assert text == score.markdown(rows), "write it again: python -m tests.tools.exercise_mutation --page"
    assert set(rows) <= set(score.exercise_names()) and score.low_rows(rows) == []
    assert all(mutants - caught == len(unseen) for mutants, caught, _, unseen in rows.values())
