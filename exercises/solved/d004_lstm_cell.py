"""Document 004, Problem 1.1, worked: one step of an LSTM cell of one unit."""

import math

import numpy as np

from exercises.d004_lstm_cell import GATES, library_cell
from exercises.worked import Check, Solution, Step, Table, num
from npdl.functions import sigmoid

X, H, C = 1.0, 0.5, 0.4
WEIGHTS = {"i": (1.0, 1.0, 0.0), "f": (0.0, 2.0, 1.0), "o": (1.0, -1.0, 0.0),
           "c": (0.5, 1.0, 0.0)}            # W, U, b of each gate
NAMES = {"i": "input gate i", "f": "forget gate f", "o": "output gate o", "c": "candidate c̃"}


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
    own = library_cell({gate: (np.array([[W]]), np.array([[U]]), np.array([b]))
                        for gate, (W, U, b) in WEIGHTS.items()})
    (h_own, c_own), _ = own.forward(np.array([[X]]), (np.array([[H]]), np.array([[C]])))
    return Solution(
        "1.1",
        (
            Step("One sum for each gate, then its activation: σ for the three gates, tanh for the "
                 "candidate.", "z = W x + U h + b,   i, f, o = σ(z),   c̃ = tanh(z)",
                 table=Table(("", "W", "U", "b", "z", "value"), tuple(
                     (NAMES[gate], *(num(v, 1) for v in WEIGHTS[gate]), num(gates[gate][0], 1),
                      num(gates[gate][1])) for gate in GATES))),
            Step("The same as one linear map of the stacked input: the matrix [W U] stands beside "
                 "the column (x; h). For the candidate:", "z = [W U] (x; h) + b",
                 f"[{num(W, 1)} {num(U, 1)}] ({num(X, 1)}; {num(H, 1)}) + {num(b, 1)} = "
                 f"{num(W * X, 1)} + {num(U * H, 1)} = {num(gates['c'][0], 1)},   tanh: {num(g)} "
                 f"(σ would give {num(sigmoid(gates['c'][0]))})"),
            Step("Keep a part of the old memory, write a part of the candidate.",
                 "c' = f c + i c̃",
                 f"{num(f)} · {num(C, 1)} + {num(i)} · {num(g)} = {num(f * C)} + {num(i * g)} = "
                 f"{num(c)}"),
            Step("Show a part of the memory.", "h' = o tanh(c')",
                 f"{num(o)} · tanh({num(c)}) = {num(o)} · {num(math.tanh(c))} = {num(h)}"),
        ),
        f"c' = {num(c)}, h' = {num(h)}: i says how much is written, f how much is kept, o how much "
        "is shown.",
        (Check("npdl's LSTM cell with these weights gives the same c' and h'",
               abs(c_own[0, 0] - c) < 1e-12 and abs(h_own[0, 0] - h) < 1e-12),),
        f"One unit, one input: x = {X:g}, h = {H:g}, c = {C:g}.",
        picture="the candidate by tanh and, as printed once, by σ")


def solutions():
    return [cell()]
