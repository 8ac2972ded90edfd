"""A GPT: embedding, positions, a causal decoder, a classifier over the vocabulary."""

from typing import NamedTuple

import numpy as np

from npdl.backend import xp
from npdl.core import Cache, Layer, gradients_of
from npdl.errors import InputError
from npdl.init import generator
from npdl.layers.attention import causal_mask
from npdl.layers.dropout import Dropout
from npdl.layers.embedding import (
    Embedding,
    LearnedPositions,
    SinusoidalPositions,
    Unembedding,
    checked_at,
)
from npdl.layers.linear import Linear
from npdl.layers.transformer import Decoder
from npdl.prefix import PrefixTree

POSITIONS = ("k/d", "2k/d", "learned")


class GPTOutput(NamedTuple):
    """logits (B, S, V), hidden_states (B, L, S, D), attentions (B, L, H, S, S)."""

    logits: object
    hidden_states: object = None
    attentions: object = None


class GPT(Layer):
    """Document 004's GPT by default: fixed positions (exponent k/d), post-norm, GELU.

    forward(ids, at, key_mask, rng) -> GPTOutput, without states where `at` or a tree is given.
    logits(ids, at, key_mask, rng) -> the logits alone, as training uses them.
    ids       (B, S) tokens, or the same batch as a PrefixTree
    at        (R,) or (B, R) positions whose logits are wanted: logits (B, R, V), and neither
              the last block's queries nor its feed-forward net are computed elsewhere
    key_mask  (B, S) True for real tokens, False for padding that no query may see
    Raises InputError for ids out of range and for sequences longer than `max_len`.
    """

    def __init__(self, vocab_size, d_model=128, num_layers=2, num_heads=4, multiplier=4,
                 max_len=64, bias=True, norm="post", activation="gelu", dropout=0.0,
                 positions="k/d", tied=False, padding_id=None, rng=0, dtype="float32",
                 norm_bias=True):
        if positions not in POSITIONS:
            raise InputError(f"positions = {positions!r}; choose one of: {', '.join(POSITIONS)}")
        rng = generator(rng)
        self.embedding = Embedding(vocab_size, d_model, padding_id, rng, dtype)
        if positions == "learned":
            self.positions = LearnedPositions(max_len, d_model, rng, dtype)
        else:
            self.positions = SinusoidalPositions(max_len, d_model, positions, dtype)
        self.decoder = Decoder(num_layers, d_model, num_heads, multiplier, bias, norm,
                               activation, dropout, rng, dtype, norm_bias)
        if tied:
            self.classifier = Unembedding(self.embedding)
        else:
            self.classifier = Linear(d_model, vocab_size, True, rng, dtype)
        self.dropout = Dropout(dropout)
        self.max_len = max_len

    def forward(self, ids, at=None, key_mask=None, rng=None):
        logits, cache = self.logits(ids, at, key_mask, rng)
        if at is not None or isinstance(ids, PrefixTree):
            return GPTOutput(logits), cache
        return GPTOutput(logits, xp.stack(cache.hiddens, 1), xp.stack(cache.weights, 1)), cache

    def logits(self, ids, at=None, key_mask=None, rng=None):
        tree = ids if isinstance(ids, PrefixTree) else None
        ids = np.asarray(ids) if isinstance(ids, (list, tuple)) else ids
        batch_shape = self._checked_shape(ids, tree)
        if tree is not None and at is None:
            at = np.arange(batch_shape[1])
        at = None if at is None else checked_at(at, batch_shape)
        mask = causal_mask(batch_shape[1])
        if key_mask is not None:
            mask = mask & _checked_mask(key_mask, batch_shape)[:, None, None, :]
        x, c_embedding = self.embedding.forward(ids if tree is None else tree.tokens)
        x, c_positions = self.positions.forward(x, None if tree is None else tree.positions)
        x, c_drop = self.dropout.forward(x, rng)
        (x, hiddens, weights), c_decoder = self.decoder.forward(x, mask, at, tree, rng)
        logits, c_classifier = self.classifier.forward(x)
        return logits, Cache(embedding=c_embedding, positions=c_positions, drop=c_drop,
                             decoder=c_decoder, classifier=c_classifier, hiddens=hiddens,
                             weights=weights)

    def backward(self, dout, cache):
        dlogits, dhidden_states, dattentions = gradients_of(dout, 3)
        dx = None if dlogits is None else self.classifier.backward(dlogits, cache.classifier)
        dhiddens = None if dhidden_states is None else dhidden_states.swapaxes(0, 1)
        dweights = None if dattentions is None else dattentions.swapaxes(0, 1)
        dx = self.decoder.backward((dx, dhiddens, dweights), cache.decoder)
        dx = self.dropout.backward(dx, cache.drop)
        dx = self.positions.backward(dx, cache.positions)
        return self.embedding.backward(dx, cache.embedding)

    def _checked_shape(self, ids, tree):
        shape = ids.shape if tree is None else tree.batch_shape
        if len(shape) != 2 or 0 in shape:
            raise InputError(f"GPT: ids have shape {shape}; they must be (B, S), neither of them 0")
        if shape[1] > self.max_len:
            raise InputError(
                f"GPT: sequences of {shape[1]} tokens are longer than max_len = {self.max_len}"
            )
        return shape


def _checked_mask(key_mask, shape):
    mask = xp.asarray(key_mask)
    if mask.shape != shape or mask.dtype.kind != "b":
        raise InputError(f"key_mask is {mask.dtype} {mask.shape}; it must be bool {shape}, like "
                         "the ids, True for real tokens")
    return mask
