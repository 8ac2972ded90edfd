"""Document 002, Problems 3 and 4 (b): statements about the LSTM cell, each tested on one unit.

i, f, o = σ(W x + U h), c̃ = tanh(W x + U h), each with its own W and U, c' = f c + i c̃,
h' = o tanh(c'), without biases.
"""

import math
from fractions import Fraction

import numpy as np

from exercises.course import judge, question, table, vec
from exercises.d002.lstm_gradient import run
from exercises.d004.lstm import ONES, library
from npdl.functions import sigmoid


def one_unit(h, c, U=1.0, f=None):
    """Return (gate, c̃, c', h') of one unit with W = 1 and x = 0; all gates have one value."""
    gate, g = float(sigmoid(U * h)), math.tanh(U * h)
    new = (gate if f is None else f) * c + gate * g
    return gate, g, new, gate * math.tanh(new)


@question("002.3a", "An LSTM without input")
def zero_input(say, step, answer, check, claim):
    """Decide: if x_t is the zero vector, h_t = h_(t-1)."""
    gate, g, c, h = one_unit(0.5, 0.5)
    rest = one_unit(0.0, 0.0)
    say("One unit, W = U = 1, xₜ = 0, hₜ₋₁ = 0.5, cₜ₋₁ = 0.5.")
    step("With xₜ = 0 the gates still depend on hₜ₋₁.",
         "iₜ = fₜ = oₜ = σ(W·0 + U hₜ₋₁),   c̃ₜ = tanh(U hₜ₋₁)",
         f"σ(0.5) = {gate:.3f},   tanh(0.5) = {g:.3f}")
    step("The memory moves.", "cₜ = fₜ cₜ₋₁ + iₜ c̃ₜ",
         f"{gate:.3f} · 0.5 + {gate:.3f} · {g:.3f} = {c:.3f}")
    step("So does the hidden state.", "hₜ = oₜ tanh(cₜ)",
         f"{gate:.3f} · tanh({c:.3f}) = {h:.3f}, and hₜ₋₁ was 0.5")
    step("The one exception worth knowing: from rest it stays at rest.",
         "hₜ₋₁ = cₜ₋₁ = 0:  c̃ₜ = tanh(0) = 0,  cₜ = 0,  hₜ = 0",
         f"cₜ = {rest[2]:.0f}, hₜ = {rest[3]:.0f}")
    answer(f"False: with xₜ = 0 the state goes from hₜ₋₁ = 0.5 to hₜ = {h:.3f}; from hₜ₋₁ = "
           "cₜ₋₁ = 0 it would stay.")
    check("cₜ and hₜ by npdl's LSTM cell", np.allclose(
        library(ONES, (0.5, 0.5), [0.0]), (h, c)))
    claim("", "x = 0 makes h' = h", "False", f"false: h goes from 0.5 to {h:.3f}",
          judge(h != 0.5), "the example above")


def through_gates(h, U=1.0):
    """Return the parts of dh'/dh at f = 0, x = 0: through i, through c̃, through o."""
    gate, g, c, _ = one_unit(h, 0.0, U, f=0.0)
    slope, bend = gate * (1 - gate) * U, gate * (1 - math.tanh(c) ** 2)
    return bend * slope * g, bend * gate * (1 - g**2) * U, slope * math.tanh(c)


@question("002.3b", "An LSTM that forgets: does error go back?")
def forgetting(say, step, answer, check, claim):
    """Decide: if f_t is very small or zero, no error reaches earlier steps."""
    (gate, g, c, h), parts = one_unit(0.5, 0.7, f=0.0), through_gates(0.5)
    total, after = sum(parts), sum(through_gates(h))
    up, down = (one_unit(one_unit(0.5 + e, 0.7, f=0.0)[3], 0, f=0.0)[3] for e in (1e-6, -1e-6))
    strong = sum(through_gates(0.0, U=8.0))
    say("One unit, W = U = 1, xₜ = 0, hₜ₋₁ = 0.5, cₜ₋₁ = 0.7; fₜ kept at 0.")
    step("fₜ = 0 closes the memory's own road.", "∂cₜ/∂cₜ₋₁ = fₜ = 0",
         f"0 · 0.7 of the old memory is left in cₜ = {c:.3f}")
    step("But iₜ, c̃ₜ and oₜ are made of hₜ₋₁; error goes back through them.",
         "∂hₜ/∂hₜ₋₁ = oₜ (1 − tanh²cₜ) [iₜ (1 − iₜ) U c̃ₜ + iₜ (1 − c̃ₜ²) U] + oₜ (1 − oₜ) U "
         "tanh(cₜ)",
         f"iₜ = oₜ = {gate:.3f}, c̃ₜ = {g:.3f}, cₜ = iₜ c̃ₜ = {c:.3f}, oₜ (1 − tanh²cₜ) = "
         f"{gate * (1 - math.tanh(c) ** 2):.3f}",
         f"through iₜ {parts[0]:.3f}, through c̃ₜ {parts[1]:.3f}, through oₜ {parts[2]:.3f}:  "
         f"{parts[0]:.3f} + {parts[1]:.3f} + {parts[2]:.3f} = {total:.3f}")
    step("Two steps: multiply the factors of both.", "∂hₜ₊₁/∂hₜ₋₁ = ∂hₜ₊₁/∂hₜ · ∂hₜ/∂hₜ₋₁",
         f"hₜ = {h:.3f}:  {after:.3f} · {total:.3f} = {after * total:.3f}")
    step("Does a small fₜ at least make the error vanish? Not necessarily: U decides.",
         "hₜ₋₁ near 0:  iₜ = oₜ = 1/2,  ∂hₜ/∂hₜ₋₁ = U/4",
         f"U = 1: {sum(through_gates(0.0)):.3f};  U = 8: {strong:.3f}, it grows")
    answer(f"False: with fₜ = 0 exactly, ∂hₜ/∂hₜ₋₁ = {total:.3f} ≠ 0, by way of iₜ, c̃ₜ and oₜ.")
    check("two steps against a difference of hₜ₊₁", abs((up - down) / 2e-6 - after * total) < 1e-8)
    claim("", "f = 0 keeps the error from earlier steps", "False",
          "false: f = 0 closes the road through c only; h still feeds the gates",
          judge(total != 0), f"{total:.3f} of the error is left after a step, "
          f"{after * total:.3f} after two; with U = 0 nothing would be")
    claim("", "the error flows through the input gate and the candidate",
          "because i and c~ depend on h",
          "these, and the output gate as well, which the reason leaves out: o depends on h "
          "too", judge(parts[2] == 0, if_false="under-specified"),
          f"through i {parts[0]:.3f}, c~ {parts[1]:.3f}, o {parts[2]:.3f}")
    claim("summary", "the reason for the answer is that a small f makes gradients vanish",
          "False - small f leads to vanishing gradients",
          "that would speak for True; nor does it hold: with a large U the error grows at f = "
          "0", judge(strong < 1), f"f = 0, U = 8, state near 0: a factor {strong:.0f} a step")


@question("002.3c", "The signs of an LSTM's gates")
def signs(say, step, answer, check, claim):
    """Decide: the entries of f_t, i_t and o_t are not negative."""
    values = (-4, -1, 0, 1, 4)
    gates = [float(sigmoid(np.float64(z))) for z in values]
    memory, candidate, f = -0.8, -0.5, gates[3]
    new = f * memory + f * candidate
    step("e^(−z) is positive for every real z, so the denominator is above 1.",
         "σ(z) = 1/(1 + e⁻ᶻ),   e⁻ᶻ > 0   →   0 < σ(z) < 1",
         table(("z", "e⁻ᶻ", "σ(z)"),
               [(z, math.exp(-z), gate) for z, gate in zip(values, gates, strict=True)]))
    step("fₜ multiplies cₜ₋₁ by such a number: it shrinks cₜ₋₁ and keeps its sign. It does "
         "not keep cₜ₋₁ from being negative; iₜ c̃ₜ may be negative too.", "cₜ = fₜ cₜ₋₁ + iₜ c̃ₜ",
         f"cₜ₋₁ = {memory}, fₜ = iₜ = {f:.3f}, c̃ₜ = {candidate}:  cₜ = "
         f"{f * memory:.3f} + {f * candidate:.3f} = {new:.3f}")
    answer(f"True: every entry is a σ, between {gates[0]:.3f} and {gates[-1]:.3f} here, "
           "always above 0 and below 1.")
    check("all values lie in (0, 1) and rise with z",
          all(0 < a < b < 1 for a, b in zip(gates, gates[1:], strict=False)))
    extremes = sigmoid(np.array([-1000.0, 1000.0]))
    claim("", "the entries of f, i, o are not negative", "True",
          "true: the sigmoid's values are", judge(min(*gates, *extremes) >= 0),
          f"values between {gates[0]:.3f} and {gates[-1]:.3f} for z from -4 to 4; at -1000 "
          f"and 1000 npdl's sigmoid is {extremes[0]:g} and {extremes[1]:g}")
    claim("", "a forget gate that is not negative keeps the memory from being all negative",
          "never makes the memory completely negative",
          "it can be all negative; f * c has the signs of c, so that it is not f that makes "
          "it so", judge(new >= 0, if_false="under-specified"), f"c' = {new:.3f} with f = {f:.3f}")


@question("002.3d", "Gates as probability distributions")
def distributions(say, step, answer, check, claim):
    """Decide: f_t, i_t and o_t can be seen as probability distributions."""
    z = np.array([2.0, 0.0, -1.0])
    gates, soft, half = sigmoid(z), np.exp(z) / np.exp(z).sum(), sigmoid(np.zeros(2))
    say(f"Three units with z = {vec(z, 0)}.")
    step("The sigmoid looks at each entry alone.", "fⱼ = σ(zⱼ)",
         f"z = {vec(z, 0)}:  f = {vec(gates)}")
    step("Add them up.", "Σⱼ fⱼ",
         f"{gates[0]:.3f} + {gates[1]:.3f} + {gates[2]:.3f} = {gates.sum():.3f}, not 1")
    step("What would sum to 1 is a softmax, which divides by the sum of all.",
         "softmax(z)ⱼ = e^zⱼ / Σₖ e^zₖ", f"{vec(soft)}, sum {soft.sum():.3f}")
    step("They can sum to 1 by chance, so 'not necessarily' is right and 'never' is not.",
         f"two units at z = 0: {half[0]:.1f} + {half[1]:.1f} = {half.sum():.0f}")
    answer(f"False: not negative, but the sum is {gates.sum():.3f} here; n entries can sum to "
           "anything between 0 and n.")
    check("the softmax of the same numbers does sum to 1", abs(soft.sum() - 1) < 1e-12)
    claim("", "f, i, o can be seen as probability distributions", "False",
          f"false: the three entries above sum to {gates.sum():.3f}",
          judge(abs(gates.sum() - 1) > 0.01),
          f"they can: two units at 0 sum to {half.sum():g}, so not necessarily is right")


@question("002.4b", "What keeps an LSTM's gradient alive")
def road(say, step, answer, check, claim):
    """Say which part of dJ/dW_g lets an LSTM mitigate the vanishing gradient."""
    gates, lengths, T = (0.5, 0.9, 0.99, 0.999), (1, 10, 100), 100
    radius, slope = 0.8, 1 - math.tanh(1.0) ** 2
    share = Fraction(1, 2)
    least, gap = float(share) ** (1 / T), math.log(1 / share) / T
    step("Find the factor that is multiplied at every step along the memory.",
         "Cₜ = f Cₜ₋₁ + i C̃ₜ   →   ∂Cₜ/∂Cₜ₋₁ = f   (hₜ₋₁ held fixed)")
    step("No W and no tanh' is in it. Over T steps only the forget gates are multiplied.",
         "∂C_T/∂C₀ = f₁ f₂ … f_T",
         table(("f", *(f"T = {n}" for n in lengths)),
               [(f"{f:.3f}", *(f"{f**n:.3g}" for n in lengths)) for f in gates]))
    step("Compare the plain RNN, where W and the slope of tanh are in every factor.",
         "∂hₜ/∂hₜ₋₁ = W (1 − hₜ²)",
         f"W of radius {radius}, slope at z = 1 {slope:.3f}: {radius * slope:.3f} a step, "
         f"{(radius * slope)**10:.1e} after 10")
    step("How near 1 must f be? Keep a share s over T steps.",
         "f^T ≥ s   ⟺   f ≥ s^(1/T) ≈ 1 − ln(1/s)/T",
         f"s = {share}, T = {T}: f ≥ {least:.4f} ≈ 1 − {gap:.4f}")
    answer("∂Cₜ/∂Cₜ₋₁ = f: the sum in C lets the gradient pass with factor f, near 1 if the "
           f"net has learned it; at f = 0.5 it vanishes too ({0.5**T:.0e} after {T}).")
    check("the bound for f keeps just that share", abs(np.prod([least] * T) - share) < 1e-12)
    one, two = run((1.0, 0.5))                                      # of 4a
    f, through_h = two["gate"], two["dC_dh"] * one["dh_dC"]
    above, below = (library(ONES, (one["h"], one["C"] + move), [0.5]) for move in (1e-6, -1e-6))
    slope_C, left = (above[1] - below[1]) / 2e-6, [f**T for f in gates]
    claim("", "the term that mitigates vanishing gradients is dC_t/dC_(t-1) = f",
          "dC_t/dC_(t-1) = f_t", "f, with h_(t-1) held fixed; of several units a diagonal "
          "matrix", judge(math.isclose(f, slope_C, rel_tol=1e-6)),
          f"the unit of 4a, t = 2: f = {f:.3f}, a difference of npdl's cell {slope_C:.3f}")
    claim("", "dC_t/dC_(t-1) is f as a total derivative too", "not said which",
          "no: C_(t-1) also makes h_(t-1), which feeds the gates of step t",
          judge(abs(through_h) < 1e-3, if_false="under-specified"),
          f"the unit of 4a, t = 2: {through_h:.3f} more by way of h, "
          f"{100 * through_h / f:.0f} % of f")
    claim("", "with f near 1 gradients flow unhindered through time", "unhindered",
          "what is left is the product of the f: near 1 has to mean 1 - f well below 1/T",
          judge(left[2] > 0.9, if_false="under-specified"),
          f"after 100 steps {vec(left, '.2g')} at f = {vec(gates, 'g')}")
    linear, bent, strong = radius**100, slope**100, sum(through_gates(0.0, U=8.0))
    claim("", "it is the squashing activations that make a plain RNN's gradients diminish",
          "repeated squashing by activations",
          "one of two causes: with W_h of radius 1 it is; a radius below 1 is enough",
          judge(linear > 0.1, if_false="under-specified" if bent < 1e-3 else "wrong"),
          f"after 100 steps {linear:.1e} at radius {radius} with tanh the identity, "
          f"{bent:.1e} at radius 1 with z = 1 in every step")
    claim("question", "LSTM cells deal with exploding gradients as well as with vanishing "
          "ones", "vanishing and exploding gradients",
          "on the memory's own road, which cannot explode, since f < 1; the road through h "
          "and U can", judge(strong < 1, if_false="under-specified"),
          f"one unit, U = 8, state near 0: a factor {strong:.0f} a step through h alone, "
          f"{strong**60:.1e} in 60 steps; holds for the road through C")
    claim("", "the memory resembles the skip connections of residual networks",
          "similar to skip connections",
          "C' = C + i C~ at f = 1 has the form of a residual block; below 1 it is one with a "
          "decay", "essay", "dC_t/dC_(t-1) at fixed h is f, the identity at f = 1")
