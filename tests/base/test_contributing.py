"""CONTRIBUTING.md's way, gone in a copy of the repository: RMSNorm with a bias is added."""

import inspect
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from npdl.layers.layer_norm import RMSNorm

ROOT = Path(__file__).parents[2]
PAGE, NAMES = "npdl/layers/layer_norm.py", "npdl/__init__.py"
ROW = "npdl_study/check/examples.py"
WRITTEN = {"docs/generated/gradients.md", "docs/generated/mutation.md"}
WITHOUT_TORCH = "import sys; sys.modules['torch'] = None; "


def source():
    """A layer's page: RMSNorm's, with a bias."""
    page = inspect.getsource(RMSNorm).replace("RMSNorm", "ShiftedRMSNorm")
    for line, more in (
            ("        self.eps = eps", "        self.bias = Param(xp.zeros(d_model, dtype))\n{}"),
            ("        y = self.gain.data * x_hat", "{} + self.bias.data"),
            ("        dx_hat = dy * self.gain.data", "        self.bias.grad += sum_rows(dy)\n{}")):
        assert page.count(line) == 1
        page = page.replace(line, more.format(line))
    return page


def changed(copy, file, old, new):
    text = (copy / file).read_text(encoding="utf-8")
    assert old in text
    (copy / file).write_text(text.replace(old, new, 1), encoding="utf-8")


def run(copy, *words):
    return subprocess.run([sys.executable, *words], cwd=copy, capture_output=True, text=True)


@pytest.mark.slow
def test_a_layer_is_added_in_five_files(tmp_path):
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True,
                             check=True).stdout.split()
    for file in tracked:
        if not file.startswith("experiments/results"):
            (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file, tmp_path / file)
    changed(tmp_path, PAGE, "class RMSNorm", source() + "\n\nclass RMSNorm")
    changed(tmp_path, NAMES, "LayerNorm RMSNorm", "LayerNorm RMSNorm ShiftedRMSNorm")
    tests = ("-m", "pytest", "-q", "-k", "ShiftedRMSNorm", "tests/layers")
    lacking = run(tmp_path, *tests).stdout
    assert "ShiftedRMSNorm: its row of EXAMPLES in npdl_study/check/examples.py" in lacking
    assert "StopIteration" not in lacking and "1 failed" in lacking, lacking
    changed(tmp_path, ROW, '    "RMSNorm": NORM,\n',
            '    "RMSNorm": NORM,\n    "ShiftedRMSNorm": NORM,\n')
    written = run(tmp_path, "-c", WITHOUT_TORCH + "from tests.tools.pages import main; main([])")
    assert written.returncode == 0, written.stderr
    passed = run(tmp_path, *tests)
    assert passed.returncode == 0, passed.stdout
    touched = {file for file in tracked if (tmp_path / file).exists()
               and (tmp_path / file).read_bytes() != (ROOT / file).read_bytes()}
    assert touched == {PAGE, NAMES, ROW, *WRITTEN}
    for page in WRITTEN:                                # no row of another layer is another
        kept, now = (set((root / page).read_text("utf-8").splitlines())
                     for root in (ROOT, tmp_path))
        assert sum(line.startswith("| ShiftedRMSNorm ") for line in now - kept) == 1
        assert all(line.startswith("| all ") or line.endswith(" functions")
                   for line in kept - now), kept - now
