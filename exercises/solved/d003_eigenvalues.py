"""Document 003, Question 5, worked: two eigenvalues, and what becomes of h_t."""

import math

import numpy as np

from exercises.d003_eigenvalues import (
    gradient_through,
    jordan,
    jordan_power,
    spectral_radius,
    state_norms,
)
from exercises.worked import Check, Solution, Step, Table, num, vec

W_T = ((0.5, 0.35), (0.0, 1.2))             # Wᵀ; its eigenvectors are (1, 0) and (1, 2)
H_0 = (1.0, 1.0)
SKEW = np.array([[0.5, 4.0], [0.0, 0.6]])   # Wᵀ of the case that grows first


def triangular_pairs(M):
    """[(eigenvalue, eigenvector with first entry 1)] of an upper triangular (2, 2) matrix."""
    (a, b), (_, d) = M
    return [(a, (1.0, 0.0)), (d, (1.0, (d - a) / b))]


def shares(pairs, h):
    """c_1, c_2 with h = c_1 v_1 + c_2 v_2, for v_1 = (1, 0)."""
    (_, _), (_, v) = pairs
    second = h[1] / v[1]
    return h[0] - second * v[0], second


def closed_form(pairs, c, t):
    return sum(share * value**t * np.array(v) for share, (value, v) in zip(c, pairs, strict=True))


def short(value):
    return f"{value:.3g}".replace("-", "−")


def left_out(v_1):
    """What the eigenvalues alone do not say; v_1 is the eigenvector of the smaller one."""
    block, t = jordan_power(1, 2, 10), 10
    spared = state_norms(np.array(W_T).T, np.array(v_1), 50)
    early = state_norms(SKEW.T, (0.0, 1.0), 50)
    return Step("Three cases the rule leaves out. A start without a share along v₂ does not "
                "explode. A Jordan block at |λ| = 1 grows like t, since eigenvectors are "
                "missing. Before the end hₜ may grow though ρ < 1, where the eigenvectors are far "
                "from orthogonal.",
                "[1 1; 0 1]ᵗ = [1 t; 0 1]",
                f"h₀ = v₁: |h₅₀| = {short(float(spared[-1]))};   Jordan block at t = {t}: last "
                f"column ({num(block[1])}, {num(block[0])})\n"
                f"Wᵀ = [{' '.join(map(short, SKEW[0]))}; {' '.join(map(short, SKEW[1]))}], ρ = "
                f"{num(spectral_radius(SKEW), 1)}, from (0, 1): |h₁| = {short(early[1])}, "
                f"|h₅₀| = {short(early[-1])}")


def powers():
    """Question 5."""
    pairs = triangular_pairs(W_T)
    (small, v_1), (large, v_2) = pairs
    c = shares(pairs, H_0)
    times = (0, 1, 2, 3, 10, 50)
    states, h = {}, np.array(H_0)
    for t in range(max(times) + 1):
        states[t], h = h, np.array(W_T) @ h
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    turned = state_norms(turn.T, np.array(H_0), 50)
    back = [gradient_through(np.array(W_T).T, (1.0, 0.0), t) for t in range(3)]
    return Solution(
        "5",
        (
            Step("Put the recurrence into itself.", "hₜ = Wᵀ hₜ₋₁ = Wᵀ Wᵀ hₜ₋₂ = … = (Wᵀ)ᵗ h₀",
                 f"h₁ = Wᵀ h₀ = {vec(states[1], 2)},   h₂ = Wᵀ h₁ = {vec(states[2])}",
                 {"Wᵀ": np.array(W_T), "h₀": np.array(H_0)}, digits=2),
            Step("Eigenvalues: W and Wᵀ have the same. A triangular matrix shows them on its "
                 "diagonal.", "det(Wᵀ − λ I) = (λ₁ − λ)(λ₂ − λ) = 0,   Wᵀ vₖ = λₖ vₖ",
                 f"λ₁ = {num(small, 1)} with v₁ = {vec(v_1, 0)},   λ₂ = {num(large, 1)} with v₂ = "
                 f"{vec(v_2, 0)};   ρ = {num(max(small, large), 1)}"),
            Step("Split h₀ along the eigenvectors; a step multiplies each share by its λ and "
                 "does nothing else.", "h₀ = c₁ v₁ + c₂ v₂   →   hₜ = c₁ λ₁ᵗ v₁ + c₂ λ₂ᵗ v₂",
                 f"entry 2: {num(v_2[1], 0)} c₂ = {num(H_0[1], 0)}, so c₂ = {num(c[1], 1)};   "
                 f"entry 1: c₁ + c₂ = {num(H_0[0], 0)}, so c₁ = {num(c[0], 1)}\n"
                 f"{vec(H_0, 0)} = {num(c[0], 1)} · {vec(v_1, 0)} + {num(c[1], 1)} · "
                 f"{vec(v_2, 0)}",
                 table=Table(("t", "c₁ λ₁ᵗ", "c₂ λ₂ᵗ", "hₜ", "|hₜ|"), tuple(
                     (n, short(c[0] * small**n), short(c[1] * large**n), vec(states[n]),
                      short(float(np.linalg.norm(states[n])))) for n in times))),
            Step("Read it: the share at |λ| < 1 vanishes, the one at |λ| > 1 explodes, and in the "
                 "end hₜ points along the eigenvector of the largest |λ|. Complex λ turn as well; "
                 "only the modulus |λ| makes longer or shorter.",
                 "|λᵗ| = |λ|ᵗ", f"a turn by 90°, λ = ±i: |h₀| = {num(float(turned[0]))}, |h₅₀| = "
                 f"{num(float(turned[-1]))}"),
            left_out(v_1),
            Step("The gradient goes the same way back, with W for Wᵀ: the same λ.",
                 "∂L/∂h₀ = Wᵗ ∂L/∂hₜ", f"∂L/∂h₂ = {vec(back[0], 0)}:  ∂L/∂h₁ = W "
                 f"{vec(back[0], 0)} = {vec(back[1], 2)},   ∂L/∂h₀ = W ∂L/∂h₁ = {vec(back[2])}"),
        ),
        f"hₜ = (Wᵀ)ᵗ h₀ = Σ cₖ λₖᵗ vₖ: with ρ < 1 all vanishes, with ρ > 1 almost every start "
        f"explodes; here |h₅₀| = {short(float(np.linalg.norm(states[50])))} at ρ = "
        f"{num(spectral_radius(np.array(W_T)), 1)}.",
        (Check("the closed form equals the states that were stepped",
               all(np.allclose(closed_form(pairs, c, n), states[n]) for n in times)),
         Check("both eigenvectors satisfy Wᵀ v = λ v, and ρ is the one a library finds",
               all(np.allclose(np.array(W_T) @ v, value * np.array(v)) for value, v in pairs)
               and math.isclose(spectral_radius(np.array(W_T)), large)),
         Check("the Jordan block to the power 10, by products",
               np.linalg.matrix_power(jordan(1.0, 2), 10)[0, 1] == jordan_power(1, 2, 10)[1])),
        f"n = 2, h₀ = {vec(H_0, 0)}.",
        picture="the length of hₜ for normal, orthogonal and defective matrices")


def solutions():
    return [powers()]
