"""Threshold neurons compute AND and OR, and three of them XOR."""

import numpy as np

from npdl.layers.neuron import XOR, ThresholdNeuron

INPUTS = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], "float32")
AND, OR, NOT_BOTH = np.array([[0, 0, 0, 1], [0, 1, 1, 1], [0, 1, 1, 0]], "float32")[..., None]


def test_neurons_compute_their_tables():
    for neuron, table in ((ThresholdNeuron.from_weights([1, 1], -1.5), AND),
                          (ThresholdNeuron.from_weights([1, 1], -0.5), OR), (XOR(), NOT_BOTH)):
        np.testing.assert_array_equal(neuron.forward(INPUTS)[0], table)


def test_a_neuron_at_its_threshold_fires():
    y, _ = ThresholdNeuron.from_weights([1, -1], 0).forward(INPUTS)
    assert y.ravel().tolist() == [1, 0, 1, 1]
