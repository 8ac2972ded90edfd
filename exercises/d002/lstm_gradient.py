"""Document 002, Problem 4 (a): the gradient dJ/dW_g of an LSTM, under each reading of its symbols.

A derivative symbol can mean the direct effect (everything earlier held fixed) or the total one.
`formula` takes each choice; npdl's backward and a difference say which is right.
"""

import math

import numpy as np

from exercises.course import judge, question, table
from npdl.functions import sigmoid
from npdl.layers.recurrent import LSTMLayer

# Another meaning of one symbol of the document's formula, and the argument of `formula` for it
READINGS = {
    "dC~/dW_g total": {"dC_dW": "candidate total"}, "dC_t/dW_g total": {"dC_dW": "total"},
    "dh/dh at fixed C_t": {"dh_dh": "output"},
    "dC~/dW_g total, dh/dh at fixed C_t": {"dC_dW": "candidate total", "dh_dh": "output"},
    "dh/dh total, through C_(t-1) too": {"dh_dh": "all"},
    "dC_(t-1)/dW_g direct": {"dC_before": "direct"},
    "the bracket reused as dC_(t-1)/dW_g of the next step": {"dC_before": "bracket"},
    "dJ/dh_t total, later steps included": {"dJ_dh": "total"},
}


def run(xs, W_g=1.0, h=0.0, C=0.0):
    """Return values and direct derivatives of each step of one unit, all W and U 1 but W_g."""
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


def cost_after(steps, t, move):
    """Return the sum of all h after step t, if h_t were larger by `move` and C_t the same."""
    xs, s = [later["x"] for later in steps[t + 1:]], steps[t]
    return sum(later["h"] for later in run(xs, h=s["h"] + move, C=s["C"]))


def formula(steps, dC_dW="direct", dh_dh="gates", dC_before="total", dJ_dh="direct"):
    """Return the document's Σ dJ/dh [dh/dC (dC/dW + f dC_before/dW) + dh/dh dh_before/dW].

    J is Σ h_t; each argument is a meaning of its symbol. What it calls total is computed exactly.
    """
    costs = [1.0 + (dJ_dh == "total") * (
        cost_after(steps, t, 1e-6) - cost_after(steps, t, -1e-6)) / 2e-6 for t in range(len(steps))]
    dh = dC = bracket = direct = total = 0.0                        # of the step before
    slope = 1.0
    for s, cost in zip(steps, costs, strict=True):
        past = {"total": dC, "direct": direct, "bracket": bracket}[dC_before]
        road = {"output": 0.0, "gates": s["dh_dC"] * s["dC_dh"],
                "all": s["dh_dC"] * (s["dC_dh"] + s["gate"] / slope)}[dh_dh]
        direct, slope = s["dC_dW"], s["dh_dC"]
        dC = direct + s["dC_dh"] * dh + s["gate"] * dC
        bracket = s["gate"] * past + {
            "direct": direct, "candidate total": direct + s["dC_dg_dh"] * dh, "total": dC}[dC_dW]
        total += cost * (slope * bracket + (road + s["dh_do_dh"]) * dh)
        dh = slope * dC + s["dh_do_dh"] * dh
    return total


def by_backward(xs):
    """Return dJ/dW_g for J = Σ h_t by npdl's LSTM."""
    layer = LSTMLayer(1, 1, dtype="float64")
    layer.cell.W_x.data[...] = layer.cell.W_h.data[...] = 1
    layer.cell.b.data[...] = 0
    _, cache = layer.forward(np.reshape(xs, (1, -1, 1)))
    layer.backward((np.ones((1, len(xs), 1)), None), cache)
    return float(layer.cell.W_x.grad[0, 3])


@question("002.4a", "The gradient dJ/dW_g of an LSTM")
def gradient(say, step, answer, check, claim):
    """Write dJ/dW_g of an LSTM with eight derivatives that are given as symbols."""
    one, two = steps = run((1.0, 0.5))
    dC1 = one["dC_dW"]
    dh1 = one["dh_dC"] * dC1
    parts = [two["dgate_dh"] * two["before"], two["dgate_dh"] * two["g"], two["dC_dg_dh"]]
    past_C, through = two["gate"] * dC1, two["dC_dh"]
    dC2 = two["dC_dW"] + past_C + through * dh1
    dh2 = two["dh_dC"] * dC2 + two["dh_do_dh"] * dh1
    past_h = two["dh_do_dh"] + two["dh_dC"] * through
    merged = two["dh_dC"] * (two["dC_dW"] + past_C) + past_h * dh1
    up, down = (run((1.0, 0.5), 1 + e)[-1]["h"] for e in (1e-6, -1e-6))
    tanh_C = math.tanh(two["C"])
    say("One unit, all W and U equal 1, no biases, x = (1, 0.5), h₀ = C₀ = 0, J = h₂.")
    step("Run the cell forward.",
         "i = f = o = σ(x + h),  C̃ = tanh(W_g x + h),  C ← f C + i C̃,  h ← o tanh(C)",
         table(("t", "x", "i = f = o", "C̃", "C", "h"),
               [(t, f"{s['x']:.1f}", s["gate"], s["g"], s["C"], s["h"])
                for t, s in enumerate(steps, 1)]))
    step("Say what each symbol means. Direct: everything earlier held fixed. W_g enters "
         "directly only through C̃.",
         "∂C̃ₜ/∂W_g = (1 − C̃²) xₜ,   direct part of ∂Cₜ/∂W_g = i ∂C̃ₜ/∂W_g",
         f"t = 1: {one['dC_dW']:.3f};   t = 2: {two['dC_dW']:.3f}")
    step("Step 1 has no past: direct is total.", "∂h₁/∂W_g = o (1 − tanh²C₁) ∂C₁/∂W_g",
         f"{one['dh_dC']:.3f} · {dC1:.3f} = {dh1:.3f}")
    step("Step 2 has two pasts. C₁ comes in through f; h₁ comes in through f, i and C̃.",
         "∂C₂/∂W_g = i ∂C̃₂/∂W_g + f ∂C₁/∂W_g + ∂C₂/∂h₁ ∂h₁/∂W_g",
         "∂C₂/∂h₁ = f (1 − f) C₁ + i (1 − i) C̃₂ + i (1 − C̃₂²),   through f, i and C̃",
         f"∂C₂/∂h₁ = {parts[0]:.3f} + {parts[1]:.3f} + {parts[2]:.3f} = {through:.3f}",
         f"{two['dC_dW']:.3f} + {two['gate']:.3f} · {dC1:.3f} + {through:.3f} · {dh1:.3f} = "
         f"{dC2:.3f}")
    step("And h₂ depends on h₁ once more, through the output gate.",
         "∂h₂/∂W_g = ∂h₂/∂C₂ ∂C₂/∂W_g + ∂h₂/∂o₂ ∂o₂/∂h₁ ∂h₁/∂W_g",
         "∂h₂/∂C₂ = o (1 − tanh²C₂),   ∂h₂/∂o₂ ∂o₂/∂h₁ = tanh(C₂) o (1 − o)",
         f"{two['gate']:.3f} · (1 − {tanh_C:.3f}²) = {two['dh_dC']:.3f},   {tanh_C:.3f} · "
         f"{two['dgate_dh']:.3f} = {two['dh_do_dh']:.3f}",
         f"{two['dh_dC']:.3f} · {dC2:.3f} + {two['dh_do_dh']:.3f} · {dh1:.3f} = {dh2:.3f}")
    step("Collect: with ∂hₜ/∂hₜ₋₁ taken at fixed Cₜ₋₁ (its roads through Cₜ and through oₜ), "
         "this is the formula in which all is merged.",
         "∂J/∂W_g = Σₜ ∂J/∂hₜ [∂hₜ/∂Cₜ (i ∂C̃ₜ/∂W_g + f ∂Cₜ₋₁/∂W_g) + ∂hₜ/∂hₜ₋₁ ∂hₜ₋₁/∂W_g]",
         f"J = h₂: {two['dh_dC']:.3f} · ({two['dC_dW']:.3f} + {past_C:.3f}) + {past_h:.3f} · "
         f"{dh1:.3f} = {merged:.3f}")
    answer("∂J/∂W_g = Σₜ ∂J/∂hₜ [∂hₜ/∂Cₜ (i ∂C̃ₜ/∂W_g + f ∂Cₜ₋₁/∂W_g) + ∂hₜ/∂hₜ₋₁ "
           "∂hₜ₋₁/∂W_g], where ∂C̃ₜ/∂W_g holds the past fixed, ∂hₜ/∂hₜ₋₁ holds Cₜ₋₁ fixed, and "
           f"the other two hold nothing; {dh2:.4f} here.")
    check("against a difference of J at W_g ± 0.000001", abs((up - down) / 2e-6 - dh2) < 1e-8)
    check("the merged formula gives the same", abs(merged - dh2) < 1e-12)
    xs = (1.0, 0.5, -0.5, 1.5)
    steps, right = run(xs), by_backward(xs)
    error = {name: abs(formula(steps, **meant) / right - 1) for name, meant in READINGS.items()}
    percent = {name: f"{100 * off:.0f} %" for name, off in error.items()}
    example = f"one unit, x = {xs}, J = Σ h_t: "
    check("the formula, with the readings of the answer, is npdl's backward",
          abs(formula(steps) / right - 1) < 1e-9)
    wrong = [off for off in error.values() if off > 1e-9]
    claim("", "the formula for dJ/dW_g, merged from all steps",
          "sum dJ/dh_t [o (1 - tanh^2 C_t) (i dC~/dW_g + f dC_(t-1)/dW_g) + dh_t/dh_(t-1) "
          "dh_(t-1)/dW_g]",
          f"right under {len(error) + 1 - len(wrong)} of {len(error) + 1} readings: direct "
          "dC~, dh/dh at fixed C_(t-1), the rest total",
          judge(not wrong, if_false="under-specified"),
          f"{example}against npdl's backward: off by below 1e-9; under the others "
          f"{100 * min(wrong):.0f} % to {100 * max(wrong):.0f} %")
    claim("", "dC_t/dW_g = i dC~_t/dW_g", "i_t dC~_t/dW_g, from the tanh",
          "as the direct effect only; as total ones it misses i, f and C_(t-1)",
          judge(error["dC~/dW_g total"] < 1e-9, if_false="under-specified"),
          f"{example}error of dJ/dW_g with dC~ total: {percent['dC~/dW_g total']}; with dC_t "
          f"total: {percent['dC_t/dW_g total']}")
    claim("", "dh_t/dh_(t-1) means how h_t depends on the previous hidden states",
          "dependency on previous hidden states",
          "at fixed C_(t-1), through all four gates; following C_(t-1) too counts its road twice",
          judge(error["dh/dh total, through C_(t-1) too"] < 1e-9, if_false="under-specified"),
          f"{example}error with C_(t-1) followed too: "
          f"{percent['dh/dh total, through C_(t-1) too']}")
    bracket = "the bracket reused as dC_(t-1)/dW_g of the next step"
    claim("", "the formula is a recursion: its bracket gives dC_(t-1)/dW_g of the next step",
          "dC_t/dW_g + dC_t/dC_(t-1) dC_(t-1)/dW_g expands it",
          "it gives no dC_t/dW_g to go on with: dC_t/dh_(t-1) dh_(t-1)/dW_g has to be added",
          judge(error[bracket] < 1e-9, if_false="under-specified"),
          f"{example}error when unrolled as printed: {percent[bracket]}")
    claim("", "dJ/dW_g = sum_t dJ/dh_t dh_t/dW_g", "sum over t of dJ/dh_t dh_t/dW_g",
          "with dJ/dh_t direct and dh_t/dW_g total; with both total every later step counts again",
          judge(error["dJ/dh_t total, later steps included"] < 1e-9, if_false="under-specified"),
          f"{example}error with both total: {percent['dJ/dh_t total, later steps included']}")
    by_gate_alone = error["dh/dh at fixed C_t"]
    zero, whole = (float(sigmoid(W_o)) * (1 - math.tanh(one["C"]) ** 2) * dC1 for W_o in (0.0, 1.0))
    c, o = 0.5, 0.75
    slope = o * (math.tanh(c + 1e-5) - math.tanh(c - 1e-5)) / 2e-5
    claim("", "the eight listed derivatives are enough", "a combination of them",
          "they are not: dh_t/dC_t, which the answer needs and uses, is not among them",
          judge(abs(zero - whole) < 1e-9),
          "one unit, one step, W_o = 0 or 1: none of the eight depends on W_o, dJ/dW_g is "
          f"{zero:.4f} or {whole:.4f}")
    claim("", "dh_t/do_t belongs to the answer", "listed, but unused in the solution",
          "it is a part of dh_t/dh_(t-1), and the only part of the output gate's road",
          judge(by_gate_alone < 1e-9, if_false="under-specified"),
          f"{example}with dh_t/do_t do_t/dh_(t-1) alone in place of dh_t/dh_(t-1) the error "
          f"is {100 * by_gate_alone:.0f} %")
    claim("", "dh_t/dC_t = o (1 - tanh^2 C_t), entry by entry", "o_t (1 - tanh^2(C_t))",
          "as printed, the diagonal of a matrix",
          judge(abs(o * (1 - math.tanh(c) ** 2) - slope) < 1e-7),
          "central differences: error below 1e-07")
    lost = abs(o * math.tanh(c) ** 2 - slope)
    claim("", "in the list of factors it is printed as o (1 tanh^2 C_t), without a minus",
          "o_t (1 tanh^2(C_t)); the merged formula has 1 - tanh^2", "the minus is lost",
          judge(lost < 1e-7, if_false="slip"),
          f"C = {c}, o = {o}: as printed it is off by {lost:.2f}")
