"""The gradient check catches mistakes: a seeded sample of `python -m tests.mutation_score`."""


import numpy as np
import pytest

import tests.mutation as mutation
from npdl.backend import stream
from npdl.layers.linear import Linear
from npdl.layers.norm import LayerNorm
from npdl.layers.recurrent import Cell, LSTMCell, RNNCell
from tests.cases import all_cases
from tests.mutant_kinds import Replacement, all_mutants
from tests.mutation import Checked, backward_functions, judge, score
from tests.mutation_reasons import REASONS
from tests.mutation_score import GOAL, counts, listed, share, table

SAMPLE = 50
CASES = 3                           # cases tried for each mutant here; the full score tries all


@pytest.fixture(scope="module")
def running():
    return backward_functions([Checked(case) for case in all_cases()])


def changes(function):
    return {(m.kind, m.was, m.now) for m in all_mutants(function)}


def test_the_mistakes_that_are_asked_for_are_made():
    lstm, rnn, product, linear, norm = map(changes, (
        LSTMCell.step_backward, RNNCell.step_backward, Cell.recurrence_backward, Linear.backward,
        LayerNorm.backward))
    assert {("token", "@", "*"), ("token", ".T", "")} <= product
    assert {("token", "+", "-"), ("name", "dz_f", "dz_i"),
            ("dropped factor", "dc * g", "dc"),
            ("dropped out", "xp.multiply(di, slope_i, out=dz_i)", "xp.multiply(di, slope_i)"),
            ("dropped term", "dc + dh * o * (1 - tanh_c * tanh_c)", "dc")} <= lstm
    assert ("bound", "dz[...]", "dz") in rnn
    assert {("token", "+=", "="), ("axis", "0", "-1"), ("dropped sum", "dy_rows.sum(0)", "dy_rows"),
            ("transpose", "dy_rows", "dy_rows.T"), ("condition", "self.b is not None",
                                                    "(not (self.b is not None))")} <= linear
    assert ("dropped out", "xp.multiply(dx, rstd, out=dx)", "xp.multiply(dx, rstd)") in norm
    assert ("sign", "dy * x_hat", "-(dy * x_hat)") in norm


def test_every_mutant_is_another_program():
    codes = [m.code() for m in all_mutants(LayerNorm.backward)]
    assert all(code != LayerNorm.backward.__code__ for code in codes)
    assert len({m.source() for m in all_mutants(LayerNorm.backward)}) == len(codes) > 100


def test_backward_functions_are_those_of_backwards_only(running):
    names = {f.__qualname__ for f in running}
    assert {"Linear.backward", "softmax_backward", "attend_backward", "Cell.empty_gradients",
            "PrefixTree.to_parent", "_gelu_exact", "GPT.backward"} <= names
    assert not {n for n in names if n.endswith((".forward", ".step"))}
    assert "last_axis_sum" not in names             # forwards use it too


def test_every_backward_of_npdl_is_run_by_a_case(running):
    backwards = {f for f in mutation.functions().values() if "backward" in f.__name__}
    assert not {f.__qualname__ for f in backwards - running.keys()}


def test_a_sample_of_mutants_is_caught(running):
    rng, picked = stream(3), []
    few = {function: items[:CASES] for function, items in running.items()}
    for i in rng.choice(len(few), SAMPLE):
        mutants = all_mutants(list(few)[i])
        picked.append(mutants[rng.integers(len(mutants))])
    rows, unseen = score(picked, few)
    text, total = table(rows)
    assert counts(total)[1] > SAMPLE / 2, text
    assert share(total) >= GOAL, "\n".join([text, *listed(unseen, "survived")])


class Toothless:
    """A check that never finds anything, before another that tells equivalents."""

    def __init__(self, item):
        item.check.passes = lambda: True
        self.item = item

    def __getattr__(self, name):
        return getattr(self.item, name)


def test_without_a_check_mutants_survive_and_equivalents_are_told():
    case = next(c for c in all_cases() if c.layer_class is LSTMCell)
    wanted = {("+", "-"): "survived", ("dz", "du"): "equivalent", ("tanh_c", "c_prev"): "survived"}
    items, seen = [Toothless(Checked(case))], set()
    for mutant in all_mutants(LSTMCell.step_backward):
        change = mutant.was, mutant.now
        if change in wanted:
            assert judge(mutant, items) == wanted[change], str(mutant)
            seen.add(change)
    assert seen == wanted.keys()


def test_the_code_and_the_arrays_come_back(running):
    before = LayerNorm.backward.__code__
    item = running[LayerNorm.backward][0]
    kept = {name: a.copy() for name, a in item.check.arrays.items()}
    writes = Replacement(LayerNorm.backward, *place_of("dx_hat = xp.multiply"), "dgain)", "dy)")
    assert judge(writes, [item]) in ("caught", "equivalent")
    assert LayerNorm.backward.__code__ is before and item.check.passes()
    for name, array in item.check.arrays.items():
        np.testing.assert_array_equal(array, kept[name])


def place_of(text):
    """(line, column of the first `dgain)`) of a line of LayerNorm.backward."""
    mutant = next(m for m in all_mutants(LayerNorm.backward) if m.was == "dgain"
                  and text in str(m))
    return mutant.line, mutant.column


def test_a_backward_that_does_not_end_is_caught(running, monkeypatch):
    class Endless(Replacement):
        def code(self):
            def backward(self, dy, cache):
                while True:
                    pass
            return backward.__code__

    monkeypatch.setattr(mutation, "SECONDS", 0.2)
    assert judge(Endless(Linear.backward, 1, 0, "", ""), running[Linear.backward][:1]) == "raised"


def test_a_forward_that_changes_is_not_counted(running):
    function = next(f for f in running if f.__name__ == "_gelu_tanh")
    mutant = next(m for m in all_mutants(function) if (m.was, m.now) == ("1 + t", "1"))
    assert judge(mutant, running[function]) == "forward"


def test_what_no_case_runs_has_survived(running):
    """A mistake in a branch that is never taken changes nothing, but is not equivalent."""
    mutant = next(m for m in all_mutants(Linear.backward) if m.was == "dy_rows.sum(0)")
    biased, plain = (next(i for i in running[Linear.backward] if ("no bias" in i.case.what) == no
                          and i.case.layer_class is Linear) for no in (False, True))
    assert judge(mutant, [plain]) == "survived"
    assert judge(mutant, [biased]) in ("caught", "raised")


def test_every_reason_belongs_to_a_mutant_that_survives(running):
    functions = {f.__qualname__: f for f in running}
    for start in REASONS:
        function = functions[start.split(":")[0]]
        mutant = next(m for m in all_mutants(function) if str(m).startswith(start))
        assert judge(mutant, running[function][:CASES]) == "survived", start
