"""What gradcheck sees beside wrong gradients: how a backward treats what it is handed."""

import numpy as np
import pytest

from npdl.core import Cache, Layer, Param
from npdl_study.check.gradcheck import gradcheck

x = np.random.default_rng(0).standard_normal((3, 4))


class Sinner(Layer):
    """y = x W, with a chosen sin of its backward."""

    def __init__(self, sin):
        self.sin = sin
        self.W = Param(np.eye(4) * 1e-11 if sin == "tiny" else np.eye(4))

    def forward(self, x):
        self.x = x.copy()
        scale = 1e-11 if self.sin == "tiny" else 1.0
        return scale * (x @ self.W.data), Cache(x=x, times=[], scale=scale)

    def backward(self, dy, cache):
        dy_, sin = dy * cache.scale, self.sin
        if sin == "strides":
            dy_ = np.lib.stride_tricks.as_strided(dy_ if dy.flags.c_contiguous else dy, strides=(
                dy.itemsize * dy.shape[1], dy.itemsize))    # reads the memory as it comes
            dy_ = np.nan_to_num(dy_)
        x = self.x if sin == "self" else cache.x
        self.W.grad += x.T @ dy_
        dx = dy_ @ self.W.data.T
        if sin == "dy":
            dy *= 0.5
        if sin == "x":
            cache.x[...] = 0
        if sin == "W":
            self.W.data[...] = 0
        cache.times.append(1)
        if sin == "twice" and len(cache.times) > 1 or sin == "float32" and dx.dtype == np.float32:
            dx = 2 * dx
        return dx


@pytest.mark.parametrize(("sin", "words"), [
    ("strides", "is wrong when the upstream gradient is not contiguous"),
    ("dy", "changes the gradient that it is handed in place"),
    ("x", "changes input x in place"),
    ("W", "changes parameter W in place"),
    ("twice", "input x is wrong when it runs a second time on one cache"),
    ("self", "W is wrong when forward ran again in between"),
    ("float32", "input x is wrong when all is float32 (right in float64)"),
])
def test_each_is_caught(sin, words):
    report = gradcheck(Sinner(sin), x)
    assert words in str(report) and not report.ok() and report.worst == np.inf


def test_without_a_sin_there_is_no_fault_and_numbers_too_small_are_said():
    report = gradcheck(Sinner(""), x)
    assert report.ok() and not report.faults, report
    report = gradcheck(Sinner("tiny"), x)
    assert report.right is None and not report.ok()
    assert "W         not checkable here: rounding hides it" in str(report)


class Three(Layer):
    """Three outputs; wrong when exactly two of them are used."""

    def forward(self, x):
        return (x, 2 * x, 3 * x), Cache(x=x)

    def backward(self, douts, cache):
        used = [k * d for k, d in enumerate(douts, 1) if d is not None]
        return sum(used) * (2 if len(used) == 2 else 1)


def test_two_of_three_outputs():
    report = gradcheck(Three(), x)
    assert not report.ok() and "with output 0 and 1 used alone" in str(report)
