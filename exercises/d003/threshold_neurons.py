"""Document 003, Questions 1 and 2: AND and OR by one threshold neuron, and XOR by none.

The neuron is f(x) = 1 if w·x + b ≥ 0, else 0. A certificate that no weights compute a table is two
inputs with f = 1 and two with f = 0 of the same sum: w·x + b, added up, would be at least 0 over
the first pair and below 0 over the second, but it is the same number.
"""

from itertools import combinations, product

import numpy as np

from exercises.course import judge, question, table
from npdl.layers.neuron import XOR, ThresholdNeuron

TABLES = {"AND": (0, 0, 0, 1), "OR": (0, 1, 1, 1), "XOR": (0, 1, 1, 0)}     # of 00, 01, 10, 11
INPUTS = np.array(list(product((0.0, 1.0), repeat=2)))      # 00, 01, 10, 11
GRID = np.arange(-3, 3.1, 0.25)


def table_of(layer):
    """Return the output of a layer on 00, 01, 10, 11."""
    return tuple(layer.forward(INPUTS)[0][:, 0].astype(int).tolist())


def neuron(b):
    """Return npdl's neuron with w = (1, 1) and this bias."""
    return ThresholdNeuron.from_weights((1, 1), b, dtype="float64")


def grid_hits(name):
    """Return how many neurons of a grid of (w₁, w₂, b) compute a table, and how many there are."""
    w_1, w_2, b = np.meshgrid(GRID, GRID, GRID)
    right = [(x_1 * w_1 + x_2 * w_2 + b >= 0) == value
             for (x_1, x_2), value in zip(INPUTS, TABLES[name], strict=True)]
    return int(np.all(right, axis=0).sum()), w_1.size


def certificate(table):
    """Return two inputs with f = 1 and two with f = 0 of the same sum, or None."""
    ones, zeros = ([point for point, f in zip(product((0, 1), repeat=2), table, strict=True)
                    if f == value] for value in (1, 0))
    return next((up + down for up in combinations(ones, 2) for down in combinations(zeros, 2)
                 if np.array_equal(np.add(*up), np.add(*down))), None)


@question("003.1", "AND and OR by one neuron")
def and_or(say, step, answer, check, claim):
    """Find w and b of a threshold neuron that computes AND of two bits, and of one for OR."""
    middle = {}
    step("Each row of the table is one inequality for w and b.",
         "00: b   01: w₂ + b   10: w₁ + b   11: w₁ + w₂ + b;   ≥ 0 where f = 1, < 0 where f = 0")
    step("Both inputs play the same part, so try w = (1, 1): only the number of ones counts.",
         "w·x + b = (x₁ + x₂) + b")
    ones = INPUTS.sum(1).astype(int)
    for name in ("AND", "OR"):
        wanted = np.array(TABLES[name])
        low, high = -ones[wanted == 1].min(), -ones[wanted == 0].max()
        b = middle[name] = (low + high) / 2
        step(f"{name}: the fewest ones that give 1 must reach 0, the most that give 0 must "
             "not. Take the middle, away from both ends.", "lowest ≤ b < highest",
             f"{low} ≤ b < {high}:  b = {b:.1f}",
             table(("x₁", "x₂", "wanted", "w·x + b", "f"),
                   [(*map(int, x), value, float(sum(x) + b), int(sum(x) + b >= 0))
                    for x, value in zip(INPUTS, TABLES[name], strict=True)], 1))
    answer(f"AND: w = (1, 1), b = {middle['AND']:.1f};  OR: w = (1, 1), b = {middle['OR']:.1f}.")
    check("npdl's threshold neuron gives both tables",
          all(table_of(neuron(b)) == TABLES[name] for name, b in middle.items()))
    for name, b in middle.items():
        hits, size = grid_hits(name)
        claim(name, f"a threshold neuron computes {name}", "none printed", f"w = (1, 1), b = {b:g}",
              judge(table_of(neuron(b)) == TABLES[name] and hits > 0, "no answer given"),
              f"all four inputs; {hits} of {size} triples of a grid do it too")
    strict = [tuple((ones + b > 0).astype(int).tolist()) for b in (-2, -1)]
    on_line = [int((ones + b == 0).sum()) for b in (-2, -1)]
    claim("form", "the neuron fires on the line w.x + b = 0 itself", "1 if w.x + b >= 0",
          "w = (1, 1) with b = -2 for AND and b = -1 for OR is right here, and wrong with the "
          "strict > of Question 3; b = -1.5 and -0.5 are right with both",
          judge(strict == [TABLES["AND"], TABLES["OR"]], if_false="convention"),
          f"inputs on the line: {on_line[0]} for AND, {on_line[1]} for OR; with > the tables "
          f"become {strict[0]} and {strict[1]}")


def picture(figure):
    """Draw the half-planes of AND and OR, and the two that XOR needs."""
    figure.set_size_inches(10.5, 3.9)
    side = np.linspace(-0.5, 1.5, 201)
    grid = np.stack(np.meshgrid(side, side), -1)
    panels = (("AND: one neuron", neuron(-1.5), TABLES["AND"]),
              ("OR: one neuron", neuron(-0.5), TABLES["OR"]),
              ("XOR: three neurons", XOR(dtype="float64"), TABLES["XOR"]))
    for axis, (title, layer, values) in zip(figure.subplots(1, 3), panels, strict=True):
        axis.contourf(side, side, layer.forward(grid)[0][..., 0], [-0.5, 0.5, 1.5],
                      colors=["#eef1f5", "#bcd4ee"])
        for x, value in zip(INPUTS, values, strict=True):
            axis.plot(*x, "o", ms=11, mec="black", mfc="#1f4e9c" if value else "white")
        axis.set(title=title, xlabel="x1", ylabel="x2", aspect="equal", xticks=(0, 1),
                 yticks=(0, 1))
    axis.plot([0, 1], [[1, 0], [0, 1]], "--", color="gray", lw=1)
    axis.annotate("same midpoint", (0.5, 0.5), (0.62, 0.42), fontsize=8)
    figure.supxlabel("blue points: 1; white points: 0; shaded: where the output is 1", fontsize=9)


@question("003.2", "XOR by one neuron", picture)
def xor(say, step, answer, check, claim):
    """Prove that no threshold neuron computes XOR (0, 1, 1, 0 on 00, 01, 10, 11)."""
    points = certificate(TABLES["XOR"])
    names = ["".join(map(str, point)) for point in points]
    total, zeros = np.add(*points[:2]), np.add(*points[2:])
    hits, size = grid_hits("XOR")
    step("Suppose w and b did it. Write what the two ones demand, and add.",
         f"f({names[0]}) = 1:  w₂ + b ≥ 0\nf({names[1]}) = 1:  w₁ + b ≥ 0\n"
         "sum:        w₁ + w₂ + 2b ≥ 0")
    step("Write what the two zeros demand, and add.",
         f"f({names[2]}) = 0:  b < 0\nf({names[3]}) = 0:  w₁ + w₂ + b < 0\n"
         "sum:        w₁ + w₂ + 2b < 0")
    step("The two sums are the same number, since the points have the same sum. It can't be "
         "at least 0 and below 0.",
         f"{names[0]} + {names[1]} = {names[2]} + {names[3]} = ({total[0]}, {total[1]})")
    step("In the plane: the ones' midpoint is the zeros' midpoint. A line would have both "
         "ends of each diagonal, and so its middle, on one side.",
         f"midpoint of both pairs: ({total[0] / 2}, {total[1] / 2})")
    answer("No w and b exist: the conditions on 01 and 10 add up to w₁ + w₂ + 2b ≥ 0, those "
           "on 00 and 11 to w₁ + w₂ + 2b < 0.")
    check(f"none of {size:,} triples (w₁, w₂, b) of a grid computes XOR", hits == 0)
    net = table_of(XOR(dtype="float64"))
    claim("", "XOR can't be computed by one neuron of this form", "to be proved",
          f"proof: f = 1 on {names[0]} and {names[1]} gives w_1 + w_2 + 2b >= 0; f = 0 on "
          f"{names[2]} and {names[3]} gives w_1 + w_2 + 2b < 0",
          judge(np.array_equal(total, zeros) and hits == 0),
          f"{names[0]} + {names[1]} = {names[2]} + {names[3]}; no triple of a grid does it")
    claim("hint", "the four points in the plane show it: no line separates them",
          "plot and draw a line", "the two ones and the two zeros have one midpoint, and a "
          "half-plane holds the midpoint of any two of its points",
          judge(np.array_equal(total, zeros)), f"both midpoints are ({total[0] / 2}, "
          f"{total[1] / 2})")
    claim("", "a net of such neurons can compute XOR", "not asked",
          "OR and NAND first, AND of the two after: three neurons",
          judge(net == TABLES["XOR"], "no answer given"), f"table on 00, 01, 10, 11: {net}")
