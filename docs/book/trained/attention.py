"""Tiny models of chapters 9 to 13: deep stacks, a date, two heads, blocks, a GPT that counts."""

import numpy as np

from docs.book.trained.fit import IGNORED, Words, fit, kept, right
from npdl import (
    GELU,
    GPT,
    Embedding,
    LayerNorm,
    LearnedPositions,
    Linear,
    LSTMSeq2Seq,
    MultiHeadAttention,
    Sequential,
    causal_mask,
)
from npdl.data.dates import Dates
from npdl.decoding.continuation import continuation
from npdl.decoding.sampling import greedy
from npdl.functions import softmax


def depth():
    """Train 20 layers on the exclusive or of three bits, with and without LayerNorm."""
    x = np.array([[a, b, c] for a in (-1.0, 1.0) for b in (-1.0, 1.0) for c in (-1.0, 1.0)])
    y = (x > 0).sum(1) % 2
    found = {}
    for name in ("plain", "normed"):
        parts, rng = [Linear(3, 16, rng=0, dtype="float64")], np.random.default_rng(1)
        for _ in range(20):
            parts += [Linear(16, 16, rng=rng, dtype="float64"), GELU()]
            parts += [LayerNorm(16, dtype="float64")] if name == "normed" else []
        model = Sequential(*parts, Linear(16, 2, rng=2, dtype="float64"))
        sizes, a = [], x
        for part in model.layers[:-1]:
            a, _ = part.forward(a)
            if isinstance(part, LayerNorm if name == "normed" else GELU):
                sizes.append(float(a.std()))
        losses = fit(model, lambda step: (x, y), 300, 3e-3)
        found[name] = {"spread": kept(sizes, 4), "losses": kept(losses[::5])}
    return found


def dates():
    """Train an LSTM with attention as chapter 13's translator of dates."""
    data, words = Dates(), Dates.words
    model = LSTMSeq2Seq(len(words.source.characters), len(words.target), 32, 1, 48, rng=0,
                        dtype="float64")

    def batch(step):
        source, lengths, target = data.encoded(*data.draw("train", 48, 0, step))
        return (source, target[:, :-1], lengths), target[:, 1:]

    losses = fit(model, batch, 400, 5e-3)
    text = "Saturday, March 14th, 2015"
    source, lengths, target = data.encoded([text], ["2015-03-14"])
    logits, cache = model.forward(source, target[:, :-1], lengths)
    return {"text": text, "iso": words.decode(logits[0].argmax(-1)),
            "A": kept(cache.decode.attention.A[0][:10], 2), "losses": kept([losses[0], losses[-1]])}


def one_vector():
    """Train models to repeat letters, from one vector or with attention; vary the length."""
    rng, V = np.random.default_rng(0), 10
    found = {"lengths": list(range(2, 13))}

    class OneVector(LSTMSeq2Seq):
        """The memory is there, and nothing of it is read: only the encoder's last state goes on."""

        def decode(self, target, memory, state, lengths=None, rng=None):
            return super().decode(target, 0 * memory, state, lengths, rng)

        def decode_backward(self, dlogits, cache):
            dtarget, dmemory, dstate = super().decode_backward(dlogits, cache)
            return dtarget, 0 * dmemory, dstate

    def copies(rng, count, S):
        source = rng.integers(2, V, (count, S))
        return (source, np.concatenate([np.ones((count, 1), int), source[:, :-1]], 1)), source

    for name, cls in (("one_vector", OneVector), ("attention", LSTMSeq2Seq)):
        model = cls(V, V, 16, 1, 16, rng=0, dtype="float64")
        fit(model, lambda step: copies(rng, 32, 2 + step % 11), 900)
        tests = [copies(np.random.default_rng(S), 200, S) for S in found["lengths"]]
        found[name] = kept([(model.forward(*inputs)[0].argmax(-1) == source).mean()
                            for inputs, source in tests])
    return found


def heads():
    """Train one head and two heads to name the previous letter and the first one of its line."""
    rng, V, S = np.random.default_rng(0), 8, 8
    found = {}
    for H in (1, 2):
        layer = MultiHeadAttention(32, H, rng=3, dtype="float64")

        class Look(Sequential):
            def forward(self, ids):
                x, c_in = self.layers[0].forward(ids)
                y, c_attend = self.attention.forward(x, x, x, causal_mask(ids.shape[1]))
                logits, c_out = self.layers[1].forward(y)
                return logits, (c_in, c_attend, c_out)

            def backward(self, dlogits, cache):
                c_in, c_attend, c_out = cache
                dy = self.layers[1].backward(dlogits, c_out)
                dq, dk, dv = self.attention.backward(dy, c_attend)
                return self.layers[0].backward(dq + dk + dv, c_in)

        enter = Sequential(Embedding(V, 32, rng=1, dtype="float64"),
                           LearnedPositions(S, 32, rng=2, dtype="float64"))
        model = Look(enter, Linear(32, V * V, rng=4, dtype="float64"))
        model.attention = layer

        def batch(step):
            ids = rng.integers(0, V, (32, S))
            targets = np.full((32, S), IGNORED)
            targets[:, 1:] = ids[:, :-1] + V * ids[:, :1]
            return ids, targets

        losses = fit(model, batch, 600, 1e-2)
        ids = batch(0)[0][:1]
        _, (_, c_attend, _) = model.forward(ids)
        found[f"A{H}"] = kept(c_attend.attend.A[0], 2)
        found[f"right{H}"] = kept(right(model, *batch(0)))
        found[f"loss{H}"] = kept(losses[-1])
    return found


UNITS = "one two three four five six seven eight nine".split()
TENS = "twenty thirty forty fifty".split()
COUNTED = UNITS + [word for ten in TENS for word in [ten, *(f"{ten} {unit}" for unit in UNITS)]]


def counting(model, steps=600, each=None, lr=3e-3, S=24, B=16):
    """Train a model to go on counting, in letters: (losses, the words' letters)."""
    text = " ".join(COUNTED[9:]) + " "
    words, rng = Words([text]), np.random.default_rng(0)
    ids = words.ids(text)

    def batch(step):
        starts = rng.integers(0, len(ids) - S - 1, B)
        return (np.stack([ids[s: s + S] for s in starts]),
                np.stack([ids[s + 1: s + S + 1] for s in starts]))

    return fit(model, batch, steps, lr, each=each), words


def letters_of_counting():
    return len(Words([" ".join(COUNTED[9:])]))


def blocks():
    """Train a GPT of six blocks, and return its prediction after each block."""
    model = GPT(letters_of_counting(), 24, 4, 2, max_len=64, norm="pre", activation="relu", rng=0,
                dtype="float64")
    losses, words = counting(model, 500)
    text = "thirty four thirty "
    ids = words.ids(text + "f")[None]
    _, cache = model.forward(ids[:, :-1])
    rows = []
    for c in [*cache.decoder.blocks]:
        y, _ = model.decoder.norm.forward(c.y)
        rows.append(softmax(model.classifier.forward(y)[0][0, -1]))
    rows = np.array(rows)
    top = np.argsort(-rows.max(0))[:5]
    return {"text": text, "letters": [words.words[k] for k in top], "p": kept(rows[:, top], 2),
            "losses": kept([losses[0], losses[-1]])}


def gpt():
    """Train a GPT to count in words, and record its continuations of "twenty one "."""
    model = GPT(letters_of_counting(), 32, 2, 2, max_len=96, norm="pre", activation="relu", rng=0,
                dtype="float64")
    said, shown, words = {}, (0, 100, 800), Words([" ".join(COUNTED[9:])])

    def listen(step):
        if step in shown:
            best, = greedy(continuation(model, words.ids("twenty one ")), 32)
            said[step] = "".join(words.words[k] for k in best.tokens)

    losses, _ = counting(model, 800, listen, S=44, B=8)
    return {"said": said, "losses": kept(losses[::10])}
