"""torch_reference's models, which the benchmarks run, are npdl's: loss and gradients, float64.

Segments are torch's detach.
"""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="parity with PyTorch needs torch")

from npdl.backend import stream
from npdl.models.gpt import GPT
from npdl.models.lstm_lm import LSTMLM
from npdl_study.check.subjects import randomise
from npdl_study.deviation import deviation
from tests.tools import torch_names
from tests.tools import torch_reference as reference
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
    wanted = wanted.detach().numpy() if torch.is_tensor(wanted) else wanted
    assert deviation(found, wanted, 1.0) <= 1e-10, what


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
    torch_names.load(theirs, ours.state_dict())
    ids, targets = stream(41).integers(0, V, (2, B, S))
    counted = np.arange(S) > np.array([2, 3, 2, 3])[:, None]
    layer = WithLoss(ours)
    loss, cache = layer.forward(ids, targets, counted)
    layer.backward(1.0, cache)
    t_loss = reference.answer_loss(theirs(torch.tensor(ids)), torch.tensor(targets),
                                   torch.tensor(counted))
    t_loss.backward()
    same(loss, t_loss, "loss")
    wanted, found = torch_names.gradients(theirs), dict(ours.params())
    assert found.keys() == wanted.keys()
    for name, gradient in wanted.items():
        same(found[name].grad, gradient, name)
    extra = sum(p.numel() for name, p in theirs.named_parameters() if "bias_hh" in name)
    assert ours.count_params() == sum(p.numel() for p in theirs.parameters()) - extra
