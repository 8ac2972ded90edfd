"""The exercises of document 004: their numbers on its data, and their identities on other data."""

import importlib
import math
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exercises import d004_answer_set as answer_set
from exercises import d004_budget as budget
from exercises import d004_first_tables as tables
from exercises import d004_gpt_forward as gpt_forward
from exercises import d004_heads as heads
from exercises import d004_layer_norm as layer_norm
from exercises import d004_loss as loss
from exercises import d004_lstm_cell as cell
from exercises import d004_lstm_stack as stack
from exercises import d004_masks as masks
from exercises import d004_parameter_counts as counts
from exercises import d004_positions as positions
from npdl.errors import InputError
from npdl.functions import log_softmax
from npdl.layers.attention import MultiHeadAttention, causal_mask
from npdl.layers.recurrent import LSTM
from npdl.layers.transformer import Decoder
from npdl.losses import SequenceLoss, exact_match
from npdl.models.lstm_lm import LSTMLM

MODULES = (answer_set, budget, tables, gpt_forward, heads, layer_norm, loss, cell, stack, masks,
           counts, positions)
ROOT = Path(__file__).resolve().parents[2]
sizes = st.integers(1, 5)
fewer = settings(max_examples=30, deadline=None)


# The verdicts of every module in the order of its claims, by their first letters (v: convention).
VERDICTS = {
    answer_set: "wccuun", budget: "nucuvuuccu", tables: "vnuccccvncwuu", gpt_forward: "cccuu",
    heads: "wccuc", layer_norm: "cccc", loss: "csccucuuecuc", cell: "ccscucc",
    stack: "ccscccuccusv", masks: "ccuccc", counts: "cccccwvvcccccuwcn", positions: "vccucuc",
}
FOUND = {"answer": "wrong", "index": "wrong", "right-hand side": "wrong", "indices": "slip",
         "P already computed": "wrong", "meaning of Delta t(L)": "wrong", "candidate": "slip",
         "final states": "slip", "components": "slip", "meaning of Delta t(A)": "confirmed",
         "d_e": "convention", "norm": "under-specified", "best over steps": "under-specified"}


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__.split(".")[-1])
def test_verdicts(module):
    claims = module.claims()
    letters = ["v" if claim.verdict == "convention" else claim.verdict[0] for claim in claims]
    assert "".join(letters) == VERDICTS[module]
    assert {claim.document for claim in claims} == {"004"}
    assert len({(claim.question, claim.part) for claim in claims}) == len(claims)
    for claim in claims:
        expected = FOUND.get(claim.part)
        assert claim.verdict == expected if expected else claim.verdict not in ("wrong", "slip")


# Problem 1


@fewer
@given(sizes, sizes, st.integers(0, 1000))
def test_the_two_forms_agree_for_gates_and_not_for_the_candidate(d_x, d_h, seed):
    weights = cell.random_weights(d_x, d_h, seed)
    x, h = np.random.default_rng(seed).standard_normal(d_x), np.full(d_h, 0.3)
    differ = cell.forms_differ(weights, x, h)
    assert max(differ[gate] for gate in "ifo") < 1e-12
    assert differ["c"] > 1e-6
    gates = cell.gates_stacked(weights, x, h, cell.ACTIVATION_APART)
    new_h, new_c = cell.updated(gates, np.full(d_h, 0.7))
    (own_h, own_c), _ = cell.library_cell(weights).forward(
        x[None], (h[None], np.full((1, d_h), 0.7)))
    assert np.allclose(own_h, new_h, atol=1e-12) and np.allclose(own_c, new_c, atol=1e-12)


def test_a_sigma_candidate_keeps_states_positive_and_the_crossing_is_exact():
    lowest = cell.lowest_states(50)
    assert lowest["sigma"] >= 0 > lowest["tanh"]
    z = math.asinh(1)
    assert math.tanh(z) == pytest.approx(math.sqrt(0.5)) == pytest.approx(1 / (1 + math.exp(-z)))


def test_memory_over_two_steps_is_not_f_squared():
    assert cell.memory_slope(1) == pytest.approx(0.5, abs=1e-6)
    assert cell.memory_slope(2) > 0.26
    assert cell.memory_slope(2, listening=0.0) == pytest.approx(0.25, abs=1e-6)


def test_cell_refuses_sizes_that_do_not_fit():
    with pytest.raises(InputError):
        cell.random_weights(0, 2)
    with pytest.raises(InputError):
        cell.gates_apart(cell.random_weights(3, 4), np.zeros(2), np.zeros(4))


@fewer
@given(sizes, sizes, sizes, st.integers(1, 3))
def test_final_states_are_the_last_step_of_every_layer(B, S, d_h, L):
    lstm = LSTM(2, d_h, L, rng=B, dtype="float64")
    x = np.random.default_rng(S).standard_normal((B, S, 2))
    (y, (h, c)), _ = lstm.forward(x)
    hs, cs = stack.stacked_by_steps(lstm, x)
    assert np.allclose(h, hs[:, -1]) and np.allclose(c, cs[:, -1])
    assert np.allclose(y, hs[-1].swapaxes(0, 1)) and hs[0].shape == (S, B, d_h)
    with pytest.raises(InputError):
        stack.stacked_by_steps(lstm, x[0])


@fewer
@given(st.integers(1, 9), sizes, sizes, st.integers(1, 4), st.booleans())
def test_parameter_formulas_count_arrays(V, d, h, L, bias):
    assert counts.lstm_formula(d, h, L, bias) == LSTM(d, h, L, bias).count_params()
    model = LSTMLM(V, d, L, h, bias=bias)
    printed = counts.lstm_table(V, d, h, L, bias)
    assert printed == counts.table_rows_of(model)
    assert sum(printed.values()) == model.count_params()


@fewer
@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.booleans())
def test_decoder_formula_lacks_the_norms_only(heads_, width, m, L, bias):
    d = heads_ * width
    decoder = Decoder(L, d, heads_, m, bias)
    assert decoder.count_params() == counts.decoder_formula(d, m, L, bias) + 4 * d * L
    attention = MultiHeadAttention(d, heads_, bias)
    assert attention.count_params() == counts.attention_formula(heads_, width, bias)


def test_the_counts_of_the_default_models():
    assert counts.lstm_formula(128, 128, 2) == 263_168
    assert counts.decoder_formula(128, 4, 2) == 394_240
    assert sum(counts.lstm_table(36, 128, 128, 2).values()) == 272_420
    with pytest.raises(InputError):
        counts.lstm_table(0, 1, 1, 1)


# Problem 2


@fewer
@given(st.lists(st.integers(-9, 9), min_size=2, max_size=4), st.integers(2, 4))
def test_only_the_variance_over_n_minus_1_is_unbiased(population, n):
    truth = layer_norm.variance(population)
    assert layer_norm.expected_variance(population, n, 1) == truth
    assert layer_norm.expected_variance(population, n) == truth * Fraction(n - 1, n)


def test_layer_norm_by_hand():
    row = layer_norm.normalised(np.array([[1.0, 3.0]]), np.ones(2), np.zeros(2), eps=0)
    assert row.tolist() == [[-1, 1]]
    with pytest.raises(InputError):
        layer_norm.normalised(np.zeros((2, 1)), np.ones(1), np.zeros(1), correction=1)
    with pytest.raises(InputError):
        layer_norm.variance([1], correction=1)


@pytest.mark.torch
def test_the_library_default_is_the_unbiased_variance():
    torch = pytest.importorskip("torch")
    values = [1.0, 2.0, 6.0]
    assert float(torch.var(torch.tensor(values))) == float(layer_norm.variance(values, 1))
    norm, x = layer_norm.example()
    theirs = torch.nn.functional.layer_norm(
        torch.tensor(x), (8,), torch.tensor(norm.gain.data), torch.tensor(norm.bias.data))
    assert np.allclose(norm.forward(x)[0], theirs.numpy(), atol=1e-10)


@given(st.integers(1, 9), st.integers(1, 9))
def test_which_split_can_be_undone(m, d):
    assert heads.can_be_undone("head_size * j + l", m, d)
    assert heads.can_be_undone("num_heads * l + j", m, d)
    assert heads.can_be_undone("num_heads * j + l", m, d) == (m == 1 or m == d)
    assert not heads.can_be_undone("num_heads * j + 1", m, d)


def test_split_of_the_default_width():
    assert heads.coverage("num_heads * j + 1", 4, 32) == (4, 0)
    assert heads.coverage("num_heads * j + l", 4, 32) == (44, 0)
    with pytest.raises(InputError):
        heads.columns("j", 1, 1)
    with pytest.raises(InputError):
        heads.columns("head_size * j + l", 0, 1)


@fewer
@given(sizes, sizes, st.integers(1, 3), st.integers(1, 3), st.integers(0, 99))
def test_attention_is_the_printed_formula(B, S, m, d, seed):
    layer = MultiHeadAttention(m * d, m, rng=seed, dtype="float64")
    Q, K, V = np.random.default_rng(seed).standard_normal((3, B, S, m * d))
    by_loops = heads.attention_by_loops(layer, Q, K, V)
    assert np.allclose(layer.forward(Q, K, V)[0], by_loops, atol=1e-12)


@given(st.integers(1, 12))
def test_mask(S):
    assert np.array_equal(masks.printed_mask(S), np.tril(np.ones((S, S), bool)))
    assert np.array_equal(masks.printed_mask(S), causal_mask(S))
    A = masks.weights_with(np.random.default_rng(S).standard_normal((S, S)), causal_mask(S))
    assert not A[~causal_mask(S)].any() and np.allclose(A.sum(1), 1)
    strict = masks.weights_with(np.zeros((S, S)), masks.printed_mask(S, strict=True))
    assert np.isnan(strict[0]).all() and not np.isnan(strict[1:]).any()


@given(st.integers(1, 20), st.integers(1, 9))
def test_positions_by_formula(length, d):
    for step, name in ((1, "k/d"), (2, "2k/d")):
        table = positions.printed_table(length, d, step)
        assert np.allclose(table, positions.sinusoidal(length, d, name, "float64"))


@given(st.integers(1, 6), st.integers(-20, 20), st.sampled_from(["k/d", "2k/d"]))
def test_positions_rotate(half, offset, exponent):
    table = positions.sinusoidal(60, 2 * half, exponent, "float64")
    R = positions.rotation(2 * half, offset, exponent)
    assert np.allclose(R @ table[30], table[30 + offset], atol=1e-9)
    assert np.allclose(R @ R.T, np.eye(2 * half))


def test_waves_and_odd_input():
    assert positions.wavelengths(128)[-1] == pytest.approx(2 * math.pi * 10000 ** (63 / 128))
    square = positions.wavelengths(128) ** 2 / (2 * math.pi)
    assert np.allclose(square, positions.wavelengths(128, "2k/d"))
    with pytest.raises(InputError):
        positions.rotation(3, 1)
    with pytest.raises(InputError):
        positions.printed_table(0, 2)


def test_a_causal_decoder_of_two_blocks_knows_order():
    assert positions.order_gap(2, None) < 1e-9
    assert positions.order_gap(1, causal_mask(5)) < 1e-9
    assert positions.order_gap(2, causal_mask(5)) > 1e-3


# Problem 3


def test_no_order_of_the_ids_makes_the_printed_set_right():
    assert answer_set.orders_that_work(2) == (5040, 0, 840)


@given(st.integers(2, 9), st.data())
def test_the_printed_set_is_eos_alone(p, data):
    targets, words = answer_set.sequences(p)
    y = targets[data.draw(st.integers(0, p * p - 1))].tolist()
    assert answer_set.printed_set(y, words.eq, words.pad) == {6}
    assert answer_set.meant_set(y, words.eq, words.pad) == {5, 6}
    with pytest.raises(InputError):
        answer_set.meant_set(y[:3], words.eq)


def test_pads():
    assert answer_set.pads((2,)) == {2: (0, 0)}
    assert answer_set.pads((2, 3)) == {2: (2, 1), 3: (0, 0)}


@fewer
@given(st.integers(1, 4), st.integers(2, 5), st.integers(2, 5), st.integers(0, 999))
def test_loss_and_accuracy_are_the_printed_sums(B, S, V, seed):
    rng = np.random.default_rng(seed)
    logits, targets = 3 * rng.standard_normal((B, S, V)), rng.integers(V, size=(B, S))
    counted = rng.random((B, S)) < 0.5
    counted[:, -1] = True
    own, _ = SequenceLoss("none").forward(logits, targets, counted)
    assert np.allclose(own, loss.loss_by_sums(logits, targets, counted), atol=1e-12)
    right = loss.accuracy_by_products(logits, targets, counted)
    assert np.array_equal(right, exact_match(logits, targets, counted, "none"))
    literal = loss.loss_by_sums(logits, targets, counted, first=1)
    unmet = counted & (targets == 0)
    lost = (unmet * -log_softmax(logits)[..., 0]).sum(1) / counted.sum(1)
    assert np.allclose(literal, own - lost, atol=1e-12)


def test_components_from_1_lose_token_0():
    logits, targets, counted = np.zeros((1, 2, 4)), np.array([[0, 2]]), np.ones((1, 2), bool)
    assert loss.loss_by_sums(logits, targets, counted)[0] == pytest.approx(math.log(4))
    assert loss.loss_by_sums(logits, targets, counted, 1)[0] == pytest.approx(math.log(4) / 2)
    with pytest.raises(InputError):
        loss.loss_by_sums(logits, targets, ~counted)


@given(st.lists(st.lists(st.floats(0, 10), min_size=1, max_size=6), min_size=1, max_size=5))
def test_the_two_averages(samples):
    by_sample, by_token = loss.averages(samples)
    if len({len(sample) for sample in samples}) == 1:
        assert by_sample == pytest.approx(by_token, abs=1e-12)
    assert by_token <= len(samples) * by_sample + 1e-9
    with pytest.raises(InputError):
        loss.averages([*samples, []])


@pytest.mark.torch
def test_nll_loss_is_the_average_over_tokens():
    torch = pytest.importorskip("torch")
    logits, targets, eq, mask = loss.example()
    own, _ = SequenceLoss(average="token").forward(logits, targets, mask)
    pad = targets.max()
    theirs = torch.nn.functional.nll_loss(
        torch.log_softmax(torch.tensor(logits), -1).swapaxes(1, 2), torch.tensor(targets),
        ignore_index=int(pad))
    assert float(own) == pytest.approx(float(theirs), abs=1e-10)


@given(st.lists(st.floats(0.01, 1), min_size=2, max_size=6), st.floats(0.01, 1))
def test_a_gradient_step_raises_the_wanted_and_lowers_the_sum_of_the_others(weights, rate):
    p = np.array(weights) / sum(weights)
    after = loss.stepped(p, 0, rate)
    assert after[0] > p[0] and after[1:].sum() < p[1:].sum() and after.sum() == pytest.approx(1)


def test_one_of_the_others_may_rise():
    assert loss.stepped([0.01, 0.98, 0.01], 0, 0.5)[2] > 0.01


# Problem 4, first page


def test_the_seeds_behind_the_tables():
    assert tables.seeds("GPT") == {"L_train": [(9600, 9900)], "L_val": [(8600, 9600)],
                                   "A_train": [(77, 88)], "A_val": [(8200, 8600)]}
    assert tables.seeds("LSTM")["A_val"] == [(7500, 8200)]
    assert tables.seeds("LSTM", "sample")["A_val"] == []
    assert tables.delay_deviations((77, 88), (8200, 8600)) == [194.5, 205.5]


@given(st.integers(1, 500), st.integers(1, 500), st.sampled_from(["population", "sample"]))
def test_pairs_finds_what_was_printed(a, b, kind):
    mean, std = round((a + b) / 2, 4), round(tables.deviation(a, b, kind), 4)
    assert (min(a, b), max(a, b)) in tables.pairs(mean, std, range(1, 501), kind)


def test_tables_refuse_odd_input():
    with pytest.raises(InputError):
        tables.deviation(1, 2, "other")
    with pytest.raises(InputError):
        tables.pairs(1, 1, [])


def test_budget():
    assert budget.number_of_equations(31) == 961
    assert budget.number_of_equations(11, (2, 3)) == 1452
    assert budget.seconds(0.05) == pytest.approx(500.05)
    with pytest.raises(InputError):
        budget.number_of_equations(11, (4,))
    with pytest.raises(InputError):
        budget.seconds(0)


# Scripts


def test_a_script_runs_by_its_path_and_draws(tmp_path):
    run = subprocess.run(
        [sys.executable, ROOT / "exercises/d004_lstm_cell.py", "--figures", tmp_path / "new"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, env=with_root())
    assert run.returncode == 0 and "SLIP" in run.stdout and not run.stderr
    assert (tmp_path / "new/d004_candidate.png").stat().st_size > 10_000


def with_root():
    """The environment, with npdl found even where it is not installed."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.mark.parametrize("name", ["d004_heads", "d004_positions"])
def test_figures(name, tmp_path):
    paths = importlib.import_module(f"exercises.{name}").figures(tmp_path)
    assert paths and all(path.stat().st_size > 10_000 for path in paths)
