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
ROTATION = np.array([[0.0, -1.0], [1.0, 0.0]])
SKEW = np.array([[0.5, 4.0], [0.0, 0.6]])   # Wᵀ of the case that grows first
norm, power = np.linalg.norm, np.linalg.matrix_power


def spectral_radius(W):
    """Return the spectral radius, the largest absolute eigenvalue."""
    return float(np.abs(np.linalg.eigvals(W)).max())


def list_states(W_T, h_0, steps):
    """Return the states h₀, .., h_steps (steps + 1, n) of hₜ = Wᵀ hₜ₋₁."""
    states = [np.asarray(h_0)]
    for _ in range(steps):
        states.append(W_T @ states[-1])
    return np.array(states)


def jordan_block(eigenvalue, size):
    """Return a Jordan block: a matrix with one eigenvalue and a single eigenvector."""
    return eigenvalue * np.eye(size) + np.eye(size, k=1)


def root_of_power_norm(W, t):
    """Return ‖Wᵗ‖^(1/t)."""
    return float(norm(power(W, t), 2) ** (1 / t))


@question("003.5", "Eigenvalues, and vanishing or exploding gradients")
def solve_eigenvalue_effects(say, step, answer, check, claim):
    """Write hₜ = Wᵀ hₜ₋₁ in terms of h₀, and explain the effect of W's eigenvalues as t grows."""
    (small, large), times = np.diag(W_T), (0, 1, 2, 3, 10, 50)
    v_1, v_2 = np.array([1.0, 0.0]), np.array([1.0, (large - small) / W_T[0, 1]])
    c_2 = H_0[1] / v_2[1]
    c_1 = H_0[0] - c_2 * v_2[0]
    h = list_states(W_T, H_0, 50)
    late, last = norm(power(W_T, 50), 2), norm(h[50])
    rotated = list_states(ROTATION, H_0, 50)
    back = npdl_gradients_back(W_T, (1.0, 0.0), 2)
    say(f"The example has n = 2 and h₀ = {vec(H_0, 0)}.")
    step("Apply the recurrence repeatedly.", "hₜ = Wᵀ hₜ₋₁ = Wᵀ Wᵀ hₜ₋₂ = … = (Wᵀ)ᵗ h₀",
         f"h₁ = Wᵀ h₀ = {vec(h[1], 2)},   h₂ = Wᵀ h₁ = {vec(h[2])}",
         format_arrays({"Wᵀ": W_T, "h₀": H_0}, 2))
    step("Find the eigenvalues. W and Wᵀ have the same eigenvalues. Those of a triangular matrix "
         "are on its diagonal.", "det(Wᵀ − λ I) = (λ₁ − λ)(λ₂ − λ) = 0,   Wᵀ vₖ = λₖ vₖ",
         f"λ₁ = {small} with v₁ = {vec(v_1, 0)},   λ₂ = {large} with v₂ = {vec(v_2, 0)};   ρ = "
         f"{spectral_radius(W_T):.1f}")
    step("Split h₀ along the eigenvectors. A step only multiplies each component by its λ.",
         "h₀ = c₁ v₁ + c₂ v₂   →   hₜ = c₁ λ₁ᵗ v₁ + c₂ λ₂ᵗ v₂", f"entry 2: {v_2[1]:.0f} c₂ = "
         f"{H_0[1]:.0f}, so c₂ = {c_2:.1f};   entry 1: c₁ + c₂ = {H_0[0]:.0f}, so c₁ = {c_1:.1f}",
         f"{vec(H_0, 0)} = {c_1:.1f} · {vec(v_1, 0)} + {c_2:.1f} · {vec(v_2, 0)}",
         format_table(("t", "c₁ λ₁ᵗ", "c₂ λ₂ᵗ", "hₜ", "|hₜ|", "‖Wᵗ‖"), [
             (t, f"{c_1 * small**t:.3g}", f"{c_2 * large**t:.3g}", vec(h[t]),
              f"{norm(h[t]):.3g}", f"{norm(power(W_T, t), 2):.3g}") for t in times]))
    step("|hₜ| belongs to one initial state. The norm of the power is the largest |hₜ| of all "
         "initial states of length 1, and it bounds every gradient.",
         "|hₜ| ≤ ‖Wᵗ‖ |h₀|,   ‖Wᵗ‖^(1/t) → ρ", f"t = 50: {last:.3g} ≤ {late:.3g} · "
         f"{norm(H_0):.3f};   {late:.3g}^(1/50) = {root_of_power_norm(W_T, 50):.3f}")
    step("Read the table. The component with |λ| < 1 vanishes, and the component with |λ| > 1 "
         "explodes. After many steps, hₜ points along the eigenvector of the largest |λ|. A "
         "complex λ also rotates the state, but only the modulus |λ| changes its length.",
         "|λᵗ| = |λ|ᵗ",
         f"rotation by 90°, λ = ±i: |h₀| = {norm(H_0):.3f}, |h₅₀| = {norm(rotated[-1]):.3f}")
    skew = norm(list_states(SKEW, (0.0, 1.0), 50), axis=1)
    block = power(jordan_block(1, 2), 10)[:, 1]
    step("The rule has three exceptions. An h₀ without a component along v₂ does not explode. A "
         "Jordan block with |λ| = 1 grows like t, because eigenvectors are missing. If the "
         "eigenvectors are far from orthogonal, hₜ may grow at first, even if ρ < 1.", "[1 1; 0 "
         "1]ᵗ = [1 t; 0 1]", f"h₀ = v₁: |h₅₀| = {norm(list_states(W_T, v_1, 50)[-1]):.3g};   "
         f"Jordan block at t = 10: last column {vec(block, 0)}", "Wᵀ = [0.5 4; 0 0.6], ρ = "
         f"{spectral_radius(SKEW):.1f}, from (0, 1): |h₁| = {skew[1]:.3g}, |h₅₀| = {skew[50]:.3g}",
         f"‖W‖ = {norm(SKEW, 2):.3g}, ‖W⁵⁰‖ = {norm(power(SKEW, 50), 2):.3g}")
    step("The gradient is multiplied by W instead of Wᵀ, which has the same eigenvalues λ.",
         "∂L/∂h₀ = Wᵗ ∂L/∂hₜ", f"∂L/∂h₂ = {vec(back[0], 0)}:  ∂L/∂h₁ = W {vec(back[0], 0)} = "
         f"{vec(back[1], 2)},   ∂L/∂h₀ = W ∂L/∂h₁ = {vec(back[2])}")
    answer("hₜ = (Wᵀ)ᵗ h₀ = Σ cₖ λₖᵗ vₖ. If ρ < 1, hₜ vanishes for every h₀. If ρ > 1, hₜ explodes "
           f"for almost every h₀. Here |h₅₀| = {last:.3g} with ρ = {spectral_radius(W_T):.1f}.")
    check("The closed form gives the same states as the recurrence.", all(np.allclose(
        c_1 * small**t * v_1 + c_2 * large**t * v_2, h[t]) for t in times))
    closed = power(W_T, 12) @ H_0
    down = norm(list_states(jordan_block(0.9, 3).T, np.ones(3), 300), axis=1)
    up = norm(list_states(np.array([[0.9, 0.0], [10.0, 0.8]]), (1.0, 0.0), 300), axis=1)
    vanished, exploded = (norm(list_states(np.diag([1.2, 0.5]), h, 100)[-1])
                          for h in ((0, 1.0), (1e-6, 1.0)))
    rotating = norm(list_states(ROTATION, H_0, 1000), axis=1)
    growing = power(jordan_block(1, 3), 1000)[::-1, 2].astype(int)
    roots = [root_of_power_norm(jordan_block(0.9, 3), t) for t in (10, 100, 1000)]
    claim("", "h_t in terms of h_0", "none printed", "h_t = (W^T)^t h_0 = (W^t)^T h_0",
          judge(np.allclose(closed, list_states(W_T, H_0, 12)[-1], 1e-12)
                and math.isclose(spectral_radius(W_T), spectral_radius(W_T.T)), "no answer given"),
          "12 steps of the example; W and W^T have the same eigenvalues")
    claim("", "the gradient through t steps", "none printed",
          "dL/dh_0 = W^t dL/dh_t, which depends on the same eigenvalues",
          judge(np.allclose(npdl_gradients_back(W_T, H_0, 10)[-1], power(W_T.T, 10) @ H_0, 1e-9),
                "no answer given"), "npdl's RNN at h = 0, 10 steps back")
    claim("rho < 1", "with rho < 1 everything vanishes", "none printed",
          "true for every h_0, also if W is defective; but h_t may grow at first",
          judge(max(down[-1], up[-1]) < 1e-6 < 1 < up.max(), "no answer given"),
          f"defective W with rho = 0.9: the length is {down[0]:.1f} at first, at most "
          f"{down.max():.1f}, and {down[-1]:.0e} after 300 steps; non-normal W = [[0.9, 10], [0, "
          f"0.8]]: it grows from 1 to {up.max():.0f} and falls to {up[-1]:.0e}")
    claim("rho > 1", "with rho > 1 it explodes", "none printed", "true for almost every h_0, "
          "except those without a component along the eigenvector of the large eigenvalue",
          judge(vanished < 1e-6 and exploded > 1, "no answer given"), "W = diag(1.2, 0.5), length "
          f"after 100 steps: {vanished:.0e} from (0, 1), {exploded:.0f} from (0.000001, 1)")
    claim("rho = 1", "with rho = 1 it neither vanishes nor explodes", "none printed", "true if the "
          "eigenvalues of modulus 1 have full sets of eigenvectors; a Jordan block of size k grows "
          "as t^(k - 1)", judge(abs(rotating[-1] / rotating[0] - 1) < 1e-9, "no answer given"),
          "rotation by 90 degrees: the relative change of the length after 1000 steps is "
          f"{abs(rotating[-1] / rotating[0] - 1):.1g}; a Jordan block of size 3 with eigenvalue 1 "
          f"gives exactly {', '.join(map(str, growing))}")
    claim("diagonalising", "h_t = sum_k c_k lambda_k^t v_k explains it", "none printed",
          "only for a diagonalisable W; in general each lambda^t is multiplied by a polynomial in "
          "t, and |W^t|^(1/t) -> rho",
          judge(np.linalg.matrix_rank(jordan_block(0.0, 3)) == 2, "no answer given"),
          "the Jordan block of size 3 with eigenvalue 0.9 has 1 eigenvector, not 3; |W^t|^(1/t) = "
          f"{vec(roots)} at t = 10, 100, 1000")
    early, late, gains = root_of_power_norm(W_T, 10), root_of_power_norm(W_T, 1000), (0.7, 1.0, 1.3)
    matrices = np.random.default_rng(2).standard_normal((200, 32, 32)) / np.sqrt(32)
    percents = [100 * np.mean([spectral_radius(gain * each) < 1 for each in matrices])
                for gain in gains]
    claim("(15)", "the spectral radius max |lambda| is what decides in the long run",
          "rho = max |lambda_k|", f"it is the limit of |W^t|^(1/t): {spectral_radius(W_T):.3f}",
          judge(abs(late - spectral_radius(W_T)) < 1e-3),
          f"W of the example: {early:.3f} at t = 10, {late:.3f} at t = 1000")
    claim("premise", "gradients over many steps either vanish or explode", "tend to either vanish "
          "or explode", "not if rho = 1: an orthogonal W preserves every length",
          judge(abs(rotating[-1] / rotating[0] - 1) > 1e-3, if_false="under-specified"),
          f"after 1000 steps, the length {rotating[0]:.4f} becomes {rotating[-1]:.4f}")
    claim("premise", "they vanish frequently and explode rarely", "frequently, rarely",
          "it depends on the distribution of W (here without an activation); a bounded activation "
          "such as tanh makes vanishing more likely",
          judge(min(percents) > 50, if_false="under-specified"),
          "200 matrices (seed 2) with 32 x 32 normal entries of variance g^2/32: rho < 1 in "
          f"{vec(percents, 0)} % of them at g = {vec(gains, 1)}")
