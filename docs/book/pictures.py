"""The pictures beside graphs and trained models; every number in them is npdl's own."""

import numpy as np

from docs.book import curves
from docs.book.drawing import Drawing
from npdl import GPT, Rotary, causal_mask


def normalised():
    """Draw which entries share a mean in LayerNorm and in BatchNorm."""
    caption = ("A batch of four rows of six features. LayerNorm takes mean and variance along a "
               "row, BatchNorm along a column: who shares a mean also shares two terms of dx.")
    draw = Drawing(350, 160, caption)
    for left, name, chosen in ((24, "LayerNorm", lambda r, c: r == 1),
                               (204, "BatchNorm", lambda r, c: c == 2)):
        draw.text(left + 66, 15, name)
        for row in range(4):
            for column in range(6):
                draw.cell(left + 22 * column, 34 + 22 * row, 0.75 if chosen(row, column) else 0.08,
                          22)
        draw.text(left - 14, 78, "B")
        draw.text(left + 66, 138, "D")
    return draw.svg(), caption


def cell():
    """Draw the LSTM cell, one gate at a time."""
    caption = ("The LSTM cell in three steps. 1: the forget gate f multiplies the old cell state. "
               "2: the input gate i multiplies the candidate g, and the product is added. "
               "3: the output gate o multiplies tanh of the new cell state.")
    draw = Drawing(350, 390, caption)
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
    return draw.svg(), caption


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
    draw, size = Drawing(350, 330, caption), 18

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
    return draw.svg(), caption


def mask():
    """Draw causal_mask(6)."""
    caption = ("causal_mask(6): the row of a query, the column of a key. What is filled may be "
               "seen: position t sees itself and what came before.")
    places = [str(t) for t in range(6)]
    return _matrix(np.where(causal_mask(6), 0.7, 0.04), caption, places, places, numbers=False)


def _matrix(values, caption, rows, columns, numbers=True):
    size = 44
    draw = Drawing(len(columns) * size + 60, len(rows) * size + 40, caption)
    for r, name in enumerate(rows):
        draw.text(26, 30 + size * (r + 0.5), name)
        _row(draw, 50, 30 + size * r, values[r], size, numbers)
    for c, name in enumerate(columns):
        draw.text(50 + size * (c + 0.5), 14, name)
    return draw.svg(), caption


def _row(draw, left, y, values, size, numbers=True):
    """Draw a row of cells; with `numbers`, write each value between 0 and 1 into its cell."""
    for c, value in enumerate(values):
        words = f"{value:.2f}"[1:] if numbers and 0 < value < 0.995 else ""
        draw.cell(left + size * c, y, float(value), size, words)


def flow():
    """Draw to which positions of a GPT the gradient of the loss at each position goes."""
    caption = ("From npdl: the size of the gradient that place k of the embedding (column) gets "
               "from the loss at place t (row), as a share of the row's largest. A place gets "
               "nothing from the losses before it.")
    draw, size = Drawing(350, 260, caption), 44
    for t, row in enumerate(reached()):
        draw.text(54, 34 + size * (t + 0.5), f"t = {t}", "small")
        draw.text(90 + size * (t + 0.5), 18, f"k = {t}", "small")
        _row(draw, 90, 34 + size * t, row, size)
    return draw.svg(), caption


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
    caption = ("A pair of a query and one of a key, as Rotary turns them at places 1 and 3 "
               "(above), at 4 and 6 (below). Both have turned on; the angle between them is the "
               "same, and so is their product.")
    draw = Drawing(350, 470, caption)
    q, k = np.array([1.0, 0.0]), 0.8 * np.array([np.cos(1), -np.sin(1)])
    for y0, places in ((120, (1, 3)), (350, (4, 6))):
        draw.line([(175 + 90 * np.cos(a), y0 + 90 * np.sin(a)) for a in np.arange(0, 6.4, 0.1)],
                  "thin")
        for name, pair, place in zip("qk", (q, k), places, strict=True):
            y, _ = Rotary(2).forward(pair[None], np.array([place]))
            (along, up), far = y[0], y[0] / np.linalg.norm(y)
            draw.arrow((175, y0), (175 + 90 * along, y0 - 90 * up))
            draw.text(175 + 106 * far[0], y0 - 106 * far[1], f"{name}{'₀₁₂₃₄₅₆'[place]}")
    return draw.svg(), caption


PICTURES = {"02-activations": curves.slopes, "03-softmax-cross-entropy": curves.pulls,
            "04-embedding": curves.positions, "06-lstm": cell, "09-layernorm": normalised,
            "10-attention": attention, "11-heads": mask,
            "13-gpt": flow, "14-adamw-clipping": curves.first_steps, "18-llama": turns}
