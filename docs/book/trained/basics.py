"""Tiny models of chapters 1 to 4: a line, a bend, probabilities of letters, a week in the plane."""

import numpy as np

from docs.book.trained.fit import Words, fit, kept
from npdl import SGD, Embedding, Linear, Sequential, SquaredError, Tanh
from npdl.functions import softmax

NUMBERS = ("one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
           "fifteen sixteen seventeen eighteen nineteen twenty").split()
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def thermometers():
    """Fit one weight and one bias to five pairs of Celsius and Fahrenheit, both in hundreds."""
    celsius = np.array([[-20.0], [0.0], [15.0], [37.0], [100.0]]) / 100
    fahrenheit = celsius * 1.8 + 0.32
    model, seen = Linear(1, 1, rng=0, dtype="float64"), []
    fit(model, lambda step: (celsius, fahrenheit), 300, loss=SquaredError(),
        optimizer=SGD(model, 0.5), each=lambda step: seen.append(
            (model.W.data[0, 0], 100 * model.b.data[0])))
    shown = (0, 3, 10, 30, 300)
    return {"celsius": kept(100 * celsius[:, 0]), "fahrenheit": kept(100 * fahrenheit[:, 0]),
            "steps": shown, "slopes": kept([seen[n][0] for n in shown]),
            "offsets": kept([seen[n][1] for n in shown])}


def bends():
    """Train two networks on exclusive or, with and without a tanh between the linear layers."""
    x = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    y = np.array([0, 1, 1, 0])
    grid = np.linspace(-0.25, 1.25, 13)
    plane = np.array([[a, b] for b in grid[::-1] for a in grid])
    found = {"grid": kept(grid)}
    for name, between in (("straight", []), ("bent", [Tanh()])):
        model = Sequential(Linear(2, 6, rng=1, dtype="float64"), *between,
                           Linear(6, 2, rng=2, dtype="float64"))
        losses = fit(model, lambda step: (x, y), 600, 2e-2)
        found[name] = kept(softmax(model.forward(plane)[0])[:, 1].reshape(13, 13), 2)
        found[f"{name}_points"] = kept(softmax(model.forward(x)[0])[:, 1])
        found[f"{name}_loss"] = kept(losses[-1])
    return found


def letters():
    """Train a model to predict the next letter in the names of the numbers from one to twenty."""
    words = Words([*NUMBERS, "."])
    pairs = [(a, b) for name in NUMBERS for a, b in zip(name, name[1:] + ".", strict=True)]
    before, after = (words.ids([pair[i] for pair in pairs]) for i in (0, 1))
    model = Embedding(len(words), len(words), rng=0, dtype="float64")
    losses = fit(model, lambda step: (before, after), 400, 5e-2)
    scores = model.forward(words.ids("t"))[0][0]
    counts = np.bincount(after[before == words.ids("t")[0]], minlength=len(words))
    order = np.argsort(-counts, kind="stable")[:7]
    return {"letters": [words.words[k] for k in order], "scores": kept(scores[order]),
            "rest": kept(np.delete(scores, order)), "p": kept(softmax(scores)[order]),
            "counts": counts[order].tolist(), "total": int(counts.sum()),
            "losses": kept([losses[0], losses[-1]])}


def week():
    """Train 2-D embeddings of the seven days, by predicting a day at most one day away."""
    days = np.repeat(np.arange(7), 3)
    beside = (days + np.tile([0, 1, -1], 7)) % 7
    table = Embedding(7, 2, rng=0, dtype="float64")
    model, seen = Sequential(table, Linear(2, 7, bias=False, rng=1, dtype="float64")), []
    losses = fit(model, lambda step: (days, beside), 600, 1e-2,
                 each=lambda step: seen.append(table.W.data.copy()))
    return {"days": DAYS, "before": kept(seen[0]), "points": kept(seen[-1]),
            "p": kept(softmax(model.forward(np.array([0]))[0])[0]),
            "losses": kept([losses[0], losses[-1]])}
