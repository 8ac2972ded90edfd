"""Document 003: what the exercises' functions compute, against facts made by hand."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from exercises import d003_beam_definitions as definitions
from exercises import d003_beam_stopping as beam
from exercises import d003_eigenvalues as eigenvalues
from exercises import d003_graph_attention as graph
from exercises import d003_message_passing as messages
from exercises import d003_parity_lstm as parity
from exercises import d003_points_and_review as review
from exercises import d003_threshold_neurons as neurons
from exercises.framework import FAILED
from npdl.errors import InputError

END = beam.END
TREE = {"a": (0.5, {END: 0.2, "c": (0.5, {END: 1.0}), "d": (0.3, {END: 1.0})}),
        "b": (0.4, {END: 0.9, "c": (0.1, {END: 1.0})}), END: 0.1}
FIRST, SECOND = parity.DESIGNS["add or subtract"], parity.DESIGNS["from the hint"]


# Questions 1 and 2

@pytest.mark.parametrize("w, b, count", [
    ((1, 1), -2, 1), ((1, 1), -1, 2), ((1, 1), 0.5, 0), ((2, -2), 0, 2), ((0, 0, 0), 0, 8)])
def test_inputs_on_the_line(w, b, count):
    assert neurons.on_the_line(w, b) == count


@pytest.mark.parametrize("table", [(0, 0, 0, 1), (0, 1, 1, 1), (1, 0, 0, 0)])
def test_a_grid_counted_triple_by_triple(table):
    axis = (-2, -1, 0, 1, 2)
    hits = sum(all((w * x + v * y + b >= 0) == bool(value)
                   for (x, y), value in zip(product((0, 1), repeat=2), table, strict=True))
               for w, v, b in product(axis, repeat=3))
    assert neurons.grid_search(table, 2, 1) == (hits, 125) and hits


def test_tables():
    assert neurons.checked_table([1, 0]) == ((1, 0), 1)
    assert neurons.checked_table((0,) * 16) == ((0,) * 16, 4)
    for wrong in ((1,), (0, 1, 1), (0, 2), (0,) * 32):
        with pytest.raises(InputError):
            neurons.checked_table(wrong)
    assert neurons.certificate((1, 0, 0, 1)) == ((0, 0), (1, 1), (0, 1), (1, 0))
    assert neurons.table_of(neurons.neuron_or_certificate((1, 0))[0], 1) == (1, 0)


# Question 3

def test_parity_of_two_bits():
    assert [parity.is_parity(t) for t in ((0, 1, 1, 0), (0, 1, 1, 1), (0, 0, 0, 1))] == [
        True, False, False]


def test_candidate_and_memory_by_hand():
    assert parity.candidate_and_state(FIRST, (1,)) == (1, 1)
    assert parity.candidate_and_state(FIRST, (1, 1)) == (-1, 0)
    assert parity.candidate_and_state(FIRST, (1, 0)) == (-1, 1)
    assert parity.candidate_and_state(SECOND, (1, 1, 0)) == (1, 0)
    reads_x = FIRST | {"C": (0, -2, 1)}
    assert parity.candidate_and_state(reads_x, (1,)) == (-1, -1)
    assert parity.candidate_and_state(reads_x, (1, 0)) == (1, -1)


def test_how_near_gates_come_to_zero():
    assert parity.nearest_to_zero(FIRST) == parity.nearest_to_zero(SECOND) == 1
    assert parity.nearest_to_zero(FIRST | {"o": (-1, -1, 0.75)}) == 0.25
    assert parity.nearest_to_zero({"f": (3, 0, -7), "i": (0, 5, 6), "C": (0, 0, 9)}) == 4


def test_designs_counted_one_by_one():
    gates = list(product((-2, 0, 2), (-2, 0, 2), (-1, 1)))
    cases = list(product((0, 1), repeat=2))

    def z(gate, C, x):
        return gate[0] * C + gate[1] * x + gate[2]

    opened = [tuple(z(g, C, x) > 0 for C, x in cases) for g in gates]
    signed = [tuple(1 if z(g, C, x) > 0 else -1 for C, x in cases) for g in gates]
    right = sum(all(f[n] * C + i[n] * g[n] == C ^ x for n, (C, x) in enumerate(cases))
                for f, i, g in product(opened, opened, signed))
    outputs = sum(all(o[n] for n, (C, x) in enumerate(cases) if C ^ x) for o in opened)
    assert parity.count_designs() == (right * outputs, 18**4) and right
    assert parity.count_designs((0,), (1,)) == (0, 1)


def test_steps_by_hand():
    assert parity.four_cases(FIRST) == [(0, 0, 0, 0), (0, 1, 1, 1), (1, 0, 1, 1), (1, 1, 0, 0)]
    always = {gate: (0, 0, 1) for gate in "fiCo"}
    assert parity.four_cases(always)[3] == (1, 1, 2, 1)
    assert parity.run_steps(always, [[0, 1, 0]]).tolist() == [[1, 2, 3]]
    assert parity.wrong_memories(always, 2) == (8, 6, 2)       # C = 1, 2 for parities 00 01 11 10
    assert parity.strings(2).tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert len(parity.strings(16)) == 2**16
    with pytest.raises(InputError):
        parity.strings(17)


# Question 4

@pytest.mark.parametrize("tree, width, best, found", [
    (beam.pruned_tree(), 1, 0.4, {"same": 1, "optimal": 0, "fired": 0, "steps": [2, 2]}),
    (beam.pruned_tree(), 2, 0.4, {"same": 1, "optimal": 1, "fired": 0, "steps": [2, 2]}),
    (TREE, 2, 0.36, {"same": 1, "optimal": 1, "fired": 1, "steps": [2, 3]}),
    (TREE, 1, 0.36, {"same": 1, "optimal": 0, "fired": 0, "steps": [3, 3]}),
])
def test_searches_with_and_without_the_rule(tree, width, best, found):
    assert beam.compare([(tree, math.log(best))], width) == found
    twice = {key: [2 * n for n in value] if key == "steps" else 2 * value
             for key, value in found.items()}
    assert beam.compare([(tree, math.log(best))] * 2, width) == twice


def test_rises_and_lengths():
    assert beam.largest_rise([beam.pruned_tree()], 1) == pytest.approx(math.log(0.6))
    assert beam.largest_rise([beam.pruned_tree(), TREE], 2) == 0
    # b </s>, log 0.36 / 2 = -0.51, is better than a c, -0.69; but a c </s>, log 0.25 / 3, is -0.46
    assert beam.normalised_rule_fails([TREE]) == 1
    assert beam.normalised_rule_fails([beam.pruned_tree(), TREE, TREE]) == 2


def test_numberings():
    words = (("a", 0.5), ("b", 0.25), (END, 0.125))
    assert definitions.numbered(words, True, False) == (END, 2**-6)
    assert definitions.numbered(words, True, True) == (None, 2**-6)
    assert definitions.numbered(words, False, False) == (None, 2**-5)
    assert definitions.numbered(words[:1], False, False) == (None, 1)


def test_hypotheses_that_share_the_best_score():
    twins = {word: (0.5, {END: 1.0}) for word in "ab"}
    assert (definitions.ties(twins, 1), definitions.ties(twins, 2)) == (1, 2)
    assert definitions.ties(beam.pruned_tree(), 2) == 1
    assert definitions._renamed({"x": (0.5, {}), "y": (0.25, {})}) == {
        "w0": (0.5, {}), "w1": (0.25, {})}


def test_a_model_of_steady_probabilities():
    model = definitions.SteadyModel(0.5)
    assert np.exp(model.start()[0]) == pytest.approx(np.array([[0.5, 0.25, 0.25]]))
    assert np.exp(model.advance(None, [0, 0], [1, 2])[0]) == pytest.approx(
        np.array([[0.5, 0.25, 0.25]] * 2))
    assert definitions.SteadyModel(0.0).row[0] == -math.inf
    assert definitions.SteadyModel(1.0).row.tolist() == [0, -math.inf, -math.inf]
    for wrong in (-0.1, 1.1):
        with pytest.raises(InputError):
            definitions.SteadyModel(wrong)
    assert definitions.likely(0.5, 0.125) == 3                  # 1/2, and two of 1/8
    assert definitions.likely(0.5, 0.01, max_len=2) == 3


# Question 5

def test_roots_of_powers():
    assert eigenvalues._root(np.diag([2.0, 0.5]), 5) == pytest.approx(2)
    assert eigenvalues._root(-3 * np.eye(2), 4) == pytest.approx(3)
    golden = (1 + math.sqrt(5)) / 2
    assert eigenvalues._root(np.array([[1.0, 1.0], [0.0, 1.0]]), 1) == pytest.approx(golden)
    assert eigenvalues._root(np.array([[1.0, 1.0], [1.0, 0.0]]), 7) == pytest.approx(golden)
    assert eigenvalues._root(1e200 * np.eye(3), 100) == pytest.approx(1e200)
    # powers of [[1, 1], [0, 1]] shear by t: |[[1, 2], [0, 1]]| is 1 + sqrt 2
    assert eigenvalues._root(np.array([[1.0, 1.0], [0.0, 1.0]]), 2) == pytest.approx(
        math.sqrt(1 + math.sqrt(2)))
    assert eigenvalues._root(np.ones((4, 4)), 1000) == pytest.approx(4)     # 4^1000 overflows


def test_states_by_hand():
    W = np.array([[0.0, 2.0], [1.0, 0.0]])                      # W^T (x, y) = (y, 2x)
    assert eigenvalues.states(W, [3, 4], 2).tolist() == [[3, 4], [4, 6], [6, 8]]
    assert eigenvalues.states([[1j]], [2], 3).ravel().tolist() == [2, 2j, -2, -2j]
    assert eigenvalues.closed_form(W, [3, 4], 2).tolist() == [6, 8]
    assert eigenvalues.closed_form(np.array([[1j]]), [2], 3).tolist() == [-2j]
    assert eigenvalues.gradient_through(W, [3.0, 4.0], 0).tolist() == [3, 4]
    assert eigenvalues.gradient_through(W, [3.0, 4.0], 1).tolist() == [8, 3]  # W (x, y) = (2y, x)
    shear = np.array([[1.0, 1.0], [0.0, 1.0]])
    assert eigenvalues.gradient_through(shear, [1.0, 2.0], 3).tolist() == [7, 2]
    assert eigenvalues.state_norms(W, [3.0, 4.0], 2) == pytest.approx([5, math.sqrt(52), 10])
    assert eigenvalues.state_norms(W, [3.0, 4.0], 0).tolist() == [5]
    assert eigenvalues.jordan(0.5, 2).tolist() == [[0.5, 1], [0, 0.5]]
    assert eigenvalues.jordan_power(Fraction(1, 2), 3, 2) == [Fraction(1, 4), 1, 1]
    assert eigenvalues.jordan_power(2, 3, 0) == [1, 0, 0]
    with pytest.raises(InputError):
        eigenvalues.state_norms(W, [3.0, 4.0], -1)


def test_eigenvalues_by_hand():
    assert eigenvalues.moduli(np.array([[-3.0, 5.0], [0.0, 2j]])) == pytest.approx([2, 3])
    assert eigenvalues.spectral_radius([[0, -4], [1, 0]]) == pytest.approx(2)       # +-2i
    assert eigenvalues.checked_square([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
    for wrong in ([[1, 2]], [1, 2], [[math.nan]], np.ones((0, 0))):
        with pytest.raises(InputError):
            eigenvalues.checked_square(wrong)
    Q = eigenvalues.random_orthogonal(3, 5)
    R = Q.T @ np.random.default_rng(5).standard_normal((3, 3))
    assert np.allclose(R, np.triu(R)) and (np.diag(R) > 0).all()
    # of 400 matrices of one normal entry 0.5 z, rho is below 1 for P(|z| < 2) = 95.4 %
    assert eigenvalues.share_vanishing(0.5, 1, 400) == pytest.approx(0.954, abs=0.03)
    # of variance gain^2 / n: the circle of the eigenvalues has radius 0.8 for each n
    assert eigenvalues.share_vanishing(0.8, 64, 10) == 1
    assert eigenvalues.share_vanishing(1.3, 64, 10) == 0


# Question 6

def test_readings_of_the_update():
    assert messages.readings() == {
        "entry by entry": "[0, 0.8]", "largest of all": "0.8", "W by entry": "[1, -0.2]"}


def test_edges_besides():
    assert messages.graphs_alike() == (512, 512)
    assert messages.by_npdl() == pytest.approx([0, 0.8])
    assert messages.by_npdl(others=[(2, 1), (3, 0)]).tolist() == messages.by_npdl().tolist()
    # an edge to itself adds 2 h_1 = (2, -2) to Agg = (-0.8, 0.8)
    assert messages.by_npdl(others=[(0, 0)]) == pytest.approx([1.2, 0])


def test_sums_and_snapshots():
    assert max(messages._sum_error(seed) for seed in range(5)) < 1e-12
    at_once, in_turn = messages._snapshot()
    assert at_once.tolist() == [4, 6, 2] and in_turn.tolist() == [4, 6, 8]
    ring = [[0, 1, 0], [0, 0, 1], [1, 0, 0]]
    assert messages.one_after_another([[1], [0], [5]], ring)[:, 0].tolist() == [0, 10, 0]
    assert messages.Scale(3.0).forward(np.array([2.0]))[0].tolist() == [6]
    assert messages.Scale(3.0).backward(np.array([5.0]), None).tolist() == [15]


def test_attention_of_two_tokens():
    h, eye = np.eye(2), np.eye(2)
    y = graph.attention_as_messages(h, np.log(3) * eye, eye, eye)
    assert y == pytest.approx(np.array([[0.75, 0.25], [0.25, 0.75]]))
    alone = graph.attention_as_messages(h, eye, eye, eye, loops=False)
    assert alone == pytest.approx(np.array([[0, 1], [1, 0]]))
    assert graph.attention_as_messages(h[:1], eye, eye, eye).tolist() == [[1, 0]]
    with pytest.raises(InputError):
        graph.attention_as_messages(h[:1], eye, eye, eye, loops=False)
    # two tokens (1, 0) and (0, 1), Q = ln 3 and 0, K = 1: weights 3/4, 1/4 and 1/2, 1/2
    Q, scaled = np.diag([np.log(3), 0]), 1 / (1 + 3 ** -math.sqrt(0.5))
    assert graph.attention_errors(h, Q, eye, eye) == pytest.approx([0, 0.75, 0, 0.75 - scaled])
    swapped = graph.attention_as_messages(h, Q, eye[::-1], eye)
    assert swapped == pytest.approx(np.array([[0.25, 0.75], [0.5, 0.5]]))
    # states 0 and 2: the first becomes their mean 1, the second 2 / (1 + e^-4)
    a, b = 1, 2 / (1 + math.exp(-4))
    assert graph.spread_after(1, np.array([[0.0], [2.0]])) == pytest.approx(
        [(b - a) / math.sqrt(2 * (a * a + b * b))])
    assert graph.spread_after(2, np.array([[1.0], [-1.0]])) == pytest.approx([1, 1])
    assert graph.score_exists(2, 2, 5) and not graph.score_exists(1, 3)
    assert graph.largest_weights((2,), math.log(3)) == pytest.approx([0.9])


# Questions 7 and 8, points

def test_exponents_and_points():
    assert review.exponent([1, 2], [3, 3]) == 0
    assert review.exponent([1, 10, 100], [1, 0.1, 0.1]) == pytest.approx(0.5)
    assert review.extrapolated((1, 10), (1.0, 0.1)) == pytest.approx(0.001)
    assert review.extrapolated((1, 10), (5.0, 0.5), 20) == pytest.approx(0.25)
    for sizes, losses in (([1, 0], [1, 1]), ([1, 2], [1, 0]), ([1, 2], [1]), ([1], [1])):
        with pytest.raises(InputError):
            review.exponent(sizes, losses)
    assert review.course_of(Fraction("21.5")) == "4644"
    assert review.course_of(Fraction("26.5")) == "7643"
    with pytest.raises(InputError):
        review.course_of(Fraction(1))
    assert review.expected_loss(1, 0.5) == pytest.approx(-math.log(0.75 * 0.25) / 2)
    assert review.entropy(0.5) == pytest.approx(math.log(2))


@pytest.mark.parametrize("module, name, wrong, part", [
    (messages, "_sum_error", lambda: 1.0, "a"), (messages, "edges_of", lambda *_: [], "c"),
    (parity, "proves_parity", lambda _: False, ""),
    (eigenvalues, "gradient_through", lambda W, g, steps: g, ""),
    (graph, "attention_errors", lambda *_: [1.0, 1.0, 1.0, 0.0], "d, premise"),
])
def test_what_fails_of_ours_is_no_verdict_on_the_document(monkeypatch, module, name, wrong, part):
    assert not [claim for claim in module.claims() if claim.verdict == FAILED]
    monkeypatch.setattr(module, name, wrong)
    if name == "edges_of":
        monkeypatch.setattr(module, "graphs_alike", lambda: (1, 1))
    assert part in {claim.part for claim in module.claims() if claim.verdict == FAILED}
