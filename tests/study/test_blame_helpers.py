"""Mistakes in what a backward calls: lambdas, helpers of the student's own, and calls of these."""

import re

import pytest

from npdl_study.blame.blame import blame
from npdl_study.check.gradcheck import gradcheck
from npdl_study.check.target import build
from tests.tools import slow

HEAD = """import numpy as np


def mine_sample():
    rng = np.random.default_rng(1)
    return rng.normal(size=(3, 4)), rng.normal(size=(3, 4))


def total(x, axis=None):
    for i in range(1):
        y = x.sum(axis)
    return y


def slope(a, b=2.0):
    return SLOPE


"""
CLOSED = "def mine_forward(x, w):\n    y = x * np.tanh(w)\n    return y, "
OPEN = ("def mine_forward(x, w):\n    y = FORWARD\n    return y, (x, w, y)\n\n\n"
        "def mine_backward(dy, cache):\n    x, w, y = cache\n    return BACKWARD\n")
# Mistakes, the source of the line that is named, and what is said.
WRONG = {
    "a list of lambdas": (
        CLOSED + "[lambda g: g * np.tanh(w), lambda g: g * x]\n", "",
        "return y, [lambda", r"lambda g: g \* x [-*]"),
    "a dict of lambdas": (
        CLOSED + "{'x': lambda g: np.tanh(w), 'w': lambda g: g * x * (1 - np.tanh(w) ** 2)}\n", "",
        "return y, {", "factor"),
    "what is written in the helper": (
        OPEN.replace("FORWARD", "np.log(1 + np.exp(x)) * w").replace(
            "BACKWARD", "dy * w * slope(x), dy * np.log(1 + np.exp(x))"),
        "np.where(a > 20, 1, 1 / (1 + np.exp(-2 * a) + a ** 2))", "return np.where(a > 20", ""),
    "an argument that is left out": (
        OPEN.replace("FORWARD", "x.sum(1) * w.sum(1)").replace(
            "BACKWARD", "dy[:, None] * w.sum(1)[:, None] + 0 * x, "
                        "(dy * total(x))[:, None] + 0 * w"), "a", "return dy[:", "axis=1|axis=-1"),
}
RAISING = OPEN.replace("FORWARD", "(x * w).sum(0)").replace("    return BACKWARD\n", "")
# Backwards that raise, the source of the line before that is named, and what is said.
EARLIER = {
    "what a helper was handed": (
        "def rows(d, x):\n    return d[:, :1] * x + d[:, 1:2] * x ** 2\n\n\n" + RAISING +
        "    dx = rows(dy * 2, w)\n    return dx, dx\n", "dx = rows(dy * 2, w)", "line 20 raises"),
    "the upstream in another shape": (
        RAISING + "    dy = dy.reshape(2, 2)\n    dx = np.exp(np.where(w > 0, dy, x))\n"
                  "    return dx, dx\n", "dy = dy.reshape(2, 2)", r"line 27 raises.* dy \(2, 2\)"),
    "an array of forward's in another shape": (
        RAISING.replace("    y = ", "    big = np.pad(x, 2)\n    y = big.sum() * ") +
        "    big = np.pad(x, 1)\n    part = np.log(np.abs(big[2:6]))\n"
        "    dx = np.exp(part * np.ones((4, 8)))\n    return dx, dx\n",
        "big = np.pad(x, 1)", r"line 29 raises.* part \(3, 6\)"),
    "an index beyond the axis": (
        RAISING + "    dx = np.zeros_like(x)\n    for i in range(3):\n        at = 2 + i // 1\n"
                  "        dx[at] = dx[at] + w[at] ** 3 * np.tanh(dy)\n    return dx, dx\n",
        "at = 2 + i", "line 29 raises"),
}


def built(folder, text, slope):
    path = folder / "mine.py"
    path.write_text(HEAD.replace("SLOPE", slope or "a") + text)
    layer, inputs, _ = build(f"{path}:mine")
    return layer, inputs


@pytest.mark.parametrize("case", slow.but(list(WRONG)[:1], WRONG))
def test_what_a_backward_calls_is_named_where_it_is_wrong(tmp_path, case):
    text, slope, source, says = WRONG[case]
    layer, inputs = built(tmp_path, text, slope)
    report = blame(layer, *inputs)
    assert report.source.startswith(source), report
    assert re.search(says, report.diagnosis), report


@pytest.mark.slow
@pytest.mark.parametrize("case", EARLIER)
def test_of_a_backward_that_raises_the_line_before_is_named(tmp_path, case):
    text, source, says = EARLIER[case]
    layer, inputs = built(tmp_path, text, "")
    report = blame(layer, *inputs)
    assert report.source.startswith(source) and not report.new, report
    assert re.search(says, report.diagnosis), report


def test_gradcheck_says_where_a_backward_raises(tmp_path):
    layer, inputs = built(tmp_path, OPEN.replace("FORWARD", "x * w").replace(
        "BACKWARD", "dy @ w, dy * x"), "")
    report = gradcheck(layer, *inputs)
    assert report.right is False and not report.ok()
    assert re.search(r"backward raised ValueError: .* at mine.py:26", str(report)), report
