"""The chapters' pictures that have axes: every number in them is npdl's own."""

import numpy as np

from docs.book.drawing import Drawing
from npdl import GELU, Adam, CrossEntropy, Linear, ReLU, Sigmoid, Tanh
from npdl.layers.embedding import sinusoidal


def axes(draw, place, xs, ys, x_marks, y_marks):
    """Draw grid lines and their labels; return the function from (x, y) to a point of the drawing.

    place    (left, bottom, width, height)
    xs, ys   the ends of the axes; marks are {value: words}
    """
    left, bottom, width, height = place

    def at(x, y):
        return (left + width * (x - xs[0]) / (xs[1] - xs[0]),
                bottom - height * (y - ys[0]) / (ys[1] - ys[0]))

    for value, words in y_marks.items():
        draw.line([at(xs[0], value), at(xs[1], value)], "thin")
        draw.text(left - 10, at(xs[0], value)[1], words, "small", "end")
    for value, words in x_marks.items():
        draw.text(at(value, ys[0])[0], bottom + 20, words, "small")
    return at


def slopes():
    """Draw the activations and their derivatives."""
    caption = ("Four activations and (dashed) their slopes, from npdl's forward and backward. "
               "Where the dashed line is at 0 no gradient passes.")
    draw, x = Drawing(350, 380, caption), np.linspace(-4, 4, 161)
    for i, layer in enumerate((Sigmoid(), Tanh(), ReLU(), GELU())):
        y, cache = layer.forward(x)
        dx = layer.backward(np.ones_like(x), cache)
        left, bottom = 36 + 170 * (i % 2), 155 + 190 * (i // 2)
        at = axes(draw, (left, bottom, 132, 120), (-4, 4), (-1, 2),
                   {v: f"{v}".replace("-", "−") for v in (-4, -2, 0, 2, 4)},
                   {v: f"{v}".replace("-", "−") for v in (-1, 0, 1, 2)})
        draw.text(left + 66, bottom - 136, type(layer).__name__)
        seen = y <= 2
        draw.line([at(*point) for point in zip(x[seen], y[seen], strict=True)])
        draw.line([at(*point) for point in zip(x, dx, strict=True)], "back")
    return draw.svg(), caption


def pulls():
    """Draw scores, their probabilities, and the gradient of the loss with respect to the scores."""
    caption = ("Five scores, their probabilities, and the gradient of the loss in the scores when "
               "the second word is the right one, from npdl: its score is pulled up by as much as "
               "all others together are pushed down.")
    z = np.array([[1.6, 0.9, 0.2, -0.4, -1.2]])
    loss = CrossEntropy()
    _, cache = loss.forward(z, np.array([1]))
    draw = Drawing(350, 3 * 220, caption)
    for top, name, values in ((0, "scores z", z[0]), (220, "p", np.exp(cache.log_p[0])),
                               (440, "dz = p − q", loss.backward(1.0, cache)[0])):
        draw.text(175, top + 14, name)
        draw.line([(40, top + 130), (310, top + 130)], "thin")
        scale = 45 if top == 0 else 95
        for k, value in enumerate(values):
            x, y = 67 + 54 * k, top + 130 - scale * value
            draw.box(x, (top + 130 + y) / 2, "", 22, abs(scale * value), "hot" if k == 1 else "")
            draw.text(x, y - 10 if value > 0 else y + 11, f"{value:.2f}".replace("-", "−"), "small")
    return draw.svg(), caption


def positions():
    """Draw the matrix of sinusoidal positions."""
    caption = ("sinusoidal(24, 32): a row for each place, a column for each entry of its vector, "
               "the fuller the larger. Entries come in pairs of a sine and a cosine, from fast "
               "waves on the left to slow ones on the right: no two rows are alike.")
    table, size = sinusoidal(24, 32), 9
    draw = Drawing(32 * size + 58, 24 * size + 40, caption)
    for r, row in enumerate(table):
        if r % 4 == 0:
            draw.text(30, 30 + size * (r + 0.5), f"{r}", "small")
        for c, value in enumerate(row):
            draw.cell(50 + size * c, 30 + size * r, (1 + float(value)) / 2, size)
    for c in range(0, 32, 4):
        draw.text(50 + size * (c + 0.5), 16, f"{c}", "small")
    return draw.svg(), caption


def first_steps(steps=3000):
    """Draw Adam's steps for a constant gradient, with and without the bias corrections."""
    caption = ("Adam under a gradient that does not change: the length of each step in units of "
               "the learning rate, and (dashed) what it would be without the two corrections, "
               "over logarithmic steps.")
    model = Linear(1, 1, bias=False).astype("float64")
    adam, taken, bare = Adam(model, lr=1e-3), [], []
    for _ in range(steps):
        before = model.W.data[0, 0]
        model.W.grad[...] = 5.0
        adam.step()
        taken.append((before - model.W.data[0, 0]) / adam.lr)
        bare.append(adam.m["W"][0, 0] / np.sqrt(adam.v["W"][0, 0]))
    draw = Drawing(350, 250, caption)
    at = axes(draw, (36, 200, 290, 170), (0, np.log10(steps)), (0, 7),
               {power: f"{10**power:,}" for power in range(4)},
               {v: f"{v}" for v in (0, 1, 3, 5, 7)})
    draw.text(180, 240, "step", "small")
    for values, kind in ((taken, ""), (bare, "back")):
        draw.line([at(np.log10(t), value) for t, value in enumerate(values, 1)], kind)
    return draw.svg(), caption
