"""Attention with one head: three ways to score a query against a key.

Every layer here maps queries q (..., R, d), keys k (..., S, d) and values v (..., S, e) to
y (..., R, e) and the weights A (..., R, S) = softmax of the scores over the keys. `mask`
broadcasts against A, True where a query may look; a query that sees nothing gets zeros.
Document 002, Problem 5 names the three scores.
"""

from npdl.backend import xp
from npdl.core import Cache, Layer, Param, gradients_of
from npdl.errors import InputError
from npdl.init import generator, uniform_fan_in
from npdl.layers.activation import softmax, softmax_backward
from npdl.layers.attention import attend, attend_backward
from npdl.layers.doors import check_mask, check_real
from npdl.layers.linear import Linear


class DotAttention(Layer):
    """score(q, k) = q . k; q and k have the same width."""

    def forward(self, q, k, v, mask=None):
        check_attention(q, k, v, mask)
        return attend(q, k, v, mask, scaled=False)

    def backward(self, dout, cache):
        return attend_backward(_both(dout, cache), cache)


class ScaledDotAttention(Layer):
    """score(q, k) = q . k / sqrt(d): for independent entries its variance does not grow with d.

    Vaswani et al. 2017, arXiv:1706.03762.
    """

    def forward(self, q, k, v, mask=None):
        check_attention(q, k, v, mask)
        return attend(q, k, v, mask)

    def backward(self, dout, cache):
        return attend_backward(_both(dout, cache), cache)


class AdditiveAttention(Layer):
    """score(q, k) = a . tanh(q W_q + k W_k); q and k may differ in width.

    W_q (d_query, h), W_k (d_key, h), a (h,), no biases. Bahdanau et al. 2015, arXiv:1409.0473.
    """

    def __init__(self, d_query, d_key, d_hidden, rng=0, dtype="float32"):
        rng = generator(rng)
        self.W_q = Linear(d_query, d_hidden, False, rng, dtype)
        self.W_k = Linear(d_key, d_hidden, False, rng, dtype)
        self.a = Param(uniform_fan_in(rng, d_hidden, (d_hidden,), dtype))

    def forward(self, q, k, v, mask=None):
        check_attention(q, k, v, mask, same_width=False)
        u, c_q = self.W_q.forward(q)                            # u       (..., R, h)
        w, c_k = self.W_k.forward(k)                            # w       (..., S, h)
        t = xp.tanh(u[..., :, None, :] + w[..., None, :, :])    # t       (..., R, S, h)
        scores = t @ self.a.data                                # scores  (..., R, S)
        A = softmax(scores, mask)
        y = A @ v
        return (y, A), Cache(q=c_q, k=c_k, v=v, t=t, A=A)

    def backward(self, dout, cache):
        dy, dA_read = _both(dout, cache)
        t, h = cache.t, self.a.shape[0]
        dv = cache.A.swapaxes(-1, -2) @ dy                      # y = A v
        dA = dy @ cache.v.swapaxes(-1, -2)
        dA = dA if dA_read is None else dA + dA_read
        dscores = softmax_backward(dA, cache.A)                 # A = softmax(scores)
        self.a.grad += t.reshape(-1, h).T @ dscores.reshape(-1)  # scores = t a
        dt = dscores[..., None] * self.a.data
        dz = dt * (1 - t * t)                                   # t = tanh(z)
        du = dz.sum(-2)                                         # z = u + w, each over the other
        dw = dz.sum(-3)
        dq = self.W_q.backward(du, cache.q)
        dk = self.W_k.backward(dw, cache.k)
        return dq, dk, dv


def check_attention(q, k, v, mask=None, same_width=True):
    """Raise InputError unless q (..., R, d), k (..., S, d), v (..., S, e) and mask fit together."""
    check_real("attention", q=q, k=k, v=v)
    lead = q.shape[:-2]
    fits = min(q.ndim, k.ndim, v.ndim) >= 2 and (
        k.shape[:-2] == v.shape[:-2] == lead and k.shape[-2] == v.shape[-2] > 0)
    if not fits or (same_width and q.shape[-1] != k.shape[-1]):
        widths = "(..., R, d), (..., S, d)" if same_width else "(..., R, d), (..., S, d')"
        raise InputError(f"attention: q {q.shape}, k {k.shape} and v {v.shape} do not fit; they "
                         f"must be {widths} and (..., S, e), S not 0")
    check_mask("attention", mask, (*lead, q.shape[-2], k.shape[-2]))


def _both(dout, cache):
    """(dy, dA), with zeros for a dy that no one asked for."""
    dy, dA = gradients_of(dout, 2)
    if dy is None:
        dy = xp.zeros((*cache.A.shape[:-1], cache.v.shape[-1]), cache.A.dtype)
    return dy, dA
