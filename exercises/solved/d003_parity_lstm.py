"""Document 003, Question 3, worked: an LSTM's gates, bit by bit."""

from exercises.d003_parity_lstm import DESIGNS, four_cases, wrong_memories
from exercises.worked import Check, Solution, Step, Table, num

NAME = "add or subtract"
BITS = (1, 0, 1, 1)


def gates(design, h, x):
    """(f, i, C~, o) of the question's step functions."""
    def z(gate):
        w_h, w_x, b = design[gate]
        return w_h * h + w_x * x + b

    candidate = z("C")
    return (int(z("f") > 0), int(z("i") > 0), (candidate > 0) - (candidate < 0), int(z("o") > 0))


def trace(design, bits):
    """[(t, x, h, C before; f, i, C~, o; C, h after)] for every bit, from h = C = 0."""
    h = C = 0
    found = []
    for t, x in enumerate(bits, 1):
        f, i, candidate, o = gates(design, h, x)
        new = f * C + i * candidate
        found.append((t, x, h, C, f, i, candidate, o, new, o * ((new > 0) - (new < 0))))
        C, h = found[-1][-2:]
    return found


def lstm():
    """Question 3."""
    design = DESIGNS[NAME]
    cases = four_cases(design)
    rows = trace(design, BITS)
    w_h, _, b = design["C"]
    letters = {"f": "f", "i": "i", "C": "C̃", "o": "o"}
    return Solution(
        "3",
        (
            Step("Say what the memory must do. C is the parity so far, 0 or 1; x = 0 keeps it, "
                 "x = 1 turns it over.", "C' = C xor x",
                 table=Table(("C", "x", "C'", "so"), tuple(
                     (str(C), str(x), str(new), "keep" if new == C else
                      ("add 1" if new > C else "take away 1")) for C, x, new, _ in cases))),
            Step("Fit that to C' = f C + i C̃. Never forget: f = 1. Write only at a one: i = x. "
                 "Write +1 at C = 0 and −1 at C = 1: C̃ = 1 − 2C.",
                 "C' = C + x (1 − 2C)"),
            Step("The gates see h, not C. With o = 1, h = tanh(C) = sign(C) = C, so that h may "
                 "stand for C.", "C̃ = sign(1 − 2h)",
                 f"h = 0: sign({b}) = {num(gates(design, 0, 1)[2])};   h = 1: sign({b} "
                 f"− {abs(w_h)}) = {num(gates(design, 1, 1)[2])}"),
            Step("Choose weights on [h, x] and biases; keep every sum away from 0.",
                 table=Table(("gate", "W = [of h, of x]", "b"), tuple(
                     (letters[g], f"[{num(row[0])}, {num(row[1])}]", num(row[2]))
                     for g, row in design.items()))),
            Step(f"Run the bits {' '.join(map(str, BITS))}, from h = C = 0.",
                 table=Table(("t", "x", "h", "C", "f", "i", "C̃", "o", "C'", "h'"),
                             tuple(rows))),
            Step("Every string: if h = C = parity before a bit, the table of step 1 gives h' = C' "
                 "= parity after it. At the start both are 0, the parity of no bits."),
        ),
        "; ".join(f"W_{g} = [{num(r[0])}, {num(r[1])}], b_{g} = {num(r[2])}"
                  for g, r in design.items()) + f": after {' '.join(map(str, BITS))} C = "
        f"{rows[-1][-2]}.",
        (Check("all 4096 strings of 12 bits and all their beginnings",
               wrong_memories(design)[1] == 0),
         Check("the four cases: C' = h' = C xor x", all(new == h == C ^ x
                                                        for C, x, new, h in cases))),
        "One unit; σ(z) is 1 for z > 0, else 0; tanh(z) is the sign of z; h₀ = C₀ = 0.")


def solutions():
    return [lstm()]
