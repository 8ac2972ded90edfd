"""Chains of elementwise operations: one after the other on NumPy, one kernel on a GPU.

Each function is written once, as ufuncs that write into arrays which are already there. NumPy
calls them as they stand; for CuPy, `cupy.fuse` makes one kernel out of the same function. So no
function may index, reshape or look at a shape; what it needs only for a moment (`spare`, `x2`)
may be None, and is not stored at all then. The two sums at the end are for a GPU alone: NumPy
sums faster by a product (npdl_train.fast.kernels).
"""

import functools
import math

from npdl.backend import is_host, xp
from npdl.functions import ERF_FIT


def fused(function):
    """One kernel of CuPy's for what `function` does to its arrays; on NumPy `function` itself."""
    made = {}

    @functools.wraps(function)
    def call(*arrays):
        if is_host():
            return function(*arrays)
        kernel = made.get(xp.fuse)
        if kernel is None:
            kernel = made[xp.fuse] = xp.fuse(function)
        return kernel(*arrays)

    return call


# --- GELU ----------------------------------------------------------------------------------------
@fused
def gelu(x, slope, x2, cdf):
    """GELU.forward: x <- x Phi(x), slope <- its derivative, in float32.

    Phi is npdl.functions.normal_cdf, without ERF_FIT_END: beyond it the fit grows on, and its tanh
    is 1 in float32.
    """
    x2 = xp.multiply(x, x, out=x2)
    p = xp.multiply(x2, ERF_FIT[-1], out=cdf)
    for coefficient in ERF_FIT[-2:0:-1]:                        # Horner's rule
        p = xp.add(p, coefficient, out=p)
        p = xp.multiply(p, x2, out=p)
    p = xp.add(p, ERF_FIT[0], out=p)
    p = xp.multiply(p, x, out=p)
    p = xp.tanh(p, out=p)
    p = xp.add(p, 1.0, out=p)
    cdf = xp.multiply(p, 0.5, out=p)
    finish_gelu(x, cdf, slope, x2)


@fused
def gelu_of(x, cdf, slope, x2):
    """The same from Phi(x), for other dtypes."""
    x2 = xp.multiply(x, x, out=x2)
    finish_gelu(x, cdf, slope, x2)


def finish_gelu(x, cdf, slope, x2):
    density = xp.multiply(x2, -0.5, out=x2)
    density = xp.exp(density, out=density)
    density = xp.multiply(density, 1 / math.sqrt(2 * math.pi), out=density)
    density = xp.multiply(density, x, out=density)              # x * normal_density(x)
    xp.add(density, cdf, out=slope)                             # slope = cdf + x * density
    xp.multiply(x, cdf, out=x)                                  # y = x * cdf


# --- LayerNorm -----------------------------------------------------------------------------------
@fused
def scale_rows(x_hat, squares, share, eps, gain, bias, y):
    """x_hat = centred / std, y = gain * x_hat + bias; `squares` (N, 1) are centred's, summed."""
    var = xp.multiply(squares, share)
    var = xp.add(var, xp.subtract(var, var))                    # npdl.functions.not_infinite
    std = xp.sqrt(xp.add(var, eps))
    x_hat = xp.multiply(x_hat, xp.divide(1.0, std), out=x_hat)
    y = xp.multiply(x_hat, gain, out=y)
    if bias is not None:
        xp.add(y, bias, out=y)


@fused
def normalise_backward(d, x_hat, shift, stretch, squares, share, eps, gain):
    """d = gain * dy -> (d - shift - stretch * x_hat) / std, over d and x_hat."""
    d = xp.multiply(d, gain, out=d)
    d = xp.subtract(d, xp.multiply(shift, share), out=d)
    x_hat = xp.multiply(x_hat, xp.multiply(stretch, share), out=x_hat)
    d = xp.subtract(d, x_hat, out=d)
    std = xp.sqrt(xp.add(xp.multiply(squares, share), eps))
    xp.multiply(d, xp.divide(1.0, std), out=d)


# --- softmax -------------------------------------------------------------------------------------
@fused
def softmax_backward(d, y, along, scale):
    """d = scale * y (d - along)   (npdl.functions.softmax_backward)."""
    d = xp.subtract(d, along, out=d)
    d = xp.multiply(d, y, out=d)
    xp.multiply(d, scale, out=d)


# --- the loss ------------------------------------------------------------------------------------
@fused
def log_probabilities(x, top, total):
    """x = (x - top) - log(total)   (npdl.functions.log_softmax)."""
    x = xp.subtract(x, top, out=x)
    xp.subtract(x, xp.log(total), out=x)


@fused
def loss_gradient(log_p, targets, words, weight, share):
    """log_p <- (exp(log_p) - q) * weight * share, q being 1 at the target   (SequenceLoss)."""
    p = xp.exp(log_p, out=log_p)
    p = xp.subtract(p, xp.equal(targets, words), out=p)
    xp.multiply(p, xp.multiply(weight, share), out=p)


# --- the LSTM ------------------------------------------------------------------------------------
@fused
def gates(z, bias, product, half, shift, three):
    """z <- i, f, o = sigmoid(z), g = tanh(z), after z += bias and z += h W_h if they are there.

    z (4, n, H); bias (4, 1, H); half (4, 1, 1) is 1/2 and shift 1/2 for the first three, 1 and 0
    for g: the logistic function is (1 + tanh(z/2)) / 2. Where the first `three` are given, a view
    of z, they alone are halved and shifted.
    """
    if bias is not None:
        z = xp.add(z, bias, out=z)
    if product is not None:
        z = xp.add(z, product, out=z)
    if three is None:
        z = xp.multiply(z, half, out=z)
        z = xp.tanh(z, out=z)
        z = xp.multiply(z, half, out=z)
        xp.add(z, shift, out=z)
    else:
        xp.multiply(three, half, out=three)
        xp.tanh(z, out=z)
        xp.multiply(three, half, out=three)
        xp.add(three, shift, out=three)


@fused
def state(i, f, o, g, c_prev, c, tanh_c, h, spare):
    """c = f * c_prev + i * g, h = o * tanh(c); c_prev None stands for zeros   (LSTMCell)."""
    c = xp.multiply(i, g, out=c)
    if c_prev is not None:
        c = xp.add(c, xp.multiply(f, c_prev, out=spare), out=c)
    tanh_c = xp.tanh(c, out=tanh_c)
    xp.multiply(o, tanh_c, out=h)


@fused
def state_backward(dh, dh_next, dc, dc_next, o, tanh_c, h):
    """dh += dh_next; dc = dh * o * (1 - tanh_c**2) + dc_next   (LSTMCell.backward)."""
    if dh_next is not None:
        dh = xp.add(dh, dh_next, out=dh)
    dc = xp.multiply(h, tanh_c, out=dc)
    dc = xp.subtract(o, dc, out=dc)                             # h = o * tanh_c
    dc = xp.multiply(dc, dh, out=dc)
    if dc_next is not None:
        xp.add(dc, dc_next, out=dc)


@fused
def gates_backward(dz_i, dz_f, dz_o, dz_g, i, f, o, g, dc, dh, c_prev, h, dc_next):
    """dz of the four gates, and dc_next = dc * f unless it is None   (LSTMCell.backward)."""
    ig = xp.multiply(i, g, out=dz_g)
    dz_i = xp.subtract(1.0, i, out=dz_i)
    dz_i = xp.multiply(dz_i, ig, out=dz_i)                      # dz_i = di * i * (1 - i)
    xp.multiply(dz_i, dc, out=dz_i)                             # di = dc * g
    if c_prev is None:
        xp.multiply(dc, 0.0, out=dz_f)
    else:
        dz_f = xp.subtract(1.0, f, out=dz_f)
        dz_f = xp.multiply(dz_f, f, out=dz_f)
        dz_f = xp.multiply(dz_f, c_prev, out=dz_f)              # df = dc * c_prev
        xp.multiply(dz_f, dc, out=dz_f)
    dz_o = xp.subtract(1.0, o, out=dz_o)
    dz_o = xp.multiply(dz_o, h, out=dz_o)                       # dz_o = do * o * (1 - o)
    xp.multiply(dz_o, dh, out=dz_o)                             # do = dh * tanh_c
    dz_g = xp.multiply(ig, g, out=dz_g)
    dz_g = xp.subtract(i, dz_g, out=dz_g)                       # dz_g = dg * (1 - g**2)
    xp.multiply(dz_g, dc, out=dz_g)                             # dg = dc * i
    if dc_next is not None:
        xp.multiply(dc, f, out=dc_next)


# --- optimizers ----------------------------------------------------------------------------------
@fused
def adam(theta, m, v, g, keep, b1, rest1, b2, rest2, eps, rate, spare):
    """theta *= keep (None: 1), and Adam.move, rest being 1 - beta: with the root of 1 - b2**t in
    eps and rate, theta -= rate * m / (sqrt(v) + eps)."""
    if keep is not None:
        theta = xp.multiply(theta, keep, out=theta)
    m = xp.multiply(m, b1, out=m)
    m = xp.add(m, xp.multiply(g, rest1, out=spare), out=m)
    v = xp.multiply(v, b2, out=v)
    square = xp.multiply(g, g, out=spare)
    v = xp.add(v, xp.multiply(square, rest2, out=square), out=v)
    root = xp.add(v, xp.subtract(v, v, out=spare), out=spare)   # npdl.functions.not_infinite
    root = xp.sqrt(root, out=root)
    root = xp.add(root, eps, out=root)
    step = xp.divide(m, root, out=root)
    step = xp.multiply(step, rate, out=step)
    xp.subtract(theta, step, out=theta)


@fused
def sgd(theta, v, g, momentum, decay, rate, spare):
    """SGD.update."""
    v = xp.multiply(v, momentum, out=v)
    v = xp.add(v, g, out=v)
    if decay is not None:
        v = xp.add(v, xp.multiply(theta, decay, out=spare), out=v)
    xp.subtract(theta, xp.multiply(v, rate, out=spare), out=theta)


# --- sums, on a GPU alone ------------------------------------------------------------------------
@fused
def products_summed(a, b, c):
    """The sum over the last axis of a * b * c; c may be None."""
    ab = xp.multiply(a, b)
    return xp.sum(ab if c is None else xp.multiply(ab, c), axis=-1)


@fused
def exponentials_summed(x, top):
    """The sum over the last axis of exp(x - top)."""
    return xp.sum(xp.exp(xp.subtract(x, top)), axis=-1)
