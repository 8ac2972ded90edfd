"""Initial values of parameters: their sizes, and the first loss."""

import math

import numpy as np
import pytest

from npdl.losses import CrossEntropy
from npdl.models.gpt import GPT
from npdl.models.lstm_lm import LSTMLM
from npdl.train.initialise import initialise

V, L, D = 50, 3, 64


def initialise_new_gpt(init, **options):
    model = GPT(V, D, L, 4, max_len=16, norm="pre", positions="learned", padding_id=7, rng=0,
                **options)
    initialise(model, init, np.random.default_rng(1))
    return model


@pytest.mark.parametrize("init", ["gpt2", "lecun"])
@pytest.mark.parametrize("tied", [True, False])
def test_parameter_sizes_and_first_loss_of_initialised_gpt(init, tied):
    model, residual = initialise_new_gpt(init, tied=tied), 0
    for name, param in model.params():
        is_table = name in ("embedding.W", "positions.W")
        std = 0.02 if init == "gpt2" or is_table else 1 / math.sqrt(param.data.shape[0])
        if name.endswith(("W_O.W", "ffn.down.W")):
            residual += 1
            assert param.data.std() == pytest.approx(std / math.sqrt(2 * L), rel=0.05), name
        elif param.data.ndim == 2:
            assert param.data.std() == pytest.approx(std, rel=0.1), name
        else:
            assert (param.data == (1 if name.endswith("gain") else 0)).all(), name
        assert param.data.dtype == np.float32
    assert residual == 2 * L and not model.embedding.W.data[7].any()
    ids = np.random.default_rng(2).integers(0, V, (8, 17))
    loss, _ = CrossEntropy().forward(model.forward(ids[:, :-1])[0], ids[:, 1:])
    wide = 0.5 if init == "lecun" and not tied else 0       # logits of variance 1 add 1/2
    assert float(loss) == pytest.approx(math.log(V) + wide, abs=0.15 if wide else 0.1)


def test_torch_initialisation_keeps_layer_values():
    model = initialise_new_gpt("torch")
    other = GPT(V, D, L, 4, max_len=16, norm="pre", positions="learned", padding_id=7, rng=0)
    for (name, a), (_, b) in zip(model.params(), other.params(), strict=True):
        np.testing.assert_array_equal(a.data, b.data, err_msg=name)


def test_xavier_gates_are_uniform_with_zero_biases():
    for bias in (True, False):
        model = LSTMLM(V, D, 2, bias=bias)
        before = model.state_dict()
        initialise(model, "xavier", np.random.default_rng(1))
        for name, param in model.params():
            if name.startswith("lstm.") and name.endswith(".b"):
                assert not param.data.any()
            elif name.startswith("lstm."):
                assert abs(param.data).max() == pytest.approx(math.sqrt(6 / (3 * D)), rel=0.01)
            else:
                np.testing.assert_array_equal(param.data, before[name])
