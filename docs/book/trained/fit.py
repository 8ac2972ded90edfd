"""What the tiny models share: how they are trained, in float64, and how their numbers are kept."""

import numpy as np

from npdl import AdamW, CrossEntropy
from npdl.layers.sequential import first

IGNORED = -1


def fit(model, batch, steps, lr=1e-2, *, loss=None, each=None, optimizer=None):
    """Train a model and return its losses.

    batch(step) is (inputs, or a tuple of them, targets), of which IGNORED ones do not count;
    each(step) is called before each step and after the last.
    """
    loss = loss or CrossEntropy(ignored=IGNORED)
    optimizer, losses = optimizer or AdamW(model, lr), []
    for step in range(steps):
        if each:
            each(step)
        inputs, targets = batch(step)
        out, cache = model.forward(*inputs if isinstance(inputs, tuple) else [inputs])
        value, c_loss = loss.forward(first(out), targets)
        optimizer.zero_grad()
        dy = first(loss.backward(1.0, c_loss))
        model.backward((dy, None) if isinstance(out, tuple) else dy, cache)
        optimizer.step()
        losses.append(float(value))
    if each:
        each(steps)
    return losses


def right(model, inputs, targets):
    """Return the accuracy on the unmasked targets."""
    found = first(model.forward(inputs)[0]).argmax(-1)
    counted = targets != IGNORED
    return float((found == targets)[counted].mean())


def kept(values, digits=3):
    """Return arrays and numbers as lists, rounded to `digits`."""
    return np.round(np.asarray(values, float), digits).tolist()


class Words:
    """Words and their ids."""

    def __init__(self, texts):
        self.words = sorted({word for text in texts for word in text})

    def __len__(self):
        return len(self.words)

    def ids(self, text):
        return np.array([self.words.index(word) for word in text])
