"""The pictures of the tiny models, each out of what was kept: at most 350 wide, as a phone is."""

import numpy as np

from docs.book.curves import axes
from docs.book.drawing import Drawing

WIDTH = 350


def _lines(caption, x, ys, x_marks, y_marks, *, height=190, below=""):
    """Curves {name: (values, kind)} over one axis, with a legend above."""
    draw = Drawing(WIDTH, height + 74, caption)
    marks = list(x_marks), list(y_marks)
    at = axes(draw, (44, height + 24, 284, height - 8), (min(x), max(x)),
              (min(marks[1]), max(marks[1])), x_marks, y_marks)
    for n, (name, (values, kind)) in enumerate(ys.items()):
        draw.line([at(*point) for point in zip(x, values, strict=True)], kind)
        left = 44 + n * 292 / len(ys)
        draw.line([(left, 12), (left + 26, 12)], kind)
        draw.text(left + 32, 12, name, "small", "start")
    draw.text(190, height + 64, below, "small")
    return draw


def _cells(draw, left, top, values, size, low=0.0, high=1.0):
    """A matrix of squares, the fuller the nearer a value is to `high`."""
    for r, row in enumerate(values):
        for c, value in enumerate(row):
            share = min(1.0, max(0.02, (float(value) - low) / (high - low)))
            draw.cell(left + size * c, top + size * r, share, size)


def _strip(caption, tokens, rows, *, size=None, left=64, low=0.0):
    """Tokens of a sequence, and below them rows {name: values} of squares with the name before."""
    size = size or (WIDTH - left - 4) / len(tokens)
    draw = Drawing(WIDTH, 34 + len(rows) * (size + 8), caption)
    for n, token in enumerate(tokens):
        draw.text(left + size * (n + 0.5), 14, token)
    for r, (name, values) in enumerate(rows.items()):
        top = 30 + r * (size + 8)
        draw.text(left - 8, top + size / 2, name, "small", "end")
        _cells(draw, left, top, [values], size, low)
    return draw


def thermometers(kept, caption):
    draw = Drawing(WIDTH, 290, caption)
    at = axes(draw, (44, 250, 292, 235), (-30, 110), (-60, 230), {v: f"{v} °C".replace(
        "-", "−") for v in (-20, 0, 37, 100)}, {v: f"{v}".replace("-", "−") for v in (0, 100, 200)})
    for n, (slope, offset) in enumerate(zip(kept["slopes"], kept["offsets"], strict=True)):
        ends = [(x, slope * x + offset) for x in np.linspace(-30, 110, 57)
                if -60 <= slope * x + offset <= 230]
        draw.line([at(*end) for end in ends], "" if n == len(kept["steps"]) - 1 else "thin")
        x, y = at(*ends[-1])
        draw.text(x - 26 * (n == 3), y - 10, f"{kept['steps'][n]}", "small", "end")
    for pair in zip(kept["celsius"], kept["fahrenheit"], strict=True):
        draw.box(*at(*pair), "", 9, 9, "hot")
    draw.text(40, 8, "°F", "small", "end")
    return draw


def bends(kept, caption):
    draw, size = Drawing(WIDTH, 210, caption), 12
    for left, name, words in ((8, "straight", "two maps"), (184, "bent", "a tanh between")):
        draw.text(left + 78, 12, words, "small")
        _cells(draw, left, 26, kept[name], size)
        for x, y, words in ((0, 0, "0"), (0, 1, "1"), (1, 0, "1"), (1, 1, "0")):
            draw.text(left + size * (2.4 + 8 * x), 26 + size * (10.5 - 8 * y), words)
    return draw


def letters(kept, caption):
    draw = Drawing(WIDTH, 200, caption)
    for n, (letter, p, count) in enumerate(zip(kept["letters"], kept["p"], kept["counts"],
                                               strict=True)):
        x, high = 36 + 46 * n, 220 * p
        if high > 1:
            draw.box(x, 150 - high / 2, "", 28, high, "hot")
        draw.text(x, 140 - high, f"{p:.2f}", "small")
        draw.text(x, 164, "end" if letter == "." else letter)
        draw.text(x, 186, f"{count} of {kept['total']}", "small" if n < 5 else "small")
    return draw


def week(kept, caption):
    draw, points = Drawing(WIDTH, 320, caption), np.array(kept["points"])
    scale = 150 / np.abs(points).max()
    places = [(175 + scale * x, 160 - scale * y) for x, y in points]
    draw.line([*places, places[0]], "thin")
    for (x, y), day in zip(places, kept["days"], strict=True):
        draw.box(x, y, day, 42, 24, "hot")
    return draw


def switch(kept, caption):
    buttons = {"-": "·", "0": "off", "1": "on"}
    tokens = [buttons[token] for token in kept["text"]]
    rows = {"light": kept["p"], **{f"h{'₁₂₃'[n]}": (np.array(row) + 1) / 2
                                   for n, row in enumerate(kept["h"])}}
    return _strip(caption, tokens, rows, left=40)


def brackets(kept, caption):
    rows = {"forget f": np.mean(kept["f"], 1), "input i": np.mean(kept["i"], 1),
            "output o": np.mean(kept["o"], 1),
            **{f"cell state c{'₁₂₃₄'[k]}": (np.tanh(np.array(kept["c"])[:, k] / 4) + 1) / 2
               for k in range(4)},
            **{f"next: {b}": values for b, values in kept["p"].items() if b != "}"}}
    return _strip(caption, kept["text"], rows, left=76)


def names(kept, caption):
    draw = Drawing(WIDTH, 20 * 17 + 44, caption)
    for column, name in ((150, "anna"), (270, "tom")):
        draw.text(column, 12, name)
    for n, word in enumerate(["(name)", *kept["words"]]):
        y = 50 + 20 * n
        draw.text(80, y, word, "small", "end")
        for left, name in ((112, "anna"), (232, "tom")):
            for offset, value in ((0, kept[name]["z"][n][0]),
                                  (40, (kept[name]["h"][n][0] + 1) / 2)):
                draw.cell(left + offset, y - 9, max(0.02, value), 20)
    for left in (112, 232):
        draw.text(left + 9, 30, "z", "small")
        draw.text(left + 49, 30, "h", "small")
    return draw


def meanings(kept, caption):
    draw = Drawing(WIDTH, 216, caption)
    draw.text(200, 14, "forwards", "small")
    draw.text(295, 14, "both ways", "small")
    for n, last in enumerate(kept["last"]):
        y = 46 + 30 * n
        draw.text(130, y, f"the bank … the {last}", "small", "end")
        for x, name in ((200, "forwards"), (295, "both")):
            draw.box(x, y, "", 76, 18)
            if kept[name][n] > 0.01:
                draw.box(x - 38 + 38 * kept[name][n], y, "", 76 * kept[name][n], 18, "hot")
    return draw


def depth(kept, caption):
    x = 5 * np.arange(len(kept["normed"]["losses"]))
    return _lines(caption, x, {"with LayerNorm": (kept["normed"]["losses"], ""),
                               "without": (kept["plain"]["losses"], "back")},
                  {0: "0", 100: "100", 200: "200"}, {0: "0", 0.35: "0.35", 0.7: "0.7"},
                  below="step; up: the loss")


def one_vector(kept, caption):
    return _lines(caption, kept["lengths"], {"attention": (kept["attention"], ""),
                                             "one vector": (kept["one_vector"], "back")},
                  {n: f"{n}" for n in (2, 4, 6, 8, 10, 12)},
                  {0: "0", 0.5: "50 %", 1: "100 %"}, below="sequence length (letters) / accuracy")


def dates(kept, caption):
    text, A = kept["text"], np.array(kept["A"])
    draw, size, top = Drawing(WIDTH, 12.5 * (len(text) + 1) + 40, caption), 12.5, 30
    for c, letter in enumerate(kept["iso"]):
        draw.text(120 + 22 * (c + 0.45), 14, letter)
    for s, letter in enumerate([*text, "end"]):
        draw.text(106, top + size * (s + 0.5), letter, "small", "end")
        for t in range(len(A)):
            share = max(0.02, float(A[t, s]))
            draw.parts.append(f'<rect x="{120 + 22 * t}" y="{top + size * s:g}" width="20" '
                              f'height="{size - 1.5}" class="cell" fill-opacity="{share:.2f}"/>')
    return draw


def heads(kept, caption):
    draw, size = Drawing(WIDTH, 206, caption), 20
    for left, A, words in ((6, kept["A2"][0], "one head"), (182, kept["A2"][1], "the other")):
        draw.text(left + 80, 12, words, "small")
        _cells(draw, left, 28, A, size)
    return draw


def blocks(kept, caption):
    draw = Drawing(WIDTH, 46 * len(kept["p"]) + 40, caption)
    for k, letter in enumerate(kept["letters"]):
        draw.text(130 + 46 * k, 14, "space" if letter == " " else letter)
    for n, row in enumerate(kept["p"]):
        y = 30 + 46 * (len(kept["p"]) - 1 - n)
        draw.text(92, y + 22, f"after block {n + 1}", "small", "end")
        for k, p in enumerate(row):
            draw.cell(108 + 46 * k, y, max(0.02, p), 44, f"{p:.2f}")
    return draw


def gpt(kept, caption):
    draw = Drawing(WIDTH, 40 * len(kept["said"]) + 10, caption)
    for n, (step, words) in enumerate(kept["said"].items()):
        draw.text(6, 18 + 40 * n, f"after {step} steps: twenty one …", "small", "start")
        draw.text(14, 36 + 40 * n, f"“{words}”", "small", "start")
    return draw


def valley(kept, caption):
    draw = Drawing(WIDTH, 250, caption)

    def at(x, y):
        return 175 + 75 * x, 125 - 130 * y

    for level in (0.15, 0.5, 1.0, 2.0, 4.0, 9.0):
        angles = np.linspace(0, 2 * np.pi, 73)
        a, b = np.sqrt(2 * level), np.sqrt(2 * level / kept["curvature"][1])
        ring = [at(a * np.cos(t), b * np.sin(t)) for t in angles]
        draw.line([(min(348, max(2, x)), y) for x, y in ring], "thin")
    for name, kind in (("SGD", "back"), ("AdamW", "")):
        draw.line([at(*point) for point in kept[name]], kind)
        draw.box(*at(*kept[name][-1]), "", 8, 8, "hot")
    for left, name, kind in ((44, "SGD", "back"), (180, "AdamW", "")):
        draw.line([(left, 238), (left + 26, 238)], kind)
        draw.text(left + 32, 238, name, "small", "start")
    return draw


def sentences(kept, caption):
    draw = Drawing(WIDTH, 250, caption)
    draw.text(175, 14, "start")
    for x, word, p, below in ((240, "the", kept["first"]["the"], kept["second"]),
                              (70, "a", kept["first"]["a"], None)):
        draw.line([(175, 24), (x, 60)])
        draw.box(x, 75, f"{word}  {p:.2f}", 84, kind="hot")
        if below is None:
            draw.line([(x, 90), (x, 208)])
            draw.box(x, 150, "storm is", 84)
            draw.box(x, 220, f"coming  {kept['beam'][1]:.2f}", 118, kind="hot")
            continue
        for n, (second, q) in enumerate(below.items()):
            y = 120 + 33 * n
            draw.line([(x, 90), (x - 44, 90), (x - 44, y), (x - 30, y)], "" if n == 0 else "thin")
            draw.box(x + 24, y, f"{second} …  {p * q:.2f}", 112, 26)
    return draw


def ranks(kept, caption):
    draw, top = Drawing(WIDTH, 214, caption), kept["before"]
    bars = [("none", kept["before"], 0), *(
        (f"rank {r}", loss, size) for r, loss, size in zip(
            kept["ranks"], kept["loss"], kept["learned"], strict=True))]
    for n, (name, loss, size) in enumerate(bars):
        y = 18 + 32 * n
        draw.text(62, y, name, "small", "end")
        draw.box(70 + max(2, 180 * loss / top) / 2, y, "", max(2, 180 * loss / top), 18, "hot")
        draw.text(78 + 180 * loss / top, y, f"{loss:.2f}" + (f"   {size} numbers" if size else ""),
                  "small", "start")
    return draw


def late(kept, caption):
    found = [(s, a, b) for s, a, b in zip(kept["step"], kept["train_accuracy"],
                                          kept["validation_accuracy"], strict=True)
             if None not in (a, b)]
    step, seen, new = zip(*found, strict=True)
    return _lines(caption, np.log10(step),
                  {"training set": (seen, ""), "held-out set": (new, "back")},
                  {power: f"{10**power:,}" for power in range(5)},
                  {0: "0", 0.5: "50 %", 1: "100 %"}, below="training step / accuracy")


def further(kept, caption):
    return _lines(caption, kept["places"], {"turned": (kept["turned"], ""),
                                            "added": (kept["added"], "back")},
                  {12: "12", 24: "24", 36: "36"}, {0: "0", 0.5: "50 %", 1: "100 %"},
                  below="position / accuracy")
