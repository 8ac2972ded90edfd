"""Document 003, Question 5: hₜ = Wᵀ hₜ₋₁, its eigenvalues, and vanishing or exploding.

The textbook answer (|λ| < 1 vanishes, > 1 explodes) needs three additions: a defective W at
|λ| = 1 grows, a non-normal W grows before it vanishes, and a first state without a component along
the eigenvector of the large eigenvalue does not explode.
"""

import math

import numpy as np

from exercises.course import format_arrays, format_table, judge, question, vec
from exercises.d002.gradients_through_time import npdl_gradients_back

W_T = np.array([[0.5, 0.35], [0.0, 1.2]])   # Wᵀ; its eigenvectors are (1, 0) and (1, 2)
H_0 = np.array([1.0, 1.0])
TURN = np.array([[0.0, -1.0], [1.0, 0.0]])
SKEW = np.array([[0.5, 4.0], [0.0, 0.6]])   # Wᵀ of the case that grows first
norm, power = np.linalg.norm, np.linalg.matrix_power


def spectral_radius(W):
    """Return the spectral radius, the largest absolute eigenvalue."""
    return float(np.abs(np.linalg.eigvals(W)).max())


def list_states(W_T, h_0, steps):
    """Return the states h₀, .., h_steps (steps + 1, n) of hₜ = Wᵀ hₜ₋₁."""
    found = [np.asarray(h_0)]
    for _ in range(steps):
        found.append(W_T @ found[-1])
    return np.array(found)


def jordan_block(eigenvalue, size):
    """Return a Jordan block: a matrix with one eigenvalue and a single eigenvector."""
    return eigenvalue * np.eye(size) + np.eye(size, k=1)


def root_of_power_norm(W, t):
    """Return ‖Wᵗ‖^(1/t)."""
    return float(norm(power(W, t), 2) ** (1 / t))


@question("003.5", "Eigenvalues, and gradients that vanish or explode")
def solve_eigenvalue_effects(say, step, answer, check, claim):
    """Write hₜ = Wᵀ hₜ₋₁ by h₀, and explain what the eigenvalues of W do to it as t grows."""
    (small, large), times = np.diag(W_T), (0, 1, 2, 3, 10, 50)
    v_1, v_2 = np.array([1.0, 0.0]), np.array([1.0, (large - small) / W_T[0, 1]])
    c_2 = H_0[1] / v_2[1]
    c_1 = H_0[0] - c_2 * v_2[0]
    h = list_states(W_T, H_0, 50)
    late, last = norm(power(W_T, 50), 2), norm(h[50])
    turned = list_states(TURN, H_0, 50)
    back = npdl_gradients_back(W_T, (1.0, 0.0), 2)
    say(f"n = 2, h₀ = {vec(H_0, 0)}.")
    step("Put the recurrence into itself.", "hₜ = Wᵀ hₜ₋₁ = Wᵀ Wᵀ hₜ₋₂ = … = (Wᵀ)ᵗ h₀",
         f"h₁ = Wᵀ h₀ = {vec(h[1], 2)},   h₂ = Wᵀ h₁ = {vec(h[2])}",
         format_arrays({"Wᵀ": W_T, "h₀": H_0}, 2))
    step("Eigenvalues: W and Wᵀ have the same. A triangular matrix shows them on its "
         "diagonal.", "det(Wᵀ − λ I) = (λ₁ − λ)(λ₂ − λ) = 0,   Wᵀ vₖ = λₖ vₖ",
         f"λ₁ = {small} with v₁ = {vec(v_1, 0)},   λ₂ = {large} with v₂ = {vec(v_2, 0)};   "
         f"ρ = {spectral_radius(W_T):.1f}")
    step("Split h₀ along the eigenvectors; a step multiplies each share by its λ and does "
         "nothing else.", "h₀ = c₁ v₁ + c₂ v₂   →   hₜ = c₁ λ₁ᵗ v₁ + c₂ λ₂ᵗ v₂",
         f"entry 2: {v_2[1]:.0f} c₂ = {H_0[1]:.0f}, so c₂ = {c_2:.1f};   entry 1: c₁ + c₂ = "
         f"{H_0[0]:.0f}, so c₁ = {c_1:.1f}",
         f"{vec(H_0, 0)} = {c_1:.1f} · {vec(v_1, 0)} + {c_2:.1f} · {vec(v_2, 0)}",
         format_table(("t", "c₁ λ₁ᵗ", "c₂ λ₂ᵗ", "hₜ", "|hₜ|", "‖Wᵗ‖"), [
             (t, f"{c_1 * small**t:.3g}", f"{c_2 * large**t:.3g}", vec(h[t]),
              f"{norm(h[t]):.3g}", f"{norm(power(W_T, t), 2):.3g}") for t in times]))
    step("|hₜ| is what becomes of one start. The norm of the power is the most that any "
         "start of length 1 can become, and it bounds every gradient on its way back.",
         "|hₜ| ≤ ‖Wᵗ‖ |h₀|,   ‖Wᵗ‖^(1/t) → ρ",
         f"t = 50: {last:.3g} ≤ {late:.3g} · {norm(H_0):.3f};   {late:.3g}^(1/50) = "
         f"{root_of_power_norm(W_T, 50):.3f}")
    step("Read it: the share at |λ| < 1 vanishes, the one at |λ| > 1 explodes, and in the "
         "end hₜ points along the eigenvector of the largest |λ|. Complex λ turn as well; "
         "only the modulus |λ| makes longer or shorter.", "|λᵗ| = |λ|ᵗ",
         f"a turn by 90°, λ = ±i: |h₀| = {norm(H_0):.3f}, |h₅₀| = {norm(turned[-1]):.3f}")
    skew = norm(list_states(SKEW, (0.0, 1.0), 50), axis=1)
    block = power(jordan_block(1, 2), 10)[:, 1]
    step("Three cases the rule leaves out. A start without a share along v₂ does not "
         "explode. A Jordan block at |λ| = 1 grows like t, since eigenvectors are "
         "missing. Before the end hₜ may grow though ρ < 1, where the eigenvectors are far "
         "from orthogonal.", "[1 1; 0 1]ᵗ = [1 t; 0 1]",
         f"h₀ = v₁: |h₅₀| = {norm(list_states(W_T, v_1, 50)[-1]):.3g};   Jordan block at t = "
         f"10: last column {vec(block, 0)}",
         f"Wᵀ = [0.5 4; 0 0.6], ρ = {spectral_radius(SKEW):.1f}, from (0, 1): |h₁| = "
         f"{skew[1]:.3g}, |h₅₀| = {skew[50]:.3g}",
         f"‖W‖ = {norm(SKEW, 2):.3g}, ‖W⁵⁰‖ = {norm(power(SKEW, 50), 2):.3g}")
    step("The gradient goes the same way back, with W for Wᵀ: the same λ.", "∂L/∂h₀ = Wᵗ ∂L/∂hₜ",
         f"∂L/∂h₂ = {vec(back[0], 0)}:  ∂L/∂h₁ = W {vec(back[0], 0)} = {vec(back[1], 2)},   "
         f"∂L/∂h₀ = W ∂L/∂h₁ = {vec(back[2])}")
    answer("hₜ = (Wᵀ)ᵗ h₀ = Σ cₖ λₖᵗ vₖ: with ρ < 1 all vanishes, with ρ > 1 almost every "
           f"start explodes; here |h₅₀| = {last:.3g} at ρ = {spectral_radius(W_T):.1f}.")
    check("the closed form equals the states that were stepped", all(np.allclose(
        c_1 * small**t * v_1 + c_2 * large**t * v_2, h[t]) for t in times))
    closed = power(W_T, 12) @ H_0
    down = norm(list_states(jordan_block(0.9, 3).T, np.ones(3), 300), axis=1)
    up = norm(list_states(np.array([[0.9, 0.0], [10.0, 0.8]]), (1.0, 0.0), 300), axis=1)
    spared, hit = (norm(list_states(np.diag([1.2, 0.5]), h, 100)[-1])
                   for h in ((0, 1.0), (1e-6, 1.0)))
    turning = norm(list_states(TURN, H_0, 1000), axis=1)
    growing = power(jordan_block(1, 3), 1000)[::-1, 2].astype(int)
    roots = [root_of_power_norm(jordan_block(0.9, 3), t) for t in (10, 100, 1000)]
    claim("", "h_t in terms of h_0", "none printed", "h_t = (W^T)^t h_0 = (W^t)^T h_0",
          judge(np.allclose(closed, list_states(W_T, H_0, 12)[-1], 1e-12)
                and math.isclose(spectral_radius(W_T), spectral_radius(W_T.T)), "no answer given"),
          "12 steps of the example; W and W^T have the same eigenvalues")
    claim("", "the gradient through t steps", "none printed",
          "dL/dh_0 = W^t dL/dh_t: the same eigenvalues decide",
          judge(np.allclose(npdl_gradients_back(W_T, H_0, 10)[-1], power(W_T.T, 10) @ H_0, 1e-9),
                "no answer given"), "npdl's RNN at h = 0, 10 steps back")
    claim("rho < 1", "with rho < 1 everything vanishes", "none printed",
          "for every h_0, W defective or not; but at first it may grow",
          judge(max(down[-1], up[-1]) < 1e-6 < 1 < up.max(), "no answer given"),
          f"defective, rho = 0.9: length {down[0]:.1f}, at most {down.max():.1f}, after 300 steps "
          f"{down[-1]:.0e}; non-normal [[0.9, 10], [0, 0.8]]: from 1 up to {up.max():.0f}, then "
          f"{up[-1]:.0e}")
    claim("rho > 1", "with rho > 1 it explodes", "none printed",
          "for almost every h_0: those without a component along the large eigenvalue don't",
          judge(spared < 1e-6 and hit > 1, "no answer given"),
          f"W = diag(1.2, 0.5), 100 steps: from (0, 1) {spared:.0e}, from (0.000001, 1) {hit:.0f}")
    claim("rho = 1", "with rho = 1 it neither vanishes nor explodes", "none printed",
          "if the eigenvalues of modulus 1 have full sets of eigenvectors; a Jordan block of size "
          "k grows as t^(k - 1)",
          judge(abs(turning[-1] / turning[0] - 1) < 1e-9, "no answer given"),
          "a turn by 90 degrees: length after 1000 steps changed by less than 1e-9; Jordan block "
          f"of size 3 at 1: exactly {', '.join(map(str, growing))}")
    claim("diagonalising", "h_t = sum_k c_k lambda_k^t v_k explains it", "none printed",
          "only for a diagonalisable W; in general each lambda^t comes with a polynomial in t, and "
          "the norms obey |W^t|^(1/t) -> rho",
          judge(np.linalg.matrix_rank(jordan_block(0.0, 3)) == 2, "no answer given"),
          f"the block of size 3 at 0.9 has 1 eigenvector, not 3; |W^t|^(1/t) = {vec(roots)} at t = "
          "10, 100, 1000")
    early, late, gains = root_of_power_norm(W_T, 10), root_of_power_norm(W_T, 1000), (0.7, 1.0, 1.3)
    drawn = np.random.default_rng(2).standard_normal((200, 32, 32)) / np.sqrt(32)
    percents = [100 * np.mean([spectral_radius(gain * each) < 1 for each in drawn])
                for gain in gains]
    claim("(15)", "the spectral radius max |lambda| is what decides in the long run",
          "rho = max |lambda_k|", f"it is the limit of |W^t|^(1/t): {spectral_radius(W_T):.3f}",
          judge(abs(late - spectral_radius(W_T)) < 1e-3),
          f"W of the example: {early:.3f} at t = 10, {late:.3f} at t = 1000")
    claim("premise", "gradients over many steps either vanish or explode",
          "tend to either vanish or explode", "not at rho = 1: an orthogonal W keeps every length",
          judge(abs(turning[-1] / turning[0] - 1) > 1e-3, if_false="under-specified"),
          f"1000 steps: length {turning[0]:.4f} becomes {turning[-1]:.4f}")
    claim("premise", "they vanish frequently and explode rarely", "frequently, rarely",
          "it depends on how W is drawn, here without an activation; a bounded one such as tanh "
          "makes vanishing likelier", judge(min(percents) > 50, if_false="under-specified"),
          f"32 x 32 normal entries of variance g^2/32: rho < 1 in {vec(percents, 0)} % of 200 "
          f"(seed 2) at g = {vec(gains, 1)}")
