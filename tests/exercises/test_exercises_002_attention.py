"""Document 002, Problems 5 to 7: numbers against facts made by hand, and on other data."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exercises.d002 import attention_cost as complexity
from exercises.d002 import dot_product as dot
from exercises.d002 import dot_product_scale as dot_scale
from exercises.d002 import positions_heads as heads
from exercises.d002 import rnn_attention
from exercises.d002.attention_cost import formula
from exercises.d002.positions_heads import encoding
from exercises.probes import influence, learned
from npdl.layers.linear import Linear

SMALL = settings(max_examples=25)
SEEDS = st.integers(0, 10**6)


@SMALL
@given(queries=st.integers(1, 20), keys=st.integers(1, 20), k=st.sampled_from([2, 4, 6, 8]),
       number=st.sampled_from([1, 2]))
def test_counted_multiplications(queries, keys, k, number):
    assert complexity.counted(queries, keys, k, number) == formula(queries, keys, k)
    inputs, products, output = complexity.counted(queries, keys, k, number, parts=True)
    assert inputs == queries * k * k + 2 * keys * k * k
    assert (products, output) == (2 * queries * keys * k, queries * k * k)


def test_problem_7_costs():
    assert complexity.counted(12, 12, 8, causal=True) == formula(12, 12, 8)
    assert complexity.encoder_difference()[0] == 0 < complexity.encoder_difference()[1]
    assert complexity.generating(3, 2, True) == 3 * 16 + 4 * (1 + 2 + 3)


def test_multiplications_by_hand():
    assert formula(2, 3, 4) == 208
    assert complexity.counted(2, 3, 4, parts=True) == (128, 48, 32)
    assert complexity.translation(3, 2, 4) == (264, 160 + 208)
    assert complexity.generating(3, 2, False) == 20 + 48 + 84
    assert complexity.generating(1, 3, True) == 36 + 6
    assert complexity.power(lambda n: 5 * n**3, 2, 8) == pytest.approx(3)
    plain = np.ones((2, 3)).view(complexity.Counted)
    complexity.Counted.total = 0
    product = plain @ np.ones((3, 4))
    assert complexity.Counted.total == 24 and isinstance(product, complexity.Counted)
    assert product.tolist() == [[3] * 4] * 2
    assert (plain @ np.ones((3, 1))).tolist() == [[3], [3]] and complexity.Counted.total == 24
    plain @ np.full((3, 1), 2.0)
    assert complexity.Counted.total == 30                       # a column that is no sum
    np.add(plain, 1, out=plain)
    assert plain.tolist() == [[2] * 3] * 2 and complexity.Counted.total == 30


@pytest.mark.slow
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
    assert dot_scale.saturation(512, False, count=300)[0] > 0.85 > 0.4 > dot_scale.saturation(
        512, True, count=300)[0]


def test_moments_by_hand():
    assert dot.mean([1, 2]) == 5 and dot.variance([1, 2], 1) == 12
    assert dot.printed_variance([1, 2], 1) == 22 and dot.right_variance([1, 2], 2) == 72
    assert dot.variance_by_trace([3], 1) == 19
    assert dot_scale.growth((2, 32)) == 2
    assert dot.drawn([1], 1e-9, 3) == pytest.approx([1, 1, 1])
    sample = dot.drawn([0], 1, 1000, same=True)
    assert sample.min() >= 0 and sample.mean() == pytest.approx(1, abs=0.2)
    largest, length, middle = dot_scale.saturation(1, True, keys=1, count=1)
    assert largest == 1 and length == middle == 0               # one key: nothing to choose


def test_two_means_and_one_vector_twice():
    """sigma^2 (mu.mu + nu.nu) + d sigma^4; of q.q: 4 sigma^2 mu.mu + 2 d sigma^4."""
    assert dot.mean([1, 2], [3, -1]) == 1
    assert dot.variance([1, 2], 1, [3, -1]) == dot.two_means_variance([1, 2], [3, -1], 1) == 17
    assert dot.variance([1], 2, [3]) == 4 * 10 + 16
    assert dot.square_moments([1, 2], 1) == (7, 24) and dot.square_moments([0], 2) == (4, 32)
    off, mean, error = dot.off_by(np.array([1.0, 3.0]), 1)
    assert (off, mean, error) == pytest.approx((math.sqrt(2), 2, math.sqrt(0.5)))
    assert dot.off_by(np.array([1.0, 3.0, 3.0]), 2, 1)[1] == pytest.approx(8 / 3)
    assert dot.drawn([2], 1e-9, 2, nu=[5]) == pytest.approx([10, 10])


def test_problem_6_variances():
    assert dot.variances((1, 3), 2) == [5**2 - 1, 13**2 - 81]
    M, trace = dot.by_trace((1, 3), 2)
    assert M.tolist() == [[5, 3], [3, 13]] and trace == 25 + 9 + 9 + 169
    assert dot_scale.means_over_scales(9, 2) == (36, 12, 36, 4)
    assert dot_scale.first_weight(math.log(3)) == pytest.approx((0.75, 0.1875))


@SMALL
@given(length=st.integers(2, 9), seed=SEEDS)
def test_attention_is_equivariant_not_invariant(length, seed):
    changed, moved = heads.permutation_errors(length=length, seed=seed)
    assert moved < 1e-12 < 1e-6 < changed


@given(length=st.integers(1, 12), pairs=st.integers(1, 8))
def test_positional_table(length, pairs):
    table = encoding(length, 2 * pairs)
    assert table == pytest.approx(heads.sinusoidal(length, 2 * pairs, "2k/d", "float64"))
    assert np.linalg.norm(table, axis=1) == pytest.approx(math.sqrt(pairs))


def test_problem_7_heads():
    assert heads.relative_head(offset=-2) == heads.relative_head(offset=3) == 1
    assert heads.two_places(1) == pytest.approx(1) and heads.two_places(2) < 1e-9
    apart, trained = heads.twin_heads()
    assert apart < 1e-12 < 1e-3 < trained
    assert heads.twin_heads(updates=0, apart=0.5) == pytest.approx((0.5, 0))
    assert abs(heads.twin_heads(apart=0.5)[0] - 0.5) > 1e-3     # heads that differ learn to differ


def test_places_by_hand():
    assert encoding(1, 2).tolist() == [[0, 1]]
    assert (heads.outside(6, 3), heads.outside(6, 6), heads.outside(7, 4)) == (0, 3, 1)
    assert encoding(2, 4)[1] == pytest.approx(
        [math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01)])
    assert heads.two_places(1, (3.0, -1.0)) == pytest.approx(2)
    assert heads.two_places(1, (5.0, 4.0)) == pytest.approx(0.5)
    assert heads.two_places(2, (3.0, -1.0)) < 1e-9
    assert heads.relative_head(4, 64, -3) == heads.relative_head(4, 64, 3) == 1
    assert heads.relative_head(32, 4, -1, sharpness=-50.0) == 0  # looks where it is unlike


def test_problem_7_by_hand():
    assert heads.turned(np.array([0.0, 1.0]), math.pi / 2) == pytest.approx([1, 0])
    table = encoding(9, 6)
    assert heads.turned(table[2], 5) == pytest.approx(table[7])
    x = np.array([[math.sqrt(math.log(3)), 0.0], [0.0, 0.0]])
    assert heads.mixed(x)[0] == pytest.approx(0.75 * x[0])     # weights 3/4 and 1/4
    assert heads.mixed(x)[1] == pytest.approx(0.5 * x[0])
    rows = complexity.products(2, 3, 5)
    assert [row[2] for row in rows] == [50, 75, 75, 30, 30, 50]
    assert [row[1] for row in rows][3:] == ["(2, 5) (5, 3)", "(2, 3) (3, 5)", "(2, 5) (5, 5)"]
    assert sum(row[2] for row in rows) == formula(2, 3, 5)


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


def test_attention_by_hand():
    two = rnn_attention.attention_one_by_one([[math.log(3)]], [[1.0], [0.0]], [[4.0], [8.0]])
    assert two == pytest.approx(np.array([[5.0]]))
    big = rnn_attention.attention_one_by_one([[1000.0]], [[1.0], [0.0]], [[4.0], [8.0]])
    assert big.tolist() == [[4]]
    assert rnn_attention.fixed_points(np.array([2.0]), np.array([[3.0]]), 3) == [[5.0]]
    low, high = sorted(rnn_attention.fixed_points(np.zeros(1), np.array([[3.0], [-3.0]])))
    assert high == -low == 3 * np.tanh(3 * high)            # h = 3 tanh(3 h), h = 0 repels
    assert rnn_attention.missing_mass(1) == 1
    assert rnn_attention.largest_state(1) == pytest.approx(math.tanh(5))
    plain, attentive = rnn_attention.first_step_gradient(1)
    assert plain == attentive > 0                           # one step: nothing to attend to


def test_an_attention_that_is_another_has_an_error(monkeypatch):
    right = rnn_attention.score_errors()
    assert list(right) == ["dot", "additive", "scaled dot"]
    monkeypatch.setattr(rnn_attention, "DotAttention", rnn_attention.ScaledDotAttention)
    wrong = rnn_attention.score_errors()
    assert wrong["dot"] > 0.01 and right == wrong | {"dot": right["dot"]}
    assert min(rnn_attention.matrix_form_errors()) > 0.01


def test_problem_5_by_hand():
    s, past = np.array([0.0, math.log(2)]), np.array([[4.0, 0.0], [0.0, 1.0]])
    scores, weights, a, h = rnn_attention.step_with_attention(s, past)
    assert scores == pytest.approx([0, math.log(2)])
    assert weights == pytest.approx([1 / 3, 2 / 3])
    assert a == pytest.approx([4 / 3, 2 / 3]) and h == pytest.approx(s + a)


def test_problem_5_three_past_states():
    past = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    scores, weights, a, h = rnn_attention.step_with_attention(np.array([math.log(2), 0.0]), past)
    assert scores == pytest.approx([math.log(2), 0, math.log(2)])
    assert weights == pytest.approx([0.4, 0.2, 0.4])
    assert a == pytest.approx([0.8, 0.6]) and h == pytest.approx([math.log(2) + 0.8, 0.6])


def test_what_moves_what():
    x = np.array([[1.0, 2.0], [3.0, 0.0], [-1.0, 5.0]])
    assert influence(lambda x: x.cumsum(0), x).tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert influence(lambda x: x**2, x).tolist() == [[5, 0, 0], [0, 7, 0], [0, 0, 11]]
    assert influence(lambda x: x[:1] * [-3, 1], x).tolist() == [[3, 0, 0]]
    assert x.tolist() == [[1, 2], [3, 0], [-1, 5]]
    assert learned(Linear(3, 2)) == 8 and learned(Linear(3, 2, bias=False)) == 6
