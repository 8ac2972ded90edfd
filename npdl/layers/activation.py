"""Elementwise nonlinearities and the softmax, as layers without parameters."""

import math

from npdl.backend import xp
from npdl.core import Cache, Layer
from npdl.errors import check_floats, check_gradient, check_mask, check_shape
from npdl.functions import normal_cdf, normal_density, sigmoid, softmax, softmax_backward


class Sigmoid(Layer):
    """y = 1 / (1 + exp(-x)), elementwise."""

    def forward(self, x):
        check_floats("Sigmoid", the_input=x)
        y = sigmoid(x)
        return y, Cache(y=y)

    def backward(self, dy, cache):
        y = cache.y
        check_gradient(dy, y.shape, "Sigmoid")
        dx = dy * y * (1 - y)
        return dx


class Tanh(Layer):
    """y = tanh(x), elementwise."""

    def forward(self, x):
        check_floats("Tanh", the_input=x)
        y = xp.tanh(x)
        return y, Cache(y=y)

    def backward(self, dy, cache):
        y = cache.y
        check_gradient(dy, y.shape, "Tanh")
        dx = dy * (1 - y**2)
        return dx


class ReLU(Layer):
    """y = max(x, 0), elementwise. The derivative at 0 is taken as 0."""

    def forward(self, x):
        check_floats("ReLU", the_input=x)
        y = xp.maximum(x, 0)
        return y, Cache(x=x)

    def backward(self, dy, cache):
        check_gradient(dy, cache.x.shape, "ReLU")
        dx = dy * (cache.x > 0)
        return dx


class GELU(Layer):
    """y = x Phi(x), elementwise. Phi is the distribution function of the standard normal.

    Hendrycks & Gimpel 2016, arXiv:1606.08415.
    """

    def forward(self, x):
        check_floats("GELU", the_input=x)
        cdf = normal_cdf(x)                             # Phi(x)
        y = x * cdf
        return y, Cache(x=x, cdf=cdf)

    def backward(self, dy, cache):
        x, cdf = cache.x, cache.cdf
        check_gradient(dy, x.shape, "GELU")
        slope = cdf + x * normal_density(x)             # y = x Phi(x), and Phi' is the density
        dx = dy * slope
        return dx


class TanhGELU(Layer):
    """y = x (1 + tanh u) / 2,  u = sqrt(2/pi) (x + 0.044715 x^3), elementwise.

    This approximation of GELU has an error of up to 5e-4. GPT-2 uses it. Hendrycks & Gimpel 2016,
    arXiv:1606.08415.
    """

    scale, cubic = math.sqrt(2 / math.pi), 0.044715

    def forward(self, x):
        check_floats("TanhGELU", the_input=x)
        u = self.scale * (x + self.cubic * x * x * x)
        t = xp.tanh(u)
        y = 0.5 * x * (1 + t)
        return y, Cache(x=x, t=t)

    def backward(self, dy, cache):
        x, t = cache.x, cache.t
        check_gradient(dy, x.shape, "TanhGELU")
        dt = dy * 0.5 * x                               # y = x (1 + t) / 2
        du = dt * (1 - t**2)                            # t = tanh(u)
        du_dx = self.scale * (1 + 3 * self.cubic * x * x)
        dx = dy * 0.5 * (1 + t) + du * du_dx
        return dx


class Softmax(Layer):
    """y = exp(x) / sum exp(x) over the last axis.

    forward(x, visible): where the bool array `visible` is False, y is 0 and x does not count in the
    sum. `visible` broadcasts to the shape of x.
    """

    def forward(self, x, visible=None):
        check_shape("Softmax", x, "(..., V)", kinds="f")
        check_mask("Softmax", visible, x.shape)
        y = softmax(x, visible)
        return y, Cache(y=y)

    def backward(self, dy, cache):
        check_gradient(dy, cache.y.shape, "Softmax")
        dx = softmax_backward(dy, cache.y)
        return dx


ACTIVATIONS = {"gelu": GELU, "gelu-tanh": TanhGELU, "relu": ReLU, "tanh": Tanh, "sigmoid": Sigmoid}
