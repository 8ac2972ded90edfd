"""Document 002, Problems 7.1 and 7.2, worked: a table of positions, and one head against two."""

import math

import numpy as np

from exercises.d002_positions_heads import encoding, permutation_errors, two_places
from exercises.worked import Check, Solution, Step, num, vec
from npdl.functions import softmax


def turned(row, offset):
    """The encoding `offset` positions on, made of a row of `encoding` by turning each pair."""
    d = len(row)
    out = np.empty(d)
    for k in range(d // 2):
        angle = offset / 10000 ** (2 * k / d)
        s, c = row[2 * k], row[2 * k + 1]
        out[2 * k] = s * math.cos(angle) + c * math.sin(angle)
        out[2 * k + 1] = c * math.cos(angle) - s * math.sin(angle)
    return out


def mixed(x):
    """Self-attention of two tokens with W_Q = W_K = W_V = 1, no scale: softmax(x xᵀ) x."""
    return softmax(x @ x.T) @ x


def positions():
    """7.1."""
    x = np.array([[1.0, 0.0], [0.0, 2.0]])
    y, swapped = mixed(x), mixed(x[::-1])
    weights = softmax(x @ x[0])
    table = encoding(4, 4)
    moved = turned(table[1], 2)
    return Solution(
        "7.1",
        (
            Step("What attention does with two tokens, and with the same two exchanged.",
                 "y = softmax(x xᵀ) x",
                 f"row 1 of x xᵀ: {vec(x @ x[0], 0)}, weights {vec(weights)}:  y₁ = "
                 f"{num(weights[0])} · {vec(x[0], 0)} + {num(weights[1])} · {vec(x[1], 0)} = "
                 f"{vec(y[0])}",
                 {"x": x, "y": y, "x exchanged": x[::-1], "y of it": swapped}),
            Step("The outputs are exchanged and otherwise equal: self-attention is equivariant. It "
                 "can't tell 'a b' from 'b a', so the place has to be put into x."),
            Step("The usual table: every pair of columns is a clock hand, each pair slower than "
                 "the one before. i numbers the pairs.",
                 "PE(pos, 2i) = sin(pos/10000^(2i/d)),   PE(pos, 2i+1) = cos(pos/10000^(2i/d))",
                 f"d = 4:  i = 0: angle pos;   i = 1: angle pos/{10000 ** (2 / 4):.0f}",
                 {"PE": table}),
            Step("Row pos + n is row pos turned by fixed angles: relative places can be read by "
                 "one fixed matrix.", "sin(a + b) = sin a cos b + cos a sin b",
                 f"row 1 turned by 2 steps: {vec(moved)};   row 3: {vec(table[3])}"),
            Step("It is added to the token's vector; the sum goes into the first block.",
                 "x = E[token] + PE[pos]"),
        ),
        "Attention alone is blind to order (equivariant); a vector for each position, mostly "
        "sines and cosines of falling frequency, is added to each token's embedding.",
        (Check("exchanging the tokens exchanges the outputs", np.allclose(swapped, y[::-1])),
         Check("npdl's attention layer does the same with 6 tokens",
               permutation_errors()[1] < 1e-9 < permutation_errors()[0]),
         Check("the turned row is the row two positions on", np.allclose(moved, table[3]))),
        "Two tokens (1, 0) and (0, 2); then four positions of width 4.")


def heads():
    """7.2."""
    values = (1.0, -1.0)
    shares = (0.0, 0.5, 1.0)
    mixtures = [w * values[0] + (1 - w) * values[1] for w in shares]
    sharp = 1 / (1 + math.exp(-20.0))
    per_head = [sharp * values[0] + (1 - sharp) * values[1],
                (1 - sharp) * values[0] + sharp * values[1]]
    errors = [max(abs(m - v) for v in values) for m in mixtures]
    d, m = 8, 2
    return Solution(
        "7.2",
        (
            Step("One head gives one set of weights, so one mixture of the values. It can't hand "
                 "over two values unmixed.",
                 "y = w v₁ + (1 − w) v₂", f"w = {vec(shares, 1)}:  y = {vec(mixtures, 1)}\n"
                 f"furthest from v₁ or v₂: {vec(errors, 1)}, at best {num(min(errors), 1)}"),
            Step("Two heads have two sets of weights: one looks at token 1, one at token 2, and "
                 "the concatenation holds both.", "y = [v from head 1, v from head 2]",
                 f"scores ±10: weights {num(sharp, 4)} and {num(1 - sharp, 4)}:  y = "
                 f"{vec(per_head)}"),
            Step("The heads share the width, so that the number of multiplications stays.",
                 "m heads of width d/m:  m · S² · d/m = S² d",
                 f"d = {d}, m = {m}: {m} · {d // m} = {d}"),
            Step("Heads differ only because they start at different random numbers. What trained "
                 "ones are found to follow: the token before or after, the verb of a subject, "
                 "what a pronoun refers to, the aligned word of the other language."),
        ),
        "Several heads attend to several places at once at the cost of one; found structures are "
        "neighbours, syntax, coreference, alignments.",
        (Check("the best error of one head over 1001 mixtures is 1, of two heads under 0.001",
               abs(two_places(1) - 1) < 1e-9 and two_places(2) < 1e-3),),
        "Token 0 wants the values v₁ = 1 and v₂ = −1 of two other tokens, both unmixed.")


def solutions():
    return [positions(), heads()]
