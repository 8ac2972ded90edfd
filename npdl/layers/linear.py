"""Linear maps over the last axis."""

from npdl.backend import xp
from npdl.core import Cache, Layer, Param
from npdl.errors import InputError
from npdl.init import generator, require_positive, uniform_fan_in
from npdl.layers.doors import check_real


def check_width(x, width, owner):
    """Raise InputError unless `x` is an array of real numbers whose last axis is `width` long."""
    check_real(owner, the_input=x)
    if x.ndim == 0 or x.shape[-1] != width:
        raise InputError(f"{owner}: the input has shape {x.shape}; its last axis must be {width}")


class Linear(Layer):
    """y = x W + b over the last axis: (..., D) -> (..., E), W (D, E), b (E,).

    W and b start uniform in +-1/sqrt(D). Raises InputError for sizes below 1 and for inputs of
    another width.
    """

    def __init__(self, d_in, d_out, bias=True, rng=0, dtype="float32"):
        require_positive(d_in=d_in, d_out=d_out)
        rng = generator(rng)
        self.W = Param(uniform_fan_in(rng, d_in, (d_in, d_out), dtype))
        self.b = Param(uniform_fan_in(rng, d_in, (d_out,), dtype)) if bias else None

    def forward(self, x):
        d_in, d_out = self.W.shape
        check_width(x, d_in, "Linear")
        rows = x.reshape(-1, d_in)                      # rows (N, D)
        y = rows @ self.W.data                          # y    (N, E)
        if self.b is not None:
            y = xp.add(y, self.b.data, out=y)
        y = y.reshape(*x.shape[:-1], d_out)
        return y, Cache(rows=rows, shape=x.shape)

    def backward(self, dy, cache):
        dy_rows = dy.reshape(-1, self.W.shape[1])       # dy_rows (N, E)
        self.W.grad += cache.rows.T @ dy_rows           # y = x W + b
        if self.b is not None:
            self.b.grad += dy_rows.sum(0)
        dx = dy_rows @ self.W.data.T                    # dx      (N, D)
        return dx.reshape(cache.shape)
