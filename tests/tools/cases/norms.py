"""Cases of the normalisation layers."""

import numpy as np

from npdl.backend import to_device
from npdl.layers.batch_norm import BatchNorm, GroupNorm, InstanceNorm
from npdl.layers.layer_norm import LayerNorm, RMSNorm
from tests.tools.cases import case, off_zero


def running(channels):
    """A BatchNorm with running statistics that are not 0 and 1."""
    def make(rng):
        layer = BatchNorm(channels)
        layer.running_mean.data[...] = to_device(rng.standard_normal(channels))
        layer.running_var.data[...] = to_device(rng.uniform(0.5, 2, channels))
        return layer

    return make


PLAIN = {"affine": False}
CASES = [
    case(LayerNorm, "(B, S, D)", (5,), (2, 3, 5)),
    case(LayerNorm, "one row", (4,), (4,)),
    case(LayerNorm, "width 1", (1,), (3, 1)),
    case(LayerNorm, "far from zero", (6,), lambda rng: 20 + rng.standard_normal((3, 6))),
    case(LayerNorm, "a large eps", (4, {"eps": 0.5}), (3, 4)),
    case(LayerNorm, "no bias", (5, {"bias": False}), (2, 5)),
    case(RMSNorm, "(N, C, L)", (5,), (2, 3, 5)),
    case(RMSNorm, "one row", (4,), (4,)),
    case(RMSNorm, "sizes of 1", (1,), off_zero(1, 1)),
    case(BatchNorm, "(N, C, L)", (3,), (4, 3, 5)),
    case(BatchNorm, "(N, C)", (3,), (6, 3)),
    case(BatchNorm, "one sample", (2,), (1, 2, 4)),
    case(BatchNorm, "one channel, one place", (1,), (4, 1, 1)),
    case(BatchNorm, "not affine", (3, PLAIN), (4, 3, 2)),
    case(BatchNorm, "running statistics", running(3), (2, 3, 4), training=False),
    case(BatchNorm, "running statistics, one value", running(1), (1, 1), training=False),
    case(GroupNorm, "(N, C, L)", (6, 3), (2, 6, 3)),
    case(GroupNorm, "(N, C)", (6, 2), (3, 6)),
    case(GroupNorm, "a group for each channel", (4, 4), (2, 4, 3)),
    case(GroupNorm, "sizes of 1", (2, 1), lambda rng: np.array([[[1.0], [3.0]]])),
    case(GroupNorm, "not affine", (4, 2, PLAIN), (2, 4, 3)),
    case(InstanceNorm, "(N, C, L)", (3,), (2, 3, 5)),
    case(InstanceNorm, "sizes of 1", (1,), (1, 1, 2)),
    case(InstanceNorm, "not affine", (3, PLAIN), (2, 3, 5)),
]
