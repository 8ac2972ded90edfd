"""The threshold neurons of document 003, and the rule that finds their weights."""

import itertools

import numpy as np

from exercises.d003.threshold_neurons import and_neuron, or_neuron, perceptron
from npdl.layers.neuron import XOR, ThresholdNeuron

INPUTS = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], "float32")
AND, OR, NOT_BOTH = np.array([[0, 0, 0, 1], [0, 1, 1, 1], [0, 1, 1, 0]], "float32")[..., None]


def test_neurons_compute_their_tables():
    for neuron, table in ((and_neuron(), AND), (or_neuron(), OR), (XOR(), NOT_BOTH)):
        np.testing.assert_array_equal(neuron.forward(INPUTS)[0], table)


def test_a_neuron_at_its_threshold_fires():
    y, _ = ThresholdNeuron.from_weights([1, -1], 0).forward(INPUTS)
    assert y.ravel().tolist() == [1, 0, 1, 1]


def test_the_perceptron_learns_and_and_or_but_not_xor():
    for seed in range(5):
        for table in (AND, OR):
            neuron = ThresholdNeuron(2, rng=seed)
            assert perceptron(neuron, INPUTS, table) is not None
            np.testing.assert_array_equal(neuron.forward(INPUTS)[0], table)
        assert perceptron(ThresholdNeuron(2, rng=seed), INPUTS, NOT_BOTH) is None


def test_no_neuron_of_a_grid_computes_xor():
    grid = np.linspace(-2, 2, 17)
    W = np.array(list(itertools.product(grid, grid, grid))).T           # all at once
    y, _ = ThresholdNeuron.from_weights(W[:2], W[2]).forward(INPUTS)
    assert (y == OR).all(0).any() and (y == AND).all(0).any()
    assert not (y == NOT_BOTH).all(0).any()


def test_the_neurons_lines_are_half_way_between_the_inputs():
    for neuron, b in ((and_neuron(), -1.5), (or_neuron(), -0.5)):
        assert (neuron.W.data.ravel().tolist(), neuron.b.data.tolist()) == ([1, 1], [b])


def test_the_perceptron_by_hand():
    """OR and NOT x_1 from 0: the first is wrong 2, 2, 1 and 0 times, the second 1, 1 and 0."""
    targets = np.concatenate([OR, 1 - INPUTS[:, :1]], 1)
    neurons = ThresholdNeuron.from_weights(np.zeros((2, 2)), np.zeros(2))
    assert perceptron(neurons, INPUTS, targets) == 4
    assert neurons.W.data.tolist() == [[1, -1], [1, 0]] and neurons.b.data.tolist() == [-1, 0]
    for epochs, found in ((4, 4), (3, None)):
        assert perceptron(ThresholdNeuron.from_weights([0, 0], 0), INPUTS, OR, epochs) == found
