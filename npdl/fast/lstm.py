"""An LSTM language model's step on the rows of a batch, products of all steps at once.

Reads the parameters of the textbook's LSTMLM and adds into their gradients. Three things differ:
a row's state is computed once and gathered by its children (npdl.fast.prefix); x W_x + b is one
product before the loop - for the first layer one row for each word of the vocabulary, looked up -
and the gradients of the weights are one product each after it; h W_h is left out where h is zero.
"""

from npdl.backend import one_hot, xp
from npdl.core import Cache
from npdl.fast.kernels import backward, column_sums, forward, sigmoid
from npdl.fast.prefix import select, select_backward


class FastLSTM:
    """forward(rows, at, masks) -> logits (B, R, V) at the positions `at`, or (N, V) if None.

    `rows` is a PrefixTree or Unshared by time, `masks` draws dropout's entries.
    """

    by_time = True              # the order of Unshared rows

    def __init__(self, model):
        self.model = model

    def forward(self, rows, at=None, masks=None):           # LSTMLM.forward
        model, tokens = self.model, rows.tokens
        table, dropout, caches = model.embedding.W.data, model.lstm.dropout, []
        by_word = len(table) < rows.size
        x, scale = table if by_word else table[tokens], None
        for layer in model.lstm.layers:
            cell = layer.cell
            if caches and masks is not None and dropout.rate:   # between two layers
                scale = masks.scale(dropout, rows, x.shape[1], x.dtype)
                x = x * scale
            z = x @ cell.W_x.data
            z = xp.add(z, cell.b.data, out=z)               # z = x W_x + b
            z = z[tokens] if by_word and not caches else z  # z (N, 4H)
            h, cache = forward_layer(cell, z, rows)         # h (N, H)
            cache.x, cache.scale = x, scale
            caches.append(cache)
            x = h
        logits, c_classifier = forward(model.classifier, select(h, rows, at))
        return logits, Cache(layers=caches, classifier=c_classifier, rows=rows, at=at,
                             by_word=by_word)

    def backward(self, dlogits, cache):                     # LSTMLM.backward
        model, rows, embedding = self.model, cache.rows, self.model.embedding
        dh = backward(model.classifier, dlogits, cache.classifier)
        dh = select_backward(dh, rows, cache.at)                        # dh (N, H)
        first = cache.layers[0]
        for layer, c_layer in zip(model.lstm.layers[::-1], cache.layers[::-1], strict=True):
            cell = layer.cell
            dz = backward_layer(cell, dh, c_layer, rows)                # dz (N, 4H)
            if c_layer is first and cache.by_word:
                readers = one_hot(rows.tokens, len(first.x), dz.dtype)
                dz = readers.T @ dz                                     # dz (V, 4H)
            cell.b.grad += column_sums(dz)
            cell.W_x.grad += c_layer.x.T @ dz
            dh = dz @ cell.W_x.data.T
            dh = dh if c_layer.scale is None else dh * c_layer.scale
        if cache.by_word:                                               # dh (V, D): the table's
            if embedding.padding_id is not None:
                dh[embedding.padding_id] = 0
            embedding.W.grad += dh
        else:
            backward(embedding, dh, Cache(ids=rows.tokens))


def forward_layer(cell, z, rows):
    """RecurrentLayer.forward: z = x W_x + b of every row (N, 4H), which the gates overwrite,
    -> h of every row (N, H)."""
    H = cell.d_hidden
    h_prev, c_prev, tanh_c, h = xp.empty((4, len(z), H), z.dtype)
    c = None
    for t, level in enumerate(rows.levels):                 # LSTMCell.forward
        gates = z[level]
        if t == 0:
            h_prev[level] = c_prev[level] = 0
        else:
            h_prev[level] = rows.from_parent(t, h[rows.levels[t - 1]])
            c_prev[level] = rows.from_parent(t, c)
            gates += h_prev[level] @ cell.W_h.data
        sigmoid(gates[:, : 3 * H])
        xp.tanh(gates[:, 3 * H :], out=gates[:, 3 * H :])
        i, f, o, g = (gates[:, k * H : (k + 1) * H] for k in range(4))
        c = f * c_prev[level]
        c += i * g
        xp.tanh(c, out=tanh_c[level])
        xp.multiply(o, tanh_c[level], out=h[level])
    return h, Cache(gates=z, h_prev=h_prev, c_prev=c_prev, tanh_c=tanh_c)


def backward_layer(cell, dh, cache, rows):
    """RecurrentLayer.backward: dh of every row (N, H), from above, -> dz (N, 4H); adds into the
    gradient of W_h."""
    H = cell.d_hidden
    dz = xp.empty_like(cache.gates)
    dh_next = dc = None
    for t, level in reversed(list(enumerate(rows.levels))):  # LSTMCell.backward
        i, f, o, g = (cache.gates[level, k * H : (k + 1) * H] for k in range(4))
        tanh_c, d = cache.tanh_c[level], dh[level]
        d = d if dh_next is None else d + dh_next
        slope = 1 - tanh_c * tanh_c
        slope *= o
        slope *= d
        dc = slope if dc is None else dc + slope            # dc + dh * o * (1 - tanh_c**2)
        sigmoids, out = cache.gates[level, : 3 * H], dz[level]
        xp.subtract(1, sigmoids, out=out[:, : 3 * H])       # dz_i = di * i * (1 - i), and so on
        out[:, : 3 * H] *= sigmoids
        out[:, :H] *= dc * g
        out[:, H : 2 * H] *= dc * cache.c_prev[level]
        out[:, 2 * H : 3 * H] *= d * tanh_c
        xp.multiply(dc * i, 1 - g * g, out=out[:, 3 * H :])
        if t > 0:
            dh_next = rows.to_parent(t, out @ cell.W_h.data.T)
            dc = rows.to_parent(t, dc * f)
    fed = slice(rows.levels[0].stop, None)                  # the first level read zeros
    cell.W_h.grad += cache.h_prev[fed].T @ dz[fed]
    return dz
