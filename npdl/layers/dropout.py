"""Dropout, which is active if forward is given a random generator (Srivastava et al. 2014)."""

from npdl.backend import to_device, xp
from npdl.core import Cache, Layer
from npdl.errors import InputError, check_floats, check_gradient, warn_no_dropout
from npdl.options import require_below_1


class Dropout(Layer):
    """y = x * scale, where an entry of scale is 0 with probability `rate`, else 1 / (1 - rate).

    forward(x, rng) draws `scale` on the CPU from the NumPy generator `rng`. If `rng` is None, y is
    x. Then backward warns, once in a process, that dropout had no effect. Raises InputError unless
    0 <= rate < 1.
    """

    def __init__(self, rate):
        require_below_1(dropout=rate)
        self.rate = rate

    def forward(self, x, rng=None):
        check_floats("Dropout", the_input=x)
        if rng is not None and not hasattr(rng, "random"):
            raise InputError(f"Dropout: rng = {rng!r}; give a NumPy generator, such as "
                             "numpy.random.default_rng(0), or None for no dropout")
        if rng is None or self.rate == 0:
            return x, Cache(scale=None, shape=x.shape)
        keep = to_device(rng.random(x.shape) >= self.rate)
        scale = xp.where(keep, 1 / (1 - self.rate), 0.0).astype(x.dtype)
        y = x * scale
        return y, Cache(scale=scale, shape=x.shape)

    def backward(self, dy, cache):
        check_gradient(dy, cache.shape, "Dropout")
        if cache.scale is None and self.rate:
            warn_no_dropout()
        dx = dy if cache.scale is None else dy * cache.scale
        return dx
