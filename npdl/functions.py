"""Functions of arrays that several layers use, with the backward of some of them."""

import math

import numpy as np

from npdl.backend import dispatch_on_array_type, exact_erf, is_host, one_hot, to_device, xp
from npdl.errors import checked_lengths


def sigmoid(x):
    """y = 1 / (1 + exp(-x)), computed as (1 + tanh(x/2)) / 2.

    This form never overflows, and NumPy's tanh is faster than its exp. A result near 0 has the
    rounding error of a number near 1/2. For example, at x = -20 it is 0 in float32, not 2e-9.
    """
    return 0.5 * xp.tanh(0.5 * x) + 0.5


def softmax(x, visible=None):
    """y = exp(x) / sum exp(x) over the last axis.

    Where the bool array `visible` is False, y is 0 and x does not count in the sum. `visible`
    broadcasts to the shape of x. If it is False in a whole row, this row of y is zero, and not NaN.
    """
    if visible is not None:
        x = xp.where(visible, x, -math.inf)
    top = x.max(-1, keepdims=True)                          # exp(x - top) cannot overflow
    e = xp.exp(x - xp.where(top == -math.inf, 0.0, top).astype(x.dtype))
    total = e.sum(-1, keepdims=True)
    return e / xp.where(total == 0, 1.0, total).astype(x.dtype)


def softmax_backward(dy, y):
    """dx = y (dy - sum_k dy_k y_k), where y is the output of softmax."""
    along_y = (dy * y).sum(-1, keepdims=True)
    return y * (dy - along_y)


def log_softmax(x):
    """y = log softmax(x) over the last axis. Where x is -inf (probability 0), y is -inf."""
    top = x.max(-1, keepdims=True)
    shifted = x - xp.where(top == -math.inf, 0.0, top).astype(x.dtype)
    return shifted - xp.log(xp.exp(shifted).sum(-1, keepdims=True))


# Coefficients of the polynomial P in erf(x / sqrt 2) = tanh(x P(x^2)). The fit minimises the
# largest error of x * Phi(x) for |x| <= 5.6, which is 7e-8. For larger x, tanh is 1 in float32.
ERF_FIT = (0.7978844926585411, 0.03633391090124542, -3.2954334102578336e-05,
           -5.527808150353319e-05, 3.973133185020861e-06, -1.3364813233193647e-07,
           1.8093919984459128e-09)
ERF_FIT_END = 5.6**2


def normal_cdf(x):
    """Compute Phi(x), the distribution function of the standard normal, elementwise.

    For x in float32, this evaluates a polynomial (ERF_FIT), whose error is smaller than the
    rounding error of float32. For x in float64, it calls erf of Python's standard library, or of
    CuPy on a GPU. This erf is slower, but exact except for the last digits.
    """
    if x.dtype == np.float32:
        x2 = xp.minimum(x * x, ERF_FIT_END)
        p = ERF_FIT[-1] * x2
        for coefficient in ERF_FIT[-2:0:-1]:                # Horner's rule
            p = (p + coefficient) * x2
        erf = xp.tanh((p + ERF_FIT[0]) * x)
    else:
        erf = exact_erf(x * math.sqrt(0.5))
    return 0.5 * (erf + 1.0)


def normal_density(x):
    """Compute phi(x), the density of the standard normal: the derivative of normal_cdf."""
    return xp.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


def sum_rows(x):
    """Sum over all axes but the last, (..., D) -> (D,), accumulated in float64.

    This computes the gradient of a bias. In float32, a sum of a million rows would lose two digits.
    """
    return sum_in_float64(x.reshape(-1, x.shape[-1]), 0)


def sum_in_float64(x, axis):
    """Sum over an axis, accumulated in float64."""
    return x.sum(axis, dtype=np.promote_types(x.dtype, np.float64)).astype(x.dtype)


def mean_in_float64(x, axes):
    """Average over some axes, which keep length 1. The sum is accumulated in float64."""
    wide = np.promote_types(x.dtype, np.float64)
    return x.mean(axes, dtype=wide, keepdims=True).astype(x.dtype)


def infinity_to_nan(x):
    """Replace infinity in x by NaN. A division by infinity would give 0 and hide the overflow."""
    return x + (x - x)


def sum_without_overflow(x, axis=None):
    """Return the sum over an axis. float16 is summed in float32, because it overflows at 65504."""
    return x.sum(axis, dtype=np.promote_types(x.dtype, np.float32))


@dispatch_on_array_type
def subtract_one_hot(p, index):
    """Return p - one_hot(index) for p (..., V) and index (...). No one-hot array is made."""
    d = p.copy()
    rows = d.reshape(-1, d.shape[-1])
    rows[xp.arange(len(rows)), index.reshape(-1)] -= 1
    return d


@dispatch_on_array_type
def sum_by_index(rows, index, size):
    """Return the array (size, D) whose row v is the sum of all rows[n] with index[n] = v.

    `rows` is (..., D) and `index` is (...). This is the backward of the look-up W[index]. NumPy
    accumulates in float64. The result is deterministic with NumPy and with CuPy.
    """
    rows, index = rows.reshape(-1, rows.shape[-1]), index.reshape(-1)
    if not is_host():
        return _sum_by_index_on_gpu(rows, index, size)
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    first = np.flatnonzero(np.diff(ordered, prepend=-1))        # where each v begins
    wide = np.promote_types(rows.dtype, np.float64)
    total = np.zeros((size, rows.shape[-1]), rows.dtype)
    total[ordered[first]] = np.add.reduceat(rows[order], first, axis=0, dtype=wide)
    return total


def _sum_by_index_on_gpu(rows, index, size):
    """Compute sum_by_index with matrix products, because atomic adds on a GPU aren't deterministic.

    For N rows, this multiplies by the one-hot matrix (N, size) if N > size. Otherwise it multiplies
    by a smaller matrix (N, N), which is 1 where two rows have the same index. Row n of this product
    is the sum of all rows with the index of row n. The row index[n] of the result is this sum.
    """
    if len(index) > size:
        return one_hot(index, size, rows.dtype).T @ rows
    same = (index[:, None] == index).astype(rows.dtype)
    first = same.argmax(1)                      # equal sums may differ in the last bit: take one
    total = xp.zeros((size, rows.shape[-1]), rows.dtype)
    total[index] = (same @ rows)[first]
    return total


def map_state(function, *states):
    """Return function(h) for states h. For states (h, c), return (function(h), function(c))."""
    if isinstance(states[0], tuple):
        return tuple(function(*parts) for parts in zip(*states, strict=True))
    return function(*states)


def reverse(x, lengths=None):
    """Return x (B, S, D) with the first lengths[b] steps of sequence b in reverse order.

    The other steps stay in place. The backward of `reverse` is `reverse` itself.
    """
    if lengths is None:
        return x[:, ::-1]
    B, S = x.shape[:2]
    ends = to_device(checked_lengths(lengths, B, S, "reverse"))[:, None]
    t = xp.arange(S)
    mirrored = xp.where(t < ends, ends - 1 - t, t)          # mirrored (B, S)
    return xp.take_along_axis(x, mirrored[..., None], 1)


def length_mask(lengths, S, B=None, owner="length_mask"):
    """Return the mask (B, S) of the valid steps, which is True at [b, t] if t < lengths[b].

    Raises InputError unless there are B lengths, or any number of lengths if B is None.
    """
    lengths = checked_lengths(lengths, len(lengths) if B is None else B, S, owner)
    return xp.arange(S) < to_device(lengths)[:, None]


def h_of(state):
    """Return the array h of a state, which is h itself or a pair (h, c)."""
    return state[0] if isinstance(state, tuple) else state
