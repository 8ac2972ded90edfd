"""LoRA and QLoRA: adapters in models, merging, counting and errors."""

import numpy as np
import pytest

from npdl.adapt import add_lora, make_report, merge_lora, quantize_linears
from npdl.adapt.linears import FrozenLinear, LoRALinear
from npdl.core import named_layers
from npdl.errors import InputError
from npdl.layers.linear import Linear
from npdl.models.gpt import GPT
from npdl.models.lstm_lm import LSTMLM
from npdl.study.check.subjects import randomise

IDS = np.array([[0, 1, 2, 3], [3, 2, 1, 0], [4, 4, 0, 1]])


def small_gpt(**options):
    return GPT(5, 8, 2, 2, max_len=6, rng=3, **options)


def test_where_selects_layers():
    gpt_maps = {name for name, layer in named_layers(small_gpt()) if isinstance(layer, Linear)}
    for where, wanted in (
            (None, gpt_maps), ("classifier", {"classifier"}),
            (("W_O", "up"), {n for n in gpt_maps if n.endswith(("W_O", "up"))}),
            (("decoder.blocks.1.attention.W_K",), {"decoder.blocks.1.attention.W_K"})):
        model = small_gpt()
        assert set(add_lora(model, rank=1, where=where)) == wanted
        assert {n for n, part in named_layers(model) if isinstance(part, LoRALinear)} == wanted
    lstm = LSTMLM(5, 4, 1)
    assert add_lora(lstm, rank=2) == ["classifier"]
    assert lstm.count_params() == 2 * (4 + 5)


@pytest.mark.parametrize("bits", [None, 3])
def test_merging_keeps_the_output(bits):
    model = small_gpt().astype("float64")
    model.decoder.blocks = tuple(model.decoder.blocks)      # layers may be in a tuple
    if bits:
        quantize_linears(model, bits, rounding="nearest", block=16, where=("up", "down"))
    add_lora(model, rank=2, alpha=5)
    randomise(model, np.random.default_rng(0), 0.3)         # so that B is not zero
    wanted = model.forward(IDS)[0]
    adapters = merge_lora(model)
    np.testing.assert_allclose(model.forward(IDS)[0], wanted, atol=1e-12)
    plain = small_gpt().astype("float64")
    plain.load_state_dict(model.state_dict())           # a model without adapters
    np.testing.assert_allclose(plain.forward(IDS)[0], wanted, atol=1e-12)
    before = {name: adapter.A.data.copy() for name, adapter in adapters.items()}
    model.set_trainable(True)
    for _, param in model.params():
        param.data[...] = 0                             # nothing is shared with the adapters
    assert all(np.array_equal(adapters[name].A.data, A) for name, A in before.items())


def test_report_counts_parameters_and_cost():
    model = small_gpt()
    plain = make_report(model)
    assert plain.trainable == model.count_params() and plain.frozen == 0
    assert plain.stored_bytes == 4 * model.count_params()
    assert plain.multiplies == 2 * (4 * 8 * 8 + 2 * 8 * 32) + 8 * 5
    total = model.count_params()
    quantize_linears(model, 4, where=("up", "down"))
    add_lora(model, rank=2, where=("W_Q", "up"))
    adapted = make_report(model)
    assert adapted.frozen == total
    assert adapted.trainable == model.count_params() == 2 * (2 * (8 + 8) + 2 * (8 + 32))
    quantized = 2 * 2 * 8 * 32
    assert adapted.multiplies == plain.multiplies + adapted.trainable + quantized
    assert adapted.stored_bytes == (4 * (total - quantized + adapted.trainable)
                                    + quantized // 2 + 4 * 4)


def test_errors_leave_the_model_unchanged():
    model = small_gpt()
    state = model.state_dict()
    for call in (lambda: add_lora(model, rank=6), lambda: add_lora(model, where="W_Z"),
                 lambda: add_lora(model, rank=0), lambda: quantize_linears(model, 1),
                 lambda: merge_lora(model), lambda: add_lora(Linear(2, 2))):
        with pytest.raises(InputError) as caught:
            call()
        assert "\n" not in str(caught.value)
    assert model.state_dict().keys() == state.keys()
    assert model.count_params() == sum(a.size for a in state.values())
    model.classifier.W.data[0, 0] = np.nan              # the last layer
    with pytest.raises(InputError):
        quantize_linears(model)
    assert model.count_params() == sum(a.size for a in state.values())
    add_lora(model, rank=1)
    for call in (lambda: add_lora(model, rank=1), lambda: quantize_linears(model)):
        with pytest.raises(InputError):
            call()
    with pytest.raises(InputError):
        FrozenLinear(Linear(3, 2)).forward(np.ones((2, 4), "float32"))
