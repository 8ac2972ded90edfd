"""Document 003, Questions 1 and 2, worked: four inequalities, and what their sum forbids."""

from itertools import product

import numpy as np

from exercises.d003_threshold_neurons import TABLES, certificate, grid_search, table_of
from exercises.worked import Check, Solution, Step, Table, num
from npdl.layers.neuron import ThresholdNeuron

INPUTS = tuple(product((0, 1), repeat=2))


def biases(table):
    """(lowest, highest) b with w = (1, 1): b >= lowest and b < highest give the table."""
    lowest = max(-sum(x) for x, value in zip(INPUTS, table, strict=True) if value)
    highest = min(-sum(x) for x, value in zip(INPUTS, table, strict=True) if not value)
    return lowest, highest


def rows(table, b):
    """[(x_1, x_2, wanted, w.x + b, f)] with w = (1, 1)."""
    return [(*map(str, x), str(value), num(float(sum(x) + b), 1), str(int(sum(x) + b >= 0)))
            for x, value in zip(INPUTS, table, strict=True)]


def neuron(b):
    """npdl's neuron with w = (1, 1)."""
    return ThresholdNeuron.of(np.ones(2), b, dtype="float64")


def and_or():
    """Question 1."""
    steps = [Step("Each row of the table is one inequality for w and b.",
                  "00: b   01: w₂ + b   10: w₁ + b   11: w₁ + w₂ + b;   ≥ 0 where f = 1, < 0 "
                  "where f = 0"),
             Step("Both inputs play the same part, so try w = (1, 1): only the number of ones "
                  "counts.", "w·x + b = (x₁ + x₂) + b")]
    middle = {}
    for name in ("AND", "OR"):
        low, high = biases(TABLES[name])
        middle[name] = (low + high) / 2
        steps.append(Step(
            f"{name}: the fewest ones that give 1 must reach 0, the most that give 0 must not. "
            "Take the middle, away from both ends.",
            "lowest ≤ b < highest",
            f"{num(low)} ≤ b < {num(high)}:  b = {num(middle[name], 1)}",
            table=Table(("x₁", "x₂", "wanted", "w·x + b", "f"),
                        tuple(rows(TABLES[name], middle[name])))))
    return Solution(
        "1", tuple(steps),
        f"AND: w = (1, 1), b = {num(middle['AND'], 1)};  OR: w = (1, 1), b = "
        f"{num(middle['OR'], 1)}.",
        (Check("npdl's threshold neuron gives both tables",
               all(table_of(neuron(b), 2) == TABLES[name] for name, b in middle.items())),
         Check("b at the open end gives another table",
               table_of(neuron(biases(TABLES["AND"])[1]), 2) != TABLES["AND"])))


def xor():
    """Question 2."""
    a, a2, z, z2 = certificate(TABLES["XOR"])
    names = ["".join(map(str, point)) for point in (a, a2, z, z2)]
    total = [u + v for u, v in zip(a, a2, strict=True)]
    hits, size = grid_search(TABLES["XOR"])
    return Solution(
        "2",
        (
            Step("Suppose w and b did it. Write what the two ones demand, and add.",
                 f"f({names[0]}) = 1:  w₂ + b ≥ 0\nf({names[1]}) = 1:  w₁ + b ≥ 0\n"
                 "sum:        w₁ + w₂ + 2b ≥ 0"),
            Step("Write what the two zeros demand, and add.",
                 f"f({names[2]}) = 0:  b < 0\nf({names[3]}) = 0:  w₁ + w₂ + b < 0\n"
                 "sum:        w₁ + w₂ + 2b < 0"),
            Step("The two sums are the same number, since the points have the same sum. It can't "
                 "be at least 0 and below 0.",
                 f"{names[0]} + {names[1]} = {names[2]} + {names[3]} = ({total[0]}, {total[1]})"),
            Step("In the plane: the ones' midpoint is the zeros' midpoint. A line would have both "
                 "ends of each diagonal, and so its middle, on one side.",
                 numbers=f"midpoint of both pairs: ({num(total[0] / 2, 1)}, "
                 f"{num(total[1] / 2, 1)})"),
        ),
        "No w and b exist: the conditions on 01 and 10 add up to w₁ + w₂ + 2b ≥ 0, those on 00 and "
        "11 to w₁ + w₂ + 2b < 0.",
        (Check(f"none of {size:,} triples (w₁, w₂, b) of a grid computes XOR", hits == 0),
         Check("the same search finds AND and OR",
               grid_search(TABLES["AND"])[0] > 0 and grid_search(TABLES["OR"])[0] > 0)),
        picture="the half-planes of AND and OR, and the two that XOR needs")


def solutions():
    return [and_or(), xor()]
