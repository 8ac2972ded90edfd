"""Threshold neurons (McCulloch & Pitts 1943), and XOR computed by three of them."""

import numpy as np

from npdl.backend import to_device, xp
from npdl.core import Cache, Layer, Param
from npdl.errors import check_gradient, check_shape, check_shapes
from npdl.init import generator, uniform_fan_in
from npdl.layers.sequential import Sequential
from npdl.options import require_dtype, require_positive


class ThresholdNeuron(Layer):
    """y = 1 where x W + b >= 0, else 0.

    Shapes: (..., D) -> (..., E), for E neurons that read the same input. The derivative is 0
    wherever it exists. So every gradient is 0, and gradient descent cannot train these neurons.
    """

    def __init__(self, d_in, d_out=1, *, rng=0, dtype="float32"):
        require_positive(d_in=d_in, d_out=d_out)
        rng = generator(rng)
        self.W = Param(uniform_fan_in(rng, d_in, (d_in, d_out), dtype))
        self.b = Param(uniform_fan_in(rng, d_in, (d_out,), dtype))

    @classmethod
    def from_weights(cls, W, b, dtype="float32"):
        """Return the neurons with these weights: W (D, E) and b (E,), or w (D,) and a number b."""
        require_dtype(dtype)
        W, b = np.asarray(W, dtype), np.atleast_1d(np.asarray(b, dtype))
        W = W[:, None] if W.ndim == 1 else W
        check_shapes("ThresholdNeuron", W=(W, "(D, E)"), b=(b, "(E,)"))
        neurons = cls(*W.shape, dtype=dtype)
        neurons.W.data, neurons.b.data = to_device(W), to_device(b)
        return neurons

    def forward(self, x):
        check_shape("ThresholdNeuron", x, f"(..., {self.W.shape[0]})")
        z = x @ self.W.data + self.b.data
        y = (z >= 0).astype(z.dtype)
        return y, Cache(x=x)

    def backward(self, dy, cache):
        check_gradient(dy, (*cache.x.shape[:-1], self.W.shape[1]), "ThresholdNeuron")
        dx = xp.zeros_like(cache.x)                     # y is constant on both sides of its step
        return dx


class XOR(Sequential):
    """y = (x_1 or x_2) and not (x_1 and x_2), from two hidden neurons and an output neuron.

    Shapes: (..., 2) -> (..., 1). One neuron can't compute XOR. For x = (0, 0), (1, 0) and (0, 1) it
    needs b < 0, w_1 + b >= 0 and w_2 + b >= 0. The sum of the last two is w_1 + w_2 + 2b >= 0,
    so w_1 + w_2 + b >= -b > 0, and the output for x = (1, 1) is 1 instead of 0.
    """

    def __init__(self, *, dtype="float32"):
        W, b = [[1, -1], [1, -1]], [-0.5, 1.5]                              # OR, NAND
        hidden = ThresholdNeuron.from_weights(W, b, dtype)
        output = ThresholdNeuron.from_weights([1, 1], -1.5, dtype)          # AND
        super().__init__(hidden, output)
