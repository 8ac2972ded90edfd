"""An LSTM language model's step in one function each way, on the rows of a batch.

Reads the parameters of the textbook's LSTMLM and adds into their gradients. The gates lie one
behind the other, (4, N, H): every operation on one of them goes through memory that belongs
together. Their gradients are then put beside each other, (N, 4 H), as one product reads them. A
row's state is computed once; where a prefix branches, h W_h is computed once for it and gathered by
its children, whose gradients are summed before they go through W_h again. x W_x of all positions
is one product, in the first layer one row for each word (npdl_train.fast.prefix), and so are the
gradients of the weights; h W_h is left out where h is zero.
"""

import functools
from collections import namedtuple

import numpy as np

from npdl.backend import is_host, name, xp
from npdl.core import Cache, Param
from npdl.errors import checked_tokens
from npdl.layers.dropout import Dropout
from npdl.layers.embedding import Embedding
from npdl.layers.recurrent import LSTM, LSTMCell, LSTMLayer
from npdl_train.fast import cuda, cuda_lstm, fused
from npdl_train.fast.kernels import (
    BASES,
    MAPS,
    add_matmul,
    add_product,
    add_sum,
    add_to_table,
    apart,
    beside,
    empty_group,
    linear,
    linear_backward,
    products,
)
from npdl_train.fast.memory import Arena

# The layers that the proof (tests/fast/test_fast.py) covers, by the attribute that holds them.
PARTS = {"embedding": (Embedding,), "lstm": (LSTM,), "layers": (LSTMLayer,), "cell": (LSTMCell,),
         "dropout": (Dropout,), "classifier": MAPS, "base": BASES}


class FastLSTM:
    """forward(rows, needed, masks) -> logits (M, V) of the rows that are needed."""

    parts = PARTS

    def __init__(self, model):
        self.model = model
        self.arena = Arena(model.embedding.W.data.dtype)

    @staticmethod
    def together(model):
        return []

    def check(self, ids):
        """LSTMLM.forward's checks of the tokens."""
        checked_tokens(ids, "LSTMLM", size=self.model.embedding.W.shape[0])

    def forward(self, rows, needed, masks=None):            # LSTMLM.forward
        model, m, words = self.model, self.arena, rows.words
        entries, dropout, caches = words or rows, model.lstm.dropout, []
        V, D = model.embedding.W.shape
        x = m.empty(len(entries.tokens), D)
        x = entries.readers("tokens", V).take(model.embedding.W.data, x)
        for layer in model.lstm.layers:
            scale = None
            if caches and masks is not None and dropout.rate:   # between two layers
                scale = masks.scale(dropout, rows, x.shape[1], x.dtype)
                x = xp.multiply(x, scale, out=m.empty(*x.shape))
            h, cache = forward_layer(layer.cell, x, rows, None if caches else words, m)
            cache.x, cache.scale = x, scale
            caches.append(cache)
            x = h
        logits, c_classifier = linear(model.classifier, needed.take(h, m.empty), m)
        return logits, Cache(layers=caches, classifier=c_classifier, rows=rows, needed=needed)

    def backward(self, dlogits, cache):                     # LSTMLM.backward
        model, m, rows = self.model, self.arena, cache.rows
        words, layers = rows.words, model.lstm.layers
        d = linear_backward(model.classifier, dlogits, cache.classifier, m, over=False)
        dh = m.empty(rows.size, d.shape[1])
        dh[...] = 0
        cache.needed.add(d, dh)                                         # dh (N, H)
        for layer, c_layer in zip(layers[::-1], cache.layers[::-1], strict=True):
            first = layer is layers[0]
            dh = backward_layer(layer.cell, dh, c_layer, rows, words if first else None, m)
            if c_layer.scale is not None:
                dh = xp.multiply(dh, c_layer.scale, out=dh)
        embedding = model.embedding
        add_to_table(embedding.W, dh, words or rows, "tokens", m, embedding.padding_id)


@functools.cache                            # never given back: a CUDA graph may read it
def halves(name, dtype):
    """For fused.gates: on NumPy 1/2 and 1/2; on a GPU (4, 1, 1) of 1/2, 1/2, 1/2, 1 and of 1/2,
    1/2, 1/2, 0; `name` is the backend's."""
    if is_host():
        return 0.5, 0.5
    shape = (4, 1, 1)
    return (xp.asarray(np.array([0.5, 0.5, 0.5, 1], dtype).reshape(shape)),
            xp.asarray(np.array([0.5, 0.5, 0.5, 0], dtype).reshape(shape)))


def forward_layer(cell, x, rows, words, m):
    """RecurrentLayer.forward: x of every row (N, D), or of every word -> h of every row (N, H)."""
    N, H = rows.size, cell.d_hidden
    gates, c, tanh_c, h = empty_group(m, 4, N, H), m.empty(N, H), m.empty(N, H), m.empty(N, H)
    with m.scratch:
        z = gates if words is None else m.empty(4, len(x), H)
        z = products(x, cell.W_x.data, z, m)                # z = x W_x + b
        b = cell.b.data.reshape(4, 1, H) if isinstance(cell.b, Param) else None
        if words is not None:
            z, b = z if b is None else xp.add(z, b, out=z), None
            words.rows.take(z, gates)
    above = {}                                              # c_prev where it had to be gathered
    steps, half = m.once(by_step, (gates, c, tanh_c, h), rows.spans), halves(name(), x.dtype.name)
    on_a_gpu = cuda.possible() and len(rows.runs) == 1
    for run in () if on_a_gpu else rows.runs:
        for t in range(run.first, run.stop):                # LSTMCell.forward
            now, before, c_prev = steps[t], steps[t - 1], None
            parent = run.parent if t == run.first else None
            with m.scratch:
                u = recurrent(cell, before.h, parent, run.nodes, m) if t else None
                fused.gates(now.gates, b, u, *half, now.gates[:3] if is_host() else None)
            if t > 0:
                c_prev = before.c
                if parent is not None:
                    c_prev = above[t] = parent.take(c_prev, m.empty(run.nodes, H))
            with m.scratch:
                spare = m.empty(run.nodes, H) if is_host() else None
                fused.state(*now.each, c_prev, now.c, now.tanh_c, now.h, spare)
    if on_a_gpu:
        steps_on_a_gpu(cell, steps, b, m)
    return h, Cache(gates=gates, steps=steps, above=above, h=h)


def steps_on_a_gpu(cell, steps, b, m):
    """LSTMCell.forward of all positions, which no prefix shares: z += h_prev W_h, then a kernel."""
    before = None
    for now in steps:
        z = m.once(beside, (now.gates,))
        if before is not None:
            add_matmul(before.h, cell.W_h.data, z, m)
        cuda_lstm.gates(z, b, before and before.c, now.c, now.tanh_c, now.h)
        before = now


def steps_back_on_a_gpu(cell, steps, gradients, m):
    """LSTMCell.backward of the same: a kernel, then dh_prev += dz W_h^T."""
    last = len(steps) - 1
    dc = m.empty(*steps[last].c.shape)
    for t in range(last, -1, -1):
        now, (dz, _, _, dh) = steps[t], gradients[t]
        c_prev = steps[t - 1].c if t else None
        cuda_lstm.gates_backward(m.once(beside, (now.gates,)), c_prev, now.tanh_c, dh, dc, dz,
                                 t == last)
        if t:
            add_matmul(dz, cell.W_h.data.T, gradients[t - 1][-1], m)


Step = namedtuple("Step", "gates each c tanh_c h")      # the rows of one position, in each array


def by_step(gates, c, tanh_c, h, spans):
    """A Step for each position, whose rows are `spans`; `each` is its gates i, f, o and g."""
    levels = [slice(*span) for span in spans]
    return [Step(gates[:, level], tuple(gates[:, level]), c[level], tanh_c[level], h[level])
            for level in levels]


def gradients_by_step(dz, dh, spans):
    """(dz, the same as (4, n, H), its gates, dh) for each position, whose rows are `spans`."""
    levels = [slice(*span) for span in spans]
    gates = [apart(dz[level], 4) for level in levels]
    return [(dz[level], each, tuple(each), dh[level])
            for level, each in zip(levels, gates, strict=True)]


def recurrent(cell, h_prev, parent, nodes, m):
    """h_prev W_h (4, n, H), gathered from the parents if there is a `parent`."""
    u = products(h_prev, cell.W_h.data, empty_group(m, 4, *h_prev.shape), m)
    return u if parent is None else parent.take(u, m.empty(4, nodes, h_prev.shape[1]))


def backward_layer(cell, dh, cache, rows, words, m):
    """RecurrentLayer.backward: dh of every row (N, H), from above, written over -> dx of every
    row, or of every word; adds into the gradients of the cell."""
    (N, H), D = dh.shape, len(cell.W_x.data)
    out = dh if words is None and D == H else m.empty(N if words is None else words.size, D)
    with m.scratch:
        dz = m.empty(N, 4 * H)
        through_time(cell, dh, dz, cache, rows, m)
        if words is not None:
            dz = words.sum(dz, m.empty(words.size, 4 * H))
        add_sum(cell.b, dz, m)                                      # b.grad += sum_rows(dz)
        add_product(cell.W_x, cache.x, dz, m)                       # W_x.grad += x.T @ dz
        return xp.matmul(dz, cell.W_x.data.T, out=out)              # dx = dz @ W_x.data.T


def through_time(cell, dh, dz, cache, rows, m):
    """The steps of RecurrentLayer.backward, last to first: fills dz (N, 4 H), adds to W_h.grad."""
    H, dh_next, dc_next = cell.d_hidden, None, None
    steps, gradients = cache.steps, m.once(gradients_by_step, (dz, dh), rows.spans)
    on_a_gpu = cuda.possible() and len(rows.runs) == 1
    if on_a_gpu:
        steps_back_on_a_gpu(cell, steps, gradients, m)
    for run in rows.runs[::-1]:
        for t in () if on_a_gpu else reversed(range(run.first, run.stop)):  # LSTMCell.backward
            now, (d, d_apart, d_each, dh_now) = steps[t], gradients[t]
            i, f, o, g = now.each
            dc = m.empty(run.nodes, H)
            c_prev = cache.above[t] if t in cache.above else steps[t - 1].c if t else None
            fused.state_backward(dh_now, dh_next, dc, dc_next, o, now.tanh_c, now.h)
            dc_next = m.empty(run.nodes, H) if t else None
            with m.scratch:
                each = m.empty(4, run.nodes, H) if is_host() else d_each
                fused.gates_backward(*each, i, f, o, g, dc, dh_now, c_prev, now.h, dc_next)
                if is_host():
                    d_apart[...] = each
            if t == 0:
                break
            if t == run.first:
                d = run.parent.sum(d, m.empty(run.parent.size, 4 * H))
                dc_next = run.parent.sum(dc_next, m.empty(run.parent.size, H))
                add_product(cell.W_h, steps[t - 1].h, d, m)         # W_h.grad += h_prev.T @ dz
            dh_next = xp.matmul(d, cell.W_h.data.T, out=m.empty(len(d), H))     # dh_prev = dz W_h^T
        inside = slice(run.rows.start + run.nodes, run.rows.stop)       # with a parent in the run
        if inside.start < inside.stop:
            read = slice(run.rows.start, run.rows.stop - run.nodes)
            add_product(cell.W_h, cache.h[read], dz[inside], m)     # W_h.grad += h_prev.T @ dz
