"""experiments/tiny_gpt.py computes what npdl's GPT computes, and learns."""

import re
from pathlib import Path

import numpy as np
import pytest

from experiments import tiny_gpt
from npdl import GPT, SequenceLoss

NAMES = {"tokens": "embedding.W", "positions": "positions.W", "gain": "decoder.norm.gain",
         "bias": "decoder.norm.bias", "classifier": "classifier.W", "gain1": "norm1.gain",
         "bias1": "norm1.bias", "gain2": "norm2.gain", "bias2": "norm2.bias",
         "W_q": "attention.W_Q.W", "W_k": "attention.W_K.W", "W_v": "attention.W_V.W",
         "W_o": "attention.W_O.W", "W_1": "ffn.up.W", "W_2": "ffn.down.W"}


def as_npdl_params(parts):
    """Return the weights (or gradients) of tiny_gpt as {name of npdl's parameter: array}."""
    found = {}
    for i, part in enumerate(parts):
        prefix = f"decoder.blocks.{i - 1}." if i else ""
        for name, array in part.items():
            if name in ("W_q", "W_k", "W_v"):               # (H, D, d) -> (D, H d)
                array = array.swapaxes(0, 1).reshape(tiny_gpt.D, -1)
            if name == "W_o":                               # (H, d, D) -> (H d, D)
                array = array.reshape(-1, tiny_gpt.D)
            found[prefix + NAMES[name]] = array
    return found


def test_loss_and_every_gradient_equal_those_of_npdl():
    rng = np.random.default_rng(3)
    weights = [{name: rng.normal(0, 0.3, shape) for name, shape in shapes.items()}
               for shapes in (tiny_gpt.ENDS, tiny_gpt.BLOCK, tiny_gpt.BLOCK)]
    ids = rng.integers(0, tiny_gpt.V, (5, tiny_gpt.S))
    answers = rng.integers(0, tiny_gpt.V, 5)
    logits, cache = tiny_gpt.gpt(ids, weights)
    loss, dlogits = tiny_gpt.loss_and_gradient(logits, answers)
    found = as_npdl_params(tiny_gpt.gpt_backward(dlogits, weights, cache))

    model = GPT(tiny_gpt.V, tiny_gpt.D, 2, tiny_gpt.H, max_len=tiny_gpt.S, bias=False, norm="pre",
                activation="relu", positions="learned", classifier_bias=False, dtype="float64")
    model.load_state_dict(as_npdl_params(weights))
    expected_logits, cache = model.forward(ids)
    targets = np.zeros_like(ids)
    targets[:, -1] = answers
    last = np.arange(tiny_gpt.S) == np.full((5, 1), tiny_gpt.S - 1)
    loss_layer = SequenceLoss()
    expected_loss, c_loss = loss_layer.forward(expected_logits, targets, last)
    model.backward(loss_layer.backward(1.0, c_loss), cache)

    np.testing.assert_allclose(logits, expected_logits, rtol=0, atol=1e-10)
    np.testing.assert_allclose(loss, expected_loss, rtol=1e-12)
    gradients = {name: param.grad for name, param in model.params()}
    assert gradients.keys() == found.keys()
    for name, gradient in gradients.items():
        np.testing.assert_allclose(found[name], gradient, rtol=0, atol=1e-10, err_msg=name)


@pytest.mark.slow
def test_a_short_training_learns_its_sums(capsys):
    weights, ids, answers = tiny_gpt.train(steps=100)
    right = tiny_gpt.gpt(ids, weights)[0][:, -1].argmax(-1) == answers
    assert right[:97].mean() > 0.95
    assert "step 100  loss" in capsys.readouterr().out


def test_the_file_imports_numpy_alone():
    text = Path(tiny_gpt.__file__).read_text(encoding="utf-8")
    assert re.findall(r"^ *(?:import|from) .*", text, re.M) == ["import numpy as np"]
