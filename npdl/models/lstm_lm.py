"""A language model: embedding, LSTM, a classifier over the vocabulary."""

from typing import NamedTuple

import numpy as np

from npdl.core import Cache, Layer, gradients_of
from npdl.errors import InputError
from npdl.init import generator
from npdl.layers.embedding import Embedding, checked_at, checked_ids
from npdl.layers.lengths import Lookup
from npdl.layers.linear import Linear
from npdl.layers.recurrent import LSTM
from npdl.prefix import PrefixTree, Select


class LSTMOutput(NamedTuple):
    """logits (B, S, V) and the final state (h, c), each (L, B, H)."""

    logits: object
    state: object = None


class LSTMLM(Layer):
    """Document 004's LSTM language model (Problem 1.4).

    forward(ids, state, at, rng, lengths) -> LSTMOutput.
    ids      (B, S) tokens, or the same batch as a PrefixTree (then no state goes in or out)
    state    (h, c), each (L, B, H); zeros if None
    at       (R,) or (B, R) positions whose logits are wanted: logits (B, R, V); the first layer's
             product with W_x is then made once for each token, not at each place where it stands
    lengths  (B,) how many of its S tokens each sequence has: the final state is that of its last
             one, and what stands after it reaches no state and no gradient (the logits there
             are the classifier's bias); not with a tree
    Raises InputError for ids out of range, for states of another shape, for lengths above S.
    """

    def __init__(self, vocab_size, d_model=128, num_layers=2, d_hidden=None, bias=True,
                 dropout=0.0, padding_id=None, rng=0, dtype="float32"):
        rng = generator(rng)
        d_hidden = d_model if d_hidden is None else d_hidden
        self.embedding = Embedding(vocab_size, d_model, padding_id, rng, dtype)
        self.lstm = LSTM(d_model, d_hidden, num_layers, bias, dropout, rng, dtype)
        self.classifier = Linear(d_hidden, vocab_size, bias, rng, dtype)
        self.select = Select()

    def logits(self, ids, at=None, rng=None, lengths=None):
        """forward's logits alone: (logits, cache), as training uses them."""
        out, cache = self.forward(ids, None, at, rng, lengths)
        return out.logits, cache

    def forward(self, ids, state=None, at=None, rng=None, lengths=None):
        tree = ids if isinstance(ids, PrefixTree) else None
        shape = ids.shape if tree is None else tree.batch_shape
        if len(shape) != 2 or 0 in shape:
            raise InputError(f"LSTMLM: ids have shape {shape}; they must be (B, S), neither 0")
        if tree is not None and at is None:
            at = np.arange(shape[1])
        at = None if at is None else checked_at(at, shape)
        x, c_embedding = self._embed(ids, tree, table=at is not None)
        (y, final), c_lstm = self.lstm.forward(x, state, rng, tree, lengths)
        y_at, c_at = self.select.forward(y, at, tree)
        logits, c_classifier = self.classifier.forward(y_at)
        cache = Cache(embedding=c_embedding, lstm=c_lstm, at=c_at, classifier=c_classifier,
                      tree=tree)
        return LSTMOutput(logits, final), cache

    def backward(self, dout, cache):
        """Returns (None, gradient of the initial state, if one was given); ids have none."""
        dlogits, dfinal = gradients_of(dout, 2)
        dy = None
        if dlogits is not None:
            dy_at = self.classifier.backward(dlogits, cache.classifier)
            dy = self.select.backward(dy_at, cache.at)
        dx, dstate = self.lstm.backward((dy, dfinal), cache.lstm)
        if isinstance(dx, Lookup):
            dx = dx.table
        elif cache.tree is None:
            dx = dx.swapaxes(0, 1)
        self.embedding.backward(dx, cache.embedding)
        return None, dstate

    def _embed(self, ids, tree, table):
        """What the first layer reads: x (B, S, D), or a tree's (N, D); as a Lookup in the table
        of all tokens, if `table` is asked for and the vocabulary is smaller than the batch."""
        V = self.embedding.W.shape[0]
        tokens = ids if tree is None else tree.tokens
        if table and V < tokens.size:
            x, cache = self.embedding.forward(np.arange(V))
            return Lookup(x, checked_ids(tokens, V)), cache
        if tree is not None:
            return self.embedding.forward(tokens)
        x, cache = self.embedding.forward(ids.T)    # time-major in memory, batch-first in shape
        return x.swapaxes(0, 1), cache
