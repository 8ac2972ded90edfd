"""What the check says where numbers are hard: kinks, constant rows, large and small numbers."""

import numpy as np
import pytest

from npdl import (
    GPT,
    MLP,
    Block,
    Cache,
    CrossEntropy,
    GroupNorm,
    InstanceNorm,
    Layer,
    LayerNorm,
    Linear,
    Llama,
    Param,
    ReLU,
    RMSNorm,
    StableMaxLoss,
    gradcheck,
)
from npdl.backend import stream
from npdl_study.check.differences import Line, moved
from npdl_study.check.subjects import subject_of
from npdl_study.check.verdicts import Check

X = np.random.default_rng(0).standard_normal((2, 4))


def derivative(run, array, weights, floor=0.0):
    """The Derivative of sum weights * run() by the first entry of an array."""
    line = Line(moved(array, (0,), lambda: [run()]), [run()], weights, np.abs(array).max())
    return line.derivative(floor=floor)


@pytest.mark.parametrize(("f", "x", "value"), [
    (lambda x: x**3, 2.0, 12.0),
    (np.exp, 30.0, np.exp(30.0)),
    (lambda x: np.sin(300 * x), 0.01, 300 * np.cos(3.0)),
    (lambda x: np.sqrt(x * x + 1e-10), 1e-3, 1 / np.sqrt(1 + 1e-4)),
    (lambda x: np.maximum(x, 0), 1e-5, 1.0),
    (lambda x: 0 * x, 1.0, 0.0),
])
def test_a_derivative_is_within_its_doubt(f, x, value):
    array = np.array([x, 1.0])
    found = derivative(lambda: f(array), array, [np.ones(2)], floor=1e-3)
    assert not found.reason and found.doubt <= 1e-7 * max(abs(value), 1e-3)
    assert abs(found.value - value) <= 2 * found.doubt
    np.testing.assert_array_equal(array, [x, 1.0])


@pytest.mark.parametrize(("f", "reason"), [
    (lambda x: np.maximum(x, 0), "a kink: the slopes of its two sides differ by 1"),
    (lambda x: np.where(x >= 0, 1.0, 0.0), "a jump"),
    (lambda x: 1e12 + x, "rounding hides it"),
    (lambda x: x * np.abs(x) ** 0.5, "the slope itself changes abruptly"),
    (lambda x: x / 0.0, "not finite"),
])
def test_where_two_steps_disagree_the_reason_is_said(f, reason):
    array = np.zeros(1)
    with np.errstate(all="ignore"):
        found = derivative(lambda: f(array), array, [np.ones(1)])
    assert reason in found.reason


def test_outputs_in_float32_are_known_to_their_own_precision():
    array = np.array([0.7, 1.3])
    found = derivative(lambda: np.sin(array).astype("f4"), array, [np.ones(2)])
    assert not found.reason and 1e-7 < found.doubt < 3e-4
    assert abs(found.value - np.cos(0.7)) <= found.doubt


@pytest.mark.parametrize(("layer", "inputs", "right"), [
    (LayerNorm(4), (np.ones((2, 4)),), True),
    (LayerNorm(4), (0.01 * X,), True),
    (Linear(4, 2), (1e6 * X,), True),
    (CrossEntropy(), (50 * X, np.argmax(X, -1)), None),
    (StableMaxLoss(), (np.zeros((2, 3)), np.array([0, 1])), True),
    (ReLU(), (np.zeros((2, 3)),), None),
    (ReLU(), (np.array([[0.0, 1.0, 1e-5, -3e-4]]),), True),
])
def test_hard_inputs_are_not_called_wrong(layer, inputs, right):
    assert gradcheck(layer, *inputs).right is right


def test_the_entry_at_a_kink_is_named_and_the_others_are_checked():
    class Doubled(ReLU):
        def backward(self, dy, cache):
            return 2 * super().backward(dy, cache)

    x = np.array([[0.0, 1.0, -1.0]])
    assert ("1 of its entries not checkable here, the first at [0, 0]: a kink: the slopes of its "
            "two sides differ by") in str(gradcheck(ReLU(), x))
    assert "it is 2 times what it should be" in str(gradcheck(Doubled(), x))


def normal(*shape):
    return lambda rng: rng.standard_normal(shape)


def tokens(rng):
    return rng.integers(0, 5, (1, 3))


SMALL = {"num_layers": 1, "max_len": 4}


@pytest.mark.parametrize(("make", "draw", "seeds"), [
    (lambda: LayerNorm(2), normal(20, 2), 40),
    (lambda: GroupNorm(4, 2), normal(10, 4), 40),
    (lambda: InstanceNorm(3), normal(4, 3, 2), 40),
    (lambda: RMSNorm(1), normal(20, 1), 40),
    (ReLU, normal(50, 20), 40),
    (lambda: MLP([4, 50, 3]), normal(5, 4), 10),
    (lambda: Llama(5, d_model=4, num_heads=2, num_kv_heads=1, d_inner=3, **SMALL), tokens, 5),
    (lambda: GPT(5, d_model=2, num_heads=1, multiplier=2, **SMALL), tokens, 5),
    (lambda: Block(8, 2), normal(2, 5, 8), 1),
], ids=["LayerNorm", "GroupNorm", "InstanceNorm", "RMSNorm", "ReLU", "MLP", "Llama", "GPT",
        "Block"])
@pytest.mark.slow
@pytest.mark.parametrize("part", [8, 1])
def test_npdls_own_layers_are_right_on_normal_inputs(make, draw, seeds, part):
    for seed in range(0, seeds, part):
        report = gradcheck(make(), draw(stream(seed, 3)), seed=seed)
        assert report.right, f"seed {seed}\n{report}"


class Scaled(Layer):
    """y = x * w, with a gradient that is off by `times` in one entry."""

    def __init__(self, times):
        self.w, self.times = Param(np.ones(40)), times

    def forward(self, x):
        return x * self.w.data, Cache(x=x)

    def backward(self, dy, cache):
        self.w.grad += (dy * cache.x).sum(0)
        dx = dy * self.w.data
        dx[7, 7] *= self.times
        return dx


@pytest.mark.parametrize("times", [1.001, 1e200, -1, 0, np.nan])
def test_one_wrong_entry_is_found_among_many_that_are_not_looked_at_one_by_one(times):
    x = np.random.default_rng(1).standard_normal((20, 40))
    assert Check(subject_of(Scaled(1.0), (x,))).verdict().right
    found = Check(subject_of(Scaled(times), (x,))).verdict()
    assert [row.name for row in found.wrong] == ["input x"]


def small_errors():
    """Five layers whose backward forgets an eps, or rounds a constant."""
    class Rounded(Layer):
        def forward(self, x):
            t = np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))
            return 0.5 * x * (1 + t), Cache(x=x, t=t)

        def backward(self, dy, cache):
            x, t = cache.x, cache.t
            return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t**2) * 0.79788 * (1 + 3 * 0.044715 * x**2))

    class NoEps(RMSNorm):
        def backward(self, dy, cache):
            d = dy * self.gain.data
            self.gain.grad += (dy * cache.x_hat).sum(0)
            rms = np.sqrt(cache.rms**2 - self.eps)
            return (d - cache.x_hat * (d * cache.x_hat).mean(-1, keepdims=True)) / rms

    class Logarithm(Layer):
        def forward(self, x):
            p = 1 / (1 + np.exp(-x))
            return np.log(p + 1e-5), Cache(p=p)

        def backward(self, dy, cache):
            return dy * (1 - cache.p)

    class Normaliser(Layer):
        def forward(self, x):
            e = np.exp(x - x.max(-1, keepdims=True))
            p = e / (e.sum(-1, keepdims=True) + 1e-5)
            return p, Cache(p=p)

        def backward(self, dy, cache):
            return cache.p * (dy - (dy * cache.p).sum(-1, keepdims=True))

    class Outside(LayerNorm):
        def backward(self, dy, cache):
            std = np.sqrt(cache.std**2 - self.eps) + self.eps
            return super().backward(dy, Cache(**{**vars(cache), "std": std}))

    return [Rounded(), NoEps(4), Logarithm(), Normaliser(), Outside(4)]


@pytest.mark.parametrize("layer", small_errors(), ids=lambda layer: type(layer).__name__)
def test_small_errors_are_found_whatever_the_numbers(layer):
    for seed in range(20):
        report = gradcheck(layer, np.random.default_rng(seed).standard_normal((3, 4)), seed=seed)
        assert report.right is False and "of its size: an eps" in str(report), report
