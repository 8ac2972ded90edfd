"""CONTRIBUTING's steps, followed in a copy of the repository: an RMSNorm with a bias is added."""

import inspect
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from npdl.layers.layer_norm import RMSNorm

ROOT = Path(__file__).parents[2]
MODULE = "npdl/layers/layer_norm.py"
EXAMPLES = "npdl/study/check/examples.py"
TESTS = ("-m", "pytest", "-q", "-k", "BiasedRMSNorm", "tests/layers")


def new_layer():
    """Return the source of RMSNorm with a bias."""
    source = inspect.getsource(RMSNorm).replace("RMSNorm", "BiasedRMSNorm")
    for line, replacement in (
            ("        self.eps = eps", "        self.bias = Param(xp.zeros(d_model, dtype))\n{}"),
            ("        y = self.gain.data * x_hat", "{} + self.bias.data"),
            ("        dx_hat = dy * self.gain.data", "        self.bias.grad += sum_rows(dy)\n{}")):
        assert source.count(line) == 1
        source = source.replace(line, replacement.format(line))
    return source


def replace(copy, file, old, new):
    text = (copy / file).read_text(encoding="utf-8")
    assert old in text
    (copy / file).write_text(text.replace(old, new, 1), encoding="utf-8")


def run(copy, *words):
    # A new layer need not be compared with PyTorch.
    env = {name: value for name, value in os.environ.items() if name != "NPDL_REQUIRE_TORCH"}
    return subprocess.run([sys.executable, *words], cwd=copy, env=env, capture_output=True,
                          text=True)


@pytest.mark.slow
def test_a_layer_is_added_in_two_files(tmp_path):
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True,
                             check=True).stdout.split()
    for file in tracked:
        if not file.startswith(("experiments/results", "docs/gallery")):
            (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file, tmp_path / file)
    replace(tmp_path, MODULE, "class RMSNorm", new_layer() + "\n\nclass RMSNorm")
    without_example = run(tmp_path, *TESTS).stdout
    assert f"BiasedRMSNorm has 0 examples in EXAMPLES of {EXAMPLES}" in without_example
    assert "1 failed" in without_example, without_example
    replace(tmp_path, EXAMPLES, '    "RMSNorm": NORM,\n',
            '    "RMSNorm": NORM,\n    "BiasedRMSNorm": NORM,\n')
    passed = run(tmp_path, *TESTS)
    assert passed.returncode == 0, passed.stdout
