"""Document 002, Problem 3, worked: an LSTM of one unit without biases, every weight 1."""

import math

from exercises.worked import Check, Solution, Step, Table, num, terms, vec
from npdl.functions import sigmoid

KEPT = 0.7                                  # (b): the memory that f = 0 drops
MEMORY, CANDIDATE = -0.8, -0.5              # (c): both negative


def lstm_step(x, h, c, W=1.0, U=1.0, f=None):
    """{i, f, o, g, c, h} of one step; f is the gate's value where it is given."""
    z = W * x + U * h
    gate, g = sigmoid(z), math.tanh(z)
    forget = gate if f is None else f
    new_c = forget * c + gate * g
    return {"i": gate, "f": forget, "o": gate, "g": g, "c": new_c, "h": gate * math.tanh(new_c)}


def zero_input(h=0.5, c=0.5):
    """Part (a)."""
    s, rest = lstm_step(0.0, h, c), lstm_step(0.0, 0.0, 0.0)
    return Solution(
        "3a",
        (
            Step("With x = 0 the gates still hear h.", "i = f = o = σ(W·0 + U h),   c̃ = tanh(U h)",
                 f"σ({h}) = {num(s['i'])},   tanh({h}) = {num(s['g'])}"),
            Step("The memory moves.", "c' = f c + i c̃",
                 f"{num(s['f'])} · {c} + {num(s['i'])} · {num(s['g'])} = {num(s['c'])}"),
            Step("So does the hidden state.", "h' = o tanh(c')",
                 f"{num(s['o'])} · tanh({num(s['c'])}) = {num(s['h'])}, and h was {num(h, 1)}"),
            Step("The one exception worth knowing: from rest it stays at rest.",
                 "h = c = 0:  c̃ = tanh(0) = 0,  c' = 0,  h' = 0",
                 f"c' = {num(rest['c'], 0)}, h' = {num(rest['h'], 0)}"),
        ),
        f"False: with x = 0 the state goes from h = {h} to h' = {num(s['h'])}; from h = c = 0 "
        "it would stay.",
        (Check("c' and h' by the definition, in one line each",
               abs(s["c"] - (sigmoid(h) * c + sigmoid(h) * math.tanh(h))) < 1e-15
               and abs(s["h"] - sigmoid(h) * math.tanh(s["c"])) < 1e-15),
         Check("at rest nothing moves", rest["h"] == rest["c"] == 0)),
        f"One unit, W = U = 1, x = 0, h = {h}, c = {c}.")


def road_through_h(h, U=1.0):
    """The parts of dh'/dh at f = 0, x = 0: through i, through the candidate, through o."""
    s = lstm_step(0.0, h, 0.0, U=U, f=0.0)
    slope, bend = s["i"] * (1 - s["i"]) * U, s["o"] * (1 - math.tanh(s["c"]) ** 2)
    return bend * slope * s["g"], bend * s["i"] * (1 - s["g"] ** 2) * U, \
        slope * math.tanh(s["c"])


def forgetting(h=0.5):
    """Part (b)."""
    s, parts = lstm_step(0.0, h, KEPT, f=0.0), road_through_h(h)
    total, after = sum(parts), sum(road_through_h(s["h"]))
    step = 1e-6
    two = [lstm_step(0.0, lstm_step(0.0, h + e, KEPT, f=0.0)["h"], 0.0, f=0.0)["h"]
           for e in (step, -step)]
    numeric = (two[0] - two[1]) / (2 * step)
    strong = sum(road_through_h(0.0, U=8.0))
    return Solution(
        "3b",
        (
            Step("f = 0 closes the memory's own road.", "∂c'/∂c = f = 0",
                 f"{num(s['f'], 0)} · {num(KEPT, 1)} of the old memory is left in c' = "
                 f"{num(s['c'])}"),
            Step("But i, c̃ and o are made of h; error goes back through them.",
                 "∂h'/∂h = o (1 − tanh²c') [i (1 − i) U c̃ + i (1 − c̃²) U] + o (1 − o) U tanh(c')",
                 f"i = o = {num(s['i'])}, c̃ = {num(s['g'])}, c' = i c̃ = {num(s['c'])}, "
                 f"o (1 − tanh²c') = {num(s['o'] * (1 - math.tanh(s['c']) ** 2))}\n"
                 f"through i {num(parts[0])}, through c̃ {num(parts[1])}, through o "
                 f"{num(parts[2])}:  {terms(parts)} = {num(total)}"),
            Step("Two steps: multiply the factors of both.", "∂h''/∂h = ∂h''/∂h' · ∂h'/∂h",
                 f"h' = {num(s['h'])}:  {num(after)} · {num(total)} = {num(after * total)}"),
            Step("Does a small f at least make the error vanish? Not necessarily: U decides.",
                 "h near 0:  i = o = 1/2,  ∂h'/∂h = U/4",
                 f"U = 1: {num(sum(road_through_h(0.0)))};  U = 8: {num(strong)}, it grows"),
        ),
        f"False: with f = 0 exactly, ∂h'/∂h = {num(total)} ≠ 0, by way of i, c̃ and o.",
        (Check("two steps against a difference of h''", abs(numeric - after * total) < 1e-8),
         Check("at h = 0 the factor is U/4", abs(strong - 2) < 1e-12)),
        f"One unit, W = U = 1, x = 0, h = {h}, c = {KEPT}, and f held at 0.")


def signs(values=(-4.0, -1.0, 0.0, 1.0, 4.0)):
    """Part (c)."""
    gates = [sigmoid(z) for z in values]
    f = i = gates[3]
    return Solution(
        "3c",
        (
            Step("e^(−z) is positive for every real z, so the denominator is above 1.",
                 "σ(z) = 1/(1 + e⁻ᶻ),   e⁻ᶻ > 0   →   0 < σ(z) < 1",
                 table=Table(("z", "e⁻ᶻ", "σ(z)"),
                             tuple((num(z, 0), num(math.exp(-z)), num(g))
                                   for z, g in zip(values, gates, strict=True)))),
            Step("f multiplies c by such a number: it shrinks c and keeps its sign. It does not "
                 "keep c from being negative; i c̃ may be negative too.",
                 "c' = f c + i c̃",
                 f"c = {num(MEMORY, 1)}, f = i = {num(f)}, c̃ = {num(CANDIDATE, 1)}:  c' = "
                 f"{terms([f * MEMORY, i * CANDIDATE])} = {num(f * MEMORY + i * CANDIDATE)}"),
        ),
        f"True: every entry is a σ, between {num(gates[0])} and {num(gates[-1])} here, always "
        "above 0 and below 1.",
        (Check("all values lie in (0, 1) and rise with z",
               all(0 < a < b < 1 for a, b in zip(gates, gates[1:], strict=False))),))


def distributions(z=(2.0, 0.0, -1.0)):
    """Part (d)."""
    gates = [sigmoid(v) for v in z]
    powers = [math.exp(v) for v in z]
    soft = [p / sum(powers) for p in powers]
    half = [sigmoid(0.0)] * 2
    return Solution(
        "3d",
        (
            Step("The sigmoid looks at each entry alone.", "fⱼ = σ(zⱼ)",
                 f"z = {vec(z, 0)}:  f = {vec(gates)}"),
            Step("Add them up.", "Σⱼ fⱼ", f"{terms(gates)} = {num(sum(gates))}, not 1"),
            Step("What would sum to 1 is a softmax, which divides by the sum of all.",
                 "softmax(z)ⱼ = e^zⱼ / Σₖ e^zₖ",
                 f"{vec(soft)}, sum {num(sum(soft))}"),
            Step("They can sum to 1 by chance, so 'not necessarily' is right and 'never' is not.",
                 numbers=f"two units at z = 0: {terms(half, 1)} = {num(sum(half), 0)}"),
        ),
        f"False: not negative, but the sum is {num(sum(gates))} here; n entries can sum to "
        "anything between 0 and n.",
        (Check("the softmax of the same numbers does sum to 1", abs(sum(soft) - 1) < 1e-12),
         Check("the gates' sum is not 1", abs(sum(gates) - 1) > 0.1)),
        f"Three units with z = {vec(z, 0)}.")


def solutions():
    return [zero_input(), forgetting(), signs(), distributions()]
