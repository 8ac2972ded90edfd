"""Where a layer's code may stand, and what blame says beside the line."""

import linecache

import numpy as np
import pytest

from npdl.core import Cache, Layer, Param
from npdl.layers.linear import Linear
from npdl_study.blame.blame import blame
from npdl_study.check.subjects import Subject
from npdl_study.trace.oracle import Oracle
from npdl_study.trace.runs import Runs

X = np.random.default_rng(1).standard_normal((3, 4))
TEXT = '''
class Net(Layer):
    def __init__(self):
        self.W = Param(np.random.default_rng(0).standard_normal((4, 4)))

    def forward(self, x):
        z = x @ self.W.data
        h = np.tanh(z)
        return h, Cache(x=x, h=h)

    def backward(self, dh, cache):
        dz = dh * (1 + cache.h * cache.h)
        self.W.grad += cache.x.T @ dz
        return dz @ self.W.data.T
'''


def made(text, name):
    """The class of a text that is run as the cell of a notebook is, or from no file at all."""
    space = {"np": np, "Cache": Cache, "Layer": Layer, "Param": Param}
    if name:
        linecache.cache[name] = len(text), None, text.splitlines(True), name
    exec(compile(text, name or "<string>", "exec"), space)
    return space


def test_a_cell_and_a_class_in_a_function():
    inside = "def make():\n" + "\n".join("    " + line for line in TEXT.splitlines()) \
        + "\n    return Net\n"
    for text, line in ((TEXT, 12), (inside, 13)):
        space = made(text, f"<cell {line}>")
        cls = space["Net"] if "Net" in space else space["make"]()
        report = blame(cls(), X)
        assert report.line == line and "1 - cache.h * cache.h" in report.new, str(report)


def test_a_name_that_is_bound_again():
    space = made(TEXT + TEXT.replace("1 + cache", "1 - cache"), "<cell again>")
    assert blame(space["Net"](), X).right
    layer = made(TEXT.replace("1 + cache", "1 - cache") + TEXT, "<cell third>")["Net"]()
    assert blame(layer, X).line == 12 + TEXT.count("\n")


def test_without_source_it_is_wrong_all_the_same():
    report = blame(made(TEXT, "")["Net"](), X)
    assert not report.right and not report.line and "no source could be had" in str(report)


def test_what_is_never_used_and_what_forward_may_be():
    wrong = TEXT.replace("h = np.tanh(z)", "h = np.tanh(z) + x").replace(
        "1 + cache.h * cache.h", "1 - np.tanh(cache.x @ self.W.data)**2").replace(
        "return dz @ self.W.data.T", "dk = dz * 2\n        return dz @ self.W.data.T - dh")
    report = blame(made(wrong, "<cell forward>")["Net"](), X)
    assert report.source == "return dz @ self.W.data.T - dh"
    assert "dk is computed and never used" in str(report)
    assert "or forward computes something else: with `h = np.tanh(z) - x`" in str(report)


class Seeded(Layer):
    """y = (x + seed) W: a forward with an argument of its own called seed."""

    def __init__(self):
        self.linear = Linear(4, 4)

    def forward(self, x, seed):
        y, c = self.linear.forward(x + seed)
        return y, Cache(c=c)

    def backward(self, dy, cache):
        return self.linear.backward(dy, cache.c)


def test_an_argument_that_is_called_seed():
    assert blame(Seeded(), X, seed=3).right


def test_every_use_of_a_value_has_its_own_gradient():
    space = made(TEXT.replace("h = np.tanh(z)", "h = np.tanh(z) * z").replace(
        "1 + cache.h * cache.h", "cache.h"), "<cell uses>")
    subject = Subject(space["Net"](), (X,))
    runs = Runs(subject, subject.dout)
    with runs.watch:
        oracle = Oracle(runs)
        z, *_ = (k for k in oracle.values if oracle.given_to(k) == "z")
        uses = [k for k in oracle.values if runs.watch.places[k[0]].text == "z"
                and not runs.watch.places[k[0]].root]
        assert len(uses) == 2
        total = sum(oracle.gradient(k) for k in uses)
        assert oracle.gradient(z) == pytest.approx(total, rel=1e-7)
        assert oracle.name(oracle.gradient(uses[0])) and oracle.is_named("z", total)
        assert not oracle.name(total + 1e-3)
