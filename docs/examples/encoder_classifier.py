"""A class for your own sequences: a transformer encoder over padded batches, a mean, and a linear
layer.

The class says whether token 1 comes before token 2.   python docs/examples/encoder_classifier.py
"""

import numpy as np

import npdl
from npdl.data import pad_with_lengths
from npdl.functions import length_mask


class Classifier(npdl.Layer):
    """ids (B, S), lengths (B,) -> logits (B, C): from the mean output of the valid tokens."""
    def __init__(self, V, C, D=16, max_len=16):
        self.encoder = npdl.Sequential(
            npdl.Embedding(V, D, rng=1), npdl.SinusoidalPositions(max_len, D, exponent="2k/d"),
            npdl.Dropout(0.1), npdl.Encoder([npdl.Block(D, 2, rng=seed) for seed in (2, 4)]))
        self.classifier = npdl.Linear(D, C, rng=3)

    def forward(self, ids, lengths, rng=None):
        real = length_mask(lengths, ids.shape[1])                           # real (B, S)
        y, c_encoder = self.encoder.forward(ids, key_mask=real, rng=rng)    # y (B, S, D)
        share = (real / lengths[:, None])[..., None].astype(y.dtype)
        mean = (y * share).sum(1)                                           # mean (B, D)
        logits, c_classifier = self.classifier.forward(mean)
        return logits, npdl.Cache(encoder=c_encoder, share=share, classifier=c_classifier)

    def backward(self, dlogits, cache):
        dmean = self.classifier.backward(dlogits, cache.classifier)
        dy = dmean[:, None] * cache.share                       # mean = sum over t of y_t share_t
        return self.encoder.backward(dy, cache.encoder)


def draw_texts(count, rng):
    """`count` texts of 3 to 12 tokens: 1 and 2 once, 3 to 8 else; and which of the two is first."""
    found = [rng.permutation([1, 2, *rng.integers(3, 9, n)]) for n in rng.integers(1, 11, count)]
    return *pad_with_lengths(found), np.array([[*t].index(1) < [*t].index(2) for t in found], int)


def main(steps=400):
    rng, model, loss_of = np.random.default_rng(0), Classifier(9, 2), npdl.CrossEntropy()
    optimizer = npdl.AdamW(model, lr=3e-3)
    for _ in range(steps):
        ids, lengths, labels = draw_texts(32, rng)
        logits, cache = model.forward(ids, lengths, rng=rng)    # with rng, dropout is active
        loss, c_loss = loss_of.forward(logits, labels)
        optimizer.zero_grad()
        model.backward(loss_of.backward(1.0, c_loss), cache)
        optimizer.step()
    ids, lengths, labels = draw_texts(500, np.random.default_rng(1))
    accuracy = (model.forward(ids, lengths)[0].argmax(-1) == labels).mean()
    print(f"last loss {loss:.3f}; {len(ids)} new texts, {accuracy:.1%} classified right")
    return accuracy


if __name__ == "__main__":
    with npdl.BLASThreads(1):            # more threads are slower for arrays this small
        main()
