"""Document 002, Problem 4 (b), worked: the road that multiplies by f alone."""

import math

from exercises.solved.d002_gradients_through_time import eigenvalues_2
from exercises.worked import Check, Solution, Step, Table, num


def road():
    """Part (b)."""
    gates, lengths = (0.5, 0.9, 0.99, 0.999), (1, 10, 100)
    rows = tuple((num(f), *(f"{f**T:.3g}" for T in lengths)) for f in gates)
    radius = eigenvalues_2(((0.5, 0.3), (0.3, 0.5)))[2][0]
    slope = 1 - math.tanh(1.0) ** 2
    memory, steps = 1.0, 100
    for _ in range(steps):
        memory *= gates[2]
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
                 f"{num(radius * slope)} a step, {(radius * slope)**10:.1e} after 10"),
            Step("How near 1 must f be? Keep a share s over T steps.",
                 "f^T ≥ s   ⟺   f ≥ s^(1/T) ≈ 1 − ln(1/s)/T",
                 f"s = 1/2, T = 100: f ≥ {num(0.5 ** 0.01, 4)} ≈ 1 − {num(math.log(2) / 100, 4)}"),
        ),
        f"∂Cₜ/∂Cₜ₋₁ = f: the sum in C lets the gradient pass with factor f, near 1 if the net has "
        f"learned it; at f = 0.5 it vanishes too ({0.5**100:.0e} after 100).",
        (Check("100 multiplications by 0.99 give the table's entry",
               abs(memory - gates[2] ** steps) < 1e-12),
         Check("the bound for f keeps just one half", abs((0.5 ** 0.01) ** 100 - 0.5) < 1e-12)))


def solutions():
    return [road()]
