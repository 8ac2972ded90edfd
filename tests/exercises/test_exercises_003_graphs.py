"""Document 003, Questions 6 to 8: numbers against facts made by hand, and on other data."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exercises.d003 import graph_attention as graph
from exercises.d003 import message_passing as messages
from exercises.d003 import parity_lstm as parity
from exercises.d003 import points_and_review as review

SMALL = settings(max_examples=25)
SEEDS = st.integers(0, 10**6)
FIRST, SECOND = parity.DESIGNS["add or subtract"], parity.DESIGNS["from the hint"]


@SMALL
@given(seed=SEEDS, N=st.integers(2, 6), D=st.integers(1, 4), E=st.integers(1, 4),
       F=st.integers(1, 4))
def test_attention_is_message_passing(seed, N, D, E, F):
    rng = np.random.default_rng(seed)
    by_messages, _, layer = graph.attention_errors(
        *(rng.standard_normal(shape) for shape in ((N, D), (E, D), (E, D), (F, D))))
    assert 0 <= min(by_messages, layer) <= max(by_messages, layer) < 1e-12


def test_question_6_attention():
    assert graph.largest_weights((1, 2), 0.0) == [1, 0.5]
    spread = graph.spread_after(5, np.random.default_rng(0).standard_normal((16, 8)))
    assert spread == sorted(spread, reverse=True) and spread[-1] < 0.01


def test_attention_of_two_tokens():
    h, eye = np.eye(2), np.eye(2)
    y = graph.attention_by_messages(h, np.log(3) * eye, eye, eye)
    assert y == pytest.approx(np.array([[0.75, 0.25], [0.25, 0.75]]))
    alone = graph.attention_by_messages(h, eye, eye, eye, loops=False)
    assert alone == pytest.approx(np.array([[0, 1], [1, 0]]))
    assert graph.attention_by_messages(h[:1], eye, eye, eye).tolist() == [[1, 0]]
    # two tokens (1, 0) and (0, 1), Q = ln 3 and 0, K = 1: weights 3/4, 1/4 and 1/2, 1/2
    Q = np.diag([np.log(3), 0])
    assert graph.attention_errors(h, Q, eye, eye) == pytest.approx([0, 0.75, 0])
    swapped = graph.attention_by_messages(h, Q, eye[::-1], eye)
    assert swapped == pytest.approx(np.array([[0.25, 0.75], [0.5, 0.5]]))
    # states 0 and 2: the first becomes their mean 1, the second 2 / (1 + e^-4)
    a, b = 1, 2 / (1 + math.exp(-4))
    assert graph.spread_after(1, np.array([[0.0], [2.0]])) == pytest.approx(
        [(b - a) / math.sqrt(2 * (a * a + b * b))])
    assert graph.spread_after(2, np.array([[1.0], [-1.0]])) == pytest.approx([1, 1])
    assert graph.score_exists(2, 2, 5) and not graph.score_exists(1, 3)
    assert graph.largest_weights((2,), math.log(3)) == pytest.approx([0.9])


def test_messages_of_key_and_value():
    """Scores ln 2, ln 2, ln 4 make weights 1/4, 1/4, 1/2; equal values 1, 2, 3, other keys."""
    Q, K, V = graph.Q, graph.K, graph.V
    assert graph.updated(Q @ graph.H[0], [(K @ h, V @ h) for h in graph.H]) == pytest.approx(
        0.25 * np.array([1, 0]) + 0.25 * np.array([0, 3]) + 0.5 * np.array([1, 3]))
    assert graph.same_values() == pytest.approx([17 / 7, 2])
    assert graph.same_values(((0, 1), (1, 0)), (0, 3)) == pytest.approx([2, 1])


def test_what_length_does():
    assert [graph.rounds_to_reach(n, 3) for n in (2, 4, 5, 7, 8)] == [1, 1, 2, 2, 3]
    assert graph.score_gap(100, 0.5) == pytest.approx(math.log(99))
    assert graph.score_gap(2, 0.75) == pytest.approx(math.log(3))
    assert graph.order_error(np.random.default_rng(0).standard_normal((5, 3))) < 1e-12


@SMALL
@given(data=st.data(), width=st.integers(1, 4), others=st.integers(1, 4))
def test_an_update_of_any_vertex(data, width, others):
    number = st.integers(-4, 4)
    row = st.lists(number, min_size=width, max_size=width)
    states = data.draw(st.lists(row, min_size=others + 1, max_size=others + 1))
    weights = data.draw(st.lists(number, min_size=others, max_size=others))
    W, factor = data.draw(row), data.draw(number)
    _, _, new = messages.update(states, weights, factor, W)
    assert messages.by_npdl(states, weights, factor, W) == pytest.approx([float(v) for v in new])


def test_question_6_numbers():
    agg, own, new = messages.update()
    assert agg == [Fraction(-4, 5), Fraction(4, 5)] and own == 0 and new == [0, Fraction(4, 5)]
    assert len(messages.edges_of(4)) == 12 and len(messages.edges_of(4, True)) == 16


def test_readings_of_the_update():
    assert messages.readings() == {
        "entry by entry": "[0, 0.8]", "largest of all": "0.8", "W by entry": "[1, -0.2]"}
    assert messages.by_npdl() == pytest.approx([0, 0.8])


def test_sums_and_snapshots():
    assert max(messages._sum_error(seed) for seed in range(5)) < 1e-12
    at_once, in_turn = messages._snapshot()
    assert at_once.tolist() == [4, 6, 2] and in_turn.tolist() == [4, 6, 8]
    ring = [[0, 1, 0], [0, 0, 1], [1, 0, 0]]
    assert messages.one_after_another([[1], [0], [5]], ring)[:, 0].tolist() == [0, 10, 0]
    assert messages.Scale(3.0).forward(np.array([2.0]))[0].tolist() == [6]
    assert messages.Scale(3.0).backward(np.array([5.0]), None).tolist() == [15]


def test_question_6_messages():
    hears = {1: (2, 3), 2: (1,), 3: ()}
    states = {1: 1, 2: 2, 3: 5}
    assert messages.messages_of(states, hears, 3) == {1: [6, 15], 2: [3], 3: []}
    assert messages.rounds(states, 2, hears, 1) == [
        states, {1: 8, 2: 3, 3: 5}, {1: 16, 2: 11, 3: 5}]
    assert messages.by_matrix(states, 2, hears, 1) == {1: 16, 2: 11, 3: 5}
    assert messages.by_matrix(states, 0, hears) == states


@given(n=st.integers(1, 40), p=st.floats(0.05, 0.95))
def test_the_mean_loss_is_above_the_entropy(n, p):
    assert review.expected_loss(n, p) > review.entropy(p)


@given(power=st.floats(0.1, 2), scale=st.floats(0.1, 10))
def test_the_exponent_of_a_power_law(power, scale):
    sizes = [1, 5, 20, 300]
    assert review.exponent(sizes, [scale * n**-power for n in sizes]) == pytest.approx(power)


def test_points():
    assert review.total(review.POINTS) == Fraction("21.5")
    assert review.total(review.POINTS | review.EXTRA) == Fraction("26.5")
    n = 2000
    assert 2 * n * (review.expected_loss(n) - review.entropy()) == pytest.approx(1, abs=0.01)


def test_exponents_and_points():
    assert review.exponent([1, 2], [3, 3]) == 0
    assert review.exponent([1, 10, 100], [1, 0.1, 0.1]) == pytest.approx(0.5)
    assert review.extrapolated((1, 10), (1.0, 0.1)) == pytest.approx(0.001)
    assert review.extrapolated((1, 10), (5.0, 0.5), 20) == pytest.approx(0.25)
    assert review.course_of(Fraction("21.5")) == "4644"
    assert review.course_of(Fraction("26.5")) == "7643"
    assert review.expected_loss(1, 0.5) == pytest.approx(-math.log(0.75 * 0.25) / 2)
    assert review.entropy(0.5) == pytest.approx(math.log(2))


def test_questions_7_and_8():
    assert review.local_slopes((1, 10, 100), (8, 0.8, 0.8)) == pytest.approx([1, 0])
    assert review.local_slopes((1, 4), (1, 2)) == pytest.approx([-0.5])
    losses, excess, plain, right = review.measured()
    assert losses[0] - excess[0] == pytest.approx(0.6108643)          # the coin's entropy
    assert 0 < plain[1] < 0.01 < 0.9 < right[1] < 1


def test_a_scaling_law_by_hand():
    """At N = D = 1 the law is E + A + B; alpha A / N^alpha = beta B / D^beta at the best split."""
    assert review.law(1, 1) == pytest.approx(1.69 + 406.4 + 410.7)
    assert review.compute(2, 3) == 36
    for C in (1e20, 5.04e23):
        N, D = review.best_split(C)
        assert 6 * N * D == pytest.approx(C)
        assert 0.34 * 406.4 / N**0.34 == pytest.approx(0.28 * 410.7 / D**0.28)
        assert review.searched_split(C)[0] == pytest.approx(N, rel=1e-3)
    assert review.law(*review.OLD) == pytest.approx(1.993, abs=5e-4)
    assert [review.power(fit) for fit in (review.FITTED, review.AGAIN)] == pytest.approx(
        [28 / 62, 3658 / 7136])


def test_the_review_has_350_words():
    said = [text for solution in review.solutions() for text in (
        solution.answer, *(step.text for step in solution.steps))]
    assert len(" ".join(said).split()) <= 350
