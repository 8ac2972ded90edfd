"""Dropout: active exactly when it is handed a generator."""

from npdl.backend import to_device
from npdl.core import Cache, Layer
from npdl.init import require_number
from npdl.layers.doors import check_real


class Dropout(Layer):
    """y = x * mask / (1 - rate), each entry of mask 0 with probability `rate`, else 1.

    forward(x, rng): the mask is drawn on the host from `rng`; without one, y is x itself.
    Raises InputError unless 0 <= rate < 1.
    """

    def __init__(self, rate):
        require_number("dropout", rate, lambda value: 0 <= value < 1, "at least 0 and below 1")
        self.rate = rate

    def forward(self, x, rng=None):
        check_real("Dropout", the_input=x)
        if rng is None or self.rate == 0:
            return x, Cache(scale=None)
        keep = rng.random(x.shape) >= self.rate
        scale = to_device(keep).astype(x.dtype) * (1 / (1 - self.rate))
        y = x * scale
        return y, Cache(scale=scale)

    def backward(self, dy, cache):
        dx = dy if cache.scale is None else dy * cache.scale
        return dx
