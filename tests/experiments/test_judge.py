"""How a claim is judged: three words, the runs of both recipes, one threshold each."""

import dataclasses

import pytest

from experiments.study import measures, q2_recipe, q7_decay, questions, records
from experiments.study.judge import WORDS, Claim, choices, judge, question_of, verdict, word_of
from experiments.study.measures import THRESHOLDS, correlation, slope
from experiments.study.records import Store, parameters, variant, with_recipe
from npdl_train.runs.task import make_model, make_task
from tests.experiments.report_fakes import put_runs

LSTM, GPT = variant("lstm"), variant("gpt")


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """An empty folder of kept runs."""
    monkeypatch.setattr(records, "RESULTS", tmp_path / "kept")
    return tmp_path / "kept"


def soon(limit, **more):
    """The claim that an LSTM generalises by a step."""
    def test(runs):
        step = runs[0].reach("validation_accuracy", 0.9)
        return step <= limit, [step]
    return Claim("3 (c)", "soon", "soon", {0: LSTM}, test, "steps", **more)


# --- the words ------------------------------------------------------------------------------------
@pytest.mark.parametrize("agree, of, word", [
    (4, 4, "reproduced"), (0, 4, "not reproduced"), (3, 4, "open"), (1, 4, "open"), (0, 0, "open")])
def test_every_run_agrees_or_none_does_or_it_is_open(agree, of, word):
    assert word_of(agree, of) == word


def test_a_claim_on_the_lstm_is_judged_by_both_recipes(kept):
    put_runs(LSTM, generalise=2000.0)
    assert judge(Store(), soon(5000)).count == "2 of 2"
    put_runs(with_recipe(LSTM, "release"), generalise=[2000.0, 5000.0])
    put_runs(with_recipe(LSTM, "stated"), generalise=9000.0)           # is asked of the GPT alone
    found = judge(Store(), soon(5000))
    assert (found.word, found.count) == ("open", "3 of 4")
    assert found.note == "default 2 of 2; release 1 of 2"
    assert judge(Store(), soon(1)).word == "not reproduced"
    assert judge(Store(), soon(10**6)).word == "reproduced"


def test_a_claim_on_the_gpt_is_judged_by_default_and_stated(kept):
    put_runs(GPT, generalise=2000.0)
    put_runs(with_recipe(GPT, "stated"), generalise=9000.0)
    claim = dataclasses.replace(soon(5000), needs={0: GPT})
    assert judge(Store(), claim).note == "default 2 of 2; stated 0 of 2"
    assert choices({"gpt", "lstm"})[0] == {"lstm": "default", "gpt": "default"}
    assert len(choices({"gpt", "lstm"})) == 4


def test_a_comparison_of_both_models_has_each_of_their_recipes_that_was_run(kept):
    put_runs(GPT, generalise=5000.0)
    put_runs(LSTM, generalise=2000.0)
    put_runs(with_recipe(LSTM, "release"), generalise=9000.0)

    def test(runs):
        steps = [runs[m].reach("validation_accuracy", 0.9) for m in ("lstm", "gpt")]
        return steps[0] < steps[1], steps

    found = judge(Store(), Claim("3 (c)", "", "", {"lstm": LSTM, "gpt": GPT}, test))
    assert found.note == "default 2 of 2; LSTM release, GPT default 0 of 2"


def test_each_meaning_is_asked_and_what_the_document_denies_is_a_note(kept):
    put_runs(LSTM, generalise=2000.0)
    claim = soon(5000, meanings={"at once": soon(10).test}, against="Figure 4 says never")
    found = judge(Store(), claim)
    assert (found.word, found.count) == ("open", "2 of 4")
    assert found.note == ("as worded 2 of 2; at once 0 of 2; the document itself denies it: "
                          "Figure 4 says never")


def test_a_seed_counts_where_all_its_runs_are_there(kept):
    assert judge(Store(), soon(5000)).note == "runs are missing"
    put_runs(LSTM, seeds=(0,), generalise=2000.0)
    assert judge(Store(), soon(5000)).count == "1 of 1"
    put_runs(LSTM, seeds=(7,), generalise=9000.0)
    assert judge(Store(), soon(5000)).count == "1 of 2"


def test_an_answer_of_question_8_needs_no_run():
    found = verdict("8 (b)", "", "", {("default", 0, ""): True, ("stated", 0, ""): False})
    assert (found.word, found.question) == ("open", "8")
    assert found.note == "default 1 of 1; stated 0 of 1"


@pytest.mark.parametrize("where, question", [
    ("5 (c), d", "5"), ("2, table", "2"), ("Figure 12", "5"), ("Figures 20, 21", "5"),
    ("Figure 32", "6"), ("Figures 36, 37", "8"), ("Figure 5", "3")])
def test_where_a_claim_stands_says_its_question(where, question):
    assert question_of(where) == question


# --- printed numbers ------------------------------------------------------------------------------
@pytest.mark.parametrize("row, ours, agrees, off", [
    ("t_f_train_accuracy", 300, True, False),
    ("t_f_train_accuracy", 400, False, True),               # disjoint: (200, 300] and (300, 400]
    ("t_f_train_accuracy", 500, False, False),
    ("t_f_train_loss", 10001, True, False), ("t_f_train_loss", 9900, False, True),
    ("t_f_validation_accuracy", 7500, True, False),         # 7850 ± 350
    ("t_f_validation_accuracy", 7400, False, True),
    ("train_loss", 0.000149, True, False), ("train_loss", 0.00015, False, False),
    ("validation_loss", 0.0004, True, False), ("validation_loss", 0.0013, False, False),
])
def test_a_run_lies_in_the_printed_range_or_not(monkeypatch, row, ours, agrees, off):
    monkeypatch.setattr(q2_recipe, "value", lambda run, _: run)
    assert q2_recipe.agrees("lstm", row, {"lstm": ours})[0] == agrees
    assert q2_recipe.one_off("lstm", row, {"lstm": ours}) == off


def test_up_to_step_100_the_grid_is_every_step(monkeypatch):
    monkeypatch.setattr(q2_recipe, "value", lambda run, _: run)
    assert q2_recipe.one_off("gpt", "t_f_train_accuracy", {"gpt": 89})
    assert not q2_recipe.one_off("gpt", "t_f_train_accuracy", {"gpt": 90})


# --- the study's own claims -----------------------------------------------------------------------
def test_every_claim_has_a_verdict_by_the_kept_runs():
    found = questions.verdicts()
    assert len(found) > 100 and {v.word for v in found} == set(WORDS)
    assert {v.question for v in found} == {"2", "3", "4", "5", "6", "7", "8"}
    assert len({(v.where, v.claim) for v in found}) == len(found)
    assert all(v.of and v.numbers for v in found)
    (start,) = [v for v in found if v.claim == "LSTM t_f(A_train)"]
    assert (start.word, start.count) == ("open", "5 of 10")
    assert "one grid step off in 5" in start.note
    (later,) = [v for v in found if "decay 0.25 the norm stays the highest" in v.claim]
    assert later.word == "reproduced"


def test_without_runs_everything_is_open(kept):
    found = [judge(Store(), claim) for module in questions.JUDGED for claim in module.claims()]
    assert {(v.word, v.count) for v in found} == {("open", "0 of 0")}


def test_a_claim_on_decay_goes_with_the_runs(kept):
    for decay, config in q7_decay.CONFIGS.items():
        put_runs(config, generalise=4000 / decay)
    words = {c.claim: judge(Store(), c).word for c in q7_decay.claims()}
    assert words["decay 0.75 and 1 generalise sooner than 0.25 and 0.5"] == "reproduced"
    for decay, config in q7_decay.CONFIGS.items():
        put_runs(config, generalise=4000 * decay)
    words = {c.claim: judge(Store(), c).word for c in q7_decay.claims()}
    assert words["decay 0.75 and 1 generalise sooner than 0.25 and 0.5"] == "not reproduced"


# --- measures -------------------------------------------------------------------------------------
def test_measures_by_hand():
    assert correlation((1, 2, 3), (10, 20, 30)) == pytest.approx(1)
    assert correlation((1, 2, 3), (5, 5, 5)) == 0
    assert correlation((1, 2, 3, 4), (1, 2, 2, 4)) == pytest.approx(0.9486833)
    assert slope((0, 1, 2), (1, 3, 5)) == 2
    assert all(getattr(measures, name) == value and reason
               for name, (value, _, reason) in THRESHOLDS.items())


def test_a_jump_is_of_a_memorised_set_alone():
    columns = {"train_accuracy": [0.5, 1.0, 1.0, 1.0], "train_loss": [1e-3, 1e-3, 1e-7, 1e-2]}
    assert q7_decay.jump_places(columns) == [2]
    assert q7_decay.jump_places({**columns, "train_accuracy": [0.5] * 4}) == []


@pytest.mark.parametrize("config", [LSTM, GPT, variant("gpt", layers=3, width=64)],
                         ids=lambda c: f"{c.model}-{c.layers}-{c.width}")
def test_parameters_are_those_of_the_model(config):
    model = make_model(config, make_task(config))
    tables = ("embedding", "positions")
    counted = sum(p.data.size for name, p in model.params() if not name.startswith(tables))
    assert parameters(config) == counted


def test_the_newest_engines_record_of_a_run_is_used(kept):
    put_runs(LSTM, seeds=(0,), made=False)
    put_runs(LSTM, seeds=(0,), made={"engine": "0123456789ab"}, generalise=999.0)
    (run,) = Store().runs(LSTM).values()
    assert run.made["engine"] == "0123456789ab" and not run.older
