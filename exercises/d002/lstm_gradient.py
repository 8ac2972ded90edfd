"""Document 002, Problem 4: the gradient dJ/dW_g of an LSTM, under each reading of its symbols.

A derivative symbol can mean the direct effect (everything earlier held fixed) or the total one.
`gradient_by_formula` takes each choice; npdl's backward and differences say which is right.
"""

import math
from functools import partial

import numpy as np

from exercises.d002.lstm_statements import lstm_cell
from exercises.framework import Claim, judge, proved
from exercises.probes import difference
from exercises.worked import Solution, Table, below, num, terms
from npdl.functions import sigmoid
from npdl.layers.recurrent import LSTMLayer

QUESTION = """\
Problem 4 (a). An LSTM with f, i, o = sigmoid(x W + h W'), C~ = tanh(x W_g + h W_g'),
C_t = f * C_(t-1) + i * C~, h_t = tanh(C_t) * o. Write dJ/dW_g with these eight: dh_t/dh_(t-1),
dh_(t-1)/dW_g, dJ/dh_t, dC_t/dW_g, dC_(t-1)/dW_g, dC_t/dC_(t-1), dC_t/dC~_t, dh_t/do_t."""

TITLES = {"4a": "The gradient dJ/dW_g of an LSTM"}

claim_of = partial(Claim, "002", "Problem 4")

# What the symbols may mean: (dC~/dW_g, dh_t/dh_(t-1), dC_(t-1)/dW_g, dJ/dh_t).
READINGS = {
    "direct dC~, dh/dh at fixed C_(t-1), the rest total": ("direct", "gates", "total", "local"),
    "dC~/dW_g total": ("total", "gates", "total", "local"),
    "dC_t/dW_g total": ("memory", "gates", "total", "local"),
    "dh/dh at fixed C_t": ("direct", "output", "total", "local"),
    "dC~/dW_g total, dh/dh at fixed C_t": ("total", "output", "total", "local"),
    "dh/dh total, through C_(t-1) too": ("direct", "all", "total", "local"),
    "dC_(t-1)/dW_g direct": ("direct", "gates", "direct", "local"),
    "the bracket reused as dC_(t-1)/dW_g of the next step": ("direct", "gates", "bracket", "local"),
    "dJ/dh_t total, later steps included": ("direct", "gates", "total", "total"),
}
RIGHT = next(iter(READINGS))


def problem(steps=6, width=3, d_in=2, seed=0):
    """A random cell, x (T, D) and v (T, H): J = sum_t v_t . h_t, from a state of zeros."""
    rng = np.random.default_rng(seed)
    cell = lstm_cell(width, d_in, recurrent=2.0, seed=seed)
    return cell, rng.standard_normal((steps, d_in)), rng.standard_normal((steps, width))


def gradient_by_backward(cell, x, v):
    """dJ/dW_g (D, H) by npdl's LSTM."""
    layer = LSTMLayer(*cell.W_x.shape[:1], cell.d_hidden, dtype="float64")
    layer.cell = cell
    cell.zero_grad()
    _, cache = layer.forward(x[None])
    layer.backward((v[None], None), cache)
    return cell.W_x.grad[:, 3 * cell.d_hidden:].copy()


def gradient_by_differences(cell, x, v):
    """dJ/dW_g (D, H) by differences."""
    weights = cell.W_x.data[:, 3 * cell.d_hidden:]
    kept = weights.copy()

    def loss(W_g):
        weights[...] = W_g
        h, J = None, 0.0
        for x_t, v_t in zip(x, v, strict=True):
            h, _ = cell.forward(x_t[None], h)
            J += float(h[0][0] @ v_t)
        weights[...] = kept
        return J

    return difference(loss, kept)


def local_derivatives(cell, x):
    """For every step a dictionary of the direct derivatives, as matrices (out, in).

    dg_dW (H, D*H): of the candidate; dC_dh: through i, f, C~; dh_dh_o: through o alone;
    dC_dC = diag f; dh_dC = diag o (1 - tanh^2 C); i the input gate.
    """
    H, state, found = cell.d_hidden, None, []
    U_i, U_f, U_o, U_g = (U.T for U in np.split(cell.W_h.data, 4, -1))
    for x_t in x:
        state, cache = cell.forward(x_t[None], state)
        i, f, o, g = cache.i[0], cache.f[0], cache.o[0], cache.g[0]
        tanh_c, c_prev = cache.tanh_c[0], cache.c_prev[0]
        dg_dW = np.zeros((H, len(x_t), H))
        dg_dW[np.arange(H), :, np.arange(H)] = (1 - g * g)[:, None] * x_t
        dg_dh = (1 - g * g)[:, None] * U_g
        found.append({
            "i": i[:, None], "dg_dW": dg_dW.reshape(H, -1), "dg_dh": dg_dh,
            "dC_dh": i[:, None] * dg_dh + (g * i * (1 - i))[:, None] * U_i
            + (c_prev * f * (1 - f))[:, None] * U_f,
            "dC_dC": np.diag(f), "dh_dC": np.diag(o * (1 - tanh_c**2)),
            "dh_dh_o": (tanh_c * o * (1 - o))[:, None] * U_o,
        })
    return found


def gradient_by_formula(cell, x, v, reading=RIGHT):
    """The document's sum_t dJ/dh_t [dh/dC (i dC~/dW + f dC_(t-1)/dW) + dh/dh dh_(t-1)/dW].

    `reading` is a key of READINGS; what it calls total is computed exactly. Returns (D, H).
    """
    candidate, through, memory, cost = READINGS[reading]
    steps = local_derivatives(cell, x)
    dJ_dh = v if cost == "local" else total_cost_gradients(steps, v)
    size = (cell.d_hidden, steps[0]["dg_dW"].shape[1])
    dh = dC = dC_used = before = np.zeros(size)             # totals at t-1, and what is used
    gradient = np.zeros(size[1])
    for t, s in enumerate(steps):
        dg_total = s["dg_dW"] + s["dg_dh"] @ dh
        dC_total = s["i"] * s["dg_dW"] + s["dC_dh"] @ dh + s["dC_dC"] @ dC
        dC_dW = {"direct": s["i"] * s["dg_dW"], "total": s["i"] * dg_total,
                 "memory": dC_total}[candidate]
        dC_used = {"total": dC, "direct": before, "bracket": dC_used}[memory]
        dh_dh = s["dh_dh_o"]
        if through != "output":
            dh_dh = dh_dh + s["dh_dC"] @ s["dC_dh"]
        if through == "all" and t:                          # C_(t-1) follows h_(t-1)
            dh_dh = dh_dh + s["dh_dC"] @ s["dC_dC"] @ np.linalg.inv(steps[t - 1]["dh_dC"])
        bracket = dC_dW + s["dC_dC"] @ dC_used
        gradient += dJ_dh[t] @ (s["dh_dC"] @ bracket + dh_dh @ dh)
        before, dC_used = s["i"] * s["dg_dW"], bracket
        dh = s["dh_dC"] @ dC_total + s["dh_dh_o"] @ dh
        dC = dC_total
    return gradient.reshape(-1, cell.d_hidden)


def total_cost_gradients(steps, v):
    """dJ/dh_t (T, H) with the effect of h_t on all later steps, C_t held fixed."""
    found, dC = np.empty_like(v), np.zeros(v.shape[1])
    for t in reversed(range(len(steps))):
        found[t] = v[t]
        if t + 1 < len(steps):
            s = steps[t + 1]
            found[t] += dC @ s["dC_dh"] + found[t + 1] @ s["dh_dh_o"]
        later = dC @ steps[t + 1]["dC_dC"] if t + 1 < len(steps) else 0
        dC = found[t] @ steps[t]["dh_dC"] + later
    return found


def reading_errors(cell, x, v):
    """{reading: largest error of the formula, relative to the largest entry of dJ/dW_g}."""
    right = gradient_by_backward(cell, x, v)
    return {reading: float(np.abs(gradient_by_formula(cell, x, v, reading) - right).max()
                           / np.abs(right).max()) for reading in READINGS}


def listed_and_gradient(output_weight, x=1.0):
    """The eight listed values and dJ/dW_g of one step of a 1-unit LSTM, all W 1 but W_o, J = h_1;
    W' and the first state are 0, so that dh_1/dh_0 and everything about step 0 is 0."""
    gate, o = 1 / (1 + math.exp(-x)), 1 / (1 + math.exp(-output_weight * x))
    g = math.tanh(x)
    C, direct = gate * g, gate * (1 - g * g) * x
    listed = (0.0, 0.0, 1.0, direct, 0.0, gate, gate, math.tanh(C))
    return listed, o * (1 - math.tanh(C) ** 2) * direct


def claims():
    """Part (a)."""
    cell, x, v = problem()
    right, numeric = gradient_by_backward(cell, x, v), gradient_by_differences(cell, x, v)
    off = float(np.abs(right - numeric).max() / np.abs(numeric).max())
    errors, alone = reading_errors(cell, x, v), reading_errors(cell, x[:1], v[:1])  # 1 step: alike
    holds = [reading for reading, error in errors.items() if error < 1e-9]
    others = sorted(error for reading, error in errors.items() if reading not in holds)
    least, most = (100 * others[at] for at in (0, -1))
    by_gate_alone = 100 * errors["dh/dh at fixed C_t"]
    (listed, one), (again, two) = listed_and_gradient(0.0), listed_and_gradient(1.0)
    slope, lost = tanh_slope_errors(*cell.forward(x[:1])[0])
    yield claim_of("a", "the formula for dJ/dW_g, merged from all steps",
                   "sum dJ/dh_t [o (1 - tanh^2 C_t) (i dC~/dW_g + f dC_(t-1)/dW_g) + "
                   "dh_t/dh_(t-1) dh_(t-1)/dW_g]",
                   f"right under {len(holds)} of {len(errors)} readings: {'; '.join(holds)}",
                   judge(len(holds) == len(errors), provided=off < 1e-7 > max(alone.values()),
                         if_false="under-specified" if holds else "wrong"),
                   "an example, seed 0: "
                   f"against npdl's backward: off {below(min(errors.values()))}; under the others "
                   f"{least:.0f} % to {most:.0f} %; backward against "
                   f"differences: {below(off, 1e-7)}")
    yield from reading_claims(errors)
    yield claim_of("a", "the eight listed derivatives are enough", "a combination of them",
                   "they are not: dh_t/dC_t, which the answer needs and uses, is not among them",
                   judge(listed == again and abs(one - two) < 1e-9),
                   f"one unit, one step, W_o = 0 or 1: all eight are equal, dJ/dW_g is {one:.4f} "
                   f"or {two:.4f}")
    yield claim_of("a", "dh_t/do_t belongs to the answer", "listed, but unused in the solution",
                   "it is a part of dh_t/dh_(t-1), and the only part of the output gate's road",
                   judge(errors["dh/dh at fixed C_t"] < 1e-9, "confirmed", "under-specified"),
                   "an example, seed 0: "
                   "with dh_t/do_t do_t/dh_(t-1) alone in place of dh_t/dh_(t-1) the error is "
                   f"{by_gate_alone:.0f} %; do_t/dh_(t-1) is not listed either")
    yield claim_of("a", "dh_t/dC_t = o (1 - tanh^2 C_t), entry by entry", "o_t (1 - tanh^2(C_t))",
                   "as printed, the diagonal of a matrix", proved(slope < 1e-7),
                   f"central differences: error {below(slope, 1e-7)}")
    yield claim_of("a", "in the list of factors it stands as o (1 tanh^2 C_t), without a minus",
                   "o_t (1 tanh^2(C_t)); the merged formula has 1 - tanh^2", "the minus is lost",
                   judge(lost < 1e-7, if_false="slip"),
                   f"an example, seed 0: as printed it is off by up to {lost:.2f}")


def reading_claims(errors):
    """Claims on the single symbols of the formula."""
    shares = {reading: 100 * error for reading, error in errors.items()}
    percent = {reading: f"{share:.0f} %" for reading, share in shares.items()}
    yield claim_of(
        "a", "dC_t/dW_g = i dC~_t/dW_g", "i_t dC~_t/dW_g, from the tanh",
        "as the direct effect only; as total derivatives it misses i, f and C_(t-1), and the "
        "formula would count the past twice",
        judge(errors["dC~/dW_g total"] < 1e-9, "confirmed", "under-specified"),
        "an example, seed 0: "
        f"error of dJ/dW_g with dC~ total: {percent['dC~/dW_g total']}; with dC_t total: "
        f"{percent['dC_t/dW_g total']}")
    yield claim_of(
        "a", "dh_t/dh_(t-1) stands for how h_t depends on the previous hidden states",
        "dependency on previous hidden states",
        "at fixed C_(t-1), through all four gates; following C_(t-1) too counts its road twice",
        judge(errors["dh/dh total, through C_(t-1) too"] < 1e-9, "confirmed", "under-specified"),
        "an example, seed 0: "
        f"error with C_(t-1) followed too: {percent['dh/dh total, through C_(t-1) too']}")
    bracket = "the bracket reused as dC_(t-1)/dW_g of the next step"
    yield claim_of(
        "a", "the formula is a recursion: its bracket gives dC_(t-1)/dW_g of the next step",
        "dC_t/dW_g + dC_t/dC_(t-1) dC_(t-1)/dW_g expands it",
        "it gives no dC_t/dW_g to go on with: dC_t/dh_(t-1) dh_(t-1)/dW_g has to be added",
        judge(errors[bracket] < 1e-9, "confirmed", "under-specified"),
        f"an example, seed 0: error when unrolled as it stands: {percent[bracket]}")
    yield claim_of(
        "a", "dJ/dW_g = sum_t dJ/dh_t dh_t/dW_g", "sum over t of dJ/dh_t dh_t/dW_g",
        "with dJ/dh_t direct and dh_t/dW_g total; with both total every later step counts again",
        judge(errors["dJ/dh_t total, later steps included"] < 1e-9, "confirmed",
              "under-specified"),
        "an example, seed 0: "
        f"error with both total: {percent['dJ/dh_t total, later steps included']}")


def tanh_slope_errors(h, c, step=1e-5):
    """Errors of o (1 - tanh^2 c) and of o tanh^2 c against differences of o tanh(c)."""
    o, tanh = h / np.tanh(c), np.tanh(c)
    numeric = (o * np.tanh(c + step) - o * np.tanh(c - step)) / (2 * step)
    return tuple(float(np.abs(slope - numeric).max()) for slope in (o * (1 - tanh**2), o * tanh**2))


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
    through_C, past_h = [gate * two["C_before"], gate * two["g"], wide], out + bend[1] * through
    formula = bend[1] * (d2 + past_C) + past_h * dh1
    work = Solution("4a",
                    "One unit, all W and U equal 1, no biases, x = (1, 0.5), h₀ = C₀ = 0, J = h₂.")
    work.step("Run the cell forward.",
              "i = f = o = σ(x + h),  C̃ = tanh(W_g x + h),  C ← f C + i C̃,  h ← o tanh(C)",
              table=Table(("t", "x", "i = f = o", "C̃", "C", "h"),
                          tuple((t, num(s["x"], 1), s["i"], s["g"], s["C"], s["h"])
                                for t, s in enumerate(steps, 1))))
    work.step("Say what each symbol means. Direct: everything earlier held fixed. W_g enters "
              "directly only through C̃.",
              "∂C̃ₜ/∂W_g = (1 − C̃²) xₜ,   direct part of ∂Cₜ/∂W_g = i ∂C̃ₜ/∂W_g",
              f"t = 1: {num(d1)};   t = 2: {num(d2)}")
    work.step("Step 1 has no past: direct is total.", "∂h₁/∂W_g = o (1 − tanh²C₁) ∂C₁/∂W_g",
              f"{num(bend[0])} · {num(dC1)} = {num(dh1)}")
    work.step("Step 2 has two pasts. C₁ comes in through f; h₁ comes in through f, i and C̃.",
              "∂C₂/∂W_g = i ∂C̃₂/∂W_g + f ∂C₁/∂W_g + ∂C₂/∂h₁ ∂h₁/∂W_g\n∂C₂/∂h₁ = f (1 − f) C₁ + i "
              "(1 − i) C̃₂ + i (1 − C̃₂²),   through f, i and C̃",
              f"∂C₂/∂h₁ = {terms(through_C)} = {num(through)}\n"
              f"{num(d2)} + {num(two['f'])} · {num(dC1)} + {num(through)} · "
              f"{num(dh1)} = {num(dC2)}")
    work.step("And h₂ hears h₁ once more, through the output gate.",
              "∂h₂/∂W_g = ∂h₂/∂C₂ ∂C₂/∂W_g + ∂h₂/∂o₂ ∂o₂/∂h₁ ∂h₁/∂W_g\n∂h₂/∂C₂ = o (1 − "
              "tanh²C₂),   ∂h₂/∂o₂ ∂o₂/∂h₁ = tanh(C₂) o (1 − o)",
              f"{num(two['o'])} · (1 − {num(math.tanh(two['C']))}²) = {num(bend[1])},   "
              f"{num(math.tanh(two['C']))} · {num(gate)} = {num(out)}\n{num(bend[1])} · "
              f"{num(dC2)} + {num(out)} · {num(dh1)} = {num(dh2)}")
    work.step("Collect: with ∂hₜ/∂hₜ₋₁ taken at fixed Cₜ₋₁ (its roads through Cₜ and through oₜ), "
              "this is the formula in which all is merged.",
              "∂J/∂W_g = Σₜ ∂J/∂hₜ [∂hₜ/∂Cₜ (i ∂C̃ₜ/∂W_g + f ∂Cₜ₋₁/∂W_g) + ∂hₜ/∂hₜ₋₁ ∂hₜ₋₁/∂W_g]",
              f"J = h₂: {num(bend[1])} · ({num(d2)} + {num(past_C)}) + "
              f"{num(past_h)} · {num(dh1)} = {num(formula)}")
    work.answer = ("∂J/∂W_g = Σₜ ∂J/∂hₜ [∂hₜ/∂Cₜ (i ∂C̃ₜ/∂W_g + f ∂Cₜ₋₁/∂W_g) + ∂hₜ/∂hₜ₋₁ "
                   "∂hₜ₋₁/∂W_g], where ∂C̃ₜ/∂W_g holds the past fixed, ∂hₜ/∂hₜ₋₁ holds Cₜ₋₁ "
                   f"fixed, and the other two hold nothing; {num(dh2, 4)} here.")
    work.check("against a difference of J at W_g ± 0.000001", abs(numeric - dh2) < 1e-8)
    work.check("the merged formula gives the same", abs(formula - dh2) < 1e-12)
    return work


def solutions():
    return [gradient()]
