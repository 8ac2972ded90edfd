"""Cases of the layers that work position by position, and of the losses."""

import numpy as np

from npdl.layers.activation import GELU, ReLU, Sigmoid, Softmax, Tanh, TanhGELU
from npdl.layers.dropout import Dropout
from npdl.layers.embedding import Embedding, LearnedPositions, SinusoidalPositions, Unembedding
from npdl.layers.linear import Linear
from npdl.losses import (
    REDUCTIONS,
    CrossEntropy,
    KLDivergence,
    SequenceLoss,
    SquaredError,
    StableMaxLoss,
)
from npdl.study.check.examples import ids, off_zero
from tests.tools.cases import case, same_mask
from tests.tools.composites import TiedPair

LINEAR = [
    case(Linear, "no leading axis", (3, 2), (3,)),
    case(Linear, "four axes, no bias", (2, 3, {"bias": False}), (2, 1, 3, 2)),
    case(Linear, "an empty batch", (3, 2), (0, 3)),
]


EMBEDDING = [
    case(Embedding, "a padding row that is not read", (5, 3, {"padding_id": 4}), ids(4, 3, 2)),
    case(Unembedding, "tied to its embedding", lambda rng: TiedPair(5, 3, rng), ids(5, 3, 2)),
]

POSITIONS = [
    case(cls, form + what, args, shape, positions=np.array(at))
    for cls, form, args in ((LearnedPositions, "", (5, 4)),
                            (SinusoidalPositions, "k/d, ", (5, 4)),
                            (SinusoidalPositions, "2k/d, ", (5, 4, {"exponent": "2k/d"})))
    for what, shape, at in (
        ("given positions (N,), some twice", (5, 4), [0, 3, 3, 1, 4]),
        ("given positions (B, S)", (2, 2, 4), [[0, 1], [3, 3]]),
    )
]

ACTIVATION = [
    case(cls, "large and small values", (), lambda rng: 10 * off_zero(7)(rng))
    for cls in (Sigmoid, Tanh, ReLU, GELU, TanhGELU)
]

NOTHING_ELSE = np.array([[True] * 4, [False] * 4, [False, True, True, False]])
SOFTMAX = [
    case(Softmax, "a row with nothing visible", (), (3, 4), visible=NOTHING_ELSE),
    case(Softmax, "visible broadcast over rows", (), (2, 3, 4), visible=NOTHING_ELSE[2]),
]

DROPOUT = [
    case(Dropout, "rate 0", (0.0,), (2, 3), forward=same_mask),
    case(Dropout, "no generator", (0.4,), (2, 3)),
]

RAGGED = np.array([[True, True, False], [False, False, False], [True, False, False]])


def large(*shape):
    return lambda rng: 3 * rng.standard_normal(shape)


SEQUENCE_LOSS = [
    case(SequenceLoss, f"{reduction}, by {average}, a sample without counted tokens",
         (reduction, average), large(3, 3, 4), ids(4, 3, 3), RAGGED)
    for reduction in REDUCTIONS for average in ("sample", "token")
]


def some_ignored(high, *shape):
    def targets(rng):
        found = rng.integers(0, high, shape)
        found[..., ::2] = -100
        return found

    return targets


LOSSES = [
    case(CrossEntropy, "ignored and smoothed", (-100, 0.2), (2, 4, 3), some_ignored(3, 2, 4)),
    case(CrossEntropy, "sum, smoothed", (None, 0.1, "sum"), (3, 4), ids(4, 3)),
    case(CrossEntropy, "none, ignored", (-100, 0.0, "none"), (2, 3, 4), some_ignored(4, 2, 3)),
    case(CrossEntropy, "one vector, V = 1", (), (1,), ids(1)),
    case(StableMaxLoss, "none, one vector, V = 1", ("none",), (1,), ids(1)),
    case(SquaredError, "sum, half", (0.5, "sum"), (3, 4), (3, 4)),
    case(SquaredError, "none, one entry", (2.0, "none"), (2, 1), (2, 1)),
    case(KLDivergence, "none, V = 1", ("none",), (2, 1), (2, 1)),
]

CASES = (LINEAR + EMBEDDING + POSITIONS + ACTIVATION + SOFTMAX + DROPOUT + SEQUENCE_LOSS + LOSSES)
