"""Compute each distinct prefix of a batch once.

In a causal model the activations at position t depend only on the tokens 0 to t. So sequences that
begin with the same tokens have the same activations at these positions. Each distinct prefix
becomes one row:

    BOS 1 + 2 =      shared: 3 rows, for BOS, for BOS 1, and for BOS 1 +
    BOS 1 + 4 =      each sequence: 2 rows, up to the second number and up to "="

These are 7 rows instead of 2 x 5 = 10.

The layers of the model compute the rows. Layers that treat each position separately (embedding,
norms, feed-forward networks, the classifier) take the rows directly. Attention collects the keys
and values of the row and of all its shorter prefixes. A recurrent cell uses the state of the prefix
that is one token shorter. The classifier computes only the *needed* rows, whose logits the loss
reads. The results equal those of the whole batch, except for rounding.
"""

from typing import Any, NamedTuple

import numpy as np

from npdl.core import Cache, Layer
from npdl.errors import InputError, checked_tokens
from npdl.functions import h_of, map_state, sum_by_index
from npdl.layers.attention import MultiHeadAttention, attend, attend_backward
from npdl.layers.transformer import Identity, PreNormBlock
from npdl.losses import check_loss_shapes
from npdl.models.gpt import GPT, GPT2
from npdl.models.lstm_lm import LSTMLM

CAUSAL = (GPT, GPT2, LSTMLM)        # models whose layers can compute rows


class Rows(NamedTuple):
    """The distinct prefixes of a batch (N of them), in order of length.

    tokens     (U,), the tokens of the *words*, which are the distinct pairs (token, position)
    positions  (U,), the positions of the words
    words      (N,), the index of the last word of each prefix
    ancestors  (N, S), ancestors[n, t] is the row of the first t + 1 tokens of prefix n, or n if
               prefix n has fewer tokens
    visible    (N, 1, 1, S), True up to the end of each prefix
    spans      spans[t] is the range (start, stop) of the rows of all prefixes with t + 1 tokens
    parents    parents[t - 1] has an entry for each prefix with t + 1 tokens: the row of the prefix
               without its last token, counted from the row spans[t - 1][0]
    needed     (M,), the rows whose logits the loss reads
    """

    tokens: Any
    positions: Any
    words: Any
    ancestors: Any
    visible: Any
    spans: tuple
    parents: tuple
    needed: Any


def make_prefix_rows(ids, targets, loss_mask):
    """Find the distinct prefixes of a batch (B, S): return (Rows, entries, targets, loss_mask).

    The last three results are (B, C). C is the largest number of unmasked targets in a sequence,
    but at least 1. entries[b, c] is the index in `Rows.needed` of the row that predicts
    targets[b, c]. Unused rows are added to round up the number of rows of each length
    (`round_up_length`).
    """
    B, S = ids.shape
    order = np.lexsort(ids.T[::-1])
    ordered, differs = ids[order], np.ones(ids.shape, bool)
    differs[1:] = np.logical_or.accumulate(ordered[1:] != ordered[:-1], axis=1)
    counts = differs.sum(0)
    sizes = np.array([round_up_length(count) for count in counts])
    ends = np.cumsum(sizes)
    node = np.empty((B, S), np.int64)
    node[order] = np.cumsum(differs, axis=0) - 1 + (ends - sizes)
    # A sequence through each row
    first = np.concatenate([pad_to_rounded_length(order[differs[:, t]]) for t in range(S)])
    positions = np.repeat(np.arange(S), sizes)
    visible = np.arange(S) <= positions[:, None]
    ancestors = np.where(visible, node[first], np.arange(len(first))[:, None])
    spans = tuple((int(end - size), int(end)) for end, size in zip(ends, sizes, strict=True))
    parents = tuple(node[first[start:stop], t] - spans[t][0]
                    for t, (start, stop) in enumerate(spans[1:]))

    places = np.argsort(~loss_mask, axis=1, kind="stable")[:, :max(1, loss_mask.sum(1).max())]
    loss_mask = np.take_along_axis(loss_mask, places, 1)
    read = np.take_along_axis(node, places, 1)
    needed = np.unique(read[loss_mask]) if loss_mask.any() else read[:1, 0]
    entries = np.where(loss_mask, np.searchsorted(needed, read), 0)
    words, words_of_rows = np.unique(np.stack([ids[first, positions], positions]), axis=1,
                                     return_inverse=True)
    tokens, positions = (pad_to_rounded_length(array) for array in words)
    rows = Rows(tokens, positions, words_of_rows.reshape(-1), ancestors, visible[:, None, None],
                spans, parents, pad_to_rounded_length(needed))
    return rows, entries, np.take_along_axis(targets, places, 1), loss_mask


def round_up_length(count):
    """Round `count` up to four significant bits, so that most batches have the same shapes."""
    unit = 1 << max(0, int(count).bit_length() - 4)
    return -(-int(count) // unit) * unit


def pad_to_rounded_length(array):
    """Repeat an array from its start until its length is round_up_length(len(array))."""
    return np.resize(array, round_up_length(len(array)))


class PrefixAttention(MultiHeadAttention):
    """Attention of Rows, x (N, D). A row (a prefix) attends to itself and its shorter prefixes."""

    def forward(self, Q, K, V, mask, rng=None):
        ancestors, visible, *_ = mask                           # ancestors (N, S)
        q, c_Q = self.W_Q.forward(Q)                            # q (N, D)
        k, c_K = self.W_K.forward(K)
        v, c_V = self.W_V.forward(V)
        keys, values = k[ancestors], v[ancestors]               # keys (N, S, D)
        heads, c_attend = attend(self.split_heads(q[:, None]), self.split_heads(keys),
                                 self.split_heads(values), visible, dropout=self.dropout, rng=rng)
        y, c_O = self.W_O.forward(self.join_heads(heads)[:, 0])  # y (N, D)
        return y, Cache(Q=c_Q, K=c_K, V=c_V, ancestors=ancestors, attend=c_attend, O=c_O,
                        size=len(k))

    def backward(self, dy, cache):
        dh = self.W_O.backward(dy, cache.O)
        dq, dkeys, dvalues = attend_backward(
            self.split_heads(dh[:, None]), cache.attend, self.dropout)
        dk = sum_by_index(self.join_heads(dkeys), cache.ancestors, cache.size)     # k[ancestors]
        dv = sum_by_index(self.join_heads(dvalues), cache.ancestors, cache.size)
        dQ = self.W_Q.backward(self.join_heads(dq)[:, 0], cache.Q)
        dK = self.W_K.backward(dk, cache.K)
        dV = self.W_V.backward(dv, cache.V)
        return dQ, dK, dV


class LastAttention(PrefixAttention):
    """PrefixAttention in a LastBlock: only the needed rows have queries, Q (M, D).

    K and V are not used. The third item of the mask is x (N, D), from which the keys and values of
    all rows are computed.
    """

    def forward(self, Q, K, V, mask, rng=None):
        ancestors, visible, x = mask
        return super().forward(Q, x, x, (ancestors, visible), rng)

    def backward(self, dy, cache):
        dQ, dK, dV = super().backward(dy, cache)
        cache.dx = dK + dV                                      # the gradient of x
        return dQ, 0, 0


class LastBlock(Layer):
    """The last block of a GPT. It computes only the rows that the loss reads (`Rows.needed`)."""

    def __init__(self, block):
        self.block = block
        self.norm = block.norm1 if isinstance(block, PreNormBlock) else Identity()

    def forward(self, x, mask, rng=None):
        ancestors, visible, needed = mask
        n, c_norm = self.norm.forward(x)                        # n (N, D), for keys and values
        y, c_block = self.block.forward(x[needed], (ancestors[needed], visible[needed], n))
        return y, Cache(norm=c_norm, block=c_block, needed=needed, size=len(x))

    def backward(self, dy, cache):
        dx = self.block.backward(dy, cache.block)
        dx = sum_by_index(dx, cache.needed, cache.size)
        return dx + self.norm.backward(cache.block.attention.dx, cache.norm)


class PrefixGPT(Layer):
    """The layers of a GPT on Rows (prefixes). forward returns the logits (M, V) of rows.needed."""

    def __init__(self, model):
        model = model._copy(lambda param: param, {})            # the Params are the model's own
        blocks = model.decoder.blocks
        for block in blocks:
            attention = object.__new__(LastAttention if block is blocks[-1] else PrefixAttention)
            vars(attention).update(vars(block.attention))
            block.attention = attention
        blocks[-1] = LastBlock(blocks[-1])
        self.embedding, self.positions = model.embedding, model.positions
        self.decoder, self.classifier = model.decoder, model.classifier

    def forward(self, rows):
        w, c_embedding = self.embedding.forward(rows.tokens)    # w (U, D)
        w, c_positions = self.positions.forward(w, rows.positions)
        x = w[rows.words]                                       # x (N, D)
        x, c_decoder = self.decoder.forward(x, (rows.ancestors, rows.visible, rows.needed))
        logits, c_classifier = self.classifier.forward(x)       # x (M, D)
        return logits, Cache(embedding=c_embedding, positions=c_positions, decoder=c_decoder,
                             classifier=c_classifier, rows=rows)

    def backward(self, dlogits, cache):
        dx = self.classifier.backward(dlogits, cache.classifier)
        dx = self.decoder.backward(dx, cache.decoder)
        dw = sum_by_index(dx, cache.rows.words, len(cache.rows.tokens))     # x = w[words]
        dw = self.positions.backward(dw, cache.positions)
        return self.embedding.backward(dw, cache.embedding)


class PrefixLSTM(Layer):
    """The layers of an LSTMLM on Rows (prefixes). forward returns the logits of rows.needed."""

    def __init__(self, model):
        self.embedding, self.classifier = model.embedding, model.classifier
        self.cells = [layer.cell for layer in model.lstm.layers]

    def forward(self, rows):
        w, c_embedding = self.embedding.forward(rows.tokens)    # w (U, D)
        x, caches = w[rows.words], []                           # x (N, D)
        for cell in self.cells:
            x, steps = self.layer_forward(cell, x, rows)
            caches.append(steps)
        logits, c_classifier = self.classifier.forward(x[rows.needed])
        return logits, Cache(embedding=c_embedding, layers=caches, classifier=c_classifier,
                             rows=rows)

    def layer_forward(self, cell, x, rows):
        """Return (y (N, H), the caches of the steps). Each step computes all rows of one length."""
        ys, steps, state = [], [], None
        for t, (start, stop) in enumerate(rows.spans):
            if t:
                state = map_state(lambda part, t=t: part[rows.parents[t - 1]], state)
            state, step = cell.forward(x[start:stop], state)
            ys.append(h_of(state))
            steps.append(step)
        return np.concatenate(ys), steps

    def backward(self, dlogits, cache):
        rows = cache.rows
        dx = self.classifier.backward(dlogits, cache.classifier)
        dx = sum_by_index(dx, rows.needed, len(rows.words))
        for cell, steps in zip(self.cells[::-1], cache.layers[::-1], strict=True):
            dx = self.layer_backward(cell, dx, steps, rows)
        dw = sum_by_index(dx, rows.words, len(rows.tokens))     # x = w[words]
        return self.embedding.backward(dw, cache.embedding)

    def layer_backward(self, cell, dy, caches, rows):
        """Return dx (N, D). The gradient of a state is summed over all rows that use it."""
        dxs, dstate = [], None
        for t in reversed(range(len(caches))):
            start, stop = rows.spans[t]
            dh = dy[start:stop]
            dstate = (dh, None) if dstate is None else (dstate[0] + dh, dstate[1])
            dx, dstate = cell.backward(dstate, caches[t])
            dxs.append(dx)
            if t:
                size = rows.spans[t - 1][1] - rows.spans[t - 1][0]
                dstate = map_state(lambda part, t=t, size=size: sum_by_index(
                    part, rows.parents[t - 1], size), dstate)
        return np.concatenate(dxs[::-1])


def make_prefix_model(model):
    """Return a layer with the Params of the model, whose forward takes Rows (distinct prefixes)."""
    if type(model) not in CAUSAL:
        raise InputError(f"share_prefixes: {type(model).__name__} is not a GPT, GPT2 or LSTMLM; "
                         "give share_prefixes=False")
    return PrefixLSTM(model) if isinstance(model, LSTMLM) else PrefixGPT(model)


class PrefixRowsCache:
    """Stores the result of `make_prefix_rows`, and returns it again for an equal batch."""

    def __init__(self):
        self._batch, self._rows = (), None

    def get_prefix_rows(self, model, inputs, targets, options=()):
        """Return `make_prefix_rows` of a batch: the stored result if the batch is the same.

        `inputs` is (ids,), and `targets` is (targets, loss_mask). Raises InputError if `options`
        has an item.
        """
        if options:
            raise InputError(f"share_prefixes: the step takes no {', '.join(options)}; leave "
                             "out this option, or give share_prefixes=False")
        batch = *inputs, *targets                               # ids, targets, loss_mask
        if len(self._batch) != 3 or not all(map(np.array_equal, batch, self._batch)):
            checked_tokens(batch[0], type(model).__name__, getattr(model, "max_len", None),
                           model.embedding.W.shape[0])
            check_loss_shapes((*batch[0].shape, model.embedding.W.shape[0]), *targets)
            self._rows = make_prefix_rows(*batch)
            self._batch = tuple(np.array(array) for array in batch)
        return self._rows
