"""Compare every layer that PyTorch has with PyTorch's: outputs and gradients, in float64."""

import pytest

from tests.tools.running import npdl_layers

torch = pytest.importorskip("torch", reason="parity with PyTorch needs torch")

from tests.layers.torch_compare import differences
from tests.layers.torch_table import LIMIT, PAIRS, WITHOUT


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_outputs_and_gradients_are_torchs(pair):
    for seed in range(3):
        found = differences(pair, seed)
        assert any(name.startswith("output") for name in found)
        assert max(found.values()) < LIMIT, found


def test_every_layer_is_compared_or_has_a_reason():
    compared = {pair.layer_class.__name__ for pair in PAIRS}
    names = {cls.__name__ for cls in npdl_layers()}
    assert compared | WITHOUT.keys() == names, (compared | WITHOUT.keys()) ^ names
    assert not compared & WITHOUT.keys()


def test_every_parameter_and_input_is_compared():
    state, deep = (next(p for p in PAIRS if str(p) == f"LSTMLM: {what}")
                   for what in ("state", "another"))
    assert {"output 0", "output 1.0", "output 1.1", "input 1.0", "input 1.1", "embedding.W",
            "lstm.layers.0.cell.b", "classifier.b"} <= differences(state, 0).keys()
    assert "lstm.layers.1.cell.b" in differences(deep, 0)


def test_a_wrong_gradient_shows(monkeypatch):
    pair = next(p for p in PAIRS if str(p) == "Linear: a sample")
    right = pair.layer_class.backward
    monkeypatch.setattr(pair.layer_class, "backward", lambda *a: right(*a) * (1 + 1e-6))
    assert differences(pair, 0)["input 0"] > LIMIT
