"""Elementwise nonlinearities and the softmax, as functions and as layers without parameters."""

import functools
import math

from npdl.backend import normal_cdf, xp
from npdl.core import Cache, Layer
from npdl.errors import InputError
from npdl.layers.doors import check_floats, check_mask, check_real


def sigmoid(x, out=None):
    """1 / (1 + exp(-x)), as (1 + tanh(x/2)) / 2: never overflows, and tanh is NumPy's fastest."""
    y = xp.multiply(x, 0.5, out=out)
    y = xp.tanh(y, out=y)
    y = xp.multiply(y, 0.5, out=y)
    y = xp.add(y, 0.5, out=y)
    return y


class Sigmoid(Layer):
    """y = 1 / (1 + exp(-x)), elementwise."""

    def forward(self, x):
        check_floats("Sigmoid", the_input=x)
        y = sigmoid(x)
        return y, Cache(y=y)

    def backward(self, dy, cache):
        y = cache.y
        dx = dy * y * (1 - y)
        return dx


class Tanh(Layer):
    """y = tanh(x), elementwise."""

    def forward(self, x):
        check_real("Tanh", the_input=x)
        y = xp.tanh(x)
        return y, Cache(y=y)

    def backward(self, dy, cache):
        y = cache.y
        dx = dy * (1 - y * y)
        return dx


class ReLU(Layer):
    """y = max(x, 0), elementwise; the slope at 0 is taken as 0."""

    def forward(self, x):
        check_real("ReLU", the_input=x)
        y = xp.maximum(x, 0)
        return y, Cache(positive=x > 0)

    def backward(self, dy, cache):
        dx = dy * cache.positive
        return dx


def _gelu_exact(x):
    """x Phi(x) and its slope Phi(x) + x phi(x)."""
    cdf = normal_cdf(x)
    slope = x * x
    slope = xp.multiply(slope, -0.5, out=slope)
    slope = xp.exp(slope, out=slope)
    slope = xp.multiply(slope, 1 / math.sqrt(2 * math.pi), out=slope)   # phi(x)
    slope = xp.multiply(slope, x, out=slope)
    slope = xp.add(slope, cdf, out=slope)
    y = xp.multiply(x, cdf, out=cdf)
    return y, slope


def _gelu_tanh(x):
    """x (1 + tanh u) / 2 with u = sqrt(2/pi) (x + 0.044715 x^3), and its slope."""
    scale, cubic = math.sqrt(2 / math.pi), 0.044715
    x2 = x * x
    t = xp.tanh(scale * x * (1 + cubic * x2))
    du_dx = scale * (1 + 3 * cubic * x2)
    y = 0.5 * x * (1 + t)
    slope = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * du_dx
    return y, slope


class GELU(Layer):
    """y = x Phi(x), elementwise, Phi the standard normal's distribution function.

    form "exact" is that (Hendrycks & Gimpel 2016, arXiv:1606.08415); "tanh" is their
    approximation of it, off by up to 5e-4. Value and slope are computed together, so backward
    is one product.
    """

    def __init__(self, form="exact"):
        if form not in ("exact", "tanh"):
            raise InputError(f"form = {form!r}; choose 'exact' or 'tanh'")
        self.function = _gelu_exact if form == "exact" else _gelu_tanh

    def forward(self, x):
        check_floats("GELU", the_input=x)
        y, slope = self.function(x)
        return y, Cache(slope=slope)

    def backward(self, dy, cache):
        dx = dy * cache.slope
        return dx


def last_axis_max(x):
    """Maximum over the last axis, kept as length 1.

    NumPy's reduction pays for every row; over a short axis, a chain of whole columns is twenty
    times faster.
    """
    length = x.shape[-1]
    if not 0 < length <= 16:
        return x.max(-1, keepdims=True)
    columns = [x[..., i : i + 1] for i in range(length)]
    return functools.reduce(xp.maximum, columns)


def last_axis_sum(x):
    """Sum over the last axis, kept as length 1 (one product with a column of ones)."""
    ones = xp.ones((x.shape[-1], 1), x.dtype)
    return (x.reshape(-1, x.shape[-1]) @ ones).reshape(*x.shape[:-1], 1)


def softmax(x, visible=None):
    """exp(x) / sum exp(x) over the last axis; where `visible` is False the result is exactly 0.

    `visible` broadcasts against x. A row in which nothing is visible gives zeros, not NaN.
    """
    if visible is not None:
        x = xp.where(visible, x, -math.inf)
        top = last_axis_max(x)
        top = xp.where(top == -math.inf, 0.0, top).astype(x.dtype, copy=False)
    else:
        top = last_axis_max(x)
    e = x - top
    e = xp.exp(e, out=e)
    total = last_axis_sum(e)
    if visible is not None:
        total = xp.where(total == 0, 1.0, total).astype(x.dtype, copy=False)
    y = xp.divide(e, total, out=e)
    return y


def softmax_backward(dy, y):
    """The gradient of softmax's input: dx = y (dy - sum_k dy_k y_k)."""
    dx = dy * y
    along_y = last_axis_sum(dx)
    dx = xp.subtract(dy, along_y, out=dx)
    dx = xp.multiply(dx, y, out=dx)
    return dx


class Softmax(Layer):
    """y = exp(x) / sum exp(x) over the last axis."""

    def forward(self, x, visible=None):
        check_floats("Softmax", the_input=x)
        if 0 in x.shape[-1:]:
            raise InputError(f"Softmax: the input has shape {x.shape}; its last axis must not be 0")
        check_mask("Softmax", visible, x.shape)
        y = softmax(x, visible)
        return y, Cache(y=y)

    def backward(self, dy, cache):
        dx = softmax_backward(dy, cache.y)
        return dx


def log_softmax(x):
    """log softmax(x) over the last axis, finite for logits of any finite size."""
    shifted = x - last_axis_max(x)
    shifted = xp.maximum(shifted, xp.finfo(x.dtype).min)    # -inf times a target of 0 is NaN
    return shifted - xp.log(last_axis_sum(xp.exp(shifted)))


ACTIVATIONS = {
    "gelu": GELU,
    "gelu-tanh": functools.partial(GELU, "tanh"),
    "relu": ReLU,
    "tanh": Tanh,
    "sigmoid": Sigmoid,
}
