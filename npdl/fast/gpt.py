"""A GPT's step on the rows of a batch (npdl.fast.prefix): the textbook's own layers, on (N, D).

What works position by position (maps, norms, feed-forward nets, adapters) is called as it is, or
by its kernel. This file holds what is left: attention between the rows, where the loss looks, and
dropout's masks. After the last block's keys and values, only the positions `at` go on.
"""

from npdl.core import Cache
from npdl.fast.kernels import attend, attend_backward, backward, forward
from npdl.fast.prefix import select, select_backward
from npdl.layers.attention import causal_mask
from npdl.layers.transformer import PreNormBlock


class FastGPT:
    """forward(rows, at, masks) -> logits (B, R, V) at the positions `at`, or (N, V) if None.

    `rows` is a PrefixTree or Unshared, `masks` draws dropout's entries (npdl.fast.engine).
    """

    by_time = False             # the order of Unshared rows

    def __init__(self, model):
        self.model = model

    def forward(self, rows, at=None, masks=None):           # GPT.forward
        model, mask = self.model, causal_mask(rows.batch_shape[1])
        x, c_embedding = forward(model.embedding, rows.tokens)              # x (N, D)
        x, c_positions = model.positions.forward(x, rows.positions)
        x, scale = dropped(model.dropout, x, rows, None, masks)
        blocks, caches = model.decoder.blocks, []
        for block in blocks:
            wanted = at if block is blocks[-1] else None
            x, cache = forward_block(block, x, rows, mask, wanted, masks)
            caches.append(cache)
        x, c_norm = forward(model.decoder.norm, x)
        logits, c_classifier = forward(model.classifier, x)
        return logits, Cache(embedding=c_embedding, positions=c_positions, scale=scale,
                             blocks=caches, norm=c_norm, classifier=c_classifier, rows=rows)

    def backward(self, dlogits, cache):                     # GPT.backward
        model = self.model
        dx = backward(model.classifier, dlogits, cache.classifier)
        dx = backward(model.decoder.norm, dx, cache.norm)
        for block, c_block in zip(model.decoder.blocks[::-1], cache.blocks[::-1], strict=True):
            dx = backward_block(block, dx, c_block, cache.rows)
        dx = dx if cache.scale is None else dx * cache.scale
        dx = model.positions.backward(dx, cache.positions)
        backward(model.embedding, dx, cache.embedding)


def forward_block(block, x, rows, mask, at, masks):
    """Block.forward or PreNormBlock.forward: x (N, D) -> (N, D), or (B, R, D) where `at` says."""
    pre = isinstance(block, PreNormBlock)
    n, c_norm1 = forward(block.norm1, x) if pre else (x, None)
    x_at, n_at = select(x, rows, at), select(n, rows, at)
    a, c_attention = forward_attention(block.attention, n_at, n, rows, mask, at)
    a, scale1 = dropped(block.dropout, a, rows, at, masks)
    u = x_at + a
    if not pre:
        u, c_norm1 = forward(block.norm1, u)
    m, c_norm2 = forward(block.norm2, u) if pre else (u, None)
    f, c_ffn = forward_ffn(block.ffn, m)
    f, scale2 = dropped(block.dropout, f, rows, at, masks)
    y = u + f
    if not pre:
        y, c_norm2 = forward(block.norm2, y)
    return y, Cache(norm1=c_norm1, attention=c_attention, scale1=scale1, norm2=c_norm2, ffn=c_ffn,
                    scale2=scale2, at=at)


def backward_block(block, dy, cache, rows):
    """Block.backward or PreNormBlock.backward."""
    pre, at = isinstance(block, PreNormBlock), cache.at
    du = dy if pre else backward(block.norm2, dy, cache.norm2)
    df = du if cache.scale2 is None else du * cache.scale2
    dm = backward_ffn(block.ffn, df, cache.ffn)
    du = du + (backward(block.norm2, dm, cache.norm2) if pre else dm)
    dx_at = du if pre else backward(block.norm1, du, cache.norm1)
    da = dx_at if cache.scale1 is None else dx_at * cache.scale1
    dQ, dK, dV = backward_attention(block.attention, da, cache.attention, rows)
    if pre:
        dn = select_backward(dQ, rows, at) + dK + dV
        return select_backward(dx_at, rows, at) + backward(block.norm1, dn, cache.norm1)
    return select_backward(dx_at + dQ, rows, at) + dK + dV


def forward_ffn(ffn, x):
    """FeedForward.forward."""
    u, c_up = forward(ffn.up, x)
    a, c_activation = forward(ffn.activation, u)
    y, c_down = forward(ffn.down, a)
    return y, Cache(up=c_up, activation=c_activation, down=c_down)


def backward_ffn(ffn, dy, cache):
    """FeedForward.backward."""
    da = backward(ffn.down, dy, cache.down)
    du = backward(ffn.activation, da, cache.activation)
    return backward(ffn.up, du, cache.up)


def forward_attention(layer, Q, x, rows, mask, at):
    """MultiHeadAttention.forward: Q is x (N, D), a query for every row, or (B, R, D)."""
    q, c_Q = forward(layer.W_Q, Q)
    k, c_K = forward(layer.W_K, x)
    v, c_V = forward(layer.W_V, x)
    q = rows.spread(q) if at is None else q
    k, v = rows.spread(k), rows.spread(v)
    if at is not None:
        mask = mask[at] if at.ndim == 1 else mask[at][:, None]      # (R, S) or (B, 1, R, S)
    heads, c_attend = attend(layer.split(q), layer.split(k), layer.split(v), mask)
    h = layer.join(heads)                                           # h (B, R, D)
    y, c_O = forward(layer.W_O, rows.pick(h) if at is None else h)
    return y, Cache(Q=c_Q, K=c_K, V=c_V, attend=c_attend, O=c_O, at=at)


def backward_attention(layer, dy, cache, rows):
    """MultiHeadAttention.backward."""
    dh = backward(layer.W_O, dy, cache.O)
    dh = rows.pick_backward(dh) if cache.at is None else dh
    dq, dk, dv = attend_backward(layer.split(dh), cache.attend)
    dq, dk, dv = layer.join(dq), layer.join(dk), layer.join(dv)
    dq = rows.spread_backward(dq) if cache.at is None else dq
    dQ = backward(layer.W_Q, dq, cache.Q)
    dK = backward(layer.W_K, rows.spread_backward(dk), cache.K)
    dV = backward(layer.W_V, rows.spread_backward(dv), cache.V)
    return dQ, dK, dV


def dropped(dropout, x, rows, at, masks):
    """Dropout.forward with the numbers that it would draw for the whole batch (B, S, D)."""
    if masks is None or dropout.rate == 0:
        return x, None
    scale = masks.scale(dropout, rows, x.shape[-1], x.dtype)        # scale (N, D), in row order
    scale = select(scale, rows, at)
    return x * scale, scale
