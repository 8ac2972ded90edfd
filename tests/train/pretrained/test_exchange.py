"""Parameters to and from PyTorch's names and layouts."""

import numpy as np
import pytest

from npdl import safetensors
from npdl.adapt import add_lora
from npdl.errors import InputError
from npdl.layers.batch_norm import BatchNorm, GroupNorm
from npdl.layers.embedding import Embedding
from npdl.layers.gru import ResetAfterGRU
from npdl.layers.layer_norm import LayerNorm, RMSNorm
from npdl.layers.linear import Linear
from npdl.layers.recurrent import GRU, LSTM, RNN
from npdl.models.gpt import GPT
from npdl.models.lstm_lm import LSTMLM
from npdl.train.pretrained.exchange import from_torch, to_torch


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="exchange is checked against torch itself")


def torch_reference():
    """experiments/benchmark/torch_reference.py, which imports torch."""
    from experiments.benchmark import torch_reference
    return torch_reference


def arrays_of(module):
    return {name: tensor.detach().numpy() for name, tensor in module.state_dict().items()}


def fill_module(torch, module, arrays):
    module.load_state_dict({name: torch.tensor(array) for name, array in arrays.items()})


def rename_arrays_for_npdl(arrays):
    """The arrays of the reference's GPT under npdl's names."""
    ours = {"blocks": "decoder.blocks", "final_norm": "decoder.norm"}
    return {".".join([ours.get(first, first), *rest]) if rest else f"{first}.weight": array
            for name, array in arrays.items() for first, *rest in [name.split(".")]}


@pytest.mark.parametrize("options", [
    {}, {"bias": False, "norm": "pre"}, {"positions": "learned", "tied": True, "norm": "pre"},
    {"bias": False, "norm_bias": False, "norm": "pre"},
])
def test_gpt_round_trip_with_torch(torch, options):
    torch.manual_seed(0)
    module = torch_reference().GPT(11, 8, 2, 2, max_len=7, **options).double()
    tokens = np.random.default_rng(0).integers(0, 11, (3, 6))
    own = options | ({} if "positions" in options else {"positions": "k/d"})
    model = GPT(11, 8, 2, 2, max_len=7, dtype="float64", **own)
    given = rename_arrays_for_npdl(arrays_of(module))
    if "positions" not in options:
        del given["positions.weight"]                                   # a fixed table
    from_torch(model, given)
    wanted = module(torch.tensor(tokens)).detach().numpy()
    assert abs(model.forward(tokens)[0] - wanted).max() < 1e-10
    back = to_torch(model)
    assert back.keys() == given.keys()
    for name, array in given.items():
        np.testing.assert_array_equal(back[name], array)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("kind", "theirs"), [
    (RNN, "RNN"), (ResetAfterGRU, "GRU"), (LSTM, "LSTM")])
def test_recurrent_conversion_equals_torch(torch, kind, theirs, bias):
    torch.manual_seed(4)
    module = getattr(torch.nn, theirs)(4, 3, 2, bias=bias, batch_first=True, dtype=torch.float64)
    layer = kind(4, 3, 2, bias=bias, dtype="float64")
    x = np.random.default_rng(4).standard_normal((2, 5, 4))
    from_torch(layer, arrays_of(module), style="torch")
    (y, state), _ = layer.forward(x)
    wanted, final = module(torch.tensor(x))
    final, state = (s if isinstance(s, tuple) else (s,) for s in (final, state))
    for mine, other in zip((y, *state), (wanted, *final), strict=True):
        np.testing.assert_allclose(mine, other.detach().numpy(), atol=1e-12)
    fill_module(torch, module, to_torch(layer, style="torch"))     # strict: every name
    np.testing.assert_allclose(module(torch.tensor(x))[0].detach().numpy(), y, atol=1e-12)


def test_single_module_conversion_equals_torch(torch):
    torch.manual_seed(5)
    f64, x = {"dtype": torch.float64}, np.random.default_rng(5).standard_normal((3, 4, 6))
    for module, layer, inputs in (
            (torch.nn.Linear(6, 3, **f64), Linear(6, 3, dtype="float64"), x),
            (torch.nn.Linear(6, 3, bias=False, **f64),
             Linear(6, 3, bias=False, dtype="float64"), x),
            (torch.nn.Embedding(5, 4, **f64), Embedding(5, 4, dtype="float64"),
             np.arange(6).reshape(2, 3) % 5),
            (torch.nn.LayerNorm(6, **f64), LayerNorm(6, dtype="float64"), x),
            (torch.nn.RMSNorm(6, eps=1e-5, **f64), RMSNorm(6, dtype="float64"), x),
            (torch.nn.GroupNorm(2, 4, **f64), GroupNorm(4, 2, dtype="float64"), x),
            (torch.nn.BatchNorm1d(4, **f64), BatchNorm(4, dtype="float64"), x)):
        for tensor in module.state_dict().values():
            if tensor.is_floating_point():
                torch.nn.init.uniform_(tensor, 0.5, 1.5)
        from_torch(layer, arrays_of(module))
        options = {"training": False} if isinstance(layer, BatchNorm) else {}
        wanted = module.eval()(torch.tensor(inputs)).detach().numpy()
        np.testing.assert_allclose(layer.forward(inputs, **options)[0], wanted, atol=1e-12)
        fill_module(torch, module, to_torch(layer))
        np.testing.assert_allclose(module(torch.tensor(inputs)).detach().numpy(), wanted)


@pytest.mark.parametrize("style, build", [
    ("torch", lambda rng: LSTMLM(6, 3, 2, 4, rng=rng)),
    ("torch", lambda rng: LSTMLM(6, 3, 1, bias=False, rng=rng)),
    *((style, lambda rng, options=options: GPT(6, 4, 1, 2, max_len=5, positions="learned", rng=rng,
                                               **options))
      for style in ("course", "torch") for options in (
          {"tied": True}, {"norm": "pre", "bias": False, "norm_bias": False})),
])
def test_round_trip_without_torch(style, build):
    model, other = build(0), build(1)
    arrays = to_torch(model, style)
    assert all(a.flags.c_contiguous and a.flags.owndata for a in arrays.values())
    from_torch(other, {n: np.asfortranarray(a) for n, a in arrays.items()}, style)
    for name, array in model.state_dict().items():
        np.testing.assert_array_equal(other.state_dict()[name], array)


def test_forget_gate_is_converted_to_forget_gate():
    """A gate that is swapped on both ways would pass every round trip."""
    layer = LSTM(1, 1, dtype="float64")
    arrays = {name: 0 * array for name, array in to_torch(layer, "torch").items()}
    arrays["bias_ih_l0"] += [-9, 9, 1, 9]                   # input, forget, candidate, output
    from_torch(layer, arrays, "torch")
    one = np.ones((1, 1))
    (h, c), _ = layer.layers[0].cell.forward(one, (one, 2 * one))
    assert c == pytest.approx(2, abs=1e-3) and h == pytest.approx(np.tanh(2), abs=1e-3)


def test_refused_arrays_change_nothing():
    model = GPT(5, 4, 1, 2, max_len=4, tied=True)
    before, arrays = model.state_dict(), to_torch(model)
    first = next(iter(arrays))
    bad = [
        {n: a for n, a in arrays.items() if n != first},
        arrays | {"mystery": np.ones(2)},
        arrays | {first: arrays[first].T},
        arrays | {first: arrays[first].astype(int)},
        arrays | {"classifier.weight": arrays["classifier.weight"] + 1},    # tied, but different
    ]
    for wrong in bad:
        with pytest.raises(InputError) as caught:
            from_torch(model, wrong)
        assert "\n" not in str(caught.value)
    for name, array in model.state_dict().items():
        np.testing.assert_array_equal(array, before[name])
    for wrong in (lambda: to_torch(model, "keras"), lambda: to_torch(GRU(2, 3))):
        with pytest.raises(InputError):
            wrong()
    add_lora(model, rank=1)
    with pytest.raises(InputError, match="merge_lora"):
        to_torch(model)


def test_float64_file_loads_into_float32_model(tmp_path):
    model, path = GPT(5, 4, 1, 2, max_len=4, rng=1), tmp_path / "model.safetensors"
    safetensors.write(path, to_torch(model.astype("float64")))
    other = GPT(5, 4, 1, 2, max_len=4, rng=2)
    from_torch(other, safetensors.read(path))
    for name, array in model.state_dict().items():
        np.testing.assert_array_equal(other.state_dict()[name], array)
