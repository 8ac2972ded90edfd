"""Document 004, Problems 1.2 and 1.4, worked: two layers of one unit, a model of three words."""

import numpy as np

from exercises.solved.d004_lstm_cell import lstm_step
from exercises.worked import Check, Solution, Step, Table, num, vec
from npdl.functions import softmax
from npdl.layers.recurrent import LSTM
from npdl.models.lstm_lm import LSTMLM

ONES = {gate: (1.0, 1.0, 0.0) for gate in "ifoc"}   # W = U = 1, b = 0
INPUTS = (1.0, 0.5, -0.5)
TABLE = (1.0, 0.5, -0.5)                    # the embedding of tokens 0, 1, 2, width 1
READOUT = (2.0, 0.0, -2.0)                  # the classifier's weights
IDS = (0, 2, 0)


def layer(inputs):
    """[(h, c)] of a one-unit layer at every step, from h = c = 0."""
    h = c = 0.0
    found = []
    for x in inputs:
        _, c, h = lstm_step(x, h, c, ONES)
        found.append((h, c))
    return found


def fill(model, values):
    """Every parameter of a model set: 1, or 0 for a bias, or what `values` says by its name."""
    for name, param in model.params():
        last = name.rsplit(".", 1)[-1]
        param.data[...] = values.get(name, 0.0 if last == "b" else 1.0)
    return model


def stack():
    """1.2."""
    first = layer(INPUTS)
    second = layer([h for h, _ in first])
    lstm = fill(LSTM(1, 1, 2, dtype="float64"), {})
    (y, (h, c)), _ = lstm.forward(np.array(INPUTS)[None, :, None])
    last, (start, _, _) = [first[-1], second[-1]], lstm_step(INPUTS[0], 0.0, 0.0, ONES)
    rows = [(number, t, num(x), *map(num, state)) for number, (inputs, states) in
            enumerate(((INPUTS, first), ([h for h, _ in first], second)), 1)
            for t, (x, state) in enumerate(zip(inputs, states, strict=True), 1)]
    return Solution(
        "1.2",
        (
            Step("Start every layer with zeros: nothing is remembered yet.",
                 "h₀⁽ˡ⁾ = c₀⁽ˡ⁾ = 0,   shape (B, d_h)"),
            Step("Layer 1 reads the sequence step by step; layer 2 reads the h that layer 1 made "
                 "at the same step.", "hₜ⁽ˡ⁾, cₜ⁽ˡ⁾ = cell⁽ˡ⁾(hₜ⁽ˡ⁻¹⁾, (hₜ₋₁⁽ˡ⁾, cₜ₋₁⁽ˡ⁾)),   "
                 "hₜ⁽⁰⁾ = xₜ",
                 f"layer 1, t = 1: z = x + h = {num(start['i'][0], 0)} for all gates, i = f = o = "
                 f"{num(start['i'][1])}, c̃ = {num(start['c'][1])}\n"
                 f"c = {num(start['f'][1])} · 0 + {num(start['i'][1])} · {num(start['c'][1])} = "
                 f"{num(first[0][1])},   h = {num(start['o'][1])} · tanh({num(first[0][1])}) = "
                 f"{num(first[0][0])}",
                 table=Table(("layer", "t", "input", "h", "c"), tuple(rows))),
            Step("With dropout, what layer 2 reads would be layer 1's h with entries set to 0; the "
                 "h that goes on in time, and the last layer's output, stay as they are.",
                 "input of layer 2 = Dropout(h⁽¹⁾),   only if L ≥ 2"),
            Step("Return the last layer at every step, and every layer at the last step. Don't "
                 "mix the two up.",
                 "output (B, S, d_h);   final h and c, each (L, B, d_h)",
                 f"output: {vec([h for h, _ in second])}\n"
                 f"final h: {vec([h for h, _ in last])},   final c: {vec([c for _, c in last])}"),
        ),
        f"Output {vec([h for h, _ in second])} (layer 2, t = 1 to 3); final h "
        f"{vec([h for h, _ in last])} (layers 1 and 2 at t = 3).",
        (Check("npdl's LSTM of two layers gives the same output and final states",
               np.allclose(y[0, :, 0], [h for h, _ in second])
               and np.allclose(h[:, 0, 0], [h for h, _ in last])
               and np.allclose(c[:, 0, 0], [c for _, c in last])),),
        f"L = 2 layers, B = 1, S = 3, d_x = d_h = 1, all W = U = 1, b = 0, x = {vec(INPUTS, 1)}.")


def model():
    """1.4."""
    x = [TABLE[token] for token in IDS]
    states = layer(x)
    logits = [[w * h for w in READOUT] for h, _ in states]
    P = softmax(np.array(logits))
    own = fill(LSTMLM(3, 1, 1, 1, dtype="float64"),
               {"embedding.W": np.array(TABLE)[:, None], "classifier.W": np.array([READOUT])})
    (predicted, _), _ = own.forward(np.array([IDS]))
    rows = tuple((t, IDS[t - 1], num(x[t - 1], 1), num(states[t - 1][0]), vec(logits[t - 1]),
                  vec(P[t - 1])) for t in range(1, len(IDS) + 1))
    return Solution(
        "1.4",
        (
            Step("Look up each token's vector.", "C(x) = row x of the embedding,   (B, S) → "
                 "(B, S, d_x)", f"tokens {vec(IDS)} → {vec(x, 1)}"),
            Step("Run the LSTM over the vectors.", "(B, S, d_x) → (B, S, d_h)",
                 f"h = {vec([h for h, _ in states])}"),
            Step("A linear map gives one number for each word: logits, not probabilities. The loss "
                 "takes their log-softmax itself.", "Ŷ = h W + b,   (B, S, d_h) → (B, S, V)",
                 f"W = {vec(READOUT, 0)}, b = 0"),
            Step("Row t is made of tokens 1 to t alone, and predicts token t + 1.",
                 "P̂ₜ = softmax(Ŷₜ)",
                 table=Table(("t", "token", "C(x)", "h", "logits", "P̂ₜ"), rows)),
        ),
        "logits = classifier(LSTM(embedding(x))), with the final h and c; after tokens "
        f"{vec(IDS)} the next one is most probably {int(np.argmax(P[-1]))} ({num(max(P[-1]))}).",
        (Check("npdl's LSTMLM with these numbers gives the same logits",
               np.allclose(predicted[0], logits)),
         Check("the rows before the last do not change with the last token",
               np.allclose(own.forward(np.array([[*IDS[:-1], 1]]))[0][0][0, :-1],
                           logits[:-1]))),
        "V = 3 words, widths 1, one layer with all W = U = 1.")


def solutions():
    return [stack(), model()]
