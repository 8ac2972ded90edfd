"""Functions of arrays that several layers share, each with its derivative where one is needed."""

import math

import numpy as np

from npdl.backend import exact_erf, is_host, one_hot, replaceable, to_device, xp
from npdl.errors import InputError, checked_lengths, described, is_array


def sigmoid(x):
    """1 / (1 + exp(-x)), as (1 + tanh(x/2)) / 2: never overflows, and tanh is NumPy's fastest.

    The sum rounds as numbers near 1/2 do: at -20 it is 0 in float32, not 2e-9.
    """
    return 0.5 * xp.tanh(0.5 * x) + 0.5


def softmax(x, visible=None):
    """y = exp(x) / sum exp(x) over the last axis; where `visible` is False, y is exactly 0.

    `visible` broadcasts against x. A row in which nothing is visible gives zeros, not NaN.
    """
    if visible is not None:
        x = xp.where(visible, x, -math.inf)
    top = x.max(-1, keepdims=True)                          # so that exp cannot overflow
    e = xp.exp(x - xp.where(top == -math.inf, 0.0, top).astype(x.dtype))
    total = e.sum(-1, keepdims=True)
    return e / xp.where(total == 0, 1.0, total).astype(x.dtype)


def softmax_backward(dy, y):
    """dx = y (dy - sum_k dy_k y_k), the gradient of softmax's input."""
    along_y = (dy * y).sum(-1, keepdims=True)
    return y * (dy - along_y)


def log_softmax(x):
    """y = log softmax(x) over the last axis; -inf stays -inf, an impossible choice."""
    top = x.max(-1, keepdims=True)
    shifted = x - xp.where(top == -math.inf, 0.0, top).astype(x.dtype)
    return shifted - xp.log(xp.exp(shifted).sum(-1, keepdims=True))


# P of erf(x / sqrt 2) = tanh(x P(x^2)), fitted for the least largest error of x * Phi on
# |x| <= 5.6, beyond which tanh has reached 1 in float32 (error of the fit: 7e-8).
ERF_FIT = (0.7978844926585411, 0.03633391090124542, -3.2954334102578336e-05,
           -5.527808150353319e-05, 3.973133185020861e-06, -1.3364813233193647e-07,
           1.8093919984459128e-09)
ERF_FIT_END = 5.6**2


def normal_cdf(x):
    """Compute Phi(x), the distribution function of the standard normal, elementwise.

    float32 uses a fit whose error is below float32's own rounding; float64 is exact to its last
    digits, by the standard library's erf (CuPy's own on a GPU), and slower.
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

    A bias collects its gradient in this way. Plain float32 sums down a column of a million rows
    lose two digits.
    """
    return sum_over(x.reshape(-1, x.shape[-1]), 0)


def sum_over(x, axis):
    """Sum over an axis, accumulated in float64."""
    return x.sum(axis, dtype=np.promote_types(x.dtype, np.float64)).astype(x.dtype)


def mean_over(x, axes):
    """Average over some axes, which are kept as 1, accumulated as in sum_rows."""
    wide = np.promote_types(x.dtype, np.float64)
    return x.mean(axes, dtype=wide, keepdims=True).astype(x.dtype)


def not_infinite(x):
    """Return x with NaN where it is infinite, because a division by infinity gives 0 silently."""
    return x + (x - x)


def wide_sum(x, axis=None):
    """Return the sum, of float16 in float32, because float16 holds no number above 65504."""
    return x.sum(axis, dtype=np.promote_types(x.dtype, np.float32))


@replaceable
def minus_one_hot(p, index):
    """Return p (..., V) with 1 less at each index (...): p - one_hot(index), without that array."""
    d = p.copy()
    rows = d.reshape(-1, d.shape[-1])
    rows[xp.arange(len(rows)), index.reshape(-1)] -= 1
    return d


@replaceable
def sum_by_index(rows, index, size):
    """Return (size, D), whose row v is the sum of the rows[n] (..., D) with index[n] (...) = v.

    The transpose of a look-up, accumulated as in sum_rows. Deterministic on both backends.
    """
    rows, index = rows.reshape(-1, rows.shape[-1]), index.reshape(-1)
    if not is_host():
        return _sum_on_device(rows, index, size)
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    first = np.flatnonzero(np.diff(ordered, prepend=-1))        # where the next v begins
    wide = np.promote_types(rows.dtype, np.float64)
    total = np.zeros((size, rows.shape[-1]), rows.dtype)
    total[ordered[first]] = np.add.reduceat(rows[order], first, axis=0, dtype=wide)
    return total


def _sum_on_device(rows, index, size):
    """Compute sum_by_index by products, since an atomic add on a GPU is not deterministic.

    With one-hot rows (N, size); or, where the table is larger than that, with the pairs of rows
    that go to one place (N, N): each of those rows then writes the same sum there.
    """
    if len(index) > size:
        return xp.matmul(one_hot(index, size, rows.dtype).T, rows)
    same = (index[:, None] == index).astype(rows.dtype)
    first = same.argmax(1)                                  # products may differ in the last bit
    total = xp.zeros((size, rows.shape[-1]), rows.dtype)
    total[index] = xp.matmul(same, rows)[first]
    return total


def map_state(function, *states):
    """Apply a function to the parts of recurrent states: f(h), or (f(h), f(c))."""
    if isinstance(states[0], tuple):
        return tuple(function(*parts) for parts in zip(*states, strict=True))
    return function(*states)


def by_layer(state, L, owner):
    """Split a stack's state, its parts (L, B, H), into those of its layers, or None for each."""
    if state is None:
        return [None] * L
    state = tuple(state) if isinstance(state, list) else state
    for part in state if isinstance(state, tuple) else (state,):
        if not is_array(part) or part.ndim != 3 or len(part) != L:
            raise InputError(f"{owner}: a part of the state is {described(part)}; it must be "
                             f"({L}, B, H), a row for each layer")
    return [map_state(lambda part, i=i: part[i], state) for i in range(L)]


def reverse(x, lengths=None):
    """Return x (B, S, D) with each sequence's first lengths[b] steps reversed, the rest as it is.

    Its own inverse and its own transpose: the gradient of `reverse` is `reverse`.
    """
    if lengths is None:
        return x[:, ::-1]
    B, S = x.shape[:2]
    ends = to_device(checked_lengths(lengths, B, S, "reverse"))[:, None]
    t = xp.arange(S)
    mirrored = xp.where(t < ends, ends - 1 - t, t)          # mirrored (B, S)
    return xp.take_along_axis(x, mirrored[..., None], 1)


def length_mask(lengths, S):
    """Return (B, S), True at the valid steps: t < lengths[b]."""
    lengths = checked_lengths(lengths, len(lengths), S, "length_mask")
    return xp.arange(S) < to_device(lengths)[:, None]


def real_steps(x, lengths, owner):
    """Return (B, S, 1), True up to each sequence's end, and x (B, S, D) with zeros after it.

    Without `lengths` all steps are valid: None, and x itself.
    """
    if lengths is None:
        return None, x
    real = length_mask(checked_lengths(lengths, *x.shape[:2], owner), x.shape[1])[..., None]
    return real, xp.where(real, x, 0)


def h_of(state):
    """Return h, out of h or (h, c)."""
    return state[0] if isinstance(state, tuple) else state


def add_dh(dstate, dh):
    """Return dstate with dh added to the gradient of h."""
    return (dstate[0] + dh, *dstate[1:]) if isinstance(dstate, tuple) else dstate + dh


def if_real(real):
    """Return a function of (new, old): new where `real` (B, 1), else old.

    The state of a sequence then does not change after its end.
    """
    return lambda new, old=0: xp.where(real, new, old)
