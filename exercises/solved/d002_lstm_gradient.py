"""Document 002, Problem 4, worked: dJ/dW_g of a one-unit LSTM over two steps."""

import math

from exercises.worked import Check, Solution, Step, Table, num, terms
from npdl.functions import sigmoid

X = (1.0, 0.5)


def run(W_g=1.0, xs=X, U=1.0):
    """One dictionary a step of i, f, o, g, C, h: all W and U 1 but W_g, from h = C = 0."""
    h = C = 0.0
    found = []
    for x in xs:
        i = f = o = sigmoid(x + U * h)
        g = math.tanh(W_g * x + U * h)
        before, h_before = C, h
        C = f * C + i * g
        h = math.tanh(C) * o
        found.append({"x": x, "i": i, "f": f, "o": o, "g": g, "C": C, "h": h,
                      "C_before": before, "h_before": h_before})
    return found


def total_derivatives(steps, U=1.0):
    """[(direct part of dC/dW_g, dC_t/dh_(t-1), dC_t/dW_g, dh_t/dW_g)] for every step, total."""
    dC = dh = 0.0
    rows = []
    for s in steps:
        gate = s["i"] * (1 - s["i"]) * U                        # di/dh = df/dh = do/dh
        direct = s["i"] * (1 - s["g"] ** 2) * s["x"]
        through = gate * s["g"] + gate * s["C_before"] + s["i"] * (1 - s["g"] ** 2) * U
        dC = direct + through * dh + s["f"] * dC
        dh = s["o"] * (1 - math.tanh(s["C"]) ** 2) * dC + math.tanh(s["C"]) * gate * dh
        rows.append((direct, through, dC, dh))
    return rows


def gradient():
    """Part (a): J = h_2."""
    steps = run()
    (d1, _, dC1, dh1), (d2, through, dC2, dh2) = total_derivatives(steps)
    one, two = steps
    bend = [s["o"] * (1 - math.tanh(s["C"]) ** 2) for s in steps]
    out = math.tanh(two["C"]) * two["o"] * (1 - two["o"])
    gate, wide = two["i"] * (1 - two["i"]), two["i"] * (1 - two["g"] ** 2)
    e = 1e-6
    numeric = (run(1 + e)[-1]["h"] - run(1 - e)[-1]["h"]) / (2 * e)
    past_C = two["f"] * dC1
    formula = bend[1] * (d2 + past_C) + (out + bend[1] * through) * dh1
    return Solution(
        "4a",
        (
            Step("Run the cell forward.", "i = f = o = σ(x + h),  C̃ = tanh(W_g x + h),  "
                 "C ← f C + i C̃,  h ← o tanh(C)",
                 table=Table(("t", "x", "i = f = o", "C̃", "C", "h"),
                             tuple((t, num(s["x"], 1), s["i"], s["g"], s["C"], s["h"])
                                   for t, s in enumerate(steps, 1)))),
            Step("Say what each symbol means. Direct: everything earlier held fixed. W_g enters "
                 "directly only through C̃.", "∂C̃ₜ/∂W_g = (1 − C̃²) xₜ,   direct part of ∂Cₜ/∂W_g "
                 "= i ∂C̃ₜ/∂W_g", f"t = 1: {num(d1)};   t = 2: {num(d2)}"),
            Step("Step 1 has no past: direct is total.", "∂h₁/∂W_g = o (1 − tanh²C₁) ∂C₁/∂W_g",
                 f"{num(bend[0])} · {num(dC1)} = {num(dh1)}"),
            Step("Step 2 has two pasts. C₁ comes in through f; h₁ comes in through f, i and C̃.",
                 "∂C₂/∂W_g = i ∂C̃₂/∂W_g + f ∂C₁/∂W_g + ∂C₂/∂h₁ ∂h₁/∂W_g\n"
                 "∂C₂/∂h₁ = f (1 − f) C₁ + i (1 − i) C̃₂ + i (1 − C̃₂²),   through f, i and C̃",
                 f"∂C₂/∂h₁ = {terms([gate * two['C_before'], gate * two['g'], wide])} = "
                 f"{num(through)}\n"
                 f"{num(d2)} + {num(two['f'])} · {num(dC1)} + {num(through)} · {num(dh1)} = "
                 f"{num(dC2)}"),
            Step("And h₂ hears h₁ once more, through the output gate.",
                 "∂h₂/∂W_g = ∂h₂/∂C₂ ∂C₂/∂W_g + ∂h₂/∂o₂ ∂o₂/∂h₁ ∂h₁/∂W_g\n"
                 "∂h₂/∂C₂ = o (1 − tanh²C₂),   ∂h₂/∂o₂ ∂o₂/∂h₁ = tanh(C₂) o (1 − o)",
                 f"{num(two['o'])} · (1 − {num(math.tanh(two['C']))}²) = {num(bend[1])},   "
                 f"{num(math.tanh(two['C']))} · {num(gate)} = {num(out)}\n"
                 f"{num(bend[1])} · {num(dC2)} + {num(out)} · {num(dh1)} = {num(dh2)}"),
            Step("Collect: with ∂hₜ/∂hₜ₋₁ taken at fixed Cₜ₋₁ (its roads through Cₜ and through "
                 "oₜ), this is the merged formula.",
                 "∂J/∂W_g = Σₜ ∂J/∂hₜ [∂hₜ/∂Cₜ (i ∂C̃ₜ/∂W_g + f ∂Cₜ₋₁/∂W_g) + ∂hₜ/∂hₜ₋₁ "
                 "∂hₜ₋₁/∂W_g]",
                 f"J = h₂: {num(bend[1])} · ({num(d2)} + {num(past_C)}) + "
                 f"{num(out + bend[1] * through)} · {num(dh1)} = {num(formula)}"),
        ),
        f"∂J/∂W_g = {num(dh2, 4)} for J = h₂; right with ∂C̃/∂W_g direct, ∂h/∂h at fixed C, and "
        "all ∂(t − 1)/∂W_g total.",
        (Check("against a difference of J at W_g ± 0.000001", abs(numeric - dh2) < 1e-8),
         Check("the merged formula gives the same", abs(formula - dh2) < 1e-12)),
        "One unit, all W and U equal 1, no biases, x = (1, 0.5), h₀ = C₀ = 0, J = h₂.")


def solutions():
    return [gradient()]
