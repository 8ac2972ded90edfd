"""Document 002, Problem 1, worked: what the eigenvalues of two units make of a gradient."""

import math

import numpy as np

from exercises.worked import Check, Solution, Step, Table, num, terms, vec
from npdl.errors import InputError

W = ((0.85, 0.35), (0.35, 0.85))            # eigenvalues 1.2 on (1, 1) and 0.5 on (1, −1)
GRADIENT = (1.0, 0.0)


def eigenvalues_2(W):
    """(trace, determinant, the two eigenvalues) of a symmetric (2, 2) matrix, the larger first."""
    (a, b), (c, d) = W
    if b != c:
        raise InputError(f"W = {W} is not symmetric: its eigenvalues may be complex")
    trace, det = a + d, a * d - b * c
    root = math.sqrt(trace**2 / 4 - det)
    return trace, det, (trace / 2 + root, trace / 2 - root)


def gradient_back(W, g, steps, slope=1.0):
    """dL/dh `steps` steps back: slope W applied that often to g (2,), by plain products."""
    W, g = np.array(W), np.array(g, float)
    for _ in range(steps):
        g = slope * (W @ g)
    return g


def through_time():
    """Two linear units: what the eigenvalues make of a gradient."""
    trace, det, (large, small) = eigenvalues_2(W)
    along, across = (GRADIENT[0] + GRADIENT[1]) / 2, (GRADIENT[0] - GRADIENT[1]) / 2
    lags = (0, 1, 2, 10, 50)
    closed = [np.array([along * large**k + across * small**k,
                        along * large**k - across * small**k]) for k in lags]
    stepped = [gradient_back(W, GRADIENT, k) for k in lags]
    h = 0.9
    slope = 1 - h * h
    w = small
    return Solution(
        "1",
        (
            Step("One step back. The gradient at the older state is the gradient at the newer one "
                 "times the Jacobian of the step.",
                 "hₜ = tanh(z),  z = W hₜ₋₁ + xₜ\n∂L/∂hₜ₋₁ = Wᵀ diag(1 − hₜ²) ∂L/∂hₜ",
                 f"h near 0: 1 − h² = 1, so ∂L/∂hₜ₋₁ = Wᵀ ∂L/∂hₜ = {vec(stepped[1])}",
                 {"W": np.array(W), "∂L/∂h_T": np.array(GRADIENT)}),
            Step("k steps back the Jacobian has been applied k times. Its eigenvalues say what a "
                 "power does.",
                 "det(W − λ I) = λ² − tr(W) λ + det(W) = 0\nλ = tr/2 ± √(tr²/4 − det)",
                 f"λ² − {num(trace)} λ + {num(det)} = 0\nλ₁ = {num(large)} on (1, 1),  "
                 f"λ₂ = {num(small)} on (1, −1)"),
            Step("Split the gradient along the eigenvectors; each part keeps its direction and "
                 "is multiplied by its λ at every step.",
                 "g = a (1, 1) + b (1, −1)   →   g_k = a λ₁ᵏ (1, 1) + b λ₂ᵏ (1, −1)",
                 f"a = {num(along)}, b = {num(across)}",
                 table=Table(("steps back k", "a λ₁ᵏ", "b λ₂ᵏ", "g_k", "|g_k|"),
                             tuple((k, f"{along * large**k:.3g}", f"{across * small**k:.3g}",
                                    vec(g), num(float(np.linalg.norm(g))))
                                   for k, g in zip(lags, closed, strict=True)))),
            Step("tanh adds its slope to every step. Where a unit is near its ends the factor is "
                 "small, and even λ₁ is not enough.",
                 "factor of a step = λ (1 − h²)",
                 f"h = {h}: {num(large)} · (1 − {num(h * h, 2)}) = {num(large * slope)};  after 10 "
                 f"steps {(large * slope)**10:.1e}"),
            Step("What the weights see: one unit hₜ = w hₜ₋₁ + xₜ with all x = 1. dL/dw adds up "
                 "the uses of w; the use k steps back counts w^k times.",
                 "∂h_T/∂w = h_T₋₁ + w h_T₋₂ + w² h_T₋₃ + …",
                 f"w = {num(w, 1)}, h → 1/(1 − w) = {num(1 / (1 - w), 1)}: "
                 + terms([w**k / (1 - w) for k in range(5)], 2) + " + …: nothing of the far past"),
        ),
        f"Every step multiplies the gradient by a Jacobian: with |λ| (1 − h²) below 1 it vanishes "
        f"({across * small**50:.0e} at λ = {num(small)} after 50 steps) and far causes "
        f"are not learned; above 1 it explodes ({along * large**50:.0f} at λ = {num(large)}) and "
        "one update throws the weights away.",
        (Check("W applied step by step gives the same g_k as the eigenvalues",
               all(np.allclose(a, b) for a, b in zip(closed, stepped, strict=True))),
         Check("both eigenvectors: W (1, 1) = λ₁ (1, 1) and W (1, −1) = λ₂ (1, −1)",
               np.allclose(np.array(W) @ [1, 1], large) and
               np.allclose(np.array(W) @ [1, -1], [small, -small]))),
        "Two units, W symmetric, a gradient that begins in the first unit alone.",
        picture="the gradient's length against the steps back, for five spectral radii")


def solutions():
    return [through_time()]
