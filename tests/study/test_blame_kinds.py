"""Kinds of mistakes that people made: each is mended on its line, and what is promised is true."""

import ast
import re

import pytest

from npdl_study.blame.blame import blame
from npdl_study.blame.edits import edits
from npdl_study.blame.scope import Scope
from npdl_study.check.gradcheck import gradcheck
from npdl_study.check.target import build
from tests.tools import slow

HEAD = """import numpy as np


def sig(a, slope=False):
    if slope:
        return a * (1 - a)
    return 1 / (1 + np.exp(-a))


def mine_sample():
    rng = np.random.default_rng(1)
    return SAMPLE


def mine_forward(x, w, t):
    FORWARD
    return y, (x, w, t, a, y)


def mine_backward(dy, cache):
    x, w, t, a, y = cache
    BACKWARD
"""
ARRAYS = "rng.normal(size=(3, 4)), rng.normal(size=4), rng.normal(size=(3, 4))"
# What forward and backward do, the mistake, its mend; None: it is told without one.
KINDS = [
    ("a = x * w; y = np.where(a > 0, a, np.exp(a) - 1)",
     "da = dy * (a > 0); return da * w, (da * x).sum(0), None",
     "dy * (a > 0)", r"dy \* np.where\(a > 0, 1, np.exp\(a\)\)"),
    ("a = sig(x * w); y = a * t", "da = dy * t * sig(a, True)\n"
     "    return da * w, (da * x).sum(0), dy * a", ", True", r"slope=True"),
    ("a = x * w; y = a * t", "da = dy * t\n    dx = da * w\n    dx = da * w * 0 + dx\n"
     "    return dx, (da * x).sum(0), dy * a", " + dx", r"dx"),
    ("a = x * w - t; y = (a ** 2).mean()", "da = dy * 2 * a / a.size\n"
     "    return da * w, (da * x).sum(0), None", "a.size", r"a.size|12"),
    ("a = x * w; y = a * t", "da = dy * t\n    dw = (da * x).sum(0)\n    return da * w, dw, dy * a",
     "return ", None),
    ("a = x * w; y = (a * t).astype('f')",
     "da = dy * t\n    return da * w, (da * x).sum(0), dy * a", "* w,", r"\* w"),
    ("a = x * w; y = a * t", "da = t\n    return da * w, (da * x).sum(0), dy * a", "DY", r"dy"),
]
WRONG = {"dy * (a > 0)": "dy * (a > 0)", ", True": "", " + dx": "", "a.size": "len(a)",
         "return ": "", "* w,": ",", "DY": "DY"}


def built(folder, forward, backward, name="mine"):
    path = folder / f"{name}.py"
    path.write_text(HEAD.replace("SAMPLE", ARRAYS).replace("FORWARD", forward.replace(
        "; ", "\n    ")).replace("BACKWARD", backward.replace("; ", "\n    ")))
    return build(f"{path}:mine"), path.read_text().splitlines()


@pytest.mark.parametrize(("forward", "backward", "part", "mend"),
                         slow.but(KINDS[1:2], KINDS, tuple))
def test_a_kind_is_mended(forward, backward, part, mend, tmp_path):
    (layer, inputs, options), lines = built(
        tmp_path, forward, backward.replace(part, WRONG[part]))
    report = blame(layer, *inputs, **options)
    if mend is None:
        assert report.kind == "lost" and lines[report.line - 1].strip() == "da * w, dw, dy * a"
        return
    assert re.search(mend, report.new) and "every gradient is right" in report.diagnosis, report
    line = lines[report.line - 1]
    lines[report.line - 1] = line[: len(line) - len(line.lstrip())] + report.new
    path = tmp_path / "mended.py"
    path.write_text("\n".join(lines) + "\n")
    layer, inputs, options = build(f"{path}:mine")
    assert gradcheck(layer, *inputs, **options).ok()


@pytest.mark.slow
def test_of_two_mistakes_in_a_row_both_are_named(tmp_path):
    (layer, inputs, options), lines = built(
        tmp_path, "a = np.tanh(x * w); y = a * t",
        "da = dy * t; dz = da * (1 - a); dx = dz * x; dw = (dz * x).sum(0); return dx, dw, dy * a")
    report = blame(layer, *inputs, **options)
    assert lines[report.line - 1].strip().startswith(("dz =", "dx ="))
    assert {report.line, report.second} == {n for n, line in enumerate(lines, 1)
                                            if line.strip().startswith(("dz =", "dx ="))}, report


def test_what_forward_never_reads_is_named(tmp_path):
    (layer, inputs, options), lines = built(
        tmp_path, "a = x * t; y = a + 0", "return dy * w, (dy * x).sum(0), dy * 0")
    report = blame(layer, *inputs, **options)
    assert lines[report.line - 1].strip() == "a = x * t" and report.new == "a = x * w", report


@pytest.mark.slow
def test_a_line_that_nothing_reads_is_not_the_first_wrong_one(tmp_path):
    (layer, inputs, options), lines = built(
        tmp_path, "m = x.mean(-1, keepdims=True); s = np.sqrt(((x - m)**2).mean(-1, keepdims=True)"
        " + 1e-5); a = (x - m) / s; y = a * w + t",
        "s = np.sqrt(x.var(-1, keepdims=True) + 1e-5); da = dy * w; "
        "shift = da.mean(-1, keepdims=True); dx = da / s; return dx, (dy * a).sum(0), dy")
    report = blame(layer, *inputs, **options)
    assert lines[report.line - 1].strip() == "dx = da / s" and not report.second, report


@pytest.mark.parametrize("call", ["np.ones(x.shape)", "np.arange(n)", "np.zeros((n, m))"])
def test_a_size_is_changed_for_another_size_alone(call):
    """Of a shape times a number NumPy would make an array of more axes than memory."""
    scope = Scope(["x", "dy"], ["n", "m", "scale"], ["n", "m"], shapes={"x.shape", "dy.shape"})
    found = [ast.unparse(edit.new) if isinstance(edit.new, ast.AST) else edit.new
             for edit in edits(ast.parse(f"d = {call} * dy").body[0], scope)
             if edit.part is not None and ast.unparse(edit.part) in ("x.shape", "n", "(n, m)")]
    assert found and not [new for new in found if re.search(r"[*/]|scale|dy$|\bx\b(?!\.)", new)]
