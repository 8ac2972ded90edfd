"""A GPT's step on the rows of a batch (npdl_train.fast.prefix), into memory that is kept.

Reads the parameters of the textbook's GPT and adds into their gradients. The rows stand position
after position. After the last block's keys and values only the rows that are needed go on; where
many rows have the same token at the same position, the first block's queries, keys and values
are computed once for each such pair (`rows.words`).
"""

from npdl.backend import is_host, xp
from npdl.core import Cache, NoBias
from npdl.errors import checked_tokens
from npdl.layers.activation import ACTIVATIONS
from npdl.layers.attention import MultiHeadAttention
from npdl.layers.dropout import Dropout
from npdl.layers.embedding import Embedding, LearnedPositions, SinusoidalPositions, Unembedding
from npdl.layers.layer_norm import LayerNorm
from npdl.layers.linear import Linear
from npdl.layers.transformer import Block, Decoder, FeedForward, PreNormBlock, Same
from npdl_train.fast import attention, cuda, cuda_ends
from npdl_train.fast.kernels import (
    BASES,
    MAPS,
    activation,
    activation_backward,
    add_into,
    add_matmul,
    add_sum_into,
    add_to_table,
    apart,
    is_first,
    late_bias,
    layer_norm,
    layer_norm_backward,
    linear,
    linear_backward,
    linear_backward_onto,
    products_of,
)
from npdl_train.fast.memory import Arena

# The layers that the proof (tests/fast/test_fast.py) covers, by the attribute that holds them.
PARTS = {
    "embedding": (Embedding,), "positions": (LearnedPositions, SinusoidalPositions),
    "decoder": (Decoder,), "blocks": (Block, PreNormBlock), "dropout": (Dropout,),
    "attention": (MultiHeadAttention,), **dict.fromkeys(("W_Q", "W_K", "W_V", "W_O"), MAPS),
    "norm1": (LayerNorm,), "norm2": (LayerNorm,), "norm": (LayerNorm, Same),
    "ffn": (FeedForward,), "up": MAPS, "activation": ACTIVATIONS.values(), "down": MAPS,
    "classifier": (*MAPS, Unembedding), "base": BASES,
}


def map_names(i):
    """The names of the weights, and of the biases, of block i's maps to queries, keys, values."""
    return [tuple(f"decoder.blocks.{i}.attention.{each}.{part}" for each in ("W_Q", "W_K", "W_V"))
            for part in ("W", "b")]


class FastGPT:
    """forward(rows, needed, masks) -> logits (M, V) of the rows that are needed.

    `rows` is Rows, `needed` Needed, `masks` draws dropout's entries (npdl_train.fast.engine).
    """

    parts = PARTS

    def __init__(self, model):
        self.model = model
        self.arena = Arena(model.embedding.W.data.dtype)
        self.joined = {}, {}
        self.maps = {}              # {i: joined_maps(i)}
        self.waves = None           # the table of SinusoidalPositions in the model's dtype

    @staticmethod
    def together(model):
        """The names of parameters that make one product where they lie side by side."""
        return [names for i in range(len(model.decoder.blocks)) for names in map_names(i)]

    def joined_maps(self, i):
        """The Joined of block i's three maps, of the first, and of the two others; or None where
        they are not Linears that learn."""
        data, grads = self.joined
        W, b = map_names(i)
        layer = self.model.decoder.blocks[i].attention
        maps = layer.W_Q, layer.W_K, layer.W_V
        if W not in data or any(type(each) is not Linear for each in maps):
            return None
        biased = not any(isinstance(each.b, NoBias) for each in maps)
        if biased and b not in data:
            return None
        every, D = (data[W], grads[W], *((data[b], grads[b]) if biased else ())), len(data[W])
        return [Joined(*(array[..., low:high] for array in every))
                for low, high in ((0, 3 * D), (0, D), (D, 3 * D))]

    def check(self, ids):
        """GPT.forward's checks of the tokens."""
        checked_tokens(ids, "GPT", self.model.max_len, self.model.embedding.W.shape[0])

    def forward(self, rows, needed, masks=None):            # GPT.forward
        model, m = self.model, self.arena
        x = self.embedded(rows.words or rows)
        x, scale = dropped(model.dropout, x, rows, None, masks, m)
        every, caches = rows.every, []
        blocks = model.decoder.blocks
        for i, block in enumerate(blocks):
            here = needed if block is blocks[-1] else every
            words = None if caches else rows.words
            if i not in self.maps:
                self.maps[i] = self.joined_maps(i)
            x, cache = forward_block(block, self.maps[i], x, rows, here, words, masks, m)
            caches.append(cache)
        x, c_norm = layer_norm(model.decoder.norm, x, m)
        logits, c_classifier = linear(model.classifier, x, m)
        return logits, Cache(scale=scale, blocks=caches, norm=c_norm, classifier=c_classifier,
                             rows=rows)

    def embedded(self, entries):
        """Embedding.forward and the positions' forward: x (N, D) of rows, or of words."""
        model, m = self.model, self.arena
        W, positions = model.embedding.W.data, model.positions
        learned = isinstance(positions, LearnedPositions)
        table = positions.W.data if learned else positions.table
        x, t = m.empty(len(entries.tokens), W.shape[1]), entries.readers("tokens", len(W))
        p = entries.readers("positions", len(table))
        if cuda.possible():
            cuda_ends.look_up(W, t.index, table, p.index, x)
            return x
        if not learned:
            self.waves = table.astype(W.dtype) if self.waves is None else self.waves
            table = self.waves
        x = t.take(W, x)
        with m.scratch:
            return xp.add(x, p.take(table, m.empty(*x.shape)), out=x)

    def backward(self, dlogits, cache):                     # GPT.backward
        model, m, rows = self.model, self.arena, cache.rows
        blocks = model.decoder.blocks
        dx = linear_backward(model.classifier, dlogits, cache.classifier, m)
        dx = layer_norm_backward(model.decoder.norm, dx, cache.norm, m)
        for block, c_block in zip(blocks[::-1], cache.blocks[::-1], strict=True):
            out = m.empty(*c_block.shape)
            with m.scratch:
                dx = backward_block(block, dx, c_block, rows, out, m)
        if cache.scale is not None:
            dx = xp.multiply(dx, cache.scale, out=dx)
        entries, embedding = rows.words or rows, model.embedding
        if isinstance(model.positions, LearnedPositions):
            add_to_table(model.positions.W, dx, entries, "positions", m)
        add_to_table(embedding.W, dx, entries, "tokens", m, embedding.padding_id)


def forward_block(block, joined, x, rows, needed, words, masks, m):
    """Block.forward or PreNormBlock.forward: x (N, D), or (U, D) of `words` -> (M, D)."""
    pre, heads, shape = isinstance(block, PreNormBlock), block.attention.num_heads, x.shape
    n, c_norm1 = layer_norm(block.norm1, x, m) if pre else (x, None)
    queries = attention.queries_of(rows, needed, x.dtype)
    q, kv, c_maps = project(block.attention, joined, n, words, needed, m)
    if words is not None:
        x = words.rows.take(x, m.empty(rows.size, x.shape[1]))
    h, c_attend = attention.forward(q, kv, rows, queries, heads, m)
    drops = masks is not None and block.dropout.rate > 0
    late = None if drops else late_bias(block.attention.W_O)
    a, c_O = linear(block.attention.W_O, h, m, late=late is not None)
    a, scale1 = dropped(block.dropout, a, rows, needed, masks, m)
    x = needed.take(x, m.empty, m)
    if pre:
        u = a
        y, c_norm2 = layer_norm(block.norm2, u, m, x, late)     # of u = x + a
    else:
        y, c_norm1 = layer_norm(block.norm1, a, m, x, late)
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
                    needed=needed, queries=queries, words=words, joined=joined,
                    shape=shape)


def backward_block(block, dy, cache, rows, out, m):
    """Block.backward or PreNormBlock.backward: dy (M, D), written over -> dx (N, D) or (U, D), in
    `out`."""
    pre, words = isinstance(block, PreNormBlock), cache.words
    du = dy if pre else layer_norm_backward(block.norm2, dy, cache.norm2, m)
    with m.scratch:
        df = du if cache.scale2 is None else xp.multiply(du, cache.scale2, out=m.empty(*du.shape))
        da = linear_backward(block.ffn.down, df, cache.down, m)     # FeedForward.backward
        da = activation_backward(block.ffn.activation, da, cache.activation, m)
        if pre:
            dm = linear_backward(block.ffn.up, da, cache.up, m)
            du = xp.add(du, layer_norm_backward(block.norm2, dm, cache.norm2, m), out=du)
        else:
            du = linear_backward_onto(block.ffn.up, da, cache.up, du, m)
    du = du if pre else layer_norm_backward(block.norm1, du, cache.norm1, m)
    da = du if cache.scale1 is None else xp.multiply(du, cache.scale1, out=m.empty(*du.shape))
    onto = cuda.possible() and not pre and words is None and cache.needed.all
    if onto and cache.joined is not None:
        return backward_attention(block.attention, cache.joined, da, cache, rows, du, m, True)
    dx = backward_attention(block.attention, cache.joined, da, cache, rows, out, m)
    if pre:
        dx = layer_norm_backward(block.norm1, dx, cache.norm1, m)
    if words is None:
        cache.needed.add(du, dx)
        return dx
    with m.scratch:
        du = cache.needed.put(du, rows.size, m)
        return xp.add(dx, words.sum(du, m.empty(*dx.shape)), out=dx)


class Joined:
    """G maps of one input side by side, W (D, G D) and b (G D,) or None, and their gradients."""

    def __init__(self, W, dW, b=None, db=None):
        self.W, self.dW, self.db = W, dW, db
        self.b = None if b is None else b.reshape(-1, 1, len(W))

    def forward(self, x, out, m):
        """Linear.forward of the maps, into out (G, N, D)."""
        y = products_of(x, self.W, out)
        if self.b is not None:
            xp.add(y, self.b, out=y)

    def backward(self, x, dy, first, out, m, onto=False):
        """Linear.backward of the maps, dy (N, G D) -> dx (N, D) in out, or added `onto` it."""
        add_into(self.dW, first, x, dy, m)
        if self.db is not None:
            add_sum_into(self.db, first, dy)
        if onto:
            add_matmul(dy, self.W.T, out, m)
            return out
        return xp.matmul(dy, self.W.T, out=out)


def project(layer, joined, n, words, needed, m):
    """The maps W_Q, W_K and W_V of n (N, D), or of words -> q (M, D), k and v (2, N, D), and what
    backward reads."""
    D, maps = n.shape[1], (layer.W_Q, layer.W_K, layer.W_V)
    at_once = words is not None or needed.all or not is_host()      # a device: few, large products
    y = m.empty(3, len(n), D)
    n_at = n if at_once else needed.take(n, m.empty)
    q, kv = m.once(thirds, (y,))
    q = q if at_once else m.empty(len(needed), D)
    if joined is None:
        cache = [linear(each, x, m, out)[1] for each, x, out
                 in zip(maps, (n_at, n, n), (q, *kv), strict=True)]
    else:
        every, first, others = joined
        cache = n, n_at
        if at_once:
            every.forward(n, y, m)                              # q = Q W_Q, k = K W_K, v = V W_V
        else:
            first.forward(n_at, q[None], m)
            others.forward(n, kv, m)
    if words is not None:
        q, kv = thirds(words.rows.take(y, m.empty(3, words.rows.length, D)))
    return needed.take(q, m.empty, m) if at_once else q, kv, cache


def thirds(y):
    """(3, N, D) -> the first (N, D), and the others (2, N, D)."""
    return y[0], y[1:]


def backward_attention(layer, joined, da, cache, rows, out, m, onto=False):
    """MultiHeadAttention.backward: da (M, D) -> the gradient of its input, (N, D), or (U, D) of
    words, in `out`, or added `onto` it."""
    needed, words, (N, D) = cache.needed, cache.words, (rows.size, da.shape[1])
    dh = linear_backward(layer.W_O, da, cache.O, m)
    d = m.empty(N, 3 * D)                                       # of q, k and v
    apart_first = not is_host() and type(cache.attend) is list  # a GPU's products want them so
    stacked = m.empty(3, N, D) if apart_first else None
    dQ, dKV = m.once(column_thirds, (d,)) if stacked is None else m.once(thirds, (stacked,))
    at_once = words is not None or needed.all or not is_host()      # q was made of every row
    inside = needed.at is not None and (needed.all or not is_host())    # dq is a part of dQ
    dq = needed.take(dQ, m.empty, m) if inside else m.empty(len(needed), D)
    if at_once and not needed.all:
        dQ[...] = 0
    attention.backward(dh, dq, dKV, rows, cache.queries, cache.attend, layer.num_heads, m)
    if at_once and not inside:
        needed.add(dq, dQ)
    if apart_first:
        m.once(apart, (d,), 3)[...] = stacked
    if words is not None:
        d = words.sum(d, m.empty(words.size, 3 * D))
    return backward_project(layer, joined, d[:, :D] if at_once else dq, d, at_once, cache, out, m,
                            onto)


def column_thirds(d):
    """(N, 3 D) -> the first (N, D), and the others (2, N, D)."""
    D = d.shape[1] // 3
    return d[:, :D], apart(d[:, D:], 2)


def backward_project(layer, joined, dq, d, at_once, cache, out, m, onto):
    """Linear.backward of W_Q, W_K and W_V, from dq (M, D) and d (N, 3 D), whose last two thirds are
    dk and dv and whose first, if `at_once`, is dq -> the gradient of their input."""
    D = dq.shape[1]
    if joined is not None:
        every, one, others = joined
        (n, n_at), first = cache.maps, is_first(every.dW, m)
        if at_once:
            return every.backward(n, d, first, out, m, onto)            # dn = dQ + dK + dV
        dn = others.backward(n, d[:, D:], first, out, m)
        dQ = one.backward(n_at, dq, first, m.empty(*n_at.shape), m)
    else:
        c_Q, c_K, c_V = cache.maps
        dn = linear_backward(layer.W_K, d[:, D : 2 * D], c_K, m, over=False)
        dn = xp.add(dn, linear_backward(layer.W_V, d[:, 2 * D :], c_V, m, over=False), out=out)
        dQ = linear_backward(layer.W_Q, dq, c_Q, m, over=False)
    if at_once:                                                         # dn = dQ + dK + dV
        return xp.add(dn, dQ, out=dn)
    cache.needed.add(dQ, dn)
    return dn


def dropped(dropout, x, rows, needed, masks, m):
    """Dropout.forward with the numbers that it would draw for the whole batch (B, S, D)."""
    if masks is None or dropout.rate == 0:
        return x, None
    scale = masks.scale(dropout, rows, x.shape[-1], x.dtype)        # scale (N, D), in row order
    scale = scale if needed is None else needed.take(scale, m.empty)
    return xp.multiply(x, scale, out=x), scale
