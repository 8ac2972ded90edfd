"""Mistakes that no value of a line tells: what begins with something, is stored elsewhere, has
its axes in another order or another array's shape; each is mended on its line."""

import pytest

from npdl_study.blame.blame import blame
from npdl_study.check.gradcheck import gradcheck
from npdl_study.check.target import build
from tests.tools import slow

HEAD = """import numpy as np


def mine_sample():
    rng = np.random.default_rng(1)
    return rng.normal(size=(2, 3, 4)), rng.normal(size=(4, 4))


def less(grad, shape):
    while grad.ndim > len(shape):
        grad = grad.sum(0)
    return grad


def mine_forward(x, w):
    h = np.tanh(x @ w)
    return FORWARD, (x, w, h)


def mine_backward(dy, cache):
    x, w, h = cache
    BACKWARD
"""
PLAIN = ("dx, dw = np.zeros_like(x), np.zeros_like(w)", "dh = dy * (1 - h ** 2)", "dx += dh @ w.T",
         "for i in range(len(x)):", "    dw += x[i].T @ dh[i]", "return dx, dw")
RETURNED = ("dh = dy * (1 - h ** 2)", "back = {'x': dh @ w.T}",
            "back.update({'w': (x.swapaxes(1, 2) @ dh).sum(0)})", "return back['x'], back['w']")
TURNED = ("dh = dy * (1 - h ** 2)", "dx = dh @ w.T", "dw = (x.swapaxes(1, 2) @ dh).sum(0)",
          "return dx, dw")
SHAPED = ("dx = (dy * w).sum(2)", "dw = less(dy * x[:, :, None], w.shape)", "return dx, dw")
# Lines of a backward, one of them as it was written wrong, and forward.
WRONG = {
    "begins with a copy": (PLAIN, 0, "dx, dw = np.copy(x), np.zeros_like(w)", "h"),
    "begins with nothing": (PLAIN, 0, "dx, dw = np.zeros_like(x), np.empty(w.shape)", "h"),
    "stored in the cache": (PLAIN, 2, "x[...] = dh @ w.T", "h"),
    "stored in another gradient": (PLAIN, 4, "    dx += x[i].T @ dh[i]", "h"),
    "time first": (TURNED, 1, "dx = (dh @ w.T).transpose(1, 0, 2)", "h"),
    "in a dict": (RETURNED, 2, "back.update({'w': (x.swapaxes(1, 2) @ dy).sum(0)})", "h"),
    "another's shape": (SHAPED, 1, "dw = less(dy * x[:, :, None], x.shape)", "x[:, :, None] * w"),
}


@pytest.mark.parametrize("case", slow.but(list(WRONG)[:1], WRONG))
def test_a_kind_is_mended_on_its_line(case, tmp_path):
    lines, at, line, forward = WRONG[case]
    body = [*lines[:at], line, *lines[at + 1 :]]
    path = tmp_path / "mine.py"
    text = HEAD.replace("FORWARD", forward).replace("BACKWARD", "\n    ".join(body))
    path.write_text(text)
    layer, inputs, _ = build(f"{path}:mine")
    report = blame(layer, *inputs)
    assert report.source.strip() == line.strip(), report
    assert "every gradient is right" in report.diagnosis, report
    path = tmp_path / "mended.py"
    path.write_text(text.replace(line.strip(), report.new))
    layer, inputs, _ = build(f"{path}:mine")
    assert gradcheck(layer, *inputs).ok()
