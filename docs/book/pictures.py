"""The pictures beside graphs and trained models; every number in them is npdl's own."""

import numpy as np

from docs.book.drawing import BLUE, INK, Drawing, figure, matrix, write_values
from npdl import (
    GELU,
    GPT,
    Adam,
    CrossEntropy,
    Linear,
    ReLU,
    Rotary,
    Sigmoid,
    Tanh,
    causal_mask,
)
from npdl.layers.embedding import sinusoidal


def slopes():
    """Draw the activations and their derivatives."""
    caption = ("Four activations and (dashed) their derivatives, from npdl's forward and "
               "backward. Where the dashed line is at 0, no gradient passes.")
    made, axes = figure(380, 2, 2)
    x = np.linspace(-4, 4, 161)
    for axis, layer in zip(axes.flat, (Sigmoid(), Tanh(), ReLU(), GELU()), strict=True):
        y, cache = layer.forward(x)
        axis.plot(x, y)
        axis.plot(x, layer.backward(np.ones_like(x), cache))
        axis.set(title=type(layer).__name__, ylim=(-1.1, 2), xticks=[-4, -2, 0, 2, 4],
                 yticks=[-1, 0, 1, 2])
        axis.grid(alpha=0.35, linestyle=":", color=INK)
    return made, caption


def pulls():
    """Draw scores, their probabilities, and the gradient of the loss with respect to the scores."""
    caption = ("Five scores, their probabilities, and the gradient of the loss with respect to "
               "the scores, computed by npdl. The second word is correct: a gradient step raises "
               "its score by as much as it lowers all others together.")
    z = np.array([[1.6, 0.9, 0.2, -0.4, -1.2]])
    loss = CrossEntropy()
    _, cache = loss.forward(z, np.array([1]))
    made, axes = figure(560, 3)
    for axis, name, values in zip(axes, ("scores z", "p", "dz = p − q"), (
            z[0], np.exp(cache.log_p[0]), loss.backward(1.0, cache)[0]), strict=True):
        colours = [(BLUE, 0.6 if k == 1 else 0.15) for k in range(5)]
        axis.bar_label(axis.bar(range(5), values, color=colours), fmt="{:.2f}", padding=2)
        axis.axhline(0, color=INK, linewidth=0.8)
        axis.set(title=name, xticks=[], yticks=[])
        axis.margins(y=0.15)
        axis.spines[:].set_visible(False)
    return made, caption


def positions():
    """Draw the matrix of sinusoidal positions."""
    caption = ("sinusoidal(24, 32): a row for each position, a column for each entry of its "
               "vector; darker is larger. Entries come in pairs of a sine and a cosine, from "
               "short waves on the left to long ones on the right. No two rows are equal.")
    made, axis = figure(285)
    matrix(axis, sinusoidal(24, 32), low=-1)
    axis.set(xticks=range(0, 32, 4), xticklabels=range(0, 32, 4),
             yticks=range(0, 24, 4), yticklabels=range(0, 24, 4))
    return made, caption


def first_steps(steps=3000):
    """Draw Adam's steps for a constant gradient, with and without the bias corrections."""
    caption = ("Adam with a constant gradient: the length of each step in units of the learning "
               "rate, with the two bias corrections and (dashed) without them. The axis of the "
               "steps is logarithmic.")
    model = Linear(1, 1, bias=False).astype("float64")
    adam, taken, bare = Adam(model, lr=1e-3), [], []
    for _ in range(steps):
        before = model.W.data[0, 0]
        model.W.grad[...] = 5.0
        adam.step()
        taken.append((before - model.W.data[0, 0]) / adam.lr)
        bare.append(adam.m["W"][0, 0] / np.sqrt(adam.v["W"][0, 0]))
    made, axis = figure(250)
    axis.semilogx(range(1, steps + 1), taken)
    axis.semilogx(range(1, steps + 1), bare)
    axis.set(xlabel="step", ylim=(0, 7), xticks=[1, 10, 100, 1000],
             xticklabels=["1", "10", "100", "1,000"])
    return made, caption


def normalised():
    """Draw which entries share a mean in LayerNorm and in BatchNorm."""
    caption = ("A batch of four rows of six features. LayerNorm takes mean and variance along a "
               "row, BatchNorm along a column. Entries that share a mean also share two terms "
               "of dx.")
    made, axes = figure(160, 1, 2)
    row, column = np.indices((4, 6))
    for axis, name, chosen in zip(axes, ("LayerNorm", "BatchNorm"), (row == 1, column == 2),
                                  strict=True):
        matrix(axis, np.where(chosen, 0.75, 0.08))
        axis.set(title=name, xlabel="D")
        axis.set_ylabel("B", rotation=0, va="center", labelpad=10)
    return made, caption


def cell():
    """Draw the LSTM cell, one gate at a time."""
    caption = ("The LSTM cell in three steps. 1: the forget gate f multiplies the old cell state. "
               "2: the input gate i multiplies the candidate g, and the product is added. "
               "3: the output gate o multiplies tanh of the new cell state.")
    draw = Drawing(390)
    draw.text(70, 14, "1. forget", "small")
    _factor(draw, (70, 100), "cₜ₋₁", "f")
    draw.text(250, 14, "2. add", "small")
    _factor(draw, (250, 100), "g", "i")
    draw.dot(160, 180, "+")
    draw.arrow((70, 112), (70, 180), (148, 180))
    draw.arrow((250, 112), (250, 180), (172, 180))
    draw.box(160, 230, "cₜ", 60)
    draw.arrow((160, 192), (160, 215))
    draw.text(250, 264, "3. output", "small")
    draw.box(160, 285, "tanh", 60)
    draw.arrow((160, 245), (160, 270))
    _factor(draw, (160, 330), "", "o")
    draw.arrow((160, 300), (160, 318))
    draw.arrow((160, 342), (160, 360))
    draw.text(160, 374, "hₜ")
    return draw, caption


def _factor(draw, at, value, gate):
    """Draw the product of a value, from above, and a gate, from the right."""
    x, y = at
    draw.dot(x, y, "×")
    if value:
        draw.box(x, y - 55, value, 60)
        draw.arrow((x, y - 40), (x, y - 12))
    draw.box(x + 62, y, gate, 40, 30, "hot")
    draw.arrow((x + 42, y), (x + 12, y))


def attention():
    """Draw the shapes of attention: queries times keys, softmax, times values."""
    caption = ("Attention with R = 3 queries and S = 5 keys. Each row of the scores and of the "
               "weights A belongs to a query, each column to a key. The values are averaged with "
               "the weights of a row.")
    draw, size = Drawing(330), 18

    def block(left, top, rows, columns, words, below):
        for r in range(rows):
            for c in range(columns):
                draw.cell(left + size * c, top + size * r, 0.25, size)
        draw.text(left + size * columns / 2, top - 12, words)
        draw.text(left + size * columns / 2, top + size * rows + 10, below, "small")

    block(20, 40, 3, 2, "q", "R × d")
    draw.text(75, 66, "·")
    block(90, 48, 2, 5, "kᵀ", "d × S")
    draw.text(205, 66, "· a =")
    block(240, 40, 3, 5, "scores", "R × S")
    draw.arrow((285, 116), (285, 160), (75, 160), (75, 198))
    draw.text(180, 150, "softmax of each row", "small")
    block(30, 220, 3, 5, "A", "R × S")
    draw.text(142, 246, "·")
    block(160, 202, 5, 3, "v", "S × e")
    draw.text(236, 246, "=")
    block(260, 220, 3, 3, "y", "R × e")
    return draw, caption


def mask():
    """Draw causal_mask(6)."""
    caption = ("causal_mask(6): a row for each query, a column for each key. Filled means "
               "visible: position t attends to itself and to earlier positions.")
    made, axis = figure(304)
    matrix(axis, np.where(causal_mask(6), 0.7, 0.04), range(6), range(6))
    return made, caption


def flow():
    """Draw to which positions of a GPT the gradient of the loss at each position goes."""
    caption = ("The norm of the gradient that position k of the embedding (column) gets from the "
               "loss at position t (row), divided by the row's largest norm. A position gets no "
               "gradient from earlier losses.")
    made, axis = figure(290)
    matrix(axis, reached(), [f"t = {t}" for t in range(5)], [f"k = {t}" for t in range(5)])
    write_values(axis, reached())
    return made, caption


def reached(S=5):
    """Return (S, S): row t has the gradient norms at all positions for the logits of t alone.

    The gradient is that of the embedding's output. Each row is divided by its largest norm.
    """
    model = GPT(7, 16, 2, 2, max_len=S, rng=3, dtype="float64")
    logits, cache = model.forward(np.array([[1, 4, 2, 5, 3]]))
    upstream, sizes = np.random.default_rng(5).standard_normal(logits.shape), []
    for t in range(S):
        dx = model.classifier.backward(np.where(np.arange(S)[:, None] == t, upstream, 0),
                                       cache.classifier)
        sizes.append(np.linalg.norm(model.decoder.backward(dx, cache.decoder)[0], axis=-1))
    return np.array(sizes) / np.max(sizes, axis=1, keepdims=True)


def turns():
    """Draw a pair of entries of a query and one of a key, each rotated at two positions."""
    caption = ("A pair of a query and one of a key, as Rotary rotates them at positions 1 and 3 "
               "(above), and at 4 and 6 (below). Both pairs are rotated further, but the angle "
               "between them is the same, and so is their product.")
    draw = Drawing(470)
    q, k = np.array([1.0, 0.0]), 0.8 * np.array([np.cos(1), -np.sin(1)])
    for y0, places in ((120, (1, 3)), (350, (4, 6))):
        draw.line([(175 + 90 * np.cos(a), y0 + 90 * np.sin(a)) for a in np.arange(0, 6.4, 0.1)],
                  "thin")
        for name, pair, place in zip("qk", (q, k), places, strict=True):
            y, _ = Rotary(2).forward(pair[None], np.array([place]))
            (along, up), far = y[0], y[0] / np.linalg.norm(y)
            draw.arrow((175, y0), (175 + 90 * along, y0 - 90 * up))
            draw.text(175 + 106 * far[0], y0 - 106 * far[1], f"{name}{'₀₁₂₃₄₅₆'[place]}")
    return draw, caption


PICTURES = {"02-activations": slopes, "03-softmax-cross-entropy": pulls,
            "04-embedding": positions, "06-lstm": cell, "09-layernorm": normalised,
            "10-attention": attention, "11-heads": mask,
            "13-gpt": flow, "14-adamw-clipping": first_steps, "18-llama": turns}
