"""Document 003: the exercises' numbers on the document's data, and on other data."""

import functools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exercises import d003_beam_definitions as definitions
from exercises import d003_beam_stopping as beam
from exercises import d003_eigenvalues as eigenvalues
from exercises import d003_graph_attention as graph
from exercises import d003_message_passing as messages
from exercises import d003_parity_lstm as parity
from exercises import d003_points_and_review as review
from exercises import d003_threshold_neurons as neurons
from npdl.errors import InputError

MODULES = (neurons, parity, beam, definitions, eigenvalues, messages, graph, review)
SMALL = settings(max_examples=25, deadline=None)
SEEDS = st.integers(0, 10**6)


@functools.cache
def claims_of(module):
    return module.claims()


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__.split(".")[-1])
def test_claims_belong_to_the_document(module):
    claims = claims_of(module)
    assert {claim.document for claim in claims} == {"003"}
    assert module.QUESTION


def test_errors_found():
    wrong = [claim.question for module in MODULES for claim in claims_of(module)
             if claim.verdict == "wrong"]
    assert wrong == ["Q6"]
    slips = [claim.question for module in MODULES for claim in claims_of(module)
             if claim.verdict == "slip"]
    assert sorted(slips) == ["Points", "Q3", "Q3", "Q3", "Q6"]
    assert graph.score_exists(5, 5) and not graph.score_exists(2, 5)


# Questions 1 and 2

@SMALL
@given(bits=st.integers(1, 4), data=st.data())
def test_every_function_has_weights_or_a_certificate(bits, data):
    table = tuple(data.draw(st.lists(st.integers(0, 1), min_size=2**bits, max_size=2**bits)))
    neuron, certificate = neurons.neuron_or_certificate(table, 5000)
    if neuron is not None:
        assert neurons.table_of(neuron, bits) == table
    else:
        value = {tuple(map(int, x)): v
                 for x, v in zip(neurons.inputs(bits), table, strict=True)}
        assert [value[point] for point in certificate] == [1, 1, 0, 0]
        a, b, c, d = map(np.array, certificate)
        assert (a + b == c + d).all()


def test_questions_1_and_2():
    assert neurons.table_of(neurons.and_neuron(), 2) == (0, 0, 0, 1)
    assert neurons.table_of(neurons.or_neuron(), 2) == (0, 1, 1, 1)
    assert neurons.certificate((0, 1, 1, 0)) == ((0, 1), (1, 0), (0, 0), (1, 1))
    assert neurons.certificate((0, 0, 0, 1)) is None
    assert (neurons.counts(1), neurons.counts(2), neurons.counts(3)) == (
        (4, 0), (14, 2), (104, 152))
    assert neurons.grid_search((0, 1, 1, 0))[0] == 0 < neurons.grid_search((0, 0, 0, 1))[0]
    assert neurons.table_of(neurons.XOR(), 2) == (0, 1, 1, 0)


# Question 3

@pytest.mark.parametrize("name", parity.DESIGNS)
def test_the_memory_is_the_parity_of_every_string(name):
    design = parity.DESIGNS[name]
    assert parity.proves_parity(design)
    for length in range(1, 13):
        bits = parity.strings(length)
        assert (parity.run_steps(design, bits) == parity.parities(bits)).all()
    assert parity.wrong_memories(design, 12, sharpness=100.0)[1] == 0


@SMALL
@given(bits=st.lists(st.integers(0, 1), min_size=1, max_size=300),
       name=st.sampled_from(sorted(parity.DESIGNS)))
def test_parity_of_long_strings(bits, name):
    layer = parity.npdl_lstm(parity.DESIGNS[name], 100.0)
    assert parity.memory_of(layer, np.array([bits], float))[0, -1] == sum(bits) % 2


def test_question_3():
    assert (parity.parities(np.array([[1, 0, 1, 1]])) == [[1, 1, 0, 1]]).all()
    always = {"f": (0, 0, 1), "i": (0, 0, 1), "C": (0, 0, 1), "o": (0, 0, 1)}
    assert not parity.proves_parity(always)
    assert parity.wrong_memories(always, 4)[1] > 0
    right, tried = parity.count_designs()
    assert 2 <= right < tried == 18**4


# Question 4

@SMALL
@given(seed=SEEDS, width=st.integers(1, 5), depth=st.integers(1, 4), words=st.integers(1, 3))
def test_the_rule_never_changes_the_best(seed, width, depth, words):
    tree = beam.random_tree(seed, depth, words)
    stopped, full = (beam.search(tree, width, stop=stop) for stop in (True, False))
    assert stopped.best.tokens == full.best.tokens
    assert len(stopped.steps) <= len(full.steps)
    assert beam.largest_rise([tree], width) <= 0
    assert full.best.log_prob <= beam.best_of_all(tree).log_prob + 1e-12


def test_a_wide_beam_finds_the_best_of_all():
    for seed in range(10):
        tree = beam.random_tree(seed, 3, 2)
        assert beam.search(tree, 100).best.log_prob == beam.best_of_all(tree).log_prob


def test_question_4():
    assert math.exp(beam.search(beam.pruned_tree(), 1).best.log_prob) == pytest.approx(0.33)
    assert math.exp(beam.search(beam.pruned_tree(), 2).best.log_prob) == pytest.approx(0.4)
    ends = [math.exp(beam.search(tree).best.log_prob) for tree in beam.twin_trees()]
    assert ends == pytest.approx([0.4, 0.54])
    trees = [beam.random_tree(seed) for seed in range(40)]
    assert 0 < beam.normalised_rule_fails(trees) < 40
    assert definitions.likely(0.5, 0.5) == 1 and definitions.likely(0.5, 0.1) == 3
    assert [c.verdict for c in claims_of(beam)] == [
        "confirmed", "under-specified", "no answer given", "under-specified"]


@given(p=st.floats(0.05, 0.95), least=st.floats(0.001, 1))
def test_few_sequences_are_likely(p, least):
    assert definitions.likely(p, least) <= 1 / least * (1 + 1e-9)


# Question 5

@SMALL
@given(seed=SEEDS, n=st.integers(1, 6), steps=st.integers(0, 12))
def test_the_closed_form(seed, n, steps):
    rng = np.random.default_rng(seed)
    W, h_0 = rng.standard_normal((n, n)) + 1j * rng.standard_normal((n, n)), rng.standard_normal(n)
    last = eigenvalues.states(W, h_0, steps)[-1]
    assert np.abs(eigenvalues.closed_form(W, h_0, steps) - last).max() <= 1e-9 * np.abs(last).max()
    assert eigenvalues.moduli(W) == pytest.approx(eigenvalues.moduli(W.T), rel=1e-6, abs=1e-6)
    back = eigenvalues.gradient_through(W.real, h_0, steps)
    assert back == pytest.approx(eigenvalues.states(W.real.T, h_0, steps)[-1])


@given(numerator=st.integers(-9, 9), size=st.integers(1, 4), t=st.integers(0, 20))
def test_powers_of_a_jordan_block(numerator, size, t):
    value = Fraction(numerator, 8)
    column = [float(v) for v in eigenvalues.jordan_power(value, size, t)]
    power = np.linalg.matrix_power(eigenvalues.jordan(float(value), size), t)
    assert column == pytest.approx(power[::-1, -1], rel=1e-9, abs=1e-9)
    assert eigenvalues.spectral_radius(eigenvalues.jordan(float(value), size)) == pytest.approx(
        abs(float(value)))


@SMALL
@given(seed=SEEDS, n=st.integers(1, 8))
def test_an_orthogonal_matrix_keeps_lengths(seed, n):
    W = eigenvalues.random_orthogonal(n, seed)
    assert eigenvalues.state_norms(W, np.ones(n), 30) == pytest.approx(math.sqrt(n))
    assert eigenvalues.spectral_radius(W) == pytest.approx(1)


def test_question_5():
    assert eigenvalues.state_norms(np.diag([2.0, 0.5]), [0.0, 1.0], 3) == pytest.approx(
        [1, 0.5, 0.25, 0.125])
    assert eigenvalues.share_vanishing(0.5, count=20) == 1
    assert eigenvalues.share_vanishing(2.0, count=20) == 0
    assert eigenvalues.jordan_power(1, 3, 1000) == [1, 1000, 499500]


# Question 6

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
    assert messages.set_and_multiset((2, 2)) == (2, 4)


@SMALL
@given(seed=SEEDS, N=st.integers(2, 6), D=st.integers(1, 4), E=st.integers(1, 4),
       F=st.integers(1, 4))
def test_attention_is_message_passing(seed, N, D, E, F):
    rng = np.random.default_rng(seed)
    by_messages, _, layer, _ = graph.attention_errors(
        *(rng.standard_normal(shape) for shape in ((N, D), (E, D), (E, D), (F, D))))
    assert 0 <= min(by_messages, layer) <= max(by_messages, layer) < 1e-12


def test_question_6_attention():
    assert graph.largest_weights((1, 2), 0.0) == [1, 0.5]
    spread = graph.spread_after(5, np.random.default_rng(0).standard_normal((16, 8)))
    assert spread == sorted(spread, reverse=True) and spread[-1] < 0.01


# Questions 7 and 8, points

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


@pytest.mark.parametrize("call", [
    lambda: neurons.certificate((0, 1, 1)),
    lambda: neurons.neuron_or_certificate((0, 2, 1, 0)),
    lambda: neurons.counts(4),
    lambda: parity.strings(0),
    lambda: parity.step({"f": (0, 0, 1)}, 0, 0, 1),
    lambda: beam.random_tree(0, depth=0),
    lambda: definitions.SteadyModel(1.5),
    lambda: eigenvalues.spectral_radius(np.ones((2, 3))),
    lambda: eigenvalues.state_norms(np.eye(2), [1.0], 3),
    lambda: eigenvalues.jordan(1, 0),
    lambda: messages.update(weights=("1", "2")),
    lambda: messages.edges_of(0),
    lambda: graph.attention_errors(*[np.ones((1, 1))] * 4),
    lambda: review.expected_loss(0),
    lambda: review.exponent([1], [2]),
])
def test_odd_input_is_named_in_one_line(call):
    with pytest.raises(InputError) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("module", [neurons, beam, eigenvalues])
def test_figures(module, tmp_path):
    for path in module.figures(tmp_path):
        assert path.read_bytes().startswith(b"\x89PNG")
