"""The pictures of the tiny models, each out of what was kept of its training."""

import numpy as np

from docs.book.drawing import BLUE, INK, Drawing, figure, matrix, write_values

SHARES = {"yticks": (0, 0.5, 1), "yticklabels": ("0", "50 %", "100 %")}


def _lines(x, lines, **options):
    """Draw curves {name: values} over x, with a legend above."""
    made, axis = figure(264)
    for name, values in lines.items():
        axis.plot(x, values, label=name)
    made.legend(loc="outside upper center", ncols=len(lines))
    axis.set(**options)
    axis.grid(alpha=0.35, linestyle=":", color=INK)
    return made


def _strip(tokens, rows):
    """Draw the tokens of a sequence, and below them rows {name: values} of squares."""
    made, axis = figure(34 + 26 * len(rows))
    matrix(axis, list(rows.values()), rows, tokens)
    axis.set_aspect("auto")
    return made


def thermometers(kept):
    made, axis = figure(290)
    x = np.array([-30, 110])
    for step, slope, offset in zip(kept["steps"], kept["slopes"], kept["offsets"], strict=True):
        last = step == kept["steps"][-1]
        axis.plot(x, slope * x + offset, "-" if last else ":", color=INK)
        axis.text(x[1], slope * x[1] + offset, f" {step}", clip_on=True,
                  va="bottom" if last else "top")
    axis.plot(kept["celsius"], kept["fahrenheit"], "o", color=BLUE)
    axis.set(xlabel="°C", ylabel="°F", xlim=(-30, 122), ylim=(-60, 260))
    axis.grid(alpha=0.35, linestyle=":", color=INK)
    return made


def bends(kept):
    made, axes = figure(210, 1, 2)
    for axis, name, words in zip(axes, ("straight", "bent"),
                                 ("two linear layers", "a tanh between"), strict=True):
        matrix(axis, kept[name])
        axis.set_title(words)
        for x, y, answer in ((0, 0, "0"), (0, 1, "1"), (1, 0, "1"), (1, 1, "0")):
            axis.text(2 + 8 * x, 10 - 8 * y, answer, ha="center", va="center")
    return made


def letters(kept):
    made, axis = figure(200)
    names = [f"{'end' if letter == '.' else letter}\n{count}/{kept['total']}"
             for letter, count in zip(kept["letters"], kept["counts"], strict=True)]
    axis.bar_label(axis.bar(names, kept["p"], color=BLUE, alpha=0.4), fmt="{:.2f}", padding=2)
    axis.set(yticks=[], ylim=(0, 1.15 * max(kept["p"])))
    axis.spines["left"].set_visible(False)
    return made


def week(kept):
    made, axis = figure(320)
    points = np.array(kept["points"])
    axis.plot(*np.append(points, points[:1], 0).T, ":", color=INK)
    for place, day in zip(points, kept["days"], strict=True):
        axis.text(*place, day, ha="center", va="center",
                  bbox={"boxstyle": "round", "facecolor": "#fefefe", "edgecolor": BLUE})
    axis.margins(0.12)
    axis.set(aspect="equal")
    axis.set_axis_off()
    return made


def switch(kept):
    buttons = {"-": "·", "0": "off", "1": "on"}
    return _strip([buttons[token] for token in kept["text"]],
                  {"light": kept["p"], **{f"h{'₁₂₃'[n]}": (np.array(row) + 1) / 2
                                          for n, row in enumerate(kept["h"])}})


def brackets(kept):
    return _strip(kept["text"], {
        "forget f": np.mean(kept["f"], 1), "input i": np.mean(kept["i"], 1),
        "output o": np.mean(kept["o"], 1),
        **{f"cell state c{'₁₂₃₄'[k]}": (np.tanh(np.array(kept["c"])[:, k] / 4) + 1) / 2
           for k in range(4)},
        **{f"next: {b}": values for b, values in kept["p"].items() if b != "}"}})


def names(kept):
    made, axes = figure(384, 1, 2)
    for axis, name in zip(axes, ("anna", "tom"), strict=True):
        z, h = np.array(kept[name]["z"])[:, 0], (np.array(kept[name]["h"])[:, 0] + 1) / 2
        matrix(axis, np.stack([z, h], 1), columns=["z", "h"])
        axis.set(title=name, aspect="auto")
    axes[0].set(yticks=range(17), yticklabels=["(name)", *kept["words"]])
    return made


def meanings(kept):
    made, axes = figure(230, 1, 2, sharey=True)
    for axis, name, words in zip(axes, ("forwards", "both"), ("forward", "bidirectional"),
                                 strict=True):
        axis.barh([f"the bank … the {last}" for last in kept["last"]], kept[name], color=BLUE,
                  alpha=0.4)
        axis.set(title=words, xlim=(0, 1), xticks=(0, 1))
    axes[0].invert_yaxis()
    return made


def depth(kept):
    return _lines(5 * np.arange(len(kept["normed"]["losses"])),
                  {"with LayerNorm": kept["normed"]["losses"], "without": kept["plain"]["losses"]},
                  xlabel="step; up: the loss")


def one_vector(kept):
    return _lines(kept["lengths"], {"attention": kept["attention"],
                                    "one vector": kept["one_vector"]},
                  xlabel="sequence length (letters) / accuracy", **SHARES)


def dates(kept):
    made, axis = figure(378)
    matrix(axis, np.array(kept["A"]).T, [*kept["text"], "end"], list(kept["iso"]))
    axis.set_aspect("auto")
    return made


def heads(kept):
    made, axes = figure(206, 1, 2)
    for axis, A, words in zip(axes, kept["A2"], ("one head", "the other"), strict=True):
        matrix(axis, A)
        axis.set_title(words)
    return made


def blocks(kept):
    made, axis = figure(316)
    matrix(axis, kept["p"], [f"after block {n}" for n in range(1, len(kept["p"]) + 1)],
           ["space" if letter == " " else letter for letter in kept["letters"]])
    write_values(axis, kept["p"])
    axis.invert_yaxis()
    return made


def gpt(kept):
    draw = Drawing(40 * len(kept["said"]) + 10)
    for n, (step, words) in enumerate(kept["said"].items()):
        draw.text(6, 18 + 40 * n, f"after {step} steps: twenty one …", "small", "start")
        draw.text(14, 36 + 40 * n, f"“{words}”", "small", "start")
    return draw


def valley(kept):
    made, axis = figure(250)
    x, y = np.meshgrid(np.linspace(-2.3, 2.3, 61), np.linspace(-0.9, 0.9, 61))
    axis.contour(x, y, (x**2 + kept["curvature"][1] * y**2) / 2, (0.15, 0.5, 1, 2, 4, 9),
                 colors=INK, linewidths=0.6, linestyles=":")
    for name, form in (("SGD", "--"), ("AdamW", "-")):
        path = np.array(kept[name])
        axis.plot(*path.T, form, color=BLUE if name == "SGD" else INK, label=name)
        axis.plot(*path[-1], "s", color=BLUE)
    made.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    axis.set_axis_off()
    return made


def sentences(kept):
    draw = Drawing(250)
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


def ranks(kept):
    made, axis = figure(214)
    names = ["none", *(f"rank {r}: {size} parameters" for r, size in zip(
        kept["ranks"], kept["learned"], strict=True))]
    axis.bar_label(axis.barh(names, [kept["before"], *kept["loss"]], color=BLUE, alpha=0.4),
                   fmt="{:.2f}", padding=4)
    axis.invert_yaxis()
    axis.set(xticks=[], xlim=(0, 1.15 * kept["before"]))
    return made


def late(kept):
    rows = [row for row in zip(kept["step"], kept["train_accuracy"], kept["validation_accuracy"],
                               strict=True) if None not in row]
    step, seen, new = zip(*rows, strict=True)
    return _lines(step, {"training set": seen, "held-out set": new}, xscale="log",
                  xlabel="training step / accuracy", **SHARES)


def further(kept):
    return _lines(kept["places"], {"rotated": kept["turned"], "added": kept["added"]},
                  xticks=(12, 24, 36), xlabel="position / accuracy", **SHARES)
