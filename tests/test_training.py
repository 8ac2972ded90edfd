"""Training: exact resume, stopping, shards, evaluation, the files of a run."""

import functools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from npdl.errors import InputError
from npdl.training import checkpoint
from npdl.training.config import Config
from npdl.training.loop import Diverged, Trainer
from npdl.training.metrics import read_metrics
from npdl.training.run import load_run, resumed_config, train
from npdl.training.task import counted_positions
from tests.refusals import check_refused

ROOT = Path(__file__).parent.parent
SMALL = {"p": 7, "width": 16, "heads": 2, "eval_first": 3, "eval_every": 5, "save_every": 4}


def small(model="gpt", **settings):
    return Config(model=model, **{**SMALL, **settings})


def trained(config, steps):
    trainer = Trainer(config)
    with trainer.workers:
        for _ in range(steps):
            trainer.update()
    return trainer


def arrays_of(folder):
    return checkpoint.load(folder / "checkpoint.npz")[0]


def assert_same_bytes(one, other):
    assert one.keys() == other.keys()
    for name in one:
        assert one[name].tobytes() == other[name].tobytes(), name


@pytest.mark.parametrize("model", ["gpt", "lstm"])
@pytest.mark.parametrize("settings", [{}, {"dropout": 0.2, "compute": "needed"}, {"batch": 10},
                                      {"threads": 2}, {"schedule": "cosine", "clip": 0.5},
                                      {"optimizer": "sgd", "momentum": 0.9}])
def test_a_resumed_trainer_goes_on_bit_for_bit(model, settings):
    config = small(model, steps=12, **settings)
    unbroken = trained(config, 12)
    first = trained(config, 5)
    second = Trainer(config)
    second.load_state(*first.state())
    with second.workers:
        for _ in range(7):
            second.update()
    assert_same_bytes(unbroken.state()[0], second.state()[0])


@pytest.mark.parametrize("model", ["gpt", "lstm"])
@pytest.mark.parametrize("settings", [{}, {"orders": (2, 3), "p": 5}])
def test_every_amount_of_computing_gives_the_same_gradients(model, settings):
    flats = {}
    for compute in ("full", "needed", "shared"):
        for threads in (1, 2, 3):
            config = small(model, dtype="float64", compute=compute, threads=threads, **settings)
            trainer = Trainer(config)
            trainer.optimizer.update = lambda *part: None       # keep the gradients as they are
            with trainer.workers:
                trainer.update()
            flats[compute, threads] = trainer.optimizer.flat.grad.copy()
    reference = flats["full", 1]
    assert np.abs(reference).max() > 1e-3
    for flat in flats.values():
        np.testing.assert_allclose(flat, reference, rtol=0, atol=1e-13)


def test_more_threads_than_samples_work():
    trainer = trained(small(p=2, r_train=0.5, threads=5), 2)     # two equations to train on
    assert np.isfinite(trainer.optimizer.flat.data).all()


def test_evaluation_agrees_with_the_plain_formulas():
    from npdl.losses import loss_and_accuracy

    for model in ("gpt", "lstm"):
        trainer = trained(small(model, orders=(2, 3), p=5, threads=2), 20)
        with trainer.workers:
            record = trainer.evaluate()
        for name, examples in (("train", trainer.task.data.train),
                               ("validation", trainer.task.data.validation)):
            logits = trainer.model.forward(examples.inputs)[0].logits
            loss, accuracy = loss_and_accuracy(logits, examples.targets, examples.eq_positions,
                                               examples.mask)
            assert record[f"{name}_loss"] == pytest.approx(float(loss), rel=1e-5)
            assert record[f"{name}_accuracy"] == pytest.approx(float(accuracy), abs=1e-6)
            parts = [record[f"{name}_loss_order{k}"] * (examples.orders == k).mean()
                     for k in (2, 3)]
            assert sum(parts) == pytest.approx(record[f"{name}_loss"], rel=1e-5)
        assert record["l2_norm"] == pytest.approx(
            np.sqrt(sum((p.data.astype("float64") ** 2).sum() for _, p in trainer.model.params())),
            rel=1e-5,
        )


def test_counted_positions_fill_short_rows_with_positions_that_do_not_count():
    counted = np.array([[0, 1, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]], bool)
    at, counts = counted_positions(counted)
    assert at.shape == counts.shape == (3, 2)
    assert at[0].tolist() == [1, 2] and counts[0].tolist() == [True, True]
    assert at[1, 0] == 3 and counts[1].tolist() == [True, False]
    assert not counts[2].any()


def test_a_run_folder_holds_everything(tmp_path, capsys):
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
    assert {"npdl", "python", "numpy", "blas"} <= saved["versions"].keys()
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["train_loss"] == min(r["train_loss"] for r in records)
    assert "t_f(L_val)" in capsys.readouterr().out
    run = load_run(folder)
    assert run.step == 11 and run.records == records
    assert_same_bytes(run.model.state_dict(), {
        name.removeprefix("param/"): array for name, array in arrays_of(folder).items()
        if name.startswith("param/")})


def test_resume_drops_later_records_and_makes_them_again(tmp_path):
    config = small(steps=11)
    train(config, tmp_path / "whole", quiet=True)
    train(config, tmp_path / "cut", quiet=True)
    shorter = trained(config, 4)
    arrays, meta = shorter.state()
    checkpoint.save(tmp_path / "cut/checkpoint.npz", arrays, {**meta, "seconds": 1.0})
    with open(tmp_path / "cut/metrics.jsonl", "a") as file:
        file.write('{"step": 12, "tr')
    train(config, tmp_path / "cut", resume=True, quiet=True)
    for name in ("metrics.jsonl",):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert_same_bytes(arrays_of(tmp_path / "cut"), arrays_of(tmp_path / "whole"))


def script(name, *arguments, **how):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, str(ROOT / "experiments" / f"{name}.py"), *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, **how)


OPTIONS = ("--p", 7, "--width", 16, "--steps", 400, "--eval-first", 5, "--eval-every", 5,
           "--save-every", 3, "--threads", 1)


def wait_for_step(folder, step):
    for _ in range(600):
        time.sleep(0.05)
        try:
            if checkpoint.load(folder / "checkpoint.npz")[1]["step"] >= step:
                return
        except Exception:
            continue
    raise AssertionError("the run made no progress")


@pytest.mark.parametrize("model", ["gpt", "lstm"])
def test_a_killed_process_resumes_bit_for_bit(tmp_path, model):
    name = f"train_{model}"
    whole = script(name, *OPTIONS, "--out", tmp_path / "whole")
    assert whole.communicate()[1] is not None and whole.returncode == 0
    for step in (20, 60):
        first = script(name, *(OPTIONS if step == 20 else ("--resume",)),
                       "--out", tmp_path / "killed")
        wait_for_step(tmp_path / "killed", step)
        first.send_signal(signal.SIGKILL)
        first.communicate()
        assert first.returncode == -signal.SIGKILL
    last = script(name, "--resume", "--out", tmp_path / "killed")
    _, errors = last.communicate()
    assert last.returncode == 0, errors
    assert_same_bytes(arrays_of(tmp_path / "whole"), arrays_of(tmp_path / "killed"))
    assert (tmp_path / "whole/metrics.jsonl").read_bytes() == \
        (tmp_path / "killed/metrics.jsonl").read_bytes()


def test_ctrl_c_saves_and_leaves_quietly(tmp_path):
    process = script("train_gpt", *OPTIONS[:-2], "--threads", 2, "--out", tmp_path / "run")
    wait_for_step(tmp_path / "run", 6)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in errors and "--resume" in errors.splitlines()[-1]
    step = checkpoint.load(tmp_path / "run/checkpoint.npz")[1]["step"]
    assert f"step {step} of 400" in errors
    assert (tmp_path / "run/curves.png").exists()


BAD = [
    (("--p", 1), "p"),
    (("--width", -4), "--width"),
    (("--width", 30), "--heads 4 does not divide --width 30"),
    (("--r-train", 0), "r_train"),
    (("--r-train", 1.5), "r_train"),
    (("--r-train", "nan"), "r_train"),
    (("--operator", "^"), "operator"),
    (("--operator", "/", "--p", 12), "prime"),
    (("--orders", "4"), "orders"),
    (("--steps", "many"), "--steps"),
    (("--steps", 0), "--steps"),
    (("--lr", "nan"), "--lr"),
    (("--lr", -1), "--lr"),
    (("--dropout", 1), "--dropout"),
    (("--dropout", 0.1, "--compute", "shared"), "--compute"),
    (("--norm", "both"), "--norm"),
    (("--activation", "swish"), "--activation"),
    (("--betas", 1, 2), "betas"),
    (("--clip", 0), "--clip"),
    (("--schedule", "cosine", "--warmup", 20001), "warmup"),
    (("--nonsense",), "--nonsense"),
    (("--seed", -1), "--seed"),
    (("--resume",), "config.json"),
]


@pytest.mark.parametrize("arguments, mentioned", BAD)
def test_bad_options_are_one_line_and_status_2(tmp_path, capsys, arguments, mentioned):
    from npdl.training.cli import main

    folder = tmp_path / "run"
    check_refused(functools.partial(main, "gpt", ""),
                  [*map(str, arguments), "--out", str(folder)], mentioned, folder, capsys)


def test_cupy_that_is_missing_is_one_line_and_status_2(tmp_path):
    try:
        import cupy  # noqa: F401
    except ImportError:
        pass
    else:
        pytest.skip("CuPy is installed here")
    process = script("train_gpt", "--backend", "cupy", "--out", tmp_path / "run")
    _, errors = process.communicate()
    assert process.returncode == 2
    assert len(errors.strip().splitlines()) == 1 and "CuPy is not installed" in errors


def test_a_folder_with_a_run_or_without_permission_is_refused(tmp_path, capsys):
    from npdl.training.cli import main

    train(small(steps=4), tmp_path / "run", quiet=True)
    before = arrays_of(tmp_path / "run")
    assert main("gpt", "", ["--out", str(tmp_path / "run"), "--steps", "5"]) == 2
    assert "--resume" in capsys.readouterr().err
    assert_same_bytes(before, arrays_of(tmp_path / "run"))
    (tmp_path / "file").write_text("")
    assert main("gpt", "", ["--out", str(tmp_path / "file/run"), "--steps", "5"]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_resume_with_other_settings_is_refused(tmp_path):
    train(small(steps=4), tmp_path, quiet=True)
    with pytest.raises(InputError, match="--lr 0.5"):
        resumed_config(tmp_path, {"lr": 0.5})
    with pytest.raises(InputError, match="--steps 3"):
        resumed_config(tmp_path, {"steps": 3})
    assert resumed_config(tmp_path, {"steps": 6, "p": 7}).steps == 6


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "other model"])
def test_a_damaged_checkpoint_is_one_line(tmp_path, capsys, damage):
    from npdl.training.cli import main

    train(small(steps=4), tmp_path / "run", quiet=True)
    path = tmp_path / "run/checkpoint.npz"
    content = bytearray(path.read_bytes())
    if damage == "flip":
        content[len(content) // 2] ^= 4
    if damage == "other model":
        train(small("lstm", steps=4), tmp_path / "other", quiet=True)
        content = (tmp_path / "other/checkpoint.npz").read_bytes()
    path.write_bytes(content[: {"cut": -100, "empty": 0}.get(damage, len(content))])
    assert main("gpt", "", ["--resume", "--out", str(tmp_path / "run")]) == 2
    errors = capsys.readouterr().err.strip()
    assert len(errors.splitlines()) == 1 and "checkpoint.npz" in errors


def test_a_run_that_diverges_stops_and_keeps_its_last_checkpoint(tmp_path):
    config = small(steps=40, lr=1e30, save_every=1, eval_first=0, eval_every=40, threads=2)
    with pytest.raises(Diverged, match=r"step 2: embedding.W \(and \d+ more\) not finite"):
        train(config, tmp_path / "run", quiet=True)
    assert checkpoint.load(tmp_path / "run/checkpoint.npz")[1]["step"] == 1


def test_without_a_validation_set_only_training_is_recorded(tmp_path):
    train(small(steps=4, r_train=1.0), tmp_path, quiet=True)
    records, _ = read_metrics(tmp_path / "metrics.jsonl")
    assert "validation_loss" not in records[0] and records[-1]["train_loss"] > 0


def test_a_trained_model_answers(tmp_path, capsys):
    sys.path.insert(0, str(ROOT / "experiments"))
    import ask

    config = small(steps=400, r_train=1.0, p=5, weight_decay=0.0)
    train(config, tmp_path, quiet=True)
    run = load_run(tmp_path)
    for a, b in ((0, 0), (2, 4), (3, 3)):
        token, probability = ask.answers(run, f"{a} + {b} =")[0]
        assert token == str((a + b) % 5) and probability > 0.9
    assert ask.main([str(tmp_path), "2 + 4 ="]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[0] == "1"
    assert ask.main([str(tmp_path), "2 + 4"]) == 2
    assert ask.main([str(tmp_path), "2 + 9 ="]) == 2
