"""Attention: y = A v. A is the softmax, over the keys, of the scores of each query and key.

Shapes: queries q (..., R, d), keys k (..., S, d), values v (..., S, e), weights A (..., R, S),
output y (..., R, e). `mask` broadcasts to A. A bool mask is True where a query may attend to a key,
as in torch.nn.functional.scaled_dot_product_attention; in torch.nn.MultiheadAttention, True has the
opposite meaning. A float mask is added to the scores, for example the position biases of ALiBi.
Where it is -inf, the key is hidden. The mask gets no gradient. For a fully masked query, y is zero.
`cache.A` holds the weights.
"""

import math

from npdl.backend import xp
from npdl.core import Cache, Layer, Param
from npdl.errors import InputError, check_attention_mask, check_gradient, check_shapes
from npdl.functions import softmax, softmax_backward, sum_in_float64
from npdl.init import generator, uniform_fan_in
from npdl.layers.dropout import Dropout
from npdl.layers.linear import Linear
from npdl.options import require_positive

NO_DROPOUT = Dropout(0.0)


def causal_mask(length):
    """Return the mask (S, S) that is True at [t, k] if k <= t: query t may attend to key k."""
    require_positive(length=length)
    t = xp.arange(length)
    return t[None, :] <= t[:, None]


def masked_softmax(scores, mask):
    """Return the softmax over the keys that a bool mask allows. A float mask is added to scores."""
    if mask is None or mask.dtype.kind == "b":
        return softmax(scores, mask)
    return softmax(scores + mask.astype(scores.dtype))


def attend(q, k, v, mask=None, scale=None, dropout=NO_DROPOUT, rng=None):
    """y = dropout(A) v,  A = masked_softmax(scale q k^T, mask).

    `scale` is 1/sqrt(d) if None is given. Dropout is active if `rng` is given.
    """
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = scale * (q @ k.swapaxes(-1, -2))               # scores (..., R, S)
    A = masked_softmax(scores, mask)                        # A      (..., R, S)
    P, c_drop = dropout.forward(A, rng)                     # P      (..., R, S)
    y = P @ v                                               # y      (..., R, e)
    return y, Cache(q=q, k=k, v=v, A=A, P=P, scale=scale, drop=c_drop)


def attend_backward(dy, cache, dropout=NO_DROPOUT):
    """Return the gradients of q, k and v."""
    q, k, v, A, P, scale = cache.q, cache.k, cache.v, cache.A, cache.P, cache.scale
    dv = P.swapaxes(-1, -2) @ dy                            # y = P v
    dP = dy @ v.swapaxes(-1, -2)
    dA = dropout.backward(dP, cache.drop)                   # P = dropout(A)
    dscores = softmax_backward(dA, A)                       # A = softmax(scores)
    dq = scale * (dscores @ k)                              # scores = scale q k^T
    dk = scale * (dscores.swapaxes(-1, -2) @ q)
    return dq, dk, dv


class DotAttention(Layer):
    """Attention (see npdl.layers.attention) with score(q, k) = q . k."""

    scale = 1.0

    def forward(self, q, k, v, mask=None):
        check_shapes("attention", "f", q=(q, "(..., R, d)"), k=(k, "(..., S, d)"),
                     v=(v, "(..., S, e)"))
        check_attention_mask(mask, (*q.shape[:-1], k.shape[-2]))
        y, cache = attend(q, k, v, mask, self.scale)
        return y, cache

    def backward(self, dy, cache):
        check_gradient(dy, (*cache.A.shape[:-1], cache.v.shape[-1]), "attention")
        dq, dk, dv = attend_backward(dy, cache)
        return dq, dk, dv


class ScaledDotAttention(DotAttention):
    """Attention (see npdl.layers.attention) with score(q, k) = q . k / sqrt(d).

    If the entries of q and k are independent, the variance of this score does not grow with d.
    Vaswani et al. 2017, arXiv:1706.03762.
    """

    scale = None                        # 1/sqrt(d)


class AdditiveAttention(Layer):
    """Attention (see npdl.layers.attention) with score(q, k) = a . tanh(q W_q + k W_k).

    Shapes: W_q (d_query, h), W_k (d_key, h), a (h,), with h = `d_hidden`. There are no biases.
    Bahdanau et al. 2015, arXiv:1409.0473.
    """

    def __init__(self, d_query, d_key, d_hidden, *, rng=0, dtype="float32"):
        rng = generator(rng)
        self.W_q = Linear(d_query, d_hidden, bias=False, rng=rng, dtype=dtype)
        self.W_k = Linear(d_key, d_hidden, bias=False, rng=rng, dtype=dtype)
        self.a = Param(uniform_fan_in(rng, d_hidden, (d_hidden,), dtype))

    def forward(self, q, k, v, mask=None):
        check_shapes("attention", "f", q=(q, "(..., R, d)"), k=(k, "(..., S, d_k)"),
                     v=(v, "(..., S, e)"))
        check_attention_mask(mask, (*q.shape[:-1], k.shape[-2]))
        u, c_q = self.W_q.forward(q)                            # u       (..., R, h)
        w, c_k = self.W_k.forward(k)                            # w       (..., S, h)
        t = xp.tanh(u[..., :, None, :] + w[..., None, :, :])    # t       (..., R, S, h)
        scores = t @ self.a.data                                # scores  (..., R, S)
        A = masked_softmax(scores, mask)
        y = A @ v
        return y, Cache(q=c_q, k=c_k, v=v, t=t, A=A)

    def backward(self, dy, cache):
        A, v, t, h = cache.A, cache.v, cache.t, self.a.shape[0]
        check_gradient(dy, (*A.shape[:-1], v.shape[-1]), "attention")
        dv = A.swapaxes(-1, -2) @ dy                            # y = A v
        dA = dy @ v.swapaxes(-1, -2)
        dscores = softmax_backward(dA, A)                       # A = softmax(scores)
        self.a.grad += t.reshape(-1, h).T @ dscores.reshape(-1)     # scores = t a
        dt = dscores[..., None] * self.a.data
        dz = dt * (1 - t**2)                                    # t = tanh(z)
        du = sum_in_float64(dz, -2)                             # z = u + w, which broadcast
        dw = sum_in_float64(dz, -3)
        dq = self.W_q.backward(du, cache.q)
        dk = self.W_k.backward(dw, cache.k)
        return dq, dk, dv


class MultiHeadAttention(Layer):
    """y = [head_1 .. head_H] W_O,   head_i = attend(q_i, k_i, v_i).

    q = Q W_Q, k = K W_K and v = V W_V are split along the width D into H = `num_heads` equal parts;
    q_i, k_i and v_i are the i-th parts. forward(Q, K, V, mask, rng) maps Q (B, R, D), K (B, S, D)
    and V (B, S, D) to y (B, R, D). `cache.attend.A` holds the attention weights (B, H, R, S).
    Dropout acts on these weights if `rng` is given. Vaswani et al. 2017, arXiv:1706.03762. Raises
    InputError if H does not divide D, and for shapes that do not fit.
    """

    def __init__(self, d_model, num_heads, *, bias=True, dropout=0.0, rng=0, dtype="float32"):
        require_positive(d_model=d_model, num_heads=num_heads)
        if d_model % num_heads:
            raise InputError(f"num_heads = {num_heads} does not divide d_model = {d_model}, but "
                             "each head takes an equal part of the width; choose a divisor")
        rng = generator(rng)
        self.num_heads = num_heads
        self.W_Q = Linear(d_model, d_model, bias=bias, rng=rng, dtype=dtype)
        self.W_K = Linear(d_model, d_model, bias=bias, rng=rng, dtype=dtype)
        self.W_V = Linear(d_model, d_model, bias=bias, rng=rng, dtype=dtype)
        self.W_O = Linear(d_model, d_model, bias=bias, rng=rng, dtype=dtype)
        self.dropout = Dropout(dropout)

    def forward(self, Q, K, V, mask=None, rng=None):
        check_shapes("attention", Q=(Q, "(B, R, D)"), K=(K, "(B, S, D)"), V=(V, "(B, S, D)"))
        check_attention_mask(mask, (len(Q), self.num_heads, Q.shape[1], K.shape[1]))
        q, c_Q = self.W_Q.forward(Q)                            # q (B, R, D)
        k, c_K = self.W_K.forward(K)                            # k (B, S, D)
        v, c_V = self.W_V.forward(V)
        heads, c_attend = attend(self.split_heads(q), self.split_heads(k), self.split_heads(v),
                                 mask, dropout=self.dropout, rng=rng)
        h = self.join_heads(heads)                              # h (B, R, D)
        y, c_O = self.W_O.forward(h)                            # y (B, R, D)
        return y, Cache(Q=c_Q, K=c_K, V=c_V, attend=c_attend, O=c_O)

    def backward(self, dy, cache):
        dh = self.W_O.backward(dy, cache.O)                     # y = h W_O
        dheads = self.split_heads(dh)                           # dheads (B, H, R, d)
        dq, dk, dv = attend_backward(dheads, cache.attend, self.dropout)
        dQ = self.W_Q.backward(self.join_heads(dq), cache.Q)    # q = Q W_Q, k = K W_K, v = V W_V
        dK = self.W_K.backward(self.join_heads(dk), cache.K)
        dV = self.W_V.backward(self.join_heads(dv), cache.V)
        return dQ, dK, dV

    def split_heads(self, x):
        """Reshape (B, S, H*d) to (B, H, S, d). Its inverse `join_heads` is also its backward."""
        return x.reshape(*x.shape[:2], self.num_heads, -1).swapaxes(1, 2)

    def join_heads(self, x):
        """Reshape (B, H, S, d) to (B, S, H*d)."""
        B, H, S, d = x.shape
        return x.swapaxes(1, 2).reshape(B, S, H * d)
