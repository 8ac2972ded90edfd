"""The report's sections beyond the questions: attention maps, Fourier spectrum, the loss puzzle."""

import dataclasses
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "experiments"))

from reporting import (  # noqa: E402
    attention,
    balance,
    extract,
    fourier,
    mechanism,
    puzzle,
    readings,
    spikes,
)
from reporting.parts import (  # noqa: E402
    FAILS,
    HOLDS,
    MISSING,
    TWO_SEEDS,
    section_markdown,
    write_png,
)

from npdl.errors import InputError  # noqa: E402
from npdl.training.config import Config  # noqa: E402
from npdl.training.loop import Trainer  # noqa: E402
from npdl.training.run import load_run, train  # noqa: E402

TINY = Config(p=7, width=8, heads=2, steps=3, threads=1, eval_first=0)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Folders of tiny runs: {model: folder}."""
    root = tmp_path_factory.mktemp("runs")
    for model in ("gpt", "lstm"):
        train(dataclasses.replace(TINY, model=model), root / model, quiet=True)
    return {model: root / model for model in ("gpt", "lstm")}


# --- extraction -----------------------------------------------------------------------------------
def test_attention_is_extracted_from_the_training_set(folders):
    run = load_run(folders["gpt"])
    entry = extract.attention_of(run)
    maps, mean = np.array(entry["maps"]), np.array(entry["mean"])
    assert maps.shape == (2, 2, 2, 6, 6) and mean.shape == (2, 2, 6, 6)
    assert np.allclose(maps.sum(-1), 1, atol=1e-3) and (np.triu(mean, 1) == 0).all()
    trained = {tuple(row) for row in run.task.data.train.inputs.tolist()}
    for tokens, shown in zip(entry["tokens"], maps, strict=True):
        ids = run.task.vocabulary.encode(tokens)
        assert tuple(ids.tolist()) in trained
        assert np.allclose(run.model.forward(ids[None])[0].attentions[0], shown, atol=1e-4)
    assert entry["equations"] == len(trained) and entry["step"] == 3


def test_even_heads_have_evenness_one_and_sharp_ones_nought(folders):
    run = load_run(folders["gpt"])
    for name, param in run.model.params():
        if "W_Q" in name:
            param.data[...] = 0
    assert np.allclose(extract.attention_of(run)["spread"], 1)
    entry = extract.attention_of(run)
    assert np.allclose(attention.to_bos(entry), attention.even_share(), atol=1e-4)


def test_an_lstm_has_no_attention_and_other_tasks_no_place(folders, capsys):
    assert extract.main(["attention", str(folders["lstm"])]) == 2
    assert "LSTM" in capsys.readouterr().err
    run = load_run(folders["gpt"])
    run.config = dataclasses.replace(run.config, operator="*")
    with pytest.raises(InputError, match="modular addition"):
        extract.facts(run)


def test_the_documents_samples_are_taken_where_they_are_trained_on():
    ids = np.array([[0, a, 0, b, 0, 0] for a, b in ((1, 2), (9, 6), (3, 3), (5, 7))])
    assert extract.samples(ids) == [3, 1]
    assert extract.samples(ids[:3]) == [1, 0]


def test_a_table_of_waves_is_kept_by_its_frequencies_and_emptied_without_them():
    n = np.arange(31)[:, None]
    table = 3 + np.cos(2 * np.pi * 4 * n / 31) + np.sin(2 * np.pi * 9 * n / 31) * [[1, -2]]
    assert np.allclose(extract.only(table, [4, 9]), table)
    rest = [k for k in range(1, 16) if k not in (4, 9)]
    assert np.allclose(extract.only(table, rest), 3)


@pytest.mark.parametrize("model", ["gpt", "lstm"])
def test_the_spectrum_leaves_the_model_as_it_was(folders, model):
    run = load_run(folders[model])
    before = run.model.embedding.W.data.copy()
    entry = extract.fourier_of(run)
    assert (run.model.embedding.W.data == before).all()
    assert len(entry["shares"]) == 3 and math.isclose(sum(entry["shares"]), 1, abs_tol=1e-3)
    assert sorted(entry["top"]) == [1, 2, 3]            # of p = 7 there are no more
    assert entry["kept"] == entry["accuracy"]
    assert 0 < entry["constant"] < 1


def test_the_command_adds_to_the_file_and_replaces_the_same_run(folders, tmp_path, capsys):
    for model in ("gpt", "lstm", "gpt"):
        assert extract.main(["fourier", str(folders[model]), "--results", str(tmp_path)]) == 0
    entries = extract.load("fourier", tmp_path)
    assert [entry["model"] for entry in entries] == ["gpt", "lstm"]
    assert entries[0]["settings"]["p"] == 7 and "steps" not in entries[0]["settings"]
    assert (tmp_path / "fourier.json").read_text().count("\n") == 4
    assert extract.main(["fourier", str(tmp_path / "none"), "--results", str(tmp_path)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


# --- attention ------------------------------------------------------------------------------------
def looking(seed, first, second):
    """An entry whose layers give BOS those weights, and the rest evenly to what else there is."""
    mean = np.zeros((2, 4, 6, 6))
    for layer, weight in enumerate((first, second)):
        mean[layer, :, 0, 0] = 1
        for t in range(1, 6):
            mean[layer, :, t, : t + 1] = (1 - weight) / t
            mean[layer, :, t, 0] = weight
    spread = np.ones((2, 4, 6))
    spread[0] = 0.5
    return {"seed": seed, "settings": {}, "step": 9, "accuracy": [1.0, 1.0], "equations": 3,
            "mean": mean.tolist(), "maps": mean[None].repeat(2, 0).tolist(),
            "spread": spread.tolist(), "tokens": [["BOS", str(seed), "+", "3", "=", "4"]] * 2}


def test_claims_about_bos_are_judged_against_the_even_head():
    strong, weak = looking(0, 0.9, 0.2), looking(42, 0.1, 0.3)
    by_claim = [v.verdict for v in attention.verdicts([strong])]
    assert by_claim[0] == HOLDS and by_claim[2] == HOLDS and by_claim[4] == HOLDS
    assert attention.verdicts([weak])[0].verdict == FAILS
    assert attention.verdicts([weak])[2].verdict == FAILS
    assert attention.verdicts([strong, weak])[2].verdict == TWO_SEEDS
    assert {v.verdict for v in attention.verdicts([])} == {MISSING}
    even = looking(1, 0.2, 0.2)
    assert "+0.71" not in attention.bos_table([even]).rows[0]
    assert "+0.61" in attention.bos_table([strong]).rows[0]         # 0.9 - 0.29


def test_the_attention_section_is_drawn(monkeypatch, tmp_path):
    monkeypatch.setattr(extract, "load", lambda what: [looking(0, 0.9, 0.2), looking(42, 0.8, 0.2)])
    made = attention.section()
    assert [figure.label for figure in made.figures()] == ["36", "37", "A1", "A2"]
    write_png(made.figures()[0], tmp_path)
    assert "even head" in section_markdown(made)
    monkeypatch.setattr(extract, "load", lambda what: [])
    assert "No maps" in section_markdown(attention.section())


# --- Fourier --------------------------------------------------------------------------------------
def spectral(model, seed, step, accuracy, strong):
    shares = np.full(15, (1 - strong) / 10)
    shares[:5] = strong / 5
    return {"model": model, "seed": seed, "settings": {}, "step": step, "accuracy": accuracy,
            "shares": shares.tolist(), "top": [1, 2, 3, 4, 5], "kept": [1.0, 0.95],
            "removed": [0.1, 0.05], "constant": 0.1}


def test_before_and_after_are_told_by_the_accuracies(monkeypatch, tmp_path):
    entries = [spectral("gpt", 0, step, accuracy, strong) for step, accuracy, strong in (
        (100, [0.5, 0.0], 0.33), (500, [1.0, 0.1], 0.4), (900, [1.0, 0.3], 0.5),
        (2000, [1.0, 0.7], 0.7), (4000, [1.0, 0.95], 0.9))]
    before, after = fourier.before_and_after(entries)
    assert (before["step"], after["step"]) == (900, 4000)
    assert fourier.before_and_after(entries[:4]) is None
    monkeypatch.setattr(extract, "load", lambda what: entries)
    made = fourier.section()
    text = section_markdown(made)
    assert "sparser spectrum in 1 of 1 runs" in text and "0.50 to 0.50" in text
    for figure in made.figures():
        write_png(figure, tmp_path)
    monkeypatch.setattr(extract, "load", lambda what: [])
    assert "No spectra" in section_markdown(fourier.section())


def test_random_tables_share_their_power():
    mean, least, largest = fourier.random_top()
    assert 5 / 15 < least < mean < largest < 0.45


# --- the puzzle -----------------------------------------------------------------------------------
def test_a_spike_is_counted_once_and_only_after_memorising():
    steps = [1, *range(100, 3100, 100)]
    losses = [3.0, *[0.05] * 30]
    assert puzzle.spikes_of(steps, losses) == (0, 0.05)
    losses[20:22] = [2.0, 1.0]
    losses[28] = 0.2
    assert puzzle.spikes_of(steps, losses) == (2, 0.05)
    assert puzzle.spikes_of(steps, [1.0] * 31)[0] == 0


def test_a_reading_fits_when_losses_and_memorising_are_near():
    def reading(train_loss, validation_loss, step):
        run = {"train_loss": train_loss, "validation_loss": validation_loss,
               "t_f_train_accuracy": step}
        return puzzle.Reading("x", "gpt", 10, [run], [])

    fitting = reading(0.0002, 0.004, 80)
    assert fitting.fits() and reading(0.0001, 0.0002, 100).fits()
    assert not reading(0.001, 0.004, 80).fits() and not reading(0.0001, 0.05, 80).fits()
    assert not reading(0.0001, 0.00001, 80).fits() and not reading(0.0001, 0.004, 200).fits()
    assert not dataclasses.replace(fitting, runs=[]).fits()


def test_every_reading_differs_from_the_recipe_and_from_the_others():
    listed = readings.puzzle_runs()
    assert len(listed) == len(set(listed)) and {c.seed for c in listed} == {0, 42}
    for name, (models, seeds, settings) in readings.READINGS.items():
        for model in models:
            runs = readings.runs_of(name, model)
            assert [c.seed for c in runs] == list(seeds)
            assert all(getattr(runs[0], key) == value for key, value in settings.items())
    assert readings.runs_of("Glorot's gates", "gpt") == []


def test_the_puzzle_section_is_written_without_any_run(monkeypatch):
    import study

    monkeypatch.setattr(study, "kept", lambda config: None)
    monkeypatch.setattr(balance, "load", dict)
    monkeypatch.setattr(spikes, "load", dict)
    text = section_markdown(puzzle.section())
    assert "not run" in text and MISSING in text


def test_the_two_parts_of_a_step_add_up_to_what_it_did():
    trainer = Trainer(TINY)
    with trainer.workers:
        trainer.update()
        before = trainer.optimizer.flat.data.astype(np.float64)
        trainer.update()
    root, update, _ = balance.lengths(trainer.optimizer)
    moved = trainer.optimizer.flat.data - before * (1 - 1e-3 * TINY.weight_decay)
    assert math.isclose(np.linalg.norm(moved) / 1e-3, update, rel_tol=1e-3)
    assert root > 0


def test_the_trace_has_a_row_for_each_interval(tmp_path, monkeypatch, capsys):
    columns = balance.trace(dataclasses.replace(TINY, steps=6), every=2)
    assert columns["step"] == [2, 4, 6] and set(columns) == set(balance.KEYS)
    clipped = balance.trace(dataclasses.replace(TINY, steps=6, clip=0.01), every=2)
    assert max(clipped["gradient"]) <= 0.0101 < max(columns["gradient"])
    monkeypatch.setattr(balance, "trace", lambda config: columns)
    assert balance.main(["--path", str(tmp_path / "balance.json")]) == 0
    assert set(json.loads((tmp_path / "balance.json").read_text())) == set(balance.VARIANTS)


def test_a_run_is_continued_from_its_state_and_left_as_it_is(folders, tmp_path):
    before = (folders["gpt"] / "checkpoint.npz").read_bytes()
    step, losses = spikes.continued(folders["gpt"], 10)
    _, slower = spikes.continued(folders["gpt"], 10, lr=1e-5)
    longer = dataclasses.replace(TINY, steps=13)
    train(longer, tmp_path / "longer", quiet=True)
    records = load_run(tmp_path / "longer").records
    assert step == 3 and len(losses) == 2 and losses[1] < slower[1]
    assert math.isclose(losses[-1], records[-1]["train_loss"], rel_tol=5e-3)
    assert (folders["gpt"] / "checkpoint.npz").read_bytes() == before


def test_peaks_are_counted_by_their_rising_sides():
    assert spikes.peaks([0.001, 0.02, 0.5, 0.001, 0.02]) == 2
    assert spikes.peaks([0.02, 0.02]) == 1 and spikes.peaks([0.001]) == 0


def test_changes_are_told_by_their_counts():
    tried = {"step": 9, "losses": {"nothing": [0.02, 0.001, 0.02], "lr / 10": [0.001, 0.001],
                                   "no clipping": [0.02, 0.001, 0.3]}}
    assert "2 spikes" in mechanism.changes(tried)
    assert "fewer with lr / 10 (0); not fewer with no clipping (2)" in mechanism.changes(tried)
    assert [row[2] for row in mechanism.changes_table(tried).rows] == ["2", "0", "2"]


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
