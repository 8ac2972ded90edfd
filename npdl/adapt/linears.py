"""Low-rank adapters on frozen linear layers, in full precision (LoRA) or quantized (QLoRA).

Hu et al. 2021 (arXiv:2106.09685), Dettmers et al. 2023 (arXiv:2305.14314). A linear layer with
QLoRA is ``LoRALinear(QuantLinear(linear))``.
"""

from npdl.adapt.quantize import dequantize, dequantize_sizes, pack, quantize, quantize_sizes, unpack
from npdl.backend import xp
from npdl.core import Cache, Layer, NoBias, Param
from npdl.errors import InputError, check_gradient, check_shape, describe
from npdl.init import generator, uniform_fan_in
from npdl.layers.linear import Linear
from npdl.options import checked_integer, require_above_0, require_bool


class FrozenLinear(Layer):
    """y = x W + b, with the W and b of a Linear, which are not trained.

    Shapes: (..., D) -> (..., E). The arrays W and b are shared with the Linear. backward returns
    the gradient of x and computes no gradients of W and b.
    """

    def __init__(self, linear):
        if not isinstance(linear, Linear):
            raise InputError(f"FrozenLinear or QuantLinear: got {describe(linear)}; give a Linear")
        self.W = Param(linear.W.data, trainable=False)
        self.b = linear.b if isinstance(linear.b, NoBias) else Param(linear.b.data, trainable=False)
        self.sizes = linear.sizes                               # (D, E)

    def weight(self):
        """Return W (D, E)."""
        return self.W.data

    def forward(self, x):
        D, E = self.sizes
        check_shape(type(self).__name__, x, f"(..., {D})")
        y = x.reshape(-1, D) @ self.weight() + self.b.data      # y (N, E)
        return y.reshape(*x.shape[:-1], E), Cache(shape=x.shape)

    def backward(self, dy, cache):
        E = self.sizes[1]
        check_gradient(dy, (*cache.shape[:-1], E), type(self).__name__)
        dx = dy.reshape(-1, E) @ self.weight().T                # y = x W + b, W and b fixed
        return dx.reshape(cache.shape)


class QuantLinear(FrozenLinear):
    """y = x dequantize(W) + b, where the W of a Linear is stored with `bits` bits for each entry.

    Shapes: (..., D) -> (..., E). `bits`, `rounding` and `block` are the arguments of
    npdl.adapt.quantize.quantize. With `double` the step sizes are stored in 8 bits, too. The QLoRA
    paper uses rounding="nf4", block=64, double=True. Only the quantized W is stored; forward and
    backward dequantize it each time. b is not quantized.
    """

    def __init__(self, linear, bits=4, *, rounding="floor", block=None, double=False):
        require_bool(double=double)
        frozen = FrozenLinear(linear)
        codes, step = quantize(linear.W.data, bits, rounding, block)
        step, scale = quantize_sizes(step) if double else (step, None)
        self.packed = Param(pack(codes, bits), trainable=False)
        self.step = Param(step, trainable=False)
        self.scale = None if scale is None else Param(scale, trainable=False)
        self.b, self.sizes, self.block, self.rounding = frozen.b, frozen.sizes, block, rounding

    def weight(self):
        """Return the dequantized W (D, E)."""
        step = self.step.data
        if self.scale is not None:
            step = dequantize_sizes(step, self.scale.data)
        return dequantize(unpack(self.packed.data, self.sizes), step, self.block, self.rounding)


class LoRALinear(Layer):
    """y = base(x) + scale (x A) B^T,   scale = alpha / r.

    Shapes: (..., D) -> (..., E), A (D, r), B (E, r), with r = `rank`. `base` is a Linear, which is
    then frozen, or a QuantLinear. Only A and B are trained. A is initialised uniformly in
    +-1/sqrt(D), and B with zeros, so that y = base(x) at the beginning. If `alpha` is None, scale
    is 1. Raises InputError if r is larger than D or E.
    """

    def __init__(self, base, rank=4, alpha=None, *, rng=0):
        base = FrozenLinear(base) if isinstance(base, Linear) else base
        if not isinstance(base, FrozenLinear):
            raise InputError(f"LoRALinear: got {describe(base)}; give a Linear or a QuantLinear")
        D, E = base.sizes
        checked_integer("rank", rank, 1, min(D, E))
        if alpha is not None:
            require_above_0(alpha=alpha)
        dtype = base.weight().dtype
        self.base = base
        self.A = Param(uniform_fan_in(generator(rng), D, (D, rank), dtype))
        self.B = Param(xp.zeros((E, rank), dtype))
        self.sizes, self.scale = base.sizes, 1.0 if alpha is None else alpha / rank

    def forward(self, x):
        y_base, c_base = self.base.forward(x)                   # y_base (..., E)
        rows = x.reshape(-1, self.sizes[0])                     # rows   (N, D)
        u = self.scale * (rows @ self.A.data)                   # u      (N, r)
        low = u @ self.B.data.T                                 # low    (N, E)
        y = y_base + low.reshape(y_base.shape)
        return y, Cache(base=c_base, rows=rows, u=u)

    def backward(self, dy, cache):
        dx_base = self.base.backward(dy, cache.base)            # y = base(x) + low
        dlow = dy.reshape(-1, self.sizes[1])
        self.B.grad += dlow.T @ cache.u                         # low = u B^T
        du = dlow @ self.B.data
        self.A.grad += self.scale * (cache.rows.T @ du)         # u = scale x A
        dx_low = self.scale * (du @ self.A.data.T)
        dx = dx_base + dx_low.reshape(dx_base.shape)
        return dx
