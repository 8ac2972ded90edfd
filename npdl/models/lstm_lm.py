"""A language model: embeddings, an LSTM, and logits over the vocabulary."""

from npdl.core import Cache, Layer, checked_gradients
from npdl.errors import checked_tokens
from npdl.init import generator
from npdl.layers.embedding import Embedding
from npdl.layers.linear import Linear
from npdl.layers.recurrent import LSTM


class LSTMLM(Layer):
    """logits = LSTM(embedding(ids)) W + b. The logits at a position predict the next token.

    forward(ids, state, rng, lengths) maps ids (B, S) to (logits (B, S, V), last state). A state is
    (h, c), each (L, B, H), and None means zeros. With `lengths` (B,), the last state is the state
    at the last valid token of each sequence. Tokens after it have no effect on any state or
    gradient, and their logits are the bias b. Raises InputError for ids or lengths out of range.
    """

    def __init__(self, vocab_size, d_model=128, num_layers=2, d_hidden=None, *, bias=True,
                 dropout=0.0, padding_id=None, rng=0, dtype="float32"):
        rng = generator(rng)
        d_hidden = d_model if d_hidden is None else d_hidden
        self.embedding = Embedding(vocab_size, d_model, padding_id=padding_id, rng=rng, dtype=dtype)
        self.lstm = LSTM(d_model, d_hidden, num_layers, bias=bias, dropout=dropout, rng=rng,
                         dtype=dtype)
        self.classifier = Linear(d_hidden, vocab_size, bias=bias, rng=rng, dtype=dtype)

    def forward(self, ids, state=None, rng=None, lengths=None):
        ids = checked_tokens(ids, "LSTMLM")
        x, c_embedding = self.embedding.forward(ids)                    # x (B, S, D)
        (y, state), c_lstm = self.lstm.forward(x, state, rng, lengths)  # y (B, S, H)
        logits, c_classifier = self.classifier.forward(y)               # logits (B, S, V)
        out = (logits, state)
        return out, Cache(embedding=c_embedding, lstm=c_lstm, classifier=c_classifier, out=out)

    def backward(self, dout, cache):
        """Return (None, the gradient of the first state). The ids have no gradient."""
        dlogits, dstate = checked_gradients(dout, cache.out, "LSTMLM")
        dy = self.classifier.backward(dlogits, cache.classifier)
        dx, dstate = self.lstm.backward((dy, dstate), cache.lstm)
        return self.embedding.backward(dx, cache.embedding), dstate
