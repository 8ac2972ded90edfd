"""With NumPy alone, or in a browser, npdl works, and training says which packages are missing."""

import os
import subprocess
import sys

import pytest

from npdl.train.config import Config
from npdl.train.run import train
from tests.base.test_readme import find_code_block
from tests.tools import slow

ALONE = """
import sys
from runpy import run_module
for name in ("joblib", "matplotlib", "threadpoolctl", "tqdm"):
    sys.modules[name] = None                # an import raises ModuleNotFoundError
del sys.argv[0]
run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
# A browser (Pyodide, JupyterLite) has no processes, threads, signals or file locks either.
BROWSER = """
import sys
import numpy, numpy.random, sysconfig           # before `threading` is removed
for name in ("_posixsubprocess", "_multiprocessing", "concurrent", "fcntl", "joblib", "matplotlib",
             "multiprocessing", "resource", "signal", "_signal", "subprocess", "threading",
             "threadpoolctl", "tqdm"):
    for loaded in [*sys.modules]:               # modules that NumPy has imported
        if loaded.split(".")[0] == name:
            del sys.modules[loaded]
    sys.modules[name] = None

exec(sys.argv[1])
assert loss < 0.1

from npdl import LSTMCell, blame, gradcheck, step
from npdl.study.check.samples import make_example_call
from npdl.study.mine import MyLayer

layer, inputs, options = make_example_call(LSTMCell)
assert gradcheck(layer, *inputs, **options).ok()
walk = step(layer, *inputs, **options)
walk.show()
walk.to_html("walk.html")
assert all(row.right for row in walk.finals) and "<iframe" in walk._repr_html_()


class Wrong(MyLayer):
    def backward(self, dy, cache):
        dx = super().backward(dy, cache)
        self.b.grad -= 2 * dy.sum(0)
        return dx


layer, x = Wrong.sample()
assert blame(layer, x).right is False
"""
ALL = "joblib matplotlib threadpoolctl tqdm"


def run_program(program, folder, *arguments):
    """Return a program's exit status, output and errors."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", program, *arguments], cwd=folder,
                          text=True, capture_output=True, timeout=300,
                          env={**os.environ, "PYTHONPATH": os.getcwd()})
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with two runs: an LSTM, which limits BLAS to one thread, and a GPT."""
    folder = tmp_path_factory.mktemp("alone")
    for model in ("lstm", "gpt"):
        train(Config(model=model, engine="plain", p=5, layers=1, width=8, heads=2, steps=2),
              folder / model, quiet=True)
    return folder


@pytest.mark.parametrize("command", slow.mark_except(
    ["npdl ask lstm 1 + 2 =", "exercises 002.6a"], [["exercises", "002.6a"], *(
        ["npdl", *words] for words in (
            ["generate", "lstm", "1 + 2 ="], ["generate", "gpt", "1 + 2 =", "--tokens", "1"],
            ["ask", "lstm", "1 + 2 ="], ["table", "gpt"], ["step", "LayerNorm"],
            ["blame", "Linear"], ["homework", "--out", "work", "--layers", "Linear"]))],
    " ".join), ids=" ".join)
def test_commands_that_need_numpy_alone(folder, command):
    status, out, err = run_program(ALONE, folder, *command)
    assert status == 0 and out and not err, err


@pytest.mark.parametrize("command", [
    ["npdl", "plot", "curves", "gpt"], ["experiments.study", "--list"],
    ["npdl", "finetune", "gpt", "--operator", "-", "--out", "new", "--quiet"]], ids=" ".join)
def test_a_missing_package_is_one_line(folder, command):
    status, _, err = run_program(ALONE, folder, *command)
    assert status == 2 and err.count("\n") == 1 and f"'pip install {ALL}'" in err, err
    assert not (folder / "new").exists()


def test_everything_runs_in_a_browser(tmp_path):
    training = find_code_block("optimizer.step()").replace("BLASThreads, ", "").replace(
        "with BLASThreads(1):", "if True:")                 # a browser has no threads
    status, _, err = run_program(BROWSER, tmp_path, training)
    assert status == 0, err
