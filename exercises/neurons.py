"""AND and OR as one threshold neuron each, and the rule that finds such a neuron."""

from npdl.layers.neuron import ThresholdNeuron


def and_neuron():
    """1 where both inputs are 1: w = (1, 1), b = -1.5."""
    return ThresholdNeuron.of([1, 1], -1.5)


def or_neuron():
    """1 where at least one input is 1: w = (1, 1), b = -0.5."""
    return ThresholdNeuron.of([1, 1], -0.5)


def perceptron(neurons, x, targets, epochs=100):
    """Rosenblatt's rule: W += x (t - y), b += t - y, one sample after another.

    x (N, D), targets (N, E) of 0 and 1. Returns the number of epochs until one went by without
    an error, or None when `epochs` did not suffice; they never do where no plane separates the
    two classes, as with XOR.
    """
    for epoch in range(1, epochs + 1):
        wrong = False
        for sample, target in zip(x, targets, strict=True):
            y, _ = neurons.forward(sample[None])
            error = target[None] - y                    # error (1, E)
            neurons.W.data += sample[:, None] * error
            neurons.b.data += error[0]
            wrong |= error.any()
        if not wrong:
            return epoch
    return None
