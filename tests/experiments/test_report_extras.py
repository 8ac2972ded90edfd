"""The report's sections beyond the questions: attention maps, Fourier spectrum."""

import dataclasses
import math

import numpy as np
import pytest

from experiments import study
from experiments.reporting import attention, extract, fourier, sanity, scatter
from experiments.reporting.parts import (
    FAILS,
    HOLDS,
    MISSING,
    OPEN,
    section_markdown,
    write_png,
)
from experiments.reporting.records import Store
from npdl.errors import InputError
from npdl.models.gpt import attentions
from npdl.training.config import Config
from npdl.training.run import load_run, train
from tests.tools.report_fakes import put_runs

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
        assert np.allclose(attentions(run.model.forward(ids[None])[1])[0], shown, atol=1e-4)
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
    assert all(entry["made"]["engine"] for entry in entries)
    old = [{key: entries[0][key] for key in entries[0] if key != "made"}] * 3
    kept, words = extract.one_origin([*old, *entries])
    assert kept == old and "2 by other code are left out" in words
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
    return {"model": "gpt", "seed": seed, "settings": {}, "step": 9, "accuracy": [1.0, 1.0],
            "equations": 3,
            "mean": mean.tolist(), "maps": mean[None].repeat(2, 0).tolist(),
            "spread": spread.tolist(), "tokens": [["BOS", str(seed), "+", "3", "=", "4"]] * 2}


def test_claims_about_bos_are_judged_against_the_even_head():
    strong, weak = looking(0, 0.9, 0.2), looking(42, 0.1, 0.3)
    by_claim = [v.verdict for v in attention.verdicts([strong])]
    assert by_claim[0] == HOLDS and by_claim[2] == HOLDS and by_claim[6] == HOLDS
    assert attention.verdicts([weak])[0].verdict == FAILS
    assert attention.verdicts([weak])[2].verdict == FAILS
    assert attention.verdicts([strong, weak])[2].verdict == OPEN
    assert {v.verdict for v in attention.verdicts([])} == {MISSING}
    even = looking(1, 0.2, 0.2)
    assert "+0.71" not in attention.bos_table([even]).rows[0]
    assert "+0.61" in attention.bos_table([strong]).rows[0]         # 0.9 - 0.29


def test_half_and_twice_of_most_attention_stand_beside():
    far = looking(0, 0.3, 0.2)              # BOS is the largest at the queries 3 to 5 alone
    found = attention.verdicts([far])[0]
    assert found.verdict == HOLDS and "4 of 4 heads at 3 of 5" in found.ours
    assert found.beside == "threshold × 0.5: fails; threshold × 2: holds"


def test_a_run_is_called_by_its_recipe():
    def name(model, **settings):
        return attention.called({"model": model, "seed": 42, "settings": settings})

    assert name("gpt") == name("lstm") == "seed 42, stated"
    assert name("gpt", clip=1.0) == name("lstm", clip=1.0) == "seed 42, default"
    assert name("lstm", clip=1.0, init="xavier") == "seed 42, release"
    assert name("gpt", p=7) == "seed 42, p 7"


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


# --- rounding and seeds ---------------------------------------------------------------------------
def runs_of(*losses, step=100):
    """Facts of runs with these lowest losses."""
    return {i: (loss, 1.0, step * (i + 1)) for i, loss in enumerate(losses)}


NEAR, WIDE = (1.0, 1.1, 1.2, 1.3, 1.4), (1.0, 10.0, 100.0, 1e3, 1e4)


@pytest.mark.parametrize("rounded, seeded, words", [
    (NEAR, WIDE, ": rounding is less"), (WIDE, NEAR, ": rounding is more"),
    (WIDE, WIDE, "a ratio of 1 (0.32 to 3.1): that both are of one size cannot be excluded"),
    (WIDE, WIDE[:3], "of one size cannot be excluded"),
    (WIDE, WIDE[:2], "open: too few runs, or all alike (2 by the seed)"),
    ((1.0,) * 5, WIDE,
     "rounding changes nothing in 5 runs, the seed 1.58 decades: rounding is less"),
    (WIDE, (1.0,) * 5, "open: too few runs, or all alike (5 by the seed)"),
])
def test_the_scatter_by_rounding_is_compared_with_that_of_the_seeds(rounded, seeded, words):
    assert words in scatter.compared(runs_of(*rounded), runs_of(*seeded), 0)


def test_two_scatters_are_told_apart_by_fishers_distribution():
    assert scatter.limit(5, 5) == scatter.limit(9, 9) == pytest.approx(3.1, abs=0.01)
    assert scatter.limit(3, 5) == pytest.approx(math.sqrt(2 * (0.025**-0.5 - 1)), rel=1e-3)
    assert scatter.limit(3, 4) < scatter.limit(4, 3)


def test_seeds_that_never_generalise_are_counted():
    never = runs_of(*WIDE, step=math.inf) | {0: (1.0, 1.0, 100)}
    words = scatter.compared(runs_of(*WIDE), never, 2)
    assert words.startswith("open: ") and "(left out, as they never reach it: 0 and 4)" in words
    both = {"gpt": {}, "lstm": runs_of(*WIDE)}
    text = scatter.answer(both, both)
    assert "LSTM, L_val: " in text and "GPT" not in text and "less than 3.1-fold" in text


def test_what_older_code_made_of_a_seed_stands_beside_what_newer_did(tmp_path, monkeypatch):
    monkeypatch.setattr(study, "RESULTS", tmp_path)
    config = study.with_recipe(sanity.CONFIGS["lstm"], "release")
    put_runs(config, floor=2e-3, made={"engine": "0123456789ab"})
    assert scatter.other_code(Store()) == ""
    put_runs(config, floor=1e-3, seeds=(42,), made=False)
    text = scatter.other_code(Store())
    assert "newer is 0.3 and 0.31 (seed 42). More than one" in text
