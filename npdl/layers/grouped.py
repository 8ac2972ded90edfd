"""Grouped-query attention: several heads of queries share one head of keys and values.

The H heads of queries form G groups. Each group has n = H / G heads, and every head has width d.
Ainslie et al. 2023, arXiv:2305.13245.
"""

from npdl.core import Cache, Layer
from npdl.errors import InputError, check_attention_mask, check_shape
from npdl.init import generator
from npdl.layers.attention import attend, attend_backward
from npdl.layers.layer_norm import RMSNorm
from npdl.layers.linear import Linear
from npdl.layers.rotary import Rotary
from npdl.layers.transformer import Identity
from npdl.options import require_above_0, require_bool, require_positive


class GroupedQueryAttention(Layer):
    """y = [head_1 .. head_H] W_O,   head_i = attend(rotary(q_i), rotary(k_g), v_g), i in group g.

    Shapes: (B, S, D) -> (B, S, D). q = x W_Q consists of H = `num_heads` heads of width d. k = x
    W_K and v = x W_V consist of G = `num_kv_heads` heads; each serves a group of n = H / G query
    heads. d is `d_head`, or D / H if `d_head` is None. `mask` broadcasts to the attention weights
    (B, G, n, S, S), and `cache.attend.A` holds these weights. `qkv_bias` adds biases to q, k and v.
    With `qk_norm`, every head of q and k passes through an RMSNorm(d, eps=eps) before its rotation,
    as in Qwen3. `rope_theta` and `scaling` are arguments of Rotary. Raises InputError if G does not
    divide H, and for other sizes or shapes that do not fit.
    """

    def __init__(self, d_model, num_heads, num_kv_heads, rope_theta=10000.0, *, scaling=None,
                 qkv_bias=False, qk_norm=False, eps=1e-5, d_head=None, rng=0, dtype="float32"):
        require_positive(d_model=d_model, num_heads=num_heads, num_kv_heads=num_kv_heads)
        if d_head is None and d_model % (2 * num_heads):
            raise InputError(f"num_heads = {num_heads} does not divide d_model = {d_model} into "
                             "heads of an even width; give their width as d_head")
        if num_heads % num_kv_heads:
            raise InputError(f"num_kv_heads = {num_kv_heads} does not divide num_heads = "
                             f"{num_heads}, but each group has equally many heads; choose a "
                             "divisor")
        require_bool(qk_norm=qk_norm)
        require_above_0(eps=eps)
        rng = generator(rng)
        d = d_model // num_heads if d_head is None else d_head
        self.num_kv_heads = num_kv_heads
        self.rotary = Rotary(d, rope_theta=rope_theta, scaling=scaling)
        self.norm_q = RMSNorm(d, eps=eps, dtype=dtype) if qk_norm else Identity()
        self.norm_k = RMSNorm(d, eps=eps, dtype=dtype) if qk_norm else Identity()
        self.W_Q = Linear(d_model, num_heads * d, bias=qkv_bias, rng=rng, dtype=dtype)
        self.W_K = Linear(d_model, num_kv_heads * d, bias=qkv_bias, rng=rng, dtype=dtype)
        self.W_V = Linear(d_model, num_kv_heads * d, bias=qkv_bias, rng=rng, dtype=dtype)
        self.W_O = Linear(num_heads * d, d_model, bias=False, rng=rng, dtype=dtype)

    def forward(self, x, mask=None):
        check_shape("attention", x, f"(B, S, {self.W_Q.sizes[0]})")
        q, c_Q = self.W_Q.forward(x)                                # q (B, S, H*d)
        k, c_K = self.W_K.forward(x)                                # k (B, S, G*d)
        v, c_V = self.W_V.forward(x)
        q, c_norm_q = self.norm_q.forward(self.split_heads(q))      # q (B, G, n, S, d)
        k, c_norm_k = self.norm_k.forward(self.split_heads(k))      # k (B, G, 1, S, d)
        q, c_q = self.rotary.forward(q)
        k, c_k = self.rotary.forward(k)
        check_attention_mask(mask, (*q.shape[:4], x.shape[1]))
        heads, c_attend = attend(q, k, self.split_heads(v), mask)   # k, v (B, G, 1, S, d) for all n
        h = self.join_heads(heads)                                  # h (B, S, H*d)
        y, c_O = self.W_O.forward(h)                                # y (B, S, D)
        return y, Cache(Q=c_Q, K=c_K, V=c_V, norm_q=c_norm_q, norm_k=c_norm_k, q=c_q, k=c_k,
                        attend=c_attend, O=c_O)

    def backward(self, dy, cache):
        dh = self.W_O.backward(dy, cache.O)                         # y = h W_O
        dheads = self.split_heads(dh)                               # dheads (B, G, n, S, d)
        dq, dk_each, dv_each = attend_backward(dheads, cache.attend)
        dk = dk_each.sum(2, keepdims=True)                          # the n heads of a group share k
        dv = dv_each.sum(2, keepdims=True)
        dq = self.rotary.backward(dq, cache.q)
        dk = self.rotary.backward(dk, cache.k)
        dq = self.norm_q.backward(dq, cache.norm_q)
        dk = self.norm_k.backward(dk, cache.norm_k)
        dx_q = self.W_Q.backward(self.join_heads(dq), cache.Q)      # q = x W_Q, k = x W_K,
        dx_k = self.W_K.backward(self.join_heads(dk), cache.K)      # v = x W_V
        dx_v = self.W_V.backward(self.join_heads(dv), cache.V)
        dx = dx_q + dx_k + dx_v
        return dx

    def split_heads(self, x):
        """Reshape (B, S, G*n*d) to (B, G, n, S, d). Its backward is its inverse, `join_heads`."""
        B, S, _ = x.shape
        return x.reshape(B, S, self.num_kv_heads, -1, self.rotary.d).transpose(0, 2, 3, 1, 4)

    def join_heads(self, x):
        """Reshape (B, G, n, S, d) to (B, S, G*n*d)."""
        B, G, n, S, d = x.shape
        return x.transpose(0, 3, 1, 2, 4).reshape(B, S, G * n * d)
