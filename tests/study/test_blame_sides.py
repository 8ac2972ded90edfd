"""What a right verdict did not reach: choices that take one side only; lines that blame can't tell
apart."""

import re

import pytest

from npdl_study.blame.blame import blame
from npdl_study.check.samples import sample
from npdl_study.check.target import build

FILE = """import numpy as np


def net_sample():
    return np.linspace(-0.3, 0.4, 6).reshape(2, 3),


def net_forward(x):
    return {forward}, (x,)


def net_backward(dy, cache):
    x, = cache
    return {backward}
"""


def said(folder, forward, backward):
    name = "net" + re.sub(r"[^a-z0-9]", "_", f"{forward}{backward}")
    (folder / f"{name}.py").write_text(FILE.format(forward=forward, backward=backward))
    layer, inputs, options = build(f"{folder / name}.py:net")
    return blame(layer, *inputs, **options)


@pytest.mark.slow
def test_a_clip_that_cuts_nothing_is_tried_at_larger_inputs(tmp_path):
    report = said(tmp_path, "np.clip(x, -1, 1)", "dy")
    assert not report.right and report.line == 14
    assert "line 9, `np.clip(x, -1, 1)` never clips from above and never clips from below" in str(
        report) and "wrong with every float input times 10" in str(report)
    report = said(tmp_path, "np.clip(x, -1, 1)", "dy * (np.abs(x) < 1)")
    assert report.right and str(report).startswith("right: 1 gradients") and not report.unreached


@pytest.mark.parametrize("forward, backward, words", [
    ("np.clip(np.tanh(x), -2, 2)", "dy * (1 - np.tanh(x)**2)",
     "py:9, `np.clip(np.tanh(x), -2, 2)` never clips from above and never clips from below here"),
    ("np.where(np.tanh(x) > 3, x**2, x)", "dy", "`np.tanh(x) > 3` is never True here"),
    *(pytest.param(*case, marks=pytest.mark.slow) for case in (
        ("np.maximum(np.exp(x), -1)", "dy * np.exp(x)",
         "is never larger in its second argument here"),
        ("np.abs(np.exp(x))", "dy * np.exp(x)", "meets no number below 0 here"))),
    ("x if np.tanh(x).max() < 4 else x**2", "dy", "`np.tanh(x).max() < 4` is never False here"),
])
def test_what_no_scaled_input_reaches_is_said(forward, backward, words, tmp_path):
    report = said(tmp_path, forward, backward)
    first = str(report).splitlines()[0]
    assert report.right and first.startswith("right at these inputs; not reached: ")
    assert words in first and first.endswith("; give inputs that do")


@pytest.mark.parametrize("forward, backward", [
    ("np.log(np.maximum(np.exp(x), 1e-12))", "dy"),     # guards against log(0)
    ("np.maximum(x, 0)", "dy * (x > 0)"), ("np.abs(x)", "dy * np.sign(x)")])
def test_what_is_reached_and_what_only_guards_is_right(forward, backward, tmp_path):
    report = said(tmp_path, forward, backward)
    assert report.right and str(report).startswith("right: "), str(report)


def test_npdls_own_layers_are_plainly_right():
    from npdl import ReLU, Softmax
    for cls in (ReLU, Softmax):
        layer, inputs, options = sample(cls)
        assert str(blame(layer, *inputs, **options)).startswith("right: ")


def test_code_that_cannot_be_rewritten_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr("npdl_study.blame.no_fault.choices_of", lambda subject: 1 / 0)
    report = said(tmp_path, "2 * x", "2 * dy")
    assert report.right and "was not looked at: ZeroDivisionError" in str(report)


@pytest.mark.slow
def test_one_of_the_lines_that_could_mend_it_is_named(tmp_path):
    text = FILE.replace("    return {backward}", "    dx = dy * 2\n    dx[:, 1:] += dy[:, :-1]\n"
                        "    return dx")
    past = "np.concatenate([np.zeros((2, 1)), x[:, :-1] * x[:, 1:]], 1)"
    text = text.format(forward=f"2 * x + {past}")
    (tmp_path / "either.py").write_text(text)
    layer, inputs, options = build(f"{tmp_path / 'either.py'}:net")
    report = blame(layer, *inputs, **options)
    assert report.line in (14, 15), str(report)


REACHED = '''import numpy as np


class Table:
    def __init__(self):
        self.W = np.random.default_rng(0).normal(size=(6, 3))

    @classmethod
    def sample(cls):
        return cls(), np.array([0, 3, 2])

    def forward(self, ids):
        self.ids = ids
        return self.W[ids]

    def backward(self, dy):
        self.dW = np.zeros_like(self.W)
        self.dW[self.ids] += dy                         # wrong


class Steps:
    def __init__(self):
        self.U = np.random.default_rng(0).normal(size=(3, 3))

    @classmethod
    def sample(cls):
        return cls(), np.random.default_rng(1).normal(size=(2, 1, 3))

    def forward(self, x):
        self.hs = [np.zeros((len(x), 3))]
        for t in range(x.shape[1]):
            self.hs.append(np.tanh(x[:, t] + self.hs[-1] @ self.U))
        return np.stack(self.hs[1:], 1)

    def backward(self, dy):
        dx, self.dU, dh = np.zeros_like(dy), np.zeros((3, 3)), 0
        for t in reversed(range(dy.shape[1])):
            dz = (dy[:, t] + dh) * (1 - self.hs[t + 1] ** 2)
            self.dU += self.hs[t].T @ dz
            dx[:, t] = dz
            dh = dz @ self.U                            # wrong
        return dx


class Bias:
    def __init__(self):
        self.b = np.ones(3)

    @classmethod
    def sample(cls):
        return cls(), np.random.default_rng(1).normal(size=(1, 3))

    def forward(self, x):
        return x + self.b

    def backward(self, dy):
        self.db = dy[0]                                 # wrong
        return dy
'''


@pytest.mark.parametrize(("name", "mend", "how"), [
    ("Table", ("self.dW[self.ids] += dy", "np.add.at(self.dW, self.ids, dy)"), "a repeated id"),
    pytest.param("Steps", ("dz @ self.U  ", "dz @ self.U.T"), "a second time step",
                 marks=pytest.mark.slow),
    ("Bias", ("= dy[0]", "= dy.sum(0)"), "a second row")])
def test_what_the_sample_lacks_is_drawn(name, mend, how, tmp_path):
    path = tmp_path / f"{name.lower()}_lacking.py"
    path.write_text(REACHED)
    layer, inputs, options = build(f"{path}:{name}")
    report = blame(layer, *inputs, **options)
    line = 1 + REACHED[: REACHED.index(mend[0])].count("\n")
    assert report.line == line and f"wrong with {how}" in str(report), report
    path = tmp_path / f"{name.lower()}_mended.py"
    path.write_text(REACHED.replace(*mend))
    layer, inputs, options = build(f"{path}:{name}")
    assert blame(layer, *inputs, **options).right
