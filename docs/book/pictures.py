"""The chapters' pictures: what flows where, what a mask lets through, what a search keeps.

What can be computed is: a mask, weights, a beam are npdl's own.
"""

import numpy as np

from docs.book import curves
from docs.book.drawing import Drawing
from npdl import GPT, Rotary, causal_mask


def products():
    """A linear map's three products, as the shapes of what is multiplied."""
    caption = ("One forward and two backward products, drawn by their shapes: N rows of width D "
               "come in, N rows of width E go out. Which factor must be turned, and on which side "
               "it stands, the shapes alone decide.")
    draw, N, D, E = Drawing(560, 250, caption), 84, 56, 30
    for x, rows in ((100, (("y", N, E), ("x", N, D), ("W", D, E))),
                    (300, (("dx", N, D), ("dy", N, E), ("Wᵀ", E, D))),
                    (480, (("dW", D, E), ("xᵀ", D, N), ("dy", N, E)))):
        (name, high, wide), *factors = rows
        draw.box(x, 70, name, wide, high, "hot")
        draw.text(x, 130, "=")
        left = x - (sum(factor[2] for factor in factors) + 10) / 2
        for name, high, wide in factors:
            draw.box(left + wide / 2, 195, name, wide, high)
            left += wide + 10
    return draw.svg(), caption


def unrolled():
    """An RNN over four steps, values upwards and to the right, gradients back."""
    caption = ("An RNN over four steps. Values flow up and to the right; gradients (dashed) flow "
               "down and to the left, and add up where two arrive.")
    draw = Drawing(560, 210, caption)
    for t in range(4):
        x = 80 + 130 * t
        draw.box(x, 105, "tanh")
        draw.text(x, 195, f"x{'₀₁₂₃'[t]}")
        draw.text(x, 15, f"h{'₀₁₂₃'[t]}")
        draw.arrow((x - 8, 182), (x - 8, 122))
        draw.arrow((x + 8, 122), (x + 8, 182), kind="back")
        draw.arrow((x - 8, 88), (x - 8, 28))
        draw.arrow((x + 8, 28), (x + 8, 88), kind="back")
        if t < 3:
            draw.arrow((x + 34, 98), (x + 96, 98))
            draw.arrow((x + 96, 112), (x + 34, 112), kind="back")
    draw.arrow((8, 98), (46, 98))
    draw.arrow((46, 112), (8, 112), kind="back")
    return draw.svg(), caption


def lstm():
    """One step of an LSTM."""
    caption = ("One step of an LSTM. Along the upper line the memory c is only scaled by f and "
               "added to: that is the path on which a gradient lives long.")
    draw = Drawing(600, 290, caption)
    draw.text(22, 50, "cₜ₋₁")
    draw.arrow((44, 50), (138, 50))
    draw.dot(150, 50, "×")
    draw.arrow((162, 50), (288, 50))
    draw.dot(300, 50, "+")
    draw.arrow((312, 50), (556, 50))
    draw.text(578, 50, "cₜ")
    for x, name, function in ((150, "f", "σ"), (250, "i", "σ"), (350, "g", "tanh"),
                              (440, "o", "σ")):
        draw.box(x, 190, function, 52)
        draw.arrow((x, 250), (x, 206))
        draw.text(x + 16, 160, name)
    draw.arrow((150, 174), (150, 63))
    draw.dot(300, 120, "×")
    draw.arrow((250, 174), (250, 120), (287, 120))
    draw.arrow((350, 174), (350, 120), (313, 120))
    draw.arrow((300, 108), (300, 63))
    draw.box(500, 95, "tanh", 52)
    draw.arrow((500, 50), (500, 79))
    draw.dot(500, 150, "×")
    draw.arrow((500, 110), (500, 137))
    draw.arrow((440, 174), (440, 150), (487, 150))
    draw.arrow((513, 150), (556, 150))
    draw.text(578, 150, "hₜ")
    draw.line([(72, 250), (440, 250)])
    draw.text(34, 250, "xₜ, hₜ₋₁")
    draw.text(250, 275, "z = x W_x + hₜ₋₁ W_h + b, in four blocks", "small")
    return draw.svg(), caption


def gru():
    """One step of a GRU."""
    caption = ("One step of a GRU. Along the upper line h is scaled by 1 − z and added to: the one "
               "path on which a gradient lives long. r stands behind the product with W_h, and "
               "only on the candidate's way.")
    draw = Drawing(600, 330, caption)
    draw.text(28, 50, "hₜ₋₁")
    draw.arrow((50, 50), (193, 50))
    draw.dot(205, 50, "×")
    draw.arrow((217, 50), (388, 50))
    draw.dot(400, 50, "+")
    draw.arrow((412, 50), (556, 50))
    draw.text(578, 50, "hₜ")
    for x, name in ((205, "z"), (320, "r")):
        draw.box(x, 230, "σ", 52)
        draw.arrow((x, 290), (x, 246))
        draw.text(x - 14, 200, name)
    draw.arrow((205, 214), (205, 123))
    draw.box(205, 110, "1 −", 44, 26)
    draw.arrow((205, 97), (205, 63))
    draw.dot(400, 110, "×")
    draw.arrow((205, 150), (400, 150), (400, 122))
    draw.arrow((400, 98), (400, 63))
    draw.box(440, 170, "tanh", 52)
    draw.arrow((440, 155), (440, 110), (413, 110))
    draw.text(456, 132, "ĥ")
    draw.dot(440, 230, "×")
    draw.arrow((440, 218), (440, 186))
    draw.arrow((320, 214), (320, 190), (372, 190), (372, 230), (427, 230))
    draw.arrow((440, 290), (440, 243))
    draw.text(462, 268, "u_h")
    draw.arrow((520, 290), (520, 170), (467, 170))
    draw.text(540, 230, "a_h")
    draw.line([(84, 290), (520, 290)])
    draw.text(44, 290, "xₜ, hₜ₋₁")
    draw.text(300, 315, "a = x W_x + b and u = hₜ₋₁ W_h, in three blocks each", "small")
    return draw.svg(), caption


def both_directions():
    """Two networks over one sequence."""
    caption = ("Two networks read one sequence, one from each end; at every place their outputs "
               "are put side by side.")
    draw = Drawing(520, 230, caption)
    for t in range(4):
        x = 80 + 120 * t
        draw.text(x, 215, f"x{'₀₁₂₃'[t]}")
        draw.text(x, 15, f"y{'₀₁₂₃'[t]}")
        draw.box(x - 18, 140, "→", 34)
        draw.box(x + 18, 85, "←", 34)
        draw.arrow((x - 18, 203), (x - 18, 156))
        draw.arrow((x + 18, 203), (x + 18, 101))
        draw.arrow((x - 18, 124), (x - 18, 28))
        draw.arrow((x + 18, 69), (x + 18, 28))
        if t < 3:
            draw.arrow((x, 140), (x + 84, 140))
            draw.arrow((x + 120, 85), (x + 36, 85))
    return draw.svg(), caption


def normalised():
    """What shares a mean in LayerNorm and in BatchNorm."""
    caption = ("A batch of four rows of six features. LayerNorm takes mean and variance along a "
               "row, BatchNorm along a column: who shares a mean also shares two terms of dx.")
    draw = Drawing(520, 190, caption)
    for left, name, chosen in ((60, "LayerNorm", lambda r, c: r == 1),
                               (310, "BatchNorm", lambda r, c: c == 2)):
        draw.text(left + 78, 15, name)
        for row in range(4):
            for column in range(6):
                draw.cell(left + 26 * column, 40 + 26 * row, 0.75 if chosen(row, column) else 0.08)
        draw.text(left - 22, 92, "B")
        draw.text(left + 78, 162, "D")
    return draw.svg(), caption


def mask():
    """causal_mask(6)."""
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
    """A row of cells; of the `numbers` those between 0 and 1 are written in them."""
    for c, value in enumerate(values):
        words = f"{value:.2f}"[1:] if numbers and 0 < value < 0.995 else ""
        draw.cell(left + size * c, y, float(value), size, words)


def blocks():
    """Norms behind the sums, and before the parts."""
    caption = ("Left, norms behind the sums: every gradient passes through two norms in each "
               "block. Right, norms before the parts: from the last block to the first leads a "
               "path on which nothing happens to it.")
    draw = Drawing(520, 410, caption)
    _block(draw, 130, "Block", ["attention", "+", "norm", "feed-forward", "+", "norm"])
    _block(draw, 390, "PreNormBlock", ["norm", "attention", "+", "norm", "feed-forward", "+"])
    return draw.svg(), caption


def _block(draw, x, name, parts):
    """A column of parts, from below; each + also takes what entered its half."""
    draw.text(x, 14, name)
    y, enters = 402, 402
    for part in parts:
        above, half = y - 46, 12 if part == "+" else 15
        draw.arrow((x, y), (x, above + half))
        if part == "+":
            draw.dot(x, above, "+")
            draw.arrow((x, enters - 12), (x + 80, enters - 12), (x + 80, above), (x + 13, above))
        else:
            draw.box(x, above, part, 104)
        y = above - half
        if part == "+" or part == "norm" and parts[0] != "norm":
            enters = y
    draw.arrow((x, y), (x, y - 16))


def flow():
    """A GPT's gradients: through which weights, and from the loss at a place to which places."""
    caption = ("Left: gradients (dashed) come down from the loss; each map takes its own from what "
               "passes, the table last. Right, from npdl: the size of the gradient that place k of "
               "the embedding (column) gets from the loss at place t (row), as a share of the "
               "row's largest. A place gets nothing from the losses before it.")
    draw = Drawing(640, 340, caption)
    parts = [("embedding", "W_emb"), ("block 1", "attention, feed-forward, norms"),
             ("block 2", "attention, feed-forward, norms"), ("classifier", "W, b")]
    draw.text(66, 325, "ids")
    for i, (name, weights) in enumerate(parts):
        y = 268 - 70 * i
        draw.box(66, y, name, 100)
        draw.arrow((58, y + (47 if i == 0 else 55)), (58, y + 16))
        if i:
            draw.arrow((74, y + 16), (74, y + 55), kind="back")
        draw.arrow((118, y), (156, y), kind="back")
        draw.text(164, y, weights, "small", "start")
    draw.arrow((58, 42), (58, 26))
    draw.arrow((74, 26), (74, 42), kind="back")
    draw.text(66, 12, "loss")
    size = 40
    for t, row in enumerate(reached()):
        draw.text(392, 70 + size * (t + 0.5), f"t = {t}", "small")
        draw.text(420 + size * (t + 0.5), 56, f"k = {t}", "small")
        _row(draw, 420, 70 + size * t, row, size)
    return draw.svg(), caption


def reached(S=5):
    """(S, S): the norm of the gradient of the embedding's place k from the logits of place t
    alone, as a share of each row's largest."""
    model = GPT(7, 16, 2, 2, max_len=S, rng=3, dtype="float64")
    logits, cache = model.forward(np.array([[1, 4, 2, 5, 3]]))
    upstream, sizes = np.random.default_rng(5).standard_normal(logits.shape), []
    for t in range(S):
        dx = model.classifier.backward(np.where(np.arange(S)[:, None] == t, upstream, 0),
                                       cache.classifier)
        sizes.append(np.linalg.norm(model.decoder.backward(dx, cache.decoder)[0], axis=-1))
    return np.array(sizes) / np.max(sizes, axis=1, keepdims=True)


def low_rank():
    """A frozen matrix, and a narrow path beside it that learns."""
    caption = ("LoRA: beside the frozen matrix a path through r dimensions. Only A and B learn; B "
               "begins at zero, so that at first nothing is changed.")
    draw = Drawing(520, 190, caption)
    draw.text(30, 95, "x")
    draw.arrow((42, 95), (80, 95), (80, 50), (124, 50))
    draw.arrow((42, 95), (80, 95), (80, 140), (124, 140))
    draw.box(230, 50, "W  (D, E), frozen", 210, 54)
    draw.box(165, 140, "A  (D, r)", 80, 40, "hot")
    draw.box(300, 140, "Bᵀ  (r, E)", 80, 40, "hot")
    draw.arrow((206, 140), (259, 140))
    draw.dot(410, 95, "+")
    draw.arrow((336, 50), (410, 50), (410, 82))
    draw.arrow((341, 140), (410, 140), (410, 108))
    draw.text(378, 128, "α/r", "small")
    draw.arrow((423, 95), (470, 95))
    draw.text(488, 95, "y")
    return draw.svg(), caption


def turns():
    """One pair of a query and of a key, turned at two places each."""
    caption = ("A pair of a query and one of a key, as Rotary turns them at places 1 and 3 (left), "
               "at 4 and 6 (right). Both have turned on; the angle between them is the same, and "
               "so is their product.")
    draw = Drawing(520, 240, caption)
    q, k = np.array([1.0, 0.0]), 0.8 * np.array([np.cos(1), -np.sin(1)])
    for x, places in ((130, (1, 3)), (390, (4, 6))):
        draw.line([(x + 90 * np.cos(a), 120 + 90 * np.sin(a)) for a in np.arange(0, 6.4, 0.1)],
                  "thin")
        for name, pair, place in zip("qk", (q, k), places, strict=True):
            y, _ = Rotary(2).forward(pair[None], np.array([place]))
            (along, up), far = y[0], y[0] / np.linalg.norm(y)
            draw.arrow((x, 120), (x + 90 * along, 120 - 90 * up))
            draw.text(x + 106 * far[0], 120 - 106 * far[1], f"{name}{'₀₁₂₃₄₅₆'[place]}")
    return draw.svg(), caption


PICTURES = {"01-linear": products, "02-activations": curves.slopes,
            "03-softmax-cross-entropy": curves.pulls, "04-embedding": curves.positions,
            "05-rnn": unrolled, "06-lstm": lstm, "07-gru": gru,
            "08-bidirectional": both_directions, "09-layernorm": normalised,
            "11-heads": mask, "12-block": blocks, "13-gpt": flow,
            "14-adamw-clipping": curves.first_steps, "16-lora-quantization": low_rank,
            "18-llama": turns}
