"""What blame looks at beside the gradients before it says "right"; several outputs."""

import numpy as np
import pytest

from npdl.core import Cache, Layer, Param
from npdl.errors import InputError
from npdl_study.blame.blame import blame
from npdl_study.check.gradcheck import gradcheck
from npdl_study.check.target import build
from npdl_study.step.step import step

x = np.random.default_rng(0).standard_normal((3, 4))


class Sampled(Layer):
    """A mean and a scale from one input, and the divergence: two outputs, the second a number."""

    def __init__(self, half=0.5):
        self.W, self.half = Param(np.eye(4)), half

    def forward(self, x):
        mu = x @ self.W.data
        kl = 0.5 * np.sum(mu**2)
        return (mu, kl), Cache(x=x, mu=mu)

    def backward(self, dout, cache):
        dmu, dkl = dout
        dmu = dmu + 2 * self.half * dkl * cache.mu
        self.W.grad += cache.x.T @ dmu
        return dmu @ self.W.data.T


def test_a_backward_need_not_take_none():
    assert blame(Sampled(), x).right and gradcheck(Sampled(), x).ok()
    report = blame(Sampled(1.0), x)
    assert "dkl * cache.mu" in report.source and not gradcheck(Sampled(1.0), x).ok()


class Three(Layer):
    """Three outputs and a backward that asks which it was handed, wrong where it gets two."""

    def forward(self, x):
        return (x, 2 * x, 3 * x), None

    def backward(self, dout, cache):
        a, b, c = dout
        dx = sum(k * d for k, d in ((1, a), (2, b), (3, c)) if d is not None)
        if a is None and b is not None and c is not None:
            dx = dx + b
        return dx


def test_two_of_three_outputs_are_used_together():
    report = blame(Three(), x)
    assert not report.right and report.line and not gradcheck(Three(), x).ok()


class Square(Layer):
    """y = x x; `sin` says in what its backward is wrong."""

    def __init__(self, sin=""):
        self.sin = sin

    def forward(self, x):
        if self.sin == "door" and abs(x.mean()) > 0.15:
            raise InputError("only inputs around 0")
        self.x = x.copy()
        return x * x, {"x": x}

    def backward(self, dy, cache):
        held = cache.pop("x") if self.sin == "second" else cache["x"]
        if self.sin == "self":
            held = self.x
        if self.sin == "writes":
            dy *= 2 * held
            return dy
        return (1 if self.sin == "float32" and dy.dtype == np.float32 else 2) * dy * held


@pytest.mark.parametrize("sin, words", [
    ("float32", "wrong when all is float32"), *(pytest.param(*more, marks=pytest.mark.slow)
        for more in (("second", "raises KeyError: 'x' when it runs a second time"),
                     ("self", "reads from self what belongs in the cache"), ("", ""))),
    ("door", "")])
def test_the_backward_is_run_in_other_ways(sin, words):
    report = blame(Square(sin), x)
    assert report.right is not bool(words) and words in " ".join(str(report).split())
    assert report.kind == ("manners" if words else "") and not report.line
    faults = gradcheck(Square(sin), x).faults
    assert len(faults) == bool(words) and words in " ".join(faults)


def test_a_written_upstream_is_told_once_and_is_not_the_cache():
    faults = gradcheck(Square("writes"), x).faults
    assert faults == ["backward changes the gradient that it is handed in place: write into a new "
                      "array"]


class Tiny(Layer):
    def forward(self, x):
        return 1e-11 * x, None

    def backward(self, dy, cache):
        return 3e-11 * dy


class Zero(Layer):
    def forward(self, x):
        return np.where(np.tanh(x) > 2, x, 0.0), None

    def backward(self, dy, cache):
        return 0 * dy


@pytest.mark.slow
def test_what_can_not_be_seen_is_not_right_and_what_is_small_can():
    report = blame(Zero(), x)
    assert not report.right and report.kind == "unchecked"
    assert "every gradient is 0 at these inputs; line" in " ".join(str(report).split())
    assert blame(Tiny(), x).line


class Triplet(Layer):
    """mean(max(|a - p|^2 - |a - n|^2 + 1, 0)), with a wrong sign; its mask may be 0 everywhere."""

    def forward(self, a, p, n):
        m = ((a - p)**2).sum(1) - ((a - n)**2).sum(1) + 1.0
        return np.maximum(m, 0).mean(), (a, p, n, m)

    def backward(self, dy, cache):
        a, p, n, m = cache
        g = 2 * (m > 0)[:, None] * dy / len(m)
        da = g * (n - p)
        dp = -g * (a - p)
        dn = -g * (a - n)
        return da, dp, dn


@pytest.mark.slow
def test_a_mask_that_turns_from_all_to_nothing_is_two_sides():
    report = blame(Triplet(), x, x + 1, x + 0.1)        # all masked, at 0.01 of it none
    assert blame(Triplet(), x, x, x + 3).source == report.source == "dn = -g * (a - n)"
    assert "wrong with every float input times 0.01" in str(blame(Triplet(), x, x, x + 3))


def test_an_output_that_is_not_a_number_repeats():
    class Log(Layer):
        def forward(self, x):
            return float(np.log(-np.abs(x)).sum()), x

        def backward(self, dy, x):
            return dy / x

    assert blame(Log(), x).kind != "random"
    assert not any("when it is run again" in note for note in step(Log(), x).notes)


CELL = """import numpy as np


class Cell:
    def __init__(self):
        self.params = [np.eye(3)]
        self.grads = [np.zeros((3, 3))]

    @classmethod
    def sample(cls):
        return cls(), tuple(np.random.default_rng(0).standard_normal((2, 2, 3)))

    def forward(self, h, c):
        c_next = c * np.tanh(h @ self.params[0])
        self.kept = h, c, np.tanh(h @ self.params[0])
        return np.tanh(c_next), c_next

    def backward(self, dh_next, dc_next):
        h, c, g = self.kept
        dc_next = dc_next + dh_next * (1 - np.tanh(c * g)**2)
        da = dc_next * c * (1 - g * g)
        self.grads[0][...] = h.T @ da
        return da @ self.params[0].T, dc_next * g
"""


@pytest.mark.parametrize("right, wrong", [("", ""), (" * (1 - g * g)", " * (1 - g)")])
def test_a_class_with_two_outputs_may_keep_its_cache_in_itself(right, wrong, tmp_path):
    (tmp_path / f"cell{len(wrong)}.py").write_text(CELL.replace(right, wrong) if right else CELL)
    layer, inputs, options = build(f"{tmp_path}/cell{len(wrong)}.py:Cell")
    report = blame(layer, *inputs, **options)
    assert report.right is not bool(wrong) and report.source.startswith("da = " if wrong else "")


@pytest.mark.slow
def test_the_parts_and_the_other_lines_are_shown(tmp_path):
    text = """import numpy as np


def net_sample():
    return tuple(np.random.default_rng(0).standard_normal((2, 3, 4)))


def net_forward(x, y):
    a, b = np.sin(x), y * y * np.exp(y)
    z = np.concatenate([a, b], axis=1)
    return z * z, (x, y, z)


def net_backward(dout, cache):
    x, y, z = cache
    dz = 2 * dout * z
    da, db = dz[:, :4] * np.cos(x), dz[:, 4:] * np.exp(np.sin(y))
    both = np.hstack([da, db])
    return both[:, :4], both[:, 4:]
"""
    (tmp_path / "net_parts.py").write_text(text)
    layer, inputs, options = build(f"{tmp_path}/net_parts.py:net")
    report = blame(layer, *inputs, **options)
    assert not report.right and report.line in (17, 18), str(report)
    assert "np.exp(np.sin(y))" in report.source


@pytest.mark.slow
def test_a_steep_curve_is_no_kink():
    class Steep(Layer):
        def forward(self, x):
            return np.exp(5 * x) + np.maximum(x, 0), x

        def backward(self, dy, x):
            return dy * (4 * np.exp(5 * x) + (x > 0))

    inputs = np.linspace(0.5, 1.5, 6).reshape(2, 3)
    assert not blame(Steep(), inputs).right and not any("kink" in n for n in blame(
        Steep(), inputs).notes)
    inputs[0, 0] = 0.0                                  # nor is what is beside a kink
    assert not blame(Steep(), inputs).right
