"""Transformer blocks with post-norm and pre-norm, their feed-forward network, and stacks of blocks.

Vaswani et al. 2017, arXiv:1706.03762; pre-norm: Xiong et al. 2020, arXiv:2002.04745. These layers
are causal only if the mask is causal.
"""

from npdl.backend import as_array, xp
from npdl.core import Cache, Layer, require_layers
from npdl.errors import InputError, check_floats, check_gradient, describe, is_array
from npdl.init import generator
from npdl.layers.activation import ACTIVATIONS
from npdl.layers.attention import MultiHeadAttention
from npdl.layers.dropout import Dropout
from npdl.layers.layer_norm import LayerNorm
from npdl.layers.linear import Linear
from npdl.options import require_choice, require_positive


class FeedForward(Layer):
    """y = f(x W_up) W_down, for each position separately.

    Shapes: (..., D) -> (..., D), W_up (D, m D), W_down (m D, D), with m = `multiplier`.
    `activation` is the name of f: "gelu", "gelu-tanh", "relu", "tanh" or "sigmoid". If `bias` is
    True, biases are added to x W_up and to f(x W_up) W_down.
    """

    def __init__(self, d_model, multiplier=4, *, activation="gelu", bias=False, rng=0,
                 dtype="float32"):
        require_positive(d_model=d_model, multiplier=multiplier)
        require_choice("activation", activation, ACTIVATIONS)
        rng = generator(rng)
        self.up = Linear(d_model, multiplier * d_model, bias=bias, rng=rng, dtype=dtype)
        self.activation = ACTIVATIONS[activation]()
        self.down = Linear(multiplier * d_model, d_model, bias=bias, rng=rng, dtype=dtype)

    def forward(self, x):
        z, c_up = self.up.forward(x)                        # z (..., m D)
        h, c_activation = self.activation.forward(z)
        y, c_down = self.down.forward(h)                    # y (..., D)
        return y, Cache(up=c_up, activation=c_activation, down=c_down)

    def backward(self, dy, cache):
        dh = self.down.backward(dy, cache.down)             # y = h W_down
        dz = self.activation.backward(dh, cache.activation)     # h = f(z)
        dx = self.up.backward(dz, cache.up)                 # z = x W_up
        return dx


class Block(Layer):
    """u = norm1(x + attention(x)),   y = norm2(u + ffn(u)).

    forward(x, mask, rng) maps x (B, S, D) to y (B, S, D). `mask` broadcasts to the attention
    weights (B, H, S, S), and `cache.attention.attend.A` holds these weights. If `rng` is given,
    `dropout` acts on the outputs of the attention and of the feed-forward network (ffn), and
    `attention_dropout` on the attention weights. `bias`, `ffn_bias` and `norm_bias` add biases to
    the projections of the attention, to the feed-forward network and to the LayerNorms. `eps` is an
    argument of the LayerNorms.
    """

    def __init__(self, d_model, num_heads, multiplier=4, *, bias=True, activation="gelu",
                 dropout=0.0, attention_dropout=0.0, ffn_bias=False, rng=0, dtype="float32",
                 norm_bias=True, eps=1e-5):
        rng = generator(rng)
        self.attention = MultiHeadAttention(d_model, num_heads, bias=bias,
                                            dropout=attention_dropout, rng=rng, dtype=dtype)
        self.norm1 = LayerNorm(d_model, eps=eps, dtype=dtype, bias=norm_bias)
        self.ffn = FeedForward(d_model, multiplier, activation=activation, bias=ffn_bias, rng=rng,
                               dtype=dtype)
        self.norm2 = LayerNorm(d_model, eps=eps, dtype=dtype, bias=norm_bias)
        self.dropout = Dropout(dropout)

    def forward(self, x, mask=None, rng=None):
        a, c_attention = self.attention.forward(x, x, x, mask, rng)
        a, c_drop1 = self.dropout.forward(a, rng)
        u, c_norm1 = self.norm1.forward(x + a)
        f, c_ffn = self.ffn.forward(u)
        f, c_drop2 = self.dropout.forward(f, rng)
        y, c_norm2 = self.norm2.forward(u + f)
        return y, Cache(attention=c_attention, drop1=c_drop1, norm1=c_norm1, ffn=c_ffn,
                        drop2=c_drop2, norm2=c_norm2, y=y)

    def backward(self, dy, cache):
        du = self.norm2.backward(dy, cache.norm2)           # y = norm2(u + f)
        df = self.dropout.backward(du, cache.drop2)
        du = du + self.ffn.backward(df, cache.ffn)          # f = ffn(u)
        dx = self.norm1.backward(du, cache.norm1)           # u = norm1(x + a)
        da = self.dropout.backward(dx, cache.drop1)
        dQ, dK, dV = self.attention.backward(da, cache.attention)   # a = attention(x, x, x)
        dx = dx + dQ + dK + dV
        return dx


class PreNormBlock(Block):
    """u = x + attention(norm1(x)),   y = u + ffn(norm2(u)).

    The shapes and arguments are those of Block.
    """

    def forward(self, x, mask=None, rng=None):
        n, c_norm1 = self.norm1.forward(x)
        a, c_attention = self.attention.forward(n, n, n, mask, rng)
        a, c_drop1 = self.dropout.forward(a, rng)
        u = x + a
        m, c_norm2 = self.norm2.forward(u)
        f, c_ffn = self.ffn.forward(m)
        f, c_drop2 = self.dropout.forward(f, rng)
        y = u + f
        return y, Cache(norm1=c_norm1, attention=c_attention, drop1=c_drop1, norm2=c_norm2,
                        ffn=c_ffn, drop2=c_drop2, y=y)

    def backward(self, dy, cache):
        df = self.dropout.backward(dy, cache.drop2)         # y = u + f
        dm = self.ffn.backward(df, cache.ffn)               # f = ffn(m)
        du = dy + self.norm2.backward(dm, cache.norm2)      # m = norm2(u)
        da = self.dropout.backward(du, cache.drop1)         # u = x + a
        dQ, dK, dV = self.attention.backward(da, cache.attention)   # a = attention(n, n, n)
        dn = dQ + dK + dV
        dx = du + self.norm1.backward(dn, cache.norm1)      # n = norm1(x)
        return dx


BLOCKS = {"post": Block, "pre": PreNormBlock}


class Decoder(Layer):
    """y = norm(block_L(.. block_2(block_1(x)))), a stack of Blocks.

        Decoder([PreNormBlock(8, 2, rng=1), PreNormBlock(8, 2, rng=2)], LayerNorm(8))

    forward(x, mask, rng) maps x (B, S, D) to y (B, S, D). Give a `final_norm` if the blocks are
    PreNormBlocks, because their outputs are not normalised. `cache.blocks` is a list with the cache
    of each block, and `cache.blocks[i].y` is the output of block i.
    """

    def __init__(self, blocks, final_norm=None):
        require_layers("blocks", blocks, "layers, such as [Block(8, 2, rng=1), Block(8, 2, rng=2)]")
        self.blocks = list(blocks)
        self.norm = Identity() if final_norm is None else final_norm
        require_layers("final_norm", [self.norm], "a layer, such as LayerNorm(8)")

    def forward(self, x, mask=None, rng=None):
        caches = []
        for block in self.blocks:
            x, cache = block.forward(x, mask, rng)
            caches.append(cache)
        y, c_norm = self.norm.forward(x)
        return y, Cache(blocks=caches, norm=c_norm)

    def backward(self, dy, cache):
        dx = self.norm.backward(dy, cache.norm)
        for block, c_block in zip(self.blocks[::-1], cache.blocks[::-1], strict=True):
            dx = block.backward(dx, c_block)
        return dx


class Encoder(Decoder):
    """A stack of blocks, in which a position attends to all valid tokens, earlier and later ones.

    forward(x, key_mask, rng): `key_mask` (B, S) is True for valid tokens and False for padding.
    """

    def forward(self, x, key_mask=None, rng=None):
        return super().forward(x, expand_mask(key_mask), rng)


class Identity(Layer):
    """y = x. A layer without a norm, such as a Decoder, has an Identity in its place."""

    def forward(self, x):
        check_floats("Identity", the_input=x)
        return x, Cache(shape=x.shape)

    def backward(self, dy, cache):
        check_gradient(dy, cache.shape, "Identity")
        return dy


def expand_mask(key_mask, shape=None, owner="expand_mask"):
    """Reshape a mask of valid tokens (B, S) to (B, 1, 1, S), for use as an attention mask.

    Raises InputError unless it is a bool array of this shape, or of any (B, S) if `shape` is None.
    """
    if key_mask is None:
        return None
    mask = as_array(key_mask)
    if not is_array(mask) or mask.dtype.kind != "b" or mask.ndim != 2 or shape not in (
            None, mask.shape):
        raise InputError(f"{owner}: key_mask is {describe(mask)}; it must be bool "
                         f"{shape or '(B, S)'}, True for valid tokens")
    return mask[:, None, None, :]


def attention_weights(caches):
    """Return the attention weights (B, L, H, S, S) of L blocks, from their caches."""
    return xp.stack([cache.attention.attend.A for cache in caches], 1)
