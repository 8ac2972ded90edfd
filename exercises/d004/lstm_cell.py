"""Document 004, Problem 1.1: the gates of the LSTM cell, apart and as one linear map."""

import math
from functools import partial

import numpy as np

from exercises.framework import Claim, judge, proved
from exercises.worked import Solution, Table, below, num
from npdl.functions import sigmoid
from npdl.layers.recurrent import LSTMCell

QUESTION = """\
An LSTM cell has gates i_t, f_t, o_t and a candidate c~_t, each a function of W x_t + U h_(t-1) + b.
The document writes each of them twice: with W and U apart, and with [W U] on the stacked (x_t,
h_(t-1)). Do the two forms agree, do the updates c_t = f_t c_(t-1) + i_t c~_t and
h_t = o_t tanh(c_t) follow, and do the parts do what their names say?"""

GATES = ("i", "f", "o", "c")                            # the order in which npdl packs them
ACTIVATION_APART = {"i": sigmoid, "f": sigmoid, "o": sigmoid, "c": np.tanh}
ACTIVATION_STACKED = {"i": sigmoid, "f": sigmoid, "o": sigmoid, "c": sigmoid}   # as printed

TITLES = {"1.1": "One step of an LSTM cell"}

claim = partial(Claim, "004", "Problem 1.1")


def random_weights(d_x=3, d_h=4, seed=0):
    """{gate: (W (d_h, d_x), U (d_h, d_h), b (d_h,))}, standard normal."""
    rng = np.random.default_rng(seed)
    return {gate: (rng.standard_normal((d_h, d_x)), rng.standard_normal((d_h, d_h)),
                   rng.standard_normal(d_h)) for gate in GATES}


def gates_apart(weights, x, h, activation=ACTIVATION_APART):
    """{gate: activation(W x + U h + b)}, x (d_x,), h (d_h,): the left-hand forms."""
    return {gate: activation[gate](W @ x + U @ h + b) for gate, (W, U, b) in weights.items()}


def gates_stacked(weights, x, h, activation=ACTIVATION_STACKED):
    """{gate: activation([W U] (x; h) + b)}: the right-hand forms, activations as printed."""
    xh = np.concatenate([x, h])
    return {gate: activation[gate](np.concatenate([W, U], 1) @ xh + b)
            for gate, (W, U, b) in weights.items()}


def updated(gates, c):
    """The new (h, c) from the gates and the old c (d_h,)."""
    c = gates["f"] * c + gates["i"] * gates["c"]
    return gates["o"] * np.tanh(c), c


def library_cell(weights):
    """npdl's LSTMCell with these weights: W_x (d_x, 4 d_h), W_h (d_h, 4 d_h), b (4 d_h,)."""
    d_h, d_x = weights["i"][0].shape
    cell = LSTMCell(d_x, d_h, dtype="float64")
    for place, param in enumerate((cell.W_x, cell.W_h, cell.b)):
        param.data[...] = np.concatenate([weights[gate][place].T for gate in GATES], -1)
    return cell


def forms_differ(weights, x, h):
    """{gate: largest difference between the two printed forms}."""
    apart, stacked = gates_apart(weights, x, h), gates_stacked(weights, x, h)
    return {gate: float(abs(apart[gate] - stacked[gate]).max()) for gate in GATES}


def claims():
    rng = np.random.default_rng(1)
    weights, x = random_weights(), rng.standard_normal(3)
    h, c = np.tanh(rng.standard_normal((2, 4)))
    return [*form_claims(weights, x, h), update_claim(weights, x, h, c), *role_claims()]


def form_claims(weights, x, h):
    differ = forms_differ(weights, x, h)
    worst = max(differ[gate] for gate in "ifo")
    W, U, _ = weights["i"]
    joined = np.concatenate([W, U], 1).shape
    found = [
        claim("gates", "For the three gates, W x + U h + b and [W U] applied to the stacked "
              "(x, h) are the same.", "equal", f"equal: largest difference {below(worst)}",
              proved(worst < 1e-9), "random weights, d_x = 3, d_h = 4, float64"),
        claim("sizes", "[W U] is d_h by (d_x + d_h) and its input has d_x + d_h entries.",
              "d_h x (d_x + d_h)", f"{joined[0]} x {joined[1]} for d_x = 3, d_h = 4",
              judge(joined == (4, 7)), "concatenation along the second axis"),
    ]
    return [*found, candidate_claim(differ["c"])]


def candidate_claim(difference):
    crossing = math.asinh(1)                            # ln(1 + sqrt 2)
    gap = abs(math.tanh(crossing) - 1 / (1 + math.exp(-crossing)))
    lowest = lowest_states()
    return claim(
        "candidate", "The candidate written with [W U] equals the candidate written with W and U "
        "apart.", "tanh on the left, sigma on the right of one equals sign",
        f"they differ by up to {difference:.3f} in an example (weights of seed 0, input of 1); it "
        "is tanh in both forms",
        judge(difference < 1e-9, if_false="slip"),
        "at z = 0 tanh gives 0 and sigma 0.5; they meet only at z = "
        f"ln(1 + sqrt 2) = {crossing:.4f} (gap {below(gap)}); with sigma no state is ever negative "
        f"(lowest of 200 steps, seed 2: {lowest['sigma']:.2f}, with tanh {lowest['tanh']:.2f})",
    )


def lowest_states(steps=200):
    """The lowest h or c that an LSTM with each printed candidate reaches on random input."""
    rng, weights = np.random.default_rng(2), random_weights(seed=2)
    inputs, lowest = rng.standard_normal((steps, 3)), {}
    for name, gates in (("tanh", gates_apart), ("sigma", gates_stacked)):
        h, c, seen = np.zeros(4), np.zeros(4), []
        for x in inputs:
            h, c = updated(gates(weights, x, h), c)
            seen.append(min(h.min(), c.min()))
        lowest[name] = float(min(seen))
    return lowest


def update_claim(weights, x, h, c):
    new_h, new_c = updated(gates_apart(weights, x, h), c)
    (own_h, own_c), _ = library_cell(weights).forward(x[None], (h[None], c[None]))
    error = float(max(abs(own_h[0] - new_h).max(), abs(own_c[0] - new_c).max()))
    return claim(
        "updates", "c_t = f c_(t-1) + i c~ and h_t = o tanh(c_t), products entry by entry, are "
        "the step of an LSTM.", "h_t, c_t", f"npdl's LSTMCell gives the same: {below(error)}",
        proved(error < 1e-9), "with tanh for the candidate, same weights, float64",
    )


def driven_cell(**biases):
    """npdl's cell of width 1 with zero weights; each gate's bias as given (0 otherwise)."""
    cell = LSTMCell(1, 1, dtype="float64")
    cell.W_x.data[...] = cell.W_h.data[...] = 0
    cell.b.data[...] = [biases.get(gate, 0.0) for gate in GATES]
    return cell


def run_cell(cell, c, steps):
    """(h, c) after `steps` steps from (0, c) with zero input."""
    state = (np.zeros((1, 1)), np.array([[float(c)]]))
    for _ in range(steps):
        state, _ = cell.forward(np.zeros((1, 1)), state)
    return float(state[0][0, 0]), float(state[1][0, 0])


def role_claims():
    """Each part with its gate held open or shut, up to 100 steps from c = 0.8."""
    _, written = run_cell(driven_cell(i=0, f=-50, c=50), 0.8, 1)
    hidden, held = run_cell(driven_cell(i=-50, f=50, o=-50), 0.8, 100)
    rows = [
        ("input gate", "The input gate sets how much new information enters.",
         f"i = 1/2, f = 0, candidate 1: c = {written:.4f}", abs(written - 0.5) < 1e-9,
         "i c~ = 1/2"),
        ("output gate", "The output gate sets how much of the memory shows.",
         f"o = 0: h = {hidden:.4f} while c = {held:.4f} for 100 steps",
         abs(hidden) < 1e-9 < held, "h = o tanh(c) = 0"),
    ]
    found = [claim(part, text, "said, not shown", computed, proved(holds),
                   f"npdl's LSTMCell with gates held by their biases; expected {why}")
             for part, text, computed, holds, why in rows]
    return [forget_claim(), *found]


def memory_slope(steps, listening=2.0):
    """dc_steps/dc_0 by central difference: all gates 1/2, candidate tanh(listening * h)."""
    cell = driven_cell()
    cell.W_h.data[0, GATES.index("c")] = listening
    step = 1e-5
    above, below_it = (run_cell(cell, 0.8 + s, steps)[1] for s in (step, -step))
    return (above - below_it) / (2 * step)


def forget_claim():
    _, kept = run_cell(driven_cell(i=-50, f=50), 0.8, 100)
    one, two = memory_slope(1), memory_slope(2)
    alone = abs(one - 0.5) < 1e-6 and abs(two - 0.25) < 1e-6 and abs(kept - 0.8) < 1e-9
    return claim(
        "forget gate", "What stays of the memory is set by the forget gate.",
        "said, not shown", f"f = 1, i = 0: c = {kept:.4f} after 100 steps from 0.8; f = 1/2: "
        f"dc_1/dc_0 = {one:.4f} = f, but dc_2/dc_0 = {two:.4f}, not f^2 = 0.25",
        judge(alone, if_false="under-specified"),
        "true for one step with h held fixed; over more steps h_1 = o tanh(c_1) carries memory "
        "into the next gates and candidate too (central differences, candidate tanh(2h))",
    )


X, H, C = 1.0, 0.5, 0.4
WEIGHTS = {"i": (1.0, 1.0, 0.0), "f": (0.0, 2.0, 1.0), "o": (1.0, -1.0, 0.0),
           "c": (0.5, 1.0, 0.0)}            # W, U, b of each gate
NAMES = {"i": "input gate iₜ", "f": "forget gate fₜ", "o": "output gate oₜ", "c": "candidate c̃ₜ"}


def lstm_step(x, h, c, weights):
    """({gate: (z, value)}, c', h') of a cell of one unit; weights {gate: (W, U, b)}."""
    sums = {gate: W * x + U * h + b for gate, (W, U, b) in weights.items()}
    gates = {gate: (z, math.tanh(z) if gate == "c" else sigmoid(z)) for gate, z in sums.items()}
    new_c = gates["f"][1] * c + gates["i"][1] * gates["c"][1]
    return gates, new_c, gates["o"][1] * math.tanh(new_c)


def cell():
    gates, c, h = lstm_step(X, H, C, WEIGHTS)
    i, f, o, g = (gates[gate][1] for gate in "ifoc")
    W, U, b = WEIGHTS["c"]
    from_x, from_h, kept, written = W * X, U * H, f * C, i * g
    own = library_cell({gate: (np.array([[W]]), np.array([[U]]), np.array([b]))
                        for gate, (W, U, b) in WEIGHTS.items()})
    (h_own, c_own), _ = own.forward(np.array([[X]]), (np.array([[H]]), np.array([[C]])))
    work = Solution("1.1", f"One unit, one input: xₜ = {X:g}, hₜ₋₁ = {H:g}, cₜ₋₁ = {C:g}.")
    work.step("One sum for each gate, then its activation: σ for the three gates, tanh for the "
              "candidate.", "z = W xₜ + U hₜ₋₁ + b,   iₜ, fₜ, oₜ = σ(z),   c̃ₜ = tanh(z)",
              table=Table(("", "W", "U", "b", "z", "value"), tuple(
                  (NAMES[gate], *(num(v, 1) for v in WEIGHTS[gate]), num(gates[gate][0], 1),
                   num(gates[gate][1])) for gate in GATES)))
    work.step("The same as one linear map of the stacked input: the matrix [W U] stands beside "
              "the column (xₜ; hₜ₋₁). For the candidate:", "z = [W U] (xₜ; hₜ₋₁) + b",
              f"[{num(W, 1)} {num(U, 1)}] ({num(X, 1)}; {num(H, 1)}) + {num(b, 1)} = "
              f"{num(from_x, 1)} + {num(from_h, 1)} = {num(gates['c'][0], 1)},   tanh: {num(g)} (σ "
              f"would give {num(sigmoid(gates['c'][0]))})")
    work.step("Keep a part of the old memory, write a part of the candidate.",
              "cₜ = fₜ cₜ₋₁ + iₜ c̃ₜ",
              f"{num(f)} · {num(C, 1)} + {num(i)} · {num(g)} = {num(kept)} + {num(written)} = "
              f"{num(c)}")
    work.step("Show a part of the memory.", "hₜ = oₜ tanh(cₜ)",
              f"{num(o)} · tanh({num(c)}) = {num(o)} · {num(math.tanh(c))} = {num(h)}")
    work.answer = (f"cₜ = {num(c)}, hₜ = {num(h)}: iₜ says how much is written, fₜ how much is "
                   "kept, oₜ how much is shown.")
    work.check("npdl's LSTM cell with these weights gives the same cₜ and hₜ",
               abs(c_own[0, 0] - c) < 1e-12 and abs(h_own[0, 0] - h) < 1e-12)
    return work


def solutions():
    return [cell()]
