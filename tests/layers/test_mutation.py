"""The gradient check catches mistakes: a sample of `tests.tools.mutation_score textbook`."""

import inspect

import numpy as np
import pytest

import tests.tools.mutation as mutation
from npdl.backend import stream
from npdl.layers.embedding import Embedding
from npdl.layers.layer_norm import LayerNorm
from npdl.layers.linear import Linear
from npdl.layers.recurrent import LSTMCell, RecurrentLayer
from tests.tools.cases import all_cases
from tests.tools.mutant_kinds import Replacement, all_mutants
from tests.tools.mutation import CAUGHT, GOALS, REASONS, Checked, backward_functions, judge
from tests.tools.mutation_score import counts, score, share, table

SAMPLE = 25
CASES = 3                           # cases tried for each mutant here; the full score tries all

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def running():
    return backward_functions([Checked(case) for case in all_cases()])


def changes(function):
    return {(m.kind, m.was, m.now) for m in all_mutants(function)}


def test_the_mistakes_that_are_asked_for_are_made():
    lstm, layer, linear, norm, table = (changes(cls.backward) for cls in (
        LSTMCell, RecurrentLayer, Linear, LayerNorm, Embedding))
    assert {("token", "@", "*"), ("token", ".T", ""), ("token", "+", "-"), ("name", "dz_f", "dz_i"),
            ("dropped factor", "dc * g", "dc"), ("dropped call", "sum_rows(dz)", "(dz)"),
            ("dropped term", "dc + dh * o * (1 - tanh_c**2)", "dc")} <= lstm
    assert {("dropped call", "reversed(range(len(steps)))", "(range(len(steps)))"),
            ("condition", "real is None", "(not (real is None))"),
            ("sign", "~real[:, t]", "real[:, t]")} <= layer
    assert {("token", "+=", "="), ("transpose", "dy_rows", "dy_rows.T"),
            ("dropped statement", "self.b.grad += sum_rows(dy_rows)", "pass")} <= linear
    assert {("axis", "-1", "0"), ("sign", "dy * self.gain.data", "-(dy * self.gain.data)")} <= norm
    assert ("condition", "xp.where((ids == self.padding_id)[..., None], 0, dy)", "dy") in table
    assert not any("check_gradient" in was for _, was, _ in table | linear | norm)


def test_every_mutant_is_another_program():
    codes = [m.code() for m in all_mutants(LayerNorm.backward)]
    assert all(code != LayerNorm.backward.__code__ for code in codes)
    assert len({m.source() for m in all_mutants(LayerNorm.backward)}) == len(codes) > 100


def test_backward_functions_are_those_of_backwards_only(running):
    names = {f.__qualname__ for f in running}
    assert {"Linear.backward", "softmax_backward", "attend_backward", "sum_rows", "sum_by_index",
            "gradients_of", "normal_density", "GPT.backward"} <= names
    assert not {n for n in names if n.endswith((".forward", ".start"))}
    assert "reverse" not in names                   # forwards use it too


def test_every_backward_of_npdl_is_run_by_a_case(running):
    backwards = {f for f in mutation.known_functions().values() if "backward" in f.__name__}
    assert not {f.__qualname__ for f in backwards - running.keys()}


def test_a_sample_of_mutants_is_caught(running):
    rng, picked = stream(3), []
    few = {function: items[:CASES] for function, items in running.items()}
    for i in rng.choice(len(few), SAMPLE):
        mutants = all_mutants(list(few)[i])
        picked.append(mutants[rng.integers(len(mutants))])
    rows, lines = score(picked, lambda mutant: judge(mutant, few[mutant.function]), mutation,
                        shown=("survived",))
    text, total = table(rows, mutation)
    assert counts(total, CAUGHT)[1] > SAMPLE / 2, text
    assert share(total, CAUGHT, CAUGHT) >= GOALS[CAUGHT], "\n".join([text, *lines])


class Toothless:
    """A check that never finds anything, before another that tells equivalents."""

    def __init__(self, item):
        item.check.passes = lambda: True
        self.item = item

    def __getattr__(self, name):
        return getattr(self.item, name)


def replaced(function, was, now):
    """The mutant of a function that has one expression, once in its line, replaced by another."""
    lines, first = inspect.getsourcelines(function)
    line, text = next((i, text) for i, text in enumerate(lines, first) if was in text)
    return Replacement(function, line, text.index(was), was, now)


def test_without_a_check_mutants_survive_and_equivalents_are_told():
    case = next(c for c in all_cases() if c.layer_class is LSTMCell)
    items = [Toothless(Checked(case))]
    for was, now, wanted in (("dc * g", "dc", "survived"), ("tanh_c  ", "c_prev", "survived"),
                             ("x.T @ dz", "(dz.T @ x).T", "equivalent")):
        assert judge(replaced(LSTMCell.backward, was, now), items) == wanted


def test_the_code_and_the_arrays_come_back(running):
    before = LayerNorm.backward.__code__
    item = next(i for i in running[LayerNorm.backward] if i.case.what == "a sample")
    kept = {name: a.copy() for name, a in item.check.arrays.items()}
    writes = replaced(LayerNorm.backward, "dy * self.gain.data", "self.gain.data.__imul__(2) * dy")
    assert judge(writes, [item]) == "caught"
    assert LayerNorm.backward.__code__ is before and item.check.passes()
    for name, array in item.check.arrays.items():
        np.testing.assert_array_equal(array, kept[name])


def test_a_backward_that_does_not_end_is_caught(running, monkeypatch):
    class Endless(Replacement):
        def code(self):
            def backward(self, dy, cache):
                while True:
                    pass
            return backward.__code__

    monkeypatch.setattr(mutation, "SECONDS", 0.2)
    endless = Endless(Linear.backward, 1, 0, "", "")
    assert judge(endless, running[Linear.backward][:1]) == "by an exception"


def test_what_no_case_runs_has_survived(running):
    """A mistake in a branch that is never taken changes nothing, but is not equivalent."""
    mutant = replaced(RecurrentLayer.backward, "~real[:, t]", "real[:, t]")
    items = running[RecurrentLayer.backward]
    ragged, plain = ([i for i in items if ("length" in i.case.what) == r] for r in (True, False))
    assert judge(mutant, plain[:1]) == "survived"
    assert judge(mutant, ragged[:1]) == "caught"


def test_every_reason_belongs_to_a_mutant_that_survives(running):
    functions = {f.__qualname__: f for f in running}
    for name, line in REASONS:
        mutants = [m for m in all_mutants(functions[name]) if line in m.text]
        assert any(judge(m, running[m.function][:CASES]) == "survived" for m in mutants), line
