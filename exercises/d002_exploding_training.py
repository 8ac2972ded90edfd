"""Document 002, Problem 1: what exploding gradients do to training.

A recurrence of one unit, h' = tanh(w h) or h' = w h, learns by plain gradient descent through 30
steps; its weight and its loss are followed from update to update.
"""

import math
import sys
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from exercises.framework import Claim, judge, run_script
from exercises.shown import listing
from npdl.errors import InputError
from npdl.losses import SequenceLoss

QUESTION = """\
Problem 1, exploding gradients. Their effects are said to be weights that grow exponentially, a
saturated loss, and loss curves that oscillate or diverge. What does one recurrent unit show?"""

TITLES = {"1": "What exploding gradients do to training"}

claim_of = partial(Claim, "002", "Problem 1")


def training(w=1.5, h=1e-6, steps=30, lr=1.0, updates=8, squash=np.tanh):
    """(weights, losses) of h' = squash(w h) before and after each update of gradient descent.

    The loss is (h_T + 1)^2; squash is tanh or None, for the identity. Stops when the weight is
    no longer finite.
    """
    if steps < 1 or updates < 0:
        raise InputError(f"steps = {steps!r}, updates = {updates!r}; at least 1 and 0")
    weights, losses = [w], []
    for _ in range(updates + 1):
        state, slope = h, 0.0                                       # slope = dh / dw
        with np.errstate(all="ignore"):
            for _ in range(steps):
                slope = state + w * slope
                state = w * state
                if squash is not None:
                    state = squash(state)
                    slope = slope * (1 - state * state)
            losses.append(float((state + 1) ** 2))
            w = w - lr * 2 * (state + 1) * slope
        weights.append(float(w))
        if not math.isfinite(w):
            break
    return weights[:updates + 1], losses


def cross_entropy_slopes(margins=(1.0, 10.0, 100.0)):
    """[(loss, |dloss/dlogit|)] where the right class of two is behind by each margin."""
    found, layer = [], SequenceLoss()
    for margin in margins:
        logits = np.array([[[0.0, margin]]])
        loss, cache = layer.forward(logits, np.array([[0]]), np.array([[True]]))
        found.append((float(loss), float(np.abs(layer.backward(1.0, cache)[0, 0, 0]))))
    return found


def claims():
    bent, bent_losses = training(updates=4)
    straight, straight_losses = training(squash=None)
    slopes, unstable = cross_entropy_slopes(), [_unstable(straight_losses), _unstable(bent_losses)]
    grow = exponential(bent), exponential(straight)
    return [
        claim_of(
            "exploding", "exploding gradients make the weights grow exponentially during training",
            "weights grow exponentially",
            "it depends on the net: without tanh the weight grows at every update, faster than "
            f"exponentially, |w| = {listing(np.abs(straight), '.3g')}; with tanh there is one jump "
            f"and then nothing, w = {listing(bent, '.2f')}",
            judge(all(grow), if_false="under-specified" if any(grow) else "wrong"),
            "h' = w h and h' = tanh(w h), 30 steps, plain descent; what always is exponential is "
            "the gradient in the number of time steps"),
        claim_of(
            "exploding", "a rapidly rising loss under exploding gradients is a saturation of the "
            "loss", "called loss function saturation",
            "a rising loss; saturated means flat, where the gradient is near 0",
            judge(all(slope < 0.1 for _, slope in slopes), if_false="slip"),
            "cross-entropy " + listing([loss for loss, _ in slopes]) + " has slopes "
            + listing([slope for _, slope in slopes]) + ": it does not flatten as it rises"),
        claim_of(
            "exploding", "the loss curve oscillates or diverges",
            "oscillating or diverging loss curves",
            f"without tanh it diverges, {listing(straight_losses, '.2g')}; with tanh it can also "
            f"jump once and stay there, {listing(bent_losses, '.2g')}",
            judge(all(unstable), if_false="under-specified" if any(unstable) else "wrong"),
            "the same two recurrences, losses before and after each update; after the jump every "
            "state is at an end of tanh, where the gradient is 0"),
    ]


def exponential(weights):
    """Whether |w| grows by 20 % or more at every update."""
    return all(b >= 1.2 * a for a, b in pairwise(map(abs, weights)))


def _unstable(losses):
    """Whether the loss is not finite in the end, or still moving at the last update."""
    return not math.isfinite(losses[-1]) or abs(losses[-1] - losses[-2]) > 1e-6


if __name__ == "__main__":
    sys.exit(run_script(globals()))
