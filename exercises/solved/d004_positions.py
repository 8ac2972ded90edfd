"""Document 004, Problems 2.7 and 2.8, worked: a small table, and one token at two places."""

import math

import numpy as np

from exercises.d004_positions import printed_table, rotation, wavelengths
from exercises.worked import Check, Solution, Step, num, vec
from npdl.layers.embedding import sinusoidal
from npdl.models.gpt import GPT

D = 4
EMBEDDING = np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 2.0, 0.0]])
IDS = (2, 0, 2)


def table():
    """2.7."""
    PE, usual = printed_table(4, D), printed_table(4, D, 2)
    waves = {name: wavelengths(D, name) for name in ("k/d", "2k/d")}
    speeds = [2 * math.pi / wave for wave in waves["k/d"]]
    R = rotation(D, 1)
    return Solution(
        "2.7",
        (
            Step("Number the pairs of columns: k = i // 2. Each pair has one speed.",
                 "ω_k = 1/10000^(k/d),   wave length 2π/ω_k",
                 f"d = {D}:  ω = {vec(speeds, 1)}, wave lengths "
                 f"{vec(waves['k/d'], 1)} positions"),
            Step("Even columns take the sine, odd ones the cosine of the same angle.",
                 "PE[pos, 2k] = sin(pos ω_k),   PE[pos, 2k+1] = cos(pos ω_k)",
                 f"PE[1] = ({', '.join(f'sin {s:g}, cos {s:g}' for s in speeds)}) = {vec(PE[1])}",
                 {"PE": PE}),
            Step("The usual table has 2k/d in the exponent, which makes the slow waves much "
                 "slower. Say which one is meant.",
                 "10000^(k/d) = 100^(2k/d)",
                 f"longest wave {num(float(waves['k/d'][-1]), 0)} here, "
                 f"{num(float(waves['2k/d'][-1]), 0)} with 2k/d: row 1 {vec(usual[1])}"),
            Step("One step further is a turn of each pair by its angle, the same everywhere.",
                 "PE[pos + 1] = R PE[pos]",
                 f"R PE[1] = {vec(R @ PE[1])},   PE[2] = {vec(PE[2])}", {"R": R}),
        ),
        "Row pos: sin and cos of pos/10000^(k/d) side by side, k = 0 .. d/2 − 1; it is a fixed "
        "buffer with nothing to learn.",
        (Check("npdl's tables of both exponents",
               np.allclose(PE, sinusoidal(4, D, "k/d", "float64"))
               and np.allclose(usual, sinusoidal(4, D, "2k/d", "float64"))),
         Check("R PE[1] is PE[2]", np.allclose(R @ PE[1], PE[2]))),
        f"d = {D}, positions 0 to 3, the exponent k/d of the question.",
        picture="the tables of both exponents, and how long their waves are")


def embedded(ids):
    """(token vectors, position vectors, their sum) of tokens, each (S, d)."""
    tokens, places = EMBEDDING[list(ids)], printed_table(len(ids), D)
    return tokens, places, tokens + places


def both():
    """2.8."""
    tokens, places, x = embedded(IDS)
    model = GPT(3, D, 1, 2, dtype="float64")
    for name, param in model.params():
        if name == "embedding.W":
            param.data[...] = EMBEDDING
    own, _ = model.positions.forward(model.embedding.forward(np.array([IDS]))[0])
    return Solution(
        "2.8",
        (
            Step("Look up the tokens, whatever their places.", "E[x]   (B, S, d)",
                 f"x = {vec(IDS)}", {"E[x]": tokens}),
            Step("Take the first S rows of the table, whatever the tokens.", "PE[0 .. S − 1]",
                 arrays={"PE": places}),
            Step("Add, entry by entry; the table is the same for every sequence of the batch.",
                 "h = E[x] + PE[0 .. S − 1]", arrays={"h": x}),
            Step("Both ends hold the same token; only the place makes them differ.",
                 "h₀ − h₂ = PE[0] − PE[2]", f"{vec(x[0] - x[2])}"),
        ),
        f"E[x] + PE[0 .. S − 1], broadcast over the batch; rows 0 and 2 differ by "
        f"{num(float(np.linalg.norm(x[0] - x[2])))} in length.",
        (Check("npdl's GPT makes the same of these tokens", np.allclose(own[0], x)),),
        f"V = 3 tokens, d = {D}, S = {len(IDS)}.")


def solutions():
    return [table(), both()]
