"""A new layer needs what CONTRIBUTING.md says: a module, its examples, and a name to export."""

import shutil
import subprocess
import sys

LAYER = '''
from npdl import Cache, Layer, Param
from npdl.init import constant


class Diagonal(Layer):
    def __init__(self, d_model, *, dtype="float32"):
        self.a = Param(constant(2.0, (d_model,), dtype))

    def forward(self, x):
        return self.a.data * x, Cache(x=x)

    def backward(self, dy, cache):
        self.a.grad += (dy * cache.x).reshape(-1, dy.shape[-1]).sum(0)
        return self.a.data * dy
'''
CODE = """
import pytest
from npdl import Diagonal
from npdl.__main__ import main
assert main(["step", "Diagonal"]) == main(["blame", "Diagonal"]) == 0
tests = ["tests/layers/test_gradcheck.py", "tests/layers/test_contract.py"]
assert pytest.main(["-k", "Diagonal", *tests]) == 0
"""


def test_a_new_layer_is_exported_shown_searched_and_tested(tmp_path):
    for name in ("npdl", "tests"):
        shutil.copytree(name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "npdl/layers/diagonal.py").write_text(LAYER)
    for name, line in (("__init__.py", '    "npdl.layers.diagonal": "Diagonal",'), (
            "study/check/examples.py",
            '"Diagonal": (example((2, 3))(3), example((4, 5))(5), example(ONE)(1)),')):
        path = tmp_path / "npdl" / name
        path.write_text(path.read_text().replace("S = {\n", "S = {\n" + line + "\n", 1))
    subprocess.run([sys.executable, "-c", CODE], cwd=tmp_path, check=True)
