"""The pictures of ```{picture} NAME: a file in drawings/, or a function draw_NAME.

An .html file in drawings/ has sliders, and static/moving.js redraws it. A picture with the name of
a trained model shows the `record` of the model: a function draws it, or an .svg file contains
expressions such as {p[0]::.2f}. npdl computes the curves, bars and matrices.
"""

from pathlib import Path

import numpy as np

import npdl
from docs.book import drawing, trained
from docs.book.checks import fill_in_values
from npdl.adapt.quantize import dequantize, quantize
from npdl.decoding import filter_probabilities
from npdl.layers.embedding import sinusoidal
from npdl.losses import StableMaxLoss
from npdl.optim import NEWTON_SCHULZ
from npdl.study.plots.through_time import CELLS, compute_norm_curves

DRAWINGS = Path(__file__).parent / "drawings"
SHARES = {"yticks": (0, 0.5, 1), "yticklabels": ("0", "50 %", "100 %")}
BARS = {"color": drawing.BLUE, "alpha": 0.4}


def make_strip(tokens, rows):
    """Draw the tokens of a sequence, and below them rows {name: values} of squares."""
    return drawing.draw_table(34 + 26 * len(rows), list(rows.values()), rows, tokens, aspect="auto")


def render_picture(name, caption):
    """Return the picture `name` as SVG, with its caption as description."""
    record = trained.read_record(name)
    for file in DRAWINGS.glob(f"{name}.*"):
        text = file.read_text(encoding="utf-8")
        text = text if file.suffix == ".html" else fill_in_values(text, record)
        return drawing.add_label(text, caption)
    return drawing.as_svg(globals()[f"draw_{name}"], *([record] if record else []), label=caption)


# -- of layers ---------------------------------------------------------------------------------

def draw_activation_derivatives():
    """Draw the activations and their derivatives."""
    made, axes = drawing.make_figure(380, 2, 2)
    x = np.linspace(-4, 4, 161)
    layers = npdl.Sigmoid(), npdl.Tanh(), npdl.ReLU(), npdl.GELU()
    for axis, layer in zip(axes.flat, layers, strict=True):
        y, cache = layer.forward(x)
        axis.plot(x, y)
        axis.plot(x, layer.backward(np.ones_like(x), cache))
        axis.set(title=type(layer).__name__, ylim=(-1.1, 2), xticks=[-4, -2, 0, 2, 4],
                 yticks=[-1, 0, 1, 2])
        axis.grid()
    return made


def draw_fading_gradients():
    """Draw the norms of the gradients in a network of ten layers, with three activations."""
    made, axis = drawing.make_figure(264)
    for kind in (npdl.ReLU, npdl.Tanh, npdl.Sigmoid):
        rng, layers, f = np.random.default_rng(0), [], kind()
        x, dx = rng.standard_normal((2, 100, 64))
        for W in np.linalg.qr(rng.standard_normal((10, 64, 64)))[0]:
            x, cache = f.forward(x @ W)
            layers.append((W, cache))
        norms = [np.linalg.norm(dx := f.backward(dx, c) @ W.T) for W, c in layers[::-1]]
        axis.semilogy(range(10, 0, -1), norms / norms[0], label=kind.__name__)
    made.legend(loc="outside upper center", ncols=3)
    axis.set(xlabel="layer", yticks=(1, 1e-2, 1e-4), yticklabels=("100 %", "1 %", "0.01 %"))
    return made


def draw_gradients_through_time():
    """Draw the norms of gradients through time in three cells, with two initialisations."""
    made, axes = drawing.make_figure(480, 2)
    for axis, has_long_memory in zip(axes, (False, True), strict=True):
        for name, (cell, _) in CELLS.items():
            norms = compute_norm_curves(cell, has_long_memory, 100)
            axis.semilogy(np.exp(np.log(norms).mean(0)), label=name)
        axis.set(title="long memory" if has_long_memory else "default initialisation",
                 ylim=(1e-16, 10), yticks=(1, 1e-5, 1e-10, 1e-15))
        axis.grid()
    axis.set(xlabel="steps back from the end")
    made.legend(*axis.get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return made


def draw_softmax_gradients():
    """Draw scores, their probabilities, and the gradient of the loss with respect to the scores."""
    x = np.array([[1.6, 0.9, 0.2, -0.4, -1.2]])
    loss = npdl.CrossEntropy()
    _, cache = loss.forward(x, np.array([1]))
    made, axes = drawing.make_figure(560, 3)
    for axis, name, values in zip(axes, ("scores x", "p", "dx = p − q"), (
            x[0], np.exp(cache.log_p[0]), loss.backward(1.0, cache)[0]), strict=True):
        colours = [(drawing.BLUE, 0.6 if k == 1 else 0.15) for k in range(5)]
        axis.bar_label(axis.bar(range(5), values, color=colours), fmt="{:.2f}", padding=2)
        axis.axhline(0, color=drawing.INK, linewidth=0.8)
        axis.set(title=name, xticks=[], yticks=[])
        axis.margins(y=0.15)
        axis.spines[:].set_visible(False)
    return made


def draw_saturated_gradients():
    """Draw the gradient of the correct score with two losses, from wrong to right predictions."""
    x = np.stack([np.linspace(-8, 8, 81), np.zeros(81)], 1)
    loss, softmax, squared = (npdl.CrossEntropy(reduction="sum"), npdl.Softmax(),
                              npdl.SquaredError(reduction="sum"))
    entropy = loss.backward(1.0, loss.forward(x, np.zeros(81, int))[1])
    p, cache = softmax.forward(x)
    dp, _ = squared.backward(1.0, squared.forward(p, np.array([[1.0, 0]] * 81))[1])
    return drawing.draw_curves(x[:, 0], {
        "cross-entropy": entropy[:, 0], "squared error": softmax.backward(dp, cache)[:, 0]},
        xticks=range(-8, 9, 4), xlabel="score of the correct class",
        ylabel="gradient of this score")


def draw_sinusoidal_positions():
    """Draw the matrix of sinusoidal positions, and inner products of two rows with all others."""
    made, axes = drawing.make_figure(470, 2, height_ratios=(3, 2))
    PE = sinusoidal(24, 32, "2k/d")
    drawing.draw_matrix(axes[0], PE, low=-1)
    axes[0].set(xticks=range(0, 32, 4), xticklabels=range(0, 32, 4), xlabel="entry of the vector",
                yticks=range(0, 24, 4), yticklabels=range(0, 24, 4), ylabel="position")
    axes[0].xaxis.set_label_position("top")
    for row in (6, 16):
        axes[1].plot(PE @ PE[row], "o-", markersize=3, label=f"with position {row}")
    axes[1].set(xlabel="position", ylabel="inner product", xticks=range(0, 24, 4))
    made.legend(loc="outside lower center", ncols=2)
    return made


def draw_adam_first_steps():
    """Draw Adam's steps for a constant gradient, with and without the bias corrections."""
    model = npdl.Linear(1, 1, bias=False).astype("float64")
    adam, weights, bare = npdl.Adam(model, lr=1e-3), [model.W.data[0, 0]], []
    model.W.grad[...] = 5.0
    for _ in range(3000):
        adam.step()
        weights.append(model.W.data[0, 0])
        bare.append(adam.m["W"][0, 0] / np.sqrt(adam.v["W"][0, 0]))
    lines = {"with corrections": -np.diff(weights) / adam.lr, "without": bare}
    return drawing.draw_curves(range(1, 3001), lines, xscale="log", xticks=(1, 10, 100, 1000),
                               xticklabels=("1", "10", "100", "1,000"), ylim=(0, 7),
                               xlabel="step", ylabel="step / learning rate")


def draw_causal_mask():
    """Draw causal_mask(6)."""
    return drawing.draw_table(304, np.where(npdl.causal_mask(6), 0.7, 0.04), range(6), range(6))


def draw_gradient_flow():
    """Draw the norms of the gradients from the logits at position t to the embedding at position k.

    Each row is divided by its largest norm.
    """
    S, model = 5, npdl.GPT(7, 16, 2, 2, max_len=5, rng=3, dtype="float64")
    logits, cache = model.forward(np.array([[1, 4, 2, 5, 3]]))
    upstream, sizes = np.random.default_rng(5).standard_normal(logits.shape), []
    for t in range(S):
        dx = model.classifier.backward(np.where(np.arange(S)[:, None] == t, upstream, 0),
                                       cache.classifier)
        sizes.append(np.linalg.norm(model.decoder.backward(dx, cache.decoder)[0], axis=-1))
    reached = np.array(sizes) / np.max(sizes, axis=1, keepdims=True)
    return drawing.draw_table(290, reached, [f"t = {t}" for t in range(S)],
                              [f"k = {t}" for t in range(S)], printed_numbers=reached)


def draw_sampling_filters():
    """Draw the probabilities of four next tokens: unchanged, with two temperatures, with top_p."""
    made, axes = drawing.make_figure(330, 2, 2)
    for axis, title, options in zip(
            axes.flat, ("unchanged", "temperature 0.5", "temperature 2", "top_p = 0.9"),
            ({}, {"temperature": 0.5}, {"temperature": 2}, {"top_p": 0.9}), strict=True):
        p = filter_probabilities(np.log([[0.6, 0.25, 0.1, 0.05]]), **options)[0]
        bars = axis.bar(("mat", "sofa", "roof", "moon"), p, **BARS)
        axis.bar_label(bars, fmt="{:.2f}", padding=2)
        axis.set(title=title, yticks=[], ylim=(0, 1))
        axis.spines["left"].set_visible(False)
    return made


def draw_quantisation_steps():
    """Draw weights against their quantised values with three bits, and the errors."""
    made, axes = drawing.make_figure(440, 2, sharex=True, height_ratios=(3, 2))
    W = np.linspace(-3, 3, 601)
    for rounding, name in (("floor", "rounding down"), ("nearest", "to the nearest code")):
        W_hat = dequantize(*quantize(W, 3, rounding))
        axes[0].plot(W, W_hat, label=name)
        axes[1].plot(W, W - W_hat)
    made.legend(loc="outside upper center", ncols=2)
    axes[0].set(title="quantised weight", xticks=range(-3, 4), yticks=range(-3, 4))
    axes[1].set(title="error: weight − quantised weight", xlabel="weight", yticks=(-0.5, 0, 0.5, 1))
    axes[0].grid()
    axes[1].grid()
    return made


def draw_rotated_pairs():
    """Draw a pair of entries of a query and one of a key, each rotated at two positions."""
    made, axes = drawing.make_figure(470, 2, subplot_kw={"aspect": "equal"})
    q, k = np.array([1.0, 0.0]), 0.8 * np.array([np.cos(1), np.sin(1)])
    circle = np.linspace(0, 2 * np.pi, 65)
    for axis, places in zip(axes, ((3, 1), (6, 4)), strict=True):
        axis.plot(np.cos(circle), np.sin(circle), ":", color=drawing.INK)
        for name, pair, place in zip("qk", (q, k), places, strict=True):
            y = npdl.Rotary(2).forward(pair[None], np.array([place]))[0][0]
            axis.annotate("", y, (0, 0), arrowprops={"arrowstyle": "->", "color": drawing.INK})
            axis.text(*1.18 * y / np.linalg.norm(y), f"{name}{'₀₁₂₃₄₅₆'[place]}", ha="center",
                      va="center")
        axis.set_axis_off()
    return made


def draw_stablemax():
    """Draw the function s of StableMax, and the exponential function."""
    x = np.linspace(-4, 2, 121)
    _, cache = StableMaxLoss().forward(x[None], np.array([0]))
    lines = {"s of StableMax": cache.s[0], "exponential function": np.exp(x)}
    return drawing.draw_curves(x, lines, xlabel="logit", ylabel="value")


def draw_grokfast_factors():
    """Draw the factors by which Grokfast multiplies gradients that are waves in time."""
    period = np.geomspace(2, 2000, 241)
    lines = {f"β = {beta}": abs(1 + 2 * (1 - beta) / (1 - beta * np.exp(-2j * np.pi / period)))
             for beta in (0.98, 0.9)}
    return drawing.draw_curves(period, lines, xscale="log", xticks=(2, 10, 100, 1000),
                               xticklabels=("2", "10", "100", "1,000"), yticks=(1, 2, 3),
                               xlabel="period in steps", ylabel="factor")


def draw_muon_rounds():
    """Draw five rounds of Muon's polynomial and of Newton and Schulz's, for one singular value."""
    lines = dict.fromkeys(("Muon", "Newton and Schulz"), tau := np.geomspace(1e-4, 1, 241))
    for name, (a, b, c) in 5 * [("Muon", NEWTON_SCHULZ), ("Newton and Schulz", (1.5, -0.5, 0))]:
        lines[name] = a * lines[name] + b * lines[name]**3 + c * lines[name]**5
    return drawing.draw_curves(tau, lines, xscale="log", xlabel="before", ylabel="after 5 rounds")


# -- of trained models -------------------------------------------------------------------------

def draw_thermometer_line(record):
    made, axis = drawing.make_figure(290)
    x = np.array([-30, 110])
    lines = zip(record["steps"], record["slopes"], record["offsets"], strict=True)
    for step, slope, offset in lines:
        last = step == record["steps"][-1]
        axis.plot(x, slope * x + offset, "-" if last else ":", color=drawing.INK)
        end = x[1] if slope > 0 else (-50 - offset) / slope         # a falling line leaves below
        axis.text(end, slope * end + offset, f" {step}",
                  va="bottom" if last or slope < 0 else "top")
    axis.plot(record["celsius"], record["fahrenheit"], "o", color=drawing.BLUE)
    axis.set(xlabel="°C", ylabel="°F", xlim=(-30, 126), ylim=(-60, 260))
    axis.grid()
    return made


def draw_xor_networks(record):
    made, axes = drawing.draw_matrices(210, {"two linear layers": record["straight"],
                                             "a tanh between": record["bent"]})
    for axis in axes:
        for x, y, answer in ((0, 0, "0"), (0, 1, "1"), (1, 0, "1"), (1, 1, "0")):
            axis.text(2 + 8 * x, 10 - 8 * y, answer, ha="center", va="center")
    return made


def draw_next_letters(record):
    made, axis = drawing.make_figure(200)
    names = [f"{'end' if letter == '.' else letter}\n{count}/{record['total']}"
             for letter, count in zip(record["letters"], record["counts"], strict=True)]
    axis.bar_label(axis.bar(names, record["p"], **BARS), fmt="{:.2f}", padding=2)
    axis.set(yticks=[], ylim=(0, 1.15 * max(record["p"])))
    axis.spines["left"].set_visible(False)
    return made


def draw_weekday_embeddings(record):
    made, axis = drawing.make_figure(320)
    axis.plot(*record["points"][[*range(7), 0]].T, ":", color=drawing.INK)
    for place, day in zip(record["points"], record["days"], strict=True):
        axis.text(*place, day, ha="center", va="center",
                  bbox={"boxstyle": "round", "facecolor": drawing.PAPER, "edgecolor": drawing.BLUE})
    axis.margins(0.12)
    axis.set(aspect="equal")
    axis.set_axis_off()
    return made


def draw_light_switch(record):
    buttons = {"-": "·", "0": "off", "1": "on"}
    return make_strip([buttons[token] for token in record["text"]], {
        "light": record["p"],
        **{f"h{'₁₂₃'[n]}": (row + 1) / 2 for n, row in enumerate(record["h"])}})


def draw_closing_brackets(record):
    return make_strip(record["text"], {
        "forget f": np.mean(record["f"], 1), "input i": np.mean(record["i"], 1),
        "output o": np.mean(record["o"], 1),
        **{f"cell state c{'₁₂₃₄'[k]}": (np.tanh(c / 4) + 1) / 2
           for k, c in enumerate(record["c"].T)},
        **{f"next: {b}": values for b, values in record["p"].items() if b != "}"}})


def draw_pronouns(record):
    shown = {name: np.stack([record[name]["z"][:, 1], (record[name]["h"][:, 1] + 1) / 2], 1)
             for name in ("anna", "tom")}
    made, axes = drawing.draw_matrices(384, shown, xticks=(0, 1), xticklabels=("z", "h"),
                                       aspect="auto")
    axes[0].set(yticks=range(17), yticklabels=["(name)", *record["words"]])
    return made


def draw_bank_meanings(record):
    made, axes = drawing.make_figure(230, 1, 2, sharey=True)
    for axis, name, words in zip(axes, ("forwards", "both"),
                                 ("left to right", "both directions"), strict=True):
        axis.barh([f"the bank … the {last}" for last in record["last"]], record[name], **BARS)
        axis.set(title=words, xlim=(0, 1), xticks=(0, 1))
    axes[0].invert_yaxis()
    return made


def draw_deep_networks(record):
    made, axes = drawing.make_figure(420, 2)
    for name, label in (("normed", "with LayerNorm"), ("plain", "without")):
        axes[0].semilogy(range(1, 21), record[name]["spread"], label=label)
        axes[1].plot(5 * np.arange(len(record[name]["losses"])), record[name]["losses"])
    made.legend(loc="outside upper center", ncols=2)
    axes[0].set(xlabel="layer", ylabel="difference of the inputs", yticks=(1, 1e-4, 1e-8, 1e-12))
    axes[1].set(xlabel="training step", ylabel="loss")
    return made


def draw_date_translation(record):
    return drawing.draw_table(378, record["A"].T, [*record["text"], "end"],
                              list(record["iso"]), aspect="auto")


def draw_attention_heads(record):
    maps = dict(zip(("one head", "the other"), record["A2"], strict=True))
    return drawing.draw_matrices(236, maps, *2 * [record["text"]], xlabel="key", ylabel="query")[0]


def draw_block_predictions(record):
    rows = [f"after block {n}" for n in range(1, len(record["p"]) + 1)]
    columns = ["space" if letter == " " else letter for letter in record["letters"]]
    return drawing.draw_table(316, record["p"], rows, columns, printed_numbers=record["p"],
                              ylim=(-0.5, len(rows) - 0.5))


def draw_adapter_ranks(record):
    made, axis = drawing.make_figure(214)
    names = ["none", *(f"rank {r}: {size} parameters" for r, size in zip(
        record["ranks"], record["learned"], strict=True))]
    axis.bar_label(axis.barh(names, [record["before"], *record["loss"]], **BARS),
                   fmt="{:.3f}", padding=4)
    axis.invert_yaxis()
    axis.set(xticks=[], xlim=(0, 1.2 * record["before"]))
    return made


def draw_late_generalisation(record):
    return drawing.draw_curves(record["step"], {"training set": record["train_accuracy"],
                                              "held-out set": record["validation_accuracy"]},
                               xscale="log", xlabel="training step", ylabel="accuracy", **SHARES)


def draw_longer_sequences(record):
    lines = {"rotated": record["turned"], "added": record["added"]}
    return drawing.draw_curves(record["places"], lines, xticks=(12, 24, 36),
                               xlabel="position (from 1)", ylabel="accuracy", **SHARES)


def draw_loss_after_memorising(record):
    step, log_loss = record["step"], record["log_loss"]
    line = log_loss[step == 5000] - (step - 5000) / 2000
    lines = {"measured": np.exp(log_loss), "factor e every 2000 steps": np.exp(line)}
    return drawing.draw_curves(step, lines, yscale="log", xticks=(4000, 6000, 8000, 10_000),
                               xlabel="training step", ylabel="training loss (nats)")


NAMES = sorted({path.stem for path in DRAWINGS.iterdir()} | {
    name.removeprefix("draw_") for name in globals() if name.startswith("draw_")})
