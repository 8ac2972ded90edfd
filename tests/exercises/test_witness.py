"""npdl under the exercises is held to plain loops, and no verdict is given where it differs."""

import ast
import importlib
from pathlib import Path

import numpy as np
import pytest

from exercises import references, witness
from exercises.d000 import (
    birnn_gradients,
    decoding_trees,
    lora_costs,
    lora_tradeoffs,
    quantizer,
    search_limits,
)
from exercises.d002 import gradients_through_time, lstm_memory, positions_heads, rnn_attention
from exercises.d003 import beam_definitions
from exercises.d004 import gpt_forward, masked_loss, training_budget
from exercises.framework import FAILED, claims_of, judge, name_of, solutions_of
from npdl.errors import InputError
from npdl.layers.attention import DotAttention
from npdl.layers.batch_norm import BatchNorm
from npdl.layers.linear import Linear
from npdl.layers.recurrent import RNNCell
from tests.tools import exercise_mutation, slow
from tests.tools.mutant_kinds import Replacement
from tests.tools.mutation_score import score, share, table

ROOT = Path(__file__).parents[2]
# One token each, of which a run of all exercises saw nothing, or called a document wrong, before.
UNSEEN = [
    (gradients_through_time, "layers/recurrent.py", "dh * (1 - cache.h**2)",
     "dh * (1 + cache.h**2)"),
    (lstm_memory, "layers/recurrent.py", "dh * (1 - cache.h**2)", "dh * (1 + cache.h**2)"),
    (training_budget, "data/arithmetic.py", "axis=1) % self.q", "axis=1) % (self.q - 1)"),
    (gpt_forward, "functions.py", "0.5 * (erf + 1.0)", "0.5 * (erf - 1.0)"),
    (gpt_forward, "layers/transformer.py", "self.down.forward(a)", "self.down.forward(u)"),
    (gpt_forward, "layers/transformer.py", "self.norm1.forward(x + a)",
     "self.norm1.forward(x - a)"),
    (gpt_forward, "layers/transformer.py", "self.norm2.forward(u + f)",
     "self.norm2.forward(u - f)"),
    (rnn_attention, "models/attentive_rnn.py", "h = s + a[:, 0]", "h = s - a[:, 0]"),
    (quantizer, "adapt/quantize.py", "_padded(size) // 8", "_padded(size) // 4"),
    (masked_loss, "losses.py", "xp.arange(targets.shape[1]) >", "xp.arange(targets.shape[1]) >="),
    (masked_loss, "functions.py", "index.reshape(-1)] -= 1", "index.reshape(-1)] += 1"),
    (positions_heads, "functions.py", "y * (dy - along_y)", "y * (dy + along_y)"),
    (decoding_trees, "decoding/beam.py", "rank[parents], -totals", "rank[parents], +totals"),
    (decoding_trees, "decoding/exhaustive.py", "node.totals[i] + node", "node.totals[i] - node"),
    (training_budget, "data/arithmetic.py", "[rows[:cut] for", "[rows[cut:] for"),
    (birnn_gradients, "models/birnn.py", "y = y_f + y_b", "y = y_f - y_b"),
    (beam_definitions, "decoding/tree.py", "if p == 0", "if p != 0"),
    (beam_definitions, "decoding/beam.py", "steps.append(Step(live", "state.append(Step(live"),
    (search_limits, "decoding/tree.py", "not self._nodes[node] for", "self._nodes[node] for"),
    (lora_tradeoffs, "adapt/models.py", "sum(param.data.nbytes", "-sum(param.data.nbytes"),
    (quantizer, "adapt/quantize.py", "quantize(step - mean", "quantize(step + mean"),
    (rnn_attention, "models/attentive_rnn.py", "return dx, (dh, dpast)", "return dx, (dh, dout)"),
    (rnn_attention, "models/attentive_rnn.py", "if P else dpast[:, :0]", "if P else dpast[:, :1]"),
    (lora_costs, "adapt/linears.py", "du = dlow @ self", "du = -dlow @ self"),
]


def mutant(file, was, now):
    """The mistake, among the functions that an exercise runs."""
    path = ROOT / "npdl" / file
    lines = path.read_text(encoding="utf-8").splitlines()
    line, = (i for i, text in enumerate(lines, 1) if was in text)
    function, = (f for f in exercise_mutation.running(path, line))
    return Replacement(function, line, lines[line - 1].index(was), was, now)


def by_name(row):
    return f"{name_of(row[0])}: {row[2]}"


@pytest.mark.parametrize("module, file, was, now", slow.but(
    [by_name(UNSEEN[i]) for i in (3, 4, 11)], UNSEEN, by_name), ids=map(by_name, UNSEEN))
def test_a_mistake_in_npdl_is_our_failure_and_moves_no_verdict(module, file, was, now):
    before = {(c.part, c.claim): c.verdict for c in claims_of(module)}
    found = mutant(file, was, now)
    code = found.function.__code__
    exercise_mutation.forget()
    try:
        found.function.__code__ = found.code()
        claims, solutions = claims_of(module), solutions_of(module)
    finally:
        found.function.__code__ = code
        exercise_mutation.forget()
    assert [c.verdict for c in claims if c.verdict not in (
        before.get((c.part, c.claim)), FAILED)] == []
    assert FAILED in [c.verdict for c in claims] or not all(
        check.holds for solution in solutions for check in solution.checks)


def test_a_verdict_is_not_to_be_had_while_nothing_watches():
    on = witness._state["on"]
    witness._state["on"] = 0
    try:
        with pytest.raises(InputError, match="nothing watches"):
            judge(True)
    finally:
        witness._state["on"] = on
    assert judge(True) == "confirmed"


def test_each_part_of_npdl_that_exercises_use_has_a_reference():
    known = set(references.OF_LAYERS) | {path for _, path in references.OF_FUNCTIONS}
    read_off_a_cache = {"attentions", "hidden_states"}
    missing = set()
    for path in (ROOT / "exercises").glob("d*/*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
                    ("npdl.layers", "npdl.models", "npdl.losses", "npdl.functions")):
                module = importlib.import_module(node.module)
                for name in node.names:
                    thing = getattr(module, name.name)
                    missing |= {name.name} - {name.name for kind in getattr(thing, "__mro__", ())
                                              if kind.__name__ in known}
    assert missing - known == read_off_a_cache


def test_a_gradient_that_is_off_by_a_hundred_thousandth_is_seen():
    layer = Linear(3, 2, dtype="float64")
    x = np.random.default_rng(0).standard_normal((4, 3))
    y, cache = layer.forward(x)
    layer.backward(np.ones_like(y), cache)
    assert not witness.faults(__name__) and not witness.FAULTS
    cache.rows = cache.rows + 1e-5
    layer.backward(np.ones_like(y), cache)
    assert "Linear.backward" in str(witness.FAULTS)


def test_alike_calls_are_held_ever_more_rarely(monkeypatch):
    layer, held, forward = Linear(7, 2, dtype="float64"), [], references.forward
    monkeypatch.setattr(references, "forward", lambda layer, x: held.append(x[0, 0]) or forward(
        layer, x))
    for call in range(1, 40):
        layer.forward(np.full((4, 7), float(call)))
    assert held == [1, 2, 3, 4, 8, 16, 32]
    layer.forward(np.full((5, 7), 0.5))                     # another shape is another kind
    assert held[-1] == 0.5 and not witness.FAULTS


def test_a_gradient_of_an_input_that_is_off_is_seen_too():
    q, k, v = np.random.default_rng(0).standard_normal((3, 2, 4, 3))
    layer = DotAttention()
    y, cache = layer.forward(q, k, v)
    layer.backward(np.ones_like(y), cache)
    assert not witness.FAULTS
    cache.v = cache.v + 1e-4 * q                            # dq and dk alone are wrong
    layer.backward(q, cache)
    assert "DotAttention.backward" in str(witness.FAULTS)


def test_the_reference_is_another_hand():
    """No reference calls a layer or function of npdl's, and none has a product of matrices."""
    folder = Path(references.__file__).parent
    tree = ast.parse("\n".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py")))
    assert not [n for n in ast.walk(tree) if isinstance(n, ast.MatMult)]
    assert not [n for n in ast.walk(tree) if isinstance(n, (ast.ImportFrom))
                and (n.module or "").startswith("npdl")]
    assert isinstance(references.forward(RNNCell(2, 3), np.ones((1, 2))), np.ndarray)


def test_running_statistics_that_move_otherwise_are_seen():
    x = np.random.default_rng(0).standard_normal((5, 2, 3))
    for wrong in (0, 1e-6):
        layer = BatchNorm(2, dtype="float64")
        move = layer.move
        layer.move = lambda mean, var, count: move(mean + wrong, var, count)  # noqa: B023
        layer.forward(x)
        assert bool(witness.FAULTS) == bool(wrong)


@pytest.mark.slow
def test_a_sample_of_mistakes_in_npdl_is_noticed_and_moves_no_verdict():
    chosen = exercise_mutation.functions()
    pool = [m for f in chosen for m in exercise_mutation.mistakes(f)][7::500]
    rows, lines = score(pool, exercise_mutation.judge_of(chosen), exercise_mutation,
                        shown=("survived", "moved"))
    text, total = table(rows, exercise_mutation)
    assert total["moved"] == 0 and share(
        total, ("caught", "endless"), exercise_mutation.CAUGHT) >= 0.95, (
        "\n".join([text, *lines]))
