"""What a student wrote: what is right, what is manners, what may be used."""

from pathlib import Path

import pytest

from npdl_study.homework.assignment import homework
from tests.study.test_homework import solved, trouble


@pytest.mark.parametrize("name, forward, right, wrong, words", [
    ("Tanh", True, "xp.tanh(x)", "xp.tanh(2 * x)", "Tanh.forward: output y is wrong"),
    ("Tanh", True, "xp.tanh(x)", "xp.tanh(x)[:1]", "output y has shape (1, 4), not (3, 4)"),
    ("Tanh", True, "xp.tanh(x)", "xp.tanh(x, out=x)", "but x is written into, in place"),
    ("Tanh", True, "xp.tanh(x)", "xp.tanh(x.astype('float64'))", "is float64, not float32"),
    ("Tanh", False, "dx = dy", "dy *= 2; dx = dy / 2", "but dy is written into, in place"),
    ("Tanh", False, "dx = dy", "cache.y[...] *= 1.5; dx = dy", "the gradient of x is wrong"),
    ("Tanh", False, "dx = dy * (1 - y**2)", "x = xp.arctanh(y); h = 1e-5 if x.dtype == 'float64' "
     "else 1e-2; dx = dy * (xp.tanh(x + h) - xp.tanh(x - h)) / (2 * h)", "the gradient of x is"),
    ("LayerNorm", False, "dx_hat = dy * self.gain.data", "dy *= self.gain.data; dx_hat = dy",
     "but dy is written into, in place"),
    ("Linear", False, "self.b.grad +=", "self.b.grad =",
     "the gradients are right, but b.grad is set, which throws earlier gradients away. Gradients"),
    pytest.param("Linear", False, "self.b.grad +=", "self.b.grad = 2 *",
                 "the gradient of b is wrong", marks=pytest.mark.slow),
    ("Linear", False, "self.b.grad +=", "self.b.grad -= -1 *", ""),
    ("Linear", False, "self.b.grad += ", "self.b.grad = self.b.grad + ", ""),
    ("Embedding", False, "self.W.grad += sum_by_index(dy, ids, V)",
     "xp.add.at(self.W.grad, ids, dy)", ""),
    ("Linear", False, "self.b.grad += sum_rows(dy_rows)",
     "import numpy as np; np.add(self.b.grad, dy_rows.sum(0), out=self.b.grad)", ""),
    ("Linear", False, "self.b.grad += sum_rows(dy_rows)",
     "import numpy as np; db = np.zeros_like(self.b.data); "
     "db += dy_rows.sum(0); self.b.grad[...] = self.b.grad.copy() + db.reshape(self.b.shape)", ""),
    ("Linear", False, "self.b.grad +=", "if self.b.trainable: self.b.grad +=", ""),
    ("Linear", False, "sum_rows(dy_rows)", "dy.sum(0)", "(more axes; x ("),
    pytest.param("Softmax", False, "(dy * y).sum(-1,", "(dy * y).sum(1,", "softmax.py:",
                 marks=pytest.mark.slow),
    ("SequenceLoss", True, "right.all(1)", "right.any(1)", "output exact_match is wrong"),
    ("SinusoidalPositions", True, "% 2 == 0", "% 2 == 1", "output sinusoidal is wrong"),
    ("MultiHeadAttention", True, "self.num_heads, -1).swapaxes(1, 2)",
     "-1, self.num_heads).swapaxes(1, 2).swapaxes(1, 3).swapaxes(2, 3)", "MultiHeadAttention"),
])
def test_outputs_gradients_sizes_and_manners(tmp_path, monkeypatch, name, forward, right, wrong,
                                             words):
    """Two axes are not all: dy.sum(0) and axis=1 are right for these alone."""
    monkeypatch.chdir(tmp_path)
    made = homework(tmp_path, [name], forward=forward)
    (file,) = made.files
    good = solved(made, file)
    assert right in good
    said = trouble(made, name, good.replace(right, wrong))
    assert words in said and bool(words) == bool(said)


# What a student may write beside Linear.backward and use in it; the rest of the file is not run.
STYLES = """from __future__ import annotations
import torch, numpy as onp
from numpy import *
from fractions import Fraction
from typing import TYPE_CHECKING
from npdl.backend import xp
if TYPE_CHECKING:
    from numpy.typing import NDArray
try:
    from numpy import matrix_transpose as turned
except ImportError:
    turned = None
{}
ONE = 2
ONE = ONE + 1
ONE /= 3
TABLE = {{}}
TABLE["forward"] = float(Fraction(1))
for name in ("a", "b"):
    TABLE[name] = ONE
TABLE.update(c=1)
open = onp.multiply


def total(a: NDArray, how=sum_rows) -> NDArray:
    global ONE
    return how(a) * TABLE["forward"] * TABLE["a"] * TABLE["c"]


x = onp.ones((2, 3))
y, cache = Linear(3, 4).forward(x)
raise SystemExit("not run")
"""
STYLISH = """
    BOTH = TWICE = 2
    BOTH = BOTH / TWICE

    @property
    def half(self):
        return self.BOTH / self.TWICE

    def backward(self, dy: NDArray, cache) -> NDArray:
        rows, x, complex = cache.rows, dy.reshape(-1, self.W.shape[1]), 1
        self.W.grad += open(turned(rows) @ x, 2 * self.half) * complex
        for i, d in enumerate(transpose(x)):
            self.b.grad[i] += d.sum()
        self.b.grad += total(x) * 0
        return xp.matmul(x, self.W.data.T).reshape(cache.shape)
"""


def styled(text):
    """Linear.backward in the styles of STYLES, in the file as handed out."""
    head, _, rest = text.partition("    def backward")
    return STYLES.format(head.rstrip() + STYLISH + rest[rest.index("\n\ndef sum_rows"):])


def test_what_is_used_is_taken_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = homework(tmp_path, ["Linear"])
    text = styled(made.files["linear.py"])
    assert trouble(made, "Linear", text) == ""
    for used, words in (("torch.as_tensor(rows)", "imports torch: write it here"),
                        ("(1, rows, 1j)[1]", "uses 1j: derive it"),
                        ("eval('rows')", "uses eval: derive it"),
                        ("self.forward(rows)", "uses forward: derive it"),
                        ("getattr(self, 'forward')(rows)", "not written: forward is not in this")):
        assert words in trouble(made, "Linear", text.replace("turned(rows)", used)), used
    Path("handed_out.json").unlink()
    assert "put back what you were given" in trouble(made, "Linear", text)


@pytest.mark.parametrize("name, right, wrong, words", [
    pytest.param("DotAttention", "dq = scale * ", "dq = ", "the gradient of q is wrong",
                 marks=pytest.mark.slow),
    ("Linear", "dy_rows = ", "self.b.data = 0 * self.b.data; dy_rows = ", "b.data is written into"),
    pytest.param("Embedding", "ids == self.padding_id", "ids < 0",
                 "(padding_id=1)\n\nthe first wrong line", marks=pytest.mark.slow),
    ("Tanh", "y = cache.y\n", "y = cache.y.copy(); cache.y += 1\n", "cache.y is written into"),
    ("SequenceLoss", '[:, None] if self.reduction == "none" else dloss', "", "reduction='none')"),
])
def test_options_frozen_parameters_and_what_is_handed_in(tmp_path, monkeypatch, name, right, wrong,
                                                         words):
    monkeypatch.chdir(tmp_path)
    made = homework(tmp_path, [name])
    (file,) = made.files
    good = solved(made, file)
    assert good.count(right) == 1
    assert words in trouble(made, name, good.replace(right, wrong))


@pytest.mark.slow
def test_no_forward_makes_endless_gradients_right(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = homework(tmp_path, ["Tanh"])
    good = solved(made, "tanh.py")
    said = trouble(made, "Tanh", good.replace("dx = dy * (1 - y**2)", "dx = dy * 1e308"))
    assert "the gradient of x is wrong" in said and "right as it is" not in said
