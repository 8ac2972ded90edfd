"""Evaluate TeX: equations that hold, equations that don't, and TeX that is no equation."""

import numpy as np
import pytest

from docs.book.equations.holds import Equation
from docs.book.equations.tex import NotRead

rng = np.random.default_rng(3)
x, W, b = (rng.standard_normal(shape) for shape in [(5, 3), (3, 4), 4])


@pytest.mark.parametrize("tex, names", [
    (r"y_{ne} = \sum_k x_{nk} W_{ke} + b_e", {"y": x @ W + b}),
    (r"dW = x^\top dy, \qquad db = \sum_n dy_n", {
        "dy": x @ W, "dW": x.T @ (x @ W), "db": (x @ W).sum(0)}),
    (r"\mathrm{sum} = \sum_{t=1}^{T} g_t", {"T": 3, "g": lambda t: t * t, "sum": 14.0}),
    (r"\sigma'(0) = \frac{1}{4}, \quad \sigma(0) = \frac{1}{2}", {
        "sigma_prime": lambda v: 0.25 + 0 * v}),
    (r"s = \begin{cases} b + 1 & b \ge 0 \\ 1 / (1 - b) & b < 0 \end{cases}", {
        "s": np.where(b >= 0, b + 1, 1 / (1 + np.abs(b)))}),
    (r"y_n = a_{2n}", {"y": np.array([1.0, 3.0]), "a": np.array([1.0, 2.0, 3.0])}),
    (r"y = \sum_{k < w} a_k", {"y": 3.0, "w": 2, "a": np.array([1.0, 2.0, 4.0])}),
])
def test_it_holds_and_a_millionth_off_it_does_not(tex, names):
    around = {"x": x, "W": W, "b": b}
    equation = Equation(tex, around)
    assert equation(names) and equation.evaluated == set(range(1, len(equation.statements) + 1))
    assert equation.close.worst < 1e-14
    if "=" in tex or "leftarrow" in tex:
        name = next((n for n in names if isinstance(names[n], np.ndarray) and names[n].any()), None)
        if name:
            with pytest.raises(AssertionError, match="does not hold"):
                Equation(tex, around)({**names, name: names[name] * (1 + 1e-6)})


@pytest.mark.parametrize("tex, said", [
    ("x W", "no relation"), (r"y = \text{for every } x", "has no value"),
    (r"y = (x W", "is missing"), (r"y = \sum_{k} 1", "is unknown: give it"),
    (r"y = x + W^\top", "the transpose of an array with 1 axes"),
    (r"y = \sum_n^\top x_n", "needs both a start and an end"), ("y = l_{0-1}", "l has no entry -1"),
    ("y = |x, b|", "contain one expression"),
    ("y_n = x_n + x_y", "y is an index, but also has an index"),
    (r"\frac{\partial x_j}{\partial y_k} = W_{jk}", "the range of k is unknown"),
    (r"z = \begin{cases} 1 & x \ge 0 \\ 2 & x < 1 \end{cases}", "belongs to no case, or to two"),
])
def test_invalid_equations_raise(tex, said):
    with pytest.raises(NotRead, match=said):
        Equation(tex, {"x": x, "y": x, "W": b, "z": x, "f": lambda u: x, "l": [x, x]})()


def test_a_bound_records_tight_and_strict_cases():
    bound = Equation(r"a \le b")
    assert bound(a=1.0, b=2.0) and bound.bounds == {"1.1": {"strict"}}
    assert bound(a=2.0, b=2.0) and bound.bounds == {"1.1": {"strict", "tight"}}
    below = Equation(r"a < 1.21")
    assert below(a=1.0) and below.bounds == {"1.1": {"strict"}}
    assert below(a=1.2) and below.bounds == {"1.1": {"strict", "tight"}}
    assert Equation(r"\sin a \le 1")(a=np.array([0.0, np.pi / 2]), tight=True)
    with pytest.raises(AssertionError, match="nowhere equal"):
        Equation(r"\sin a \le 1")(a=np.array([0.0, 1.0]), tight=True)


def test_a_printed_number_is_the_value_to_its_last_place():
    assert Equation(r"a \approx -1.41")(a=-np.sqrt(2))
    with pytest.raises(AssertionError, match="-1.414214 is not -1.42, rounded"):
        Equation(r"a \approx -1.42")(a=-np.sqrt(2))
