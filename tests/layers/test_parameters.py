"""Parameters: frozen and tied ones, and how many models have.

(The layers of document 004 are counted in exercises/d004's claims.)
"""

import copy
import io

import numpy as np
import pytest

from npdl.adapt import add_lora
from npdl.adapt.linears import LoRALinear, QuantLinear
from npdl.core import Cache, Param, embedding_names
from npdl.init import BLANK
from npdl.layers import embedding
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


def test_copies_keep_shared_parameters():
    model = GPT(5, 8, 2, 2, max_len=6, tied=True)
    model.decoder.blocks[1].ffn = model.decoder.blocks[0].ffn
    for twin in (model.replica(), model.astype("float64"), model.to_backend()):
        assert [name for name, _ in twin.params()] == [name for name, _ in model.params()]
        assert twin.classifier.W is twin.embedding.W
        assert twin.decoder.blocks[1].ffn is twin.decoder.blocks[0].ffn


def test_never_trainable_params_stay_frozen():
    layer = LoRALinear(Linear(4, 3), rank=1)
    layer.set_trainable(False)
    assert layer.count_params() == 0
    for twin in (layer, layer.replica(), layer.astype("float64")):
        twin.set_trainable(True)
        assert [name for name, _ in twin.params()] == ["A", "B"]
    statistics = Param(np.ones(3), trainable=False)
    statistics.trainable = True
    assert not statistics.trainable and not statistics.like(np.zeros(3)).trainable


def test_astype_keeps_integers():
    quant = QuantLinear(Linear(4, 3), bits=3)
    assert quant.astype("float64").packed.data.dtype == np.uint8
    assert quant.astype("float64").step.data.dtype == np.float64


def test_frozen_layers_skip_weight_gradients(monkeypatch):
    """Without what that gradient is made of, the one of the input comes out as ever."""
    monkeypatch.setattr(embedding, "sum_by_index", None)
    table, x = embedding.Embedding(5, 3), np.ones((2, 4, 3), "float32")
    for layer in (Linear(3, 2), embedding.Unembedding(table), embedding.LearnedPositions(4, 3)):
        y, cache = layer.forward(x)
        layer.set_trainable(False)
        without = Cache(**{**vars(cache), "rows": None})
        wanted = np.ones_like(y) if y.shape == x.shape else np.ones_like(y) @ (
            layer.W.data.T if isinstance(layer, Linear) else layer.W.data)
        np.testing.assert_array_equal(layer.backward(np.ones_like(y), without), wanted)
    y, cache = table.forward(np.array([[1, 4]]))
    assert table.backward(y, cache) is None                 # frozen with the map back to tokens


def test_default_models_parameter_counts():
    assert GPT(36).count_params() == 404_516
    assert LSTMLM(36).count_params() == 272_420


@pytest.mark.parametrize(("model", "count"), [
    (lambda: GPT2(rng=BLANK), 124_439_808),
    (lambda: Llama(49_152, rng=BLANK), 134_515_008),                            # SmolLM2-135M
    (lambda: Llama(151_936, 896, 24, 14, 2, 4864, qkv_bias=True, rng=BLANK), 494_032_768),
], ids=["GPT-2", "SmolLM2-135M", "Qwen2-0.5B"])
def test_real_models_parameter_counts(model, count):
    """(Blank matrices are never written, and so take no memory.)"""
    assert model().count_params() == count


def test_embedding_names():
    model = GPT(7, 8, 2, 2, 2, 5, norm="pre", tied=True, positions="learned")
    assert embedding_names(model) == {"embedding.W", "positions.W"}
    assert embedding_names(LSTMLM(7, 6, 2, 8)) == {"embedding.W"}


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
