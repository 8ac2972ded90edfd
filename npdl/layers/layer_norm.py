"""Normalisation over the last axis: LayerNorm (Ba et al. 2016, arXiv:1607.06450) and RMSNorm."""

from npdl.backend import xp
from npdl.core import Cache, Layer, NoBias, Param
from npdl.errors import check_gradient, check_shape
from npdl.functions import infinity_to_nan, sum_rows
from npdl.init import constant
from npdl.options import require_above_0, require_bool, require_positive


class LayerNorm(Layer):
    """x_hat = (x - mean) / sqrt(var + eps),   y = gain * x_hat + bias,   over the last axis.

    Shapes: (..., D) -> (..., D). The sum of squares in var is divided by D, not by D - 1. The gain
    is initialised with 1, and the bias with 0. With bias=False, the layer has no bias. Raises
    InputError if the last axis of x is not D. Ba et al. 2016, arXiv:1607.06450.
    """

    def __init__(self, d_model, *, eps=1e-5, dtype="float32", bias=True):
        require_positive(d_model=d_model)
        require_above_0(eps=eps)
        require_bool(bias=bias)
        self.gain = Param(constant(1, d_model, dtype))
        self.bias = Param(constant(0, d_model, dtype)) if bias else NoBias(d_model)
        self.eps = eps

    def forward(self, x):
        check_shape("LayerNorm", x, f"(..., {self.gain.shape[0]})")
        centred = x - x.mean(-1, keepdims=True, dtype=self.gain.data.dtype)
        centred = centred - centred.mean(-1, keepdims=True)      # rounding left a small mean
        var = (centred**2).mean(-1, keepdims=True)          # var   (..., 1)
        std = xp.sqrt(infinity_to_nan(var) + self.eps)      # std   (..., 1), NaN if var overflows
        x_hat = centred / std                               # x_hat (..., D)
        y = self.gain.data * x_hat + self.bias.data         # y     (..., D)
        return y, Cache(x_hat=x_hat, std=std)

    def backward(self, dy, cache):
        x_hat, std = cache.x_hat, cache.std
        check_gradient(dy, x_hat.shape, "LayerNorm")
        self.gain.grad += sum_rows(dy * x_hat)              # y = gain * x_hat + bias
        self.bias.grad += sum_rows(dy)
        dx_hat = dy * self.gain.data
        # x_hat stays the same if a constant is added to x, and (except for eps) if x - mean is
        # scaled. The loss does not change along these two directions, so the parts of dx_hat along
        # them are removed: its mean, and its part along x_hat.
        shift = dx_hat.mean(-1, keepdims=True)
        stretch = (dx_hat * x_hat).mean(-1, keepdims=True)
        dx = (dx_hat - shift - stretch * x_hat) / std
        return dx


class RMSNorm(Layer):
    """x_hat = x / sqrt(mean(x^2) + eps),   y = gain * x_hat,   over the last axis.

    Shapes: (..., D) -> (..., D). This is LayerNorm without the mean and the bias. Zhang & Sennrich
    2019, arXiv:1910.07467.
    """

    def __init__(self, d_model, *, eps=1e-5, dtype="float32"):
        require_positive(d_model=d_model)
        require_above_0(eps=eps)
        self.gain = Param(constant(1, d_model, dtype))
        self.eps = eps

    def forward(self, x):
        check_shape("RMSNorm", x, f"(..., {self.gain.shape[0]})")
        x = x.astype(xp.promote_types(x.dtype, self.gain.data.dtype))   # in uint8, x * x overflows
        mean_square = infinity_to_nan((x * x).mean(-1, keepdims=True))
        rms = xp.sqrt(mean_square + self.eps)                       # rms   (..., 1)
        x_hat = x / rms                                             # x_hat (..., D)
        y = self.gain.data * x_hat
        return y, Cache(x_hat=x_hat, rms=rms)

    def backward(self, dy, cache):
        x_hat, rms = cache.x_hat, cache.rms
        check_gradient(dy, x_hat.shape, "RMSNorm")
        self.gain.grad += sum_rows(dy * x_hat)                      # y = gain * x_hat
        dx_hat = dy * self.gain.data
        # Scaling x hardly changes x_hat, so the part of dx_hat along x_hat is removed.
        stretch = (dx_hat * x_hat).mean(-1, keepdims=True)
        dx = (dx_hat - stretch * x_hat) / rms
        return dx
