"""Document 002, Problem 4 (b): what keeps an LSTM's gradient alive, and how far that goes."""

import math
from fractions import Fraction

import numpy as np

from exercises.course import judge, question, table, vec
from exercises.d002.lstm_gradient import run
from exercises.d002.lstm_statements import npdl_unit, through_gates


@question("002.4b", "What keeps an LSTM's gradient alive")
def road(work):
    """Say which part of dJ/dW_g lets an LSTM mitigate the vanishing gradient."""
    gates, lengths, T = (0.5, 0.9, 0.99, 0.999), (1, 10, 100), 100
    radius, slope = 0.8, 1 - math.tanh(1.0) ** 2
    share = Fraction(1, 2)
    least, gap = float(share) ** (1 / T), math.log(1 / share) / T
    work.step("Find the factor that is multiplied at every step along the memory.",
              "Cₜ = f Cₜ₋₁ + i C̃ₜ   →   ∂Cₜ/∂Cₜ₋₁ = f   (hₜ₋₁ held fixed)")
    work.step("No W and no tanh' is in it. Over T steps only the forget gates are multiplied.",
              "∂C_T/∂C₀ = f₁ f₂ … f_T",
              table(("f", *(f"T = {n}" for n in lengths)),
                    [(f"{f:.3f}", *(f"{f**n:.3g}" for n in lengths)) for f in gates]))
    work.step("Compare the plain RNN, where W and the slope of tanh are in every factor.",
              "∂hₜ/∂hₜ₋₁ = W (1 − hₜ²)",
              f"W of radius {radius}, slope at z = 1 {slope:.3f}: {radius * slope:.3f} a step, "
              f"{(radius * slope)**10:.1e} after 10")
    work.step("How near 1 must f be? Keep a share s over T steps.",
              "f^T ≥ s   ⟺   f ≥ s^(1/T) ≈ 1 − ln(1/s)/T",
              f"s = {share}, T = {T}: f ≥ {least:.4f} ≈ 1 − {gap:.4f}")
    work.answer("∂Cₜ/∂Cₜ₋₁ = f: the sum in C lets the gradient pass with factor f, near 1 if the "
                f"net has learned it; at f = 0.5 it vanishes too ({0.5**T:.0e} after {T}).")
    work.check("the bound for f keeps just that share", abs(np.prod([least] * T) - share) < 1e-12)
    one, two = run((1.0, 0.5))                                      # of 4a
    f, through_h = two["gate"], two["dC_dh"] * one["dh_dC"]
    cell, zero, unit = npdl_unit(), np.zeros((1, 1)), np.ones((1, 1))
    _, cache = cell.forward(np.full((1, 1), 0.5), (one["h"] * unit, one["C"] * unit))
    _, (_, dC) = cell.backward((zero, unit), cache)
    by_npdl, left = dC.item(), [f ** T for f in gates]
    work.claim("", "the term that mitigates vanishing gradients is dC_t/dC_(t-1) = f",
               "dC_t/dC_(t-1) = f_t", "f, with h_(t-1) held fixed; of several units a diagonal "
               "matrix", judge(math.isclose(f, by_npdl)),
               f"the unit of 4a, t = 2: f = {f:.3f}, npdl's backward gives {by_npdl:.3f}")
    work.claim("", "dC_t/dC_(t-1) is f as a total derivative too", "not said which",
               "no: C_(t-1) also makes h_(t-1), which feeds the gates of step t",
               judge(abs(through_h) < 1e-3, if_false="under-specified"),
               f"the unit of 4a, t = 2: {through_h:.3f} more by way of h, "
               f"{100 * through_h / f:.0f} % of f")
    work.claim("", "with f near 1 gradients flow unhindered through time", "unhindered",
               "what is left is the product of the f: near 1 has to mean 1 - f well below 1/T",
               judge(left[2] > 0.9, if_false="under-specified"),
               f"after 100 steps {vec(left, '.2g')} at f = {vec(gates, 'g')}")
    linear, bent, strong = radius**100, slope**100, sum(through_gates(0.0, U=8.0))
    work.claim("", "it is the squashing activations that make a plain RNN's gradients diminish",
               "repeated squashing by activations",
               "one of two causes: with W_h of radius 1 it is; a radius below 1 is enough with no "
               "squashing at all; and f, a sigmoid, is squashed too",
               judge(linear > 0.1, if_false="under-specified" if bent < 1e-3 else "wrong"),
               f"after 100 steps {linear:.1e} at radius {radius} with tanh the identity, "
               f"{bent:.1e} at radius 1 with z = 1 in every step")
    work.claim("question", "LSTM cells deal with exploding gradients as well as with vanishing "
               "ones", "vanishing and exploding gradients",
               "on the memory's own road, which cannot explode, since f < 1; the road through h "
               "and U can", judge(strong < 1, if_false="under-specified"),
               f"one unit, U = 8, state near 0: a factor {strong:.0f} a step through h alone, "
               f"{strong**60:.1e} in 60 steps; holds for the part of the gradient that runs "
               "through C alone")
    work.claim("", "the memory resembles the skip connections of residual networks",
               "similar to skip connections",
               "C' = C + i C~ at f = 1 has the form of a residual block; below 1 it is one with a "
               "decay", "essay", "dC_t/dC_(t-1) at fixed h is f, the identity at f = 1")
