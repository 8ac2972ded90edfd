"""Normalisation over the last axis."""

import math

from npdl.backend import xp
from npdl.core import Cache, Layer, Param
from npdl.init import require_dtype, require_number, require_positive
from npdl.layers.activation import last_axis_sum
from npdl.layers.linear import check_width


class LayerNorm(Layer):
    """y = gain * (x - mean) / sqrt(var + eps) + bias over the last axis, var biased (1/D).

    (..., D) -> (..., D); gain starts at 1, bias at 0 (Ba et al. 2016, arXiv:1607.06450;
    document 004, Problem 2.1). With bias=False there is none: y = gain * x_hat.
    """

    def __init__(self, d_model, eps=1e-5, dtype="float32", bias=True):
        require_positive(d_model=d_model)
        require_dtype(dtype)
        require_number("eps", eps, lambda value: 0 < value < math.inf, "a finite number above 0")
        self.gain = Param(xp.ones(d_model, dtype))
        self.bias = Param(xp.zeros(d_model, dtype)) if bias else None
        self.eps = eps

    def forward(self, x):
        D = self.gain.shape[0]
        check_width(x, D, "LayerNorm")
        mean = last_axis_sum(x) / D                     # mean   (..., 1)
        x_hat = x - mean                                # x_hat  (..., D)
        var = last_axis_sum(x_hat * x_hat) / D          # var    (..., 1)
        rstd = 1 / xp.sqrt(var + self.eps)              # rstd   (..., 1)
        x_hat = xp.multiply(x_hat, rstd, out=x_hat)
        y = x_hat * self.gain.data
        if self.bias is not None:
            y = xp.add(y, self.bias.data, out=y)
        return y, Cache(x_hat=x_hat, rstd=rstd)

    def backward(self, dy, cache):
        x_hat, rstd = cache.x_hat, cache.rstd
        D = self.gain.shape[0]
        dgain = dy * x_hat                              # dgain  (..., D):  y = gain * x_hat + bias
        self.gain.grad += dgain.reshape(-1, D).sum(0)
        if self.bias is not None:
            self.bias.grad += dy.reshape(-1, D).sum(0)
        dx_hat = xp.multiply(dy, self.gain.data, out=dgain)     # dx_hat (..., D)
        along_one = last_axis_sum(dx_hat) / D           # x_hat = (x - mean) * rstd:
        along_x = last_axis_sum(dx_hat * x_hat) / D     # shift or stretch x, x_hat stays
        dx = xp.subtract(dx_hat, along_one, out=dx_hat)
        dx = dx - x_hat * along_x                       # dx     (..., D)
        dx = xp.multiply(dx, rstd, out=dx)
        return dx
