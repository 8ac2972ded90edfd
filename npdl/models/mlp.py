"""A multilayer perceptron: linear layers with a ReLU between them."""

from npdl.core import Cache, Layer
from npdl.errors import InputError
from npdl.init import generator
from npdl.layers.activation import ReLU
from npdl.layers.linear import Linear


class MLP(Layer):
    """y = ReLU(... ReLU(x W_1 + b_1) ...) W_n + b_n.

    Shapes: (..., D_0) -> (..., D_n). `sizes` is the list [D_0, .., D_n] of all widths. Raises
    InputError if `sizes` has fewer than two entries, and if a width is below 1.
    """

    def __init__(self, sizes, *, bias=True, rng=0, dtype="float32"):
        if not isinstance(sizes, (list, tuple)) or len(sizes) < 2:
            raise InputError(f"MLP: sizes = {sizes!r}; give a list of at least two widths, the "
                             "input's first and the output's last")
        rng = generator(rng)
        self.maps = [Linear(d_in, d_out, bias=bias, rng=rng, dtype=dtype)
                     for d_in, d_out in zip(sizes[:-1], sizes[1:], strict=True)]
        self.activation = ReLU()

    def forward(self, x):
        caches = []
        for i, linear in enumerate(self.maps):
            h, c_linear = linear.forward(x)
            is_last = i == len(self.maps) - 1
            x, c_activation = (h, None) if is_last else self.activation.forward(h)
            caches.append((c_linear, c_activation))
        return x, Cache(layers=caches)

    def backward(self, dy, cache):
        dx = dy
        for linear, (c_linear, c_activation) in zip(self.maps[::-1], cache.layers[::-1],
                                                    strict=True):
            dh = dx if c_activation is None else self.activation.backward(dx, c_activation)
            dx = linear.backward(dh, c_linear)
        return dx
