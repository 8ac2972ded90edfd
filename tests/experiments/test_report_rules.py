"""The rules of experiments/report.py, on made-up records: numbers, statements, measures."""

import dataclasses
import math

import pytest

from experiments import study
from experiments.reporting import (
    data_size,
    decay,
    decay_claims,
    jumps,
    measures,
    mixed,
    parts,
    sanity,
)
from experiments.reporting.parts import (
    AGAIN,
    CONTRADICTED,
    DEPENDS,
    FAILS,
    HOLDS,
    MISSING,
    OPEN,
)
from experiments.reporting.records import Run, Store, parameters, variant
from experiments.reporting.rules import (
    Printed,
    Statement,
    combined,
    compare,
    judge,
    judge_number,
    within,
)
from npdl.errors import InputError
from npdl.training.task import make_model, make_task
from tests.tools.report_fakes import put_runs


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """An empty folder of kept runs."""
    monkeypatch.setattr(study, "RESULTS", tmp_path / "kept")
    return tmp_path / "kept"


# --- printed numbers ------------------------------------------------------------------------------
@pytest.mark.parametrize("printed, ours, verdict", [
    (Printed(7850, 350, 100), (7500, 7700), HOLDS),             # ranges overlap
    (Printed(7850, 350, 100), (7200, 7400), HOLDS),             # within the grid of evaluations
    (Printed(7850, 350, 100), (5000, 5100), FAILS),             # t = 7.7
    (Printed(7850, 350, 100), (6200, 6700), OPEN),         # apart, t = 3.0
    (Printed(300, 0, 100), (400, 400), HOLDS),
    (Printed(300, 0, 100), (500, 500), FAILS),                  # no spread at all
    (Printed(0.0001, 0.0, 0.00005), (0.00014, 0.00015), HOLDS),     # rounds to it, nearly
    (Printed(0.0001, 0.0, 0.00005), (0.00034, 0.00038), FAILS),
    (Printed(1.0, 0.0, 0.00005), (1.0, 1.0), HOLDS),
    (Printed(0.0008, 0.0004, 0.00005), (0.018, 0.0035), OPEN),
    (Printed(0.0008, 0.0004, 0.00005, log=True), (0.033, 0.03), FAILS),     # far on a log scale
    (Printed(0.0008, 0.0004, 0.00005, log=True), (0.0004, 0.00037), HOLDS),
    (Printed(0.0001, 0.0, 0.00005, log=True), (6.5e-5, 7.1e-5), HOLDS),     # rounds to 0.0001
])
def test_printed_numbers_are_compared(printed, ours, verdict):
    assert compare(printed, ours)[0] == verdict


def test_more_seeds_decide_more():
    printed = Printed(7850, 350, 100)
    assert compare(printed, (6200, 6700))[0] == OPEN
    assert compare(printed, (6200, 6700, 6300, 6500, 6400, 6600))[0] == FAILS


def test_a_loss_is_decided_by_its_logarithms():
    printed, ours = (0.0008, 0.0004, 0.00005), (0.033, 0.0035, 0.015, 0.011, 0.0017)
    assert compare(Printed(*printed), ours)[0] == OPEN
    verdict, why = compare(Printed(*printed, log=True), ours)
    assert verdict == FAILS and why.startswith("t of the logarithms = ")


def test_what_would_have_held_is_said():
    assert within(Printed(7850, 350, 100), (7600, 10000), str) == "7150.0 to 10450.0"
    low, _, high = within(Printed(1e-3, 0.0, 0, log=True), (1e-3, 1e-3), "{:.4f}".format).split()
    assert low == high == "0.0010"


def test_every_seed_that_is_kept_counts(kept):
    def t_f(run):
        return {0: 6200, 42: 6700, 7: 6400}.get(run.config.seed, 7000)

    def judged(mean):
        return judge_number(Store(), "2", "t_f", Printed(mean, 350, 100), config, t_f, str)

    config = sanity.CONFIGS["lstm"]
    put_runs(config)
    assert judged(7850).verdict == OPEN and "seeds" not in judged(7850).ours
    put_runs(config, seeds=(7,))
    found = judged(7850)
    assert found.verdict == FAILS and found.ours.startswith("3 seeds: 6433.3")
    put_runs(config, seeds=(8, 9))
    assert judged(7850).ours.startswith("5 seeds: 6660.0 ± 320.0; t = 3.3, limit 2.6")


def test_a_printed_number_needs_both_seeds(kept):
    put_runs(sanity.CONFIGS["lstm"], seeds=(0,))
    found = {v.claim: v for v in sanity.section(Store()).verdicts}
    assert found["LSTM t_f(A_val)"].verdict == MISSING
    assert "so far" in found["LSTM t_f(A_val)"].ours and "seed 42" in found["LSTM t_f(A_val)"].ours
    put_runs(sanity.CONFIGS["lstm"], seeds=(42,))
    found = {v.claim: v for v in sanity.section(Store()).verdicts}
    assert found["LSTM t_f(A_val)"].verdict != MISSING
    assert found["GPT t_f(A_val)"].verdict == MISSING


def test_a_delay_is_counted_with_the_rows_that_it_lies_between(kept):
    put_runs(sanity.CONFIGS["lstm"])
    found = {v.claim: v for v in sanity.section(Store()).verdicts}
    assert {claim for claim, v in found.items() if v.verdict == AGAIN} == {
        "LSTM Δt(L)", "LSTM Δt(A)", "GPT Δt(L)", "GPT Δt(A)"}
    assert found["LSTM Δt(L)"].ours.startswith(
        "as t_f(L_val) less t_f(L_train); by itself: fails, 4501 ± 0; t")
    assert found["LSTM Δt(L)"].beside == "any from 4401 to 4601 would hold"
    assert f"by itself: {MISSING}, missing 2" in found["GPT Δt(A)"].ours


def test_rows_that_most_runs_satisfy_are_named(kept):
    assert sanity.easy_rows(Store()).endswith("0 of the GPT), at least two in three, each by "
                                              "itself, satisfy no row.")
    put_runs(sanity.CONFIGS["lstm"])
    put_runs(variant("lstm", r_train=0.3), memorise=900.0, generalise=1e6)
    put_runs(variant("lstm", r_train=0.1), memorise=1e6)            # does not memorise
    words = sanity.easy_rows(Store())
    assert "(4 of the LSTM, 0 of the GPT)" in words
    assert "LSTM A_train (4)" in words and "LSTM A_val" not in words


def test_the_recipes_are_kept_apart_and_shown_side_by_side(kept):
    stated = study.with_recipe(sanity.CONFIGS["gpt"], "stated")
    put_runs(stated, generalise=5000)
    store = Store()
    assert not store.runs(sanity.CONFIGS["gpt"]) and store.runs(stated)
    table = next(p for p in sanity.section(store).parts if isinstance(p, parts.Table))
    row = dict(zip(table.heading, next(r for r in table.rows if r[0] == "A_train"), strict=True))
    assert row["GPT, default (no run)"] == "not run"
    assert row["GPT, stated (2 seeds)"].startswith("1.0000")
    assert row["LSTM, release (no run)"] == row["LSTM, stated (no run)"] == "not run"


def test_a_section_is_of_the_first_recipe_that_has_all_its_runs(kept):
    default = variant("lstm", r_train=0.3)
    released = study.with_recipe(default, "release")
    put_runs(released, generalise=3000)
    view = Store().chosen([default])
    assert view.recipe == "release" and list(view.runs(default)) == [0, 42]
    assert "Glorot's gates: 2 runs" in view.words([default])
    statement = Statement("1", "words", "theirs", {1: default}, lambda runs: (
        runs[1].reach("validation_accuracy", 0.9) < 6000, "because"))
    assert judge(view, statement).otherwise == "" and judge(view, statement).verdict == HOLDS
    put_runs(default, generalise=6000)
    view = Store().chosen([default])
    assert view.recipe == "default"
    found = judge(view, statement)
    assert found.verdict == FAILS and found.otherwise == "release: holds"


def test_runs_by_different_code_are_never_mixed(kept):
    made = {"engine": "0123456789ab", "processor": "P", "kernels": "K"}
    every = [variant("gpt", r_train=r) for r in (0.3, 0.4, 0.5)]
    for config in every[1:]:
        put_runs(config)
    put_runs(every[0], seeds=(0,))
    put_runs(every[0], seeds=(42,), made=made)
    view = Store().chosen(every)
    assert list(view.runs(every[0])) == [0] and view.missing(every[0]) == [42]
    assert "1 by other code are left out" in view.words(every)
    statement = Statement("1", "words", "theirs", dict(enumerate(every)),
                          always({0: True, 42: True}))
    assert judge(view, statement).verdict == MISSING
    put_runs(every[0], seeds=(42,))                 # beside what the other engine has made
    view = Store().chosen(every)
    assert judge(view, statement).verdict == HOLDS and "left out" not in view.words(every)
    for one in every:
        put_runs(one, made=made)
    assert "engine 0123456789ab, P" in Store().chosen(every).words(every)
    assert len(Store().every()) == 12


# --- statements -----------------------------------------------------------------------------------
def always(answers):
    return lambda runs: (answers[next(iter(runs.values())).config.seed], "because")


@pytest.mark.parametrize("answers, verdict", [
    ({0: True, 42: True}, HOLDS), ({0: False, 42: False}, FAILS), ({0: True, 42: False}, OPEN),
])
def test_a_statement_is_looked_at_in_each_seed(kept, answers, verdict):
    config = variant("gpt")
    put_runs(config)
    statement = Statement("1 (a)", "words", "theirs", {"gpt": config}, always(answers))
    found = judge(Store(), statement)
    assert found.verdict == verdict and "seed 42" in found.ours
    denied = dataclasses.replace(statement, contradiction="page 2 says the opposite")
    assert judge(Store(), denied).verdict == CONTRADICTED
    assert f"by our runs: {verdict}" in judge(Store(), denied).ours


@pytest.mark.parametrize("further, verdict", [
    ({}, OPEN), ({1: True}, OPEN), ({1: True, 2: True}, OPEN),
    ({1: True, 2: True, 3: True}, HOLDS), ({1: False, 2: False, 3: False}, FAILS),
    ({1: False, 2: False, 3: True}, OPEN),
])
def test_four_seeds_of_five_decide_what_two_leave_open(kept, further, verdict):
    config = variant("gpt")
    put_runs(config, seeds=(0, 42, *further))
    open_with_two = always({0: True, 42: False, **further})
    found = judge(Store(), Statement("1", "words", "theirs", {1: config}, open_with_two))
    assert found.verdict == verdict
    assert found.ours.count("seed ") == 2 + len(further) and found.ours.startswith("seed 0: yes")
    closed = always({0: True, 42: True} | dict.fromkeys(further, False))
    found = judge(Store(), Statement("1", "words", "theirs", {1: config}, closed))
    assert found.ours.count("seed ") == 2 + len(further)       # every seed is looked at
    assert found.verdict == (HOLDS if not further else OPEN)


def test_further_seeds_leave_figures_and_tables_as_they_are(kept):
    config = variant("gpt")
    put_runs(config)
    before = Store().spread(config, lambda run: run.config.seed)
    put_runs(config, seeds=(7,))
    store = Store()
    assert store.spread(config, lambda run: run.config.seed) == before
    assert list(store.all_runs(config)) == [0, 42, 7] and list(store.runs(config)) == [0, 42]


def test_a_statement_with_a_run_missing_is_not_decided(kept):
    config, other = variant("gpt"), variant("gpt", r_train=0.3)
    put_runs(config)
    put_runs(other, seeds=(0,))
    statement = Statement("1 (a)", "words", "theirs", {1: config, 2: other},
                          always({0: True, 42: True}))
    found = judge(Store(), statement)
    assert found.verdict == MISSING
    assert found.ours == "seed 0: yes, because; missing 1 of 4 runs: GPT r_train 0.3 seed 42"


def test_half_and_twice_are_of_all_readings_together(kept):
    config = variant("gpt")
    put_runs(config)
    statement = Statement(
        "1", "words", "theirs", {1: config}, lambda runs, times=1: (2 <= 2 * times, "because"),
        threshold=True, readings={"more": lambda runs, times=1: (3 <= 2 * times, "because")})
    found = judge(Store(), statement)
    assert found.verdict == DEPENDS
    assert found.beside == ("as tested first: holds; more: fails; threshold × 0.5: fails; "
                            "threshold × 2: holds")


def test_half_and_twice_of_a_threshold_stand_beside(kept):
    config = variant("gpt")
    put_runs(config)
    statement = Statement("1", "words", "theirs", {1: config},
                          lambda runs, times=1: (3 <= 2 * times, "because"), threshold=True)
    found = judge(Store(), statement)
    assert found.verdict == FAILS
    assert found.beside == "threshold × 0.5: fails; threshold × 2: holds"


def test_of_several_thresholds_each_is_changed_by_itself(kept):
    config = variant("gpt")
    put_runs(config)
    statement = Statement("1", "words", "theirs", {1: config}, lambda runs, a=1, b=1: (
        3 <= 4 * a and 3 <= 2 * b, "because"), threshold=("A_val", "the steps"))
    found = judge(Store(), statement)
    assert found.verdict == FAILS
    assert found.beside == (
        "threshold of A_val × 0.5: fails; threshold of A_val × 2: fails; "
        "threshold of the steps × 0.5: fails; threshold of the steps × 2: holds")


@pytest.mark.parametrize("verdicts, verdict", [
    ([HOLDS, FAILS], DEPENDS), ([HOLDS, FAILS, OPEN], DEPENDS), ([OPEN, HOLDS, HOLDS], HOLDS),
    ([OPEN, OPEN, HOLDS], OPEN), ([OPEN, HOLDS], HOLDS), ([OPEN], OPEN), ([FAILS], FAILS),
])
def test_readings_are_weighed(verdicts, verdict):
    assert combined(verdicts) == verdict


def test_a_claim_with_two_meanings_depends_on_what_is_meant(kept):
    config = variant("gpt")
    put_runs(config)
    statement = Statement("1", "words", "theirs", {1: config}, lambda runs: (True, "so"),
                          readings={"otherwise": lambda runs: (False, "not so")})
    found = judge(Store(), statement)
    assert found.verdict == DEPENDS and found.beside == "as tested first: holds; otherwise: fails"
    assert "*otherwise*: seed 0: no, not so" in found.ours
    again = dataclasses.replace(statement, again="Figure 3")
    assert judge(Store(), again).verdict == AGAIN and judge(Store(), again).ours == "as Figure 3"


def verdict_of(section, words):
    return next(v for v in section.verdicts if words in v.claim).verdict


def test_thresholds_of_the_training_share(kept):
    for r, config in data_size.CONFIGS["lstm"].items():
        put_runs(config, generalise=1e6 if r < 0.3 else 9000 if r < 0.6 else 3000)
    section = data_size.section(Store())
    assert verdict_of(section, "only overfits") == HOLDS
    assert verdict_of(section, "first generalises") == CONTRADICTED
    assert verdict_of(section, "GPT") == MISSING
    runs = {r: Store().runs(c)[0] for r, c in data_size.CONFIGS["lstm"].items()}
    assert data_size.smallest_general(runs) == 0.6 and data_size.largest_overfit(runs) == 0.2


def test_orders_are_told_apart(kept):
    config = mixed.CONFIGS["gpt"]
    put_runs(config)
    run = Store().runs(config)[0]
    assert mixed.sooner(run, "train", 0.99)[0] is False           # the made-up orders are alike
    late = dict(run.columns)
    late["train_accuracy_order3"] = [0.5 * value for value in late["train_accuracy_order3"]]
    slower = Run({"config": run.config.to_json(), "records": late})
    assert mixed.sooner(slower, "train", 0.99) == (True, "binary 600, ternary never")


def test_the_norm_and_the_decay(kept):
    for weight_decay, config in decay.CONFIGS.items():
        put_runs(config, generalise=4000 / weight_decay)
    section = decay.section(Store())
    assert verdict_of(section, "the norm stays the highest") == HOLDS
    assert verdict_of(section, "sooner the generalisation") == HOLDS
    assert verdict_of(section, "decay 0.25 overfits") == FAILS


def test_thresholds_of_a_first_step_are_changed_too(kept):
    for weight_decay, config in decay.CONFIGS.items():
        put_runs(config, generalise=4000 / weight_decay)
    found = {v.claim: v for v in decay.section(Store()).verdicts}
    both = "threshold × 0.5: holds; threshold × 2: holds"
    for claim in ("decay 0.75 and 1 generalise sooner than 0.25 and 0.5",
                  "decay 0.5 and 0.75 generalise sooner than 0.25",
                  "with decay 0.25 generalisation is the slowest, or fails",
                  "the more decay, the smaller the norm and the sooner the generalisation"):
        assert found[claim].verdict == HOLDS and found[claim].beside == both


def test_a_first_step_is_later_for_a_stricter_threshold(kept):
    put_runs(decay.CONFIGS[1.0], generalise=4000)
    runs = dict.fromkeys(decay.CONFIGS, Store().runs(decay.CONFIGS[1.0])[0])
    loose, usual, strict = (decay_claims.general(runs, times)[0] for times in (2, 1, 0.5))
    assert loose < usual < strict


def jumping(losses, seed=0, **settings):
    """A Run of the LSTM with these training losses, memorised at its second evaluation."""
    config = dataclasses.replace(decay.CONFIGS[1.0], seed=seed, **settings)
    n = len(losses)
    return Run({"config": config.to_json(), "records": {
        "step": [100 * (i + 1) for i in range(n)], "train_loss": losses,
        "train_accuracy": [0.0] + [1.0] * (n - 1), "validation_accuracy": [0.5] * n,
        "l2_norm": [40.0 + i for i in range(n)]}})


def test_only_a_memorised_loss_jumps():
    run = jumping([1e-4, 1.0, 1e-3, 2e-7, 0.5, 5e-3, 6e-3])
    (found,) = jumps.jumps(run)                 # 1e-4 to 1.0 comes before memorising
    assert (found.before["step"], found.after["step"]) == (400, 500)
    assert (found.before["train_loss"], found.after["l2_norm"]) == (2e-7, 44.0)
    table, words = jumps.parts([("1", 0, run)])
    assert table.rows == [["1", "0", "400 to 500", "2e-07 → 0.5", "0.500 → 0.500", "43.0 → 44.0"]]
    assert "1 of the 1 jumps begin below" in words
    assert "Every run that came so low jumped. " in words


def test_a_low_loss_without_a_jump_is_named():
    high, low = jumping([1.0, 1e-3, 0.5]), jumping([1.0, 1e-3, 1e-4, 1e-5, 2e-6, 1e-7], seed=42)
    _, words = jumps.parts([("1", 0, high), ("1", 42, low)])
    assert "0 of the 1 jumps begin below" in words
    assert "without a jump from there: weight decay 1 with seed 42." in words
    assert jumps.parts([("1", 42, low)]) == []
    assert "4.8e-07. Whether" in jumps.parts([("1", 0, high)])[1]       # no run came so low


# --- numbers --------------------------------------------------------------------------------------
def run_with(accuracy, steps=None):
    steps = steps or [100 * (i + 1) for i in range(len(accuracy))]
    config = dataclasses.replace(study.BASE, steps=steps[-1])
    return Run({"config": config.to_json(),
                "records": {"step": steps, "validation_accuracy": accuracy,
                            "train_loss": [1 - a / 2 for a in accuracy]}})


def test_best_and_first_up_to_a_step():
    run = run_with([0.1, 0.9, 0.5, 1.0])
    assert run.best("validation_accuracy") == 1.0 and run.first("validation_accuracy") == 400
    assert run.best("validation_accuracy", 300) == 0.9
    assert run.first("validation_accuracy", 300) == 200
    assert run.reach("validation_accuracy", 0.9) == 200
    assert math.isinf(run.reach("validation_accuracy", 1.1))
    assert run.best("train_loss") == 0.5


def test_the_shortfall_is_zero_for_a_curve_that_only_rises():
    assert run_with([0.1, 0.5, 0.5, 1.0]).shortfall() == 0
    assert run_with([0.1, 0.9, 0.5, 0.9]).shortfall() == pytest.approx(0.1)
    assert run_with([0.9, 0.1, 0.9], [1, 100, 200]).shortfall() == pytest.approx(0.4)
    assert run_with([0.0, 1.0]).roughness() == 0
    assert run_with([1.0, 0.0]).roughness() == pytest.approx(math.log10(2) / 2)


def test_rank_correlation():
    assert measures.ranks([3, 1, 3]) == [2.5, 1, 2.5]
    assert measures.correlation([1, 2, 3], [2, 4, 9]) == pytest.approx(1)
    assert measures.correlation([1, 2, 3], [9, 4, 2]) == pytest.approx(-1)
    assert measures.correlation([1, 2, 3], [5, 5, 5]) == 0
    assert measures.correlation([1, 2, 3, 4], [1, 3, 2, 4]) == pytest.approx(0.8)
    assert measures.slope([0, 1, 2], [1, 3, 5]) == pytest.approx(2)


def test_a_change_is_said_with_its_direction():
    assert measures.moved(-0.0111, ".4f") == "falls by 0.0111"
    assert measures.moved(0.2, ".3f") == "rises by 0.200"


@pytest.mark.parametrize("model", ["lstm", "gpt"])
def test_parameters_without_embeddings_are_counted(model):
    config = variant(model, layers=3, width=16)
    made = make_model(config, make_task(config))
    counted = sum(p.data.size for name, p in made.params() if "embedding" not in name)
    assert parameters(config) == counted


def test_a_file_that_is_no_run_is_refused_in_one_line(kept):
    kept.mkdir()
    (kept / "0.json.gz").write_bytes(b"no")
    with pytest.raises(InputError, match=r"0\.json\.gz") as error:
        Store()
    assert "\n" not in str(error.value)
