"""Document 002, Problem 4 (b), worked: the road that multiplies by f alone."""

import math
from fractions import Fraction

from exercises.solved.d002_gradients_through_time import eigenvalues_2
from exercises.worked import Check, Solution, Step, Table, num

SHARE, STEPS = 0.5, 100                     # what f is to leave, and after how many steps


def kept(f, steps):
    """What `steps` multiplications by f leave of 1."""
    memory = 1.0
    for _ in range(steps):
        memory *= f
    return memory


def bounds(share, steps):
    """(the least f that keeps the share, its distance from 1 to first order)."""
    return share ** (1 / steps), math.log(1 / share) / steps


def plain_factor(W, z, steps):
    """(radius of W, slope of tanh at z, their product, its power) of a plain RNN."""
    radius, slope = eigenvalues_2(W)[2][0], 1 - math.tanh(z) ** 2
    return radius, slope, radius * slope, (radius * slope) ** steps


def road():
    """Part (b)."""
    gates, lengths = (0.5, 0.9, 0.99, 0.999), (1, 10, 100)
    rows = tuple((num(f), *(f"{f**T:.3g}" for T in lengths)) for f in gates)
    radius, slope, factor, ten = plain_factor(((0.5, 0.3), (0.3, 0.5)), 1.0, 10)
    least, gap = bounds(SHARE, STEPS)
    return Solution(
        "4b",
        (
            Step("Find the factor that is multiplied at every step along the memory.",
                 "Cₜ = f Cₜ₋₁ + i C̃ₜ   →   ∂Cₜ/∂Cₜ₋₁ = f   (hₜ₋₁ held fixed)"),
            Step("No W and no tanh' is in it. Over T steps only the forget gates are multiplied.",
                 "∂C_T/∂C₀ = f₁ f₂ … f_T",
                 table=Table(("f", *(f"T = {T}" for T in lengths)), rows)),
            Step("Compare the plain RNN, where W and the slope of tanh stand in every factor.",
                 "∂hₜ/∂hₜ₋₁ = W (1 − hₜ²)",
                 f"W of radius {num(radius, 1)}, slope at z = 1 {num(slope)}: "
                 f"{num(factor)} a step, {ten:.1e} after 10"),
            Step("How near 1 must f be? Keep a share s over T steps.",
                 "f^T ≥ s   ⟺   f ≥ s^(1/T) ≈ 1 − ln(1/s)/T",
                 f"s = {num(Fraction(SHARE))}, T = {STEPS}: f ≥ {num(least, 4)} ≈ 1 − "
                 f"{num(gap, 4)}"),
        ),
        f"∂Cₜ/∂Cₜ₋₁ = f: the sum in C lets the gradient pass with factor f, near 1 if the net has "
        f"learned it; at f = {gates[0]} it vanishes too ({kept(gates[0], STEPS):.0e} after "
        f"{STEPS}).",
        (Check(f"{STEPS} multiplications by {gates[2]} give the table's entry",
               abs(kept(gates[2], STEPS) - gates[2] ** STEPS) < 1e-12),
         Check("the bound for f keeps just that share", abs(kept(least, STEPS) - SHARE) < 1e-12)))


def solutions():
    return [road()]
