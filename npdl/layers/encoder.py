"""The encoder and the decoder with cross-attention of Vaswani et al. 2017, arXiv:1706.03762.

An encoder's block is npdl.layers.transformer.Block without a causal mask. A decoder's block has a
third part between the other two: attention whose queries come from the target and whose keys and
values come from the encoder's output, the *memory*.
"""

from npdl.backend import xp
from npdl.core import Cache, Layer, gradients_of
from npdl.errors import InputError
from npdl.init import generator, require_positive
from npdl.layers.attention import MultiHeadAttention
from npdl.layers.doors import described
from npdl.layers.dropout import Dropout
from npdl.layers.norm import LayerNorm
from npdl.layers.transformer import Block, FeedForward


def padding_mask(key_mask):
    """(B, S), True for real tokens -> (B, 1, 1, S): no query may look at padding."""
    if key_mask is None:
        return None
    mask = xp.asarray(key_mask)
    if mask.ndim != 2 or mask.dtype.kind != "b":
        raise InputError(f"padding: the mask is {described(mask)}; it must be bool (B, S), True "
                         "for real tokens")
    return mask[:, None, None, :]


class Encoder(Layer):
    """`num_layers` Blocks in a row; after pre-norm blocks, a last LayerNorm.

    forward(x, key_mask, rng): x (B, S, D) -> y (B, S, D) and the list of every block's attention
    weights (B, H, S, S). `key_mask` (B, S) is True for real tokens.
    """

    def __init__(self, num_layers, d_model, num_heads, multiplier=4, bias=True, norm="post",
                 activation="gelu", dropout=0.0, ffn_bias=False, rng=0, dtype="float32"):
        require_positive(num_layers=num_layers)
        rng = generator(rng)
        self.blocks = [
            Block(d_model, num_heads, multiplier, bias, norm, activation, dropout, ffn_bias, rng,
                  dtype)
            for _ in range(num_layers)
        ]
        self.norm = LayerNorm(d_model, dtype=dtype) if norm == "pre" else None

    def forward(self, x, key_mask=None, rng=None):
        mask = padding_mask(key_mask)
        caches, weights = [], []
        for block in self.blocks:
            (x, A), cache = block.forward(x, mask, rng=rng)
            caches.append(cache)
            weights.append(A)
        c_norm = None
        if self.norm is not None:
            x, c_norm = self.norm.forward(x)
        return (x, weights), Cache(blocks=caches, norm=c_norm)

    def backward(self, dout, cache):
        dx, dweights = gradients_of(dout, 2)
        if self.norm is not None and dx is not None:
            dx = self.norm.backward(dx, cache.norm)
        for i in reversed(range(len(self.blocks))):
            dA = None if dweights is None else dweights[i]
            dx = self.blocks[i].backward((dx, dA), cache.blocks[i])
        return dx


class DecoderBlock(Layer):
    """Self-attention, cross-attention and a feed-forward net, each with a residual and LayerNorm.

    norm "post": u = norm1(x + self(x)), w = norm2(u + cross(u, memory)), y = norm3(w + ffn(w));
    norm "pre" puts each norm on its branch's input instead (not on the memory).

    forward(x, memory, mask, memory_mask, rng, past, memory_past): x (B, T, D), memory (B, S, D)
    -> y (B, T, D), the weights of self-attention (B, H, T, T) and of cross-attention
    (B, H, T, S). The masks broadcast against the weights, True where a query may look. The pasts
    are keys and values as in MultiHeadAttention.
    """

    def __init__(self, d_model, num_heads, multiplier=4, bias=True, norm="post",
                 activation="gelu", dropout=0.0, ffn_bias=False, rng=0, dtype="float32"):
        if norm not in ("post", "pre"):
            raise InputError(f"norm = {norm!r}; choose 'post' or 'pre'")
        rng = generator(rng)
        self.pre_norm = norm == "pre"
        self.attention = MultiHeadAttention(d_model, num_heads, bias, rng, dtype)
        self.norm1 = LayerNorm(d_model, dtype=dtype)
        self.cross = MultiHeadAttention(d_model, num_heads, bias, rng, dtype)
        self.norm2 = LayerNorm(d_model, dtype=dtype)
        self.ffn = FeedForward(d_model, multiplier, activation, ffn_bias, rng, dtype)
        self.norm3 = LayerNorm(d_model, dtype=dtype)
        self.dropout = Dropout(dropout)

    def forward(self, x, memory, mask=None, memory_mask=None, rng=None, past=None,
                memory_past=None):
        n, c_in1 = self._enter(self.norm1, x)
        (a, A), c_attention = self.attention.forward(n, n, n, mask, past=past)
        u, c_out1 = self._leave(self.norm1, x, a, rng)
        n, c_in2 = self._enter(self.norm2, u)
        (c, A_cross), c_cross = self.cross.forward(n, memory, memory, memory_mask,
                                                   past=memory_past)
        w, c_out2 = self._leave(self.norm2, u, c, rng)
        n, c_in3 = self._enter(self.norm3, w)
        f, c_ffn = self.ffn.forward(n)
        y, c_out3 = self._leave(self.norm3, w, f, rng)
        return (y, A, A_cross), Cache(in1=c_in1, attention=c_attention, out1=c_out1, in2=c_in2,
                                      cross=c_cross, out2=c_out2, in3=c_in3, ffn=c_ffn,
                                      out3=c_out3, y=y)

    def backward(self, dout, cache):
        dy, dA, dA_cross = gradients_of(dout, 3)
        dy = xp.zeros_like(cache.y) if dy is None else dy
        dw, df = self._leave_backward(self.norm3, dy, cache.out3)       # y = w + ffn(w)
        dn = self.ffn.backward(df, cache.ffn)
        dw = dw + self._enter_backward(self.norm3, dn, cache.in3)
        du, dc = self._leave_backward(self.norm2, dw, cache.out2)       # w = u + cross(u, memory)
        dn, dK, dV = self.cross.backward((dc, dA_cross), cache.cross)
        dmemory = dK + dV
        du = du + self._enter_backward(self.norm2, dn, cache.in2)
        dx, da = self._leave_backward(self.norm1, du, cache.out1)       # u = x + self(x)
        dQ, dK, dV = self.attention.backward((da, dA), cache.attention)
        dn = dQ + dK + dV
        dx = dx + self._enter_backward(self.norm1, dn, cache.in1)
        return dx, dmemory

    def _enter(self, norm, x):
        """What the branch reads: x, or norm(x)."""
        return norm.forward(x) if self.pre_norm else (x, None)

    def _enter_backward(self, norm, dn, cache):
        return norm.backward(dn, cache) if self.pre_norm else dn

    def _leave(self, norm, x, branch, rng):
        """The residual: x + branch, or norm(x + branch)."""
        branch, c_drop = self.dropout.forward(branch, rng)
        y, c_norm = x + branch, None
        if not self.pre_norm:
            y, c_norm = norm.forward(y)
        return y, Cache(drop=c_drop, norm=c_norm)

    def _leave_backward(self, norm, dy, cache):
        dx = dy if self.pre_norm else norm.backward(dy, cache.norm)
        dbranch = self.dropout.backward(dx, cache.drop)
        return dx, dbranch


class CrossDecoder(Layer):
    """`num_layers` DecoderBlocks in a row, all reading one memory; a last LayerNorm if pre-norm.

    forward(x, memory, mask, memory_mask, rng, pasts): x (B, T, D), memory (B, S, D) -> y (B, T, D)
    and two lists, every block's self-attention (B, H, T, T) and cross-attention (B, H, T, S).
    `pasts` holds a pair (past, memory_past) for each block.
    """

    def __init__(self, num_layers, d_model, num_heads, multiplier=4, bias=True, norm="post",
                 activation="gelu", dropout=0.0, ffn_bias=False, rng=0, dtype="float32"):
        require_positive(num_layers=num_layers)
        rng = generator(rng)
        self.blocks = [
            DecoderBlock(d_model, num_heads, multiplier, bias, norm, activation, dropout,
                         ffn_bias, rng, dtype)
            for _ in range(num_layers)
        ]
        self.norm = LayerNorm(d_model, dtype=dtype) if norm == "pre" else None

    def forward(self, x, memory, mask=None, memory_mask=None, rng=None, pasts=None):
        caches, weights, crosses = [], [], []
        pasts = pasts or [(None, None)] * len(self.blocks)
        for block, (past, memory_past) in zip(self.blocks, pasts, strict=True):
            (x, A, A_cross), cache = block.forward(x, memory, mask, memory_mask, rng, past,
                                                   memory_past)
            caches.append(cache)
            weights.append(A)
            crosses.append(A_cross)
        c_norm = None
        if self.norm is not None:
            x, c_norm = self.norm.forward(x)
        return (x, weights, crosses), Cache(blocks=caches, norm=c_norm)

    def backward(self, dout, cache):
        dx, dweights, dcrosses = gradients_of(dout, 3)
        dmemory = None
        if self.norm is not None and dx is not None:
            dx = self.norm.backward(dx, cache.norm)
        for i in reversed(range(len(self.blocks))):
            dA = None if dweights is None else dweights[i]
            dA_cross = None if dcrosses is None else dcrosses[i]
            dx, d = self.blocks[i].backward((dx, dA, dA_cross), cache.blocks[i])
            dmemory = d if dmemory is None else dmemory + d
        return dx, dmemory
