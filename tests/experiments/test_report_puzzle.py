"""The report's section on the loss puzzle: readings, spikes, what clipping does; Glorot's gates."""

import dataclasses
import math

import numpy as np
import pytest

from experiments.reporting import balance, mechanism, puzzle, puzzle_runs, readings, spikes
from experiments.reporting.parts import FAILS, HOLDS, MISSING, section_markdown
from npdl.errors import InputError
from npdl.training.config import Config
from npdl.training.loop import Trainer
from npdl.training.run import load_run, train
from tests.tools.trained import updated

TINY = Config(p=7, width=8, heads=2, steps=3, threads=1, eval_first=0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of a tiny GPT's run."""
    made = tmp_path_factory.mktemp("runs") / "gpt"
    train(TINY, made, quiet=True)
    return made


def test_a_spike_is_counted_once_and_only_after_memorising():
    steps = [1, *range(100, 3100, 100)]
    losses = [3.0, *[0.05] * 30]
    assert puzzle_runs.spikes_of(steps, losses) == (0, 0.05)
    losses[20:22] = [2.0, 1.0]
    losses[28] = 0.2
    assert puzzle_runs.spikes_of(steps, losses) == (2, 0.05)
    assert puzzle_runs.spikes_of(steps, [1.0] * 31)[0] == 0


def test_a_reading_fits_when_losses_and_memorising_are_near():
    def reading(train_loss, validation_loss, step):
        run = {"train_loss": train_loss, "validation_loss": validation_loss,
               "t_f_train_accuracy": step}
        return puzzle_runs.Reading("x", "gpt", 10, [run], [])

    fitting = reading(0.0002, 0.004, 80)
    assert fitting.fits() and reading(0.0001, 0.0002, 100).fits()
    assert not reading(0.001, 0.004, 80).fits() and not reading(0.0001, 0.05, 80).fits()
    assert not reading(0.0001, 0.00001, 80).fits() and not reading(0.0001, 0.004, 200).fits()
    assert not dataclasses.replace(fitting, runs=[]).fits()
    lstm = dataclasses.replace(fitting, model="lstm")
    assert lstm.near("t_f_train_accuracy", 400) and not lstm.near("t_f_train_accuracy", 500)
    wide = [{"validation_loss": value} for value in (0.0001, 0.01)]     # 0.001 in the middle
    assert dataclasses.replace(lstm, runs=wide).near("validation_loss")
    apart = dataclasses.replace(fitting, runs=fitting.runs + reading(0.0002, 0.9, 80).runs)
    assert not apart.fits()
    assert puzzle.judged({("gpt", "x"): fitting}, "gpt", "x").verdict == HOLDS
    assert puzzle.judged({("gpt", "x"): apart}, "gpt", "x").verdict == FAILS
    assert puzzle.judged({("gpt", "x"): fitting}, "gpt", "x").beside.endswith(
        "L_train: fails, L_val: holds, t_f(A_train): holds")
    slow = reading(0.0002, 0.004, 200)
    assert puzzle.judged({("gpt", "x"): slow}, "gpt", "x").verdict == FAILS


def test_the_bounds_of_a_reading_are_halved_and_doubled():
    run = {"train_loss": 0.0004, "validation_loss": 0.001, "t_f_train_accuracy": 500}
    reading = puzzle_runs.Reading("x", "lstm", 10, [run], [])
    assert puzzle_runs.bound("train_loss", 0.5) == 2
    assert puzzle_runs.bound("t_f_train_accuracy", 2) == 1.5
    assert reading.near("train_loss", times=2) and not reading.near("train_loss")
    found = puzzle.judged({("lstm", "x"): reading}, "lstm", "x")
    assert found.verdict == FAILS
    assert found.beside.startswith("threshold × 0.5: fails; threshold × 2: holds; by the rule")


def test_which_losses_the_text_gives_is_said_by_the_rule():
    def reading(model, *losses):
        runs = [dict(zip(puzzle_runs.LOSSES, pair, strict=True)) for pair in losses]
        return (model, puzzle.STATED), puzzle_runs.Reading("x", model, 10, runs, [])

    found = dict([reading("lstm", (3e-4, 1e-3), (3.1e-4, 5e-4)), reading("gpt")])
    words = puzzle.beside_stated(found)
    assert "The document's are lower: LSTM L_train (0.0001 ± 0.0000, here 0.0003" in words
    assert "They are alike: LSTM L_val (" in words and "GPT" not in words
    assert "that recipe was not run" in puzzle.beside_stated(dict([reading("lstm"),
                                                                   reading("gpt")]))


def test_every_reading_differs_from_the_recipe_and_from_the_others():
    listed = readings.puzzle_runs()
    assert len(listed) == len(set(listed)) and {c.seed for c in listed} == {0, 1, 2, 3, 42}
    for name, (models, seeds, settings) in readings.READINGS.items():
        for model in models:
            runs = readings.runs_of(name, model)
            assert [c.seed for c in runs] == list(seeds)
            assert all(getattr(runs[0], key) == value for key, value in settings.items())
    assert readings.runs_of("Glorot's gates", "gpt") == []


def test_a_reading_is_of_one_code_and_says_by_which(monkeypatch):
    from experiments import study
    from tests.tools.report_fakes import records

    def kept(config):
        made = {} if config.seed in (0, 42, 1) else {"engine": "abc", "blas": "b"}
        return {"config": config.to_json(), "made": made, "records": records(config)}

    monkeypatch.setattr(study, "kept", kept)
    reading = puzzle_runs.gathered(puzzle.RELEASED, "lstm")
    assert reading.values("seed") == [0, 42, 1] and reading.origin.startswith("code that was not")
    table = puzzle.readings_table([reading])
    assert table.rows[0][-1] == "a" and "By code: a, code that was not recorded." in table.caption


def test_the_puzzle_section_is_written_without_any_run(monkeypatch):
    from experiments import study

    monkeypatch.setattr(study, "kept", lambda config: None)
    monkeypatch.setattr(balance, "load", lambda: ({}, {}))
    monkeypatch.setattr(spikes, "load", dict)
    section = puzzle.section()
    text = section_markdown(section)
    assert "not run" in text and MISSING in text
    assert section.verdicts == []           # readings of npdl's own: no claims of the document's


def test_the_two_parts_of_a_step_add_up_to_what_it_did():
    trainer = Trainer(TINY)
    updated(trainer, 1)
    before = trainer.model.state_dict()
    updated(trainer, 1)
    root, update, decay = balance.lengths(trainer.optimizer)
    kept = 1 - 1e-3 * TINY.weight_decay
    moved = [np.linalg.norm(array - before[name].astype(np.float64) * kept)
             for name, array in trainer.model.state_dict().items()]
    assert math.isclose(np.linalg.norm(moved) / 1e-3, update, rel_tol=1e-3)
    norm = math.sqrt(sum(float((p.data**2).sum()) for p in trainer.optimizer.params.values()))
    assert root > 0 and math.isclose(decay, TINY.weight_decay * norm, rel_tol=1e-5)


def test_the_trace_has_a_row_for_each_interval(tmp_path, monkeypatch, capsys):
    columns = balance.trace(dataclasses.replace(TINY, steps=6), every=2)
    assert columns["step"] == [2, 4, 6] and set(columns) == set(balance.KEYS)
    clipped = balance.trace(dataclasses.replace(TINY, steps=6, clip=0.01), every=2)
    assert max(clipped["gradient"]) <= 0.0101 < max(columns["gradient"])
    monkeypatch.setattr(balance, "trace", lambda config: columns)
    assert balance.main(["--path", str(tmp_path / "balance.json")]) == 0
    monkeypatch.setattr(balance, "PATH", tmp_path / "balance.json")
    traces, made = balance.load()
    assert set(traces) == set(balance.VARIANTS) and made["engine"]


def test_a_run_is_continued_from_its_state_and_left_as_it_is(folder, tmp_path):
    before = (folder / "checkpoint.npz").read_bytes()
    step, losses = spikes.continued(folder, 10)
    _, slower = spikes.continued(folder, 10, lr=1e-5)
    longer = dataclasses.replace(TINY, steps=13)
    train(longer, tmp_path / "longer", quiet=True)
    records = load_run(tmp_path / "longer").records
    assert step == 3 and len(losses) == 2 and losses[1] < slower[1]
    assert math.isclose(losses[-1], records[-1]["train_loss"], rel_tol=5e-3)
    assert (folder / "checkpoint.npz").read_bytes() == before


def test_peaks_are_counted_by_their_rising_sides():
    assert spikes.peaks([0.001, 0.02, 0.5, 0.001, 0.02]) == 2
    assert spikes.peaks([0.02, 0.02]) == 1 and spikes.peaks([0.001]) == 0


def test_changes_are_told_by_their_counts_and_their_ends():
    tried = {"step": 9, "losses": {"nothing": [0.02, 0.001, 0.02, 0.001],
                                   "lr / 10": [0.001, 0.001, 0.001, 0.001],
                                   "no clipping": [0.02, 0.001, 0.3, 2.0]}}
    text = mechanism.changes(tried)
    assert "in 20 steps, the loss rises above 0.01 2 times where nothing is changed; 0 with lr / " \
        "10, 2 with no clipping. Counts so small" in text
    assert "not recovered from within these steps with no clipping (2)" in text
    assert [row[2] for row in mechanism.changes_table(tried).rows] == ["2", "0", "2"]
    tried["losses"]["no clipping"][-1] = 0.001
    assert "From every spike the loss is back" in mechanism.changes(tried)


# --- starting values ------------------------------------------------------------------------------
def test_glorots_gates_are_wider_and_without_bias():
    config = Config(model="lstm", p=7, width=64, threads=1)
    usual = Trainer(config).model
    model = Trainer(dataclasses.replace(config, init="xavier")).model
    bound = math.sqrt(6 / (64 + 2 * 64))
    for layer in model.lstm.layers:
        for weight in (layer.cell.W_x.data, layer.cell.W_h.data):
            assert 0.98 * bound < np.abs(weight).max() <= bound
            assert math.isclose(weight.std(), bound / math.sqrt(3), rel_tol=0.02)
        assert not layer.cell.b.data.any()
    for name in ("embedding.W", "classifier.W", "classifier.b"):
        ours, theirs = (dict(m.params())[name].data for m in (model, usual))
        assert (ours == theirs).all()


def test_glorots_gates_are_refused_for_a_gpt():
    with pytest.raises(InputError, match="only an LSTM"):
        Config(model="gpt", init="xavier")
