"""Optimizers against PyTorch and against values by hand, weight decay, clipping, schedules."""

import math

import numpy as np
import pytest

from npdl import optim
from npdl.backend import make_rng
from npdl.core import Layer
from npdl.layers.layer_norm import LayerNorm
from npdl.layers.linear import Linear
from npdl.optim import SGD, Adam, AdamW, NesterovSGD, RMSprop, clip_by_global_norm
from npdl.schedule import schedule


class Pair(Layer):
    """A Linear and a LayerNorm: four parameters, matrices and vectors."""

    def __init__(self):
        self.map = Linear(5, 3, rng=2, dtype="float64")
        self.norm = LayerNorm(3, dtype="float64")


TORCH = [           # (npdl's class, torch's class, options of both, npdl's own, torch's own)
    (SGD, "SGD", {"lr": 0.1}, {}, {}), (Adam, "Adam", {}, {}, {}),
    (SGD, "SGD", {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.02}, {}, {}),
    (NesterovSGD, "SGD", {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.02}, {},
     {"nesterov": True}),
    (RMSprop, "RMSprop", {"lr": 0.03, "eps": 1e-5, "weight_decay": 0.02}, {"beta": 0.9},
     {"alpha": 0.9}),
    (Adam, "Adam", {"lr": 3e-2, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1}, {}, {}),
    (AdamW, "AdamW", {"weight_decay": 1.0}, {}, {}),                # as document 004 has it
    (AdamW, "AdamW", {"lr": 0.1, "betas": (0.7, 0.9), "eps": 1e-3, "weight_decay": 0.5}, {}, {}),
]


@pytest.mark.parametrize("npdl_class, torch_name, options, npdl_options, torch_options", TORCH)
def test_optimizers_match_torch(npdl_class, torch_name, options, npdl_options, torch_options):
    torch = pytest.importorskip("torch", reason="parity with PyTorch needs torch")
    model = Pair()
    wanted = {name: torch.tensor(array, requires_grad=True)
              for name, array in model.state_dict().items()}
    optimizer = npdl_class(model, **options, **npdl_options)
    other = getattr(torch.optim, torch_name)(wanted.values(), **options, **torch_options)
    for step in range(20):
        rng = make_rng(7, step)
        optimizer.zero_grad()
        for name, param in model.params():
            gradient = rng.standard_normal(param.shape)
            param.grad += gradient
            wanted[name].grad = torch.tensor(gradient)
        optimizer.step()
        other.step()
    for name, array in model.state_dict().items():
        np.testing.assert_allclose(array, wanted[name].detach(), rtol=0, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("optimizer_class, options, expected", [        # the gradients are 2 and 4
    (NesterovSGD, {"momentum": 0.5}, 1 - 0.1 * (2 + 0.5 * 2) - 0.1 * (4 + 0.5 * 5)),
    (RMSprop, {"beta": 0.75, "eps": 0.5}, 1 - 0.1 * 2 / 1.5 - 0.1 * 4 / (4.75**0.5 + 0.5))])
def test_two_steps_by_hand(optimizer_class, options, expected):
    model = Linear(1, 1, bias=False, dtype="float64")
    model.W.data[...] = 1
    optimizer = optimizer_class(model, 0.1, **options)
    for gradient in (2, 4):
        model.W.grad[...] = gradient
        optimizer.step()
    assert float(model.W.data[0, 0]) == pytest.approx(expected, rel=1e-12)


def test_decay_only_matrices_limits_decay():
    rates = {}
    for prepare in (lambda model: None, optim.decay_only_matrices):
        model = Pair()
        model.norm.bias.data[...] = 1.0
        prepare(model)
        before = model.state_dict()
        AdamW(model, 0.1, weight_decay=0.5).step()      # gradients are zero
        rates[prepare] = {name: float(np.mean(after / before[name]))
                          for name, after in model.state_dict().items()}
    everything, matrices = rates.values()
    assert everything == pytest.approx(dict.fromkeys(before, 0.95))
    assert matrices == pytest.approx({**dict.fromkeys(before, 1.0), "map.W": 0.95})


def test_clipping_by_hand():
    model = Pair()
    params = [param for _, param in model.params()]
    model.map.W.grad[0, 0], model.norm.bias.grad[2] = 3.0, 4.0
    assert float(clip_by_global_norm(params, 10.0)) == 5.0
    assert model.map.W.grad[0, 0] == 3.0                # the norm is below the limit
    assert float(clip_by_global_norm(params, 1.0)) == 5.0
    assert model.norm.bias.grad[2] == pytest.approx(0.8, rel=1e-6)
    assert float(clip_by_global_norm(params, 2.0)) == pytest.approx(1.0, rel=1e-6)
    model.zero_grad()
    assert float(clip_by_global_norm(params, 1.0)) == 0 and not model.map.W.grad.any()


def test_schedules_at_known_points():
    assert [schedule("constant", 0.5)(t) for t in (0, 7, 10**6)] == [0.5] * 3
    warm = schedule("constant", 1.0, warmup=4)
    assert [warm(t) for t in range(6)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    line = schedule("linear", 1.0, total=10, lr_min=0.2)
    assert [line(t) for t in (0, 5, 10, 99)] == pytest.approx([1.0, 0.6, 0.2, 0.2])
    late = schedule("linear", 1.0, total=12, warmup=2)
    assert [late(t) for t in (0, 1, 2, 7, 12)] == pytest.approx([0.5, 1.0, 1.0, 0.5, 0.0])
    wave = schedule("cosine", 1.0, total=8, lr_min=0.1)
    assert [wave(t) for t in (0, 4, 8, 20)] == pytest.approx([1.0, 0.55, 0.1, 0.1])
    assert wave(2) == pytest.approx(0.1 + 0.9 * (1 + math.sqrt(0.5)) / 2)
