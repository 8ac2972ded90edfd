"""Document 004, Problem 1.1: the gates of the LSTM cell, apart and as one linear map."""

import math

import numpy as np

from exercises.course import judge, question, table
from npdl.functions import sigmoid
from npdl.layers.recurrent import LSTMCell

X, H, C = 1.0, 0.5, 0.4
WEIGHTS = {"i": (1.0, 1.0, 0.0), "f": (0.0, 2.0, 1.0), "o": (1.0, -1.0, 0.0),
           "c": (0.5, 1.0, 0.0)}            # W, U, b of each gate
ONES = {gate: (1.0, 1.0, 0.0) for gate in "ifoc"}
NAMES = {"i": "input gate iₜ", "f": "forget gate fₜ", "o": "output gate oₜ", "c": "candidate c̃ₜ"}


def lstm_step(x, h, c, weights):
    """Return {gate: value}, the new h and the new c of one unit; weights {gate: (W, U, b)}."""
    gates = {name: (np.tanh if name == "c" else sigmoid)(W * x + U * h + b)
             for name, (W, U, b) in weights.items()}
    c = gates["f"] * c + gates["i"] * gates["c"]
    return gates, gates["o"] * np.tanh(c), c


def library(weights, start, inputs):
    """Return h and c of npdl's LSTMCell, of one unit, after these inputs from the state `start`."""
    cell = LSTMCell(1, 1, dtype="float64")
    for param, values in zip((cell.W_x, cell.W_h, cell.b),
                             np.transpose([weights[gate] for gate in "ifoc"]), strict=True):
        param.data[...] = values
    state = [np.full((1, 1), float(value)) for value in start]
    for x in inputs:
        state, _ = cell.forward(np.full((1, 1), float(x)), tuple(state))
    return [float(part[0, 0]) for part in state]


@question("004.1.1", "One step of an LSTM cell")
def cell(say, step, answer, check, claim):
    """Compute one step of an LSTM cell, with W and U apart and with [W U] on the stacked input."""
    gates, h, c = lstm_step(X, H, C, WEIGHTS)
    i, f, o, g = (gates[gate] for gate in "ifoc")
    z = {gate: W * X + U * H + b for gate, (W, U, b) in WEIGHTS.items()}
    W, U, b = WEIGHTS["c"]
    say(f"One unit, one input: xₜ = {X:g}, hₜ₋₁ = {H:g}, cₜ₋₁ = {C:g}.")
    step("One sum for each gate, then its activation: σ for the three gates, tanh for the "
         "candidate.", "z = W xₜ + U hₜ₋₁ + b,   iₜ, fₜ, oₜ = σ(z),   c̃ₜ = tanh(z)",
         table(("", "W", "U", "b", "z", "value"), [
             (NAMES[gate], *map(str, row), f"{z[gate]:.1f}", f"{gates[gate]:.3f}")
             for gate, row in WEIGHTS.items()]))
    step("The same as one linear map of the stacked input: the matrix [W U] times "
         "the column (xₜ; hₜ₋₁). For the candidate:", "z = [W U] (xₜ; hₜ₋₁) + b",
         f"[{W} {U}] ({X}; {H}) + {b} = {W * X} + {U * H} = {z['c']},   tanh: {g:.3f} (σ "
         f"would give {sigmoid(z['c']):.3f})")
    step("Keep a part of the old memory, write a part of the candidate.", "cₜ = fₜ cₜ₋₁ + iₜ c̃ₜ",
         f"{f:.3f} · {C} + {i:.3f} · {g:.3f} = {f * C:.3f} + {i * g:.3f} = {c:.3f}")
    step("Show a part of the memory.", "hₜ = oₜ tanh(cₜ)",
         f"{o:.3f} · tanh({c:.3f}) = {o:.3f} · {math.tanh(c):.3f} = {h:.3f}")
    answer(f"cₜ = {c:.3f}, hₜ = {h:.3f}: iₜ says how much is written, fₜ how much is kept, oₜ "
           "how much is shown.")
    say("In npdl: LSTMCell.forward in npdl/layers/recurrent.py.")
    check("npdl's LSTM cell with these weights gives the same cₜ and hₜ",
          np.allclose(library(WEIGHTS, (H, C), [X]), (h, c), 0, 1e-12))
    sums = {gate: (np.array([[W, U]]) @ (X, H))[0] + b for gate, (W, U, b) in WEIGHTS.items()}
    worst = max(abs(sigmoid(sums[gate]) - gates[gate]) for gate in "ifo")
    apart = abs(sigmoid(sums["c"]) - gates["c"])
    claim("gates", "For the three gates, W x + U h + b and [W U] applied to the stacked (x, h) are "
          "the same.", "equal", "equal: largest difference below 1e-12", judge(worst < 1e-12),
          "the three gates of the example")
    shape = np.concatenate([np.zeros((4, 3)), np.zeros((4, 4))], 1).shape
    claim("sizes", "[W U] is d_h by (d_x + d_h) and its input has d_x + d_h entries.",
          "d_h x (d_x + d_h)", f"{shape[0]} x {shape[1]} for d_x = 3, d_h = 4",
          judge(shape == (4, 7)), "concatenation along the second axis")
    claim("candidate", "The candidate written with [W U] equals the candidate written with W and U "
          "apart.", "tanh on the left, sigma on the right of one equals sign",
          f"they differ by {apart:.3f} in the example; it is tanh in both forms",
          judge(apart < 1e-9, if_false="slip"),
          "with sigma no state that starts at 0 would ever be negative")
    claim("updates", "c_t = f c_(t-1) + i c~ and h_t = o tanh(c_t), products entry by entry, are "
          "the step of an LSTM.", "h_t, c_t", "npdl's LSTMCell gives the same: below 1e-12",
          judge(np.allclose(library(WEIGHTS, (H, C), [X]), (h, c), 0, 1e-12)),
          "with tanh for the candidate, same weights, float64")
    _, kept = driven(0.8, 100, i=-50, f=50)
    one, two = ((driven(0.8 + 1e-5, steps, 2.0)[1] - driven(0.8 - 1e-5, steps, 2.0)[1]) / 2e-5
                for steps in (1, 2))                            # dc_steps/dc_0, all gates 1/2
    check("a forget gate of 1 keeps c, and one step with 1/2 halves its slope",
          abs(kept - 0.8) < 1e-9 and abs(one - 0.5) < 1e-6)
    claim("forget gate", "What stays of the memory is set by the forget gate.", "said, not shown",
          f"f = 1, i = 0: c = {kept:.4f} after 100 steps from 0.8; f = 1/2: dc_1/dc_0 = {one:.4f} "
          f"= f, but dc_2/dc_0 = {two:.4f}, not f^2 = 0.25",
          judge(abs(two - 0.25) < 1e-6, if_false="under-specified"),
          "true for one step; then h_1 = o tanh(c_1) carries memory into the next gates too "
          "(central differences, candidate tanh(2h))")
    _, written = driven(0.8, 1, i=0, f=-50, c=50)
    hidden, held = driven(0.8, 100, i=-50, f=50, o=-50)
    for part, text, computed, holds, why in (
            ("input gate", "The input gate sets how much new information enters.",
             f"i = 1/2, f = 0, candidate 1: c = {written:.4f}", abs(written - 0.5) < 1e-9,
             "i c~ = 1/2"),
            ("output gate", "The output gate sets how much of the memory shows.",
             f"o = 0: h = {hidden:.4f} while c = {held:.4f} for 100 steps",
             abs(hidden) < 1e-9 < held, "h = o tanh(c) = 0")):
        claim(part, text, "said, not shown", computed, judge(holds),
              f"npdl's LSTMCell with gates held by their biases; expected {why}")


def driven(start, steps, listening=0.0, **biases):
    """Return h and c of npdl's cell, its gates held by biases; `listening`: the candidate's U."""
    weights = {gate: (0, listening * (gate == "c"), biases.get(gate, 0)) for gate in "ifoc"}
    return library(weights, (0.0, start), [0.0] * steps)
