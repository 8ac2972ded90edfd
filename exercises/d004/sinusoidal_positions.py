"""Document 004, Problems 2.7 and 2.8: sinusoidal positions, and what order means to a decoder."""

import math
from functools import partial
from itertools import combinations

import numpy as np

from exercises.framework import Claim, judge, proved
from exercises.probes import learned
from exercises.worked import Solution, below, num, vec
from npdl.layers.embedding import SinusoidalPositions, sinusoidal
from npdl.models.gpt import GPT

QUESTION = """\
The position table is sin(pos / 10000^(k/d)) at i = 2k and cos of the same at i = 2k + 1; the usual
exponent is 2k/d. What does the difference change? Is each position's vector its own, does the
table carry relative positions, does it reach lengths not seen, and does a decoder without it know
no order?"""

D, LONGEST = 128, 512                                   # width and positions compared

TITLES = {"2.7": "Sinusoidal positions", "2.8": "Tokens plus positions"}

claim = partial(Claim, "004")


def printed_table(length, d, exponent_step=1):
    """The formula entry by entry: (S, D); exponent k/d, or 2k/d with exponent_step = 2."""
    table = np.empty((length, d))
    for position, i in np.ndindex(table.shape):
        k, odd = divmod(i, 2)
        angle = position / 10000 ** (exponent_step * k / d)
        table[position, i] = math.cos(angle) if odd else math.sin(angle)
    return table


def wavelengths(d, exponent="k/d"):
    """Positions for one turn, for k = 0 .. d/2 - 1, shortest first."""
    k = np.arange(d // 2)
    return 2 * math.pi * 10000.0 ** ((2 * k if exponent == "2k/d" else k) / d)


def rotation(d, offset, exponent="k/d"):
    """The (d, d) matrix with PE(pos + offset) = R PE(pos) for every pos; d even."""
    R = np.zeros((d, d))
    for k, turn in enumerate(2 * math.pi * offset / wavelengths(d, exponent)):
        R[2 * k : 2 * k + 2, 2 * k : 2 * k + 2] = [[math.cos(turn), math.sin(turn)],
                                                   [-math.sin(turn), math.cos(turn)]]
    return R


def claims():
    return [exponent_claim(), unique_claim(), relative_claim(), longer_claim(), fixed_claim(),
            sum_claim()]


def exponent_claim():
    table = printed_table(64, D)
    ours, usual = sinusoidal(64, D, "k/d", "float64"), sinusoidal(64, D, "2k/d", "float64")
    same = float(abs(table - ours).max())
    square = float(abs(printed_table(64, D, 2) - usual).max())
    longest = {name: wavelengths(D, name)[-1] for name in ("k/d", "2k/d")}
    apart = abs(table - usual).max()
    return claim(
        "Problem 2.7", "exponent", "The frequencies of the sinusoidal encoding are "
        "1 / 10000^(k/d) at i = 2k and 2k + 1.", "k / d",
        f"the usual exponent is 2k/d: the longest wave then has {longest['2k/d']:,.0f} positions, "
        f"as printed {longest['k/d']:,.0f}, for d = {D}; k/d is 2k/d with base 100",
        judge(max(same, square) < 1e-9, "convention"),
        f"tables by the formula and npdl's agree: {below(max(same, square))}; as functions of i, "
        f"the two differ by up to {apart:.2f} in 64 positions")


def closest(table):
    """(smallest distance between two rows, the two rows)."""
    return min((float(np.linalg.norm(table[a] - table[b])), a, b)
               for a, b in combinations(range(len(table)), 2))


def unique_claim(length=128):
    gaps = {name: closest(sinusoidal(length, D, name, "float64"))[0] for name in ("k/d", "2k/d")}
    return claim(
        "Problem 2.7", "unique", "Every position gets a vector of its own.",
        "unique for each position", f"closest two of {length} positions, d = {D}: "
        + ", ".join(f"{gap:.3f} apart with {name}" for name, gap in gaps.items()),
        judge(min(gaps.values()) > 1e-6),
        "sin(pos) and cos(pos) of k = 0 alone repeat only after 2 pi, which is irrational")


def relative_claim():
    worst = products = 0.0
    for name in ("k/d", "2k/d"):
        table = sinusoidal(LONGEST, D, name, "float64")
        for offset in (1, 7, 100):
            turned = table[:-offset] @ rotation(D, offset, name).T
            worst = max(worst, float(abs(turned - table[offset:]).max()))
            dots = (table[:-offset] * table[offset:]).sum(1)
            products = max(products, float(dots.max() - dots.min()))
    return claim(
        "Problem 2.7", "relative", "Relative positions are easy to learn from the table.",
        "easily learned", "PE(pos + n) = R(n) PE(pos) with one rotation R(n) for all pos, and the "
        "dot product of two rows depends on their distance alone",
        proved(max(worst, products) < 1e-9),
        f"{LONGEST} positions, n = 1, 7, 100, both exponents: errors {below(worst)} and "
        f"{below(products)}; for an even d, and before any product with W_Q or W_K")


def span_distance(rows, vector):
    """How far a vector (D,) lies from everything that rows (n, D) span."""
    basis = np.linalg.qr(rows.T)[0]
    return float(np.linalg.norm(vector - basis @ (basis.T @ vector)))


def longer_claim(seen=8):
    table = sinusoidal(LONGEST, D, "k/d", "float64")
    middle, last, far = seen / 2 + 0.5, seen - 1, 4 * seen
    between = rotation(D, 0.5) @ table[seen // 2]       # the formula at position `middle`
    inside = span_distance(table[:seen], between)
    outside = span_distance(table[:seen], table[far])
    length = float(np.linalg.norm(table[0]))
    return claim(
        "Problem 2.7", "longer", "The table is smooth in the position, so that it interpolates for "
        "sequence lengths not seen.", "interpolation possible",
        f"between seen positions, yes: position {middle} lies {inside:.2f} from what the "
        f"vectors of 0 to {last} span; a longer sequence is extrapolation: position {far} "
        f"lies {outside:.2f} away",
        judge(outside < 0.1 * length, if_false="under-specified"),
        f"d = {D}, every vector has length {length:.0f}; the formula is defined at all positions, "
        "but weights trained on the first ones were never tried in the other directions")


def fixed_claim():
    layer = SinusoidalPositions(64, D)
    return claim(
        "Problem 2.7", "fixed", "Sinusoidal positions are fixed and need no training.",
        "a buffer, not a parameter", f"{learned(layer)} learned numbers",
        judge(learned(layer) == 0, provided=learned(layer) == layer.count_params()),
        "npdl's SinusoidalPositions")


def sum_claim():
    model = GPT(36, 8, 1, 2, dtype="float64")
    ids = np.array([[3, 1, 4, 1]])
    x, _ = model.positions.forward(model.embedding.forward(ids)[0])
    by_hand = model.embedding.W.data[ids[0]] + printed_table(4, 8)
    error = float(abs(x[0] - by_hand).max())
    apart = np.linalg.norm(x[0, 1] - x[0, 3])
    return claim(
        "Problem 2.8", "sum", "A token's final embedding is its token vector plus its position's "
        "vector.", "sum of both", f"the same by hand: {below(error)}",
        proved(error < 1e-9),
        "tokens 3 1 4 1; the two 1s differ by their positions only "
        f"({apart:.2f} apart)")


WIDTH_SHOWN = 4
EMBEDDING = np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 2.0, 0.0]])
IDS = (2, 0, 2)


def table():
    """2.7."""
    PE, usual = printed_table(4, WIDTH_SHOWN), printed_table(4, WIDTH_SHOWN, 2)
    waves = {name: wavelengths(WIDTH_SHOWN, name) for name in ("k/d", "2k/d")}
    speeds = [2 * math.pi / wave for wave in waves["k/d"]]
    R = rotation(WIDTH_SHOWN, 1)
    turned = R @ PE[1]
    work = Solution("2.7",
                    f"d = {WIDTH_SHOWN}, positions 0 to 3, the exponent k/d of the question.")
    work.step("Number the pairs of columns: k = i // 2. Each pair has one speed.",
              "ω_k = 1/10000^(k/d),   wave length 2π/ω_k",
              f"d = {WIDTH_SHOWN}:  ω = {vec(speeds, 1)}, wave lengths {vec(waves['k/d'], 1)} "
              "positions")
    work.step("Even columns take the sine, odd ones the cosine of the same angle.",
              "PE[pos, 2k] = sin(pos ω_k),   PE[pos, 2k+1] = cos(pos ω_k)",
              f"PE[1] = ({', '.join(f'sin {s:g}, cos {s:g}' for s in speeds)}) = {vec(PE[1])}",
              {"PE": PE})
    work.step("The usual table has 2k/d in the exponent, which makes the slow waves much slower. "
              "Say which one is meant.", "10000^(k/d) = 100^(2k/d)",
              f"longest wave {num(float(waves['k/d'][-1]), 0)} here, "
              f"{num(float(waves['2k/d'][-1]), 0)} with 2k/d: row 1 {vec(usual[1])}")
    work.step("One step further is a turn of each pair by its angle, the same everywhere.",
              "PE[pos + 1] = R PE[pos]", f"R PE[1] = {vec(turned)},   PE[2] = {vec(PE[2])}",
              {"R": R})
    work.answer = ("Row pos: sin and cos of pos/10000^(k/d) side by side, k = 0 .. d/2 − 1; it is "
                   "a fixed buffer with nothing to learn.")
    work.check("npdl's tables of both exponents",
               np.allclose(PE, sinusoidal(4, WIDTH_SHOWN, "k/d", "float64"))
               and np.allclose(usual, sinusoidal(4, WIDTH_SHOWN, "2k/d", "float64")))
    work.check("R PE[1] is PE[2]", np.allclose(turned, PE[2]))
    return work


def embedded(ids):
    """(token vectors, position vectors, their sum) of tokens, each (S, d)."""
    tokens, places = EMBEDDING[list(ids)], printed_table(len(ids), WIDTH_SHOWN)
    return tokens, places, tokens + places


def both():
    """2.8."""
    tokens, places, x = embedded(IDS)
    difference = x[0] - x[2]
    distance = float(np.linalg.norm(difference))
    model = GPT(3, WIDTH_SHOWN, 1, 2, dtype="float64")
    for name, param in model.params():
        if name == "embedding.W":
            param.data[...] = EMBEDDING
    own, _ = model.positions.forward(model.embedding.forward(np.array([IDS]))[0])
    work = Solution("2.8", f"V = 3 tokens, d = {WIDTH_SHOWN}, S = {len(IDS)}.")
    work.step("Look up the tokens, whatever their places.", "E[x]   (B, S, d)", f"x = {vec(IDS)}",
              {"E[x]": tokens})
    work.step("Take the first S rows of the table, whatever the tokens.", "PE[0 .. S − 1]",
              arrays={"PE": places})
    work.step("Add, entry by entry; the table is the same for every sequence of the batch.",
              "h = E[x] + PE[0 .. S − 1]", arrays={"h": x})
    work.step("Both ends hold the same token; only the place makes them differ.",
              "h₀ − h₂ = PE[0] − PE[2]", vec(difference))
    work.answer = ("E[x] + PE[0 .. S − 1], broadcast over the batch; rows 0 and 2 differ by "
                   f"{num(distance)} in length.")
    work.check("npdl's GPT makes the same of these tokens", np.allclose(own[0], x))
    return work


def solutions():
    return [table(), both()]
