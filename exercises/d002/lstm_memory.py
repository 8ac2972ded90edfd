"""Document 002, Problem 4 (b): what keeps an LSTM's gradient alive, and how far that goes."""

import math
from fractions import Fraction
from functools import partial

import numpy as np

from exercises.d002.gradients_through_time import (
    eigenvalues_2,
    gradient_norms,
    recurrent_matrix,
    rnn_cell,
)
from exercises.d002.lstm_statements import error_lengths, lstm_cell
from exercises.framework import Claim, judge, judgement, proved
from exercises.worked import Solution, Table, below, listing, num

QUESTION = """\
Problem 4 (b). Which part of dJ/dW_g lets an LSTM mitigate the vanishing gradient? (And do the \
reasons given for it hold: a derivative near 1, an identity, a skip connection?)"""

TITLES = {"4b": "What keeps an LSTM's gradient alive"}

claim_of = partial(Claim, "002", "Problem 4")


def memory_jacobians(cell, seed=1):
    """dC_t/dC_(t-1) (H, H) at fixed h_(t-1), the forget gate f (H,), and the total derivative.

    In the total one C_(t-1) is changed before h_(t-1) = o tanh(C_(t-1)) is made of it, so that
    it also goes through all gates of step t. Both are by npdl's backward.
    """
    rng = np.random.default_rng(seed)
    H, shape = cell.d_hidden, (2, 1, cell.W_x.shape[0])
    x = rng.standard_normal(shape)
    start = tuple(0.5 * rng.standard_normal((2, 1, H)))
    (h, c), first = cell.forward(x[0], start)
    _, second = cell.forward(x[1], (h, c))
    partial_rows, total_rows = [], []
    o = first.o
    for row in np.eye(H):
        _, (dh, dc) = cell.backward((np.zeros((1, H)), row[None]), second)
        partial_rows.append(dc[0])
        total_rows.append((dc + dh * o * (1 - first.tanh_c**2))[0])
    f = second.f[0]
    return np.array(partial_rows), f, np.array(total_rows)


def carried(f, steps):
    """The factor f^steps that the memory's own road leaves of a gradient."""
    return f**steps


def key_term():
    """Claims on dC_t/dC_(t-1) = f."""
    direct, f, total = memory_jacobians(lstm_cell(recurrent=2.0))
    error = float(np.abs(direct - np.diag(f)).max())
    beyond = float(np.linalg.norm(total - np.diag(f)) / np.linalg.norm(np.diag(f)))
    percent = 100 * beyond
    yield claim_of(
        "b", "the term that mitigates vanishing gradients is dC_t/dC_(t-1) = f",
        "dC_t/dC_(t-1) = f_t",
        "f on the diagonal of a matrix, with h_(t-1) held fixed",
        proved(error < 1e-12), f"npdl's backward against diag(f): error {below(error)}")
    yield claim_of(
        "b", "dC_t/dC_(t-1) is f as a total derivative too", "not said which",
        "no: C_(t-1) also makes h_(t-1), which feeds the gates of step t",
        judge(beyond < 1e-3, "confirmed", "under-specified"),
        "an example (seeds 0 and 1): "
        f"random cell, U of spectral radius near 2: the rest is {percent:.0f} % of f "
        "(Frobenius)")
    gates = (0.5, 0.9, 0.99, 0.999)
    left = [carried(f, 100) for f in gates]
    yield claim_of(
        "b", "with f near 1 gradients flow unhindered through time", "unhindered",
        "what is left is the product of the f: near 1 has to mean 1 - f well below 1/T",
        judge(left[2] > 0.9, "confirmed", "under-specified"),
        f"after 100 steps {listing(left, '.2g')} at f = {listing(gates, 'g')}")


def comparisons():
    """Claims on standard networks, and on explosion."""
    flat, linear = (gradient_norms(rnn_cell(recurrent_matrix(radius)))[-1]
                    for radius in (1.0, 0.8))
    bent = gradient_norms(rnn_cell(recurrent_matrix(1.0)), input_size=1.0)[-1]
    halves = gradient_norms(rnn_cell(0.5 * np.eye(2)), 3)
    burst = error_lengths(lstm_cell(recurrent=8.0), 60, size=1e-40)
    yield claim_of(
        "b", "it is the squashing activations that make a plain RNN's gradients diminish",
        "repeated squashing by activations",
        "one of two causes: with W_h of radius 1 it is; a radius below 1 is enough with no "
        "squashing at all; and f, a sigmoid, is squashed too",
        judge(linear > 0.1 * flat, if_false="under-specified" if bent < 1e-3 * flat else "wrong",
              provided=np.allclose(halves, 0.5 ** np.arange(4))),
        "an example (seeds 0, 1, 2): "
        f"length after 100 steps: tanh the identity, {linear:.1e} at radius 0.8, {flat:.2f} at "
        f"radius 1; tanh bent by inputs, {bent:.1e} at radius 1")
    yield claim_of(
        "b, question", "LSTM cells deal with exploding gradients as well as with vanishing ones",
        "vanishing and exploding gradients",
        "on the memory's own road, which cannot explode, since f < 1; the road through h and U "
        "can",
        judge(burst[-1] < 1e3, if_false="under-specified"),
        "an example (seeds 0 and 1): "
        f"f = 1/2, U large, states near 0: the gradient's length goes from 1 to {burst[-1]:.1e} in "
        "60 steps; holds for the part of the gradient that runs through C alone")
    same = memory_jacobians(_open_cell())[0]
    off = float(np.abs(same - np.eye(len(same))).max())
    yield claim_of(
        "b", "the memory resembles the skip connections of residual networks",
        "similar to skip connections",
        "C' = C + i C~ at f = 1 has the form of a residual block; below 1 it is one with a decay",
        judgement("essay", provided=off < 1e-9),
        f"f = 1: dC_t/dC_(t-1) at fixed h differs from the identity by {below(off)}")


def _open_cell():
    cell = lstm_cell(forget=0.0)
    cell.b.data[cell.d_hidden:2 * cell.d_hidden] = 1000.0
    return cell


def claims():
    return [*key_term(), *comparisons()]


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
    shares = [[f**T for T in lengths] for f in gates]
    rows = tuple((num(f), *(f"{share:.3g}" for share in row))
                 for f, row in zip(gates, shares, strict=True))
    radius, slope, factor, ten = plain_factor(((0.5, 0.3), (0.3, 0.5)), 1.0, 10)
    least, gap = bounds(SHARE, STEPS)
    work = Solution("4b")
    work.step("Find the factor that is multiplied at every step along the memory.",
              "Cₜ = f Cₜ₋₁ + i C̃ₜ   →   ∂Cₜ/∂Cₜ₋₁ = f   (hₜ₋₁ held fixed)")
    work.step("No W and no tanh' is in it. Over T steps only the forget gates are multiplied.",
              "∂C_T/∂C₀ = f₁ f₂ … f_T", table=Table(("f", *(f"T = {T}" for T in lengths)), rows))
    work.step("Compare the plain RNN, where W and the slope of tanh stand in every factor.",
              "∂hₜ/∂hₜ₋₁ = W (1 − hₜ²)",
              f"W of radius {num(radius, 1)}, slope at z = 1 {num(slope)}: {num(factor)} a step, "
              f"{ten:.1e} after 10")
    work.step("How near 1 must f be? Keep a share s over T steps.",
              "f^T ≥ s   ⟺   f ≥ s^(1/T) ≈ 1 − ln(1/s)/T",
              f"s = {num(Fraction(SHARE))}, T = {STEPS}: f ≥ {num(least, 4)} ≈ 1 − {num(gap, 4)}")
    work.answer = ("∂Cₜ/∂Cₜ₋₁ = f: the sum in C lets the gradient pass with factor f, near 1 if "
                   f"the net has learned it; at f = {gates[0]} it vanishes too "
                   f"({kept(gates[0], STEPS):.0e} after {STEPS}).")
    work.check(f"{STEPS} multiplications by {gates[2]} give the table's entry",
               abs(kept(gates[2], STEPS) - gates[2] ** STEPS) < 1e-12)
    work.check("the bound for f keeps just that share", abs(kept(least, STEPS) - SHARE) < 1e-12)
    return work


def solutions():
    return [road()]
