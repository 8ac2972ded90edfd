"""Without the extra `train`: engine, study tools and trained models work, training says what it
lacks."""

import os
import subprocess
import sys

import pytest

from npdl.train.config import Config
from npdl.train.run import train
from tests.tools import slow

ALONE = """
import sys
from runpy import run_module
for name in ("joblib", "matplotlib", "threadpoolctl", "tqdm"):
    sys.modules[name] = None                # to import it raises ModuleNotFoundError
del sys.argv[0]
run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def alone(folder, *arguments, module="npdl"):
    done = subprocess.run([sys.executable, "-c", ALONE, module, *arguments], cwd=folder, text=True,
                          capture_output=True, env={**os.environ, "PYTHONPATH": os.getcwd()})
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with two runs: an LSTM, whose BLAS is limited while it generates, and a GPT."""
    folder = tmp_path_factory.mktemp("alone")
    for model in ("lstm", "gpt"):
        train(Config(model=model, engine="plain", p=5, layers=1, width=8, heads=2, steps=2),
              folder / model, quiet=True)
    return folder


@pytest.mark.parametrize("command", slow.but(
    ["ask lstm 1 + 2 =", "blame Linear"], [
        ["generate", "lstm", "1 + 2 ="], ["generate", "gpt", "1 + 2 =", "--tokens", "1"],
        ["ask", "lstm", "1 + 2 ="], ["table", "gpt"], ["step", "LayerNorm"], ["blame", "Linear"],
        ["homework", "--out", "work", "--layers", "Linear"]], " ".join), ids=" ".join)
def test_what_needs_numpy_alone(folder, command):
    status, out, err = alone(folder, *command)
    assert status == 0 and out and not err, err


ALL = "joblib matplotlib threadpoolctl tqdm"


@pytest.mark.parametrize("command", [
    ["plot", "curves", "gpt"],
    ["finetune", "gpt", "--operator", "-", "--out", "new", "--quiet"]], ids=lambda c: c[0])
def test_what_needs_more_says_so_in_a_line(folder, command):
    status, out, err = alone(folder, *command)
    assert status == 2 and err.count("\n") == 1 and f"'pip install {ALL}'" in err, err
    assert not (folder / "new").exists()


def test_the_exercises_need_numpy_alone(tmp_path):
    status, out, err = alone(tmp_path, "002.6a", module="exercises")
    assert status == 0 and "Answer: " in out and not err, err


def test_what_is_not_of_npdl_says_so_too(tmp_path):
    status, out, err = alone(tmp_path, "--list", module="experiments.study")
    assert (status, out) == (2, "") and err.count("\n") == 1 and f"'pip install {ALL}'" in err, err
