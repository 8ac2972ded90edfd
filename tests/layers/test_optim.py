"""Optimizers by hand and against PyTorch, decay and its groups, clipping, schedules."""

import math

import numpy as np
import pytest

from npdl.backend import make_rng
from npdl.core import Layer, Param
from npdl.layers.layer_norm import LayerNorm
from npdl.layers.linear import Linear
from npdl.optim import (
    SGD,
    Adam,
    AdamW,
    NesterovSGD,
    RMSprop,
    clip_by_global_norm,
    decay_only_matrices,
)
from npdl.schedule import schedule


class Pair(Layer):
    """A Linear and a LayerNorm: four parameters, matrices and vectors."""

    def __init__(self, dtype="float64"):
        self.map = Linear(5, 3, rng=2, dtype=dtype)
        self.norm = LayerNorm(3, dtype=dtype)


class Scalar(Layer):
    def __init__(self, value, dtype="float64"):
        self.w = Param(np.array([value], dtype))


def gradients(model, step):
    """Return {name: random gradient}. The same step gives the same gradients."""
    rng = make_rng(7, step)
    return {name: rng.standard_normal(param.shape) for name, param in model.params()}


def train(model, optimizer):
    for step in range(20):
        optimizer.zero_grad()
        for (_, param), gradient in zip(model.params(), gradients(model, step).values(),
                                        strict=True):
            param.grad += gradient
        optimizer.step()
    return model.state_dict()


TORCH = {
    "SGD, momentum, decay": (
        lambda m: SGD(m, 0.05, momentum=0.9, weight_decay=0.02),
        lambda t, p: t.SGD(p, 0.05, momentum=0.9, weight_decay=0.02)),
    "NesterovSGD, decay": (
        lambda m: NesterovSGD(m, 0.05, momentum=0.9, weight_decay=0.02),
        lambda t, p: t.SGD(p, 0.05, momentum=0.9, weight_decay=0.02, nesterov=True)),
    "RMSprop, decay": (
        lambda m: RMSprop(m, 0.03, beta=0.9, eps=1e-5, weight_decay=0.02),
        lambda t, p: t.RMSprop(p, 0.03, alpha=0.9, eps=1e-5, weight_decay=0.02)),
    "Adam, decay, betas": (
        lambda m: Adam(m, 3e-2, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1),
        lambda t, p: t.Adam(p, 3e-2, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1)),
    "AdamW as document 004 has it": (
        lambda m: AdamW(m, weight_decay=1.0), lambda t, p: t.AdamW(p, weight_decay=1.0)),
    "AdamW, betas, eps": (
        lambda m: AdamW(m, 0.1, betas=(0.7, 0.9), eps=1e-3, weight_decay=0.5),
        lambda t, p: t.AdamW(p, 0.1, betas=(0.7, 0.9), eps=1e-3, weight_decay=0.5)),
}


def train_with_torch(torch, make_optimizer, model):
    params = {name: torch.tensor(array, requires_grad=True)
              for name, array in model.state_dict().items()}
    optimizer = make_optimizer(torch.optim, list(params.values()))
    for step in range(20):
        for name, gradient in gradients(model, step).items():
            params[name].grad = torch.tensor(gradient)
        optimizer.step()
    return {name: param.detach().numpy() for name, param in params.items()}


@pytest.mark.parametrize("optimizer", TORCH)
def test_optimizers_match_torch(optimizer):
    torch = pytest.importorskip("torch", reason="parity with PyTorch needs torch")
    ours, theirs = TORCH[optimizer]
    wanted = train_with_torch(torch, theirs, Pair())
    model = Pair()
    found = train(model, ours(model))
    for name in wanted:
        np.testing.assert_allclose(found[name], wanted[name], rtol=0, atol=1e-12, err_msg=name)


def optimise_scalar(make_optimizer, start, gradients):
    """Return the values of a model with one parameter after each step."""
    model = Scalar(start)
    optimizer = make_optimizer(model)
    values = []
    for gradient in gradients:
        model.w.grad[...] = gradient
        optimizer.step()
        values.append(float(model.w.data[0]))
    return values


ROOT3 = math.sqrt(3)
BY_HAND = [                     # (optimizer, first value, gradients, values after each step)
    # v = 2; v = 0.5 * 2 - 1 = 0; v = 0.5 * 0 + 4 = 4
    (lambda m: SGD(m, 0.1, momentum=0.5), 1.0, [2, -1, 4], [0.8, 0.8, 0.4]),
    (lambda m: SGD(m, 0.1, weight_decay=0.5), 1.0, [2], [0.75]),            # 1 - 0.1 (2 + 0.5)
    # v = 2, step 2 + 0.5 * 2 = 3; v = 0.5 * 2 - 1 = 0, step -1
    (lambda m: NesterovSGD(m, 0.1, momentum=0.5), 1.0, [2, -1], [0.7, 0.8]),
    # v = 0.25 * 4 = 1, step 2; v = 0.75 + 0.25 * 9 = 3, step 3 / sqrt(3)
    (lambda m: RMSprop(m, 0.1, beta=0.75, eps=0.0), 1.0, [2, 3], [0.8, 0.8 - 0.1 * ROOT3]),
    # The first step is lr g / (|g| + eps), whatever the size of g.
    (lambda m: Adam(m, 0.1), 1.0, [-1e-3], [1 + 0.1 / (1 + 1e-5)]),
    # m = 1/2, then 1/4 - 1; v = 1/2, then 1/4 + 2; t = 2 divides both by 3/4: -1 and 3
    (lambda m: Adam(m, 0.1, betas=(0.5, 0.5), eps=0.0), 1.0, [1.0, -2.0], [0.9, 0.9 + 0.1 / ROOT3]),
    # Decoupled: theta shrinks by lr * decay and then moves by lr. Coupled: the decay is part of
    # the gradient, and the first step is lr whatever the gradient is.
    (lambda m: AdamW(m, 0.1, weight_decay=0.5), 2.0, [7.0], [1.8]),
    (lambda m: Adam(m, 0.1, weight_decay=0.5), 2.0, [7.0], [1.9]),
]


@pytest.mark.parametrize(("make", "first", "gradients", "values"), BY_HAND)
def test_optimizer_steps_by_hand(make, first, gradients, values):
    assert optimise_scalar(make, first, gradients) == pytest.approx(values)


def test_decay_only_matrices_limits_decay():
    rates = {}
    for prepare in (lambda model: None, decay_only_matrices):
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
    assert model.map.W.grad[0, 0] == 3.0                # within: not a bit changes
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
