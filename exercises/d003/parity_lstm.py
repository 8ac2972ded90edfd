"""Document 003, Question 3: an LSTM whose memory is the parity of the bits read so far.

Two designs with one unit. Each is run with the question's step functions, and with the true
sigmoid and tanh of npdl's LSTM at large weights, on all strings of up to 12 bits; that they are
right on strings of every length follows from the four cases (parity so far, next bit).
"""

from functools import partial
from itertools import product

import numpy as np

from exercises.d003.threshold_neurons import TABLES, neuron_or_certificate
from exercises.framework import Claim, judge, proved
from exercises.worked import Solution, Table, listing, num
from npdl.layers.recurrent import LSTMLayer

QUESTION = """\
Question 3. f_t, i_t, o_t = sigmoid(W [h_(t-1), x_t] + b), C~_t = tanh(W_C [h_(t-1), x_t] + b_C),
C_t = f_t C_(t-1) + i_t C~_t, h_t = o_t tanh(C_t), where sigmoid(x) is 1 for x > 0 and else 0, and
tanh(x) is the sign of x. Give W_f, b_f, W_i, b_i, W_C, b_C, W_o, b_o such that C_t is the parity of
the bits read."""

TITLES = {"3": "An LSTM for the parity of bits"}

claim_of = partial(Claim, "003", "Q3")

# (weight of h, weight of x, bias) of each gate, one unit, from h = C = 0.
DESIGNS = {
    "add or subtract": {"f": (0, 0, 1), "i": (0, 2, -1), "C": (-2, 0, 1), "o": (0, 0, 1)},
    "from the hint": {"f": (0, -2, 1), "i": (-2, 2, -1), "C": (0, 0, 1), "o": (0, 0, 1)},
}


def strings(length):
    """All bit strings of this length, (2^length, length)."""
    return np.array(list(product((0, 1), repeat=length)), float)


def parities(bits):
    """(n, T): whether the number of ones among the first t bits is odd."""
    return np.cumsum(bits, 1) % 2


def step(design, h, C, x, sigmoid=lambda z: np.where(z > 0, 1.0, 0.0), tanh=np.sign):
    """(h', C') of one step of the question's cell, numbers or arrays of one shape."""
    z = {gate: w_h * h + w_x * x + b for gate, (w_h, w_x, b) in design.items()}
    C = sigmoid(z["f"]) * C + sigmoid(z["i"]) * tanh(z["C"])
    return sigmoid(z["o"]) * tanh(C), C


def run_steps(design, bits, **functions):
    """The memory C (n, T) after each bit, from h = C = 0."""
    bits = np.asarray(bits, float)
    h = C = np.zeros(len(bits))
    memory = []
    for x in bits.T:
        h, C = step(design, h, C, x, **functions)
        memory.append(C)
    return np.stack(memory, 1)


def four_cases(design):
    """[(C, x, C', h')] for C and x in 0, 1 with h = C: the step that induction needs."""
    return [(C, x, *map(int, reversed(step(design, float(C), float(C), float(x)))))
            for C, x in product((0, 1), repeat=2)]


def proves_parity(design):
    """Whether every case gives C' = h' = C xor x; by induction C is then the parity, always."""
    return all(new == h == C ^ x for C, x, new, h in four_cases(design))


def npdl_lstm(design, sharpness):
    """npdl's LSTM, float64, one unit, with the design's numbers times `sharpness`."""
    layer = LSTMLayer(1, 1, dtype="float64")
    gates = [design[gate] for gate in "ifoC"]
    for array, column in ((layer.cell.W_h.data, 0), (layer.cell.W_x.data, 1)):
        array[0] = [sharpness * gate[column] for gate in gates]
    layer.cell.b.data[...] = [sharpness * gate[2] for gate in gates]
    return layer


def memory_of(layer, bits):
    """C (n, T) of npdl's LSTM after each bit."""
    state, memory = None, []
    for t in range(bits.shape[1]):
        (_, state), _ = layer.forward(bits[:, t:t + 1, None], state)
        memory.append(state[1][:, 0])
    return np.stack(memory, 1)


def wrong_memories(design, longest=12, sharpness=None):
    """(prefixes checked, prefixes with a wrong C, largest error) over all strings up to `longest`.

    Prefixes of the strings of length `longest` are all shorter strings. With a `sharpness`, C of
    npdl's LSTM is taken as wrong if it is not exactly 0 or 1 as it should be.
    """
    bits = strings(longest)
    memory = (run_steps(design, bits) if sharpness is None
              else memory_of(npdl_lstm(design, sharpness), bits))
    error = np.abs(memory - parities(bits))
    return error.size, int((error != 0).sum()), float(error.max())


def count_designs(values=(-2, 0, 2), biases=(-1, 1)):
    """(right ones, all) of the one-unit designs with these weights and biases, all four gates."""
    cases = np.array(list(product((0.0, 1.0), repeat=2)))           # (C, x), h = C
    C, target = cases[:, 0], cases.sum(1) % 2
    gates = [np.array((u, w)) @ cases.T + b
             for u, w, b in product(values, values, biases)]
    open_, sign = [(z > 0) * 1.0 for z in gates], [np.sign(z) for z in gates]
    right = 0
    for f, i, g in product(open_, open_, sign):
        right += bool((f * C + i * g == target).all())
    outputs = sum(bool((o * target == target).all()) for o in open_)
    return right * outputs, len(gates) ** 4


def design_claims():
    """Claims on the designs themselves."""
    for name, design in DESIGNS.items():
        size, wrong, _ = wrong_memories(design)
        exact = wrong_memories(design, sharpness=100.0)
        soft = [wrong_memories(design, sharpness=s)[2] for s in (3.0, 10.0)]
        count = len(strings(12))
        rows = ", ".join(f"W_{g} = [{d[0]}, {d[1]}], b_{g} = {d[2]}" for g, d in design.items())
        yield claim_of(
            "", f"an LSTM can keep the parity in C ({name})", "none printed",
            f"one unit, W = [of h, of x], h = C = 0 at the start: {rows}",
            judge(wrong == 0 and proves_parity(design), "no answer given"),
            f"all {count} strings of 12 bits and their prefixes: {wrong} of {size} wrong; "
            "the four cases of (C, x) give C' = h' = C xor x, so it holds at every length")
        yield claim_of(
            "", f"step functions are needed for it ({name})", "assume step functions",
            "large weights do: with all numbers times 100 npdl's sigmoid and tanh are 0, 1 or -1 "
            "to the last bit"
            + (", and C is exact" if exact[1] == 0 else ""),
            judge(exact[1] == 0, "convention"),
            f"npdl's LSTM, times 100: {exact[1]} of {exact[0]} memories not exactly right; largest "
            f"error times 3 and 10: {listing(soft, '.1g')}")


def premises():
    """Claims on the question's premises."""
    right, tried = count_designs()
    candidate, state = candidate_and_state(DESIGNS["add or subtract"], (1, 1))
    table = [int((x and not y) or (not x and y)) for x, y in product((0, 1), repeat=2)]
    plain, nearest = 1 / (1 + np.exp(-0.0)), min(map(nearest_to_zero, DESIGNS.values()))
    by_time = wrong_memories(DESIGNS["add or subtract"])[1]
    yield claim_of(
        "", "the two designs are not alone", "none printed",
        f"{right} of {tried} one-unit designs with weights -2, 0, 2 and biases -1, 1 compute it",
        judge(0 < right < tried, "no answer given"),
        "each checked on the four cases of (C, x) with h = C")
    yield claim_of(
        "premise", "the parity problem was mentioned in Question 1", "mentioned in Question 1",
        "Question 1 has AND and OR; Question 2 has XOR, which is parity of two bits; parity of "
        "longer strings is mentioned nowhere before",
        judge(any(is_parity(TABLES[name]) for name in ("AND", "OR")), provided=is_parity(table),
              if_false="slip"),
        "; ".join(f"{name} {''.join(map(str, TABLES[name]))}" for name in TABLES)
        + f"; the parity of two bits {''.join(map(str, table))}")
    yield claim_of(
        "hint", "x xor y = (x and not y) or (not x and y)", "(x and not y) or (not x and y)",
        "the same table", proved(is_parity(table)),
        f"on 00, 01, 10, 11: {table}; f C is C and not x, i C~ is x and not C, never both 1")
    yield claim_of(
        "hint", "this XOR was implemented above", "which you implemented above",
        "above, AND and OR were; XOR was shown to be impossible for one neuron",
        judge(neuron_or_certificate(table)[0] is not None, if_false="under-specified"),
        "certificate 01 + 10 = 00 + 11 of Question 2; holds for the AND and the OR in it")
    yield claim_of(
        "premise", "sigmoid(0) = 0 and tanh(0) = 0", "0 at x = 0 for both",
        "tanh(0) = 0 is the true value; the true sigmoid(0) is 1/2, and the threshold of "
        "Question 1 gives 1 at 0: three values for one step",
        judge(nearest > 0, "convention"),
        f"sigmoid(0) = {plain:g}; in the two designs no gate comes nearer to 0 than {nearest:g}, "
        "so that all three agree")
    yield claim_of(
        "premise", "b_t is the bias of the forget gate", "b_t",
        "b_f, as the formula has it: a bias does not depend on time",
        judge(by_time == 0, "slip"),
        f"with one fixed b_f the design is right at all 12 steps: {by_time} errors")
    yield claim_of(
        "premise", "C_t are the candidate values of the cell state", "called so before formula (5)",
        "the candidates are C~_t of formula (4); C_t is the new cell state",
        judge(candidate == state, if_false="slip"),
        f"after bits 1, 1 the first design has C~ = {candidate:g} and C = {state:g}")


def is_parity(table):
    """Whether a table on 00, 01, 10, 11 is the parity of the two bits."""
    return tuple(table) == tuple(int(p) for p in parities(strings(2))[:, -1])


def nearest_to_zero(design):
    """The smallest |z| that a gate or candidate meets in the four cases of (C, x), h = C."""
    return min(abs(w_h * C + w_x * x + b) for C, x in product((0, 1), repeat=2)
               for w_h, w_x, b in design.values())


def candidate_and_state(design, bits):
    """(C~, C) after the last of these bits, from h = C = 0."""
    h = C = candidate = 0.0
    for x in bits:
        w_h, w_x, b = design["C"]
        candidate = float(np.sign(w_h * h + w_x * x + b))
        h, C = step(design, h, C, float(x))
    return candidate, float(C)


def claims():
    return [*design_claims(), *premises()]


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
    letters = {"f": "fₜ", "i": "iₜ", "C": "C̃ₜ", "o": "oₜ"}
    work = Solution("3",
                    "One unit; σ(z) is 1 for z > 0, else 0; tanh(z) is the sign of z; h₀ = C₀ = 0.")
    work.step("Say what the memory must do. Cₜ₋₁ is the parity so far, 0 or 1; xₜ = 0 keeps it, "
              "xₜ = 1 turns it over.", "Cₜ = Cₜ₋₁ xor xₜ",
              table=Table(("Cₜ₋₁", "xₜ", "Cₜ", "so"), tuple(
                  (str(C), str(x), str(new), "keep" if new == C else
                   ("add 1" if new > C else "take away 1")) for C, x, new, _ in cases)))
    work.step("Fit that to Cₜ = fₜ Cₜ₋₁ + iₜ C̃ₜ. Never forget: fₜ = 1. Write only at a one: iₜ = "
              "xₜ. Write +1 at Cₜ₋₁ = 0 and −1 at Cₜ₋₁ = 1: C̃ₜ = 1 − 2Cₜ₋₁.",
              "Cₜ = Cₜ₋₁ + xₜ (1 − 2Cₜ₋₁)")
    work.step("The gates see hₜ₋₁, not Cₜ₋₁. With oₜ = 1, hₜ₋₁ = tanh(Cₜ₋₁) = sign(Cₜ₋₁) = Cₜ₋₁, "
              "so that hₜ₋₁ may stand for Cₜ₋₁.", "C̃ₜ = sign(1 − 2hₜ₋₁)",
              f"hₜ₋₁ = 0: sign({b}) = {num(gates(design, 0, 1)[2])};   hₜ₋₁ = 1: sign({b} − "
              f"{abs(w_h)}) = {num(gates(design, 1, 1)[2])}")
    work.step("Choose weights on [hₜ₋₁, xₜ] and biases; keep every sum away from 0.",
              table=Table(("gate", "W = [of hₜ₋₁, of xₜ]", "b"), tuple(
                  (letters[g], f"[{num(row[0])}, {num(row[1])}]", num(row[2]))
                  for g, row in design.items())))
    work.step(
        f"Run the bits {' '.join(map(str, BITS))}, from hₜ₋₁ = Cₜ₋₁ = 0.",
        table=Table(("t", "xₜ", "hₜ₋₁", "Cₜ₋₁", "fₜ", "iₜ", "C̃ₜ", "oₜ", "Cₜ", "hₜ"), tuple(rows)))
    work.step("Every string: if hₜ₋₁ = Cₜ₋₁ = parity before a bit, the table of step 1 gives hₜ = "
              "Cₜ = parity after it. At the start both are 0, the parity of no bits.")
    weights = [f"W_{g} = [{num(h)}, {num(x)}], b_{g} = {num(bias)}"
               for g, (h, x, bias) in design.items()]
    work.answer = f"{'; '.join(weights)}: after {' '.join(map(str, BITS))} Cₜ = {rows[-1][-2]}."
    work.check("all 4096 strings of 12 bits and all their beginnings",
               wrong_memories(design)[1] == 0)
    work.check("the four cases: Cₜ = hₜ = Cₜ₋₁ xor xₜ",
               all(new == h == C ^ x for C, x, new, h in cases))
    return work


def solutions():
    return [lstm()]
