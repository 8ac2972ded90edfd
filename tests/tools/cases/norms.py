"""Cases of the normalisation layers."""

from npdl.backend import to_device
from npdl.layers.batch_norm import BatchNorm, GroupNorm
from npdl.layers.layer_norm import LayerNorm, RMSNorm
from tests.tools.cases import case


def running(channels):
    """A BatchNorm with running statistics that are not 0 and 1."""
    def make(rng):
        layer = BatchNorm(channels)
        layer.running_mean.data[...] = to_device(rng.standard_normal(channels))
        layer.running_var.data[...] = to_device(rng.uniform(0.5, 2, channels))
        return layer

    return make


CASES = [
    case(LayerNorm, "one row", (4,), (4,)),
    case(LayerNorm, "far from zero", (6,), lambda rng: 20 + rng.standard_normal((3, 6))),
    case(RMSNorm, "one row", (4,), (4,)),
    case(BatchNorm, "one sample", (2,), (1, 2, 4)),
    case(BatchNorm, "running statistics", running(3), (2, 3, 4), training=False),
    case(BatchNorm, "running statistics, one value", running(1), (1, 1), training=False),
    case(GroupNorm, "a group for each channel", (4, 4), (2, 4, 3)),
]
