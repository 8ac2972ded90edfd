"""torch_reference's models, which the benchmarks run, are npdl's: loss and gradients, float64.

Segments are torch's detach.
"""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="parity with PyTorch needs torch")

from experiments.benchmark import torch_reference as reference
from npdl.backend import stream
from npdl.models.gpt import GPT
from npdl.models.lstm_lm import LSTMLM
from npdl.study.check.subjects import randomise
from npdl.study.deviation import deviation
from npdl.train.pretrained.exchange import to_torch
from tests.tools.composites import WithLoss

V, B, S, D = 7, 4, 5, 8
SIZES = {"d_model": D, "num_heads": 2, "num_layers": 2, "multiplier": 3, "max_len": 6}
GPTS = {
    "document 004's form": {},
    "the text recipe's form": {"norm": "pre", "positions": "learned", "tied": True, "bias": False,
                               "norm_bias": False},
    "three layers, one head, learned": {"num_layers": 3, "num_heads": 1, "positions": "learned"},
}
LSTMS = {
    "two layers": {"num_layers": 2},
    "one layer, no bias": {"num_layers": 1, "bias": False},
    "another hidden size": {"num_layers": 3, "hidden_size": 5},
}


def same(found, wanted, what=""):
    assert deviation(found, wanted.detach().numpy(), 1.0) <= 1e-10, what


def pairs():
    """(name, npdl's model, torch's)."""
    for what, options in GPTS.items():
        options = {**SIZES, **options}
        ours = {**options, "positions": options.get("positions", "k/d")}
        for fused in (False, True):
            yield (f"gpt{', fused' * fused}, {what}", GPT(V, **ours, dtype="float64"),
                   reference.GPT(V, **options, fused=fused))
    for what, options in LSTMS.items():
        ours = {("d_hidden" if k == "hidden_size" else k): v for k, v in options.items()}
        for cls in (reference.LSTMLM, reference.LSTMLMPerGate):
            yield (f"{cls.__name__}, {what}", LSTMLM(V, D, **ours, dtype="float64"),
                   cls(V, D, **options))


@pytest.mark.parametrize(("ours", "theirs"), [pytest.param(a, b, id=name)
                                              for name, a, b in pairs()])
def test_models_with_their_loss(ours, theirs):
    randomise(ours, stream(41))
    theirs = theirs.double()
    arrays = to_torch(ours, **theirs.exchange)
    odd = theirs.load_state_dict({n: torch.tensor(a) for n, a in arrays.items()}, strict=False)
    assert not odd.unexpected_keys and set(odd.missing_keys) <= {"positions"}   # a fixed table
    ids, targets = stream(41).integers(0, V, (2, B, S))
    counted = np.arange(S) > np.array([2, 3, 2, 3])[:, None]
    layer = WithLoss(ours)
    loss, cache = layer.forward(ids, targets, counted)
    layer.backward(1.0, cache)
    t_loss = reference.answer_loss(theirs(torch.tensor(ids)), torch.tensor(targets),
                                   torch.tensor(counted))
    t_loss.backward()
    same(loss, t_loss, "loss")
    for _, param in ours.params():
        param.data[...] = param.grad
    gradients = to_torch(ours, **theirs.exchange)
    theirs = {name: param for name, param in theirs.named_parameters() if "bias_hh" not in name}
    for name, param in theirs.items():
        same(gradients[name], param.grad, name)
    assert ours.count_params() == sum(param.numel() for param in theirs.values())
