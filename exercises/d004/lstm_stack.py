"""Document 004, Problems 1.2 and 1.4: several LSTM layers, their states, and the language model."""

from functools import partial

import numpy as np

from exercises.d004.lstm_cell import lstm_step
from exercises.framework import Claim, judge, proved
from exercises.probes import influence
from exercises.worked import Solution, Table, below, listing, num, vec
from npdl.backend import stream
from npdl.data import ModularArithmetic
from npdl.functions import softmax
from npdl.layers.recurrent import LSTM
from npdl.models.lstm_lm import LSTMLM

QUESTION = """\
L LSTM layers are stacked: each reads the whole sequence of the layer below, with dropout between
layers but not after the last. For x (B, S, d_x) they return the last layer's h at every step and
the final h and c of every layer. An embedding below and a linear map above make it a language
model. Are the printed shapes, states, dropout rules and probabilities right?"""

B, S, D_X, D_H, L = 3, 5, 2, 4, 2                       # all different, so that no axis can hide

TITLES = {"1.2": "Several LSTM layers", "1.4": "A language model around an LSTM"}

claim = partial(Claim, "004")


def stacked_by_steps(lstm, x):
    """Every h and c of every layer, step by step with the cells: two arrays (L, S, B, d_h)."""
    hs, cs, below_it = [], [], x.swapaxes(0, 1)
    for layer in lstm.layers:
        state, h_layer, c_layer = None, [], []
        for x_t in below_it:
            state, _ = layer.cell.forward(x_t, state)
            h_layer.append(state[0])
            c_layer.append(state[1])
        below_it = np.array(h_layer)
        hs.append(below_it)
        cs.append(np.array(c_layer))
    return np.array(hs), np.array(cs)


def example(num_layers=L, dropout=0.0):
    """An LSTM in float64 and an input (B, S, d_x)."""
    lstm = LSTM(D_X, D_H, num_layers, dropout=dropout, rng=1, dtype="float64")
    return lstm, np.random.default_rng(0).standard_normal((B, S, D_X))


def claims():
    return [*state_claims(), *dropout_claims(), *model_claims()]


def state_claims():
    lstm, x = example()
    (y, (h, c)), _ = lstm.forward(x)
    hs, cs = stacked_by_steps(lstm, x)
    error = float(max(abs(y - hs[-1].swapaxes(0, 1)).max(), abs(h - hs[:, -1]).max(),
                      abs(c - cs[:, -1]).max()))
    printed = hs[0]                                     # [h_1^(1), .., h_S^(1)] stacked
    zeros = np.zeros((L, B, D_H))
    (same, _), _ = lstm.forward(x, (zeros, zeros))
    apart = float(abs(same - y).max())
    ask = partial(claim, "Problem 1.2")
    yield ask("recursion",
              "Each layer reads the h of the layer below at the same step, and its own h and c of "
              "the step before.", "h_t, c_t of layer l from h_t of l - 1",
              f"npdl's LSTM and L x S calls of the cell agree: {below(error)}",
              proved(error < 1e-9), f"B = {B}, S = {S}, d_x = {D_X}, d_h = {D_H}, L = {L}")
    yield ask("full output",
              "The output is the last layer's h at steps 1 to S, of shape (B, S, d_h).",
              "[h_1^(L) .. h_S^(L)], (B, S, d_h)", f"shape {y.shape}",
              judge(y.shape == (B, S, D_H), provided=error < 1e-9), "batch first, same data")
    yield ask("final states",
              "The final states of all layers are the lists of h and c of layer 1 at steps 1 to "
              "S, each of shape (L, B, d_h).",
              "([h_1^(1) .. h_S^(1)], [c_1^(1) .. c_S^(1)]), each (L, B, d_h)",
              "([h_S^(1) .. h_S^(L)], [c_S^(1) .. c_S^(L)]): the last step of every layer",
              judge(printed.shape == h.shape and np.allclose(printed, h), if_false="slip",
                    provided=error < 1e-9),
              f"stacked as printed the list has shape {printed.shape} (S first), not {h.shape}, "
              "and holds nothing of layer 2; npdl's final states are the h and c of step S: "
              f"{below(error)}")
    yield ask("start", "Without a given state, h_0 and c_0 are zeros.", "0 by default",
              f"the same output as with zeros given: {below(apart)}",
              proved(np.allclose(same, y, atol=1e-12)), "same weights and input")


def dropout_claims():
    one, x = example(num_layers=1, dropout=0.5)
    quiet = one.forward(x)[0][0]
    alone = np.array_equal(one.forward(x, None, stream(0, 1))[0][0], quiet)
    two, x = example(dropout=0.5)
    (y, (h, _)), _ = two.forward(x, None, stream(0, 1))
    (y_without, (h_without, _)), _ = two.forward(x)
    changed = float(abs(y - y_without).max())
    zeros = int((y == 0).sum())
    ask = partial(claim, "Problem 1.2")
    rate, rng = 0.5, stream(0, 1)
    dropped = h_without[0] * (rng.random(h_without[0].shape) >= rate) / (1 - rate)
    same_as_dropped = np.allclose(dropped, h_without[0])
    apart = abs(dropped - h_without[0]).max()
    yield ask("dropout",
              "Dropout acts between layers: not with L = 1, not on the last layer's output.",
              "if L >= 2 and l < L",
              f"L = 1: no change; L = 2: the output changes by up to {changed:.2f} and {zeros} of "
              f"its {y.size} entries are 0", proved(alone and changed > 0 and zeros == 0),
              "npdl's LSTM, rate 0.5; an example, masks and input of seed 0, weights of 1")
    yield ask("dropout in time", "Dropout does not act from step to step inside a layer.",
              "not across time steps", "layer 1's final h is the same with dropout as without",
              proved(np.array_equal(h[0], h_without[0])),
              "npdl's LSTM, rate 0.5: equal bit for bit")
    yield ask("dropout and states",
              "Writing h^(l) = Dropout(h^(l)) leaves the returned final states well defined.",
              "the same name h^(l) before and after dropout",
              "two readings: the state before dropout (npdl returns this) or its dropped copy",
              judge(same_as_dropped, if_false="under-specified"),
              f"in that example the two differ by up to {apart:.2f}; to go on needs the undropped")


def model_claims(vocab_size=36):
    model = LSTMLM(vocab_size, 8, 2, dtype="float64")
    ids = np.random.default_rng(0).integers(vocab_size - 1, size=(B, S))
    (logits, _), _ = model.forward(ids)
    p = softmax(logits)
    sums_off = float(abs(p.sum(-1) - 1).max())
    reached = influence(lambda ids: model.forward(ids[None])[0][0][0], ids[0])
    leak, moved = reached[np.triu_indices(S, 1)].max(), np.diag(reached).min()
    x = model.embedding.W.data[ids]
    y = model.lstm.forward(x)[0][0]
    by_hand = y @ model.classifier.W.data + model.classifier.b.data
    error = float(abs(by_hand - logits).max())
    (prefix, _), _ = model.forward(ids[:, :3])
    at_3 = float(abs(prefix[:, -1] - logits[:, 2]).max())
    ask = partial(claim, "Problem 1.4")
    return [
        ask("logits", "The model is classifier(LSTM(embedding(x))) and returns logits (B, S, V) "
            "with the final states.", "logits, not probabilities", f"shape {logits.shape}; by "
            f"hand the same: {below(error)}", proved(error < 1e-9),
            "npdl's LSTMLM, float64"),
        ask("distribution", "softmax of row i of the logits is a distribution over V tokens given "
            "tokens 1 to i only.", "P_i in [0, 1]^V, context x_1 .. x_i",
            f"rows sum to 1 ({below(sums_off)}); another token moves "
            f"earlier rows not ({below(leak)}) but its own by {moved:.2f} or more",
            judge(leak < 1e-9 < moved, provided=p.min() >= 0 and sums_off < 1e-9
                  and (at_3 < 1e-9) == (leak < 1e-9)),    # two ways to see a later token
            "each token changed in turn, all others kept; an example, all of seed 0"),
        *letter_claims(vocab_size),
    ]


def unmatched(ids, vocab_size):
    """(ids that are no component of 1 .. V, components that are no id), each sorted."""
    components = set(range(1, vocab_size + 1))
    return sorted(set(ids) - components), sorted(components - set(ids))


def letter_claims(vocab_size):
    """Claims on how Problem 1.4 numbers and names things."""
    p = vocab_size - 5                                  # five signs beside the numbers
    words = ModularArithmetic(p).vocabulary
    lost, extra = unmatched([words.id_of(token) for token in words.tokens], words.size)
    return [
        claim("Problem 1.4", "indices", "The components j in [V] of P_i are the tokens, with "
              "[n] = {1 .. n} and tokens in {0 .. V - 1}.", "j in [V], tokens in {0 .. V - 1}",
              "j must run over {0 .. V - 1}, or the tokens be numbered from 1",
              judge(not lost and not extra, if_false="slip"), f"the vocabulary of p = "
              f"{p}: tokens {listing(lost, 'd')} have no component, components "
              f"{listing(extra, 'd')} no token", error="components from 1"),
    ]


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
    work = Solution("1.2",
                    "L = 2 layers, B = 1, S = 3, d_x = d_h = 1, all W = U = 1, b = 0, x = "
                    f"{vec(INPUTS, 1)}.")
    work.step("Start every layer with zeros: nothing is remembered yet.",
              "h₀⁽ˡ⁾ = c₀⁽ˡ⁾ = 0,   shape (B, d_h)")
    work.step("Layer 1 reads the sequence step by step; layer 2 reads the h that layer 1 made at "
              "the same step.", "hₜ⁽ˡ⁾, cₜ⁽ˡ⁾ = cell⁽ˡ⁾(hₜ⁽ˡ⁻¹⁾, (hₜ₋₁⁽ˡ⁾, cₜ₋₁⁽ˡ⁾)),   hₜ⁽⁰⁾ = xₜ",
              f"layer 1, t = 1: z = x + h = {num(start['i'][0], 0)} for all gates, i = f = o = "
              f"{num(start['i'][1])}, c̃ = {num(start['c'][1])}\nc = {num(start['f'][1])} · 0 + "
              f"{num(start['i'][1])} · {num(start['c'][1])} = {num(first[0][1])},   h = "
              f"{num(start['o'][1])} · tanh({num(first[0][1])}) = {num(first[0][0])}",
              table=Table(("layer", "t", "input", "h", "c"), tuple(rows)))
    work.step("With dropout, what layer 2 reads would be layer 1's h with entries set to 0; the h "
              "that goes on in time, and the last layer's output, stay as they are.",
              "input of layer 2 = Dropout(h⁽¹⁾),   only if L ≥ 2")
    work.step("Return the last layer at every step, and every layer at the last step. Don't mix "
              "the two up.", "output (B, S, d_h);   final h and c, each (L, B, d_h)",
              f"output: {vec([h for h, _ in second])}\nfinal h: {vec([h for h, _ in last])},   "
              f"final c: {vec([c for _, c in last])}")
    work.answer = (f"Output {vec([h for h, _ in second])} (layer 2, t = 1 to 3); final h "
                   f"{vec([h for h, _ in last])} (layers 1 and 2 at t = 3).")
    work.check("npdl's LSTM of two layers gives the same output and final states",
               np.allclose(y[0, :, 0], [h for h, _ in second])
               and np.allclose(h[:, 0, 0], [h for h, _ in last])
               and np.allclose(c[:, 0, 0], [c for _, c in last]))
    return work


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
    work = Solution("1.4", "V = 3 words, widths 1, one layer with all W = U = 1.")
    work.step("Look up each token's vector.",
              "C(x) = row x of the embedding,   (B, S) → (B, S, d_x)",
              f"tokens {vec(IDS)} → {vec(x, 1)}")
    work.step("Run the LSTM over the vectors.", "(B, S, d_x) → (B, S, d_h)",
              f"h = {vec([h for h, _ in states])}")
    work.step("A linear map gives one number for each word: logits, not probabilities. The loss "
              "takes their log-softmax itself.", "Ŷ = h W + b,   (B, S, d_h) → (B, S, V)",
              f"W = {vec(READOUT, 0)}, b = 0")
    work.step("Row t is made of tokens 1 to t alone, and predicts token t + 1.",
              "P̂ₜ = softmax(Ŷₜ)", table=Table(("t", "token", "C(x)", "h", "logits", "P̂ₜ"), rows))
    work.answer = ("logits = classifier(LSTM(embedding(x))), with the final h and c; after tokens "
                   f"{vec(IDS)} the next one is most probably {int(np.argmax(P[-1]))} "
                   f"({num(max(P[-1]))}).")
    work.check("npdl's LSTMLM with these numbers gives the same logits",
               np.allclose(predicted[0], logits))
    work.check("the rows before the last do not change with the last token",
               np.allclose(own.forward(np.array([[*IDS[:-1], 1]]))[0][0][0, :-1], logits[:-1]))
    return work


def solutions():
    return [stack(), model()]
