"""The transformer's block, and a stack of them."""

from npdl.backend import xp
from npdl.core import Cache, Layer, gradients_of
from npdl.errors import InputError
from npdl.init import generator, require_positive
from npdl.layers.activation import ACTIVATIONS
from npdl.layers.attention import MultiHeadAttention, mask_rows
from npdl.layers.dropout import Dropout
from npdl.layers.linear import Linear
from npdl.layers.norm import LayerNorm
from npdl.prefix import Select


class FeedForward(Layer):
    """y = f(x W_up) W_down, position by position: (..., D) -> (..., D), inner width m D."""

    def __init__(self, d_model, multiplier=4, activation="gelu", bias=False, rng=0,
                 dtype="float32"):
        require_positive(d_model=d_model, multiplier=multiplier)
        if activation not in tuple(ACTIVATIONS):
            raise InputError(f"activation {activation!r}; choose one of: {', '.join(ACTIVATIONS)}")
        rng = generator(rng)
        self.up = Linear(d_model, multiplier * d_model, bias, rng, dtype)
        self.activation = ACTIVATIONS[activation]()
        self.down = Linear(multiplier * d_model, d_model, bias, rng, dtype)

    def forward(self, x):
        u, c_up = self.up.forward(x)                    # u (..., M), M = m D
        a, c_activation = self.activation.forward(u)    # a (..., M)
        y, c_down = self.down.forward(a)                # y (..., D)
        return y, Cache(up=c_up, activation=c_activation, down=c_down)

    def backward(self, dy, cache):
        da = self.down.backward(dy, cache.down)         # da (..., M)
        du = self.activation.backward(da, cache.activation)     # du (..., M)
        dx = self.up.backward(du, cache.up)             # dx (..., D)
        return dx


class Block(Layer):
    """Self-attention, then a feed-forward net, each with a residual and a LayerNorm.

    norm "post" (document 004):  u = norm1(x + attention(x)),  y = norm2(u + ffn(u))
    norm "pre":                  u = x + attention(norm1(x)),  y = u + ffn(norm2(u))

    forward(x, mask, at, tree, rng, past): x (B, S, D) -> y (B, S, D) and the attention weights
    A (B, H, S, S). With `at` (npdl.prefix.Select) only those positions are computed, from keys
    and values of all: y (B, R, D), A (B, H, R, S). With a tree, x is (N, D). `past` holds keys
    and values of earlier positions (MultiHeadAttention). Nothing here is causal but the mask.
    Dropout acts on both residual branches, when `rng` is given. `bias` is that of the attention's
    maps, `ffn_bias` of the feed-forward net's, `norm_bias` of the LayerNorms'.
    """

    def __init__(self, d_model, num_heads, multiplier=4, bias=True, norm="post",
                 activation="gelu", dropout=0.0, ffn_bias=False, rng=0, dtype="float32",
                 norm_bias=True):
        if norm not in ("post", "pre"):
            raise InputError(f"norm = {norm!r}; choose 'post' or 'pre'")
        rng = generator(rng)
        self.pre_norm = norm == "pre"
        self.attention = MultiHeadAttention(d_model, num_heads, bias, rng, dtype)
        self.norm1 = LayerNorm(d_model, dtype=dtype, bias=norm_bias)
        self.ffn = FeedForward(d_model, multiplier, activation, ffn_bias, rng, dtype)
        self.norm2 = LayerNorm(d_model, dtype=dtype, bias=norm_bias)
        self.dropout = Dropout(dropout)
        self.select = Select()

    def forward(self, x, mask=None, at=None, tree=None, rng=None, past=None):
        if mask is not None and at is not None:
            mask = mask_rows(mask, at)
        run = self._forward_pre if self.pre_norm else self._forward_post
        return run(x, mask, at, tree, rng, past)

    def backward(self, dout, cache):
        dy, dA = gradients_of(dout, 2)
        if dy is None:
            dy = xp.zeros_like(cache.y)
        return (self._backward_pre if self.pre_norm else self._backward_post)(dy, dA, cache)

    def _forward_post(self, x, mask, at, tree, rng, past):
        x_at, c_at = self.select.forward(x, at, tree)
        (a, A), c_attention = self.attention.forward(x_at, x, x, mask, tree, past)
        a, c_drop1 = self.dropout.forward(a, rng)
        u, c_norm1 = self.norm1.forward(x_at + a)
        f, c_ffn = self.ffn.forward(u)
        f, c_drop2 = self.dropout.forward(f, rng)
        y, c_norm2 = self.norm2.forward(u + f)
        return (y, A), Cache(at=c_at, attention=c_attention, drop1=c_drop1, norm1=c_norm1,
                             ffn=c_ffn, drop2=c_drop2, norm2=c_norm2, y=y)

    def _backward_post(self, dy, dA, cache):
        du = self.norm2.backward(dy, cache.norm2)           # y = norm2(u + f)
        df = self.dropout.backward(du, cache.drop2)
        du = du + self.ffn.backward(df, cache.ffn)          # f = ffn(u)
        dx_at = self.norm1.backward(du, cache.norm1)        # u = norm1(x_at + a)
        da = self.dropout.backward(dx_at, cache.drop1)
        dQ, dK, dV = self.attention.backward((da, dA), cache.attention)
        dx_at = dx_at + dQ
        dx = self.select.backward(dx_at, cache.at)
        dx = dx + dK
        dx = xp.add(dx, dV, out=dx)
        return dx

    def _forward_pre(self, x, mask, at, tree, rng, past):
        n, c_norm1 = self.norm1.forward(x)
        x_at, c_at = self.select.forward(x, at, tree)
        n_at, c_n_at = self.select.forward(n, at, tree)
        (a, A), c_attention = self.attention.forward(n_at, n, n, mask, tree, past)
        a, c_drop1 = self.dropout.forward(a, rng)
        u = x_at + a
        m, c_norm2 = self.norm2.forward(u)
        f, c_ffn = self.ffn.forward(m)
        f, c_drop2 = self.dropout.forward(f, rng)
        y = u + f
        return (y, A), Cache(norm1=c_norm1, at=c_at, n_at=c_n_at, attention=c_attention,
                             drop1=c_drop1, norm2=c_norm2, ffn=c_ffn, drop2=c_drop2, y=y)

    def _backward_pre(self, dy, dA, cache):
        df = self.dropout.backward(dy, cache.drop2)         # y = u + f
        dm = self.ffn.backward(df, cache.ffn)               # f = ffn(m)
        du = dy + self.norm2.backward(dm, cache.norm2)      # m = norm2(u)
        da = self.dropout.backward(du, cache.drop1)         # u = x_at + a
        dQ, dK, dV = self.attention.backward((da, dA), cache.attention)
        dn = self.select.backward(dQ, cache.n_at)
        dn = dn + dK
        dn = xp.add(dn, dV, out=dn)
        dx = self.select.backward(du, cache.at)
        dx = dx + self.norm1.backward(dn, cache.norm1)      # n = norm1(x)
        return dx


class Decoder(Layer):
    """`num_layers` Blocks in a row; after pre-norm blocks, a last LayerNorm.

    forward(x, mask, at, tree, rng): x (B, S, D) -> the last block's output (B, S, D), the list
    of every block's output, the list of every block's attention weights. `at` narrows the last
    block to the positions that are asked for: (B, R, D).
    """

    def __init__(self, num_layers, d_model, num_heads, multiplier=4, bias=True, norm="post",
                 activation="gelu", dropout=0.0, rng=0, dtype="float32", norm_bias=True):
        require_positive(num_layers=num_layers)
        rng = generator(rng)
        self.blocks = [
            Block(d_model, num_heads, multiplier, bias, norm, activation, dropout, rng=rng,
                  dtype=dtype, norm_bias=norm_bias)
            for _ in range(num_layers)
        ]
        self.norm = LayerNorm(d_model, dtype=dtype, bias=norm_bias) if norm == "pre" else None

    def forward(self, x, mask=None, at=None, tree=None, rng=None):
        caches, hiddens, weights = [], [], []
        for block in self.blocks:
            wanted = at if block is self.blocks[-1] else None
            (x, A), cache = block.forward(x, mask, wanted, tree, rng)
            caches.append(cache)
            hiddens.append(x)
            weights.append(A)
        c_norm = None
        if self.norm is not None:
            x, c_norm = self.norm.forward(x)
        return (x, hiddens, weights), Cache(blocks=caches, norm=c_norm)

    def backward(self, dout, cache):
        dx, dhiddens, dweights = gradients_of(dout, 3)
        if self.norm is not None and dx is not None:
            dx = self.norm.backward(dx, cache.norm)
        for i in reversed(range(len(self.blocks))):
            dhidden = None if dhiddens is None else dhiddens[i]
            dA = None if dweights is None else dweights[i]
            dx = dhidden if dx is None else dx if dhidden is None else dx + dhidden
            dx = self.blocks[i].backward((dx, dA), cache.blocks[i])
        return dx
