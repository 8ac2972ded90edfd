"""`from npdl import LSTM, GPT, AdamW, gradcheck, step, blame`: there, free of charge, anywhere."""

import subprocess
import sys
from pathlib import Path

import pytest

import npdl
from npdl.study.check.samples import find_layer_classes

ROOT = Path(npdl.__file__).parent


def run(code):
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT.parent, text=True,
                          capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_name_is_there_and_every_layer_is_found_by_its_name():
    for name in npdl.__all__:
        value = getattr(npdl, name)
        assert value.__name__ == name and value.__module__ == npdl._MODULES[name]
    assert set(npdl.__all__) <= set(dir(npdl)) and len(npdl.__all__) <= 70
    found = set(find_layer_classes())           # in npdl.layers, models, adapt and losses
    assert {"Linear", "ResetAfterGRUCell", "GPT", "LoRALinear", "CrossEntropy"} <= found
    assert not {"Layer", "Cell", "ChannelNorm"} & found          # abstract ones
    with pytest.raises(AttributeError, match="module 'npdl' has no attribute 'LTSM'"):
        npdl.LTSM  # noqa: B018


def test_what_is_not_used_is_not_imported():
    code = """
import sys, npdl
assert not [m for m in sys.modules if m.startswith("npdl.")] and "numpy" not in sys.modules
from npdl import LSTM
assert "npdl.layers.recurrent" in sys.modules
print(sorted(m for m in sys.modules if m.startswith(("npdl.study", "npdl.models", "npdl.optim"))))
"""
    assert run(code) == "[]\n"
