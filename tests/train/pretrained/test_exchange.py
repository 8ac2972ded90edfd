"""Convert parameters to and from PyTorch's names and layouts."""

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


def get_module_arrays(module):
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
    from experiments.benchmark import torch_reference  # which imports torch

    torch.manual_seed(0)
    module = torch_reference.GPT(11, 8, 2, 2, max_len=7, **options).double()
    tokens = np.random.default_rng(0).integers(0, 11, (3, 6))
    own = options | ({} if "positions" in options else {"positions": "k/d"})
    model = GPT(11, 8, 2, 2, max_len=7, dtype="float64", **own)
    given = rename_arrays_for_npdl(get_module_arrays(module))
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
@pytest.mark.parametrize(("kind", "theirs"), [(RNN, "RNN"), (ResetAfterGRU, "GRU"), (LSTM, "LSTM")])
def test_recurrent_conversion_equals_torch(torch, kind, theirs, bias):
    torch.manual_seed(4)
    module = getattr(torch.nn, theirs)(4, 3, 2, bias=bias, batch_first=True, dtype=torch.float64)
    layer = kind(4, 3, 2, bias=bias, dtype="float64")
    x = np.random.default_rng(4).standard_normal((2, 5, 4))
    from_torch(layer, get_module_arrays(module), style="torch")
    (y, state), _ = layer.forward(x)
    wanted, final = module(torch.tensor(x))
    final, state = (s if isinstance(s, tuple) else (s,) for s in (final, state))
    for mine, other in zip((y, *state), (wanted, *final), strict=True):
        np.testing.assert_allclose(mine, other.detach().numpy(), atol=1e-12)
    fill_module(torch, module, to_torch(layer, style="torch"))     # strict: every name
    np.testing.assert_allclose(module(torch.tensor(x))[0].detach().numpy(), y, atol=1e-12)


def test_single_module_conversion_equals_torch(torch):
    torch.manual_seed(5)
    nn, ids = torch.nn, np.arange(6).reshape(2, 3) % 5
    for module, layer in (
            (nn.Linear(6, 3), Linear(6, 3)), (nn.Linear(6, 3, False), Linear(6, 3, bias=False)),
            (nn.Embedding(5, 4), Embedding(5, 4)), (nn.LayerNorm(6), LayerNorm(6)),
            (nn.RMSNorm(6, 1e-5), RMSNorm(6)), (nn.GroupNorm(2, 4), GroupNorm(4, 2)),
            (nn.BatchNorm1d(4), BatchNorm(4))):
        module, layer = module.double(), layer.astype("float64")
        inputs = np.random.default_rng(5).standard_normal((3, 4, 6))
        inputs = ids if isinstance(layer, Embedding) else inputs
        for tensor in module.state_dict().values():
            if tensor.is_floating_point():
                torch.nn.init.uniform_(tensor, 0.5, 1.5)
        from_torch(layer, get_module_arrays(module))
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
def test_round_trip_without_torch(style, build, tmp_path):
    """Also through a file of another precision."""
    model, other = build(0), build(1)
    arrays = to_torch(model, style)
    assert all(a.flags.c_contiguous and a.flags.owndata for a in arrays.values())
    safetensors.write(tmp_path / "wide", to_torch(model.astype("float64"), style))
    for given in ({n: np.asfortranarray(a) for n, a in arrays.items()},
                  safetensors.read(tmp_path / "wide")):
        from_torch(other, given, style)
        for name, array in model.state_dict().items():
            np.testing.assert_array_equal(other.state_dict()[name], array)
        other = build(2)


def test_refused_arrays_change_nothing():
    model = GPT(5, 4, 1, 2, max_len=4, tied=True)
    before, arrays = model.state_dict(), to_torch(model)
    first = next(iter(arrays))
    bad = [
        {n: a for n, a in arrays.items() if n != first}, arrays | {"mystery": np.ones(2)},
        arrays | {first: arrays[first].T}, arrays | {first: arrays[first].astype(int)},
        arrays | {"classifier.weight": arrays["classifier.weight"] + 1}]
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
