"""Layers: a forward each, of which witness takes the slopes."""

import math

import numpy as np

from exercises.references.data import matrix
from exercises.references.functions import logistic, reverse, softmax, times, wide
from exercises.references.table import MOVED, SHOWN, forward, layer, same


@layer("Linear", "FrozenLinear")
def linear(self, x):
    return times(x, matrix(self)) + self.b.data


@layer("Dropout")
def dropout(self, x, rng=None):
    if rng is None or not self.rate:
        return wide(x)
    return np.array([v / (1 - self.rate) if u >= self.rate else 0.0 for v, u in
                     zip(wide(x).flat, rng.random(x.shape).flat, strict=True)]).reshape(x.shape)


@layer("Same")
def unchanged(self, x):
    return wide(x)


@layer("Replace")
def replaced(self, h, m):
    return wide(m)


@layer("Softmax")
def softmax_layer(self, x, visible=None):
    return softmax(x, visible)


@layer("Sigmoid")
def sigmoid_layer(self, x):
    return logistic(x)


@layer("Tanh")
def tanh(self, x):
    return 1 - 2 * logistic(-2 * wide(x))


@layer("ReLU")
def relu(self, x):
    return np.where(wide(x) > 0, wide(x), 0)


@layer("GELU")
def gelu(self, x):
    x = wide(x)
    return x * np.array([math.erfc(-v / math.sqrt(2)) / 2 for v in x.flat]).reshape(x.shape)


@layer("ThresholdNeuron")
def threshold(self, x):
    return np.where(times(x, self.W.data) + self.b.data >= 0, 1.0, 0.0)


@layer("XOR")
def xor(self, x):
    return (wide(x)[..., :1] != wide(x)[..., 1:]).astype(float)


@layer("LayerNorm")
def layer_norm(self, x):
    x, y = wide(x), np.empty(np.shape(x))
    for i in np.ndindex(x.shape[:-1]):
        mean = math.fsum(x[i]) / len(x[i])
        variance = math.fsum((v - mean) ** 2 for v in x[i]) / len(x[i])
        y[i] = (x[i] - mean) / math.sqrt(variance + self.eps)
    return y * self.gain.data + self.bias.data


@layer("BatchNorm")
def batch_norm(self, x, training=True):
    x, y = wide(x), np.empty(np.shape(x))
    for c in range(x.shape[1]):
        own = x[:, c]
        mean = math.fsum(own.flat) / own.size if training else self.running_mean.data[c]
        variance = (math.fsum((v - mean) ** 2 for v in own.flat) / own.size if training
                    else self.running_var.data[c])
        y[:, c] = (own - mean) / math.sqrt(variance + self.eps)
        if self.gain is not None:
            y[:, c] = y[:, c] * self.gain.data[c] + self.bias.data[c]
    return y


def running(self, x, training=True):
    """[(the running statistics' Param, what it holds after a forward)]."""
    own = [wide(x)[:, c].ravel() for c in range(x.shape[1])]
    means = [math.fsum(values) / len(values) for values in own]
    variances = [math.fsum((v - mean) ** 2 for v in values) / max(1, len(values) - 1)
                 for values, mean in zip(own, means, strict=True)]
    share = self.momentum if training else 0
    return [(param, (1 - share) * wide(param.data) + share * np.array(now)) for param, now in
            ((self.running_mean, means), (self.running_var, variances))]


MOVED["BatchNorm"] = running


@same("layers.batch_norm", "statistics")
def statistics(x, kind, groups=1):
    x = wide(x)
    over = {"batch": (0, 2), "layer": (1, 2), "instance": (2,)}.get(kind, kind)
    over = {axis % x.ndim for axis in over if axis < x.ndim}
    shape = tuple(1 if axis in over else n for axis, n in enumerate(x.shape))
    groups = {i: [] for i in np.ndindex(shape)}
    for i in np.ndindex(x.shape):
        groups[tuple(0 if axis in over else n for axis, n in enumerate(i))].append(x[i])
    means = {i: math.fsum(own) / len(own) for i, own in groups.items()}
    variances = [math.fsum((v - means[i]) ** 2 for v in own) / len(own)
                 for i, own in groups.items()]
    return np.reshape(list(means.values()), shape), np.reshape(variances, shape)


def rnn_cell(self, x, h):
    return np.tanh(times(x, self.W_x.data) + times(h, self.W_h.data) + self.b.data)


def gru_cell(self, x, h):
    a, u = times(x, self.W_x.data) + self.b.data, times(h, self.W_h.data)
    H = h.shape[1]
    z, r = (logistic(a[:, k * H:k * H + H] + u[:, k * H:k * H + H]) for k in (0, 1))
    return h + z * (np.tanh(a[:, 2 * H:] + r * u[:, 2 * H:]) - h)


def lstm_cell(self, x, state):
    h, c = state
    a = times(x, self.W_x.data) + times(h, self.W_h.data) + self.b.data
    i, f, o, g = (a[:, k * h.shape[1]:(k + 1) * h.shape[1]] for k in range(4))
    c = logistic(f) * c + logistic(i) * np.tanh(g)
    return logistic(o) * np.tanh(c), c


CELLS = {"RNNCell": rnn_cell, "GRUCell": gru_cell, "LSTMCell": lstm_cell}


@layer(*CELLS)
def cell(self, x, state=None):
    x, none = wide(x), np.zeros((len(x), self.d_hidden))
    state = state[0] if isinstance(state, (tuple, list)) and len(state) == 1 else state
    if type(self).__name__ == "LSTMCell":
        state = (none, none) if state is None else (wide(state[0]), wide(state[1]))
    else:
        state = none if state is None else wide(state)
    return CELLS[type(self).__name__](self, x, state)


@layer("RecurrentLayer")
def recurrent_layer(self, x, state=None, lengths=None):
    x, pair = wide(x), type(self.cell).__name__ == "LSTMCell"
    if lengths is None:
        ys = []
        for t in range(x.shape[1]):
            state = cell(self.cell, x[:, t], state)
            ys.append(state[0] if pair else state)
        return np.stack(ys, 1), state
    y, lasts = np.zeros((*x.shape[:2], self.cell.d_hidden)), []
    for b in range(len(x)):                                 # each sequence by itself
        own = None
        if state is not None:
            own = tuple(s[b:b + 1] for s in state) if pair else state[b:b + 1]
        elif not lengths[b]:
            own = (np.zeros((1, y.shape[2])),) * 2 if pair else np.zeros((1, y.shape[2]))
        for t in range(lengths[b]):
            own = cell(self.cell, x[b:b + 1, t], own)
            y[b, t] = own[0][0] if pair else own[0]
        lasts.append(own)
    last = tuple(np.concatenate(part) for part in zip(*lasts, strict=True)) if pair \
        else np.concatenate(lasts)
    return y, last


@layer("Recurrent")
def recurrent(self, x, state=None, rng=None, lengths=None):
    pair, lasts = type(self.layers[0].cell).__name__ == "LSTMCell", []
    for k, below in enumerate(self.layers):
        x = dropout(self.dropout, x, rng) if k else x
        own = None
        if state is not None:
            own = (state[0][k], state[1][k]) if pair else state[k]
        x, last = recurrent_layer(below, x, own, lengths)
        lasts.append(last)
    return x, (tuple(np.stack(p) for p in zip(*lasts, strict=True)) if pair else np.stack(lasts))


@layer("Bidirectional")
def bidirectional(self, x, state=None, rng=None, lengths=None):
    ahead, back = (None, None) if state is None else state
    y, last = recurrent(self.ahead, x, ahead, rng, lengths)
    z, first = recurrent(self.back, reverse(wide(x), lengths), back, rng, lengths)
    return np.concatenate([y, reverse(z, lengths)], -1), (last, first)


def looked(scores, v, mask=None):
    """sum_s A_s v_s for each query, A the softmax of its scores over the visible keys s."""
    visible = np.broadcast_to(True if mask is None else mask, scores.shape)
    largest = np.max(scores, -1, keepdims=True, initial=-math.inf, where=visible)
    e = np.where(visible, np.exp(scores - largest), 0)
    total = e.sum(-1, keepdims=True)
    return np.einsum("...ts,...sd->...td", e / np.where(total, total, 1), v, optimize=False)


@same("layers.attention", "attend")
def attend(q, k, v, mask=None, scale=None):
    q, k, v = wide(q), wide(k), wide(v)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = scale * np.einsum("...td,...sd->...ts", q, k, optimize=False)
    if mask is not None:
        scores = scores + np.zeros(np.shape(mask))          # a mask may have more heads
    return looked(scores, v, mask)


@layer("ScaledDotAttention")
def scaled_dot(self, q, k, v, mask=None):
    return attend(q, k, v, mask)


@layer("DotAttention")
def dot(self, q, k, v, mask=None):
    return attend(q, k, v, mask, 1.0)


@layer("AdditiveAttention")
def additive(self, q, k, v, mask=None):
    u, w = forward(self.W_q, q)[..., :, None, :], forward(self.W_k, k)[..., None, :, :]
    return looked((np.tanh(u + w) * wide(self.a.data)).sum(-1), wide(v), mask)


@layer("MultiHeadAttention")
def heads(self, Q, K, V, mask=None):
    q, k, v = forward(self.W_Q, Q), forward(self.W_K, K), forward(self.W_V, V)
    H, d = self.num_heads, q.shape[-1] // self.num_heads
    mask = np.broadcast_to(True if mask is None else mask, (len(q), H, q.shape[1], k.shape[1]))
    parts = [attend(*(a[..., h * d:h * d + d] for a in (q, k, v)), mask[:, h]) for h in range(H)]
    return forward(self.W_O, np.concatenate(parts, -1))


@same("layers.attention", "MultiHeadAttention.split")
def split(self, x):
    d = x.shape[2] // self.num_heads
    return np.stack([x[:, :, h * d:h * d + d] for h in range(self.num_heads)], 1)


@same("layers.attention", "MultiHeadAttention.join")
def join(self, x):
    return np.concatenate([x[:, h] for h in range(x.shape[1])], -1)


@same("layers.attention", "causal_mask")
def causal_mask(length):
    return np.array([[key <= query for key in range(length)] for query in range(length)])


@layer("FeedForward")
def feed_forward(self, x):
    return forward(self.down, forward(self.activation, forward(self.up, x)))


@layer("Block")
def block(self, x, mask=None, rng=None):
    u = layer_norm(self.norm1, x + dropout(self.dropout, heads(self.attention, x, x, x, mask), rng))
    return layer_norm(self.norm2, u + dropout(self.dropout, feed_forward(self.ffn, u), rng))


@layer("PreNormBlock")
def pre_norm_block(self, x, mask=None, rng=None):
    n = layer_norm(self.norm1, x)
    u = x + dropout(self.dropout, heads(self.attention, n, n, n, mask), rng)
    return u + dropout(self.dropout, feed_forward(self.ffn, layer_norm(self.norm2, u)), rng)


@layer("DecoderBlock")
def decoder_block(self, x, memory, mask=None, memory_mask=None, rng=None):
    u = layer_norm(self.norm1, x + dropout(self.dropout, heads(self.attention, x, x, x, mask), rng))
    c = dropout(self.dropout, heads(self.cross, u, memory, memory, memory_mask), rng)
    w = layer_norm(self.norm2, u + c)
    return layer_norm(self.norm3, w + dropout(self.dropout, feed_forward(self.ffn, w), rng))


@layer("Decoder", "CrossDecoder")
def decoder(self, x, *given, **named):
    for own in self.blocks:
        x = forward(own, x, *given, **named)
    return forward(self.norm, x)


@layer("Encoder")
def encoder(self, x, key_mask=None, rng=None):
    mask = None if key_mask is None else np.asarray(key_mask)[:, None, None]
    return decoder(self, x, mask, rng)


@layer("Embedding")
def embedding(self, ids):
    ids = np.asarray(ids)
    return np.array([wide(self.W.data)[v] for v in ids.flat]).reshape(*ids.shape, -1)


@same("layers.embedding", "sinusoidal")
def sinusoidal(length, d_model, exponent="k/d", dtype=None):
    wave = (math.sin, math.cos)
    factor = 2 if exponent == "2k/d" else 1
    return np.array([[wave[i % 2](pos / 10000 ** (factor * (i // 2) / d_model))
                      for i in range(d_model)] for pos in range(length)])


@layer("SinusoidalPositions")
def positions(self, x, places=None):
    places = range(x.shape[1]) if places is None else places
    return wide(x) + np.array([wide(self.table)[p] for p in places])


@layer("MessagePassing")
def message_passing(self, h, edges):
    f, N = forward(self.message, h), h.shape[-2]
    e = np.broadcast_to(wide(edges), (*h.shape[:-1], N))
    m = np.stack([sum(e[..., i, j, None] * f[..., j, :] for j in range(N)) for i in range(N)], -2)
    return forward(self.update, h, m)


@layer("AddReLU")
def add_relu(self, h, m):
    return forward(self.own, h) + relu(None, m)


@layer("GraphAttention")
def graph_attention(self, h, neighbours=None):
    q, k, v = (forward(part, h) for part in (self.W_Q, self.W_K, self.passing.message))
    return attend(q, k, v, neighbours, self.scale)


SHOWN[attend] = lambda result, *_: result[0]
