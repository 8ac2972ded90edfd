"""Llama's feed-forward network and block (Touvron et al. 2023, arXiv:2302.13971)."""

from npdl.core import Cache, Layer
from npdl.functions import sigmoid
from npdl.init import generator
from npdl.layers.grouped import GroupedQueryAttention
from npdl.layers.layer_norm import RMSNorm
from npdl.layers.linear import Linear


class SwiGLU(Layer):
    """y = (silu(x W_gate) * x W_up) W_down,   silu(g) = g sigmoid(g).

    Shapes: (..., D) -> (..., D). W_gate and W_up are (D, M), W_down is (M, D), with the inner width
    M = `d_inner`. There are no biases. Shazeer 2020, arXiv:2002.05202.
    """

    def __init__(self, d_model, d_inner, *, rng=0, dtype="float32"):
        rng = generator(rng)
        self.gate = Linear(d_model, d_inner, bias=False, rng=rng, dtype=dtype)
        self.up = Linear(d_model, d_inner, bias=False, rng=rng, dtype=dtype)
        self.down = Linear(d_inner, d_model, bias=False, rng=rng, dtype=dtype)

    def forward(self, x):
        g, c_gate = self.gate.forward(x)                    # g (..., M)
        u, c_up = self.up.forward(x)                        # u (..., M)
        s = sigmoid(g)                                      # s (..., M)
        silu = g * s
        a = silu * u                                        # a (..., M)
        y, c_down = self.down.forward(a)                    # y (..., D)
        return y, Cache(gate=c_gate, up=c_up, u=u, s=s, silu=silu, down=c_down)

    def backward(self, dy, cache):
        u, s, silu = cache.u, cache.s, cache.silu
        da = self.down.backward(dy, cache.down)             # y = a W_down
        du = da * silu                                      # a = silu * u
        dsilu = da * u
        slope = s + silu * (1 - s)                          # silu = g s(g),  ds/dg = s (1 - s)
        dg = dsilu * slope
        dx_up = self.up.backward(du, cache.up)
        dx_gate = self.gate.backward(dg, cache.gate)
        dx = dx_up + dx_gate
        return dx


class LlamaBlock(Layer):
    """u = x + attention(norm1(x)),   y = u + ffn(norm2(u)).

    Shapes: (B, S, D) -> (B, S, D). The norms are RMSNorms, the attention is grouped-query attention
    with rotary positions, and ffn is a SwiGLU. forward(x, mask): `mask` broadcasts to the attention
    weights (B, G, n, S, S), with G = `num_kv_heads` groups of n heads. `cache.attention.attend.A`
    holds these weights. The arguments are those of GroupedQueryAttention and SwiGLU.
    """

    def __init__(self, d_model, num_heads, num_kv_heads, d_inner, rope_theta=10000.0, *,
                 scaling=None, eps=1e-5, qkv_bias=False, qk_norm=False, d_head=None, rng=0,
                 dtype="float32"):
        rng = generator(rng)
        self.norm1 = RMSNorm(d_model, eps=eps, dtype=dtype)
        self.attention = GroupedQueryAttention(
            d_model, num_heads, num_kv_heads, rope_theta=rope_theta, scaling=scaling,
            qkv_bias=qkv_bias, qk_norm=qk_norm, eps=eps, d_head=d_head, rng=rng, dtype=dtype)
        self.norm2 = RMSNorm(d_model, eps=eps, dtype=dtype)
        self.ffn = SwiGLU(d_model, d_inner, rng=rng, dtype=dtype)

    def forward(self, x, mask=None):
        n, c_norm1 = self.norm1.forward(x)
        a, c_attention = self.attention.forward(n, mask)
        u = x + a
        m, c_norm2 = self.norm2.forward(u)
        f, c_ffn = self.ffn.forward(m)
        y = u + f                                           # y (B, S, D)
        return y, Cache(norm1=c_norm1, attention=c_attention, norm2=c_norm2, ffn=c_ffn, y=y)

    def backward(self, dy, cache):
        dm = self.ffn.backward(dy, cache.ffn)               # y = u + f,  f = ffn(m)
        du = dy + self.norm2.backward(dm, cache.norm2)      # m = norm2(u)
        dn = self.attention.backward(du, cache.attention)   # u = x + a,  a = attention(n)
        dx = du + self.norm1.backward(dn, cache.norm1)      # n = norm1(x)
        return dx
