"""Tiny models of chapters 5 to 8: a light, a bracket, a name, a word that what follows explains."""

import numpy as np

from docs.book.trained.fit import IGNORED, Words, fit, kept, right
from npdl import GRU, LSTMLM, RNN, Bidirectional, Embedding, Linear, Sequential
from npdl.functions import softmax

FILLER = "abcdefgh"
BRACKETS = {"(": ")", "[": "]", "{": "}"}


def switch():
    """Train an RNN of 3 units to say whether a light is on: 1 and 0 are its buttons, - is none."""
    rng, words = np.random.default_rng(0), Words(["-01"])
    model = Sequential(Embedding(3, 3, rng=1, dtype="float64"),
                       RNN(3, 3, rng=2, dtype="float64"), Linear(3, 2, rng=3, dtype="float64"))

    def batch(step, S=16):
        ids = words.ids("-01")[rng.choice(3, (32, S), p=(0.7, 0.15, 0.15))]
        ids[:, 0] = words.ids("0")
        last = np.maximum.accumulate(np.where(ids > 0, np.arange(S), 0), 1)
        return ids, np.take_along_axis(ids, last, 1) - 1

    losses = fit(model, batch, 600, 1e-2)
    text = "0--1-----0---1--"
    ids = words.ids(text)[None]
    x, _ = model.layers[0].forward(ids)
    (h, last), cache = model.layers[1].forward(x)
    only_last = np.zeros_like(h)
    only_last[:, -1] = model.layers[2].W.data @ np.array([1.0, -1.0])
    dx, _ = model.layers[1].backward((only_last, None), cache)
    return {"text": text, "h": kept(h[0].T, 2),
            "p": kept(softmax(model.forward(ids)[0][0])[:, 1], 2),
            "reach": kept(np.linalg.norm(dx[0], axis=-1), 12),
            "right": kept(right(model, *batch(0, 300))), "losses": kept([losses[0], losses[-1]])}


def brackets():
    """Train an LSTM to close the bracket that was opened, after any number of letters."""
    rng, words = np.random.default_rng(0), Words([*BRACKETS, *BRACKETS.values(), FILLER])
    model = LSTMLM(len(words), 8, 1, 4, rng=1, dtype="float64")
    counted = words.ids("".join(BRACKETS.values()))

    def pair():
        kind = rng.choice(list(BRACKETS))
        return kind + "".join(rng.choice(list(FILLER), rng.integers(1, 11))) + BRACKETS[kind]

    def batch(step):
        ids = np.array([words.ids((pair() + pair() + 24 * "a")[:24]) for _ in range(24)])
        targets = ids[:, 1:]
        return ids[:, :-1], np.where(np.isin(targets, counted), targets, IGNORED)

    losses = fit(model, batch, 700, 2e-2)
    text = "[abcdefgh](abc)"
    ids = words.ids(text)[None]
    x, _ = model.embedding.forward(ids)
    _, cache = model.lstm.forward(x)
    steps = cache.layers[0].layer.steps
    p = softmax(model.forward(ids)[0][0])[0]
    return {"text": text, **{name: kept([getattr(step, name)[0] for step in steps], 2)
                             for name in "ifog"},
            "c": kept([np.arctanh(step.tanh_c[0]) for step in steps], 2),
            "p": {b: kept(p[:, words.ids(b)[0]], 2) for b in BRACKETS.values()},
            "right": kept(right(model, *batch(0))), "losses": kept([losses[0], losses[-1]])}


NAMES = {"anna": "she", "mary": "she", "lucy": "she", "tom": "he", "john": "he", "paul": "he"}
MIDDLE = "went to the old red house by the sea and sat in the green garden until".split()


def names():
    """Train a GRU to say "he" or "she" at the end of a sentence that began with a name."""
    rng = np.random.default_rng(0)
    words = Words([NAMES, MIDDLE, ["he", "she", "met"]])
    model = Sequential(Embedding(len(words), 6, rng=1, dtype="float64"),
                       GRU(6, 3, rng=2, dtype="float64"), Linear(3, 2, rng=3, dtype="float64"))

    def batch(step):
        who = rng.choice(list(NAMES), 32)
        ids = np.array([words.ids([name, *MIDDLE]) for name in who])
        targets = np.full(ids.shape, IGNORED)
        targets[:, -1] = [NAMES[name] == "she" for name in who]
        return ids, targets

    losses = fit(model, batch, 400, 1e-2)
    shown = {}
    for name in ("anna", "tom"):
        ids = words.ids([name, *MIDDLE])[None]
        (h, _), cache = model.layers[1].forward(model.layers[0].forward(ids)[0])
        shown[name] = {"z": kept([s.z[0] for s in cache.layers[0].layer.steps], 2),
                       "h": kept(h[0], 2), "p": kept(softmax(model.forward(ids)[0][0])[:, 1], 2)}
    return {"words": MIDDLE, **shown, "right": kept(right(model, *batch(0))),
            "losses": kept([losses[0], losses[-1]])}


PLACES = {"river": "shore", "water": "shore", "fish": "shore",
          "money": "house", "town": "house", "street": "house"}


def meanings():
    """Train a forward and a bidirectional RNN on "bank", whose meaning depends on a later word."""
    rng, words = np.random.default_rng(0), Words([PLACES, "we sat on the bank of near".split()])
    kinds = list(PLACES)

    def batch(step):
        texts = [["we", "sat", "on", "the", "bank", rng.choice(["of", "near"]), "the",
                  rng.choice(kinds)] for _ in range(32)]
        ids = np.array([words.ids(text) for text in texts])
        targets = np.full(ids.shape, IGNORED)
        targets[:, 4] = [PLACES[text[-1]] == "shore" for text in texts]
        return ids, targets

    found, test = {"words": "we sat on the bank of the".split(), "last": kinds}, batch(0)
    for name, layer, H in (
            ("forwards", RNN(6, 8, rng=2, dtype="float64"), 8),
            ("both", Bidirectional(RNN(6, 4, rng=2, dtype="float64"),
                                   RNN(6, 4, rng=3, dtype="float64")), 8)):
        model = Sequential(Embedding(len(words), 6, rng=1, dtype="float64"), layer,
                           Linear(H, 2, rng=4, dtype="float64"))
        losses = fit(model, batch, 300, 1e-2)
        ids = np.array([words.ids([*found["words"], last]) for last in kinds])
        found[name] = kept(softmax(model.forward(ids)[0])[:, 4, 1], 2)
        found[f"{name}_right"] = kept(right(model, *test))
        found[f"{name}_loss"] = kept(losses[-1])
    return found
