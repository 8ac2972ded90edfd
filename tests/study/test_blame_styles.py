"""Styles of layers that are no npdl Layers: what blame compares there, and which line it names."""

import pytest

from npdl_study.blame.blame import blame
from npdl_study.check.target import build

CLOSURE = '''import numpy as np


def scaled_sample():
    return np.linspace(-1, 1, 6).reshape(2, 3), np.linspace(0.5, 1, 3)


def scaled_forward(x, w):
    y = np.tanh(x) * w

    def backward(dy):
        dt = dy * w
        dx = dt * (1 - np.tanh(x))
        return dx, (dy * np.tanh(x)).sum(0)

    return y, backward
'''
NAMED = '''import numpy as np


def product_sample():
    return np.linspace(-1, 1, 6).reshape(2, 3), np.linspace(0.5, 1, 3)


def product_forward(x, w):
    return x * w, (x, w)


def product_backward(dy, cache):
    x, w = cache
    return {"w": (dy * x).mean(0), "dx": dy * w}
'''
ENGINEER = '''from dataclasses import dataclass

import numpy as np


@dataclass
class Weight:
    data: np.ndarray
    grad: np.ndarray = None

    def add(self, g):
        self.grad = g if self.grad is None else self.grad + g


@dataclass
class Record:
    x: np.ndarray


class Dense:
    def __init__(self, W):
        self.W = Weight(W)

    @classmethod
    def sample(cls):
        rng = np.random.default_rng(0)
        return cls(rng.normal(size=(3, 2))), (rng.normal(size=(4, 3)),)

    def forward(self, x):
        return x @ self.W.data, Record(x)

    def backward(self, dy, record):
        self.W.add(record.x.T @ dy)
        return self._to_input(dy)

    def _to_input(self, dy):
        return -dy @ self.W.data.T
'''
IN_SELF = '''import numpy as np


class Scale:
    def __init__(self, W):
        self.W, self.NAME = W, np.zeros_like(W)

    @classmethod
    def sample(cls):
        return cls(np.array([0.5, 2.0, -1.0])), (np.linspace(-1, 1, 6).reshape(2, 3),)

    def forward(self, x):
        self.x = x
        return x * self.W

    def backward(self, dy):
        self.NAME += (dy * self.x).sum(0) * 2
        return dy * self.W
'''
OPTIONAL = '''import numpy as np
from npdl import Layer, Param


class Gain(Layer):
    def __init__(self):
        self.w = Param(np.ones(3))

    @classmethod
    def sample(cls):
        return cls(), (np.linspace(-1, 1, 6).reshape(2, 3),)

    def forward(self, x):
        self.x = x
        return x * self.w.data, None

    def backward(self, dy, cache=None):
        self.w.grad -= (dy * self.x).sum(0)
        return dy * self.w.data
'''


def asked(tmp_path, text, name):
    path = tmp_path / f"style_{abs(hash(text))}.py"
    path.write_text(text)
    layer, inputs, options = build(f"{path}:{name}")
    return blame(layer, *inputs, **options)


@pytest.mark.slow
@pytest.mark.parametrize(("text", "name", "slip", "right"), [
    (CLOSURE, "scaled_forward", "(1 - np.tanh(x))", "(1 - np.tanh(x) ** 2)"),
    (NAMED, "product", ".mean(0)", ".sum(0)"),
    (ENGINEER, "Dense", "return -dy @", "return dy @"),
    (IN_SELF.replace("NAME", "grad_W"), "Scale", ".sum(0) * 2", ".sum(0)"),
    (IN_SELF.replace("NAME", "d_W"), "Scale", ".sum(0) * 2", ".sum(0)"),
    (OPTIONAL, "Gain", "grad -=", "grad +="),
])
def test_its_line_is_named_and_the_right_one_passes(tmp_path, text, name, slip, right):
    report = asked(tmp_path, text, name)
    assert report.line == 1 + text[: text.index(slip)].count("\n"), report
    assert asked(tmp_path, text.replace(slip, right), name).right


def test_a_gradient_that_nobody_compares_is_told(tmp_path):
    report = asked(tmp_path, IN_SELF.replace("NAME", "slope_of_W"), "Scale")
    assert report.kind == "unchecked" and "self.slope_of_W" in str(report)
