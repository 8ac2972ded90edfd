"""Scaled dot-product attention with several heads (Vaswani et al. 2017, arXiv:1706.03762)."""

import math

from npdl.backend import xp
from npdl.core import Cache, Layer, gradients_of
from npdl.errors import InputError
from npdl.init import generator, require_positive
from npdl.layers.activation import softmax, softmax_backward
from npdl.layers.doors import check_floats, check_mask, check_real, described
from npdl.layers.embedding import checked_at
from npdl.layers.linear import Linear


def causal_mask(length):
    """(S, S), True where a query may look: key k is visible to query t when k <= t."""
    positions = xp.arange(length)
    return positions[None, :] <= positions[:, None]


def mask_rows(mask, at):
    """The rows of a mask (S, S) or (B, 1, S, S) that belong to the queries at `at`.

    `at` is (R,) or (B, R); the result is (R, S) or (B, 1, R, S). Raises InputError for others.
    """
    shape = getattr(mask, "shape", ())
    if len(shape) not in (2, 4) or (len(shape) == 4 and shape[1] != 1) or mask.dtype.kind != "b":
        raise InputError(f"attention: the mask is {described(mask)}; it must be bool, (S, S) or "
                         "(B, 1, S, S)")
    at = checked_at(at, (shape[0] if len(shape) == 4 else None, shape[-2]))
    if mask.ndim == 2:
        return mask[at] if at.ndim == 1 else mask[at][:, None]
    sequence = xp.arange(mask.shape[0])[:, None]
    return mask[sequence, 0, at][:, None]


def check_attention(shapes, seen, heads, mask):
    """Raise InputError unless Q, K, V have shapes that go together, and the mask with them.

    seen is the length of the past, heads the number of heads.
    """
    q, k, v = shapes
    if (not len(q) == len(k) == len(v) == 3 or not q[0] == k[0] == v[0] or k[1] != v[1]
            or 0 in (*q[:2], seen + k[1])):
        raise InputError(f"attention: Q {q}, K {k} and V {v} do not fit; they must be (B, R, D), "
                         "(B, S, D) and (B, S, D), none of them 0")
    check_mask("attention", mask, (q[0], heads, q[1], seen + k[1]))         # (B, H, R, S)


def check_past(past, wanted):
    """Raise InputError unless the past's k and v are floats (B, H, P, d) as `wanted`, any P."""
    for x in past:
        check_floats("attention", the_past=x)
        if x.ndim != 4 or (*x.shape[:2], *x.shape[3:]) != wanted or x.shape != past[0].shape:
            raise InputError(f"attention: the past has {x.shape}; k and v must both be "
                             f"({wanted[0]}, {wanted[1]}, P, {wanted[2]})")


def attend(q, k, v, mask=None, scaled=True):
    """softmax(q k^T / sqrt(d)) v: q (B, H, R, d), k and v (B, H, S, d) -> (B, H, R, d).

    `mask` broadcasts against (B, H, R, S), True where a query may look. A query that sees
    nothing gets zeros. Without `scaled`, nothing is divided by sqrt(d).
    Returns (y, A) with the weights A (B, H, R, S), and a cache.
    """
    scale = 1 / math.sqrt(q.shape[-1]) if scaled else 1.0
    scores = q @ k.swapaxes(-1, -2)                     # scores (..., R, S)
    scores = xp.multiply(scores, scale, out=scores)
    A = softmax(scores, mask)                           # A      (..., R, S)
    y = A @ v                                           # y      (..., R, e)
    return (y, A), Cache(q=q, k=k, v=v, A=A, scale=scale)


def attend_backward(dout, cache):
    """Gradients of q, k, v, from those of (y, A); dA may be None."""
    dy, dA_read = dout
    dv = cache.A.swapaxes(-1, -2) @ dy                  # dv      (..., S, e):  y = A v
    dA = dy @ cache.v.swapaxes(-1, -2)                  # dA      (..., R, S)
    dA = dA if dA_read is None else dA + dA_read
    dscores = softmax_backward(dA, cache.A)             # dscores (..., R, S):  A = softmax(scores)
    dscores = xp.multiply(dscores, cache.scale, out=dscores)
    dq = dscores @ cache.k                              # dq      (..., R, d):  scores = scale q k^T
    dk = dscores.swapaxes(-1, -2) @ cache.q             # dk      (..., S, d)
    return dq, dk, dv


class MultiHeadAttention(Layer):
    """concat(h_1 .. h_H) W_O + b_O, where h_i = softmax(q_i k_i^T / sqrt(d)) v_i.

    forward(Q, K, V, mask): Q (B, R, D), K and V (B, S, D) -> y (B, R, D) and the weights
    A (B, H, R, S). `mask` broadcasts against A, True where a query may look.
    With a `tree` (npdl.prefix), K and V are rows of nodes (N, D); so is Q, or else (B, R, D).
    With a `past` (k, v), each (B, H, P, d), A is (B, H, R, P + S): what `cache.keys_values` held
    for P earlier positions is not computed again, and gets no gradient.
    Document 004, Problem 2.2 to 2.6. Raises InputError when H does not divide D.
    """

    def __init__(self, d_model, num_heads, bias=True, rng=0, dtype="float32"):
        require_positive(d_model=d_model, num_heads=num_heads)
        if d_model % num_heads:
            raise InputError(
                f"num_heads = {num_heads} does not divide d_model = {d_model}; "
                "each head takes an equal part of the width"
            )
        rng = generator(rng)
        self.d_model = d_model
        self.num_heads = num_heads
        self.W_Q = Linear(d_model, d_model, bias, rng, dtype)
        self.W_K = Linear(d_model, d_model, bias, rng, dtype)
        self.W_V = Linear(d_model, d_model, bias, rng, dtype)
        self.W_O = Linear(d_model, d_model, bias, rng, dtype)

    def split_heads(self, x):
        """(B, S, H*d) -> (B, H, S, d), a view."""
        B, S, D = x.shape
        return x.reshape(B, S, self.num_heads, D // self.num_heads).swapaxes(1, 2)

    def merge_heads(self, x):
        """(B, H, S, d) -> (B, S, H*d), the inverse of split_heads."""
        B, H, S, d = x.shape
        return x.swapaxes(1, 2).reshape(B, S, H * d)

    def forward(self, Q, K, V, mask=None, tree=None, past=None):
        self._check(Q, K, V, mask, tree, past)
        q, c_Q = self.W_Q.forward(Q)
        k, c_K = self.W_K.forward(K)
        v, c_V = self.W_V.forward(V)
        rows = tree is not None and Q.ndim == 2         # a query for every node
        if tree is not None:
            q = tree.spread(q) if rows else q
            k, v = tree.spread(k), tree.spread(v)
        q, k, v = self.split_heads(q), self.split_heads(k), self.split_heads(v)
        if past is not None:
            k, v = xp.concatenate([past[0], k], 2), xp.concatenate([past[1], v], 2)
        (heads, A), c_attend = attend(q, k, v, mask)    # heads (B, H, R, d)
        h = self.merge_heads(heads)                     # h     (B, R, H*d)
        h = tree.pick(h) if rows else h
        y, c_O = self.W_O.forward(h)
        return (y, A), Cache(Q=c_Q, K=c_K, V=c_V, attend=c_attend, O=c_O, tree=tree, rows=rows,
                             keys_values=(k, v), past=0 if past is None else past[0].shape[2])

    def _check(self, Q, K, V, mask, tree, past):
        """Raise InputError for arrays that do not go together."""
        H, D = self.num_heads, self.d_model
        check_real("attention", Q=Q, K=K, V=V)
        if tree is None:
            if past is not None and Q.ndim > 0:
                check_past(past, (Q.shape[0], H, D // H))
            seen = 0 if past is None else past[0].shape[2]
            check_attention((Q.shape, K.shape, V.shape), seen, H, mask)
            return
        B, S = tree.batch_shape
        nodes = (tree.size, D)
        if K.shape != nodes or V.shape != nodes or (Q.shape != nodes and (
                Q.ndim != 3 or Q.shape[0] != B or Q.shape[2] != D)):
            raise InputError(f"attention: Q {Q.shape}, K {K.shape} and V {V.shape} do not fit; "
                             f"with this tree they must be {nodes}, or Q ({B}, R, {D})")
        check_mask("attention", mask, (B, H, S if Q.ndim == 2 else Q.shape[1], S))

    def backward(self, dout, cache):
        dy, dA = gradients_of(dout, 2)
        tree, rows = cache.tree, cache.rows
        if dy is None:
            dy = xp.zeros(cache.O.shape, cache.O.rows.dtype)
        dh = self.W_O.backward(dy, cache.O)
        dh = tree.pick_backward(dh) if rows else dh     # dh     (B, R, H*d)
        dheads = self.split_heads(dh)                   # dheads (B, H, R, d)
        dq, dk, dv = attend_backward((dheads, dA), cache.attend)
        dk, dv = dk[:, :, cache.past :], dv[:, :, cache.past :]
        dq, dk, dv = self.merge_heads(dq), self.merge_heads(dk), self.merge_heads(dv)
        if tree is not None:
            dq = tree.spread_backward(dq) if rows else dq
            dk, dv = tree.spread_backward(dk), tree.spread_backward(dv)
        dQ = self.W_Q.backward(dq, cache.Q)
        dK = self.W_K.backward(dk, cache.K)
        dV = self.W_V.backward(dv, cache.V)
        return dQ, dK, dV
