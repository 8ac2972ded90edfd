"""Document 003, Question 3: an LSTM whose memory is the parity of the bits read so far.

Two designs with one unit, run with the question's step functions, and with the true sigmoid and
tanh of npdl's LSTM at large weights.
"""

from itertools import product

import numpy as np

from exercises.course import judge, question, table
from exercises.d003.threshold_neurons import TABLES, certificate
from exercises.d004.lstm_cell import library

# (weight of h, weight of x, bias) of each gate, from h = C = 0
DESIGNS = {
    "add or subtract": {"f": (0, 0, 1), "i": (0, 2, -1), "C": (-2, 0, 1), "o": (0, 0, 1)},
    "from the hint": {"f": (0, -2, 1), "i": (-2, 2, -1), "C": (0, 0, 1), "o": (0, 0, 1)},
}
DESIGN = DESIGNS["add or subtract"]
CASES = np.array(list(product((0, 1), repeat=2)))           # (parity so far, next bit)


def gates(design, h, x):
    """Return f, i, C̃ and o of the question's step functions."""
    z = [w_h * h + w_x * x + b for w_h, w_x, b in design.values()]
    return 1 * (z[0] > 0), 1 * (z[1] > 0), np.sign(z[2]), 1 * (z[3] > 0)


def advance(design, h, C, x):
    """Return the next h and C; numbers or arrays."""
    f, i, candidate, o = gates(design, h, x)
    C = f * C + i * candidate
    return o * np.sign(C), C


def keeps_parity(design):
    """Return whether each case of (C, x) with h = C gives C' = h' = C xor x."""
    C, x = CASES.T
    return all(np.array_equal(new, C ^ x) for new in advance(design, C, C, x))


def library_errors(design, factor):
    """Return |C' − parity| of npdl's LSTM in the four cases, with the design times `factor`."""
    numbers = {gate.lower(): factor * np.array([x, h, b]) for gate, (h, x, b) in design.items()}
    return [abs(library(numbers, (np.tanh(C), C), [x])[1] - (C ^ x)) for C, x in CASES.tolist()]


def count_designs():
    """Return how many designs with weights −2, 0, 2 and biases −1, 1 are right, and how many."""
    C, x = CASES.T
    z = [u * C + w * x + b for u, w, b in product((-2, 0, 2), (-2, 0, 2), (-1, 1))]
    opened, signs = [1 * (v > 0) for v in z], [np.sign(v) for v in z]
    right = sum(np.array_equal(f * C + i * g, C ^ x)
                for f, i, g in product(opened, opened, signs))
    return right * sum(np.array_equal(o * (C ^ x), C ^ x) for o in opened), len(z) ** 4


@question("003.3", "An LSTM for the parity of bits")
def parity(say, step, answer, check, claim):
    """Give weights and biases of an LSTM such that its memory Cₜ is the parity of the bits read."""
    rows, h, C = [], 0, 0
    for t, x in enumerate((1, 0, 1, 1), 1):
        before, inside, (h, C) = (t, x, h, C), gates(DESIGN, h, x), advance(DESIGN, h, C, x)
        rows.append((*before, *inside, C, h))
    after = {0: "keep", 1: "add 1", -1: "take away 1"}
    say("One unit; σ(z) is 1 for z > 0, else 0; tanh(z) is the sign of z; h₀ = C₀ = 0.")
    step("Say what the memory must do. Cₜ₋₁ is the parity so far, 0 or 1; xₜ = 0 keeps it, "
         "xₜ = 1 turns it over.", "Cₜ = Cₜ₋₁ xor xₜ",
         table(("Cₜ₋₁", "xₜ", "Cₜ", "so"),
               [(C, x, C ^ x, after[(C ^ x) - C]) for C, x in CASES.tolist()]))
    step("Fit that to Cₜ = fₜ Cₜ₋₁ + iₜ C̃ₜ. Never forget: fₜ = 1. Write only at a one: iₜ = "
         "xₜ. Write +1 at Cₜ₋₁ = 0 and −1 at Cₜ₋₁ = 1: C̃ₜ = 1 − 2Cₜ₋₁.",
         "Cₜ = Cₜ₋₁ + xₜ (1 − 2Cₜ₋₁)")
    w_h, _, b = DESIGN["C"]
    step("The gates see hₜ₋₁, not Cₜ₋₁. With oₜ = 1, hₜ₋₁ = tanh(Cₜ₋₁) = sign(Cₜ₋₁) = Cₜ₋₁, "
         "so that hₜ₋₁ may stand for Cₜ₋₁.", "C̃ₜ = sign(1 − 2hₜ₋₁)",
         f"hₜ₋₁ = 0: sign({b}) = {np.sign(b)};   hₜ₋₁ = 1: sign({b} − {-w_h}) = {np.sign(b + w_h)}")
    step("Choose weights on [hₜ₋₁, xₜ] and biases; keep every sum away from 0.",
         table(("gate", "W = [of hₜ₋₁, of xₜ]", "b"),
               [(letter, f"[{h}, {x}]", b) for letter, (h, x, b) in
                zip(("fₜ", "iₜ", "C̃ₜ", "oₜ"), DESIGN.values(), strict=True)]))
    step("Run the bits 1 0 1 1, from hₜ₋₁ = Cₜ₋₁ = 0.",
         table(("t", "xₜ", "hₜ₋₁", "Cₜ₋₁", "fₜ", "iₜ", "C̃ₜ", "oₜ", "Cₜ", "hₜ"), rows))
    step("Every string: if hₜ₋₁ = Cₜ₋₁ = parity before a bit, the table of step 1 gives hₜ = "
         "Cₜ = parity after it. At the start both are 0, the parity of no bits.")
    answer(f"{weights(DESIGN, '; ')}: after 1 0 1 1 Cₜ = {C}.")
    check("the four cases: Cₜ = hₜ = Cₜ₋₁ xor xₜ", keeps_parity(DESIGN))
    for name, design in DESIGNS.items():
        soft, hard, exact = (max(library_errors(design, factor)) for factor in (3.0, 10.0, 100.0))
        claim("", f"an LSTM can keep the parity in C ({name})", "none printed",
              f"one unit, W = [of h, of x], h = C = 0 at the start: {weights(design)}",
              judge(keeps_parity(design), "no answer given"),
              "the four cases of (C, x) give C' = h' = C xor x, so it holds at every length")
        claim("", f"step functions are needed for it ({name})", "assume step functions",
              "large weights do: times 100, npdl's sigmoid and tanh are 0, 1 or -1 to the last bit",
              judge(exact == 0, "convention"), "npdl's LSTM, all four cases: largest error of C "
              f"times 3, 10 and 100: {soft:.1g}, {hard:.1g} and {exact:g}")
    right, tried = count_designs()
    claim("", "the two designs are not alone", "none printed",
          f"{right} of {tried} one-unit designs with weights -2, 0, 2 and biases -1, 1 compute it",
          judge(0 < right < tried, "no answer given"),
          "each checked on the four cases of (C, x) with h = C")
    candidate, state = gates(DESIGN, 1, 1)[2], advance(DESIGN, 1, 1, 1)[1]
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
          "the same table", judge(is_parity),
          f"on 00, 01, 10, 11: {xor}; f C is C and not x, i C~ is x and not C, never both 1")
    claim("hint", "this XOR was implemented above", "which you implemented above",
          "above, AND and OR were; XOR was shown to be impossible for one neuron",
          judge(certificate(xor) is None, if_false="under-specified"),
          "certificate 01 + 10 = 00 + 11 of Question 2; holds for the AND and the OR in it")
    claim("premise", "sigmoid(0) = 0 and tanh(0) = 0", "0 at x = 0 for both",
          "tanh(0) = 0 is the true value; the true sigmoid(0) is 1/2, and the threshold of "
          "Question 1 gives 1 at 0", judge(nearest > 0, "convention"),
          f"sigmoid(0) = {1 / (1 + np.exp(0)):g}; in the two designs no gate comes nearer to 0 "
          f"than {nearest:g}, so that all three agree")
    claim("premise", "b_t is the bias of the forget gate", "b_t",
          "b_f, as the formula has it: a bias does not depend on time",
          judge(keeps_parity(DESIGN), "slip"),
          "with one fixed b_f the design is right at every step")
    claim("premise", "C_t are the candidate values of the cell state", "called so before formula "
          "(5)", "the candidates are C~_t of formula (4); C_t is the new cell state",
          judge(candidate == state, if_false="slip"),
          f"after bits 1, 1 the first design has C~ = {candidate:g} and C = {state:g}")


def weights(design, separator=", "):
    """Return the weights and biases of a design as text."""
    return separator.join(f"W_{gate} = [{h}, {x}], b_{gate} = {b}"
                          for gate, (h, x, b) in design.items())
