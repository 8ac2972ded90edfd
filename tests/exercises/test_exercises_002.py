"""Document 002: the exercises' numbers on the document's data, and on other data."""

import functools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exercises import d002_complexity as complexity
from exercises import d002_dot_product as dot
from exercises import d002_exploding_training as exploding
from exercises import d002_gradient_remedies as remedies
from exercises import d002_gradients_through_time as through_time
from exercises import d002_gru as gru
from exercises import d002_lstm_gradient as lstm_gradient
from exercises import d002_lstm_memory as memory
from exercises import d002_lstm_statements as statements
from exercises import d002_positions_heads as heads
from exercises import d002_rnn_attention as rnn_attention
from npdl.errors import InputError

MODULES = (through_time, exploding, remedies, gru, statements, lstm_gradient, memory,
           rnn_attention, dot, heads, complexity)
SMALL = settings(max_examples=25, deadline=None)
SEEDS = st.integers(0, 10**6)


@functools.cache
def claims_of(module):
    return module.claims()


def verdicts(module):
    """{(part, start of the claim): verdict}."""
    return {(claim.part, claim.claim[:30]): claim.verdict for claim in claims_of(module)}


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__.split(".")[-1])
def test_claims_belong_to_the_document_and_repeat(module):
    claims = claims_of(module)
    assert {claim.document for claim in claims} == {"002"}
    assert claims == module.claims()
    assert module.QUESTION


# Problem 1

@SMALL
@given(radius=st.floats(0.5, 1.6), seed=st.integers(0, 50))
def test_gradients_follow_the_spectral_radius(radius, seed):
    norms = through_time.gradient_norms(
        through_time.rnn_cell(through_time.recurrent_matrix(radius, 16, seed)), 40)
    base = through_time.gradient_norms(
        through_time.rnn_cell(through_time.recurrent_matrix(1.0, 16, seed)), 40)
    assert norms == pytest.approx(base * radius ** np.arange(41), rel=1e-6)


@SMALL
@given(seed=SEEDS, steps=st.integers(1, 15))
def test_the_gradient_is_the_product_of_jacobians(seed, steps):
    assert through_time.jacobian_product_error(steps, seed)[0] < 1e-9


def test_problem_1():
    lags, total = through_time.weight_gradient_by_lag()
    assert lags[20:].max() < 1e-6 * total < lags[:3].max()
    assert through_time.steepest_slopes() == pytest.approx((0.25, 1.0))
    found = [claim.verdict for claim in claims_of(through_time)]
    assert found == ["confirmed", "under-specified", "under-specified", "confirmed", "wrong"]


def test_exploding_training():
    bent, losses = exploding.training(updates=6)
    assert bent[-1] == pytest.approx(bent[1], rel=1e-4) and abs(bent[1]) > 5
    assert len(bent) == len(losses) == 7 and losses[1:] == pytest.approx([4] * 6, rel=1e-5)
    assert not math.isfinite(exploding.training(squash=None)[0][-1])
    (w, new), (loss, _) = exploding.training(w=0.5, h=1.0, steps=1, lr=0.1, updates=1, squash=None)
    assert (w, loss) == (0.5, 2.25) and new == pytest.approx(0.5 - 0.1 * 2 * 1.5)
    assert exploding.cross_entropy_slopes((0.0,)) == [pytest.approx((math.log(2), 0.5))]
    found = [claim.verdict for claim in claims_of(exploding)]
    assert found == ["under-specified", "slip", "under-specified"]
    assert exploding.exponential([1, -1.3, 1.7]) and not exploding.exponential([1, 1.1, 5])


def test_remedies():
    before, after, cosine, by_entry = remedies.clipping(1.5, 2.0)
    assert before > 1e6 and after == pytest.approx(2) and cosine == pytest.approx(1)
    assert by_entry < 0.95
    short, same, _, _ = remedies.clipping(0.5)
    assert short == same < 1e-9
    assert {claim.verdict for claim in claims_of(remedies)} == {"confirmed", "under-specified"}
    assert remedies.forget_gate_norms(0.0)[50] < 1e-9 < 0.05 < remedies.forget_gate_norms(5.0)[50]
    assert remedies.initial_radius(1.0) == pytest.approx(1, abs=0.1)
    assert remedies.initial_radius(2.0) == pytest.approx(math.sqrt(2), abs=0.1)
    for scale in (0.25, 4.0):
        plain, normed = (remedies.batch_norm_rate(scale, on) for on in (False, True))
        assert abs(math.log(normed)) < abs(math.log(plain))


# Problem 2

@given(st.fractions(Fraction(1, 10**6), 10**6))
def test_sigmoid_derivation_is_exact(e):
    assert len(set(gru.exact_derivation(e))) == 1


@given(st.floats(-700, 700))
def test_sigmoid_symmetry(x):
    assert gru.symmetry_error(x) < 1e-15


@SMALL
@given(z=st.floats(0, 1))
def test_a_gru_moves_by_z(z):
    largest, excess = gru.largest_update(z)
    assert largest <= 2 * z + 1e-9 and excess < 1e-9


def test_problem_2():
    assert gru.memory(1, 0) == 0
    assert gru.memory(0, 0.3) == pytest.approx(math.sqrt(8))
    assert gru.kept(0.1, 50) == pytest.approx(0.9**50)
    full, diagonal = gru.placement_difference()
    assert full > 0.1 and diagonal < 1e-12
    x, h, new, _ = gru.step(gru.gated_cell(0.25, 0.5), samples=4)
    cell = gru.gated_cell(0.25, 0.5)
    candidate = np.tanh(x @ cell.W_x.data[:, 16:] + 0.5 * (h @ cell.W_h.data[:, 16:]))
    assert new == pytest.approx(0.75 * h + 0.25 * candidate, abs=1e-12)
    assert set(verdicts(gru).values()) == {"confirmed", "under-specified", "convention", "slip"}


# Problem 3

@SMALL
@given(seed=SEEDS, width=st.integers(1, 8))
def test_an_lstm_at_rest_stays_at_rest_without_input(seed, width):
    cell = statements.lstm_cell(width, seed=seed)
    rest = np.zeros((2, width))
    assert not statements.still(cell, rest, rest).any()
    h, c = np.random.default_rng(seed).uniform(0.2, 1, (2, 3, width))
    assert np.abs(statements.still(cell, h, c) - h).max() > 0


@SMALL
@given(seed=SEEDS)
def test_a_closed_forget_gate_leaves_the_road_through_h(seed):
    assert statements.error_lengths(statements.lstm_cell(forget=0.0, seed=seed), 3)[3] > 0
    alone = statements.lstm_cell(forget=0.0, recurrent=0.0, seed=seed)
    assert not statements.error_lengths(alone, 3)[1:].any()


def test_a_forget_gate_alone_is_a_power():
    cell = statements.lstm_cell(forget=0.9, recurrent=0.0)
    lengths = statements.error_lengths(cell, 30)
    assert lengths[2:] / lengths[1:-1] == pytest.approx(0.9)


def test_problem_3():
    found = {(c.part, c.verdict) for c in claims_of(statements)}
    assert {(part, "confirmed") for part in "abcd"} <= found
    assert {("a, summary", "under-specified"), ("b, summary", "wrong")} <= found
    assert [verdict for _, verdict in found].count("wrong") == 1
    large = statements.lstm_cell(recurrent=8.0, forget=0.0)
    assert statements.error_lengths(large, 60, 1e-40)[-1] > 1


# Problem 4

@SMALL
@given(seed=SEEDS, steps=st.integers(1, 7), width=st.integers(1, 4), d_in=st.integers(1, 3))
def test_the_right_reading_holds_for_every_cell(seed, steps, width, d_in):
    problem = lstm_gradient.problem(steps, width, d_in, seed)
    errors = lstm_gradient.reading_errors(*problem)
    assert errors[lstm_gradient.RIGHT] < 1e-9
    if steps == 1:
        assert max(errors.values()) < 1e-9             # nothing came before: all readings agree


@pytest.mark.parametrize("seed", range(4))
def test_every_other_reading_is_off(seed):
    errors = lstm_gradient.reading_errors(*lstm_gradient.problem(seed=seed))
    assert sorted(errors.values())[1] > 0.01


def test_the_gradient_agrees_with_differences_and_torch():
    torch = pytest.importorskip("torch", reason="parity with PyTorch needs torch")
    cell, x, v = lstm_gradient.problem()
    own = lstm_gradient.gradient_by_backward(cell, x, v)
    assert own == pytest.approx(lstm_gradient.gradient_by_differences(cell, x, v), abs=1e-8)
    W_x, W_h = (torch.tensor(p.data) for p in (cell.W_x, cell.W_h))
    W_x.requires_grad_()
    h = c = torch.zeros(3, dtype=torch.float64)
    J = 0
    for x_t, v_t in zip(torch.tensor(x), torch.tensor(v), strict=True):
        i, f, o, g = (x_t @ W_x + h @ W_h).chunk(4)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        J = J + h @ v_t
    J.backward()
    assert own == pytest.approx(W_x.grad[:, 9:].numpy(), abs=1e-12)


@given(st.floats(-3, 3), st.floats(-3, 3), st.floats(0.1, 3))
def test_the_list_of_derivatives_does_not_determine_the_gradient(one, two, x):
    (first, a), (second, b) = (lstm_gradient.listed_and_gradient(w, x) for w in (one, two))
    assert first == second
    assert (a == pytest.approx(b)) == (abs(one - two) * x < 1e-5) or abs(one - two) < 1e-3


def test_problem_4():
    direct, f, total = memory.memory_jacobians(statements.lstm_cell(recurrent=2.0))
    assert direct == pytest.approx(np.diag(f), abs=1e-12)
    assert np.abs(total - direct).max() > 0.05
    alone = memory.memory_jacobians(statements.lstm_cell(recurrent=0.0))
    assert alone[2] == pytest.approx(alone[0], abs=1e-12)   # no U: nothing goes through h
    assert memory.carried(0.5, 10) == 2**-10
    assert memory.drift()[0] > memory.drift()[1]
    assert [c.verdict for c in claims_of(memory)].count("under-specified") == 6
    assert "wrong" not in verdicts(memory).values()
    assert [c.verdict for c in claims_of(lstm_gradient)].count("wrong") == 1


# Problem 5

@SMALL
@given(seed=SEEDS, n=st.integers(1, 5), t=st.integers(1, 6), d=st.integers(1, 4),
       e=st.integers(1, 4))
def test_the_matrix_form_is_the_definition(seed, n, t, d, e):
    assert 0 <= rnn_attention.matrix_form_errors(n, t, d, e, seed)[0] < 1e-12


@SMALL
@given(seed=SEEDS, d=st.integers(1, 6))
def test_score_formulas(seed, d):
    errors = rnn_attention.score_errors(d, seed=seed).values()
    assert 0 <= min(errors) <= max(errors) < 1e-12


def test_problem_5():
    past = np.array([[3.0, 0.0], [0.0, 3.0]])
    solutions = rnn_attention.fixed_points(np.zeros(2), past)
    assert len(solutions) >= 2
    for h in solutions:
        assert rnn_attention.attention_one_by_one(h[None], past, past)[0] == pytest.approx(h)
    assert rnn_attention.largest_state(1) <= 1 < rnn_attention.largest_state(20)
    plain, attentive = rnn_attention.first_step_gradient(40)
    assert attentive > 1e3 * plain
    assert [c.verdict for c in claims_of(rnn_attention)].count("wrong") == 2


# Problem 6

@given(st.lists(st.fractions(-5, 5, max_denominator=9), min_size=1, max_size=6),
       st.fractions(Fraction(1, 9), 5, max_denominator=9))
def test_variance_of_a_dot_product(mu, sigma):
    assert dot.variance(mu, sigma) == dot.variance_by_trace(mu, sigma)
    assert dot.variance(mu, sigma) == dot.right_variance(mu, sigma)
    agree = dot.printed_variance(mu, sigma) == dot.variance(mu, sigma)
    assert agree == (len(mu) == 1 or not any(mu))


@pytest.mark.parametrize("mu, sigma", [([0.5] * 4, 1.0), ([2, -1], 0.5), ([0] * 9, 2)])
def test_drawn_dot_products(mu, sigma):
    sample = dot.drawn(mu, sigma, 100_000, seed=9)
    error = sample.std() / math.sqrt(len(sample))
    assert abs(sample.mean() - float(dot.mean(mu))) < 5 * error
    assert sample.var() == pytest.approx(float(dot.variance(mu, sigma)), rel=0.05)


@given(mu=st.lists(st.integers(-5, 5), min_size=1, max_size=5), sigma=st.integers(1, 4))
def test_first_lines_of_the_variance(mu, sigma):
    assert dot.lines_before(mu, sigma)


def test_problem_6():
    mu = [1, -2, 0, 3, 1, 1, -1, 2]
    assert (dot.mean(mu), dot.variance(mu, 1.5), dot.printed_variance(mu, 1.5)) == (
        21, 135, Fraction(1593, 2))
    assert dot.saturation(512, False, count=300)[0] > 0.85 > 0.4 > dot.saturation(
        512, True, count=300)[0]
    found = {(c.part, c.verdict) for c in claims_of(dot)}
    assert {("a", "confirmed"), ("b", "wrong"), ("c", "wrong"), ("d", "wrong")} <= found


# Problem 7

@SMALL
@given(queries=st.integers(1, 20), keys=st.integers(1, 20), k=st.sampled_from([2, 4, 6, 8]),
       number=st.sampled_from([1, 2]))
def test_counted_multiplications(queries, keys, k, number):
    assert complexity.counted(queries, keys, k, number) == complexity.formula(queries, keys, k)
    inputs, products, output = complexity.counted(queries, keys, k, number, parts=True)
    assert inputs == queries * k * k + 2 * keys * k * k
    assert (products, output) == (2 * queries * keys * k, queries * k * k)


def test_problem_7_costs():
    assert complexity.counted(12, 12, 8, causal=True) == complexity.formula(12, 12, 8)
    assert complexity.encoder_difference()[0] == 0 < complexity.encoder_difference()[1]
    assert complexity.generating(3, 2, True) == 3 * 16 + 4 * (1 + 2 + 3)
    found = {(c.part, c.verdict) for c in claims_of(complexity)}
    assert {("3a", "under-specified"), ("3b", "no answer given"), ("3c", "under-specified"),
            ("4", "confirmed")} <= found
    assert "wrong" not in {verdict for _, verdict in found}


@SMALL
@given(length=st.integers(2, 9), seed=SEEDS)
def test_attention_is_equivariant_not_invariant(length, seed):
    changed, moved = heads.permutation_errors(length=length, seed=seed)
    assert moved < 1e-12 < 1e-6 < changed


@given(length=st.integers(1, 12), pairs=st.integers(1, 8))
def test_positional_table(length, pairs):
    table = heads.encoding(length, 2 * pairs)
    assert table == pytest.approx(heads.sinusoidal(length, 2 * pairs, "2k/d", "float64"))
    assert np.linalg.norm(table, axis=1) == pytest.approx(math.sqrt(pairs))


def test_problem_7_heads():
    assert heads.relative_head(offset=-2) == heads.relative_head(offset=3) == 1
    assert heads.two_places(1) == pytest.approx(1) and heads.two_places(2) < 1e-9
    apart, trained = heads.twin_heads()
    assert apart < 1e-12 < 1e-3 < trained
    assert heads.twin_heads(updates=0, apart=0.5) == pytest.approx((0.5, 0))
    assert abs(heads.twin_heads(apart=0.5)[0] - 0.5) > 1e-3     # heads that differ learn to differ
    found = verdicts(heads)
    assert found["1", "self-attention is permutation-"] == "wrong"
    assert found["1", "i is the index of the dimensio"] == "slip"
    assert found["2", "parallel computation is an adv"] == "under-specified"


@pytest.mark.parametrize("call", [
    lambda: through_time.recurrent_matrix(-1),
    lambda: through_time.rnn_cell(np.ones((2, 3))),
    lambda: through_time.gradient_norms(through_time.rnn_cell(np.eye(2)), 0),
    lambda: exploding.training(steps=0),
    lambda: remedies.clipping(1.0, limit=0),
    lambda: gru.gated_cell(z=1.5),
    lambda: gru.exact_derivation(0),
    lambda: statements.lstm_cell(forget=1.0),
    lambda: statements.lstm_cell(keep="x"),
    lambda: lstm_gradient.problem(steps=0),
    lambda: lstm_gradient.gradient_by_formula(*lstm_gradient.problem(), "another"),
    lambda: memory.carried(2, 1),
    lambda: rnn_attention.attention_one_by_one([[1.0]], [[1.0, 2.0]], [[1.0]]),
    lambda: dot.variance([], 1),
    lambda: dot.variance([1], 0),
    lambda: dot.saturation(0, True),
    lambda: complexity.counted(0, 1, 2),
    lambda: heads.encoding(3, 5),
])
def test_odd_input_is_named_in_one_line(call):
    with pytest.raises(InputError) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("module", [through_time, dot])
def test_figures(module, tmp_path):
    for path in module.figures(tmp_path):
        assert path.read_bytes().startswith(b"\x89PNG")
