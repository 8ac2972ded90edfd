"""Document 002, Problems 3 and 4: statements about the LSTM cell, and its gradient dJ/dW_g.

i, f, o = σ(W x + U h), c̃ = tanh(W x + U h), each with its own W and U, c' = f c + i c̃,
h' = o tanh(c'), without biases. A derivative symbol can mean the direct effect (everything earlier
held fixed) or the total effect. `printed_gradient` computes both, and npdl's backward and finite
differences show which is right.
"""

import math
from fractions import Fraction

import numpy as np

from exercises.course import format_table, judge, question, vec
from exercises.d004.lstm import ONES, run_npdl_cell
from npdl.functions import sigmoid
from npdl.layers.recurrent import LSTMCell, RecurrentLayer

# Another meaning of one symbol of the document's formula, and printed_gradient's argument for it
READINGS = {
    "dC~/dW_g total": {"dC_dW": "candidate total"}, "dC_t/dW_g total": {"dC_dW": "total"},
    "dh/dh at fixed C_t": {"dh_dh": "output"},
    "dC~/dW_g total, dh/dh at fixed C_t": {"dC_dW": "candidate total", "dh_dh": "output"},
    "dh/dh total, through C_(t-1) too": {"dh_dh": "all"},
    "dC_(t-1)/dW_g direct": {"dC_before": "direct"},
    "the bracket reused as dC_(t-1)/dW_g of the next step": {"dC_before": "bracket"},
    "dJ/dh_t total, later steps included": {"dJ_dh": "total"},
}


def run_unit_lstm(xs, W_g=1.0, h=0.0, C=0.0):
    """Return values and direct derivatives at each step of one unit, with all W and U 1 but W_g."""
    steps = []
    for x in xs:
        gate, g, before = float(sigmoid(x + h)), math.tanh(W_g * x + h), C
        C = gate * C + gate * g
        h = math.tanh(C) * gate
        slope, wide = gate * (1 - gate), gate * (1 - g * g)         # of the gates, of C~ in C
        steps.append({"x": x, "gate": gate, "g": g, "C": C, "h": h, "before": before,
                      "dC_dW": wide * x, "dC_dg_dh": wide, "dgate_dh": slope,
                      "dC_dh": slope * before + slope * g + wide,
                      "dh_dC": gate * (1 - math.tanh(C) ** 2), "dh_do_dh": math.tanh(C) * slope})
    return steps


def later_cost(steps, t, h_shift):
    """Return the sum of all h after step t if h_t is increased by h_shift and C_t is not."""
    xs, s = [later["x"] for later in steps[t + 1:]], steps[t]
    return sum(later["h"] for later in run_unit_lstm(xs, h=s["h"] + h_shift, C=s["C"]))


def printed_gradient(steps, dC_dW="direct", dh_dh="gates", dC_before="total", dJ_dh="direct"):
    """Return the document's Σ dJ/dh [dh/dC (dC/dW + f dC_before/dW) + dh/dh dh_before/dW].

    J is Σ h_t. Each argument chooses a meaning of its symbol. "total" effects are exact.
    """
    costs = [1.0 + (dJ_dh == "total") * (
        later_cost(steps, t, 1e-6) - later_cost(steps, t, -1e-6)) / 2e-6 for t in range(len(steps))]
    dh = dC = bracket = direct = total = 0.0                        # of the previous step
    slope = 1.0
    for s, cost in zip(steps, costs, strict=True):
        past = {"total": dC, "direct": direct, "bracket": bracket}[dC_before]
        path = {"output": 0.0, "gates": s["dh_dC"] * s["dC_dh"],
                "all": s["dh_dC"] * (s["dC_dh"] + s["gate"] / slope)}[dh_dh]
        direct, slope = s["dC_dW"], s["dh_dC"]
        dC = direct + s["dC_dh"] * dh + s["gate"] * dC
        bracket = s["gate"] * past + {
            "direct": direct, "candidate total": direct + s["dC_dg_dh"] * dh, "total": dC}[dC_dW]
        total += cost * (slope * bracket + (path + s["dh_do_dh"]) * dh)
        dh = slope * dC + s["dh_do_dh"] * dh
    return total


def npdl_gradient(xs):
    """Return dJ/dW_g for J = Σ h_t by npdl's LSTM."""
    layer = RecurrentLayer(LSTMCell(1, 1, dtype="float64"))
    layer.cell.W_x.data[...] = layer.cell.W_h.data[...] = 1
    layer.cell.b.data[...] = 0
    _, cache = layer.forward(np.reshape(xs, (1, -1, 1)))
    layer.backward((np.ones((1, len(xs), 1)), None), cache)
    return float(layer.cell.W_x.grad[0, 3])


@question("002.4a", "The gradient dJ/dW_g of an LSTM")
def solve_gradient_of_W_g(say, step, answer, check, claim):
    """Write dJ/dW_g of an LSTM in terms of eight given derivatives."""
    one, two = steps = run_unit_lstm((1.0, 0.5))
    dC1 = one["dC_dW"]
    dh1 = one["dh_dC"] * dC1
    parts = [two["dgate_dh"] * two["before"], two["dgate_dh"] * two["g"], two["dC_dg_dh"]]
    past_C, through = two["gate"] * dC1, two["dC_dh"]
    dC2 = two["dC_dW"] + past_C + through * dh1
    dh2 = two["dh_dC"] * dC2 + two["dh_do_dh"] * dh1
    past_h = two["dh_do_dh"] + two["dh_dC"] * through
    merged = two["dh_dC"] * (two["dC_dW"] + past_C) + past_h * dh1
    up, down = (run_unit_lstm((1.0, 0.5), 1 + e)[-1]["h"] for e in (1e-6, -1e-6))
    tanh_C = math.tanh(two["C"])
    say("The LSTM has one unit without biases, and all W and U are 1. The input is x = (1, 0.5), "
        "h₀ = C₀ = 0, and J = h₂.")
    step("Compute the forward pass.", "i = f = o = σ(x + h),  C̃ = tanh(W_g x + h),  C ← f C + i "
         "C̃,  h ← o tanh(C)", format_table(("t", "x", "i = f = o", "C̃", "C", "h"),
                                            [(t, f"{s['x']:.1f}", s["gate"], s["g"], s["C"], s["h"])
                                             for t, s in enumerate(steps, 1)]))
    step("Define the symbols. A direct derivative holds all earlier values fixed. W_g has a direct "
         "effect only through C̃.", "∂C̃ₜ/∂W_g = (1 − C̃²) xₜ,   direct part of ∂Cₜ/∂W_g = i "
         "∂C̃ₜ/∂W_g", f"t = 1: {one['dC_dW']:.3f};   t = 2: {two['dC_dW']:.3f}")
    step("Step 1 has no past, so its total derivative is the direct one.",
         "∂h₁/∂W_g = o (1 − tanh²C₁) ∂C₁/∂W_g", f"{one['dh_dC']:.3f} · {dC1:.3f} = {dh1:.3f}")
    step("Step 2 depends on the past in two ways. C₁ enters through f. h₁ enters through f, i and "
         "C̃.", "∂C₂/∂W_g = i ∂C̃₂/∂W_g + f ∂C₁/∂W_g + ∂C₂/∂h₁ ∂h₁/∂W_g", "∂C₂/∂h₁ = f (1 − f) C₁ "
         "+ i (1 − i) C̃₂ + i (1 − C̃₂²),   through f, i and C̃", f"∂C₂/∂h₁ = {parts[0]:.3f} + "
         f"{parts[1]:.3f} + {parts[2]:.3f} = {through:.3f}", f"{two['dC_dW']:.3f} + "
         f"{two['gate']:.3f} · {dC1:.3f} + {through:.3f} · {dh1:.3f} = {dC2:.3f}")
    step("h₂ also depends on h₁ through the output gate.", "∂h₂/∂W_g = ∂h₂/∂C₂ ∂C₂/∂W_g + ∂h₂/∂o₂ "
         "∂o₂/∂h₁ ∂h₁/∂W_g", "∂h₂/∂C₂ = o (1 − tanh²C₂),   ∂h₂/∂o₂ ∂o₂/∂h₁ = tanh(C₂) o (1 − o)",
         f"{two['gate']:.3f} · (1 − {tanh_C:.3f}²) = {two['dh_dC']:.3f},   {tanh_C:.3f} · "
         f"{two['dgate_dh']:.3f} = {two['dh_do_dh']:.3f}",
         f"{two['dh_dC']:.3f} · {dC2:.3f} + {two['dh_do_dh']:.3f} · {dh1:.3f} = {dh2:.3f}")
    step("Collect the terms into one formula. Here ∂hₜ/∂hₜ₋₁ holds Cₜ₋₁ fixed. It contains the "
         "paths through Cₜ and through oₜ.", "∂J/∂W_g = Σₜ ∂J/∂hₜ [∂hₜ/∂Cₜ (i ∂C̃ₜ/∂W_g + f "
         "∂Cₜ₋₁/∂W_g) + ∂hₜ/∂hₜ₋₁ ∂hₜ₋₁/∂W_g]", f"J = h₂: {two['dh_dC']:.3f} · ({two['dC_dW']:.3f} "
         f"+ {past_C:.3f}) + {past_h:.3f} · {dh1:.3f} = {merged:.3f}")
    answer("∂J/∂W_g = Σₜ ∂J/∂hₜ [∂hₜ/∂Cₜ (i ∂C̃ₜ/∂W_g + f ∂Cₜ₋₁/∂W_g) + ∂hₜ/∂hₜ₋₁ ∂hₜ₋₁/∂W_g], "
           "where ∂C̃ₜ/∂W_g holds the past fixed, ∂hₜ/∂hₜ₋₁ holds Cₜ₋₁ fixed, and the other two "
           f"are total derivatives. Here it is {dh2:.4f}.")
    check("A finite difference of J at W_g ± 0.000001 agrees.",
          abs((up - down) / 2e-6 - dh2) < 1e-8)
    check("The merged formula gives the same gradient.", abs(merged - dh2) < 1e-12)
    xs = (1.0, 0.5, -0.5, 1.5)
    steps, right = run_unit_lstm(xs), npdl_gradient(xs)
    error = {name: abs(printed_gradient(steps, **meaning) / right - 1)
             for name, meaning in READINGS.items()}
    percent = {name: f"{100 * off:.0f} %" for name, off in error.items()}
    example = f"one unit, x = {xs}, J = Σ h_t: "
    own_error = abs(printed_gradient(steps) / right - 1)
    check("The formula, read as in the answer, agrees with npdl's backward.", own_error < 1e-9)
    wrong = [off for off in error.values() if off > 1e-9]
    claim("", "the formula for dJ/dW_g, merged from all steps", "sum dJ/dh_t [o (1 - tanh^2 C_t) "
          "(i dC~/dW_g + f dC_(t-1)/dW_g) + dh_t/dh_(t-1) dh_(t-1)/dW_g]", "right for "
          f"{len(error) + 1 - len(wrong)} of {len(error) + 1} meanings of the symbols: dC~ direct, "
          "dh/dh at fixed C_(t-1), all others total", judge(not wrong, if_false="under-specified"),
          f"{example}compared with npdl's backward, the error is {own_error:.1g}; for the other "
          f"meanings it is {100 * min(wrong):.0f} % to {100 * max(wrong):.0f} %")
    claim("", "dC_t/dW_g = i dC~_t/dW_g", "i_t dC~_t/dW_g, from the tanh",
          "true for direct derivatives only; for total derivatives, the terms of i, f and C_(t-1) "
          "are missing", judge(error["dC~/dW_g total"] < 1e-9, if_false="under-specified"),
          f"{example}error of dJ/dW_g with dC~ total: {percent['dC~/dW_g total']}; with dC_t "
          f"total: {percent['dC_t/dW_g total']}")
    claim("", "dh_t/dh_(t-1) means how h_t depends on the previous hidden states",
          "dependency on previous hidden states", "it is taken at fixed C_(t-1), through all four "
          "gates; including the path through C_(t-1) counts it twice",
          judge(error["dh/dh total, through C_(t-1) too"] < 1e-9, if_false="under-specified"),
          f"{example}error with the path through C_(t-1): "
          f"{percent['dh/dh total, through C_(t-1) too']}")
    bracket = "the bracket reused as dC_(t-1)/dW_g of the next step"
    claim("", "the formula is a recursion: its bracket gives dC_(t-1)/dW_g of the next step",
          "dC_t/dW_g + dC_t/dC_(t-1) dC_(t-1)/dW_g expands it",
          "its bracket is not the dC_t/dW_g of the next step: dC_t/dh_(t-1) dh_(t-1)/dW_g must be "
          "added", judge(error[bracket] < 1e-9, if_false="under-specified"),
          f"{example}error when unrolled as printed: {percent[bracket]}")
    claim("", "dJ/dW_g = sum_t dJ/dh_t dh_t/dW_g", "sum over t of dJ/dh_t dh_t/dW_g",
          "with dJ/dh_t direct and dh_t/dW_g total; if both are total, later steps count twice",
          judge(error["dJ/dh_t total, later steps included"] < 1e-9, if_false="under-specified"),
          f"{example}error with both total: {percent['dJ/dh_t total, later steps included']}")
    by_gate_alone = error["dh/dh at fixed C_t"]
    zero, whole = (float(sigmoid(W_o)) * (1 - math.tanh(one["C"]) ** 2) * dC1 for W_o in (0.0, 1.0))
    c, o = 0.5, 0.75
    slope = o * (math.tanh(c + 1e-5) - math.tanh(c - 1e-5)) / 2e-5
    claim("", "the eight listed derivatives are enough", "a combination of them",
          "they are not: dh_t/dC_t, which the answer needs and uses, is not listed",
          judge(abs(zero - whole) < 1e-9), "one unit, one step: none of the eight depends on W_o, "
          f"but dJ/dW_g is {zero:.4f} for W_o = 0 and {whole:.4f} for W_o = 1")
    claim("", "dh_t/do_t belongs to the answer", "listed, but unused in the solution",
          "it is the part of dh_t/dh_(t-1) that goes through the output gate",
          judge(by_gate_alone < 1e-9, if_false="under-specified"), f"{example}with only dh_t/do_t "
          f"do_t/dh_(t-1) instead of dh_t/dh_(t-1), the error is {100 * by_gate_alone:.0f} %")
    claim("", "dh_t/dC_t = o (1 - tanh^2 C_t), entry by entry", "o_t (1 - tanh^2(C_t))",
          "as printed; it is the diagonal of a matrix",
          judge(abs(o * (1 - math.tanh(c) ** 2) - slope) < 1e-7),
          f"central differences: error {abs(o * (1 - math.tanh(c) ** 2) - slope):.1g}")
    lost = abs(o * math.tanh(c) ** 2 - slope)
    claim("", "in the list of factors it is printed as o (1 tanh^2 C_t), without a minus",
          "o_t (1 tanh^2(C_t)); the merged formula has 1 - tanh^2", "the minus sign is missing",
          judge(lost < 1e-7, if_false="slip"),
          f"C = {c}, o = {o}: the printed formula has an error of {lost:.2f}")


def step_without_input(h, c, U=1.0, f=None):
    """Return (gate, c̃, c', h') of one unit with W = 1 and x = 0; f replaces the forget gate."""
    gate, g = float(sigmoid(U * h)), math.tanh(U * h)
    new = (gate if f is None else f) * c + gate * g
    return gate, g, new, gate * math.tanh(new)


@question("002.3a", "An LSTM without input")
def solve_zero_input(say, step, answer, check, claim):
    """Decide: if x_t is the zero vector, h_t = h_(t-1)."""
    gate, g, c, h = step_without_input(0.5, 0.5)
    rest = step_without_input(0.0, 0.0)
    say("The example has one unit with W = U = 1, xₜ = 0, hₜ₋₁ = 0.5 and cₜ₋₁ = 0.5.")
    step("If xₜ = 0, the gates still depend on hₜ₋₁.", "iₜ = fₜ = oₜ = σ(W·0 + U hₜ₋₁),   c̃ₜ = "
         "tanh(U hₜ₋₁)", f"σ(0.5) = {gate:.3f},   tanh(0.5) = {g:.3f}")
    step("The memory cell changes.", "cₜ = fₜ cₜ₋₁ + iₜ c̃ₜ",
         f"{gate:.3f} · 0.5 + {gate:.3f} · {g:.3f} = {c:.3f}")
    step("The hidden state changes too.", "hₜ = oₜ tanh(cₜ)",
         f"{gate:.3f} · tanh({c:.3f}) = {h:.3f}, and hₜ₋₁ was 0.5")
    step("There is one exception: a zero state remains zero.", "hₜ₋₁ = cₜ₋₁ = 0:  c̃ₜ = tanh(0) = "
         "0,  cₜ = 0,  hₜ = 0", f"cₜ = {rest[2]:.0f}, hₜ = {rest[3]:.0f}")
    answer(f"False: with xₜ = 0 the state changes from hₜ₋₁ = 0.5 to hₜ = {h:.3f}. It remains the "
           "same if hₜ₋₁ = cₜ₋₁ = 0.")
    check("npdl's LSTM cell gives the same cₜ and hₜ.", np.allclose(
        run_npdl_cell(ONES, (0.5, 0.5), [0.0]), (h, c)))
    claim("", "x = 0 makes h' = h", "False", f"false: h goes from 0.5 to {h:.3f}",
          judge(h != 0.5), "the example above")


def gradient_through_gates(h, U=1.0):
    """Return the terms of dh'/dh at f = 0 and x = 0: through i, through c̃, through o."""
    gate, g, c, _ = step_without_input(h, 0.0, U, f=0.0)
    slope, bend = gate * (1 - gate) * U, gate * (1 - math.tanh(c) ** 2)
    return bend * slope * g, bend * gate * (1 - g**2) * U, slope * math.tanh(c)


@question("002.3b", "The gradient of an LSTM whose forget gate is 0")
def solve_zero_forget_gate(say, step, answer, check, claim):
    """Decide: if f_t is very small or zero, no error reaches earlier steps."""
    (gate, g, c, h), parts = step_without_input(0.5, 0.7, f=0.0), gradient_through_gates(0.5)
    total, after = sum(parts), sum(gradient_through_gates(h))
    up, down = (step_without_input(step_without_input(0.5 + e, 0.7, f=0.0)[3], 0, f=0.0)[3]
                for e in (1e-6, -1e-6))
    strong = sum(gradient_through_gates(0.0, U=8.0))
    say("The example has one unit with W = U = 1, xₜ = 0, hₜ₋₁ = 0.5, cₜ₋₁ = 0.7 and fₜ = 0.")
    step("fₜ = 0 blocks the direct path through the memory cell.", "∂cₜ/∂cₜ₋₁ = fₜ = 0",
         f"0 · 0.7 of the old memory remains in cₜ = {c:.3f}")
    step("But iₜ, c̃ₜ and oₜ depend on hₜ₋₁, so the error flows back through them.", "∂hₜ/∂hₜ₋₁ = "
         "oₜ (1 − tanh²cₜ) [iₜ (1 − iₜ) U c̃ₜ + iₜ (1 − c̃ₜ²) U] + oₜ (1 − oₜ) U tanh(cₜ)",
         f"iₜ = oₜ = {gate:.3f}, c̃ₜ = {g:.3f}, cₜ = iₜ c̃ₜ = {c:.3f}, oₜ (1 − tanh²cₜ) = "
         f"{gate * (1 - math.tanh(c) ** 2):.3f}",
         f"through iₜ {parts[0]:.3f}, through c̃ₜ {parts[1]:.3f}, through oₜ {parts[2]:.3f}:  "
         f"{parts[0]:.3f} + {parts[1]:.3f} + {parts[2]:.3f} = {total:.3f}")
    step("For two steps, multiply the factors of both.", "∂hₜ₊₁/∂hₜ₋₁ = ∂hₜ₊₁/∂hₜ · ∂hₜ/∂hₜ₋₁",
         f"hₜ = {h:.3f}:  {after:.3f} · {total:.3f} = {after * total:.3f}")
    step("A small fₜ does not always make the error vanish. It depends on U.",
         "hₜ₋₁ near 0:  iₜ = oₜ = 1/2,  ∂hₜ/∂hₜ₋₁ = U/4",
         f"U = 1: {sum(gradient_through_gates(0.0)):.3f};  U = 8: {strong:.3f}, so the error grows")
    answer(f"False: for fₜ = 0, ∂hₜ/∂hₜ₋₁ = {total:.3f} ≠ 0, because of iₜ, c̃ₜ and oₜ.")
    check("A finite difference of hₜ₊₁ agrees with the product of two steps.",
          abs((up - down) / 2e-6 - after * total) < 1e-8)
    claim("", "f = 0 keeps the error from earlier steps", "False", "false: f = 0 blocks only the "
          "path through c; the gates still depend on h", judge(total != 0),
          f"{total:.3f} of the error remains after one step, {after * total:.3f} after two; for U "
          "= 0 nothing would remain")
    claim("", "the error flows through the input gate and the candidate",
          "because i and c~ depend on h", "it also flows through the output gate, which this "
          "reason leaves out: o depends on h too", judge(parts[2] == 0, if_false="under-specified"),
          f"through i {parts[0]:.3f}, c~ {parts[1]:.3f}, o {parts[2]:.3f}")
    claim("summary", "the reason for the answer is that a small f makes gradients vanish",
          "False - small f leads to vanishing gradients", "this would be a reason for True; but it "
          "is not correct either: if U is large, the error grows at f = 0", judge(strong < 1),
          f"f = 0, U = 8, state near 0: a factor of {strong:.0f} per step")


@question("002.3c", "The signs of an LSTM's gates")
def solve_gate_signs(say, step, answer, check, claim):
    """Decide: the entries of f_t, i_t and o_t are not negative."""
    values = (-4, -1, 0, 1, 4)
    gates = [float(sigmoid(np.float64(z))) for z in values]
    memory, candidate, f = -0.8, -0.5, gates[3]
    new = f * memory + f * candidate
    step("e^(−z) is positive for every real z, so the denominator is above 1.",
         "σ(z) = 1/(1 + e⁻ᶻ),   e⁻ᶻ > 0   →   0 < σ(z) < 1",
         format_table(("z", "e⁻ᶻ", "σ(z)"),
                      [(z, math.exp(-z), gate) for z, gate in zip(values, gates, strict=True)]))
    step("fₜ multiplies cₜ₋₁ by such a number, so it makes cₜ₋₁ smaller and keeps its sign. It "
         "does not prevent a negative cₜ₋₁, and iₜ c̃ₜ may be negative too.",
         "cₜ = fₜ cₜ₋₁ + iₜ c̃ₜ", f"cₜ₋₁ = {memory}, fₜ = iₜ = {f:.3f}, c̃ₜ = {candidate}:  cₜ = "
         f"{f * memory:.3f} + {f * candidate:.3f} = {new:.3f}")
    answer("True: every entry is a value of σ, which is always above 0 and below 1. Here they are "
           f"between {gates[0]:.3f} and {gates[-1]:.3f}.")
    check("All values are in (0, 1) and increase with z.",
          all(0 < a < b < 1 for a, b in zip(gates, gates[1:], strict=False)))
    extremes = sigmoid(np.array([-1000.0, 1000.0]))
    claim("", "the entries of f, i, o are not negative", "True",
          "true: the values of the sigmoid are not negative", judge(min(*gates, *extremes) >= 0),
          f"values between {gates[0]:.3f} and {gates[-1]:.3f} for z from -4 to 4; at -1000 and "
          f"1000 npdl's sigmoid is {extremes[0]:g} and {extremes[1]:g}")
    claim("", "a forget gate that is not negative keeps the memory from being all negative",
          "never makes the memory completely negative",
          "it can be all negative; f * c has the signs of c, so f does not change this",
          judge(new >= 0, if_false="under-specified"), f"c' = {new:.3f} with f = {f:.3f}")


@question("002.3d", "Gates as probability distributions")
def solve_gates_as_probability_distributions(say, step, answer, check, claim):
    """Decide: f_t, i_t and o_t can be seen as probability distributions."""
    z = np.array([2.0, 0.0, -1.0])
    gates, soft, half = sigmoid(z), np.exp(z) / np.exp(z).sum(), sigmoid(np.zeros(2))
    say(f"The example has three units with z = {vec(z, 0)}.")
    step("The sigmoid acts on each entry separately.", "fⱼ = σ(zⱼ)",
         f"z = {vec(z, 0)}:  f = {vec(gates)}")
    step("Add them up.", "Σⱼ fⱼ",
         f"{gates[0]:.3f} + {gates[1]:.3f} + {gates[2]:.3f} = {gates.sum():.3f}, not 1")
    step("A softmax would sum to 1, because it divides by the sum of all entries.",
         "softmax(z)ⱼ = e^zⱼ / Σₖ e^zₖ", f"{vec(soft)}, sum {soft.sum():.3f}")
    step("The entries can sum to 1 by chance. So 'not necessarily' is right, but 'never' is wrong.",
         f"two units at z = 0: {half[0]:.1f} + {half[1]:.1f} = {half.sum():.0f}")
    answer(f"False: the entries are not negative, but their sum is {gates.sum():.3f} here. n "
           "entries can have any sum between 0 and n.")
    check("The softmax of the same numbers sums to 1.", abs(soft.sum() - 1) < 1e-12)
    claim("", "f, i, o can be seen as probability distributions", "False", "false: the three "
          f"entries above sum to {gates.sum():.3f}", judge(abs(gates.sum() - 1) > 0.01), "they can "
          f"by chance: two units at z = 0 sum to {half.sum():g}, so 'not necessarily' is right")


@question("002.4b", "How an LSTM mitigates vanishing gradients")
def solve_gradient_survival(say, step, answer, check, claim):
    """Say which part of dJ/dW_g lets an LSTM mitigate the vanishing gradient."""
    gates, lengths, T = (0.5, 0.9, 0.99, 0.999), (1, 10, 100), 100
    radius, slope = 0.8, 1 - math.tanh(1.0) ** 2
    share = Fraction(1, 2)
    least, gap = float(share) ** (1 / T), math.log(1 / share) / T
    step("Find the factor of each step along the memory cell.",
         "Cₜ = f Cₜ₋₁ + i C̃ₜ   →   ∂Cₜ/∂Cₜ₋₁ = f   (hₜ₋₁ held fixed)")
    step("This factor contains no W and no derivative of tanh. Over T steps, only the forget gates "
         "are multiplied.", "∂C_T/∂C₀ = f₁ f₂ … f_T",
         format_table(("f", *(f"T = {n}" for n in lengths)),
                      [(f"{f:.3f}", *(f"{f**n:.3g}" for n in lengths)) for f in gates]))
    step("Compare with the plain RNN, where every factor contains W and the derivative of tanh.",
         "∂hₜ/∂hₜ₋₁ = W (1 − hₜ²)", f"W of spectral radius {radius}, derivative {slope:.3f} at z = "
         f"1: {radius * slope:.3f} per step, {(radius * slope)**10:.1e} after 10 steps")
    step("How near 1 must f be? Suppose that a fraction s must remain after T steps.",
         "f^T ≥ s   ⟺   f ≥ s^(1/T) ≈ 1 − ln(1/s)/T",
         f"s = {share}, T = {T}: f ≥ {least:.4f} ≈ 1 − {gap:.4f}")
    answer("The part is ∂Cₜ/∂Cₜ₋₁ = f. The sum in C passes the gradient on with the factor f, "
           "which can be near 1 if the network has learned this. For f = 0.5 the gradient vanishes "
           f"too ({0.5**T:.0e} after {T} steps).")
    check("With f at this bound, exactly this fraction remains.",
          abs(np.prod([least] * T) - share) < 1e-12)
    one, two = run_unit_lstm((1.0, 0.5))                                      # of 4a
    f, through_h = two["gate"], two["dC_dh"] * one["dh_dC"]
    above, below = (run_npdl_cell(ONES, (one["h"], one["C"] + move), [0.5])
                    for move in (1e-6, -1e-6))
    slope_C, remaining = (above[1] - below[1]) / 2e-6, [f**T for f in gates]
    claim("", "the term that mitigates vanishing gradients is dC_t/dC_(t-1) = f", "dC_t/dC_(t-1) = "
          "f_t", "f, with h_(t-1) held fixed; for several units it is a diagonal matrix",
          judge(math.isclose(f, slope_C, rel_tol=1e-6)),
          f"the unit of 4a, t = 2: f = {f:.3f}, finite difference of npdl's cell {slope_C:.3f}")
    claim("", "dC_t/dC_(t-1) is f as a total derivative too", "not said which",
          "no: h_(t-1) also depends on C_(t-1), and the gates of step t depend on h_(t-1)",
          judge(abs(through_h) < 1e-3, if_false="under-specified"), "the unit of 4a, t = 2: the "
          f"path through h adds {through_h:.3f}, which is {100 * through_h / f:.0f} % of f")
    claim("", "with f near 1 gradients flow unhindered through time", "unhindered",
          "the product of all f remains, so 1 - f must be well below 1/T",
          judge(remaining[2] > 0.9, if_false="under-specified"),
          f"after 100 steps {vec(remaining, '.2g')} at f = {vec(gates, 'g')}")
    linear, bent, strong = radius**100, slope**100, sum(gradient_through_gates(0.0, U=8.0))
    claim("", "it is the squashing activations that make a plain RNN's gradients diminish",
          "repeated squashing by activations",
          "one of two causes: true if W_h has spectral radius 1, but a radius below 1 is enough "
          "alone", judge(linear > 0.1, if_false="under-specified" if bent < 1e-3 else "wrong"),
          f"after 100 steps: {linear:.1e} at radius {radius} without tanh, {bent:.1e} at radius 1 "
          "with tanh and z = 1 in every step")
    claim("question", "LSTM cells deal with exploding gradients as well as with vanishing ones",
          "vanishing and exploding gradients", "true for the path through the memory cell, which "
          "cannot explode because f < 1; the path through h and U can explode",
          judge(strong < 1, if_false="under-specified"), "one unit, U = 8, state near 0: the path "
          f"through h has a factor of {strong:.0f} per step, {strong**60:.1e} in 60 steps")
    claim("", "the memory resembles the skip connections of residual networks", "similar to skip "
          "connections", "for f = 1, C' = C + i C~ has the form of a residual block; for f < 1 it "
          "decays", "essay", "dC_t/dC_(t-1) at fixed h is f, the identity at f = 1")
