"""Document 002, Problem 2, worked: the sigmoid in fractions, and a GRU of one unit."""

import math
from fractions import Fraction

from exercises.worked import Check, Solution, Step, Table, num
from npdl.functions import sigmoid

E = Fraction(1, 3)                          # exp(-x) at x = ln 3


def proof_lines(e):
    """1 - 1/(1+e), e/(1+e), 1/(1+1/e) for e = exp(-x), a Fraction."""
    return 1 - 1 / (1 + e), e / (1 + e), 1 / (1 + 1 / e)


def new_state(z, h, candidate):
    """(1 - z) h + z candidate."""
    return (1 - z) * h + z * candidate


def candidate_of(x, h, r, W=1.0, U=2.0):
    """tanh(W x + r U h)."""
    return math.tanh(W * x + r * U * h)


def symmetry():
    """Part (a)."""
    right, middle, left = proof_lines(E)
    return Solution(
        "2a",
        (
            Step("Write the right-hand side over one denominator.",
                 "1 − σ(x) = 1 − 1/(1 + e⁻ˣ) = e⁻ˣ/(1 + e⁻ˣ)",
                 f"e⁻ˣ = {num(E)}:  1 − 1/({num(1 + E)}) = 1 − {num(1 / (1 + E))} = {num(right)};  "
                 f"({num(E)}) / ({num(1 + E)}) = {num(middle)}"),
            Step("Multiply numerator and denominator by eˣ.",
                 "e⁻ˣ/(1 + e⁻ˣ) = 1/(eˣ + 1)",
                 f"eˣ = {num(1 / E)}:  1/({num(1 / E)} + 1) = {num(left)}"),
            Step("That is the definition of σ at −x, since e⁻⁽⁻ˣ⁾ = eˣ.",
                 "σ(−x) = 1/(1 + eˣ)", f"σ(−ln 3) = {num(left)},  σ(ln 3) = {num(1 / (1 + E))},  "
                 f"sum {num(left + 1 / (1 + E))}"),
        ),
        f"σ(−x) = 1/(1 + eˣ) = 1 − σ(x) for every x; at x = ln 3: {num(left)} = 1 − "
        f"{num(1 - left)}.",
        (Check("the three fractions are equal", right == middle == left),
         Check("with exp in floating point at ±ln 3",
               abs(sigmoid(-math.log(3)) - float(left)) < 1e-15)),
        "x = ln 3, so that eˣ = 3 and everything is a fraction.")


def update_gate(h=0.8, candidate=-0.4):
    """Part (b)."""
    gates, T = (0.5, 0.1, 0.01, 0.001), 50
    rows = [(num(z), num(new_state(z, h, candidate), 4), num(new_state(z, h, candidate) - h, 4),
             num(z * (candidate - h), 4), num((1 - z) ** T)) for z in gates]
    z = gates[1]
    return Solution(
        "2b",
        (
            Step("Put z into the update.", "h' = (1 − z) h + z ĥ",
                 f"z = {z}:  {num(1 - z, 1)} · {num(h, 1)} + {num(z, 1)} · {num(candidate, 1)} = "
                 f"{num(new_state(z, h, candidate), 2)}"),
            Step("Subtract h: the change is z times the distance to the candidate.",
                 "h' − h = z (ĥ − h),   |h' − h| ≤ 2 z, as |h| ≤ 1 and |ĥ| < 1",
                 f"{num(z, 1)} · ({num(candidate, 1)} − {num(h, 1)}) = "
                 f"{num(z * (candidate - h), 2)}"),
            Step("Smaller z, smaller change. Over T steps (1 − z)^T of the first state is left, so "
                 "that 'near 0' has to mean well below 1/T for a long memory.",
                 table=Table(("z", "h'", "h' − h", "z (ĥ − h)", "(1 − z)⁵⁰"), tuple(rows))),
        ),
        f"True: |h' − h| = z |ĥ − h| ≤ 2 z; at z = {gates[-1]} the state moves by "
        f"{abs(gates[-1] * (candidate - h)):.4f} in a step.",
        (Check("h' − h equals z (ĥ − h) in every row",
               all(abs(new_state(z, h, candidate) - h - z * (candidate - h)) < 1e-15
                   for z in gates)),
         Check("no change is larger than 2 z",
               all(abs(new_state(z, a, b) - a) <= 2 * z + 1e-15 for z in gates
                   for a in (-1, 0.3, 1) for b in (-1, 0.5, 1)))),
        f"One unit, h = {h}, candidate ĥ = {num(candidate, 1)}.")


def influence(z, r, x=0.5, h=0.9, step=1e-6):
    """dh'/dh of the one-unit GRU with gates fixed, by central difference."""
    above, below = (new_state(z, h + s, candidate_of(x, h + s, r)) for s in (step, -step))
    return (above - below) / (2 * step)


def reset_gate(x=0.5, h=0.9):
    """Part (c)."""
    rows = []
    for z, r in ((1, 0), (0.99, 0.01), (0.9, 0.1), (0.5, 0.5), (0, 0)):
        ends = [new_state(z, a, candidate_of(x, a, r)) for a in (h, -h)]
        rows.append((num(z), num(r), *(num(end, 4) for end in ends), num(ends[0] - ends[1], 4)))
    alone = math.tanh(x)
    z, r = 0.99, 0.01
    c = candidate_of(x, h, r)
    slope = (1 - z) + z * (1 - c * c) * r * 2
    return Solution(
        "2c",
        (
            Step("r = 0 takes the past out of the candidate.", "ĥ = tanh(W x + r U h) = tanh(W x)",
                 f"tanh(1 · {num(x, 1)} + 0 · 2 · {num(h, 1)}) = tanh({num(x, 1)}) = "
                 f"{num(alone, 4)}"),
            Step("z = 1 takes it out of the update as well.", "h' = (1 − z) h + z ĥ = ĥ",
                 f"h' = 0 · {num(h, 1)} + 1 · {num(alone, 4)} = {num(alone, 4)}"),
            Step("Near these values a little is left. Two opposite pasts show how much: compare "
                 "the new states.",
                 table=Table(("z", "r", f"h' from {h}", f"h' from −{h}", "difference"),
                             tuple(rows))),
            Step("As a derivative.", "∂h'/∂h = (1 − z) + z (1 − ĥ²) r U",
                 f"z = {z}, r = {r}: {num(1 - z, 2)} + {z} · {num(1 - c * c)} · {r} · 2 = "
                 f"{num(slope, 4)}"),
        ),
        f"False: at z = 1, r = 0 the new state is tanh(W x) = {num(alone, 4)} whatever h was; near "
        f"it, about (1 − z) + r U of a change is left.",
        (Check("from both pasts the same state at z = 1, r = 0",
               new_state(1, h, candidate_of(x, h, 0)) == new_state(1, -h, candidate_of(x, -h, 0))),
         Check("the derivative against a difference", abs(slope - influence(z, r)) < 1e-8)),
        f"One unit, x = {x}, W = 1, U = 2, once from h = {h} and once from h = −{h}.")


def solutions():
    return [symmetry(), update_gate(), reset_gate()]
