"""Document 003: what the worked solutions compute, against facts made by hand."""

import math

import numpy as np
import pytest

from exercises.d003_parity_lstm import DESIGNS
from exercises.solved import d003_beam_definitions as definitions
from exercises.solved import d003_beam_stopping as stopping
from exercises.solved import d003_eigenvalues as eigenvalues
from exercises.solved import d003_graph_attention as graph
from exercises.solved import d003_message_passing as messages
from exercises.solved import d003_parity_lstm as parity
from exercises.solved import d003_points_and_review as review
from exercises.solved import d003_threshold_neurons as neurons

END = stopping.END
SMALL = {"a": (0.5, {"c": (0.25, {END: 1.0}), END: 0.75}), "b": (0.375, {END: 1.0}), END: 0.125}


def test_questions_1_and_2():
    assert neurons.biases((0, 0, 0, 1)) == (-2, -1)
    assert neurons.biases((0, 1, 1, 1)) == (-1, 0)
    assert neurons.rows((0, 0, 0, 1), -1.5) == [
        ("0", "0", "0", "−1.5", "0"), ("0", "1", "0", "−0.5", "0"), ("1", "0", "0", "−0.5", "0"),
        ("1", "1", "1", "0.5", "1")]
    assert neurons.rows((0, 1, 1, 1), -1)[1][3:] == ("0.0", "1")        # on the line: it fires
    y, _ = neurons.neuron(-1.5).forward(np.array([[1.0, 1.0], [1.0, 0.0]]))
    assert y.ravel().tolist() == [1, 0]


def test_question_3_bit_by_bit():
    design = DESIGNS["add or subtract"]
    assert parity.gates(design, 0, 1) == (1, 1, 1, 1)
    assert parity.gates(design, 1, 0) == (1, 0, -1, 1)
    assert parity.gates(DESIGNS["from the hint"], 1, 1) == (0, 0, 1, 1)
    assert parity.trace(design, (1, 1, 0)) == [
        (1, 1, 0, 0, 1, 1, 1, 1, 1, 1), (2, 1, 1, 1, 1, 1, -1, 1, 0, 0),
        (3, 0, 0, 0, 1, 0, 1, 1, 0, 0)]
    assert parity.gates({gate: (0, 0, 0) for gate in "fiCo"}, 1, 1) == (0, 0, 0, 0)


def test_question_4_step_by_step():
    assert stopping.expanded(SMALL, [((), 1.0)]) == [
        (("a",), 0.5), (("b",), 0.375), ((END,), 0.125)]
    assert stopping.expanded(SMALL, [(("a",), 0.5), ((END,), 0.125)]) == [
        (("a", END), 0.375), (("a", "c"), 0.125)]
    steps = stopping.beams(SMALL, 2)
    assert [kept for _, kept, _ in steps] == [
        [(("a",), 0.5), (("b",), 0.375)], [(("a", END), 0.375), (("b", END), 0.375)]]
    assert [best for _, _, best in steps] == [0, 0.375]
    assert stopping.stop_at(steps) == 2
    assert stopping.stop_at(stopping.beams(SMALL, 3)) == 2
    assert stopping.stop_at([(None, [("x", 0.5)], 0.5)]) == 1
    assert [len(kept) for _, kept, _ in stopping.beams(SMALL, 9)] == [3, 3, 1]
    assert stopping.log(0.0) == "none" and stopping.log(math.exp(-2)) == "−2.00"
    assert stopping.described({"a": (0.5, {"c": 1.0, END: 0.25}), "b": (0.5, {END: 1.0})}) == (
        f"a 0.5 (then c 1.0, {END} 0.2), b 0.5")


def test_question_4_everything():
    assert definitions.everything(SMALL) == [
        (("a", END), 0.375), (("b", END), 0.375), ((END,), 0.125), (("a", "c", END), 0.125)]
    step = definitions.candidate_step(2, [(("a", END), 0.375), (("b",), 0.25)], [(("b",), 0.25)])
    assert step.text.startswith("B₂") and step.table.rows == (
        (f"a {END}", "0.375", "−0.98", ""), ("b", "0.250", "−1.39", "kept"))


def test_question_5():
    pairs = eigenvalues.triangular_pairs(((2.0, 3.0), (0.0, 5.0)))
    assert pairs == [(2, (1, 0)), (5, (1, 1))]
    c = eigenvalues.shares(pairs, (7.0, 4.0))
    assert c == (3, 4)
    assert eigenvalues.closed_form(pairs, c, 2).tolist() == [3 * 4 + 4 * 25, 100]
    assert eigenvalues.shares([(1, (1.0, 0.0)), (2, (1.0, 2.0))], (1.0, 1.0)) == (0.5, 0.5)
    assert eigenvalues.short(-1e-7) == "−1e−07"


def test_question_6_messages():
    hears = {1: (2, 3), 2: (1,), 3: ()}
    states = {1: 1, 2: 2, 3: 5}
    assert messages.messages_of(states, hears, 3) == {1: [6, 15], 2: [3], 3: []}
    assert messages.rounds(states, 2, hears, 1) == [
        states, {1: 8, 2: 3, 3: 5}, {1: 16, 2: 11, 3: 5}]
    assert messages.by_matrix(states, 2, hears, 1) == {1: 16, 2: 11, 3: 5}
    assert messages.by_matrix(states, 0, hears) == states


def test_question_6_attention():
    scores, weights, sent = graph.messages_to(0)
    assert scores == pytest.approx([math.log(2), math.log(2), math.log(4)])
    assert weights == pytest.approx([0.25, 0.25, 0.5])
    assert [m.tolist() for m in sent] == [[1, 0], [0, 3], [1, 3]]
    assert graph.messages_to(1)[1] == pytest.approx([1 / 3] * 3)


def test_questions_7_and_8():
    assert review.local_slopes((1, 10, 100), (8, 0.8, 0.8)) == pytest.approx([1, 0])
    assert review.local_slopes((1, 4), (1, 2)) == pytest.approx([-0.5])
    losses, excess, plain, right = review.measured()
    assert losses[0] - excess[0] == pytest.approx(0.6108643)          # the coin's entropy
    assert plain[1] < 0.01 < 0.9 < right[1] < 1
