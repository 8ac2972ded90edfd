"""A step of a Llama in which adapters alone learn, as LoRA fine-tunes a real model.

All activations are columns, (D, N) for N = B S tokens: a product W^T x then reads the rows of a map
as its file has them, and BLAS turns none of them. What is frozen gets no gradient, and below the
first adapter nothing is computed. Each function carries out the forward or the backward of the
textbook's class beside it, writes over what it is given where it may, and reads the model anew;
`m` is the Arena of what backward reads, `s` that of what passes, anew for each block.
"""

import itertools
import math

import numpy as np

from npdl.adapt.linears import LoRALinear, QuantLinear
from npdl.backend import is_host
from npdl.core import Cache, Param
from npdl.errors import checked_ids, checked_tokens
from npdl.functions import not_infinite
from npdl.layers.embedding import Embedding, Unembedding
from npdl.layers.grouped import GroupedQueryAttention
from npdl.layers.layer_norm import RMSNorm
from npdl.layers.linear import Linear
from npdl.layers.llama import LlamaBlock, SwiGLU
from npdl.layers.rotary import Rotary
from npdl.layers.transformer import Same
from npdl.losses import SequenceLoss
from npdl.models.llama import Llama
from npdl.training_errors import check_loss_shapes
from npdl_train.fast.kernels import (
    BASES,
    blocks,
    column,
    column_sums,
    learns,
    softmax,
    softmax_backward,
)

BLOCK = 32768           # numbers that a chain of elementwise operations takes at a time


def is_supported(model):
    """Whether `step` computes this model: a Llama in NumPy of the textbook's own layers and one
    dtype, whose adapters, and nothing else, learn."""
    if not is_host() or type(model) is not Llama or not all(map(is_plain, model.blocks)):
        return False
    norms = [model.norm, *(norm for block in model.blocks for norm in (block.norm1, block.norm2))]
    tied = [model.classifier] * (type(model.classifier) is Unembedding)
    maps = [layer for block in model.blocks for layer in maps_of(block)]
    maps += [] if tied else [model.classifier]
    bases = list(map(base_of, maps))
    if (type(model.embedding) is not Embedding or any(type(norm) is not RMSNorm for norm in norms)
            or any(type(base) not in (Linear, *BASES) for base in bases)):
        return False
    adapted = [param for layer in maps if type(layer) is LoRALinear for param in (layer.A, layer.B)]
    frozen = [model.embedding.W, *(norm.gain for norm in norms), *(base.b for base in bases),
              *(numbers_of(base) for base in (*bases, *tied))]
    dtypes = {param.data.dtype for param in adapted + frozen if isinstance(param, Param)}
    return any(map(learns, adapted)) and not any(map(learns, frozen)) and len(dtypes) == 1


def is_plain(block):
    """Whether a block and what it is made of are the textbook's, but for the maps and norms."""
    return (type(block) is LlamaBlock and type(block.attention) is GroupedQueryAttention
            and type(block.attention.rotary) is Rotary and type(block.ffn) is SwiGLU
            and type(block.attention.norm_q) is Same)


def maps_of(block):
    """The linear maps of a LlamaBlock."""
    attention, ffn = block.attention, block.ffn
    return [attention.W_Q, attention.W_K, attention.W_V, attention.W_O, ffn.gate, ffn.up, ffn.down]


def base_of(layer):
    """What an adapter stands on, or the map itself."""
    return layer.base if type(layer) is LoRALinear else layer


def numbers_of(base):
    """The Param in whose dtype a map computes."""
    return (base.scale or base.step) if type(base) is QuantLinear else base.W


def learned(maps):
    """The adapters among maps that learn."""
    return [layer for layer in maps
            if type(layer) is LoRALinear and (learns(layer.A) or learns(layer.B))]


def step(model, batch, m, s):
    """SequenceLoss of a Batch, and its gradients added into the adapters."""
    m.reset()
    s.reset()
    ids = checked_tokens(batch.inputs, "Llama", model.max_len)
    x, _ = model.embedding.forward(ids)                         # Llama.forward
    (B, S, D), caches, count = x.shape, [], len(model.blocks)
    adapted = [learned(maps_of(block)) for block in model.blocks] + [learned([model.classifier])]
    first = next(i for i, layers in enumerate(adapted) if layers)
    for layer in itertools.chain(*adapted):
        layer.A.grad[...] = layer.B.grad[...] = 0
    turns = Turns(B, S, x.dtype)
    x = np.ascontiguousarray(x.reshape(-1, D).T)                # x (D, N)
    for i, block in enumerate(model.blocks):
        caches.append(forward_block(block, x, turns, m if i >= first else s, s))
    y, c_norm = norm(model.norm, x, m, m)
    logits, c_classifier = linear(model.classifier, y, m, s)    # logits (V, N)
    loss, dlogits = loss_and_gradient(logits, ids.shape, batch.targets, batch.counted)
    dx = linear_backward(model.classifier, dlogits, c_classifier, m, s, first < count)
    if first < count:                                           # Llama.backward
        dx = norm_backward(model.norm, dx, c_norm, s)
    for i in range(count - 1, first - 1, -1):
        backward_block(model.blocks[i], dx, caches.pop(), turns, s, i > first)
    return loss


class Turns:
    """What all blocks have in common: B sequences of S tokens, the mask, and Rotary's angles."""

    def __init__(self, B, S, dtype):
        self.B, self.S, self.dtype, self.known = B, S, dtype, {}
        seen = np.arange(S) <= np.arange(S)[:, None]            # npdl.layers.attention.causal_mask
        self.hidden = np.where(seen, 0, -math.inf).astype(dtype)

    def of(self, rotary):
        """Rotary.turn's cos (p, N), and its -sin and sin (2, p, N)."""
        key = rotary.d, rotary.rope_theta, rotary.scaling
        if key not in self.known:
            cos, sin = (np.tile(each.T, self.B)
                        for each in rotary.turn(np.arange(self.S), self.dtype))
            self.known[key] = cos, np.stack([-sin, sin])
        return self.known[key]

    def split(self, x, groups, d):
        """GroupedQueryAttention.split: (G n d, N) -> (B, G, n, d, S), a view."""
        return x.reshape(groups, -1, d, self.B, self.S).transpose(3, 0, 1, 2, 4)


# --- LlamaBlock ----------------------------------------------------------------------------------
def forward_block(block, x, turns, m, s):
    """LlamaBlock.forward: x (D, N) becomes y (D, N) -> cache."""
    s.reset()
    attention, ffn = block.attention, block.ffn
    read = (attention.W_Q, attention.W_K, attention.W_V), (ffn.gate, ffn.up)
    n, c_norm1 = norm(block.norm1, x, m, kept(read[0], m, s))
    a, c_attention = attend(attention, n, turns, m, s)
    x += a                                                      # u = x + attention(n)
    n, c_norm2 = norm(block.norm2, x, m, kept(read[1], m, s))
    f, c_ffn = feed_forward(ffn, n, m, s)
    x += f                                                      # y = u + ffn(n)
    return Cache(norm1=c_norm1, attention=c_attention, norm2=c_norm2, ffn=c_ffn)


def kept(maps, m, s):
    """The Arena of what these maps read: an adapter's backward reads it, too."""
    return m if any(type(layer) is LoRALinear for layer in maps) else s


def backward_block(block, dy, cache, turns, s, wanted):
    """LlamaBlock.backward: dy becomes dx, if that is `wanted`."""
    s.reset()
    dn = feed_forward_backward(block.ffn, dy, cache.ffn, s)
    dy += norm_backward(block.norm2, dn, cache.norm2, s)        # du
    dn = attend_backward(block.attention, dy, cache.attention, turns, s, wanted)
    if wanted:
        dy += norm_backward(block.norm1, dn, cache.norm1, s)    # dx


# --- linear maps ---------------------------------------------------------------------------------
def weight_of(base):
    """W (D, E)."""
    if type(base) is Unembedding:
        return base.W.data.T
    return base.W.data if type(base) is Linear else base.weight()


def linear(layer, x, m, s):
    """Linear.forward, Unembedding.forward, LoRALinear.forward: x (D, N) -> y (E, N) of m, cache."""
    base = base_of(layer)
    W = weight_of(base)
    y = np.matmul(W.T, x, out=m.empty(W.shape[1], x.shape[1]))  # y = x W + b
    if type(base) is not Unembedding and isinstance(base.b, Param):
        y += column(base.b.data)
    if base is layer:
        return y, None
    u = layer.A.data.T @ x                                      # u = scale x A
    u *= layer.scale
    with s.scratch:                                             # y = base(x) + u B^T
        y += np.matmul(layer.B.data, u, out=s.empty(*y.shape))
    return y, (x, u)


def linear_backward(layer, dy, cache, m, s, wanted=True):
    """The backward of the same: dy (E, N) -> dx (D, N) of m, or None where it is not `wanted`."""
    dx, base = None, base_of(layer)
    if wanted:
        W = weight_of(base)
        dx = np.matmul(W, dy, out=m.empty(len(W), dy.shape[1]))
    if base is not layer:
        x, u = cache
        layer.B.grad += dy @ u.T                                # low = u B^T
        du = layer.B.data.T @ dy
        du *= layer.scale
        layer.A.grad += x @ du.T                                # u = scale x A
        if wanted:
            with s.scratch:
                dx += np.matmul(layer.A.data, du, out=s.empty(*dx.shape))
    return dx


# --- RMSNorm -------------------------------------------------------------------------------------
def norm(layer, x, m, of_y):
    """RMSNorm.forward: x (D, N) -> y (D, N) of the Arena `of_y`, cache."""
    x_hat, y = m.empty(*x.shape), of_y.empty(*x.shape)
    mean_square = not_infinite(column_sums(np.multiply(x, x, out=y)) / len(x))
    share = 1 / np.sqrt(mean_square + layer.eps)                # 1 / rms (N,)
    np.multiply(x, share, out=x_hat)
    return np.multiply(x_hat, column(layer.gain.data), out=y), (x_hat, share)


def norm_backward(layer, dy, cache, s):
    """RMSNorm.backward: writes over dy and the cache -> dx."""
    x_hat, share = cache
    dy *= column(layer.gain.data)                               # y = gain * x_hat
    with s.scratch:
        stretch = column_sums(np.multiply(dy, x_hat, out=s.empty(*dy.shape))) / len(dy)
    dy -= np.multiply(x_hat, stretch, out=x_hat)
    dy *= share
    return dy


# --- SwiGLU --------------------------------------------------------------------------------------
def feed_forward(layer, x, m, s):
    """SwiGLU.forward: x (D, N) -> y (D, N), cache."""
    g, c_gate = linear(layer.gate, x, m, s)                     # g (M, N)
    u, c_up = linear(layer.up, x, m, s)
    a = kept([layer.down], m, s).empty(*g.shape)
    for part in blocks(*g.shape, BLOCK):
        gate(g[part], u[part], a[part])
    y, c_down = linear(layer.down, a, s, s)
    return y, Cache(gate=c_gate, up=c_up, silu=g, slope=u, down=c_down)


def gate(g, u, a):
    """a = silu(g) * u; g becomes silu(g) and u becomes u silu'(g), what backward reads."""
    s = np.multiply(g, 0.5)
    np.tanh(s, out=s)
    s *= 0.5
    s += 0.5                                                    # s = sigmoid(g)
    g *= s                                                      # silu = g * s
    np.multiply(g, u, out=a)                                    # a = silu * u
    u *= np.add(s, np.multiply(g, np.subtract(1, s)), out=s)    # slope = s + silu (1 - s)


def feed_forward_backward(layer, dy, cache, s):
    """SwiGLU.backward: dy (D, N) -> dx (D, N)."""
    du = linear_backward(layer.down, dy, cache.down, s, s)        # du: da until it is multiplied
    dg = np.multiply(du, cache.slope, out=cache.slope)
    du *= cache.silu
    dx = linear_backward(layer.up, du, cache.up, s, s)
    dx += linear_backward(layer.gate, dg, cache.gate, s, s)
    return dx


# --- GroupedQueryAttention -----------------------------------------------------------------------
def turned(x, turn, m, s, back=False):
    """Rotary.forward of all heads, or its backward: x (H d, N) -> (H d, N) of m."""
    cos, sin = turn
    pairs, y = x.reshape(-1, 2, *cos.shape), m.empty(*x.shape)  # pairs (H, 2, p, N)
    y_pairs = np.multiply(pairs, cos, out=y.reshape(pairs.shape))
    with s.scratch:                                             # a cos - b sin, b cos + a sin
        across = np.multiply(pairs[:, ::-1], sin, out=s.empty(*pairs.shape))
        (np.subtract if back else np.add)(y_pairs, across, out=y_pairs)
    return y


def attend(layer, x, turns, m, s):
    """GroupedQueryAttention.forward: x (D, N) -> y (D, N), cache."""
    turn, groups, d = turns.of(layer.rotary), layer.num_kv_heads, layer.rotary.d
    (q, c_Q), (k, c_K), (v, c_V) = (linear(layer.W_Q, x, s, s), linear(layer.W_K, x, s, s),
                                    linear(layer.W_V, x, m, s))
    h = kept([layer.W_O], m, s).empty(*q.shape)
    q, k, v, heads = (turns.split(each, groups, d)              # (B, G, n, d, S)
                      for each in (turned(q, turn, m, s), turned(k, turn, m, s), v, h))
    A = m.empty(*q.shape[:3], turns.S, turns.S)                 # A (B, G, n, S, S)
    np.matmul(q.swapaxes(-1, -2), k, out=A)
    softmax(A, 1 / math.sqrt(d), turns.hidden, s)
    np.matmul(v, A.swapaxes(-1, -2), out=heads)                 # y = A v
    y, c_O = linear(layer.W_O, h, s, s)
    return y, Cache(Q=c_Q, K=c_K, V=c_V, q=q, k=k, v=v, A=A, O=c_O)


def attend_backward(layer, dy, cache, turns, s, wanted):
    """GroupedQueryAttention.backward: dy (D, N) -> dx (D, N), or None where it is not `wanted`."""
    turn, groups, d = turns.of(layer.rotary), layer.num_kv_heads, layer.rotary.d
    q, k, v, A = cache.q, cache.k, cache.v, cache.A
    dh = linear_backward(layer.W_O, dy, cache.O, s, s)
    dheads, each = turns.split(dh, groups, d), s.empty(*q.shape)
    dv, dk = (s.empty(groups * d, dh.shape[1]) for _ in range(2))
    dA = np.matmul(dheads.swapaxes(-1, -2), v, out=s.empty(*A.shape))
    dscores = softmax_backward(dA, A, 1 / math.sqrt(d), s)
    np.matmul(dheads, A, out=each)                              # y = A v
    each.sum(2, keepdims=True, out=turns.split(dv, groups, d))
    np.matmul(q, dscores, out=each)                             # scores = q k^T
    each.sum(2, keepdims=True, out=turns.split(dk, groups, d))
    np.matmul(k, dscores.swapaxes(-1, -2), out=dheads)          # dq, over dheads
    dQ, dK = turned(dh, turn, s, s, back=True), turned(dk, turn, s, s, back=True)
    dx, dx_k, dx_v = (linear_backward(*each, s, s, wanted) for each in (
        (layer.W_Q, dQ, cache.Q), (layer.W_K, dK, cache.K), (layer.W_V, dv, cache.V)))
    if wanted:
        dx += dx_k
        dx += dx_v
    return dx


# --- the loss ------------------------------------------------------------------------------------
def loss_and_gradient(logits, shape, targets, counted):
    """SequenceLoss.forward and its gradient: logits (V, N) of B, S = `shape`, written over -> the
    loss, dlogits."""
    V, N = logits.shape
    check_loss_shapes((*shape, V), targets, counted)
    weight = SequenceLoss().weights(counted.astype(logits.dtype)).reshape(-1)
    if not counted.all():
        logits[:, ~counted.reshape(-1)] = 0                     # what does not count may be NaN
    place = checked_ids(np.where(counted, targets, 0), V, "targets").reshape(-1), np.arange(N)
    found, top, total = logits[place], logits.max(0), np.zeros(N, logits.dtype)
    for part in blocks(V, N, BLOCK):
        rows = logits[part]
        rows -= top
        total += column_sums(np.exp(rows, out=rows))
    loss = (weight * (np.log(total) + (top - found))).sum()     # nll = -log_p[target]
    logits *= weight / total
    logits[place] -= weight
    return loss, logits
