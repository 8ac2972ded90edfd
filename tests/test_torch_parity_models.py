"""npdl's GPT and LSTMLM, with their loss, against PyTorch's: all gradients, float64, 1e-10."""

import numpy as np
import pytest
from npdl.prefix import PrefixTree

from npdl.backend import stream
from npdl.models.gpt import GPT
from npdl.models.lstm_lm import LSTMLM
from npdl.study.gradcheck import randomise
from tests.composites import WithLoss

torch = pytest.importorskip("torch", reason="parity with PyTorch needs torch")

import torch_names  # noqa: E402  (they import torch)
import torch_reference as reference  # noqa: E402

V, B, S, D = 7, 4, 5, 8


def same(found, wanted, what=""):
    wanted = wanted.detach().numpy() if torch.is_tensor(wanted) else wanted
    scale = max(1.0, np.abs(wanted).max(initial=0))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-10 * scale, err_msg=what,
                               strict=True)


def randomised(model):
    randomise(model, stream(41))
    return model


GPTS = {
    "document 004's form": {},
    "no bias": {"bias": False},
    "pre-norm": {"norm": "pre"},
    "learned positions, tied": {"positions": "learned", "tied": True},
    "pre-norm, learned positions, tied": {"norm": "pre", "positions": "learned", "tied": True},
    "no bias in maps and norms": {"bias": False, "norm_bias": False},
    "the text recipe's form": {"norm": "pre", "positions": "learned", "tied": True, "bias": False,
                               "norm_bias": False},
    "three layers, one head": {"num_layers": 3, "num_heads": 1},
}
SIZES = {"d_model": D, "num_heads": 2, "num_layers": 2, "multiplier": 3, "max_len": 6}
LSTMS = {
    "two layers": {"num_layers": 2},
    "no bias": {"num_layers": 1, "bias": False},
    "another hidden size": {"num_layers": 3, "hidden_size": 5},
}


def pairs():
    """Pairs (npdl's model, torch's model) of the same kind."""
    for what, options in GPTS.items():
        options = {**SIZES, **options}
        ours = {**options, "positions": options.get("positions", "k/d")}
        yield pytest.param(lambda ours=ours: GPT(V, **ours, dtype="float64"),
                           lambda options=options: reference.GPT(V, **options), id=f"gpt, {what}")
        fused = {**options, "fused": True}
        yield pytest.param(lambda ours=ours: GPT(V, **ours, dtype="float64"),
                           lambda fused=fused: reference.GPT(V, **fused), id=f"gpt, fused, {what}")
    for what, options in LSTMS.items():
        ours = {("d_hidden" if k == "hidden_size" else k): v for k, v in options.items()}
        for cls in (reference.LSTMLM, reference.LSTMLMPerGate):
            yield pytest.param(
                lambda ours=ours: LSTMLM(V, D, **ours, dtype="float64"),
                lambda options=options, cls=cls: cls(V, D, **options), id=f"{cls.__name__}, {what}")


MODELS = list(pairs())


@pytest.mark.parametrize("form", ["whole", "answers only", "tree"])
@pytest.mark.parametrize(("ours", "theirs"), MODELS)
def test_models_with_their_loss(ours, theirs, form):
    model, other = randomised(ours()), theirs().double()
    torch_names.load(other, model.state_dict())
    ids, targets = stream(41).integers(0, V, (2, B, S))
    ids[1:3] = ids[0]                                   # something for the tree to share
    counted = np.arange(S) > np.array([2, 3, 2, 3])[:, None]
    layer, at = WithLoss(model), np.arange(3, S)
    given = PrefixTree(ids) if form == "tree" else ids
    if form == "whole":
        loss, cache = layer.forward(given, targets, counted)
    else:
        loss, cache = layer.forward(given, targets[:, at], counted[:, at], at=at)
    layer.backward(1.0, cache)
    t_logits = other(torch.tensor(ids))
    t_loss = reference.answer_loss(t_logits, torch.tensor(targets), torch.tensor(counted))
    t_loss.backward()
    same(np.asarray(loss), t_loss, "loss")
    same(model.logits(ids)[0], t_logits, "logits")
    wanted = torch_names.gradients(other)
    found = {name: param.grad for name, param in model.params()}
    assert found.keys() == wanted.keys()
    for name, gradient in wanted.items():
        same(found[name], gradient, name)


@pytest.mark.parametrize(("ours", "theirs"), MODELS)
def test_parameters_are_as_many(ours, theirs):
    other = theirs()
    extra = sum(p.numel() for name, p in other.named_parameters() if "bias_hh" in name)
    assert ours().count_params() == sum(p.numel() for p in other.parameters()) - extra


@pytest.mark.parametrize("at", [None, [4, 0]])
@pytest.mark.parametrize("bias", [True, False])
def test_lstm_lm_with_lengths_is_torchs_packed_sequence(at, bias):
    model = randomised(LSTMLM(V, D, 2, bias=bias, dtype="float64"))
    other = reference.LSTMLM(V, D, num_layers=2, bias=bias).double()
    torch_names.load(other, model.state_dict())
    rng, lengths = stream(42), np.array([2, 5, 1, 4])
    ids = rng.integers(0, V, (B, S))
    start = tuple(rng.standard_normal((2, B, D)) for _ in range(2))
    places = None if at is None else np.array(at)
    out, cache = model.forward(ids, start, places, lengths=lengths)
    dlogits = rng.standard_normal(out.logits.shape)
    dfinal = tuple(rng.standard_normal((2, B, D)) for _ in range(2))
    _, dstart = model.backward((dlogits, dfinal), cache)

    t_start = [torch.tensor(part, requires_grad=True) for part in start]
    packed = torch.nn.utils.rnn.pack_padded_sequence(
        other.embedding(torch.tensor(ids)), torch.tensor(lengths), batch_first=True,
        enforce_sorted=False)
    y, final = other.lstm(packed, tuple(t_start))
    y, _ = torch.nn.utils.rnn.pad_packed_sequence(y, batch_first=True, total_length=S)
    t_logits = other.classifier(y if at is None else y[:, at])
    torch.autograd.backward((t_logits, *final), [torch.tensor(d) for d in (dlogits, *dfinal)])
    same(out.logits, t_logits, "logits")
    for i, part in enumerate("hc"):
        same(out.state[i], final[i], f"final {part}")
        same(dstart[i], t_start[i].grad, f"gradient of the initial {part}")
    wanted = torch_names.gradients(other)
    for name, param in model.params():
        same(param.grad, wanted[name], name)
