"""The laboratory and the scatter by rounding: tiny trials, their records, their answers."""

import dataclasses
import gzip
import json
import math
from pathlib import Path

import answers_circuit
import answers_collapse
import answers_faster
import collapse
import faster
import numpy as np
import paired
import phases
import pytest
import rounding
import trials
from reporting import scatter
from reporting.parts import section_markdown, write_png
from reporting.records import Store
from trials import Trial

from npdl.errors import InputError

ROOT = Path(__file__).resolve().parents[1]
TINY = {"p": 7, "width": 8, "heads": 2, "steps": 6, "eval_first": 0, "eval_every": 2}
LSTM = {name: value for name, value in TINY.items() if name != "heads"}


def load_lab_report():
    """experiments/grokking/report.py, which is not the study's report.py."""
    import importlib.util

    spec = importlib.util.spec_from_file_location(
        "lab_report", ROOT / "experiments" / "grokking" / "report.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(trials, "RESULTS", tmp_path)
    return tmp_path


def two(calls):
    def make(seed):
        calls.append(seed)
        return {"step": [1, 2], "loss": [0.123456789 + seed, math.nan]}

    return [Trial(f"a-seed{seed}", {"seed": seed}, 1.5, lambda seed=seed: make(seed))
            for seed in (0, 1)]


# --- records --------------------------------------------------------------------------------------
def test_each_trial_is_made_once_and_listed_with_its_minutes(results, capsys):
    calls = []
    made = two(calls)
    assert trials.main("x", made, "Words.", ["--list"]) == 0 and not calls
    assert "2 of 2 trials left, 3 minutes" in capsys.readouterr().out
    assert trials.main("x", made, "Words.", ["seed1"]) == 0 and calls == [1]
    assert trials.main("x", made, "Words.", ["--part", "2/2"]) == 0 and calls == [1]
    assert trials.main("x", made, "Words.", []) == 0 and calls == [1, 0]
    record = trials.kept("x", made[0])
    assert record["columns"] == {"step": [1, 2], "loss": [0.12346, None]}
    assert record["trial"] == {"seed": 0} and record["made"]["engine"]
    assert trials.main("x", made, "Words.", ["--list"]) == 0
    assert "0 of 2 trials left" in capsys.readouterr().out
    for wrong in (["nothing"], ["--part", "3/2"], ["--part", "x"]):
        with pytest.raises(SystemExit) as left:
            trials.main("x", made, "Words.", wrong)
        assert left.value.code == 2
        assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("spoil", ["facts", "cut", "columns"])
def test_a_record_of_something_else_is_one_line(results, spoil, capsys):
    made = two([])
    trials.keep("x", made[0])
    path = made[0].path("x")
    value = json.loads(gzip.decompress(path.read_bytes()))
    if spoil == "facts":
        value["trial"]["seed"] = 5
    if spoil == "columns":
        value["columns"]["loss"].pop()
    data = gzip.compress(json.dumps(value).encode())
    path.write_bytes(data[:20] if spoil == "cut" else data)
    with pytest.raises(InputError, match="is not a record of this trial"):
        trials.kept("x", made[0])
    assert trials.main("x", made, "Words.", ["--list"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_records_by_other_code_are_left_out(results):
    made = two([])
    for trial in made:
        trials.keep("x", trial)
    assert len(trials.records("x", made)) == 2
    path = made[1].path("x")
    value = json.loads(gzip.decompress(path.read_bytes()))
    value["made"]["engine"] = "zzz"
    path.write_bytes(gzip.compress(json.dumps(value).encode()))
    assert len(trials.records("x", made)) == 1


# --- softmax collapse -----------------------------------------------------------------------------
class NoGradient:
    """A loss that every logit leaves at 0."""

    def forward(self, logits, targets):
        return 0.0, logits

    def backward(self, upstream, cache):
        return np.zeros_like(cache)


@pytest.mark.parametrize("arm", collapse.ARMS)
def test_every_arm_trains(arm):
    columns = collapse.train(arm, 0, 12, p=7, hidden=16)
    assert columns["step"] == [*range(1, 11), 12]
    assert columns["train_loss"][-1] < columns["train_loss"][0]
    assert all(-1 <= value <= 1 for value in columns["along"])


def test_arms_share_split_and_start():
    first = [collapse.train(arm, 3, 1, p=7, hidden=16) for arm in ("float32", "orthogonal")]
    assert first[0] == first[1]
    (x, y), (other, _) = collapse.pairs(7, 0.4, 3)
    assert len(x) == 19 and len(x) + len(other) == 49 and (x.sum(1) == 2).all()
    assert ((x.argmax(1) + x[:, 7:].argmax(1)) % 7 == y).all()


def test_a_collapsed_softmax_is_seen():
    model = collapse.MLP([14, 8, 8, 7], bias=False)
    zero = np.zeros((3, 7), np.float32)
    row = collapse.look(1, model, list(dict(model.params()).values()), 0.0,
                        np.eye(3, 7, dtype=np.float32), zero, np.arange(3),
                        collapse.pairs(7, 0.4, 0)[1])
    assert row["collapsed"] == 1 and row["along"] == 0 and row["train_accuracy"] == 1
    zero[0, 0], zero[1, 2] = -0.1, 0.1              # the right logit of a pair, another's wrong one
    row = collapse.look(1, model, list(dict(model.params()).values()), 0.0,
                        np.eye(3, 7, dtype=np.float32), zero, np.arange(3),
                        collapse.pairs(7, 0.4, 0)[1])
    assert row["collapsed"] == 2 / 3


def test_a_trial_ends_when_nothing_can_change(monkeypatch):
    monkeypatch.setitem(collapse.ARMS, "none",
                        (NoGradient, "float32", 1e-3, (0.9, 0.99), 1e-30, 9))
    columns = collapse.train("none", 0, 3000, p=5, hidden=4)
    assert columns["step"][-1] == 1100 and set(columns["train_loss"]) == {0.0}
    assert columns["norm"][0] == columns["norm"][-1]


def lab_record(facts, **columns):
    return {"trial": facts, "columns": columns, "made": {}}


def test_the_answers_on_collapse_follow_from_the_records(tmp_path):
    def arm(name, seed, collapsed, best):
        return lab_record({"arm": name, "seed": seed}, step=[100, 200, 300],
                          train_accuracy=[0.5, 1.0, 1.0], validation_accuracy=[0.0, 0.1, best],
                          collapsed=[0.0, collapsed, collapsed], along=[0.1, 0.5, 0.9])

    records = {f"{name}{seed}": arm(name, seed, collapsed, best) for seed in (0, 1)
               for name, collapsed, best in (("float32", 0.9, 0.2), ("orthogonal", 0.0, 0.95))}
    made = answers_collapse.collapse_section(records)
    text = section_markdown(made)
    assert "In 2 of 2 seeds half of the training pairs get" in text and "So it does, here." in text
    assert "Yes: 2 of 2 seeds reach A_val ≥ 0.9 within 300 epochs, at epoch 300" in text
    assert "Not tried yet in all three" in text
    write_png(made.figures()[0], tmp_path)
    assert section_markdown(answers_collapse.collapse_section({})).endswith("Not tried yet.")


# --- Grokfast and Muon ----------------------------------------------------------------------------
@pytest.mark.parametrize("model", ["gpt", "lstm"])
def test_arms_start_alike_and_part(model):
    settings = {**(TINY if model == "gpt" else LSTM), "width": 8}
    found = {arm: faster.train(model, arm, 0, **settings) for arm in faster.ARMS}
    assert all(c["step"] == [2, 4, 6] for c in found.values())
    ends = {c["train_loss"][-1] for c in found.values()}
    assert len(ends) == len(faster.ARMS)
    assert found["adamw"] == faster.train(model, "adamw", 0, **settings)


def test_muon_has_the_matrices_between_table_and_classifier():
    config = dataclasses.replace(faster.study.variants(("gpt",), (0,))[0], **TINY)
    names = faster.hidden_matrices(faster.Arm(config, "muon").model)
    assert names and all(name.startswith("decoder.blocks") for name in names)
    config = dataclasses.replace(faster.study.variants(("lstm",), (0,))[0], **LSTM)
    assert all(name.startswith("lstm.layers")
               for name in faster.hidden_matrices(faster.Arm(config, "muon").model))


def test_a_paired_difference_has_an_interval():
    before = {0: 4000, 1: 5000, 2: 4500, 3: math.inf}
    seeds, mean, half = paired.paired(before, {0: 2000, 1: 2600, 2: 2200, 3: 1000})
    assert seeds == [0, 1, 2] and mean == pytest.approx(-0.299, abs=1e-3) and 0 < half < 0.1
    assert paired.verdict(mean, half) == "sooner" and paired.verdict(0.3, 0.1) == "later"
    assert paired.verdict(0.05, 0.1).startswith("no difference")
    assert paired.factor_text(-0.30103, math.inf) == "0.50 (one seed)"
    assert paired.verdict(*paired.paired({}, {})[1:]) == "not tried"
    made = answers_faster.faster_section({
        f"{arm}{seed}": lab_record({"model": "gpt", "arm": arm, "seed": seed}, step=[100, at],
                                   validation_accuracy=[0.0, 1.0])
        for arm, steps in (("adamw", (4000, 4400)), ("muon", (1000, 1200)))
        for seed, at in enumerate(steps)})
    assert "**Muon.** LSTM: not tried; GPT: sooner, 0.26" in section_markdown(made)


# --- what the model computes ----------------------------------------------------------------------
def test_progress_measures_know_a_circuit_of_waves():
    p, key = 13, (2, 5)
    s, c = np.arange(p)[:, None], np.arange(p)[None]
    table = sum(8 * np.cos(2 * np.pi * k * (s - c) / p) for k in key)
    a, b = np.divmod(np.arange(p * p), p)
    sums, trained = (a + b) % p, np.arange(p * p) % 2 == 0
    logits = table[sums]
    assert sorted(phases.key_frequencies(phases.by_sum(logits, sums, p))) == list(key)
    restricted, excluded = phases.measured(logits, sums, trained, key, p)
    assert restricted < 0.01 and excluded == pytest.approx(math.log(p))
    memorised = np.where(trained[:, None], 0, 0) + 20.0 * (np.arange(p) == sums[:, None])
    memorised[~trained] = 0
    restricted, excluded = phases.measured(memorised, sums, trained, [2], p)
    assert restricted > 1 and excluded < 0.1                # nothing that waves explain


def test_circuit_and_jumps_are_watched():
    columns = phases.circuit(0, **TINY)
    assert columns["step"] == [2, 4, 6] and len(set(columns["keys"])) == 1
    assert {"restricted", "excluded", "top"} <= set(columns)
    assert set(phases.moments(columns)) == {"memorised", "circuit", "generalised"}
    columns = phases.jumping(1e-8, 0, **LSTM)
    assert columns["step"] == [2, 4, 6]


def test_the_answers_on_phases_follow_from_the_records(tmp_path):
    record = lab_record(
        {"kind": "circuit", "seed": 0}, step=[1, 100, 2000, 4000],
        train_accuracy=[0.0, 1.0, 1.0, 1.0], validation_accuracy=[0.0, 0.0, 0.5, 1.0],
        restricted=[3.4, 3.0, 1.0, 0.1], excluded=[3.4, 0.1, 0.5, 2.0], keys=[5, 5, 5, 5],
        l2_norm=[80.0, 78.0, 50.0, 40.0], top=[0.4, 0.4, 0.6, 0.9],
        train_loss=[3.4, 0.01, 0.001, 0.001], validation_loss=[3.4, 4.0, 1.0, 0.01])
    made = answers_circuit.circuit_section({"a": record})
    assert "In every seed the circuit forms" in section_markdown(made)
    assert "+1.30 decades: the model comes to rely on them" in section_markdown(made)
    write_png(made.figures()[0], tmp_path)

    def jump(eps, seed, last):
        return lab_record({"kind": "jumps", "eps": eps, "seed": seed}, step=[100, 200, 300],
                          train_accuracy=[1.0, 1.0, 1.0], train_loss=[1e-3, 1e-7, last])

    records = {f"{eps}{seed}": jump(eps, seed, last) for seed in (0, 1)
               for eps, last in ((1e-8, 1.0), (1e-12, 1e-8))}
    text = section_markdown(answers_circuit.jumps_section(records))
    assert "With eps 1e-08 2 of 2 seeds jump (after step 200)" in text
    assert "So eps decides whether they come" in text


# --- rounding -------------------------------------------------------------------------------------
def test_only_the_rounding_differs():
    found = {variant: rounding.train("gpt", variant, **TINY) for variant in rounding.VARIANTS}
    usual = found["usual"]
    assert usual == rounding.train("gpt", "usual", **TINY)
    for variant, columns in found.items():
        assert columns["step"] == usual["step"]
        np.testing.assert_allclose(columns["train_loss"], usual["train_loss"], rtol=1e-4)
        other = found["plain"] if variant == "rows" else usual
        assert variant == "usual" or columns["train_loss"] != other["train_loss"]


def test_the_scatter_by_rounding_stands_beside_the_seeds(results, monkeypatch):
    def columns(trial):
        loss = 0.001 * 2 ** (len(trial.facts["variant"]) % 4)
        return {"step": [100, 200], "validation_loss": [1.0, loss],
                "validation_accuracy": [0.1, 1.0]}

    for trial in rounding.TRIALS:
        trials.keep(rounding.FOLDER, dataclasses.replace(trial, make=lambda t=trial: columns(t)))
    made = scatter.section(Store())
    text = section_markdown(made)
    assert "| LSTM | float64 | 0.008 | 1.0000 | 200 |" in text
    found = {name: (value, 1.0, 100) for name, value in (("a", 0.001), ("b", 0.01), ("c", 0.1))}
    assert scatter.spread(found, 0) == pytest.approx(1.0)
    assert scatter.spread({"a": (1, 1, 1)}, 0) is None


# --- the report -----------------------------------------------------------------------------------
def test_the_laboratorys_report_is_up_to_date():
    lab = load_lab_report()
    assert lab.main(["--check"]) == 0, "run: python experiments/grokking/report.py"


def test_every_trial_has_a_name_of_its_own():
    for module in (collapse, faster, phases, rounding):
        names = [trial.name for trial in module.TRIALS]
        assert len(names) == len(set(names)) and all(t.minutes > 0 for t in module.TRIALS)
