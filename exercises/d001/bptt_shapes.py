"""Document 001, Question 2: the shapes of the derivatives in backpropagation through time."""

import math

import numpy as np

from exercises.course import arrays, judge, question

N, M, P = 2, 2, 3
H = np.array([[1.0, 2.0], [0.0, -1.0]])
V = np.array([[1.0, 0.0], [2.0, -1.0]])
TARGET = np.array([[4.0, -1.0], [-2.0, 2.0]])
X = np.array([1.0, 0.0, -1.0])
A = np.array([[[1, 0, 2], [0, 1, 0]], [[1, 1, 0], [0, 0, -1]]], float)     # H = A x
EXAMPLE = f"n = {N}, m = {M}, p = {P}; O = H V, and L = the sum of squares of O − target."
RULE = ("The rule: differentiating an array of shape s by one of shape t asks how each entry of "
        "the first moves with each entry of the second: one number a pair, set out as s, then t.")


def derivative(function, x, step=1e-3):
    """Return d function(x) / dx by central differences: the value's shape, then that of x."""
    def at(index, distance):
        moved = x.copy()
        moved[index] += distance
        return np.asarray(function(moved))

    slopes = [(8 * (at(i, step) - at(i, -step)) - (at(i, 2 * step) - at(i, -2 * step)))
              / (12 * step) for i in np.ndindex(x.shape)]
    return np.stack(slopes, -1).reshape(*slopes[0].shape, *x.shape)


def loss(out):
    """Return the sum of squares to the target."""
    return ((out - TARGET) ** 2).sum()


def times(shape):
    """Return a shape as text: 2 x 2 x 3."""
    return " x ".join(map(str, shape))


def settle(check, claim, name, slopes, ours, answer, more=""):
    """Check our derivative against differences, and claim its dimensions."""
    check(f"differences give an array {times(slopes.shape)}, with the same numbers",
          slopes.shape == ours.shape and np.allclose(slopes, ours, atol=1e-6))
    claim("", f"Dimensions of {name}.", "none", answer,
          judge(slopes.shape == ours.shape, "no answer given"),
          f"n = {N}, m = {M}, p = {P}: differences give {times(slopes.shape)} numbers{more}")


@question("001.2.1", "The shape of dL/dO")
def loss_by_output(say, step, answer, check, claim):
    """Give the dimensions of ∂L/∂O for a scalar loss L and an output matrix O (n x m)."""
    out = H @ V
    dL = 2 * (out - TARGET)
    say(EXAMPLE)
    step(RULE, "∂L/∂O: () and (n, m) make (n, m)")
    step("L is one number, so there is one slope for each entry of O: the gradient has the "
         "shape of O.", "∂L/∂O_ij = 2 (O_ij − target_ij)",
         f"entry (1, 1): 2 · ({out[0, 0]:.0f} − {TARGET[0, 0]:.0f}) = {dL[0, 0]:.0f}",
         arrays({"O": out, "target": TARGET, "∂L/∂O": dL}))
    answer(f"n x m, here {times(out.shape)}.")
    settle(check, claim, "dL/dO", derivative(loss, out), dL, "n x m")
    dO, dH = derivative(loss, A @ X @ V), derivative(lambda h: h @ V, A @ X)
    chained = np.tensordot(np.tensordot(dO, dH, 2), derivative(lambda x: A @ x, X), 2)
    direct = derivative(lambda x: loss(A @ x @ V), X)
    claim("", "The shape of a derivative is settled by the shapes of both sides.",
          "layout not stated", "value first, then variable; a gradient has its variable's shape; "
          "the other layout has m x n for part 1",
          judge(np.allclose(chained, direct, 1e-8, 1e-8), "convention"),
          "the chain rule contracts neighbouring indices: dL/dX agrees with differences, below "
          "1e-8")


@question("001.2.2", "The shape of dO/dH")
def output_by_hidden(say, step, answer, check, claim):
    """Give the dimensions of ∂O/∂H for matrices O and H (n x m)."""
    slopes = np.kron(np.eye(N), V.T)
    say(EXAMPLE)
    step(RULE, "∂O/∂H: (n, m) and (n, m) make (n, m, n, m)",
         f"{N} · {M} · {N} · {M} = {slopes.size} numbers")
    step("Write one entry of O, and differentiate it by every entry of H: only its own row "
         "of H occurs.", "O_ij = Σ_k H_ik V_kj  →  ∂O_ij/∂H_lk = V_kj where l = i, else 0",
         f"∂O₁₁/∂H₁₂ = V₂₁ = {V[1, 0]:.0f};   ∂O₁₁/∂H₂₁ = {slopes[0, M]:.0f}")
    step("To see all at once, number the entries row by row: nm rows for O, nm columns for H.",
         arrays({"V": V, "∂O/∂H as nm x nm": slopes}))
    answer(f"n x m x n x m, or nm x nm as a matrix; here {times((N, M, N, M))}.")
    settle(check, claim, "dO/dH", derivative(lambda h: h @ V, H), slopes.reshape(N, M, N, M),
           "n x m x n x m (as a matrix, nm x nm)",
           "; with O = H V at most n m^2 of them are not zero, row i of O reading row i of H")
    wider = derivative(lambda h: h @ np.ones((M, 5)), H).shape
    claim("", "O and H have the same number of columns.", "n x m for both",
          "the number of classes k and of hidden units m may differ: n x k x n x m then",
          judge(wider == (N, 5, N, M), "under-specified"), f"k = 5: {times(wider)} numbers")


@question("001.2.3", "The shape of dH/dX")
def hidden_by_input(say, step, answer, check, claim):
    """Give the dimensions of ∂H/∂X for a matrix H (n x m) and an input vector X of p elements."""
    say(EXAMPLE)
    step(RULE, "∂H/∂X: (n, m) and (p) make (n, m, p)", f"{N} · {M} · {P} = {A.size} numbers")
    step("Each entry of H depends on each entry of X; take H = A X, entry by entry, to have "
         "slopes that can be read off.", "H_ij = Σ_k A_ijk X_k  →  ∂H_ij/∂X_k = A_ijk",
         f"∂H₁₁/∂X₃ = A₁₁₃ = {A[0, 0, 2]:.0f}", arrays({"∂H/∂X as nm x p": A.reshape(N * M, P)}))
    answer(f"n x m x p, here {times(A.shape)}.")
    settle(check, claim, "dH/dX", derivative(lambda x: A @ x, X), A, "n x m x p")


@question("001.2.4", "The shape of the second derivative d²L/dH²")
def second_derivative(say, step, answer, check, claim):
    """Give the dimensions of ∂²L/∂H² for a scalar loss L and a matrix H (n x m)."""
    size, hessian = N * M, np.kron(np.eye(N), 2 * V @ V.T)
    say(EXAMPLE)
    step("The first derivative of L by H has the shape of H; differentiate it by H again.",
         "∂L/∂H: (n, m)   →   ∂²L/∂H²: (n, m, n, m)",
         f"{N} · {M} · {N} · {M} = {hessian.size} numbers")
    step("For O = H V: the first derivative is linear in H, so the second is constant; "
         "entries of different rows have nothing to do with each other.",
         "∂L/∂H = 2 (H V − target) Vᵀ  →  ∂²L/∂H_ik ∂H_lj = 2 (V Vᵀ)_kj if l = i, else 0",
         arrays({"2 V Vᵀ": 2 * V @ V.T, "∂²L/∂H² as nm x nm": hessian}))
    step("The order of differentiating does not matter, so this matrix is symmetric.",
         "at most nm (nm + 1) / 2 different numbers",
         f"{size} · {size + 1} / 2 = {math.comb(size + 1, 2)}")
    answer(f"n x m x n x m, the Hessian nm x nm as a matrix; here {times((N, M, N, M))}.")
    slopes = derivative(lambda h: derivative(lambda h: loss(h @ V), h, 1e-2), H, 1e-2)
    settle(check, claim, "d2L/dH2", slopes, hessian.reshape(N, M, N, M),
           "n x m x n x m (as a matrix, the nm x nm Hessian)",
           f"; symmetric, so {math.comb(size + 1, 2)} different numbers at most")


@question("001.marks", "The marks of the questions and of their parts")
def marks(say, step, answer, check, claim):
    """Add up the marks of the four questions, and find the marks that are not printed."""
    total, parts = (4, 4, 6, 6), ((4,), (None, 1, 1, 1), (2, 2, None), (None, None, 1))
    left = [f"Q{i}: {whole - sum(filter(None, row))} for part{'s' * (row.count(None) > 1)} "
            + " and ".join(str(part) for part, mark in enumerate(row, 1) if mark is None)
            for i, (whole, row) in enumerate(zip(total, parts, strict=True), 1) if None in row]
    printed = [mark is not None for row in parts for mark in row]
    answer(f"{' + '.join(map(str, total))} = {sum(total)}; not printed: {', '.join(left)}.")
    check("no question has parts with more marks than the question", all(
        whole >= sum(filter(None, row)) for whole, row in zip(total, parts, strict=True)))
    claim("", "The marks of the four questions add up to the total.", "20",
          f"{' + '.join(map(str, total))} = {sum(total)}", judge(sum(total) == 20),
          "sum of the table's rows")
    claim("parts", "How many marks has each part?",
          f"printed for {sum(printed)} of the {len(printed)} parts", ", ".join(left),
          judge(not all(printed), "no answer given"),
          "the question's marks less those printed; how the parts of Q4 share theirs is open")
