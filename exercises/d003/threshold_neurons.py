"""Document 003, Questions 1 and 2: AND, OR, and why no single threshold neuron computes XOR.

`neuron_or_certificate` settles any Boolean function of up to 4 inputs: either weights, tested on
every input, or a certificate that there are none. The certificate is two inputs of class 1 and two
of class 0 with the same sum: w.x + b, added up, would be at least 0 over the first pair and below 0
over the second, but it is the same number.
"""

from functools import partial
from itertools import combinations_with_replacement, product

import numpy as np

from exercises.framework import Claim, judge, proved
from exercises.worked import Solution, Table, num
from npdl.errors import InputError
from npdl.layers.neuron import XOR, ThresholdNeuron

QUESTION = """\
Question 1. Find w and b of f(x) = 1 if w.x + b >= 0, else 0, that compute AND and OR of two bits.
Question 2. Prove that no such neuron computes XOR (0, 1, 1, 0 on 00, 01, 10, 11)."""

TITLES = {"1": "AND and OR by one neuron", "2": "XOR by one neuron"}

claim_of = partial(Claim, "003")
TABLES = {"AND": (0, 0, 0, 1), "OR": (0, 1, 1, 1), "XOR": (0, 1, 1, 0)}


def inputs(bits):
    """All (2^bits, bits) inputs of 0 and 1, in the order 00, 01, 10, 11."""
    return np.array(list(product((0, 1), repeat=bits)), float)


def table_of(layer, bits):
    """The values of a layer with one output on every input."""
    y, _ = layer.forward(inputs(bits))
    return tuple(int(value) for value in y[:, 0])


def certificate(table):
    """(a, a', b, b') with f = 1 on a and a', 0 on b and b', a + a' = b + b'; None if there is none.

    Entries are inputs as tuples; a = a' is allowed.
    """
    bits = len(table).bit_length() - 1
    points = [tuple(int(v) for v in x) for x in inputs(bits)]
    pairs = {}
    for a, b in combinations_with_replacement(range(len(points)), 2):
        if table[a] == table[b]:
            total = tuple(u + v for u, v in zip(points[a], points[b], strict=True))
            pairs.setdefault((total, table[a]), (points[a], points[b]))
    for (total, value), ones in pairs.items():
        if value == 1 and (total, 0) in pairs:
            return (*ones, *pairs[total, 0])
    return None


def neuron_or_certificate(table, epochs=2000):
    """(ThresholdNeuron, None) that computes the table, or (None, certificate).

    The perceptron rule finds weights whenever there are any. That every other function has such
    a certificate is not taken for granted: one with neither is an error (there is none).
    """
    table, bits = tuple(table), len(table).bit_length() - 1
    found = certificate(table)
    if found is not None:
        return None, found
    neuron = ThresholdNeuron.from_weights(np.zeros(bits), 0.0, dtype="float64")
    perceptron(neuron, inputs(bits), np.array(table, float)[:, None], epochs)
    if table_of(neuron, bits) != table:
        raise InputError(f"no weights within {epochs} epochs and no certificate for {table}; "
                         "give more epochs")
    return neuron, None


def counts(bits):
    """(functions with weights, functions with a certificate) among all 2^(2^bits), bits 1 to 3."""
    neurons = 0
    for table in product((0, 1), repeat=2**bits):
        neurons += neuron_or_certificate(table)[0] is not None
    return neurons, 2 ** 2**bits - neurons


def grid_search(table, size=3.0, step=0.25):
    """How many (w_1, w_2, b) of a grid on [-size, size]^3 compute a table of 2 bits."""
    axis = np.arange(-size, size + step / 2, step)
    w_1, w_2, b = np.meshgrid(axis, axis, axis, indexing="ij")
    hits = np.ones(w_1.shape, bool)
    for x, value in zip(inputs(2), table, strict=True):
        hits &= (w_1 * x[0] + w_2 * x[1] + b >= 0) == bool(value)
    return int(hits.sum()), hits.size


def on_the_line(w, b):
    """How many inputs have w.x + b = 0 exactly: there >= and > differ."""
    return int((inputs(len(w)) @ np.asarray(w, float) + b == 0).sum())


def neurons():
    """Claims of Question 1."""
    for name, neuron in (("AND", and_neuron()), ("OR", or_neuron())):
        w, b = neuron.W.data[:, 0], float(neuron.b.data[0])
        hits, size = grid_search(TABLES[name])
        holds = table_of(neuron, 2) == TABLES[name]
        yield claim_of(
            "Q1", name, f"a threshold neuron computes {name}", "none printed",
            f"w = ({w[0]:g}, {w[1]:g}), b = {b:g}",
            judge(holds, "no answer given"),
            f"all four inputs; {hits} of {size} triples of a grid do it too")
    integer = on_the_line([1, 1], -2), on_the_line([1, 1], -1)
    strict = [tuple(int(x @ np.ones(2) + b > 0) for x in inputs(2)) for b in (-2, -1)]
    yield claim_of(
        "Q1", "form", "the neuron fires on the line w.x + b = 0 itself", "1 if w.x + b >= 0",
        "w = (1, 1) with b = -2 for AND and b = -1 for OR is right here, and wrong with a strict "
        ">, which the step sigmoid of Question 3 has; b = -1.5 and -0.5 are right with both",
        judge(strict == [TABLES["AND"], TABLES["OR"]], if_false="convention"),
        f"inputs on the line: {integer[0]} for AND, {integer[1]} for OR; with > the tables become "
        f"{strict[0]} and {strict[1]}")


def xor():
    """Claims of Question 2."""
    neuron, found = neuron_or_certificate(TABLES["XOR"])
    hits, size = grid_search(TABLES["XOR"])
    two, three = counts(2), counts(3)
    points = ["".join(map(str, point)) for point in found]
    yield claim_of(
        "Q2", "", "XOR can't be computed by one neuron of this form", "to be proved",
        f"proof: f = 1 on {points[0]} and {points[1]} gives w_1 + w_2 + 2b >= 0; f = 0 on "
        f"{points[2]} and {points[3]} gives w_1 + w_2 + 2b < 0",
        proved(neuron is None and hits == 0),
        f"{points[0]} + {points[1]} = {points[2]} + {points[3]}; none of {size} triples of a grid "
        "does it")
    yield claim_of(
        "Q2", "hint", "the four points in the plane show it: no line separates them",
        "plot and draw a line",
        "the midpoint (1/2, 1/2) of the two ones is the midpoint of the two zeros, and each "
        "half-plane holds the midpoint of any two of its points",
        proved(np.array_equal(np.add(*found[:2]), np.add(*found[2:]))),
        f"of the 16 functions of 2 bits {two[0]} have weights and {two[1]} a certificate (XOR and "
        f"its complement); of the 256 of 3 bits {three[0]} and {three[1]}")
    net = XOR(dtype="float64")
    yield claim_of(
        "Q2", "", "a net of such neurons can compute XOR", "not asked",
        "OR and NAND first, AND of the two after: three neurons",
        judge(table_of(net, 2) == TABLES["XOR"], "no answer given"),
        f"table on 00, 01, 10, 11: {table_of(net, 2)}")


def claims():
    return [*neurons(), *xor()]


PICTURE = (10.5, 3.9)


def picture(figure):
    """The half-planes of AND and OR, and the two that XOR needs."""
    side = np.linspace(-0.5, 1.5, 201)
    grid = np.stack(np.meshgrid(side, side), -1)
    panels = (("AND: one neuron", and_neuron(), TABLES["AND"]),
              ("OR: one neuron", or_neuron(), TABLES["OR"]),
              ("XOR: three neurons", XOR(), TABLES["XOR"]))
    for axis, (title, layer, table) in zip(figure.subplots(1, 3), panels, strict=True):
        y, _ = layer.forward(grid.astype("float32"))
        axis.contourf(side, side, y[..., 0], [-0.5, 0.5, 1.5], colors=["#eef1f5", "#bcd4ee"])
        for x, value in zip(inputs(2), table, strict=True):
            axis.plot(*x, "o", ms=11, mec="black", mfc="#1f4e9c" if value else "white")
        axis.set(title=title, xlabel="x1", ylabel="x2", aspect="equal", xticks=(0, 1),
                 yticks=(0, 1))
    axis.plot([0, 1], [1, 0], "--", color="#1f4e9c", lw=1)
    axis.plot([0, 1], [0, 1], "--", color="gray", lw=1)
    axis.annotate("same midpoint", (0.5, 0.5), (0.62, 0.42), fontsize=8)
    figure.supxlabel("blue points: 1; white points: 0; shaded: where the output is 1", fontsize=9)


def and_neuron():
    """1 where both inputs are 1: w = (1, 1), b = -1.5."""
    return ThresholdNeuron.from_weights([1, 1], -1.5)


def or_neuron():
    """1 where at least one input is 1: w = (1, 1), b = -0.5."""
    return ThresholdNeuron.from_weights([1, 1], -0.5)


def perceptron(neurons, x, targets, epochs=100):
    """Rosenblatt's rule: W += x (t - y), b += t - y, one sample after another.

    x (N, D), targets (N, E) of 0 and 1. Returns the number of epochs until one went by without
    an error, or None when `epochs` did not suffice; they never do where no plane separates the
    two classes, as with XOR.
    """
    for epoch in range(1, epochs + 1):
        wrong = False
        for sample, target in zip(x, targets, strict=True):
            y, _ = neurons.forward(sample[None])
            error = target[None] - y                    # error (1, E)
            neurons.W.data += sample[:, None] * error
            neurons.b.data += error[0]
            wrong |= error.any()
        if not wrong:
            return epoch
    return None


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
    return ThresholdNeuron.from_weights(np.ones(2), b, dtype="float64")


def and_or():
    """Question 1."""
    work, middle = Solution("1"), {}
    work.step("Each row of the table is one inequality for w and b.",
              "00: b   01: w₂ + b   10: w₁ + b   11: w₁ + w₂ + b;   ≥ 0 where f = 1, < 0 where "
              "f = 0")
    work.step("Both inputs play the same part, so try w = (1, 1): only the number of ones counts.",
              "w·x + b = (x₁ + x₂) + b")
    for name in ("AND", "OR"):
        low, high = biases(TABLES[name])
        middle[name] = (low + high) / 2
        work.step(f"{name}: the fewest ones that give 1 must reach 0, the most that give 0 must "
                  "not. Take the middle, away from both ends.", "lowest ≤ b < highest",
                  f"{num(low)} ≤ b < {num(high)}:  b = {num(middle[name], 1)}",
                  table=Table(("x₁", "x₂", "wanted", "w·x + b", "f"),
                              tuple(rows(TABLES[name], middle[name]))))
    work.answer = (f"AND: w = (1, 1), b = {num(middle['AND'], 1)};  OR: w = (1, 1), b = "
                   f"{num(middle['OR'], 1)}.")
    work.check("npdl's threshold neuron gives both tables",
               all(table_of(neuron(b), 2) == TABLES[name] for name, b in middle.items()))
    work.check("b at the open end gives another table",
               table_of(neuron(biases(TABLES["AND"])[1]), 2) != TABLES["AND"])
    return work


def worked_xor():
    """Question 2."""
    a, a2, z, z2 = certificate(TABLES["XOR"])
    names = ["".join(map(str, point)) for point in (a, a2, z, z2)]
    total = [u + v for u, v in zip(a, a2, strict=True)]
    middle = [entry / 2 for entry in total]
    hits, size = grid_search(TABLES["XOR"])
    work = Solution("2", picture="the half-planes of AND and OR, and the two that XOR needs")
    work.step("Suppose w and b did it. Write what the two ones demand, and add.",
              f"f({names[0]}) = 1:  w₂ + b ≥ 0\nf({names[1]}) = 1:  w₁ + b ≥ 0\nsum:        w₁ + "
              "w₂ + 2b ≥ 0")
    work.step("Write what the two zeros demand, and add.",
              f"f({names[2]}) = 0:  b < 0\nf({names[3]}) = 0:  w₁ + w₂ + b < 0\nsum:        w₁ + "
              "w₂ + 2b < 0")
    work.step("The two sums are the same number, since the points have the same sum. It can't be "
              "at least 0 and below 0.",
              f"{names[0]} + {names[1]} = {names[2]} + {names[3]} = ({total[0]}, {total[1]})")
    work.step("In the plane: the ones' midpoint is the zeros' midpoint. A line would have both "
              "ends of each diagonal, and so its middle, on one side.",
              numbers=f"midpoint of both pairs: ({num(middle[0], 1)}, {num(middle[1], 1)})")
    work.answer = ("No w and b exist: the conditions on 01 and 10 add up to w₁ + w₂ + 2b ≥ 0, "
                   "those on 00 and 11 to w₁ + w₂ + 2b < 0.")
    work.check(f"none of {size:,} triples (w₁, w₂, b) of a grid computes XOR", hits == 0)
    work.check("the same search finds AND and OR",
               grid_search(TABLES["AND"])[0] > 0 and grid_search(TABLES["OR"])[0] > 0)
    return work


def solutions():
    return [and_or(), worked_xor()]
