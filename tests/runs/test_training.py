"""Training: exact resume, stopping, both engines, evaluation, the files of a run."""

import functools
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from npdl.__main__ import main
from npdl.errors import InputError
from npdl_train.runs import checkpoint
from npdl_train.runs.config import Config
from npdl_train.runs.loop import Diverged, Trainer
from npdl_train.runs.metrics import read_metrics
from npdl_train.runs.recipes import new_config
from npdl_train.runs.run import load_run, resumed_config, train
from tests.tools import commands, slow
from tests.tools.trained import (
    ENGINES,
    arrays_of,
    assert_same_bytes,
    assert_same_runs,
    resumed_from,
    trained,
    updated,
)

ROOT = Path(__file__).parents[2]
SMALL = {"p": 7, "width": 16, "heads": 2, "eval_first": 3, "eval_every": 5, "save_every": 4}
every_model = pytest.mark.parametrize("model", ["gpt", "lstm"])
every_engine = pytest.mark.parametrize("engine", ENGINES)


def small(model="gpt", **settings):
    return Config(model=model, **{**SMALL, **settings})


@every_engine
@every_model
@pytest.mark.parametrize("settings", [
    {"dropout": 0.2, "threads": 2}, *(pytest.param(more, marks=pytest.mark.slow) for more in (
        {"schedule": "cosine", "clip": 0.5, "threads": 2}, {}, {"batch": 10},
        {"optimizer": "sgd", "momentum": 0.9}))])
def test_a_resumed_trainer_goes_on_bit_for_bit(model, engine, settings):
    config = small(model, steps=12, engine=engine, **settings)
    trainer, states = Trainer(config), {}
    for step in (1, 5, 11, 12):
        states[step] = updated(trainer, step - trainer.step).state()
    for step in (1, 5, 11):
        second = Trainer(config)
        second.load_state(*states[step])
        assert_same_bytes(updated(second, 12 - step).state()[0], states[12][0])


@every_model
@pytest.mark.parametrize("settings", [{"dropout": 0.3}, *(pytest.param(
    more, marks=pytest.mark.slow) for more in ({}, {"orders": (2, 3), "p": 5}))])
def test_engines_and_threads_give_the_same_updates_but_for_rounding(model, settings):
    found = []
    for engine, threads in (("plain", 1), ("fast", 1), ("fast", 2), ("fast", 3)):
        config = small(model, dtype="float64", engine=engine, threads=threads, clip=0.1, **settings)
        trainer = trained(config, 3)
        with trainer.engine:
            found.append((trainer.state()[0], trainer.evaluate()))
    arrays, record = found[0]
    fresh = Trainer(config).state()[0]
    assert all((arrays[name] != fresh[name]).any() for name in arrays)
    for others, other in found[1:]:
        assert other == pytest.approx(record, rel=1e-9)
        for name, array in others.items():
            np.testing.assert_allclose(array, arrays[name], rtol=0, atol=1e-9, err_msg=name)


def test_more_threads_than_samples_work():
    trainer = trained(small(p=2, r_train=0.5, threads=5), 2)     # two equations to train on
    assert all(np.isfinite(array).all() for array in trainer.state()[0].values())


@every_engine
@every_model
def test_evaluation_agrees_with_the_plain_formulas(model, engine):
    from npdl.losses import loss_and_accuracy

    trainer = trained(small(model, orders=(2, 3), p=5, threads=2, engine=engine), 20)
    with trainer.engine:
        record = trainer.evaluate()
    for name, examples in (("train", trainer.task.data.train),
                           ("validation", trainer.task.data.validation)):
        out, _ = trainer.model.forward(examples.inputs)
        logits = out[0] if model == "lstm" else out
        loss, accuracy = loss_and_accuracy(logits, examples.targets, examples.eq_positions,
                                           examples.mask)
        assert record[f"{name}_loss"] == pytest.approx(float(loss), rel=1e-5)
        assert record[f"{name}_accuracy"] == pytest.approx(float(accuracy), abs=1e-6)
        parts = [record[f"{name}_loss_order{k}"] * (examples.orders == k).mean() for k in (2, 3)]
        assert sum(parts) == pytest.approx(record[f"{name}_loss"], rel=1e-5)
    assert record["l2_norm"] == pytest.approx(
        np.sqrt(sum((p.data.astype("float64") ** 2).sum() for _, p in trainer.model.params())),
        rel=1e-5)


def test_a_batch_of_the_whole_training_set_is_made_once():
    """So that an engine can keep what it makes of it."""
    task = Trainer(small()).task
    assert task.batch(0) is task.batch(1)
    task = Trainer(small(batch=10)).task
    assert task.batch(0) is not task.batch(1)


def test_a_run_folder_holds_everything(tmp_path, capsys, curves):
    config = small(steps=11)
    assert train(config, tmp_path / "run") == 0
    folder = tmp_path / "run"
    names = {path.name for path in folder.iterdir()}
    assert names == {"config.json", "metrics.jsonl", "checkpoint.npz", "curves.png",
                     "summary.json"}
    records, torn = read_metrics(folder / "metrics.jsonl")
    assert [r["step"] for r in records] == [1, 2, 3, 5, 10, 11] and not torn
    assert set(records[0]) == {"step", "train_loss", "train_accuracy", "validation_loss",
                               "validation_accuracy", "l2_norm", "lr"}
    saved = json.loads((folder / "config.json").read_text())
    assert Config.from_json(saved["config"]) == config
    assert {"npdl", "engine", "python", "numpy", "blas", "kernels", "processor"} <= set(
        saved["versions"])
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["train_loss"] == min(r["train_loss"] for r in records)
    assert "t_f(L_val)" in capsys.readouterr().out
    run = load_run(folder)
    assert run.step == 11 and run.records == records
    assert_same_bytes(run.model.state_dict(), {
        name.removeprefix("param/"): array for name, array in arrays_of(folder).items()
        if name.startswith("param/")})


@pytest.mark.parametrize("engine", slow.but(["fast"], ENGINES))
@pytest.mark.parametrize("model", slow.but(["gpt"], ["gpt", "lstm"]))
def test_resume_drops_later_records_and_makes_them_again(tmp_path, model, engine):
    config = small(model, steps=11, engine=engine)
    train(config, tmp_path / "whole", quiet=True)
    train(config, tmp_path / "cut", quiet=True)
    with open(tmp_path / "cut/metrics.jsonl", "a") as file:
        file.write('{"step": 12, "tr')
    resumed_from(tmp_path / "cut", config, 4)
    assert_same_runs(tmp_path / "whole", tmp_path / "cut")


def script(name, *arguments, **how):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, str(ROOT / "experiments" / f"{name}.py"), *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, **how)


OPTIONS = ("--p", 7, "--width", 16, "--steps", 100, "--eval-first", 5, "--eval-every", 5,
           "--save-every", 3, "--threads", 2)


def wait_for_step(folder, step):
    for _ in range(2400):
        time.sleep(0.02)
        try:
            if checkpoint.load(folder / "checkpoint.npz")[1]["step"] >= step:
                return
        except Exception:
            continue
    raise AssertionError("the run made no progress")


@pytest.mark.slow
@pytest.mark.parametrize("model, engine", [("gpt", "fast"), ("lstm", "plain")])
def test_a_killed_process_resumes_bit_for_bit(tmp_path, model, engine):
    """The scripts themselves; tests.runs.trust.kills has every model with every engine."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    options = (*map(str, OPTIONS), "--engine", engine)
    assert main([f"train-{model}", *options, "--quiet", "--out", str(whole)]) == 0
    process = script(f"train_{model}", *options, "--out", killed)
    wait_for_step(killed, 20)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert main([f"train-{model}", "--resume", "--quiet", "--out", str(killed)]) == 0
    assert_same_runs(whole, killed)


def test_ctrl_c_saves_and_leaves_quietly(tmp_path):
    process = script("train_gpt", *OPTIONS, "--steps", 3000, "--out", tmp_path / "run")
    wait_for_step(tmp_path / "run", 6)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in errors and "--resume" in errors.splitlines()[-1]
    step = checkpoint.load(tmp_path / "run/checkpoint.npz")[1]["step"]
    assert f"step {step} of 3000" in errors
    assert (tmp_path / "run/curves.png").exists()


@every_engine
def test_ctrl_c_in_what_comes_before_the_first_step_saves_too(tmp_path, capsys, engine):
    def number(trainer, stops=False):
        if stops and trainer.step == 0:
            signal.raise_signal(signal.SIGINT)
        return trainer.step

    config = small(steps=9, engine=engine)
    base = {name: param.data for name, param in Trainer(config).model.params()}
    stopped = functools.partial(number, stops=True)
    assert train(config, tmp_path / "run", base=base, metrics={"n": stopped}, quiet=True) == 130
    assert "stopped at step 1 of 9, saved" in capsys.readouterr().err
    assert train(config, tmp_path / "run", True, metrics={"n": number}, quiet=True) == 0
    assert train(config, tmp_path / "whole", base=base, metrics={"n": number}, quiet=True) == 0
    assert_same_runs(tmp_path / "whole", tmp_path / "run")


@every_engine
def test_for_steps_leaves_after_so_many_and_says_how_to_go_on(tmp_path, capsys, engine):
    whole, run = str(tmp_path / "whole"), str(tmp_path / "run")
    options = [*map(str, OPTIONS), "--steps", "11", "--engine", engine, "--quiet"]
    assert main(["train-gpt", *options, "--out", whole]) == 0
    assert main(["train-gpt", *options, "--for-steps", "4", "--out", run]) == 0
    assert capsys.readouterr().err == (f"stopped at step 4 of 11, saved; go on with: --resume "
                                       f"--out {run}\n")
    for step in (9, 11, 11):
        assert main(["train-gpt", "--resume", "--for-steps", "5", "--quiet", "--out", run]) == 0
        assert ("--resume" in capsys.readouterr().err) == (step < 11)
        assert checkpoint.load(f"{run}/checkpoint.npz")[1]["step"] == step
    assert_same_runs(tmp_path / "whole", tmp_path / "run")


@pytest.mark.parametrize("given, rooms", [({}, {"fast", "runs"}),
                                          ({"engine": "plain"}, {"layers", "runs"})])
@every_model
def test_the_wing_runs_by_default_and_the_textbook_where_it_is_asked_for(model, given, rooms):
    trainer, ran = Trainer(Config(model=model, p=5, width=8, heads=2, **given)), set()

    def look(frame, event, argument):
        ran.update(re.findall(r"npdl(?:_train)?/(layers|fast|runs)/", frame.f_code.co_filename))

    with trainer.engine:
        sys.setprofile(look)
        try:
            trainer.update()
        finally:
            sys.setprofile(None)
    assert rooms <= ran and ("fast" in ran) == ("fast" in rooms)


@pytest.mark.parametrize("more, engine", [({"compute": "shared", "threads": 2}, "fast"),
                                          ({"compute": "full"}, "fast"), ({}, "plain")])
@every_model
def test_a_run_that_an_older_npdl_began_loads_and_goes_on_saying_so(
        tmp_path, capsys, model, more, engine):
    train(small(model, steps=4, engine=engine), tmp_path, quiet=True)
    saved = json.loads((tmp_path / "config.json").read_text())
    saved["config"] |= more
    saved["versions"]["npdl"] = "0.1.0"
    (tmp_path / "config.json").write_text(json.dumps(saved))
    run = load_run(tmp_path)
    assert run.step == 4 and len(run.records) == 4
    assert main([f"train-{model}", "--resume", "--steps", "6", "--quiet",
                 "--out", str(tmp_path)]) == 0
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "was begun by npdl 0.1.0" in line and "not to the last bit" in line
    assert load_run(tmp_path).step == 6
    assert Trainer(resumed_config(tmp_path, {})).engine.name == engine


@pytest.mark.parametrize("model, given, clip, init", [
    ("gpt", {}, 1.0, "torch"), ("lstm", {}, 1.0, "torch"),
    ("lstm", {"recipe": "release"}, 1.0, "xavier"), ("gpt", {"recipe": "release"}, 1.0, "torch"),
    ("lstm", {"recipe": "stated"}, None, "torch"), ("gpt", {"recipe": "stated"}, None, "torch"),
    ("lstm", {"recipe": "release", "clip": 0.5}, 0.5, "xavier"),
])
def test_a_recipe_is_one_word(model, given, clip, init):
    config = new_config(model, given)
    assert (config.clip, config.init) == (clip, init)


def test_a_recipe_goes_on_as_what_it_stands_for(tmp_path, capsys):
    tiny = ["--p", "5", "--width", "8", "--quiet", "--out", str(tmp_path)]
    assert main(["train-lstm", *tiny, "--steps", "2", "--recipe", "release"]) == 0
    again = ["--resume", "--quiet", "--out", str(tmp_path)]
    assert main(["train-lstm", *again, "--recipe", "release", "--steps", "3"]) == 0
    assert main(["train-lstm", *again, "--recipe", "stated", "--steps", "4"]) == 2
    assert "has" in capsys.readouterr().err
    assert main(["train-gpt", "--text", "x", "--recipe", "stated"]) == 2
    assert "--recipe: means nothing to a text" in capsys.readouterr().err


@every_engine
def test_a_run_that_diverges_stops_and_keeps_its_last_checkpoint(tmp_path, engine):
    config = small(steps=40, lr=1e30, save_every=1, eval_first=0, eval_every=40, threads=2,
                   engine=engine)
    with pytest.raises(Diverged, match=r"step 2: embedding.W \(and \d+ more\) not finite"):
        train(config, tmp_path / "run", quiet=True)
    assert checkpoint.load(tmp_path / "run/checkpoint.npz")[1]["step"] == 1


def test_without_a_validation_set_only_training_is_recorded(tmp_path):
    train(small(steps=4, r_train=1.0), tmp_path, quiet=True)
    records, _ = read_metrics(tmp_path / "metrics.jsonl")
    assert "validation_loss" not in records[0] and records[-1]["train_loss"] > 0


def test_a_trained_model_answers(tmp_path, capsys):
    from npdl_train.commands import ask

    config = small(steps=200, r_train=1.0, p=5, weight_decay=0.0, lr=1e-2, eval_every=100,
                   save_every=100)
    train(config, tmp_path, quiet=True)
    run = load_run(tmp_path)
    for a, b in ((0, 0), (2, 4), (3, 3)):
        token, probability = ask.answers(run, f"{a} + {b} =")[0]
        assert token == str((a + b) % 5) and probability > 0.9
    assert commands.ask([str(tmp_path), "2 + 4 ="]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[0] == "1"
    assert commands.ask([str(tmp_path), "2 + 4"]) == 2
    assert commands.ask([str(tmp_path), "2 + 9 ="]) == 2


def test_metrics_of_ones_own_stand_beside_the_others(tmp_path):
    def reach(trainer):
        return np.abs(trainer.model.embedding.W.data).max()

    config = small(steps=10)
    metrics = {"reach": reach, "steps_left": lambda trainer: 10 - trainer.step}
    assert train(config, tmp_path / "own", quiet=True, metrics=metrics) == 0
    assert train(config, tmp_path / "plain", quiet=True) == 0
    own, plain = (read_metrics(tmp_path / name / "metrics.jsonl")[0] for name in ("own", "plain"))
    assert [record.pop("steps_left") for record in own] == [9, 8, 7, 5, 0]
    assert own[-1]["reach"] == float(np.abs(load_run(
        tmp_path / "own").model.embedding.W.data).max())
    assert [{k: v for k, v in record.items() if k != "reach"} for record in own] == plain


@pytest.mark.parametrize(("name", "value", "says"), [
    ("lr", 1.0, "metric 'lr': every record has npdl's own; choose another name"),
    ("sizes", [1, 2], "metric 'sizes': has returned list; return a number"),
    ("rows", np.zeros(3), r"metric 'rows': has returned float64 \(3,\); return a number"),
    ("odd", math.nan, "odd is nan"),
])
def test_a_metric_that_no_record_can_hold_is_said(tmp_path, name, value, says):
    with pytest.raises((InputError, Diverged), match=says):
        train(small(steps=3), tmp_path / "run", quiet=True, metrics={name: lambda trainer: value})
