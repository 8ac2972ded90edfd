"""Document 002, Problem 4 (b): what keeps an LSTM's gradient alive, and how far that goes."""

import math
from fractions import Fraction

import numpy as np

from exercises.course import judge, question, table, vec
from exercises.d002.gradients_through_time import radius_norms
from exercises.d002.lstm_statements import error_lengths, lstm_cell


def memory_jacobians(cell):
    """Return dC_t/dC_(t-1) (H, H) at fixed h_(t-1), the forget gate, and the total derivative.

    In the total one C_(t-1) changes before h_(t-1) = o tanh(C_(t-1)) is made of it, so that it
    also goes through all gates of step t. Both are by npdl's backward.
    """
    rng = np.random.default_rng(1)
    H, shape = cell.d_hidden, (2, 1, cell.W_x.shape[0])
    x = rng.standard_normal(shape)
    state, first = cell.forward(x[0], tuple(0.5 * rng.standard_normal((2, 1, H))))
    _, second = cell.forward(x[1], state)
    direct, total = [], []
    for row in np.eye(H):
        _, (dh, dc) = cell.backward((np.zeros((1, H)), row[None]), second)
        direct.append(dc[0])
        total.append((dc + dh * first.o * (1 - first.tanh_c**2))[0])
    return np.array(direct), np.diag(second.f[0]), np.array(total)


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
    kept = [np.prod([f] * T) for f in (gates[2], least)]
    work.check(f"{T} multiplications by {gates[2]} give the table's entry",
               abs(kept[0] - gates[2] ** T) < 1e-12)
    work.check("the bound for f keeps just that share", abs(kept[1] - share) < 1e-12)
    memory_claims(work, gates)
    comparisons(work)


def memory_claims(work, gates):
    """Add the claims on dC_t/dC_(t-1) = f."""
    direct, f, total = memory_jacobians(lstm_cell(recurrent=2.0))
    beyond = np.linalg.norm(total - f) / np.linalg.norm(f)
    left = [f**100 for f in gates]
    work.claim("", "the term that mitigates vanishing gradients is dC_t/dC_(t-1) = f",
               "dC_t/dC_(t-1) = f_t", "f on the diagonal of a matrix, with h_(t-1) held fixed",
               judge(np.allclose(direct, f, 0, 1e-12)),
               "npdl's backward against diag(f): error below 1e-12")
    work.claim("", "dC_t/dC_(t-1) is f as a total derivative too", "not said which",
               "no: C_(t-1) also makes h_(t-1), which feeds the gates of step t",
               judge(beyond < 1e-3, if_false="under-specified"),
               "an example (seeds 0 and 1): random cell, U of spectral radius near 2: the rest is "
               f"{100 * beyond:.0f} % of f (Frobenius)")
    work.claim("", "with f near 1 gradients flow unhindered through time", "unhindered",
               "what is left is the product of the f: near 1 has to mean 1 - f well below 1/T",
               judge(left[2] > 0.9, if_false="under-specified"),
               f"after 100 steps {vec(left, '.2g')} at f = {vec(gates, 'g')}")


def comparisons(work):
    """Add the claims on standard networks, on explosion and on skip connections."""
    flat, linear, bent = (radius_norms(*way)[-1] for way in ((1.0,), (0.8,), (1.0, 1.0)))
    burst = error_lengths(lstm_cell(recurrent=8.0), 60, size=1e-40)[-1]
    opened, f, _ = memory_jacobians(lstm_cell(forget=1))
    work.check("at f = 1 the memory's Jacobian is the identity",
               np.allclose(opened, np.eye(len(f))))
    work.claim(
        "", "it is the squashing activations that make a plain RNN's gradients diminish",
        "repeated squashing by activations",
        "one of two causes: with W_h of radius 1 it is; a radius below 1 is enough with no "
        "squashing at all; and f, a sigmoid, is squashed too",
        judge(linear > 0.1 * flat, if_false="under-specified" if bent < 1e-3 * flat else "wrong"),
        f"an example (seeds 0, 1, 2): length after 100 steps: tanh the identity, {linear:.1e} at "
        f"radius 0.8, {flat:.2f} at radius 1; tanh bent by inputs, {bent:.1e} at radius 1")
    work.claim(
        "question", "LSTM cells deal with exploding gradients as well as with vanishing ones",
        "vanishing and exploding gradients",
        "on the memory's own road, which cannot explode, since f < 1; the road through h and U can",
        judge(burst < 1e3, if_false="under-specified"),
        f"an example (seeds 0 and 1): f = 1/2, U large, states near 0: the gradient's length goes "
        f"from 1 to {burst:.1e} in 60 steps; holds for the part of the gradient that runs through "
        "C alone")
    work.claim("", "the memory resembles the skip connections of residual networks",
               "similar to skip connections",
               "C' = C + i C~ at f = 1 has the form of a residual block; below 1 it is one with a "
               "decay", "essay", "f = 1: dC_t/dC_(t-1) at fixed h is the identity")
