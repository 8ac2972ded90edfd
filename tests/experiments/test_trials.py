"""The laboratory's trials and those of other roundings: tiny ones, and their records."""

import dataclasses
import gzip
import json
import math

import numpy as np
import pytest

from experiments import rounding, trials
from experiments.grokking import collapse, faster, phases
from experiments.study.records import variant
from experiments.trials import Trial
from npdl.errors import InputError

TINY = {"p": 7, "width": 8, "heads": 2, "steps": 6, "eval_first": 0, "eval_every": 2}
LSTM = {name: value for name, value in TINY.items() if name != "heads"}


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


@pytest.mark.parametrize("spoil", ["facts", "cut", "columns", "block"])
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
    block = data[:10] + b"\xff" * 20 + data[30:]        # of what gzip has compressed
    path.write_bytes({"cut": data[:20], "block": block}.get(spoil, data))
    with pytest.raises(InputError, match="is not a record of this trial"):
        trials.kept("x", made[0])
    assert trials.main("x", made, "Words.", ["--list"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


# --- softmax collapse -----------------------------------------------------------------------------
class NoGradient:
    """A loss that every logit leaves at 0."""

    def forward(self, logits, targets):
        return 0.0, logits

    def backward(self, upstream, cache):
        return np.zeros_like(cache)


def small(arm, **changed):
    return collapse.train(dataclasses.replace(collapse.ARMS[arm], **changed), 3, p=7, hidden=16)


@pytest.mark.parametrize("arm", collapse.ARMS)
def test_every_arm_trains(arm):
    columns = small(arm, epochs=12)
    assert columns["step"][:9] == [*range(1, 10)] and columns["step"][-1] == 12
    assert columns["train_loss"][-1] < columns["train_loss"][0]
    assert all(-1 <= value <= 1 for value in columns["along"])


def test_arms_share_split_and_start():
    assert small("plain", epochs=1) == small("orthogonal", epochs=1)
    assert small("plain", epochs=3) != small("orthogonal", epochs=3)
    (x, y), (other, _) = collapse.pairs(7, 0.4, 3)
    assert len(x) == 19 and len(x) + len(other) == 49 and (x.sum(1) == 2).all()
    assert ((x.argmax(1) + x[:, 7:].argmax(1)) % 7 == y).all()


def test_a_rescaled_gradient_has_its_norm_and_no_part_along_the_weights():
    model = collapse.MLP([6, 4, 3], bias=False)
    params = list(dict(model.params()).values())
    for param in params:
        param.grad[...] = np.random.default_rng(0).normal(size=param.grad.shape)
    before = [np.linalg.norm(p.grad) for p in params]
    collapse.turn(params, "usual")
    assert [np.linalg.norm(p.grad) for p in params] == before
    collapse.turn(params, "rescaled")
    assert [np.linalg.norm(p.grad) for p in params] == pytest.approx(before, rel=1e-5)
    assert all(abs((p.grad * p.data).sum()) < 1e-5 for p in params)


def test_a_collapsed_softmax_is_seen():
    model = collapse.MLP([14, 8, 8, 7], bias=False)
    zero = np.zeros((3, 7), np.float32)
    row = collapse.measured(1, model, list(dict(model.params()).values()), 0.0,
                        np.eye(3, 7, dtype=np.float32), zero, np.arange(3),
                        collapse.pairs(7, 0.4, 0)[1])
    assert row["collapsed"] == 1 and row["along"] == 0 and row["train_accuracy"] == 1
    zero[0, 0], zero[1, 2] = -0.1, 0.1              # the right logit of a pair, another's wrong one
    row = collapse.measured(1, model, list(dict(model.params()).values()), 0.0,
                        np.eye(3, 7, dtype=np.float32), zero, np.arange(3),
                        collapse.pairs(7, 0.4, 0)[1])
    assert row["collapsed"] == 2 / 3


def test_a_trial_ends_when_nothing_can_change(monkeypatch):
    monkeypatch.setitem(collapse.LOSSES, "none", NoGradient)
    columns = small("float32", loss="none", epochs=3000)
    assert columns["step"][-1] == collapse.DEAD and set(columns["train_loss"]) == {0.0}
    assert columns["norm"][0] == columns["norm"][-1]


def test_a_trial_ends_when_all_is_right_three_times(monkeypatch):
    rights = iter([1, 0.5, 1, 1, 1])
    monkeypatch.setattr(collapse, "measured", lambda epoch, *rest: {
        "step": epoch, "validation_accuracy": next(rights)})
    assert small("plain", epochs=50)["step"] == [1, 2, 3, 4, 5]


def test_other_settings_are_another_trial(results):
    """A record made before a setting was changed is not taken for the new one."""
    name = "decay-seed0"
    trial = next(t for t in collapse.TRIALS if t.name == name)
    made = dataclasses.replace(trial, make=lambda: {"step": [1]})
    trials.keep("x", made)
    assert trials.kept("x", made)["trial"] == trial.facts
    for change in ("lr", "betas", "eps", "epochs", "share", "dtype", "decay", "gradient"):
        other = {**trial.facts, change: "other"}
        assert other.keys() == trial.facts.keys()
        with pytest.raises(InputError, match="not a record of this trial"):
            trials.kept("x", dataclasses.replace(made, facts=other))
    facts = {trial.name: trial.facts for trial in faster.TRIALS + phases.TRIALS}
    assert facts["gpt-momentum-seed0"]["betas"] == [0.98, 0.999]
    assert facts["gpt-grokfast-seed0"]["amplify"] == 2 and facts["lstm-muon-seed8"]["faster"] == 20
    assert facts["jumps-eps1e-12-seed0"]["eps"] == 1e-12
    assert facts["jumps-eps1e-12-seed0"]["steps"] == phases.LONG[1e-12]
    assert json.loads(json.dumps(facts)) == facts


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
    config = dataclasses.replace(variant("gpt"), **TINY)
    names = faster.hidden_matrices(faster.Arm(config, "muon").model)
    assert names and all(name.startswith("decoder.blocks") for name in names)
    config = dataclasses.replace(variant("lstm"), **LSTM)
    assert all(name.startswith("lstm.layers")
               for name in faster.hidden_matrices(faster.Arm(config, "muon").model))


def test_a_matched_update_has_the_size_that_it_says():
    config = dataclasses.replace(faster.config_of("gpt", "matched", 0), width=32, weight_decay=0.0)
    arm = faster.Arm(config, "matched")
    muon, sizes = arm.muon, {}
    for name, p in muon.params.items():
        p.grad[...] = np.random.default_rng(1).normal(size=p.data.shape)
        sizes[name] = p.data.copy()
    muon.step(1e-3)
    shapes = {muon.params[name].data.shape for name in muon.names}
    assert len(shapes) > 1                                      # wide and tall maps, too
    for name in muon.names:
        step = muon.params[name].data - sizes[name]
        assert np.sqrt((step**2).mean()) == pytest.approx(2e-4, rel=0.25)


def test_grokfast_keeps_clipped_gradients_alone(monkeypatch):
    seen = []
    monkeypatch.setattr(faster.Grokfast, "filter", lambda self: seen.append(
        math.sqrt(sum(float((p.grad**2).sum()) for p in self.params))))
    faster.train("gpt", "grokfast", 0, **{**TINY, "clip": 1e-3})
    assert len(seen) == 6 and all(norm <= 1.01e-3 for norm in seen)


# --- what the model computes ----------------------------------------------------------------------
def test_a_jump_ends_its_trial_some_evaluations_later(monkeypatch):
    losses = [1.0, 1e-3, 1e-7, 1e-2, *[1e-3] * 9]       # known from the second on; then it jumps
    monkeypatch.setattr(phases, "evaluations", lambda trainer: (
        {"train_loss": loss, "train_accuracy": float(i > 0)} for i, loss in enumerate(losses)))
    found = phases.jumping(1e-8, 0, **LSTM)["train_loss"]
    assert found == losses[:4 + phases.AFTER]


def test_circuit_and_jumps_are_watched():
    columns = phases.circuit(0, **TINY)
    assert columns["step"] == [2, 4, 6] and columns["keys"][0] == columns["keys"][-1] != []
    assert len(columns["embedded"][0]) == 3                     # all that p = 7 has
    assert {"restricted", "excluded", "fresh_circuit", "fresh_loss", "top"} <= set(columns)
    assert {"mirror_accuracy", "fresh_accuracy"} <= set(columns)
    assert set(phases.moments(columns)) == {"memorised", "circuit", "shown", "generalised"}
    columns = phases.jumping(1e-8, 0, **LSTM)
    assert columns["step"] == [2, 4, 6]


def test_the_control_takes_out_as_many_random_frequencies():
    columns = phases.circuit(0, 4, **{**TINY, "p": 17})
    plain = phases.circuit(0, **{**TINY, "p": 17})
    assert {name: columns[name] for name in plain} == plain
    assert all(0 <= share <= 1 for share in columns["above_random"])
    sums, trained = np.arange(17), np.ones(17, bool)
    turns = 2 * np.pi * (sums[:, None] - sums) / 17
    logits = 3 * sum(np.cos(k * turns) for k in range(1, 6))    # five waves of eight
    without = phases.excluded_loss(logits, sums, trained, [1, 2, 3, 4, 5], 17)
    found = phases.random_excluded(logits, sums, trained, without, 17, 40)
    assert without == pytest.approx(math.log(17))               # nothing is left
    assert found["above_random"] > 0.9 and found["random"] < 0.9 * without


# --- rounding -------------------------------------------------------------------------------------
def test_only_the_rounding_differs():
    found = {variant: rounding.train("gpt", variant, **TINY) for variant in rounding.VARIANTS}
    usual = found["usual"]
    assert usual == rounding.train("gpt", "usual", **TINY)
    for name, columns in found.items():
        assert columns["step"] == usual["step"]
        np.testing.assert_allclose(columns["train_loss"], usual["train_loss"], rtol=1e-4)
        other = found["plain"] if name == "rows" else usual
        assert name == "usual" or columns["train_loss"] != other["train_loss"]


# --- all of them ----------------------------------------------------------------------------------
def test_every_trial_has_a_name_of_its_own():
    for module in (collapse, faster, phases, rounding):
        names = [trial.name for trial in module.TRIALS]
        assert len(names) == len(set(names)) and all(t.minutes > 0 for t in module.TRIALS)
