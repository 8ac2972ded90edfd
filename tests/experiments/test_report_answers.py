"""The eight answers in words: what they say follows from the runs, whatever these are."""

import gzip
import json
import shutil

import pytest

from experiments import study
from experiments.reporting import answers, answers_decay, answers_size, wording
from experiments.reporting.records import Store
from tests.tools import report_fakes


class Course:
    """A run that is only a norm and an accuracy over its steps."""

    def __init__(self, norms, accuracies):
        self.columns = {"l2_norm": norms, "validation_accuracy": accuracies}

    def points(self, metric):
        return [(1000 * i + 1000, value) for i, value in enumerate(self.columns[metric])]

    def reach(self, metric, threshold):
        return next((t for t, v in self.points(metric) if v >= threshold), float("inf"))


class Orders:
    """A run that reaches every limit at one step on binary sums and at another on ternary ones."""

    def __init__(self, two, three):
        self.at = {"2": two, "3": three}

    def reach(self, metric, threshold):
        return self.at[metric[-1]]


def test_a_norm_that_comes_back_has_not_stayed():
    """As small in the second evaluation, twice as large in the third: it counts from the fourth."""
    run = Course([70, 40, 80, 41, 40, 40], [0, 0, 0, 0, 0.95, 1])
    at, norm, moved, waited = answers_decay.around(run)
    assert (at, norm, waited) == (5000, 40, 1000) and moved == pytest.approx(1 - 40 / 41)
    assert answers_decay.around(Course([70, 40], [0, 0])) is None
    assert answers_decay.around(Course([70, 40], [0, 0.95])) == (2000, 40, pytest.approx(3 / 7), 0)


def test_a_run_that_generalises_at_its_last_step_forgets_nothing():
    run = Course([], [0.2, 0.95])
    run.columns |= {f"validation_accuracy_order{order}": [0.2, 0.95] for order in (2, 3)}
    assert answers.forgotten({"gpt": [run]}) == ""
    run.columns["validation_accuracy_order2"] = [0.95, 0.2]
    assert answers.forgotten({"gpt": [run]}) == (
        " In 1 of 2 cases A_val comes below 0.9 again after it was reached, to 0.20 at the lowest "
        "(GPT, binary sums).")


def test_a_slope_has_students_interval():
    steep, half = answers_size.line([0, 1, 2, 3], [0.0, 1.0, 2.0, 3.0])
    assert steep == pytest.approx(1) and half == pytest.approx(0)
    steep, half = answers_size.line([0, 1, 2], [0.0, 1.0, 0.0])      # one degree of freedom
    assert steep == 0 and half == pytest.approx(12.706 * (2 / 3 / 2) ** 0.5)


@pytest.mark.parametrize("found, words", [
    ({"lstm": [1, 2], "gpt": [0, 1]}, "the LSTM with both seeds"),
    ({"lstm": [1, 2], "gpt": [1.5, 3]}, "the GPT with both seeds"),
    ({"lstm": [1, 2], "gpt": [2, 1]}, "neither with every seed"),
    ({"lstm": [1, 1], "gpt": [1, 0]}, "neither with every seed")])
def test_a_model_gains_more_with_every_seed_or_neither_does(found, words):
    assert wording.who(found) == words


def test_pairs_of_runs_are_counted():
    assert answers_size.by_model({"lstm": [-1, 1, -1], "gpt": [1, 1, 1]}) == (
        "2 of 3 pairs of runs (LSTM), 0 of 3 (GPT)")
    assert wording.factor([-1, -2]) == "falls by a factor of 10 to 100"
    assert wording.factor([-1, 1]).startswith("goes both ways, from 10 times lower")
    with pytest.raises(wording.Missing):
        wording.factor([])


def test_an_order_is_first_only_by_more_than_one_evaluation():
    def words(two, three):
        return answers.order_words("gpt", [Orders(a, b) for a, b in zip(two, three, strict=True)],
                                   "validation", 0.9)

    assert words([900, 1400], [400, 1000]).startswith("GPT: ternary ones with both seeds, at 900,")
    assert words([400, 1000], [900, 1400]).startswith("GPT: binary ones with both seeds")
    assert words([200, 200], [200, 300]).startswith("GPT: within one evaluation of each other")
    assert words([200, 200], [900, 300]).startswith("GPT: not alike with every seed")
    assert words([900, 200], [200, 900]).startswith("GPT: not alike with every seed")


def test_a_model_with_fewer_seeds_has_its_answers(tmp_path, monkeypatch):
    monkeypatch.setattr(study, "RESULTS", tmp_path / "all")
    report_fakes.store_all(("data", "model", "compute", "mixed"))
    (tmp_path / "some").mkdir()
    for path in (tmp_path / "all").glob("*.json.gz"):
        config = json.loads(gzip.decompress(path.read_bytes()))["config"]
        if (config["model"], config["seed"]) != ("gpt", 42):
            shutil.copy(path, tmp_path / "some")
    store = Store(tmp_path / "some")
    for answer in (answers.data_answer, answers.mixed_answer, answers.size_answer,
                   answers.compute_answer):
        assert answer(store).startswith("**")
