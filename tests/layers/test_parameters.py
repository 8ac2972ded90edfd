"""Frozen and tied parameters, and the numbers of parameters of models.

(The layers of document 004 are counted in exercises/d004's claims.)
"""

import copy
import io

import numpy as np
import pytest

from npdl.adapt import add_lora
from npdl.init import BLANK
from npdl.layers.linear import Linear
from npdl.models.gpt import GPT, GPT2
from npdl.models.llama import Llama
from npdl.models.lstm_lm import LSTMLM


def test_frozen_param_has_no_gradient_array():
    linear = Linear(3, 2)
    linear.set_trainable(False)
    _, cache = linear.forward(np.ones((4, 3), "float32"))
    linear.backward(np.ones((4, 2), "float32"), cache)
    assert not hasattr(linear.W.grad, "shape")
    assert list(linear.params()) == [] and linear.count_params() == 0
    assert set(linear.state_dict()) == {"W", "b"}
    linear.set_trainable(True)
    assert linear.W.grad.shape == (3, 2) and not linear.W.grad.any()


def test_frozen_params_stay_frozen_in_every_copy():
    model = GPT(5, 8, 2, 2, max_len=6)
    add_lora(model, rank=2)
    wanted = [name for name, _ in model.params()]
    for twin in (model.replica(), model.astype("float64"), model.to_backend(),
                 copy.deepcopy(model)):
        assert [name for name, _ in twin.params()] == wanted
        assert twin.state_dict().keys() == model.state_dict().keys()
    assert model.replica().embedding.W.data is model.embedding.W.data


@pytest.mark.parametrize(("make_model", "count"), [
    (lambda: LSTMLM(36, rng=BLANK), 272_420), (lambda: GPT2(rng=BLANK), 124_439_808),
    (lambda: Llama(49_152, rng=BLANK), 134_515_008),                            # SmolLM2-135M
    (lambda: Llama(151_936, 896, 24, 14, 2, 4864, qkv_bias=True, rng=BLANK), 494_032_768),
])
def test_real_models_parameter_counts(make_model, count):
    """(Blank matrices are never written, and so take no memory.)"""
    assert make_model().count_params() == count


def test_summary_counts_add_up():
    model, text = GPT(36), io.StringIO()
    model.summary(file=text)
    lines = text.getvalue().splitlines()
    counts = [int(line.split()[-1].replace(",", "")) for line in lines[1:]]
    assert sum(counts[:-2]) == counts[-2] == 404_516
    assert counts[-1] == 404_516 - 36 * 128
    assert "total" in lines[-2] and "without embeddings" in lines[-1]
    shown = {line.split()[0] for line in lines[1:-2]}
    assert shown == {name for name, _ in model.params()}
