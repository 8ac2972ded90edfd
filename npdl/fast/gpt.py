"""A GPT's step on the rows of a batch (npdl.fast.prefix), into memory that is kept.

Reads the parameters of the textbook's GPT and adds into their gradients. The rows stand position
after position. After the last block's keys and values only the rows that are needed go on; where
many rows have the same token at the same position, the first block's queries, keys and values
are computed once for each such pair (`rows.words`).
"""

from npdl.backend import xp
from npdl.core import Cache
from npdl.errors import checked_ids, checked_tokens
from npdl.fast import attention
from npdl.fast.kernels import (
    activation,
    activation_backward,
    add_to_table,
    layer_norm,
    layer_norm_backward,
    linear,
    linear_backward,
)
from npdl.fast.memory import Arena
from npdl.layers.attention import MultiHeadAttention
from npdl.layers.embedding import LearnedPositions, SinusoidalPositions
from npdl.layers.transformer import Block, PreNormBlock


class FastGPT:
    """forward(rows, needed, masks) -> logits (M, V) of the rows that are needed.

    `rows` is Rows, `needed` Needed, `masks` draws dropout's entries (npdl.fast.engine).
    """

    def __init__(self, model):
        self.model = model
        self.arena = Arena(model.embedding.W.data.dtype)

    @staticmethod
    def knows(model):
        return (type(model.positions) in (LearnedPositions, SinusoidalPositions)
                and all(type(block) in (Block, PreNormBlock)
                        and type(block.attention) is MultiHeadAttention
                        for block in model.decoder.blocks))

    def check(self, ids):
        """GPT.forward's checks of the tokens."""
        checked_ids(checked_tokens(ids, "GPT", self.model.max_len), self.model.embedding.W.shape[0])

    def forward(self, rows, needed, masks=None):            # GPT.forward
        model, m = self.model, self.arena
        x = self.embedded(rows.words or rows)
        x, scale = dropped(model.dropout, x, rows, None, masks, m)
        every, caches = rows.every, []
        blocks = model.decoder.blocks
        for block in blocks:
            here = needed if block is blocks[-1] else every
            x, cache = forward_block(block, x, rows, here, None if caches else rows.words, masks, m)
            caches.append(cache)
        x, c_norm = layer_norm(model.decoder.norm, x, m)
        logits, c_classifier = linear(model.classifier, x, m)
        return logits, Cache(scale=scale, blocks=caches, norm=c_norm, classifier=c_classifier,
                             rows=rows)

    def embedded(self, entries):
        """Embedding.forward and the positions' forward: x (N, D) of rows, or of words."""
        model, m = self.model, self.arena
        W, positions = model.embedding.W.data, model.positions
        table = positions.W.data if isinstance(positions, LearnedPositions) else positions.table
        x = entries.readers("tokens", len(W)).take(W, m.empty(len(entries.tokens), W.shape[1]))
        with m.scratch:
            p = entries.readers("positions", len(table))
            return xp.add(x, p.take(table.astype(x.dtype), m.empty(*x.shape)), out=x)

    def backward(self, dlogits, cache):                     # GPT.backward
        model, m, rows = self.model, self.arena, cache.rows
        blocks = model.decoder.blocks
        dx = linear_backward(model.classifier, dlogits, cache.classifier, m)
        dx = layer_norm_backward(model.decoder.norm, dx, cache.norm, m)
        for block, c_block in zip(blocks[::-1], cache.blocks[::-1], strict=True):
            dx = backward_block(block, dx, c_block, rows, m)
        if cache.scale is not None:
            dx = xp.multiply(dx, cache.scale, out=dx)
        entries, embedding = rows.words or rows, model.embedding
        if isinstance(model.positions, LearnedPositions):
            add_to_table(model.positions.W, dx, entries, "positions", m)
        add_to_table(embedding.W, dx, entries, "tokens", m, embedding.padding_id)


def forward_block(block, x, rows, needed, words, masks, m):
    """Block.forward or PreNormBlock.forward: x (N, D), or (U, D) of `words` -> (M, D)."""
    pre, heads = isinstance(block, PreNormBlock), block.attention.num_heads
    n, c_norm1 = layer_norm(block.norm1, x, m) if pre else (x, None)
    queries = attention.queries_of(rows, needed, x.dtype)
    q, k, v, c_maps = project(block.attention, n, words, needed, m)
    if words is not None:
        x = words.rows.take(x, m.empty(rows.size, x.shape[1]))
    h, c_attend = attention.forward(q, k, v, rows, queries, heads, m)
    a, c_O = linear(block.attention.W_O, h, m)
    a, scale1 = dropped(block.dropout, a, rows, needed, masks, m)
    x = needed.take(x, m.empty)
    if pre:
        u = a
        y, c_norm2 = layer_norm(block.norm2, u, m, x)       # of u = x + a
    else:
        y, c_norm1 = layer_norm(block.norm1, a, m, x)
        u = y
    y, c_up = linear(block.ffn.up, y, m)                    # FeedForward.forward
    y, c_activation = activation(block.ffn.activation, y, m)
    f, c_down = linear(block.ffn.down, y, m)
    f, scale2 = dropped(block.dropout, f, rows, needed, masks, m)
    if pre:
        y = xp.add(f, u, out=f)
    else:
        y, c_norm2 = layer_norm(block.norm2, f, m, u)
    return y, Cache(norm1=c_norm1, maps=c_maps, attend=c_attend, O=c_O, scale1=scale1,
                    norm2=c_norm2, up=c_up, activation=c_activation, down=c_down, scale2=scale2,
                    needed=needed, queries=queries, words=words)


def backward_block(block, dy, cache, rows, m):
    """Block.backward or PreNormBlock.backward: dy (M, D), written over -> dx (N, D) or (U, D)."""
    pre = isinstance(block, PreNormBlock)
    du = dy if pre else layer_norm_backward(block.norm2, dy, cache.norm2, m)
    with m.scratch:
        df = du if cache.scale2 is None else xp.multiply(du, cache.scale2, out=m.empty(*du.shape))
        da = linear_backward(block.ffn.down, df, cache.down, m)     # FeedForward.backward
        da = activation_backward(block.ffn.activation, da, cache.activation, m)
        dm = linear_backward(block.ffn.up, da, cache.up, m)
        dm = layer_norm_backward(block.norm2, dm, cache.norm2, m) if pre else dm
        du = xp.add(du, dm, out=du)
    du = du if pre else layer_norm_backward(block.norm1, du, cache.norm1, m)
    da = du if cache.scale1 is None else xp.multiply(du, cache.scale1, out=m.empty(*du.shape))
    dn, dx = backward_attention(block.attention, da, du, cache, rows, m)
    if pre:
        dn = layer_norm_backward(block.norm1, dn, cache.norm1, m)
    return xp.add(dn, dx, out=dn)


def project(layer, n, words, needed, m):
    """The maps W_Q, W_K and W_V of n (N, D), or of words: q (M, D), k and v (N, D)."""
    wanted = n if words is not None else needed.take(n, m.empty)
    q, c_Q = linear(layer.W_Q, wanted, m)
    k, c_K = linear(layer.W_K, n, m)
    v, c_V = linear(layer.W_V, n, m)
    if words is not None:
        N = words.rows.length
        q, k, v = (words.rows.take(y, m.empty(N, y.shape[1])) for y in (q, k, v))
        q = needed.take(q, m.empty)
    return q, k, v, (c_Q, c_K, c_V)


def backward_attention(layer, da, dx_at, cache, rows, m):
    """MultiHeadAttention.backward -> the gradient of its input, and of the block's own input,
    dx_at (M, D) at the rows that are needed: both (N, D), or (U, D) of words."""
    needed, words, (c_Q, c_K, c_V) = cache.needed, cache.words, cache.maps
    dh = linear_backward(layer.W_O, da, cache.O, m)
    dq, dk, dv = attention.backward(dh, rows, cache.queries, cache.attend, layer.num_heads, m)
    dx = needed.put(dx_at, rows.size, m)
    if words is not None:
        dq = needed.put(dq, rows.size, m)
        dq, dk, dv, dx = (words.sum(d, m.empty(words.size, d.shape[1])) for d in (dq, dk, dv, dx))
    dn = linear_backward(layer.W_K, dk, c_K, m, over=False)
    with m.scratch:
        dn = xp.add(dn, linear_backward(layer.W_V, dv, c_V, m, over=False), out=dn)
        dQ = linear_backward(layer.W_Q, dq, c_Q, m, over=False)
        if words is not None:
            dn = xp.add(dn, dQ, out=dn)
        else:
            needed.add(dQ, dn)
    return dn, dx


def dropped(dropout, x, rows, needed, masks, m):
    """Dropout.forward with the numbers that it would draw for the whole batch (B, S, D)."""
    if masks is None or dropout.rate == 0:
        return x, None
    scale = masks.scale(dropout, rows, x.shape[-1], x.dtype)        # scale (N, D), in row order
    scale = scale if needed is None else needed.take(scale, m.empty)
    return xp.multiply(x, scale, out=x), scale
