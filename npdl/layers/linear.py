"""Linear layers over the last axis."""

from npdl.core import Cache, Layer, NoBias, Param
from npdl.errors import check_gradient, check_shape
from npdl.functions import sum_rows
from npdl.init import generator, uniform_fan_in
from npdl.options import require_bool, require_positive


class Linear(Layer):
    """y = x W + b over the last axis.

    Shapes: (..., D) -> (..., E), W (D, E), b (E,). W and b are initialised uniformly in
    +-1/sqrt(D). Raises InputError for sizes below 1, and for inputs of another width.
    """

    def __init__(self, d_in, d_out, *, bias=True, rng=0, dtype="float32"):
        require_positive(d_in=d_in, d_out=d_out)
        require_bool(bias=bias)
        rng = generator(rng)
        self.W = Param(uniform_fan_in(rng, d_in, (d_in, d_out), dtype))
        self.b = Param(uniform_fan_in(rng, d_in, (d_out,), dtype)) if bias else NoBias(d_out)

    @property
    def sizes(self):
        """Return (D, E), the widths of the input and the output."""
        return self.W.shape

    def forward(self, x):
        D, E = self.W.shape
        check_shape("Linear", x, f"(..., {D})")
        rows = x.reshape(-1, D)                         # rows (N, D)
        y = rows @ self.W.data + self.b.data            # y    (N, E)
        return y.reshape(*x.shape[:-1], E), Cache(rows=rows, shape=x.shape)

    def backward(self, dy, cache):
        rows, E = cache.rows, self.W.shape[1]
        check_gradient(dy, (*cache.shape[:-1], E), "Linear")
        dy_rows = dy.reshape(-1, E)                     # dy_rows (N, E)
        if self.W.trainable:                            # y = x W + b
            self.W.grad += rows.T @ dy_rows
        self.b.grad += sum_rows(dy_rows)
        dx = dy_rows @ self.W.data.T                    # dx      (N, D)
        return dx.reshape(cache.shape)
