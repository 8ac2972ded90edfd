"""An LSTM language model's step in one function each way, on the rows of a batch.

Reads the parameters of the textbook's LSTMLM and adds into their gradients. The gates lie one
behind the other, (4, N, H): every operation on one of them goes through memory that belongs
together. A row's state is computed once; where a prefix branches, h W_h is computed once for it
and gathered by its children, whose gradients are summed before they go through W_h again. x W_x
of all positions is one product, in the first layer one row for each word (npdl.fast.prefix), and
so are the gradients of the weights; h W_h is left out where h is zero.
"""

from npdl.backend import is_host, xp
from npdl.core import Cache, Param
from npdl.errors import checked_ids
from npdl.fast.kernels import (
    add_to_table,
    column_sums,
    is_first,
    learns,
    linear,
    linear_backward,
)
from npdl.fast.memory import Arena
from npdl.layers.recurrent import LSTMLayer

ROWS = 512              # whose gates' shares in a product are made and added up at a time


class FastLSTM:
    """forward(rows, needed, masks) -> logits (M, V) of the rows that are needed."""

    def __init__(self, model):
        self.model = model
        self.arena = Arena(model.embedding.W.data.dtype)

    @staticmethod
    def together(model):
        return []

    @staticmethod
    def knows(model):
        return all(type(layer) is LSTMLayer for layer in model.lstm.layers)

    def check(self, ids):
        """LSTMLM.forward's check of the tokens."""
        checked_ids(ids, self.model.embedding.W.shape[0])

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


def by_gate(W):
    """(D, 4H) -> (4, D, H), a view."""
    return W.reshape(len(W), 4, -1).swapaxes(0, 1)


def forward_layer(cell, x, rows, words, m):
    """RecurrentLayer.forward: x of every row (N, D), or of every word -> h of every row (N, H)."""
    N, H = rows.size, cell.d_hidden
    gates, c, tanh_c, h = m.empty(4, N, H), m.empty(N, H), m.empty(N, H), m.empty(N, H)
    with m.scratch:
        z = gates if words is None else m.empty(4, len(x), H)
        z = xp.matmul(x, by_gate(cell.W_x.data), out=z)     # z = x W_x + b
        if isinstance(cell.b, Param):
            z = xp.add(z, cell.b.data.reshape(4, 1, H), out=z)
        if words is not None:
            words.rows.take(z, gates)
    above = {}                                              # c_prev where it had to be gathered
    for run in rows.runs:
        for t in range(run.first, run.stop):                # LSTMCell.forward
            level, c_prev = rows.levels[t], None
            z = gates[:, level]
            if t > 0:
                before, parent = rows.levels[t - 1], run.parent if t == run.first else None
                c_prev = c[before]
                if parent is not None:
                    c_prev = above[t] = parent.take(c_prev, m.empty(run.nodes, H))
                with m.scratch:
                    add_recurrent(z, h[before], cell, parent, m)
            step(z, c_prev, c[level], tanh_c[level], h[level], m)
    return h, Cache(gates=gates, c=c, above=above, tanh_c=tanh_c, h=h)


def add_recurrent(z, h_prev, cell, parent, m):
    """z (4, n, H) += h_prev W_h, gathered from the parents if there is a `parent`."""
    product = m.empty(4, *h_prev.shape)
    product = xp.matmul(h_prev, by_gate(cell.W_h.data), out=product)
    if parent is not None:
        product = parent.take(product, m.empty(*z.shape))
    xp.add(z, product, out=z)


def step(gates, c_prev, c, tanh_c, h, m):
    """LSTMCell.forward after z, which the gates overwrite; c_prev None stands for zeros."""
    sigmoids = gates[:3]
    xp.multiply(sigmoids, 0.5, out=sigmoids)                # sigmoid(z) = 0.5 tanh(0.5 z) + 0.5
    xp.tanh(gates, out=gates)
    xp.multiply(sigmoids, 0.5, out=sigmoids)
    xp.add(sigmoids, 0.5, out=sigmoids)
    i, f, o, g = gates
    xp.multiply(i, g, out=c)
    if c_prev is not None:
        with m.scratch:
            xp.add(c, xp.multiply(f, c_prev, out=m.empty(*c.shape)), out=c)     # f c_prev + i g
    xp.tanh(c, out=tanh_c)
    xp.multiply(o, tanh_c, out=h)                           # h = o * tanh(c)


def backward_layer(cell, dh, cache, rows, words, m):
    """RecurrentLayer.backward: dh of every row (N, H), from above, written over -> dx of every
    row, or of every word; adds into the gradients of the cell."""
    N, H = dh.shape
    dz = m.empty(4, N, H)
    through_time(cell, dh, dz, cache, rows, m)
    if words is not None:
        dz = words.sum(dz, m.empty(4, words.size, H))
    if learns(cell.b):
        cell.b.grad += column_sums(dz).reshape(-1)
    add_by_gate(cell.W_x, cache.x, dz, m)
    return from_gates(dz, cell.W_x.data, m)


def through_time(cell, dh, dz, cache, rows, m):
    """The steps of RecurrentLayer.backward, last to first: fills dz (4, N, H), adds to W_h.grad."""
    H = cell.d_hidden
    dh_next = dc_next = None
    for run in rows.runs[::-1]:
        for t in reversed(range(run.first, run.stop)):
            level, before = rows.levels[t], rows.levels[t - 1] if t else None
            c_prev = cache.above[t] if t in cache.above else cache.c[before] if t else None
            if dh_next is not None:
                xp.add(dh[level], dh_next, out=dh[level])
            dc = m.empty(run.nodes, H)
            step_backward(dz[:, level], dh[level], dc, dc_next, c_prev, cache.gates[:, level],
                          cache.tanh_c[level])
            if t == 0:
                break
            d = dz[:, level]
            dc_next = xp.multiply(dc, cache.gates[1, level], out=dc)        # dc f
            if t == run.first:
                nodes = run.parent.size
                d = run.parent.sum(d, m.empty(4, nodes, H))
                dc_next = run.parent.sum(dc, m.empty(nodes, H))
                add_by_gate(cell.W_h, cache.h[before], d, m)
            dh_next = from_gates(d, cell.W_h.data, m)
        inside = slice(run.rows.start + run.nodes, run.rows.stop)       # with a parent in the run
        if inside.start < inside.stop:
            read = slice(run.rows.start, run.rows.stop - run.nodes)
            add_by_gate(cell.W_h, cache.h[read], dz[:, inside], m)


def step_backward(dz, dh, dc, dc_next, c_prev, gates, tanh_c):
    """LSTMCell.backward up to dz (4, n, H); leaves the gradient of c in dc."""
    i, f, o, g = gates
    dc = xp.multiply(tanh_c, tanh_c, out=dc)
    dc = xp.subtract(1, dc, out=dc)
    dc = xp.multiply(dc, o, out=dc)
    dc = xp.multiply(dc, dh, out=dc)                        # dh * o * (1 - tanh_c**2)
    if dc_next is not None:
        dc = xp.add(dc, dc_next, out=dc)
    xp.subtract(1, gates[:3], out=dz[:3])
    xp.multiply(dz[:3], gates[:3], out=dz[:3])              # dz_i = di * i * (1 - i), and so on
    dz_i, dz_f, dz_o, dz_g = dz
    xp.multiply(dz_i, g, out=dz_i)                          # di = dc * g
    xp.multiply(dz_i, dc, out=dz_i)
    if c_prev is None:
        dz_f[...] = 0
    else:
        xp.multiply(dz_f, c_prev, out=dz_f)                 # df = dc * c_prev
        xp.multiply(dz_f, dc, out=dz_f)
    xp.multiply(dz_o, tanh_c, out=dz_o)                     # do = dh * tanh_c
    xp.multiply(dz_o, dh, out=dz_o)
    xp.multiply(g, g, out=dz_g)
    xp.subtract(1, dz_g, out=dz_g)                          # dz_g = dg * (1 - g**2)
    xp.multiply(dz_g, i, out=dz_g)                          # dg = dc * i
    xp.multiply(dz_g, dc, out=dz_g)


def add_by_gate(W, x, dz, m):
    """W.grad (D, 4H) += x^T dz, from dz (4, N, H)."""
    if not learns(W):
        return
    grad = by_gate(W.grad)
    if is_first(W.grad, m):
        xp.matmul(x.T, dz, out=grad)
        return
    with m.scratch:
        grad += xp.matmul(x.T, dz, out=m.empty(*grad.shape))


def from_gates(dz, W, m):
    """dz W^T (N, D), from dz (4, N, H)."""
    N, D = dz.shape[1], len(W)
    total = m.empty(N, D)
    rows = ROWS if is_host() else N
    for part in (slice(start, min(start + rows, N)) for start in range(0, N, rows)):
        with m.scratch:
            shares = m.empty(4, part.stop - part.start, D)
            shares = xp.matmul(dz[:, part], by_gate(W).swapaxes(1, 2), out=shares)
            xp.add(shares[0], shares[1], out=total[part])
            xp.add(total[part], shares[2], out=total[part])
            xp.add(total[part], shares[3], out=total[part])
    return total
