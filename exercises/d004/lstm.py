"""Document 004, Problems 1.1, 1.2 and 1.4: the LSTM cell, several layers, the language model."""

import math

import numpy as np

from exercises.course import format_table, judge, question, vec
from exercises.d004.layer_norm_attention import row_influence
from npdl.backend import make_rng
from npdl.data import ModularArithmetic
from npdl.functions import sigmoid, softmax
from npdl.layers.recurrent import LSTM, LSTMCell
from npdl.models.lstm_lm import LSTMLM

X, H, C = 1.0, 0.5, 0.4
WEIGHTS = {"i": (1.0, 1.0, 0.0), "f": (0.0, 2.0, 1.0), "o": (1.0, -1.0, 0.0),
           "c": (0.5, 1.0, 0.0)}            # W, U, b of each gate
ONES = {gate: (1.0, 1.0, 0.0) for gate in "ifoc"}
NAMES = {"i": "input gate iₜ", "f": "forget gate fₜ", "o": "output gate oₜ", "c": "candidate c̃ₜ"}


def lstm_step(x, h, c, weights):
    """Return ({gate: value}, h, c) after one step of one unit; weights are {gate: (W, U, b)}."""
    gates = {name: (np.tanh if name == "c" else sigmoid)(W * x + U * h + b)
             for name, (W, U, b) in weights.items()}
    c = gates["f"] * c + gates["i"] * gates["c"]
    return gates, gates["o"] * np.tanh(c), c


def run_npdl_cell(weights, h_and_c, inputs):
    """Return h and c of npdl's LSTMCell of one unit after `inputs`, started from `h_and_c`."""
    cell = LSTMCell(1, 1, dtype="float64")
    for param, values in zip((cell.W_x, cell.W_h, cell.b),
                             np.transpose([weights[gate] for gate in "ifoc"]), strict=True):
        param.data[...] = values
    state = [np.full((1, 1), float(value)) for value in h_and_c]
    for x in inputs:
        state, _ = cell.forward(np.full((1, 1), float(x)), tuple(state))
    return [float(part[0, 0]) for part in state]


@question("004.1.1", "One step of an LSTM cell")
def solve_lstm_step(say, step, answer, check, claim):
    """Compute a step of an LSTM cell, with separate W and U and with [W U] on the stacked input."""
    gates, h, c = lstm_step(X, H, C, WEIGHTS)
    i, f, o, g = (gates[gate] for gate in "ifoc")
    z = {gate: W * X + U * H + b for gate, (W, U, b) in WEIGHTS.items()}
    W, U, b = WEIGHTS["c"]
    say(f"The cell has one unit and one input: xₜ = {X:g}, hₜ₋₁ = {H:g}, cₜ₋₁ = {C:g}.")
    step("Compute one sum for each gate, and then its activation: σ for the three gates, tanh for "
         "the candidate.", "z = W xₜ + U hₜ₋₁ + b,   iₜ, fₜ, oₜ = σ(z),   c̃ₜ = tanh(z)",
         format_table(("", "W", "U", "b", "z", "value"), [
             (NAMES[gate], *map(str, row), f"{z[gate]:.1f}", f"{gates[gate]:.3f}")
             for gate, row in WEIGHTS.items()]))
    step("Write the sum as one linear layer of the stacked input: the matrix [W U] times the "
         "column (xₜ; hₜ₋₁). The example is the candidate.", "z = [W U] (xₜ; hₜ₋₁) + b",
         f"[{W} {U}] ({X}; {H}) + {b} = {W * X} + {U * H} = {z['c']},   tanh: {g:.3f} (σ would "
         f"give {sigmoid(z['c']):.3f})")
    step("Update the memory cell. The forget gate scales the old memory, and the input gate scales "
         "the candidate.", "cₜ = fₜ cₜ₋₁ + iₜ c̃ₜ",
         f"{f:.3f} · {C} + {i:.3f} · {g:.3f} = {f * C:.3f} + {i * g:.3f} = {c:.3f}")
    step("Compute the hidden state. The output gate scales tanh of the memory.", "hₜ = oₜ tanh(cₜ)",
         f"{o:.3f} · tanh({c:.3f}) = {o:.3f} · {math.tanh(c):.3f} = {h:.3f}")
    answer(f"cₜ = {c:.3f}, hₜ = {h:.3f}. iₜ is the fraction of the candidate that is written, fₜ "
           "the fraction of the memory that is kept, and oₜ the fraction that is output.")
    say("In npdl, this is LSTMCell.forward in npdl/layers/recurrent.py.")
    error = np.abs(np.subtract(run_npdl_cell(WEIGHTS, (H, C), [X]), (h, c))).max()
    check("npdl's LSTM cell with these weights gives the same cₜ and hₜ.", error <= 1e-12)
    sums = {gate: (np.array([[W, U]]) @ (X, H))[0] + b for gate, (W, U, b) in WEIGHTS.items()}
    worst = max(abs(sigmoid(sums[gate]) - gates[gate]) for gate in "ifo")
    difference = abs(sigmoid(sums["c"]) - gates["c"])
    claim("gates", "For the three gates, W x + U h + b and [W U] applied to the stacked (x, h) are "
          "the same.", "equal", f"equal: largest difference {worst:.1g}", judge(worst < 1e-12),
          "the three gates in the example")
    shape = np.concatenate([np.zeros((4, 3)), np.zeros((4, 4))], 1).shape
    claim("sizes", "[W U] is d_h by (d_x + d_h) and its input has d_x + d_h entries.",
          "d_h x (d_x + d_h)", f"{shape[0]} x {shape[1]} for d_x = 3, d_h = 4",
          judge(shape == (4, 7)), "shape of [W U], concatenated along the second axis")
    claim("candidate", "The candidate written with [W U] equals the candidate written with W and U "
          "apart.", "tanh on the left, sigma on the right of one equals sign",
          f"they differ by {difference:.3f} in the example; the activation is tanh in both forms",
          judge(difference < 1e-9, if_false="slip"),
          "with sigma, a state that starts at 0 would never become negative")
    claim("updates", "c_t = f c_(t-1) + i c~ and h_t = o tanh(c_t), products entry by entry, are "
          "the step of an LSTM.", "h_t, c_t", f"npdl's LSTMCell gives the same: error {error:.1g}",
          judge(error <= 1e-12), "with tanh for the candidate, the same weights, and float64")
    _, kept_c = run_with_fixed_gates(0.8, 100, i=-50, f=50)
    one, two = (np.subtract(*(run_with_fixed_gates(c_0, steps, 2.0)[1] for c_0 in (
        0.8 + 1e-5, 0.8 - 1e-5))) / 2e-5 for steps in (1, 2))   # dc_steps/dc_0, all gates 1/2
    check("A forget gate of 1 keeps c, and one step with 1/2 halves its derivative.",
          abs(kept_c - 0.8) < 1e-9 and abs(one - 0.5) < 1e-6)
    claim("forget gate", "What stays of the memory is set by the forget gate.", "said, not shown",
          f"for f = 1, i = 0: c = {kept_c:.4f} after 100 steps from 0.8; for f = 1/2: dc_1/dc_0 = "
          f"{one:.4f} = f, but dc_2/dc_0 = {two:.4f}, not f^2 = 0.25",
          judge(abs(two - 0.25) < 1e-6, if_false="under-specified"),
          "true for one step; after that, the next gates also depend on the memory through h_1 = o "
          "tanh(c_1) (central differences, candidate tanh(2h))")
    _, written = run_with_fixed_gates(0.8, 1, i=0, f=-50, c=50)
    hidden, held = run_with_fixed_gates(0.8, 100, i=-50, f=50, o=-50)
    for part, text, computed, holds, why in (
            ("input gate", "The input gate sets how much new information enters.",
             f"for i = 1/2, f = 0, candidate 1: c = {written:.4f}", abs(written - 0.5) < 1e-9,
             "i c~ = 1/2"),
            ("output gate", "The output gate sets how much of the memory shows.",
             f"for o = 0: h = {hidden:.4f}, although c = {held:.4f} for 100 steps",
             abs(hidden) < 1e-9 < held, "h = o tanh(c) = 0")):
        claim(part, text, "said, not shown", computed, judge(holds),
              f"npdl's LSTMCell with gates fixed by their biases; expected: {why}")


def run_with_fixed_gates(c_0, steps, candidate_U=0.0, **gate_biases):
    """Return h and c of npdl's cell with gates set by biases; `candidate_U` weighs h in c̃."""
    weights = {gate: (0, candidate_U * (gate == "c"), gate_biases.get(gate, 0)) for gate in "ifoc"}
    return run_npdl_cell(weights, (0.0, c_0), [0.0] * steps)


INPUTS = (1.0, 0.5, -0.5)
TABLE = (1.0, 0.5, -0.5)                    # the embedding of tokens 0, 1, 2, width 1
READOUT = np.array([2.0, 0.0, -2.0])        # the classifier's weights
IDS = (0, 2, 0)
B, S, D_X, D_H, L = 3, 5, 2, 4, 2           # all different, so that no axis can hide


def run_lstm_layer(inputs):
    """Return h and c of a one-unit layer at every step, from h = c = 0, each (S,)."""
    h, c, states = 0.0, 0.0, []
    for x in inputs:
        _, h, c = lstm_step(x, h, c, ONES)
        states.append((h, c))
    return np.array(states).T


def set_all_params(model, **values):
    """Set the parameters of a model: to `values` by name, other weights to 1, other biases to 0."""
    for name, param in model.params():
        param.data[...] = values.get(name.replace(".", "_"), 0.0 if name.endswith("b") else 1.0)
    return model


@question("004.1.2", "Several LSTM layers")
def solve_stacked_lstm(say, step, answer, check, claim):
    """Run L LSTM layers, each on the outputs of the layer below. Say what they return."""
    h_1, c_1 = run_lstm_layer(INPUTS)
    h_2, c_2 = run_lstm_layer(h_1)
    start, _, _ = lstm_step(INPUTS[0], 0.0, 0.0, ONES)
    i, g = start["i"], start["c"]
    rows = [(number, t, f"{x:.3f}", f"{h:.3f}", f"{c:.3f}")
            for number, columns in ((1, (INPUTS, h_1, c_1)), (2, (h_1, h_2, c_2)))
            for t, (x, h, c) in enumerate(zip(*columns, strict=True), 1)]
    final_h, final_c = vec((h_1[-1], h_2[-1])), vec((c_1[-1], c_2[-1]))
    say(f"L = 2 layers, B = 1, S = 3, d_x = d_h = 1, all W = U = 1, b = 0, x = {vec(INPUTS, 1)}.")
    step("Start every layer with zero states.", "h₀⁽ˡ⁾ = c₀⁽ˡ⁾ = 0,   shape (B, d_h)")
    step("Layer 1 reads the sequence step by step. Layer 2 reads the h of layer 1 at the same "
         "step.", "hₜ⁽ˡ⁾, cₜ⁽ˡ⁾ = cell⁽ˡ⁾(hₜ⁽ˡ⁻¹⁾, (hₜ₋₁⁽ˡ⁾, cₜ₋₁⁽ˡ⁾)),   hₜ⁽⁰⁾ = xₜ", "layer 1, t "
         f"= 1: z = x + h = {INPUTS[0]:.0f} for all gates, i = f = o = {i:.3f}, c̃ = {g:.3f}",
         f"c = {i:.3f} · 0 + {i:.3f} · {g:.3f} = {c_1[0]:.3f},   h = {i:.3f} · tanh({c_1[0]:.3f}) "
         f"= {h_1[0]:.3f}", format_table(("layer", "t", "input", "h", "c"), rows))
    step("With dropout, layer 2 would read layer 1's h with some entries set to 0. Dropout does "
         "not change the h that layer 1 uses at the next step, or the output of the last layer.",
         "input of layer 2 = Dropout(h⁽¹⁾),   only if L ≥ 2")
    step("Return the h of the last layer at every step, and the h and c of every layer at the last "
         "step. These are different.", "output (B, S, d_h);   final h and c, each (L, B, d_h)",
         f"output: {vec(h_2)}", f"final h: {final_h},   final c: {final_c}")
    answer(f"The output is {vec(h_2)} (layer 2, t = 1 to 3), and the final h are {final_h} (layers "
           "1 and 2 at t = 3).")
    say("In npdl, this is Recurrent.forward in npdl/layers/recurrent.py.")
    lstm = set_all_params(LSTM(1, 1, 2, dtype="float64"))
    (y, (h, c)), _ = lstm.forward(np.array(INPUTS)[None, :, None])
    right = (np.allclose(y[0, :, 0], h_2) and np.allclose(h[:, 0, 0], (h_1[-1], h_2[-1]))
             and np.allclose(c[:, 0, 0], (c_1[-1], c_2[-1])))
    check("npdl's LSTM of two layers gives the same output and final states.", right)
    lstm, x = random_lstm(), np.random.default_rng(0).standard_normal((B, S, D_X))
    (y, (h, _)), _ = lstm.forward(x)
    (same, _), _ = lstm.forward(x, (np.zeros((L, B, D_H)), np.zeros((L, B, D_H))))
    ((below, _), _) = lstm.layers[0].forward(x)
    printed = below.swapaxes(0, 1)                              # [h_1^(1), .., h_S^(1)] stacked
    claim("recursion", "Each layer reads the h of the layer below at the same step, and its own h "
          "and c of the step before.", "h_t, c_t of layer l from h_t of l - 1",
          "npdl's LSTM agrees with L x S steps of the cell", judge(right),
          "output and final states of the example")
    claim("full output", "The output is the last layer's h at steps 1 to S, of shape (B, S, d_h).",
          "[h_1^(L) .. h_S^(L)], (B, S, d_h)", f"shape {y.shape}", judge(y.shape == (B, S, D_H)),
          f"B = {B}, S = {S}, d_x = {D_X}, d_h = {D_H}, L = {L}")
    claim("final states", "The final states of all layers are the lists of h and c of layer 1 at "
          "steps 1 to S, each of shape (L, B, d_h).",
          "([h_1^(1) .. h_S^(1)], [c_1^(1) .. c_S^(1)]), each (L, B, d_h)",
          "([h_S^(1) .. h_S^(L)], [c_S^(1) .. c_S^(L)]), the states of every layer at the last "
          "step", judge(printed.shape == h.shape and np.allclose(printed, h), if_false="slip"),
          f"stacked as printed, it has the shape {printed.shape} instead of {h.shape}, and "
          "contains nothing of layer 2")
    claim("start", "Without a given state, h_0 and c_0 are zeros.", "0 by default",
          f"the same output as with given zeros: error {abs(same - y).max():.1g}",
          judge(np.allclose(same, y, 0, 1e-12)), "same weights and input")
    one, two = random_lstm(1, 0.5), random_lstm(2, 0.5)
    alone = np.array_equal(one.forward(x, None, make_rng(0, 1))[0][0], one.forward(x)[0][0])
    (y, (h, _)), _ = two.forward(x, None, make_rng(0, 1))
    (undropped, (h_undropped, _)), _ = two.forward(x)
    changed, zeros = abs(y - undropped).max(), int((y == 0).sum())
    dropped = 2 * h_undropped[0] * (make_rng(0, 1).random(h_undropped[0].shape) >= 0.5)
    difference = abs(dropped - h_undropped[0]).max()
    claim("dropout", "Dropout acts between layers: not with L = 1, not on the last layer's output.",
          "if L >= 2 and l < L",
          f"L = 1: no change; L = 2: the output changes by up to {changed:.2f}, and {zeros} of its "
          f"{y.size} entries are 0", judge(alone and changed > 0 and zeros == 0),
          "npdl's LSTM with rate 0.5; masks and input from seed 0, weights from seed 1")
    claim("dropout in time", "Dropout does not act from step to step inside a layer.",
          "not across time steps", "the final h of layer 1 is the same with and without dropout",
          judge(np.array_equal(h[0], h_undropped[0])),
          "npdl's LSTM with rate 0.5: bitwise identical")
    claim("dropout and states", "Writing h^(l) = Dropout(h^(l)) leaves the returned final states "
          "well defined.", "the same name h^(l) before and after dropout", "there are two "
          "readings: the state before dropout, as npdl returns it, or the state after dropout",
          judge(difference < 1e-9, if_false="under-specified"), "in this example the two differ by "
          f"up to {difference:.2f}; continuing the sequence needs the state before dropout")


def random_lstm(num_layers=L, dropout=0.0):
    """Return npdl's LSTM with weights of seed 1."""
    return LSTM(D_X, D_H, num_layers, dropout=dropout, rng=1, dtype="float64")


@question("004.1.4", "A language model around an LSTM")
def solve_lstm_language_model(say, step, answer, check, claim):
    """Add an embedding and a linear layer to an LSTM, to get logits for each next token."""
    x = [TABLE[token] for token in IDS]
    h, _ = run_lstm_layer(x)
    logits = h[:, None] * READOUT
    P = softmax(logits)
    say("The example has V = 3 words, all widths are 1, and one layer with all W = U = 1.")
    step("Look up the embedding of each token.", "C(x) = row x of the embedding,   (B, S) → (B, S, "
         "d_x)", f"tokens {vec(IDS)} → {vec(x, 1)}")
    step("Run the LSTM on the embeddings.", "(B, S, d_x) → (B, S, d_h)", f"h = {vec(h)}")
    step("A linear layer gives one logit for each word. The model returns logits, not "
         "probabilities, because the loss computes the log-softmax.",
         "Ŷ = h W + b,   (B, S, d_h) → (B, S, V)", f"W = {vec(READOUT, 0)}, b = 0")
    step("Row t depends only on tokens 1 to t, and predicts token t + 1.", "P̂ₜ = softmax(Ŷₜ)",
         format_table(("t", "token", "C(x)", "h", "logits", "P̂ₜ"), [
             (t + 1, IDS[t], f"{x[t]}", f"{h[t]:.3f}", vec(logits[t]), vec(P[t]))
             for t in range(3)]))
    answer("The model returns logits = classifier(LSTM(embedding(x))) and the final h and c. After "
           f"the tokens {vec(IDS)}, the most probable next token is {P[-1].argmax()} "
           f"({P[-1].max():.3f}).")
    say("In npdl, this is LSTMLM.forward in npdl/models/lstm_lm.py, trained by "
        "experiments/train_lstm.py.")
    own = set_all_params(LSTMLM(3, 1, 1, 1, dtype="float64"), embedding_W=np.array(TABLE)[:, None],
                         classifier_W=READOUT[None])
    check("npdl's LSTMLM with these parameters gives the same logits.",
          np.allclose(own.forward(np.array([IDS]))[0][0], logits))
    words = ModularArithmetic(31).vocabulary                    # 31 numbers and five signs
    lm, ids = LSTMLM(words.size, 8, 2, dtype="float64"), np.random.default_rng(0).integers(
        words.size - 1, size=(B, S))
    (logits, _), _ = lm.forward(ids)
    P = softmax(logits)
    reached = row_influence(lambda ids: lm.forward(ids[None])[0][0][0], ids[0])
    leak, changed = reached[np.triu_indices(S, 1)].max(), np.diag(reached).min()
    claim("logits", "The model is classifier(LSTM(embedding(x))) and returns logits (B, S, V) with "
          "the final states.", "logits, not probabilities",
          f"shape {logits.shape}; the logits of the example agree with the calculation by hand",
          judge(logits.shape == (B, S, words.size)), "npdl's LSTMLM")
    claim("distribution", "softmax of row i of the logits is a distribution over V tokens given "
          "tokens 1 to i only.", "P_i in [0, 1]^V, context x_1 .. x_i", "rows sum to 1; another "
          f"token changes its own row, but not the earlier rows (they change by {leak:.1g})",
          judge(leak < 1e-9 < changed and P.min() >= 0 and abs(P.sum(-1) - 1).max() < 1e-9),
          f"each token is changed in turn; its own row changes by {changed:.2f} or more (seed 0)")
    ids, components = {words.id_of(t) for t in words.tokens}, set(range(1, words.size + 1))
    claim("indices", "The components j in [V] of P_i are the tokens, with [n] = {1 .. n} and "
          "tokens in {0 .. V - 1}.", "j in [V], tokens in {0 .. V - 1}", "j must run over {0 .. V "
          "- 1}, or the tokens must be numbered from 1", judge(ids == components, if_false="slip"),
          f"p = 31: tokens {sorted(ids - components)} have no component, and components "
          f"{sorted(components - ids)} have no token")
