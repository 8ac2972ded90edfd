"""Rotary positions, and attention whose heads share keys and values in groups.

H heads of queries, G groups of them with a key and a value each, n = H / G heads a group, all of
width d. Su et al. 2021, arXiv:2104.09864; Ainslie et al. 2023, arXiv:2305.13245.
"""

import math

from npdl.backend import to_device, xp
from npdl.core import Cache, Layer
from npdl.errors import (
    InputError,
    check_attention_mask,
    check_gradient,
    check_sequence,
    checked_turns,
    require_number,
    require_positive,
)
from npdl.init import generator
from npdl.layers.attention import attend, attend_backward
from npdl.layers.linear import Linear


class Rotary(Layer):
    """Turns the pair (x_i, x_{i+d/2}) by the angle position / rope_theta^(2i/d): (..., S, d).

    The product of two turned vectors depends on the distance of their positions alone, which are
    0..S-1, or `positions` (S,) integers. Nothing is learned, and the gradient is turned back.
    Raises InputError for an odd d.
    """

    def __init__(self, d, rope_theta=10000.0):
        require_positive(d=d)
        if d % 2:
            raise InputError(f"d = {d}; rotary positions turn pairs, so it must be even")
        require_number("rope_theta", rope_theta, lambda value: 0 < value < math.inf,
                       "a finite number above 0")
        self.d, self.rope_theta = d, rope_theta

    def forward(self, x, positions=None):
        cos, sin = self.turn(checked_turns(x, positions, self.d), x.dtype)  # cos, sin (S, d/2)
        y = turned(x, cos, sin)                                     # y (..., S, d)
        return y, Cache(cos=cos, sin=sin, shape=x.shape)

    def backward(self, dy, cache):
        cos, sin, half = cache.cos, cache.sin, self.d // 2
        check_gradient(dy, cache.shape, "Rotary")
        dy_a, dy_b = dy[..., :half], dy[..., half:]
        da = dy_a * cos + dy_b * sin                                # y_a = a cos - b sin
        db = dy_b * cos - dy_a * sin                                # y_b = a sin + b cos
        dx = xp.concatenate([da, db], -1)
        return dx

    def turn(self, positions, dtype):
        """cos and sin (S, d/2) of the angles by which the pairs at positions (S,) are turned."""
        power = xp.arange(0, self.d, 2) / self.d                    # power (p,)
        angle = to_device(positions)[:, None] / self.rope_theta**power      # angle (S, p)
        return xp.cos(angle).astype(dtype), xp.sin(angle).astype(dtype)


def turned(x, cos, sin):
    """x (..., S, d) with each pair turned by its angle, whose cos and sin are (S, d/2)."""
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]                             # a (..., S, p)
    return xp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)


class GroupedQueryAttention(Layer):
    """y = [head_1 .. head_H] W_O,   head_i = attend(turned q_i, turned k_g, v_g), g its group.

    q = x W_Q has H heads; k = x W_K and v = x W_V have G: (B, S, D) -> (B, S, D). `num_kv_heads`
    G divides `num_heads` H; d is D / H unless given as `d_head`. `mask` broadcasts to the weights
    (B, G, n, S, S), which are in the cache: `cache.attend.A`. `qkv_bias` gives the first three
    maps biases. Raises InputError for sizes and shapes that do not fit.
    """

    def __init__(self, d_model, num_heads, num_kv_heads, rope_theta=10000.0, *, qkv_bias=False,
                 d_head=None, rng=0, dtype="float32"):
        require_positive(d_model=d_model, num_heads=num_heads, num_kv_heads=num_kv_heads)
        if d_head is None and d_model % (2 * num_heads):
            raise InputError(f"num_heads = {num_heads} does not divide d_model = {d_model} into "
                             "heads of an even width; give their width as d_head")
        if num_heads % num_kv_heads:
            raise InputError(f"num_kv_heads = {num_kv_heads} does not divide num_heads = "
                             f"{num_heads}; each group has equally many heads")
        rng = generator(rng)
        d = d_model // num_heads if d_head is None else d_head
        self.num_kv_heads = num_kv_heads
        self.rotary = Rotary(d, rope_theta=rope_theta)
        self.W_Q = Linear(d_model, num_heads * d, bias=qkv_bias, rng=rng, dtype=dtype)
        self.W_K = Linear(d_model, num_kv_heads * d, bias=qkv_bias, rng=rng, dtype=dtype)
        self.W_V = Linear(d_model, num_kv_heads * d, bias=qkv_bias, rng=rng, dtype=dtype)
        self.W_O = Linear(num_heads * d, d_model, bias=False, rng=rng, dtype=dtype)

    def forward(self, x, mask=None):
        check_sequence(x, self.W_Q.sizes[0], "attention")
        q, c_Q = self.W_Q.forward(x)                                # q (B, S, H*d)
        k, c_K = self.W_K.forward(x)                                # k (B, S, G*d)
        v, c_V = self.W_V.forward(x)
        q, c_q = self.rotary.forward(self.split(q))
        k, c_k = self.rotary.forward(self.split(k))
        check_attention_mask(mask, (*q.shape[:4], x.shape[1]))
        heads, c_attend = attend(q, k, self.split(v), mask)         # k, v (B, G, 1, S, d) for all n
        h = self.join(heads)                                        # h (B, S, H*d)
        y, c_O = self.W_O.forward(h)                                # y (B, S, D)
        return y, Cache(Q=c_Q, K=c_K, V=c_V, q=c_q, k=c_k, attend=c_attend, O=c_O)

    def backward(self, dy, cache):
        dh = self.W_O.backward(dy, cache.O)                         # y = h W_O
        dheads = self.split(dh)                                     # dheads (B, G, n, S, d)
        dq, dk_each, dv_each = attend_backward(dheads, cache.attend)
        dk = dk_each.sum(2, keepdims=True)                          # a group's n heads read one k
        dv = dv_each.sum(2, keepdims=True)
        dq = self.rotary.backward(dq, cache.q)
        dk = self.rotary.backward(dk, cache.k)
        dx_q = self.W_Q.backward(self.join(dq), cache.Q)            # q = x W_Q, k = x W_K,
        dx_k = self.W_K.backward(self.join(dk), cache.K)            # v = x W_V
        dx_v = self.W_V.backward(self.join(dv), cache.V)
        dx = dx_q + dx_k + dx_v
        return dx

    def split(self, x):
        """(B, S, G*n*d) -> (B, G, n, S, d). `join` is its inverse and its backward."""
        B, S, _ = x.shape
        return x.reshape(B, S, self.num_kv_heads, -1, self.rotary.d).transpose(0, 2, 3, 1, 4)

    def join(self, x):
        """(B, G, n, S, d) -> (B, S, G*n*d)."""
        B, G, n, S, d = x.shape
        return x.transpose(0, 3, 1, 2, 4).reshape(B, S, G * n * d)
