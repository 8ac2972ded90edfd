"""What is missing in a wrong value, found from numbers: products of powers, changes of parts."""

import ast
import re
from types import SimpleNamespace

import numpy as np
import pytest

from npdl.backend import stream
from npdl.core import Param
from npdl_study.blame.atoms import Atom, fittings
from npdl_study.blame.inside import changed, evaluated
from npdl_study.blame.missing import Missing
from npdl_study.blame.monomials import _product, _scaled, monomials
from npdl_study.blame.terms import WHOLES, Turn, explained, summed
from npdl_study.blame.trials import Place, Trials
from npdl_study.trace.reads import entries_written

RNG = stream(5)
A, B, C = (RNG.standard_normal((3, 4)) for _ in range(3))
ROW, COLUMN = RNG.standard_normal(4), RNG.standard_normal(3)
NAMES = {"np": np, "a": A, "b": B, "c": C, "row": ROW, "column": COLUMN, "n": 3}


def expression(source):
    return ast.parse(source, mode="eval").body


@pytest.mark.parametrize("goal, label", [
    (A * B / C**2, "a * b / c**2"), (7 * np.sqrt(np.abs(A)) * B, "b * np.sqrt(a)"),
    (A * (1 - B * B), "a * (1 - b**2)"), (COLUMN[:, None] * A, "a * column[:, None]"),
    (A * (B > 0), "a * (b > 0)")])
def test_products_of_powers(goal, label):
    atoms = [Atom(name, NAMES[name]) for name in ("a", "b", "c", "column")]
    labels = [atom.label for atom in monomials(goal, atoms)]
    assert sorted(labels[0].split(" * ")) == sorted(label.split(" * ")) if labels else False


def test_what_is_no_product_is_none():
    assert not list(monomials(RNG.standard_normal((3, 4)), [Atom("a", A), Atom("b", B)]))
    assert not list(monomials(np.zeros((3, 4)), [Atom("a", A)]))


def test_powers_of_zeros_warn_of_nothing():
    zeros = Atom("a", np.zeros(3))
    assert np.isinf(_product([(zeros, -2)]).array).all()
    _scaled(np.ones(3), np.array([np.inf, 0.0, 1.0]))


def test_axes_are_put_in_where_they_fit():
    labels = [atom.label for atom in fittings([Atom("column", COLUMN), Atom("row", ROW)], (3, 4))]
    assert labels == ["column[:, None]", "row"]


@pytest.mark.parametrize("wrong, right, says", [
    ("a + b", "a + b * row", r"in `b`: a factor is missing: \* row"),
    ("a @ b.T", "(a * row) @ b.T", r"factor is missing: \* row"),
    ("np.concatenate([a, b], axis=1)", "np.concatenate([a, b * c], axis=1)", r"in `b`: .*\* c"),
    ("a * b", "a * b / n", r"/ n is missing"), ("a - b", "a - np.exp(b)", "exp"),
    ("a + b", "a + b[:, ::-1]", "reversed along axis 1"), ("(a * b)[0]", "(a * b).sum(0)", "sum"),
    ("a", "a - row * (b * c).sum(1)[:, None]", "term is missing: - row")])
def test_a_wrong_part_is_named(wrong, right, says):
    computed, wanted = (evaluated(expression(source), NAMES) for source in (wrong, right))
    found = explained([Turn(computed, wanted, NAMES, expression(wrong))], wrong)
    assert found is not None and re.search(says, found.text), found


def test_a_sum_is_no_mean_whatever_its_array_is_called():
    right = A * (B - (B * A).sum(-1, keepdims=True))
    found = explained([Turn(A, right, {"np": np, "a": A, "mean": B})], "a", WHOLES)
    assert found.kind == "missing sum" and "the sum (mean * a).sum(-1, " in found.text


def test_nothing_is_said_of_what_is_right_or_random():
    assert explained([Turn(A, A, NAMES, expression("a"))], "a") is None
    other = Turn(A, RNG.standard_normal((3, 4)), NAMES, expression("a"))
    assert explained([other], "a") is None


def test_a_sum_over_turns_lacks_the_same_in_each():
    turns = [{**NAMES, "a": RNG.standard_normal((3, 4)), "b": RNG.standard_normal((3, 4))}
             for _ in range(3)]
    away = sum((t["a"] * (t["b"] - 1)).sum(0) for t in turns)
    found = summed([Turn(away, away, t, expression("a.sum(0)")) for t in turns], "a.sum(0)")
    assert found.text == "in `a`: a factor is missing: * b"


def test_turns_of_other_shapes_are_not_added_up():
    shapes = ((4, 6), (5, 6))
    steps = [SimpleNamespace(index=at) for at in range(2)]
    places = [Place(at, "dW", (), shape, None) for at, shape in enumerate(shapes)]
    unit = SimpleNamespace(places=places,
                           statement=SimpleNamespace(node=ast.parse("dW += x").body[0]),
                           shift={at: [("dW", (), np.ones(s))] for at, s in enumerate(shapes)})
    missing = Missing(SimpleNamespace(steps=steps), SimpleNamespace(of={}), None, None)
    assert missing._together(unit) is None


def test_what_a_gradient_was_before_is_that_of_the_same_parameter():
    parts = [Param(np.ones(shape)) for shape in ((4, 6), (5, 6))]
    steps = [SimpleNamespace(
        call=SimpleNamespace(owner=SimpleNamespace(W=part), arguments={}),
        writes=[SimpleNamespace(name="self.W.grad", value=part.data)]) for part in parts]
    trials = Trials.__new__(Trials)
    trials.steps = steps
    trials.check = SimpleNamespace(
        before={"0": np.zeros((4, 6)), "1": np.full((5, 6), 3.0)},
        layer=SimpleNamespace(params=lambda: [("0", parts[0]), ("1", parts[1])]))
    assert (trials._before(1, "self.W.grad") == np.full((5, 6), 3.0)).all()


def test_indices_and_calls_with_effects_are_left_alone():
    calls = []
    names = {**NAMES, "ids": np.array([0, 2]), "f": calls.append}
    for source in ("a[ids]", "f(a)", "np.zeros((n, n))"):
        tried = list(changed(expression(source), names, [Atom("row", ROW)], [("n", 3)]))
        assert not [words for _, words, *_ in tried if "`ids`" in words or "`n`" in words]
    assert not calls


def test_the_entries_that_an_assignment_writes():
    node = ast.parse("self.W.grad[:, t] += 1").body[0]
    mask = entries_written(node, "self.W.grad", np.zeros((2, 3)), {"t": 1})
    assert mask.tolist() == [[False, True, False]] * 2
    assert entries_written(node, "other", np.zeros((2, 3)), {"t": 1}) is None
