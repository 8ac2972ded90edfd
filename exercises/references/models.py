"""Whole models."""

import numpy as np

from exercises.references.functions import log_softmax, wide
from exercises.references.layers import (
    bidirectional,
    causal_mask,
    cell,
    decoder,
    dropout,
    embedding,
    recurrent,
    relu,
)
from exercises.references.table import forward, layer


@layer("AttentiveRNN")
def attentive_rnn(self, x, state=None):
    B, H = len(x), self.cell.d_hidden
    h, past = (np.zeros((B, H)), np.zeros((B, 0, H))) if state is None else map(wide, state)
    before = past.shape[1]
    for t in range(x.shape[1]):
        s = cell(self.cell, x[:, t], h)
        if past.shape[1]:
            query = s if self.query == "preliminary" else h
            h = s + forward(self.attention, query[:, None], past, past)[:, 0]
        else:
            h = s
        past = np.concatenate([past, h[:, None]], 1)
    return past[:, before:], (h, past)


@layer("BiRNN")
def birnn(self, x, state=None, lengths=None):
    h, last = bidirectional(self.rnn, x, state, None, lengths)
    H = h.shape[-1] // 2
    return forward(self.V_f, h[..., :H]) + forward(self.V_b, h[..., H:]), last


@layer("BiRNNLoss")
def birnn_loss(self, x, z, state=None, lengths=None):
    y, _ = birnn(self.model, x, state, lengths)
    lengths = [x.shape[1]] * len(x) if lengths is None else lengths
    return sum(((wide(z)[b, t] - y[b, t]) ** 2).sum() for b in range(len(x))
               for t in range(lengths[b]))


@layer("Autoencoder")
def autoencoder(self, x1, x2):
    p = relu(None, forward(self.encoder, np.concatenate([wide(x1), wide(x2)], -1)))
    return p, forward(self.decoder, p), forward(self.classifier, p)


@layer("AutoencoderLoss")
def autoencoder_loss(self, x1, x2, labels):
    _, rebuilt, logits = autoencoder(self.model, x1, x2)
    e = rebuilt - np.concatenate([wide(x1), wide(x2)], -1)
    p = log_softmax(logits)
    return (e**2).sum() / 2 / len(e), -sum(p[b, c] for b, c in enumerate(labels)) / len(e)


@layer("GPT")
def gpt(self, ids, key_mask=None, rng=None):
    mask = causal_mask(np.shape(ids)[1])
    if key_mask is not None:
        mask = mask & np.asarray(key_mask)[:, None, None, :]
    x = dropout(self.dropout, forward(self.positions, embedding(self.embedding, ids)), rng)
    for own in self.decoder.blocks:
        x = forward(own, x, mask, rng)
    return forward(self.classifier, forward(self.decoder.norm, x))


@layer("LSTMLM")
def lstm_lm(self, ids, state=None, rng=None, lengths=None):
    y, last = recurrent(self.lstm, embedding(self.embedding, ids), state, rng, lengths)
    return forward(self.classifier, y), last


@layer("Seq2Seq")
def seq2seq(self, source, target, source_mask=None, target_mask=None, rng=None):
    hidden = [None if m is None else np.asarray(m)[:, None, None]
              for m in (source_mask, target_mask)]
    memory = forward(self.source_positions, embedding(self.source_embedding, source))
    memory = decoder(self.encoder, dropout(self.dropout, memory, rng), hidden[0], rng)
    mask = causal_mask(np.shape(target)[1])
    mask = mask if hidden[1] is None else mask & hidden[1]
    x = forward(self.target_positions, embedding(self.target_embedding, target))
    x = dropout(self.dropout, x, rng)
    return forward(self.classifier, decoder(self.decoder, x, memory, mask, hidden[0], rng))
