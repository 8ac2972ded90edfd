"""Document 003, Questions 1 to 3: threshold neurons, XOR, and an LSTM that computes the parity.

The neuron is f(x) = 1 if w·x + b ≥ 0, else 0. To prove that no weights compute a truth table, find
two inputs with f = 1 and two with f = 0 that have the same sum. Then the sum of w·x + b over each
pair is the same number, but it would be at least 0 for the first pair and below 0 for the second.
The LSTM has one unit. It is run with the question's step functions, and with the true sigmoid and
tanh at large weights.
"""

from itertools import combinations, product

import numpy as np

from exercises.course import format_table, judge, question
from exercises.d004.lstm import run_npdl_cell
from npdl.layers.neuron import XOR, ThresholdNeuron

TABLES = {"AND": (0, 0, 0, 1), "OR": (0, 1, 1, 1), "XOR": (0, 1, 1, 0)}     # of 00, 01, 10, 11
INPUTS = np.array(list(product((0.0, 1.0), repeat=2)))      # 00, 01, 10, 11


def truth_table_of(layer):
    """Return the outputs of a layer for the inputs 00, 01, 10, 11."""
    return tuple(layer.forward(INPUTS)[0][:, 0].astype(int).tolist())


def make_neuron(bias):
    """Return npdl's neuron with w = (1, 1) and this bias."""
    return ThresholdNeuron.from_weights((1, 1), bias, dtype="float64")


def find_contradiction(truth_table):
    """Return two inputs with f = 1 and two with f = 0 of the same sum, or None."""
    ones, zeros = ([point for point, f in zip(product((0, 1), repeat=2), truth_table, strict=True)
                    if f == value] for value in (1, 0))
    return next((up + down for up in combinations(ones, 2) for down in combinations(zeros, 2)
                 if np.array_equal(np.add(*up), np.add(*down))), None)


@question("003.1", "AND and OR by one neuron")
def solve_and_or(say, step, answer, check, claim):
    """Find w and b of a threshold neuron that computes AND of two bits, and of one for OR."""
    middle = {}
    step("Each row of the table is one inequality for w and b.",
         "00: b   01: w₂ + b   10: w₁ + b   11: w₁ + w₂ + b;   ≥ 0 where f = 1, < 0 where f = 0")
    step("Both inputs have the same role, so try w = (1, 1). Then only the number of ones matters.",
         "w·x + b = (x₁ + x₂) + b")
    ones = INPUTS.sum(1).astype(int)
    for name in ("AND", "OR"):
        target = np.array(TABLES[name])
        low, high = -ones[target == 1].min(), -ones[target == 0].max()
        b = middle[name] = (low + high) / 2
        step(f"{name}: Choose b. The smallest number of ones with output 1 must reach the "
             "threshold, and the largest number with output 0 must not. Take the middle of the "
             "possible values.", "lowest ≤ b < highest", f"{low} ≤ b < {high}:  b = {b:.1f}",
             format_table(("x₁", "x₂", "target", "w·x + b", "f"),
                          [(*map(int, x), value, float(sum(x) + b), int(sum(x) + b >= 0))
                           for x, value in zip(INPUTS, TABLES[name], strict=True)], 1))
    answer(f"AND: w = (1, 1), b = {middle['AND']:.1f};  OR: w = (1, 1), b = {middle['OR']:.1f}.")
    check("npdl's threshold neuron computes both tables.",
          all(truth_table_of(make_neuron(b)) == TABLES[name] for name, b in middle.items()))
    for name, b in middle.items():
        claim(name, f"a threshold neuron computes {name}", "none printed", f"w = (1, 1), b = {b:g}",
              judge(truth_table_of(make_neuron(b)) == TABLES[name], "no answer given"),
              "tested on all four inputs")
    strict = [tuple((ones + b > 0).astype(int).tolist()) for b in (-2, -1)]
    on_line = [int((ones + b == 0).sum()) for b in (-2, -1)]
    claim("form", "the neuron fires on the line w.x + b = 0 itself", "1 if w.x + b >= 0",
          "w = (1, 1) with b = -2 for AND and b = -1 for OR is right with this definition, but "
          "wrong with the strict > of Question 3; b = -1.5 and -0.5 are right with both "
          "definitions", judge(strict == [TABLES["AND"], TABLES["OR"]], if_false="convention"),
          f"number of inputs on the line: {on_line[0]} for AND, {on_line[1]} for OR; with > the "
          f"tables become {strict[0]} and {strict[1]}")


def draw_half_planes(figure):
    """Draw the half-planes of AND and OR, and the two that XOR needs."""
    figure.set_size_inches(10.5, 3.9)
    side = np.linspace(-0.5, 1.5, 201)
    grid = np.stack(np.meshgrid(side, side), -1)
    panels = (("AND: one neuron", make_neuron(-1.5), TABLES["AND"]),
              ("OR: one neuron", make_neuron(-0.5), TABLES["OR"]),
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


@question("003.2", "XOR by one neuron", draw_half_planes)
def solve_xor_proof(say, step, answer, check, claim):
    """Prove that no threshold neuron computes XOR (0, 1, 1, 0 on 00, 01, 10, 11)."""
    points = find_contradiction(TABLES["XOR"])
    names = ["".join(map(str, point)) for point in points]
    total, zeros = np.add(*points[:2]), np.add(*points[2:])
    step("Suppose that some w and b compute XOR. Write the inequalities of the two ones, and add "
         "them.", f"f({names[0]}) = 1:  w₂ + b ≥ 0\nf({names[1]}) = 1:  w₁ + b ≥ 0\nsum:        w₁ "
         "+ w₂ + 2b ≥ 0")
    step("Write the inequalities of the two zeros, and add them.", f"f({names[2]}) = 0:  b < "
         f"0\nf({names[3]}) = 0:  w₁ + w₂ + b < 0\nsum:        w₁ + w₂ + 2b < 0")
    step("The two sums are the same number, because both pairs of inputs have the same sum. This "
         "number can't be both at least 0 and below 0.",
         f"{names[0]} + {names[1]} = {names[2]} + {names[3]} = ({total[0]}, {total[1]})")
    step("Show this in the plane. The midpoint of the ones is also the midpoint of the zeros. A "
         "separating line would have both ends of a diagonal on one side, and so also its "
         "midpoint. But the midpoint can't be on both sides.",
         f"midpoint of both pairs: ({total[0] / 2}, {total[1] / 2})")
    answer("No w and b exist. The conditions on 01 and 10 add up to w₁ + w₂ + 2b ≥ 0, but those on "
           "00 and 11 add up to w₁ + w₂ + 2b < 0.")
    net = truth_table_of(XOR(dtype="float64"))
    check("Three of npdl's neurons compute XOR.", net == TABLES["XOR"])
    claim("", "XOR can't be computed by one neuron of this form", "to be proved",
          f"proof: f = 1 on {names[0]} and {names[1]} gives w_1 + w_2 + 2b >= 0; f = 0 on "
          f"{names[2]} and {names[3]} gives w_1 + w_2 + 2b < 0",
          judge(np.array_equal(total, zeros)), f"{names[0]} + {names[1]} = {names[2]} + {names[3]}")
    claim("hint", "the four points in the plane show it: no line separates them", "plot and draw a "
          "line", "the two ones and the two zeros have the same midpoint, and a half-plane "
          "contains the midpoint of any two of its points", judge(np.array_equal(total, zeros)),
          f"both midpoints are ({total[0] / 2}, {total[1] / 2})")
    claim("", "a net of such neurons can compute XOR", "not asked",
          "three neurons: OR and NAND first, and then AND of the two",
          judge(net == TABLES["XOR"], "no answer given"), f"table on 00, 01, 10, 11: {net}")


# (weight of h, weight of x, bias) of each gate, from h = C = 0
DESIGNS = {
    "add or subtract": {"f": (0, 0, 1), "i": (0, 2, -1), "C": (-2, 0, 1), "o": (0, 0, 1)},
    "from the hint": {"f": (0, -2, 1), "i": (-2, 2, -1), "C": (0, 0, 1), "o": (0, 0, 1)},
}
DESIGN = DESIGNS["add or subtract"]
CASES = np.array(list(product((0, 1), repeat=2)))           # (parity so far, next bit)


def compute_gates(design, h, x):
    """Return f, i, C̃ and o of the question's step functions."""
    z = [w_h * h + w_x * x + b for w_h, w_x, b in design.values()]
    return 1 * (z[0] > 0), 1 * (z[1] > 0), np.sign(z[2]), 1 * (z[3] > 0)


def step_lstm(design, h, C, x):
    """Return the next h and C, for numbers or arrays."""
    f, i, candidate, o = compute_gates(design, h, x)
    C = f * C + i * candidate
    return o * np.sign(C), C


def is_parity_design(design):
    """Return True if C' = h' = C xor x in all four cases of (C, x), with h = C."""
    C, x = CASES.T
    return all(np.array_equal(new, C ^ x) for new in step_lstm(design, C, C, x))


def npdl_parity_errors(design, factor):
    """Return |C' − parity| of npdl's LSTM in the four cases, with the design times `factor`."""
    numbers = {gate.lower(): factor * np.array([x, h, b]) for gate, (h, x, b) in design.items()}
    return [abs(run_npdl_cell(numbers, (np.tanh(C), C), [x])[1] - (C ^ x))
            for C, x in CASES.tolist()]


def count_parity_designs():
    """Return the number of correct designs with weights −2, 0, 2 and biases −1, 1, and of all."""
    C, x = CASES.T
    z = [u * C + w * x + b for u, w, b in product((-2, 0, 2), (-2, 0, 2), (-1, 1))]
    opened, signs = [1 * (v > 0) for v in z], [np.sign(v) for v in z]
    right = sum(np.array_equal(f * C + i * g, C ^ x) for f, i, g in product(opened, opened, signs))
    return right * sum(np.array_equal(o * (C ^ x), C ^ x) for o in opened), len(z) ** 4


@question("003.3", "An LSTM for the parity of bits")
def solve_parity_lstm(say, step, answer, check, claim):
    """Give weights and biases of an LSTM such that its memory Cₜ is the parity of the bits read."""
    rows, h, C = [], 0, 0
    for t, x in enumerate((1, 0, 1, 1), 1):
        before, inside = (t, x, h, C), compute_gates(DESIGN, h, x)
        h, C = step_lstm(DESIGN, h, C, x)
        rows.append((*before, *inside, C, h))
    after = {0: "keep", 1: "add 1", -1: "subtract 1"}
    say("The LSTM has one unit. σ(z) is 1 if z > 0, else 0. tanh(z) is z's sign. h₀ = C₀ = 0.")
    step("Describe the memory. Cₜ₋₁ is the parity so far, 0 or 1. xₜ = 0 keeps it, and xₜ = 1 "
         "flips it.", "Cₜ = Cₜ₋₁ xor xₜ",
         format_table(("Cₜ₋₁", "xₜ", "Cₜ", "change"),
                      [(C, x, C ^ x, after[(C ^ x) - C]) for C, x in CASES.tolist()]))
    step("Write this as Cₜ = fₜ Cₜ₋₁ + iₜ C̃ₜ. fₜ = 1, because the memory is never forgotten. iₜ = "
         "xₜ, because only a one changes it. C̃ₜ = 1 − 2Cₜ₋₁, because the change is +1 at Cₜ₋₁ = 0 "
         "and −1 at Cₜ₋₁ = 1.", "Cₜ = Cₜ₋₁ + xₜ (1 − 2Cₜ₋₁)")
    w_h, _, b = DESIGN["C"]
    step("The gates read hₜ₋₁, not Cₜ₋₁. If oₜ = 1, hₜ₋₁ = tanh(Cₜ₋₁) = sign(Cₜ₋₁) = Cₜ₋₁, so hₜ₋₁ "
         "can replace Cₜ₋₁.", "C̃ₜ = sign(1 − 2hₜ₋₁)",
         f"hₜ₋₁ = 0: sign({b}) = {np.sign(b)};   hₜ₋₁ = 1: sign({b} − {-w_h}) = {np.sign(b + w_h)}")
    step("Choose the weights of [hₜ₋₁, xₜ] and the biases so that no sum is near 0.",
         format_table(("gate", "W (for hₜ₋₁, xₜ)", "b"),
                      [(letter, f"[{h}, {x}]", b) for letter, (h, x, b) in
                       zip(("fₜ", "iₜ", "C̃ₜ", "oₜ"), DESIGN.values(), strict=True)]))
    step("Run the LSTM on the bits 1 0 1 1, from hₜ₋₁ = Cₜ₋₁ = 0.",
         format_table(("t", "xₜ", "hₜ₋₁", "Cₜ₋₁", "fₜ", "iₜ", "C̃ₜ", "oₜ", "Cₜ", "hₜ"), rows))
    step("Prove it for every string by induction. If hₜ₋₁ = Cₜ₋₁ is the parity before a bit, the "
         "table of step 1 gives hₜ = Cₜ, the parity after it. At the start both are 0.")
    answer(f"{format_weights(DESIGN, '; ')}. After the bits 1 0 1 1, Cₜ = {C}.")
    check("Cₜ = hₜ = Cₜ₋₁ xor xₜ in all four cases.", is_parity_design(DESIGN))
    for name, design in DESIGNS.items():
        soft, hard, exact = (max(npdl_parity_errors(design, factor))
                             for factor in (3.0, 10.0, 100.0))
        claim("", f"an LSTM can keep the parity in C ({name})", "none printed",
              "one unit, W = [weight of h, weight of x], h = C = 0 at the start: "
              f"{format_weights(design)}", judge(is_parity_design(design), "no answer given"),
              "all four cases of (C, x) give C' = h' = C xor x, so it is right for every length")
        claim("", f"step functions are needed for it ({name})", "assume step functions", "large "
              "weights are enough: multiplied by 100, npdl's sigmoid and tanh give exactly 0, 1 or "
              "-1", judge(exact == 0, "convention"), "npdl's LSTM in all four cases: the largest "
              f"error of C is {soft:.1g}, {hard:.1g} and {exact:g} for weights times 3, 10 and 100")
    right, total = count_parity_designs()
    claim("", "the two designs are not alone", "none printed",
          f"{right} of {total} one-unit designs with weights -2, 0, 2 and biases -1, 1 compute the "
          "parity", judge(0 < right < total, "no answer given"),
          "each design is tested on the four cases of (C, x) with h = C")
    candidate, state = compute_gates(DESIGN, 1, 1)[2], step_lstm(DESIGN, 1, 1, 1)[1]
    xor = [int((x and not y) or (not x and y)) for x, y in CASES.tolist()]
    is_parity = xor == (CASES.sum(1) % 2).tolist()
    nearest = min(abs(w_h * C + w_x * x + b) for C, x in CASES.tolist()
                  for design in DESIGNS.values() for w_h, w_x, b in design.values())
    claim("premise", "the parity problem was mentioned in Question 1", "mentioned in Question 1",
          "Question 1 has AND and OR; Question 2 has XOR, the parity of two bits",
          judge(xor in (list(TABLES["AND"]), list(TABLES["OR"])), if_false="slip"),
          "; ".join(f"{name} {''.join(map(str, row))}" for name, row in TABLES.items())
          + f"; the parity of two bits {''.join(map(str, xor))}")
    claim("hint", "x xor y = (x and not y) or (not x and y)", "(x and not y) or (not x and y)",
          "the same table", judge(is_parity), f"on 00, 01, 10, 11: {xor}; f C is C and not x, i C~ "
          "is x and not C, and they are never both 1")
    claim("hint", "this XOR was implemented above", "which you implemented above",
          "only AND and OR were implemented above; XOR was shown to be impossible for one neuron",
          judge(find_contradiction(xor) is None, if_false="under-specified"), "the equation 01 + "
          "10 = 00 + 11 of Question 2 proves it; true for the AND and the OR in the formula")
    claim("premise", "sigmoid(0) = 0 and tanh(0) = 0", "0 at x = 0 for both",
          "tanh(0) = 0 is the true value; the true sigmoid(0) is 1/2, and the threshold of "
          "Question 1 gives 1 at 0", judge(nearest > 0, "convention"), "sigmoid(0) = "
          f"{1 / (1 + np.exp(0)):g}; in the two designs, the input of every gate has at least the "
          f"distance {nearest:g} from 0, so all three definitions give the same result")
    claim("premise", "b_t is the bias of the forget gate", "b_t", "it should be b_f, as in the "
          "formula: a bias does not depend on time", judge(is_parity_design(DESIGN), "slip"),
          "the design with one fixed b_f is right at every step")
    claim("premise", "C_t are the candidate values of the cell state", "called so before formula "
          "(5)", "the candidate values are C~_t of formula (4); C_t is the new cell state",
          judge(candidate == state, if_false="slip"),
          f"after bits 1, 1 the first design has C~ = {candidate:g} and C = {state:g}")


def format_weights(design, separator=", "):
    """Return the weights and biases of a design as text."""
    return separator.join(f"W_{gate} = [{h}, {x}], b_{gate} = {b}"
                          for gate, (h, x, b) in design.items())
