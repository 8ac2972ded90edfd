"""Pictures that a hand on a slider moves:  ```{moving} gate, shares or valley, with a caption.

The page computes them again (static/moving.js) by the lines that npdl has; a test holds its numbers
to npdl's. What stands in the page before, in print and without scripts is drawn here, by npdl.
"""

import json
from html import escape

import numpy as np

from docs.book.drawing import Drawing
from docs.book.markup import raw
from docs.book.trained.training import CURVATURE, START, descent
from npdl import SGD, AdamW, LSTMCell, ScaledDotAttention

HELD, OFFERED = 2.0, -0.6                               # of the chapter's sum by hand
QUERY = np.array([[2.0, 0.0]])
KEYS = np.array([[2.0, 1.0], [1.2, -1.0], [0.4, 0.5], [-0.3, 1.0], [-1.0, 0.0]])
VALUES = np.array([[10.0], [20.0], [30.0], [40.0], [50.0]])
BETAS, EPS, STEPS = (0.9, 0.999), 1e-8, 60


def gate(forget, take, show):
    """Run an LSTM cell of one unit with these values of the gates before their sigmoids."""
    cell = LSTMCell(1, 1, dtype="float64")
    cell.W_x.data[...], cell.W_h.data[...] = 0, 0
    cell.b.data[...] = [take, forget, show, np.arctanh(OFFERED)]
    zero, one = np.zeros((1, 1)), np.ones((1, 1))
    (h, c), cache = cell.forward(zero, (zero, np.array([[HELD]])))
    _, (_, dc_prev) = cell.backward((one, zero), cache)
    found = {"f": cache.f, "i": cache.i, "o": cache.o, "c": c, "h": h, "back": dc_prev}
    return {name: float(value[0, 0]) for name, value in found.items()}


def shares(temperature, hidden):
    """Compute the attention of one query to five keys, the last `hidden` of which are masked."""
    mask = np.arange(len(KEYS)) < len(KEYS) - hidden
    y, cache = ScaledDotAttention().forward(QUERY / temperature, KEYS, VALUES, mask[None])
    return {f"A{k}": float(share) for k, share in enumerate(cache.A[0])} | {"y": float(y[0, 0])}


def valley(sgd, adamw):
    """Return the paths of SGD and AdamW with these learning rates."""
    paths = {"SGD": descent(lambda model: SGD(model, sgd), STEPS),
             "AdamW": descent(lambda model: AdamW(model, adamw, weight_decay=0.0), STEPS)}
    ends = {f"{name}_end": float(np.hypot(*path[-1])) for name, path in paths.items()}
    return {name: [list(map(float, at)) for at in path] for name, path in paths.items()} | ends


class Hooked(Drawing):
    """A Drawing with parts that a script finds by the name of what they show."""

    def row(self, y, name, words, value, x, unit):
        """Words, a bar that begins at x, `unit` long for a value of 1, and the value."""
        self.text(x - 12, y, words, "small end")
        self.add("rect", data_bar=name, data_from=x, data_unit=unit, y=y - 9, height=18,
                 x=f"{x + min(0, value) * unit:g}", width=f"{abs(value) * unit:g}", kind="hot")
        self.value(name, value, 302, y)

    def value(self, name, value, x, y):
        self.text(x, y, shown(value), "small start", data_value=name)


def shown(value):
    """Format a number as the page's script does."""
    return f"{value:.3f}".replace("-", "−") if value < 1000 else "over 1000"


def place(x, y):
    """Return the point of the drawing for a point of the valley, kept near the picture."""
    return tuple(float(np.clip(v, -2000, 2000)) for v in (175 + 75 * x, 125 - 130 * y))


def draw_gate(found):
    draw = Hooked(214)
    names = {"f": "forget gate f", "i": "input gate i", "o": "output gate o", "c": "cell state c",
             "h": "output h", "back": "∂h/∂c_prev"}
    for n, (name, words) in enumerate(names.items()):
        draw.row(20 + 34 * n, name, words, found[name], 190, 50)
    draw.line([(190, 4), (190, 208)], "thin")
    return draw


def draw_shares(found):
    draw = Hooked(214)
    for k, (value,) in enumerate(VALUES):
        draw.row(20 + 34 * k, f"A{k}", f"key {k + 1}, value {value:.0f}", found[f"A{k}"], 134, 160)
    draw.text(122, 194, "output y", "small end")
    draw.value("y", found["y"], 134, 194)
    return draw


def draw_valley(found):
    draw = Hooked(270)
    for level in (0.15, 0.5, 1.0, 2.0, 4.0, 9.0):
        angles = np.linspace(0, 2 * np.pi, 73)
        a, b = np.sqrt(2 * level / np.array(CURVATURE))
        ring = map(place, a * np.cos(angles), b * np.sin(angles))
        draw.line([(min(348, max(2, x)), y) for x, y in ring], "thin")
    for left, name, kind in ((10, "SGD", "back"), (180, "AdamW", "")):
        draw.line([place(*point) for point in found[name]], kind, data_path=name)
        draw.line([(left, 258), (left + 20, 258)], kind)
        draw.text(left + 26, 258, f"{name} ends at", "small start")
        draw.value(f"{name}_end", found[f"{name}_end"], left + (102 if name == "SGD" else 124), 258)
    return draw


# name: (its numbers, its drawing, [(words, argument, least, most, step, at first)], what the script
# has to know)
MOVED = {
    "gate": (gate, draw_gate,
             [("forget gate, before its sigmoid", "forget", -6, 6, 0.1, 2.2),
              ("input gate, before its sigmoid", "take", -6, 6, 0.1, 0),
              ("output gate, before its sigmoid", "show", -6, 6, 0.1, 0)],
             {"held": HELD, "offered": OFFERED}),
    "shares": (shares, draw_shares,
               [("temperature (scores are divided by it)", "temperature", 0.1, 5, 0.1, 1),
                ("number of masked keys", "hidden", 0, 4, 1, 0)],
               {"scores": (QUERY @ KEYS.T / np.sqrt(QUERY.shape[-1]))[0].tolist(),
                "values": VALUES[:, 0].tolist()}),
    "valley": (valley, draw_valley,
               [("learning rate of SGD", "sgd", 0.001, 0.045, 0.001, 0.036),
                ("learning rate of AdamW", "adamw", 0.01, 0.5, 0.01, 0.1)],
               {"curvature": CURVATURE, "start": START, "betas": BETAS, "eps": EPS,
                "steps": STEPS}),
}


def figure(name, caption, words=None):
    """Return the picture with its sliders; without scripts, the picture for their first values."""
    compute, draw, sliders, known = MOVED[name]
    svg = draw(compute(*(slider[-1] for slider in sliders))).svg(caption)
    rows = "".join(
        f'<label>{escape(said)}: <output>{first}</output><input type="range" name="{argument}" '
        f'min="{least}" max="{most}" step="{step}" value="{first}"></label>'
        for said, argument, least, most, step, first in sliders)
    return raw(f'<figure class="picture moving" data-moving="{name}">{svg}'
               f'<div class="sliders" hidden>{rows}</div><script type="application/json">'
               f"{json.dumps(known)}</script><figcaption>{words or escape(caption)}"
               '</figcaption></figure><script src="../_static/moving.js"></script>')
