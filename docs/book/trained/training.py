"""Tiny models of chapters 14 to 18: two paths in a valley, where greedy is wrong, what a rank buys,
an addition understood late, an order that holds further than it was taught."""

import csv

import numpy as np

from docs.book.sources import ROOT
from docs.book.trained.fit import IGNORED, Words, fit, kept
from npdl import (
    GPT,
    LSTMLM,
    SGD,
    AdamW,
    Linear,
    Llama,
    Sequential,
    SquaredError,
)
from npdl.adapt.models import add_lora
from npdl.decoding.beam import beam_search
from npdl.decoding.continuation import continuation
from npdl.decoding.sampling import greedy
from npdl.functions import softmax

CURVATURE, START = [1.0, 50.0], [-2.0, 0.6]


def descent(make, steps):
    """Return the path, `steps + 1` points, of an optimizer that descends the valley."""
    model = Linear(1, 2, bias=False, dtype="float64")
    model.W.data[...] = [START]
    optimizer, path = make(model), [model.W.data[0].copy()]
    for _ in range(steps):
        model.W.grad[...] = CURVATURE * model.W.data
        optimizer.step()
        path.append(model.W.data[0].copy())
    return path


def valley():
    """Return the paths of SGD and AdamW in a valley 50 times as steep across as along."""
    makes = {"SGD": lambda model: SGD(model, 0.036),
             "AdamW": lambda model: AdamW(model, 0.1, weight_decay=0.0)}
    return {"curvature": CURVATURE} | {name: kept(descent(make, 60))
                                       for name, make in makes.items()}


SENTENCES = {"the dog runs home": 2, "the cat drinks milk": 2, "the bird sings now": 2,
             "the child plays outside": 2, "a storm is coming": 5}


def sentences():
    """Train a language model of five sentences, and compare greedy search with beam search."""
    texts = [text.split() + ["."] for text, count in SENTENCES.items() for _ in range(count)]
    words = Words([*texts, ["start"]])
    ids = np.array([words.ids(["start", *text]) for text in texts])
    model = LSTMLM(len(words), 12, 1, 12, rng=0, dtype="float64")
    losses = fit(model, lambda step: (ids[:, :-1], ids[:, 1:]), 250, 2e-2)
    scorer = continuation(model, words.ids(["start"]))
    first, = greedy(scorer, 5, eos=int(words.ids(["."])[0]))
    wide = beam_search(scorer, 2, 5, eos=int(words.ids(["."])[0]))

    def told(hypothesis):
        return " ".join(words.words[k] for k in hypothesis.tokens)

    steps = [[[told(h), kept(np.exp(h.log_prob))] for h in step.kept] for step in wide.steps]
    p = softmax(model.forward(words.ids(["start"])[None])[0][0])[0, 0]
    q = softmax(model.forward(words.ids(["start", "the"])[None])[0][0])[0, 1]
    return {"greedy": [told(first), kept(np.exp(first.log_prob))],
            "beam": [told(wide.best), kept(np.exp(wide.best.log_prob))], "steps": steps,
            "first": {w: kept(p[words.ids([w])[0]]) for w in ("the", "a")},
            "second": {w: kept(q[words.ids([w])[0]]) for w in ("dog", "cat", "bird", "child")},
            "losses": kept([losses[0], losses[-1]])}


def ranks():
    """Train adapters of rank 1 to 6, with which a model that fits one curve learns another."""
    x = np.linspace(-2, 2, 64)[:, None]
    features = np.concatenate([np.sin(k * x) for k in range(1, 5)]
                              + [np.cos(k * x) for k in range(1, 5)], 1)
    rng = np.random.default_rng(7)
    mix = rng.standard_normal((8, 8))
    old, new = features @ mix, features @ (mix + rng.standard_normal((8, 3)) @
                                           rng.standard_normal((3, 8)))
    found = {"ranks": [1, 2, 3, 4, 6], "loss": [], "learned": []}
    base = Sequential(Linear(8, 8, rng=0, dtype="float64"))
    base_losses = fit(base, lambda step: (features, old), 600, 3e-2, loss=SquaredError())
    found["base"] = kept(base_losses[-1])
    y, _ = base.forward(features)
    found["before"] = kept(np.square(y - new).mean())
    for rank in found["ranks"]:
        model = Sequential(Linear(8, 8, rng=0, dtype="float64"))
        for (_, p), (_, q) in zip(model.params(), base.params(), strict=True):
            p.data[...] = q.data
        add_lora(model, rank, rng=1)
        losses = fit(model, lambda step: (features, new), 800, 3e-2, loss=SquaredError())
        found["loss"].append(kept(losses[-1]))
        found["learned"].append(sum(p.data.size for _, p in model.params()))
    return found


def late():
    """Return both accuracies of a kept run of the study: the default GPT with seed 42."""
    folder = ROOT / "experiments" / "results" / "study"
    with open(folder / "sanity.csv", encoding="utf-8", newline="") as file:
        rows = [(row["model"], row["recipe"], row["seed"]) for row in csv.DictReader(file)]
    at = rows.index(("gpt", "default", "42"))
    with np.load(folder / "sanity.npz") as arrays:
        found = {"step": arrays["step"].tolist()}
        for name in ("train_accuracy", "validation_accuracy"):
            found[name] = [float(f"{value:.5g}") for value in arrays[name][at]]
    return found


def further():
    """Train models to recall the letter two positions back, and test them on longer lines."""
    V = 6
    found = {"places": list(range(2, 40))}
    for name, model in (
            ("turned", Llama(V, 16, 1, 2, 2, 24, max_len=40, tied=False, rng=0, dtype="float64")),
            ("added", GPT(V, 16, 1, 2, max_len=40, norm="pre", positions="learned",
                          activation="relu", rng=0, dtype="float64"))):
        rng = np.random.default_rng(0)

        def batch(step, S=12, rng=rng):
            ids = rng.integers(0, V, (24, S))
            targets = np.full(ids.shape, IGNORED)
            targets[:, 2:] = ids[:, :-2]
            return ids, targets

        losses = fit(model, batch, 400, 1e-2)
        ids, targets = batch(0, 40)
        share = (model.forward(ids)[0].argmax(-1) == targets)[:, 2:].mean(0)
        found[name] = kept(share)
        found[f"{name}_loss"] = kept(losses[-1])
    return found
