"""Formulas of lines of code, as step shows them."""

import ast
from xml.dom import minidom

import pytest

from npdl.study.check.samples import find_layer_classes
from npdl.study.step import maths
from npdl.study.trace.statements import make_watched_function


@pytest.mark.parametrize(("code", "formula"), [
    ("dx = dx - x_hat * along_x", "dx = dx − x\u0302 ⊙ along_x"),
    ("self.W.grad += cache.rows.T @ dy_rows", "dW += rowsᵀ dy_rows"),
    ("rstd = 1 / xp.sqrt(var + self.eps)", "rstd = 1 / √(var + ε)"),
    ("dx = xp.multiply(dx, rstd, out=dx)", "dx = dx ⊙ rstd"),
    ("y = a - (b - c)", "y = a − (b − c)"), ("y = a / (b * c)", "y = a / (b ⊙ c)"),
    ("y = -(a + b)", "y = −(a + b)"), ("db = dz.sum(0)", "db = Σ_0 dz"),
    ("loss = reduce_loss(sum_without_overflow(e * e, -1), r)", "loss = reduce(Σ (e ⊙ e), r)"),
    ("y = np.dot(x, self.W) + x.dot(U)", "y = x W + x U"), ("y = x ** 2", "y = x²"),
    ("y, cache = self.f.forward(x)", "y = f(x)"), ("x_hat, rstd = cache.x_hat, cache.rstd", ""),
    ("rows = y.reshape(-1, D)", "rows = y"), ("z_i, z_f = xp.split(z, 2, -1)", "[z_i, z_f] = z"),
    ("dz = xp.concatenate([dz_i, dz_f], -1)", "dz = [dz_i, dz_f]"),
    ("shift = dx_hat.mean(-1, keepdims=True)", "shift = mean dx\u0302"),
    ("dh = dy[:, t]", "dh = dy[:, t]"), ("y = x[..., None]", "y = x"),
    ("dx = W[:, n:].T @ dy", "dx = W[:, n:]ᵀ dy"), ("y = x[..., :n] * 2", "y = x[..., :n] · 2"),
    ("z = xp.zeros(shape, dtype) * parts", ""),
    ("dc = dh * (1 - tanh_c * tanh_c)", "dc = dh ⊙ (1 − tanh(c) ⊙ tanh(c))"),
    ("state = new if valid is None else make_selector(new)", "")])
def test_a_line_of_code_is_written_as_a_formula(code, formula):
    node = ast.parse(code).body[0]
    assert maths.format_formula(node) == formula


def test_a_transpose_or_a_power_is_not_part_of_an_index():
    node = ast.parse("dx = W_x.T + h_prev ** 2").body[0]
    assert maths.format_html_formula(node) == "dx = W<sub>x</sub>ᵀ + h<sub>prev</sub>²"


def test_formulas_of_npdls_layers_are_well_formed():
    for cls in find_layer_classes().values():
        for name in ("forward", "backward"):
            found = make_watched_function(getattr(cls, name).__code__)
            for statement in found.statements if found else ():
                minidom.parseString(f"<p>{maths.format_html_formula(statement.node)}</p>")
