"""Document 003, Questions 1 to 5: numbers against facts made by hand, and on other data."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exercises.d003 import beam_definitions as definitions
from exercises.d003 import beam_stopping as beam
from exercises.d003 import eigenvalues
from exercises.d003 import parity_lstm as parity
from exercises.d003 import threshold_neurons as neurons

SMALL = settings(max_examples=25)
SEEDS = st.integers(0, 10**6)
END = beam.END
TREE = {"a": (0.5, {END: 0.2, "c": (0.5, {END: 1.0}), "d": (0.3, {END: 1.0})}),
        "b": (0.4, {END: 0.9, "c": (0.1, {END: 1.0})}), END: 0.1}
FIRST, SECOND = parity.DESIGNS["add or subtract"], parity.DESIGNS["from the hint"]
BRANCHES = {"a": (0.5, {"c": (0.25, {END: 1.0}), END: 0.75}), "b": (0.375, {END: 1.0}), END: 0.125}


@given(p=st.floats(0.05, 0.95), least=st.floats(0.001, 1))
def test_few_sequences_are_likely(p, least):
    assert definitions.likely(p, least) <= 1 / least * (1 + 1e-9)


def test_a_model_of_steady_probabilities():
    model = definitions.SteadyModel(0.5)
    assert np.exp(model.start()[0]) == pytest.approx(np.array([[0.5, 0.25, 0.25]]))
    assert np.exp(model.advance(None, [0, 0], [1, 2])[0]) == pytest.approx(
        np.array([[0.5, 0.25, 0.25]] * 2))
    assert definitions.SteadyModel(0.0).row[0] == -math.inf
    assert definitions.SteadyModel(1.0).row.tolist() == [0, -math.inf, -math.inf]
    assert definitions.likely(0.5, 0.125) == 3                  # 1/2, and two of 1/8
    assert definitions.likely(0.5, 0.01, max_len=2) == 3


def test_question_4_everything():
    assert definitions.everything(BRANCHES) == [
        (("a", END), 0.375), (("b", END), 0.375), ((END,), 0.125), (("a", "c", END), 0.125)]
    step = definitions.candidate_step(2, [(("a", END), 0.375), (("b",), 0.25)], [(("b",), 0.25)])
    assert step.text.startswith("B₂") and step.table.rows == (
        (f"a {END}", "0.375", "−0.98", ""), ("b", "0.250", "−1.39", "kept"))


@pytest.mark.slow
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


def test_question_4_step_by_step():
    assert beam.expanded(BRANCHES, [((), 1.0)]) == [
        (("a",), 0.5), (("b",), 0.375), ((END,), 0.125)]
    assert beam.expanded(BRANCHES, [(("a",), 0.5), ((END,), 0.125)]) == [
        (("a", END), 0.375), (("a", "c"), 0.125)]
    steps = beam.beams(BRANCHES, 2)
    assert [kept for _, kept, _ in steps] == [
        [(("a",), 0.5), (("b",), 0.375)], [(("a", END), 0.375), (("b", END), 0.375)]]
    assert [best for _, _, best in steps] == [0, 0.375]
    assert beam.stop_at(steps) == 2
    assert beam.stop_at(beam.beams(BRANCHES, 3)) == 2
    assert beam.stop_at([(None, [("x", 0.5)], 0.5)]) == 1
    assert [len(kept) for _, kept, _ in beam.beams(BRANCHES, 9)] == [3, 3, 1]
    assert beam.log(0.0) == "none" and beam.log(math.exp(-2)) == "−2.00"
    assert beam.described({"a": (0.5, {"c": 1.0, END: 0.25}), "b": (0.5, {END: 1.0})}) == (
        f"a 0.5 (then c 1.0, {END} 0.2), b 0.5")


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


def test_eigenvalues_by_hand():
    assert eigenvalues.moduli(np.array([[-3.0, 5.0], [0.0, 2j]])) == pytest.approx([2, 3])
    assert eigenvalues.spectral_radius([[0, -4], [1, 0]]) == pytest.approx(2)       # +-2i
    Q = eigenvalues.random_orthogonal(3, 5)
    R = Q.T @ np.random.default_rng(5).standard_normal((3, 3))
    assert np.allclose(R, np.triu(R)) and (np.diag(R) > 0).all()
    # of 400 matrices of one normal entry 0.5 z, rho is below 1 for P(|z| < 2) = 95.4 %
    assert eigenvalues.share_vanishing(0.5, 1, 400) == pytest.approx(0.954, abs=0.03)
    # of variance gain^2 / n: the circle of the eigenvalues has radius 0.8 for each n
    assert eigenvalues.share_vanishing(0.8, 64, 10) == 1
    assert eigenvalues.share_vanishing(1.3, 64, 10) == 0


def test_eigenvectors_of_a_triangle():
    pairs = eigenvalues.triangular_pairs(((2.0, 3.0), (0.0, 5.0)))
    assert pairs == [(2, (1, 0)), (5, (1, 1))]
    c = eigenvalues.shares(pairs, (7.0, 4.0))
    assert c == (3, 4)
    assert eigenvalues.closed_form_of(pairs, c, 2).tolist() == [3 * 4 + 4 * 25, 100]
    assert eigenvalues.shares([(1, (1.0, 0.0)), (2, (1.0, 2.0))], (1.0, 1.0)) == (0.5, 0.5)
    assert eigenvalues.short(-1e-7) == "−1e−07"
    assert eigenvalues.power_norm(((2, 0), (0, 3)), 2) == pytest.approx(9)
    assert eigenvalues.power_norm(((1, 1), (0, 1)), 2) == pytest.approx(1 + math.sqrt(2))
    assert eigenvalues.shares([(1, (1.0, 0.0)), (2, (3.0, 2.0))], (7.0, 4.0)) == (1, 2)


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


def test_question_3_bit_by_bit():
    design = FIRST
    assert parity.gates(design, 0, 1) == (1, 1, 1, 1)
    assert parity.gates(design, 1, 0) == (1, 0, -1, 1)
    assert parity.gates(SECOND, 1, 1) == (0, 0, 1, 1)
    assert parity.trace(design, (1, 1, 0)) == [
        (1, 1, 0, 0, 1, 1, 1, 1, 1, 1), (2, 1, 1, 1, 1, 1, -1, 1, 0, 0),
        (3, 0, 0, 0, 1, 0, 1, 1, 0, 0)]
    assert parity.gates({gate: (0, 0, 0) for gate in "fiCo"}, 1, 1) == (0, 0, 0, 0)
    assert parity.trace(SECOND, (1, 0, 1)) == [
        (1, 1, 0, 0, 0, 1, 1, 1, 1, 1), (2, 0, 1, 1, 1, 0, 1, 1, 1, 1),
        (3, 1, 1, 1, 0, 0, 1, 1, 0, 0)]
    down = {"f": (0, 0, 1), "i": (0, 0, 1), "C": (0, -2, 1), "o": (0, 2, -1)}
    assert parity.trace(down, (1, 1, 0, 0)) == [
        (1, 1, 0, 0, 1, 1, -1, 1, -1, -1), (2, 1, -1, -1, 1, 1, -1, 1, -2, -1),
        (3, 0, -1, -2, 1, 1, 1, 0, -1, 0), (4, 0, 0, -1, 1, 1, 1, 0, 0, 0)]


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
    assert neurons.certificate((1, 0, 0, 1)) == ((0, 0), (1, 1), (0, 1), (1, 0))
    assert neurons.table_of(neurons.neuron_or_certificate((1, 0))[0], 1) == (1, 0)


def test_threshold_rows():
    assert neurons.biases((0, 0, 0, 1)) == (-2, -1)
    assert neurons.biases((0, 1, 1, 1)) == (-1, 0)
    assert neurons.rows((0, 0, 0, 1), -1.5) == [
        ("0", "0", "0", "−1.5", "0"), ("0", "1", "0", "−0.5", "0"), ("1", "0", "0", "−0.5", "0"),
        ("1", "1", "1", "0.5", "1")]
    assert neurons.rows((0, 1, 1, 1), -1)[1][3:] == ("0.0", "1")        # on the line: it fires
    y, _ = neurons.neuron(-1.5).forward(np.array([[1.0, 1.0], [1.0, 0.0]]))
    assert y.ravel().tolist() == [1, 0]
