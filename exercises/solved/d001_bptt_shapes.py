"""The worked solutions of document 001, Question 2: the shapes of derivatives."""

import numpy as np

from exercises.d001_bptt_shapes import expected_shapes, numerical_derivative, times
from exercises.worked import Check, Solution, Step, num

N, M, P = 2, 2, 3
H = np.array([[1.0, 2.0], [0.0, -1.0]])
V = np.array([[1.0, 0.0], [2.0, -1.0]])
TARGET = np.array([[4.0, -1.0], [-2.0, 2.0]])
X = np.array([1.0, 0.0, -1.0])
A = np.array([[[1, 0, 2], [0, 1, 0]], [[1, 1, 0], [0, 0, -1]]], float)  # H = A x: (n, m, p)
EXAMPLE = f"n = {N}, m = {M}, p = {P}; O = H V, and L = the sum of squares of O − target."
RULE = ("The rule: differentiating an array of shape s by one of shape t asks how each entry of "
        "the first moves with each entry of the second: one number a pair, set out as s, then t.")
OUT = H @ V


def loss(out):
    return ((out - TARGET) ** 2).sum()


def solutions():
    shapes = expected_shapes(N, M, P)
    dL, V4 = 2 * (OUT - TARGET), np.kron(np.eye(N), V.T)
    hessian = np.kron(np.eye(N), 2 * V @ V.T)
    found = {
        "dL/dO": (loss, OUT, dL), "dO/dH": (lambda h: h @ V, H, V4),
        "dH/dX": (lambda x: A @ x, X, A),
        "d2L/dH2": (lambda h: numerical_derivative(lambda g: loss(g @ V), h, 1e-2), H, hessian),
    }

    def checks(name):
        function, at, ours = found[name]
        slopes = numerical_derivative(function, at, 1e-2)
        return (Check(f"Differences give an array {times(slopes.shape)}, with the same numbers.",
                      slopes.shape == shapes[name]
                      and np.allclose(slopes.reshape(ours.shape), ours, atol=1e-6)),)

    return [
        Solution("2.1", (
            Step(RULE, "∂L/∂O: () and (n, m) make (n, m)"),
            Step("L is one number, so there is one slope for each entry of O: the gradient has the "
                 "shape of O.", "∂L/∂O_ij = 2 (O_ij − target_ij)",
                 f"entry (1, 1): 2 · ({num(OUT[0, 0], 0)} − {num(TARGET[0, 0], 0)}) = "
                 f"{num(dL[0, 0], 0)}", {"O": OUT, "target": TARGET, "∂L/∂O": dL})),
            f"n x m, here {times(shapes['dL/dO'])}.", checks("dL/dO"), EXAMPLE),
        Solution("2.2", (
            Step(RULE, "∂O/∂H: (n, m) and (n, m) make (n, m, n, m)",
                 f"{N} · {M} · {N} · {M} = {(N * M) ** 2} numbers"),
            Step("Write one entry of O, and differentiate it by every entry of H: only its own row "
                 "of H occurs.", "O_ij = Σ_k H_ik V_kj  →  ∂O_ij/∂H_lk = V_kj where l = i, else 0",
                 f"∂O₁₁/∂H₁₂ = V₂₁ = {num(V[1, 0], 0)};   ∂O₁₁/∂H₂₁ = {num(V4[0, M], 0)}"),
            Step("To see all at once, number the entries row by row: nm rows for O, nm columns for "
                 "H.", arrays={"V": V, "∂O/∂H as nm x nm": V4})),
            f"n x m x n x m, or nm x nm as a matrix; here {times(shapes['dO/dH'])}.",
            checks("dO/dH"), EXAMPLE),
        Solution("2.3", (
            Step(RULE, "∂H/∂X: (n, m) and (p) make (n, m, p)", f"{N} · {M} · {P} = {N * M * P} "
                 "numbers"),
            Step("Each entry of H depends on each entry of X; take H = A X, entry by entry, to "
                 "have slopes that can be read off.", "H_ij = Σ_k A_ijk X_k  →  ∂H_ij/∂X_k = A_ijk",
                 f"∂H₁₁/∂X₃ = A₁₁₃ = {num(A[0, 0, 2], 0)}",
                 {"∂H/∂X as nm x p": A.reshape(N * M, P)})),
            f"n x m x p, here {times(shapes['dH/dX'])}.", checks("dH/dX"), EXAMPLE),
        Solution("2.4", (
            Step("The first derivative of L by H has the shape of H; differentiate it by H again.",
                 "∂L/∂H: (n, m)   →   ∂²L/∂H²: (n, m, n, m)",
                 f"{N} · {M} · {N} · {M} = {(N * M) ** 2} numbers"),
            Step("For O = H V: the first derivative is linear in H, so the second is constant; "
                 "entries of different rows have nothing to do with each other.",
                 "∂L/∂H = 2 (H V − target) Vᵀ  →  ∂²L/∂H_ik ∂H_lj = 2 (V Vᵀ)_kj if l = i, else 0",
                 arrays={"2 V Vᵀ": 2 * V @ V.T, "∂²L/∂H² as nm x nm": hessian}),
            Step("The order of differentiating does not matter, so this matrix is symmetric.",
                 "at most nm (nm + 1) / 2 different numbers",
                 f"{N * M} · {N * M + 1} / 2 = {N * M * (N * M + 1) // 2}")),
            f"n x m x n x m, the Hessian nm x nm as a matrix; here {times(shapes['d2L/dH2'])}.",
            checks("d2L/dH2"), EXAMPLE),
    ]
