"""A label for every token of your own sequences: a bidirectional LSTM over padded batches.

The label says whether the same token occurs again later (1), occurred before (2), both (3) or
neither (0). An LSTM that reads in one direction can't compute all four.

    python docs/examples/bilstm_tagger.py
"""

import numpy as np

import npdl
from npdl import LSTM
from npdl.data import pad_with_lengths

V, D, H, TAGS, NOT_A_TAG = 8, 16, 24, 4, -1


def draw_sentences(count, rng):
    """`count` sentences of 2 to 9 tokens below V, and their tags."""
    words = [rng.integers(0, V, rng.integers(2, 10)) for _ in range(count)]
    tags = [[(w in s[t + 1 :]) + 2 * (w in s[:t]) for t, w in enumerate(s)] for s in words]
    return words, tags


def main(steps=500):
    rng = np.random.default_rng(0)
    model = npdl.Sequential(npdl.Embedding(V, D, rng=1),
                            npdl.Bidirectional(LSTM(D, H, rng=2), LSTM(D, H, rng=3)),
                            npdl.Linear(2 * H, TAGS, rng=4))
    loss_of = npdl.CrossEntropy(ignored=NOT_A_TAG)               # the loss skips padding
    optimizer = npdl.AdamW(model, lr=1e-2)

    for step in range(steps):
        words, tags = draw_sentences(32, rng)
        ids, lengths = pad_with_lengths(words)
        targets, _ = pad_with_lengths(tags, NOT_A_TAG)
        logits, cache = model.forward(ids, lengths=lengths)         # logits (B, S, TAGS)
        loss, c_loss = loss_of.forward(logits, targets)
        optimizer.zero_grad()
        model.backward(loss_of.backward(1.0, c_loss), cache)
        npdl.clip_by_global_norm(optimizer.params.values(), 1.0)
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step}: loss {loss:.3f}")

    words, tags = draw_sentences(500, np.random.default_rng(1))     # it was not trained on these
    ids, lengths = pad_with_lengths(words)
    logits, _ = model.forward(ids, lengths=lengths)
    targets, _ = pad_with_lengths(tags, NOT_A_TAG)
    counted = targets != NOT_A_TAG
    accuracy = (logits.argmax(-1) == targets)[counted].mean()
    print(f"{counted.sum()} new tokens, {accuracy:.1%} tagged right")
    return accuracy


if __name__ == "__main__":
    with npdl.BLASThreads(1):            # more threads are slower for arrays this small
        main()
