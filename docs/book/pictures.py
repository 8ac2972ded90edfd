"""The chapters' pictures: what flows where, what a mask lets through, what a search keeps.

What can be computed is: a mask, weights, a beam are npdl's own.
"""

import gzip
import json

import numpy as np

from docs.book.drawing import Drawing
from docs.book.sources import ROOT
from npdl import Rotary, ScaledDotAttention, causal_mask
from npdl.decoding import Tree, beam_search
from npdl.training.origin import engine_digest


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


def weights():
    """Attention weights of ScaledDotAttention for drawn Q and K."""
    caption = ("Attention weights that npdl computes for drawn queries and keys. Each row is a "
               "softmax: its weights are positive and sum to 1.")
    rng = np.random.default_rng(4)
    q, k, v = (rng.standard_normal((n, 8)) * 1.6 for n in (4, 6, 6))
    _, cache = ScaledDotAttention().forward(q, k, v)
    return _matrix(cache.A, caption, [f"q{'₀₁₂₃'[r]}" for r in range(4)],
                   [f"k{'₀₁₂₃₄₅'[c]}" for c in range(6)])


def mask():
    """causal_mask(6)."""
    caption = ("causal_mask(6): the row of a query, the column of a key. What is filled may be "
               "seen: position t sees itself and what came before.")
    places = [str(t) for t in range(6)]
    return _matrix(np.where(causal_mask(6), 0.7, 0.04), caption, places, places, numbers=False)


def _matrix(values, caption, rows, columns, numbers=True, size=44):
    height, width = values.shape
    draw = Drawing(width * size + 60, height * size + 40, caption)
    for r in range(height):
        draw.text(26, 30 + size * (r + 0.5), rows[r])
        for c in range(width):
            words = f"{values[r, c]:.2f}"[1:] if numbers and values[r, c] < 0.995 else ""
            draw.cell(50 + size * c, 30 + size * r, float(values[r, c]), size, words)
    for c in range(width):
        draw.text(50 + size * (c + 0.5), 14, columns[c])
    return draw.svg(), caption


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
        above = y - 46
        draw.arrow((x, y), (x, above + (12 if part == "+" else 15)))
        if part == "+":
            draw.dot(x, above, "+")
            draw.arrow((x, enters - 12), (x + 80, enters - 12), (x + 80, above), (x + 13, above))
        else:
            draw.box(x, above, part, 104)
        y = above - (12 if part == "+" else 15)
        if part == "+" or part == "norm" and parts[0] != "norm":
            enters = y
    draw.arrow((x, y), (x, y - 16))


def prefixes():
    """A tree of three words, and the beam of width 2 that npdl keeps of it."""
    caption = ("A tree of probabilities and what a beam of width 2 keeps of it (filled), with the "
               "probability of each prefix. The likeliest first word does not lead to the "
               "likeliest sequence.")
    branches = {"a": (0.5, {"a": 0.4, "b": 0.35, "c": 0.25}),
                "b": (0.4, {"a": 0.9, "b": 0.06, "c": 0.04}),
                "c": (0.1, {"a": 0.4, "b": 0.3, "c": 0.3})}
    tree = Tree(branches, probabilities=True)
    found = beam_search(tree, 2, max_len=2)
    kept = {tuple(tree.words(h)) for step in found.steps for h in step.kept}
    draw = Drawing(620, 230, caption)
    draw.text(310, 16, "start")
    for i, (first, (p, below)) in enumerate(branches.items()):
        x = 110 + 200 * i
        draw.line([(310, 28), (x, 84)], "" if (first,) in kept else "thin")
        draw.box(x, 100, f"{first}  {p:.2f}", 72, kind="hot" if (first,) in kept else "")
        for j, (second, q) in enumerate(below.items()):
            at = x + 64 * (j - 1)
            live = (first, second) in kept
            draw.line([(x, 116), (at, 174)], "" if live else "thin")
            draw.box(at, 190, f"{second}  {p * q:.2f}"[0:7], 60, kind="hot" if live else "")
    return draw.svg(), caption


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


SHOWN = {"model": "gpt", "p": 31, "operator": "+", "orders": [2], "r_train": 0.5, "layers": 2,
         "width": 128, "heads": 4, "batch": 512, "optimizer": "adamw", "weight_decay": 1.0,
         "dropout": 0.0, "steps": 10001, "norm": "post", "symmetric": False, "q": None,
         "stratified": False, "clip": 1.0, "seed": 42}


def _recent(run):
    """As the report chooses: made by the engine of today; else, by one whose name was kept."""
    engine = run.get("made", {}).get("engine")
    return engine == engine_digest(), engine is not None


def curves():
    """Both accuracies of one of the study's kept runs, over logarithmic steps."""
    caption = ("A kept run of the default GPT, seed 42: the share of right answers, of equations "
               "it trains on and (dashed) of those it has never seen, over logarithmic steps.")
    stored = [json.loads(gzip.decompress(path.read_bytes())) for path in
              sorted((ROOT / "experiments" / "results" / "study").glob("*.json.gz"))]
    made = [run for run in stored
            if all(run["config"][name] == value for name, value in SHOWN.items())]
    found = max(made, key=_recent)["records"]       # each engine that made it has a file
    draw = Drawing(620, 270, caption)
    top = np.log10(found["step"][-1])

    def at(step, share):
        return 60 + 520 * np.log10(step) / top, 220 - 190 * share

    for share in (0, 0.5, 1):
        draw.line([at(1, share), at(10**top, share)], "thin")
        draw.text(50, at(1, share)[1], f"{share:.0%}", "small", "end")
    for power in range(int(top) + 1):
        draw.text(at(10**power, 0)[0], 240, f"{10**power:,}", "small")
    draw.text(320, 260, "step", "small")
    for name, kind in (("train_accuracy", ""), ("validation_accuracy", "back")):
        draw.line([at(step, share) for step, share in zip(found["step"], found[name], strict=True)
                   if share is not None], kind)
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


PICTURES = {"05-rnn": unrolled, "06-lstm": lstm, "08-bidirectional": both_directions,
            "09-layernorm": normalised, "10-attention": weights, "11-heads": mask,
            "12-block": blocks, "15-decoding": prefixes, "16-lora-quantization": low_rank,
            "17-grokking": curves, "18-llama": turns}
