"""Small compositions of npdl's layers that the tests check as one layer."""

from npdl.core import Cache, Layer
from npdl.layers.embedding import Embedding, Unembedding
from npdl.losses import SequenceLoss


class WithLoss(Layer):
    """A language model and its loss: forward(ids, targets, counted, **options) -> the loss."""

    def __init__(self, model, reduction="mean", average="sample"):
        self.model = model
        self.loss = SequenceLoss(reduction, average)

    def forward(self, ids, targets, counted, **options):
        out, c_model = self.model.forward(ids, **options)
        logits = out[0] if isinstance(out, tuple) else out
        loss, c_loss = self.loss.forward(logits, targets, counted)
        return loss, Cache(model=c_model, loss=c_loss)

    def backward(self, dloss, cache):
        dlogits = self.loss.backward(dloss, cache.loss)
        return self.model.backward(dlogits, cache.model)


class TiedPair(Layer):
    """ids -> W[ids] -> W[ids] W^T: both uses of one tied table."""

    def __init__(self, vocab_size, d_model, rng, dtype="float32"):
        self.embedding = Embedding(vocab_size, d_model, rng=rng, dtype=dtype)
        self.unembedding = Unembedding(self.embedding)

    def forward(self, ids):
        x, c_embedding = self.embedding.forward(ids)
        y, c_unembedding = self.unembedding.forward(x)
        return y, Cache(embedding=c_embedding, unembedding=c_unembedding)

    def backward(self, dy, cache):
        dx = self.unembedding.backward(dy, cache.unembedding)
        return self.embedding.backward(dx, cache.embedding)
