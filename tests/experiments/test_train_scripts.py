"""The training scripts make the same run as train(). Stopping, resuming, options, output."""

import signal
import subprocess
import sys

import pytest

from experiments import train_gpt
from npdl.train import checkpoint
from npdl.train.config import Config
from npdl.train.metrics import read_records
from npdl.train.run import load_run, train
from tests.tools import commands
from tests.tools.processes import ROOT, start, wait_for_step
from tests.tools.refusals import check_refused
from tests.tools.trained import assert_same_runs

SCRIPTS = {"gpt": commands.train_gpt, "lstm": commands.train_lstm}
SETTINGS = {"p": 5, "width": 8, "layers": 1, "steps": 11, "eval_first": 3, "eval_every": 5,
            "save_every": 4, "threads": 1, "engine": "plain", "target": "numpy"}


def as_options(settings):
    return [str(word) for name, value in settings.items()
            for word in (f"--{name.replace('_', '-')}", value)]


OPTIONS = as_options(SETTINGS)


@pytest.mark.parametrize("model, engine, more", [
    ("gpt", "plain", {"dtype": "float64"}), ("lstm", "plain", {"dropout": 0.2}), pytest.param(
        "gpt", "recorded", {"schedule": "cosine", "threads": 2}, marks=pytest.mark.slow)])
def test_a_script_in_parts_is_bitwise_identical_to_train(tmp_path, capsys, model, engine, more):
    settings, run = {**SETTINGS, "engine": engine, **more}, str(tmp_path / "run")
    assert train(Config(model=model, **settings), tmp_path / "whole", quiet=True) == 0
    assert SCRIPTS[model]([*as_options(settings), "--quiet", "--for-steps", "4", "--out", run]) == 0
    assert capsys.readouterr().err == (f"stopped at step 4 of 11, saved; resume it with: --resume "
                                       f"--out {run}\n")
    for step in (9, 11, 11):
        assert SCRIPTS[model](["--resume", "--for-steps", "5", "--quiet", "--out", run]) == 0
        assert ("--resume" in capsys.readouterr().err) == (step < 11)
        assert checkpoint.load(f"{run}/checkpoint.npz")[1]["step"] == step
    assert_same_runs(tmp_path / "whole", tmp_path / "run")


def test_ctrl_c_saves_and_leaves_without_a_traceback(tmp_path):
    # A shell's background process, as in CI, ignores SIGINT; a terminal's doesn't.
    process = start("train_gpt", *OPTIONS, "--steps", 3000, "--out", tmp_path / "run",
                    preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    wait_for_step(process, tmp_path / "run", 5)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in errors and "--resume" in errors.splitlines()[-1]
    step = checkpoint.load(tmp_path / "run/checkpoint.npz")[1]["step"]
    assert f"step {step} of 3000" in errors


def test_ctrl_c_before_the_run_begins_says_that_nothing_is_saved(tmp_path, capsys, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(train_gpt, "make_task", interrupted)
    assert commands.train_gpt([*OPTIONS, "--out", str(tmp_path / "run")]) == 130
    assert capsys.readouterr().err == "interrupted before the run began; nothing is saved\n"


def test_each_evaluation_is_a_line_and_a_table_ends_the_run(tmp_path, capsys):
    assert commands.train_gpt([*OPTIONS, "--out", str(tmp_path / "run")]) == 0
    shown = capsys.readouterr()
    lines = shown.err.splitlines()
    assert [line.split()[:2] for line in lines] == [["step", f"{step}/11"]
                                                    for step in (1, 2, 3, 5, 10, 11)]
    last = read_records(tmp_path / "run" / "metrics.jsonl")[-1]
    assert f"train {last['train_loss']:.2e} {last['train_accuracy']:7.2%}" in lines[-1]
    assert "t_f(A_val)" in shown.out and "11 steps in" in shown.out


@pytest.mark.parametrize("model", SCRIPTS)
def test_a_text_ends_with_loss_perplexity_a_sample_and_the_command_for_more(
        tmp_path, capsys, model):
    (tmp_path / "play.txt").write_text("to be or not to be that is the question\n" * 30)
    run = str(tmp_path / "run")
    assert SCRIPTS[model](["--text", str(tmp_path / "play.txt"), "--width", "16", "--layers", "1",
                           "--block", "8", "--steps", "2", "--engine", "plain", "--out", run]) == 0
    shown = capsys.readouterr().out
    loss = load_run(run).records[-1]["validation_loss"]
    assert f"validation loss {loss:.4f} (perplexity " in shown and "t_f" not in shown
    sample = shown.partition("A sample:\n\n")[2].partition("\n\n")[0].splitlines()
    assert 1 <= len(sample) <= 5 and all(set(line) <= set("to be rnhaisqu") for line in sample)
    assert f'python -m npdl generate {run} "A prompt" --method sample' in shown


def test_the_help_needs_no_docstrings():
    done = subprocess.run([sys.executable, "-OO", ROOT / "experiments" / "train_gpt.py", "--help"],
                          env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr
    assert done.stdout.startswith("usage: train_gpt.py ")


def test_a_taken_folder_and_a_file_are_refused(tmp_path, capsys):
    train(Config(**SETTINGS), tmp_path / "run", quiet=True)
    check_refused(commands.train_gpt, ["--out", str(tmp_path / "run"), "--steps", "5"],
                  "continue it by --resume", capsys)
    (tmp_path / "file").write_text("")
    check_refused(commands.train_gpt, ["--out", str(tmp_path / "file/run"), "--steps", "5"],
                  "cannot be created", capsys)
