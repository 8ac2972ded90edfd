"""The decoder with cross-attention (Vaswani et al. 2017, arXiv:1706.03762).

A block of this decoder has three sublayers: self-attention, cross-attention and a feed-forward
network. In cross-attention, the queries come from the target, and the keys and values from the
encoder's output, the *memory*.
"""

from npdl.core import Cache, Layer
from npdl.init import generator
from npdl.layers.attention import MultiHeadAttention
from npdl.layers.dropout import Dropout
from npdl.layers.layer_norm import LayerNorm
from npdl.layers.transformer import Decoder, FeedForward


class DecoderBlock(Layer):
    """u = norm1(x + attention(x)),  w = norm2(u + cross(u, memory)),  y = norm3(w + ffn(w)).

    forward(x, memory, mask, memory_mask, rng) maps x (B, T, D) and memory (B, S, D) to y (B, T, D).
    The masks are True where attention is allowed. `mask` broadcasts to the weights (B, H, T, T) of
    the self-attention, and `memory_mask` to those (B, H, T, S) of the cross-attention. The
    arguments are those of npdl.layers.transformer.Block, without attention_dropout.
    """

    def __init__(self, d_model, num_heads, multiplier=4, *, bias=True, activation="gelu",
                 dropout=0.0, ffn_bias=False, rng=0, dtype="float32", norm_bias=True, eps=1e-5):
        rng = generator(rng)
        self.attention = MultiHeadAttention(d_model, num_heads, bias=bias, rng=rng, dtype=dtype)
        self.norm1 = LayerNorm(d_model, eps=eps, dtype=dtype, bias=norm_bias)
        self.cross = MultiHeadAttention(d_model, num_heads, bias=bias, rng=rng, dtype=dtype)
        self.norm2 = LayerNorm(d_model, eps=eps, dtype=dtype, bias=norm_bias)
        self.ffn = FeedForward(d_model, multiplier, activation=activation, bias=ffn_bias, rng=rng,
                               dtype=dtype)
        self.norm3 = LayerNorm(d_model, eps=eps, dtype=dtype, bias=norm_bias)
        self.dropout = Dropout(dropout)

    def forward(self, x, memory, mask=None, memory_mask=None, rng=None):
        a, c_attention = self.attention.forward(x, x, x, mask)
        a, c_drop1 = self.dropout.forward(a, rng)
        u, c_norm1 = self.norm1.forward(x + a)
        c, c_cross = self.cross.forward(u, memory, memory, memory_mask)
        c, c_drop2 = self.dropout.forward(c, rng)
        w, c_norm2 = self.norm2.forward(u + c)
        f, c_ffn = self.ffn.forward(w)
        f, c_drop3 = self.dropout.forward(f, rng)
        y, c_norm3 = self.norm3.forward(w + f)
        return y, Cache(attention=c_attention, drop1=c_drop1, norm1=c_norm1, cross=c_cross,
                        drop2=c_drop2, norm2=c_norm2, ffn=c_ffn, drop3=c_drop3, norm3=c_norm3)

    def backward(self, dy, cache):
        dw = self.norm3.backward(dy, cache.norm3)           # y = norm3(w + f)
        df = self.dropout.backward(dw, cache.drop3)
        dw = dw + self.ffn.backward(df, cache.ffn)          # f = ffn(w)
        du = self.norm2.backward(dw, cache.norm2)           # w = norm2(u + c)
        dc = self.dropout.backward(du, cache.drop2)
        dQ, dK, dV = self.cross.backward(dc, cache.cross)   # c = cross(u, memory, memory)
        du = du + dQ
        dmemory = dK + dV
        dx = self.norm1.backward(du, cache.norm1)           # u = norm1(x + a)
        da = self.dropout.backward(dx, cache.drop1)
        dQ, dK, dV = self.attention.backward(da, cache.attention)   # a = attention(x, x, x)
        dx = dx + dQ + dK + dV
        return dx, dmemory


class PreNormDecoderBlock(DecoderBlock):
    """u = x + attention(norm1(x)),  w = u + cross(norm2(u), memory),  y = w + ffn(norm3(w))."""

    def forward(self, x, memory, mask=None, memory_mask=None, rng=None):
        n, c_norm1 = self.norm1.forward(x)
        a, c_attention = self.attention.forward(n, n, n, mask)
        a, c_drop1 = self.dropout.forward(a, rng)
        u = x + a
        m, c_norm2 = self.norm2.forward(u)
        c, c_cross = self.cross.forward(m, memory, memory, memory_mask)
        c, c_drop2 = self.dropout.forward(c, rng)
        w = u + c
        p, c_norm3 = self.norm3.forward(w)
        f, c_ffn = self.ffn.forward(p)
        f, c_drop3 = self.dropout.forward(f, rng)
        y = w + f
        return y, Cache(attention=c_attention, drop1=c_drop1, norm1=c_norm1, cross=c_cross,
                        drop2=c_drop2, norm2=c_norm2, ffn=c_ffn, drop3=c_drop3, norm3=c_norm3)

    def backward(self, dy, cache):
        df = self.dropout.backward(dy, cache.drop3)         # y = w + f
        dp = self.ffn.backward(df, cache.ffn)               # f = ffn(p)
        dw = dy + self.norm3.backward(dp, cache.norm3)      # p = norm3(w)
        dc = self.dropout.backward(dw, cache.drop2)         # w = u + c
        dQ, dK, dV = self.cross.backward(dc, cache.cross)   # c = cross(m, memory, memory)
        du = dw + self.norm2.backward(dQ, cache.norm2)      # m = norm2(u)
        dmemory = dK + dV
        da = self.dropout.backward(du, cache.drop1)         # u = x + a
        dQ, dK, dV = self.attention.backward(da, cache.attention)   # a = attention(n, n, n)
        dn = dQ + dK + dV
        dx = du + self.norm1.backward(dn, cache.norm1)      # n = norm1(x)
        return dx, dmemory


CROSS_BLOCKS = {"post": DecoderBlock, "pre": PreNormDecoderBlock}


class CrossDecoder(Decoder):
    """y = norm(block_L(.. block_1(x, memory) .., memory)), with DecoderBlocks.

    forward(x, memory, mask, memory_mask, rng) maps x (B, T, D) and memory (B, S, D) to y (B, T, D).
    The final norm is optional, as in Decoder.
    """

    def forward(self, x, memory, mask=None, memory_mask=None, rng=None):
        caches = []
        for block in self.blocks:
            x, cache = block.forward(x, memory, mask, memory_mask, rng)
            caches.append(cache)
        y, c_norm = self.norm.forward(x)
        return y, Cache(blocks=caches, norm=c_norm)

    def backward(self, dy, cache):
        dx, dmemory = self.norm.backward(dy, cache.norm), 0
        for block, c_block in zip(self.blocks[::-1], cache.blocks[::-1], strict=True):
            dx, d = block.backward(dx, c_block)
            dmemory = dmemory + d                           # every block reads the memory
        return dx, dmemory
