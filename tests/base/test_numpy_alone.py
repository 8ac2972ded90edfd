"""Without the extra `train`: engine, study tools and trained models work, training says what it
lacks."""

import os
import subprocess
import sys

import pytest

from npdl.training.config import Config
from npdl.training.run import train
from tests.tools import slow

ALONE = """
import sys
for name in ("joblib", "matplotlib", "threadpoolctl", "tqdm"):
    sys.modules[name] = None                # to import it raises ModuleNotFoundError
from npdl.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


def alone(folder, *arguments):
    done = subprocess.run([sys.executable, "-c", ALONE, *arguments], cwd=folder, text=True,
                          capture_output=True, env={**os.environ, "PYTHONPATH": os.getcwd()})
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with two runs: an LSTM, whose BLAS is limited while it generates, and a GPT."""
    folder = tmp_path_factory.mktemp("alone")
    for model in ("lstm", "gpt"):
        train(Config(model=model, p=5, layers=1, width=8, heads=2, steps=2), folder / model,
              quiet=True)
    return folder


@pytest.mark.parametrize("command", slow.but(
    ["generate lstm 1 + 2 =", "ask lstm 1 + 2 =", "blame Linear", "train-gpt --help"], [
        ["generate", "lstm", "1 + 2 ="], ["generate", "gpt", "1 + 2 =", "--tokens", "1"],
        ["ask", "lstm", "1 + 2 ="], ["table", "gpt"], ["step", "LayerNorm"], ["blame", "Linear"],
        ["single", "MLP"], ["homework", "--out", "work", "--layers", "Linear"],
        ["train-gpt", "--help"]], " ".join), ids=" ".join)
def test_what_needs_numpy_alone(folder, command):
    status, out, err = alone(folder, *command)
    assert status == 0 and out and not err, err


@pytest.mark.parametrize("command, missing", [
    (["train-gpt", "--out", "new"], "threadpoolctl tqdm matplotlib"),
    (["finetune", "gpt", "--operator", "-", "--out", "new", "--quiet"],
     "threadpoolctl tqdm matplotlib"),
    (["plot", "curves", "gpt"], "matplotlib")], ids=["train", "finetune", "plot"])
def test_what_needs_more_says_so_in_a_line(folder, command, missing):
    status, out, err = alone(folder, *command)
    assert status == 2 and err.count("\n") == 1 and f"'pip install {missing}'" in err, err
    assert not (folder / "new").exists()
