"""Document 000, Question 3: the graph of a bidirectional RNN, its gradients and its Jacobians.

All matrices are d x d:  h_t^(f) = tanh(W^(f) x_t + U^(f) h_(t-1)^(f)),
h_t^(b) = tanh(W^(b) x_t + U^(b) h_(t+1)^(b)),  y_t = V^(f) h_t^(f) + V^(b) h_t^(b),
L = Σ_t L_t,  L_t = |z_t - y_t|². The code and the claims write f_t for h_t^(f), W_f for W^(f).
"""

import numpy as np

from exercises.course import format_arrays, format_table, judge, question
from exercises.d001.gradients import derivative

SIDE = {"f": "⁽ᶠ⁾", "b": "⁽ᵇ⁾"}
WEIGHTS = {name: np.array(matrix, float) for name, matrix in {
    "W_f": [[1, 0], [0.5, 1]], "U_f": [[0.5, -1], [0, 0.5]], "V_f": [[1, 0.5], [0, 1]],
    "W_b": [[0, 1], [1, 0]], "U_b": [[0.5, 0], [1, -0.5]], "V_b": [[1, 0], [-1, 1]]}.items()}
X, Z = np.array([[1, 0], [0.5, -0.5]]), np.array([[1.0, 0], [0, 1]])
F_FIRST, B_LAST = np.array([0.5, 0]), np.array([0, -0.5])           # f_0 and b_(T+1)
T, D = X.shape
EXAMPLE = ("The example has T = 2 steps and width d = 2. The initial states h₀⁽ᶠ⁾ and h₃⁽ᵇ⁾ are "
           "not zero.", *(format_arrays({
               kind + SIDE[side]: WEIGHTS[f"{kind}_{side}"] for kind in "WUV"})
               for side in "fb"), format_arrays({
                   "x₁": X[0], "x₂": X[1], "z₁": Z[0], "z₂": Z[1], "h₀⁽ᶠ⁾": F_FIRST,
                   "h₃⁽ᵇ⁾": B_LAST}))


def forward(W=WEIGHTS, moved_state=None, by=0):
    """Return f_0 .. f_T, {t: b_t}, y (T, d) and L; `by` is added to `moved_state`, ("f", t)."""
    f, b = [F_FIRST], {T + 1: B_LAST}
    for t in range(1, T + 1):
        f.append(np.tanh(W["W_f"] @ X[t - 1] + W["U_f"] @ f[-1]) + by * (moved_state == ("f", t)))
    for t in range(T, 0, -1):
        b[t] = np.tanh(W["W_b"] @ X[t - 1] + W["U_b"] @ b[t + 1]) + by * (moved_state == ("b", t))
    y = np.array([W["V_f"] @ f[t] + W["V_b"] @ b[t] for t in range(1, T + 1)])
    return f, b, y, ((Z - y) ** 2).sum()


def state_derivative(direction, t, output_index=3):
    """Return the numerical derivative of L (output 3) or y (output 2) by f_t or b_t."""
    return derivative(lambda by: forward(moved_state=(direction, t), by=by)[output_index],
                      np.zeros(D))


def state_jacobian(direction, next_state):
    """Return d f_(t+1) / d f_t, or d b_(t-1) / d b_t, from `next_state`."""
    return np.diag(1 - next_state * next_state) @ WEIGHTS["U_" + direction]


def compute_printed_gradients():
    """Return the document's gradients: of L_t and L for each state, and of L for W_b and U_f."""
    f, b, y, _ = forward()
    local = {(side, t): 2 * WEIGHTS["V_" + side].T @ (y[t - 1] - Z[t - 1])
             for side in "fb" for t in range(1, T + 1)}
    total = dict(local)
    for t in range(T - 1, 0, -1):
        total["f", t] = local["f", t] + state_jacobian("f", f[t + 1]).T @ total["f", t + 1]
    for t in range(2, T + 1):
        total["b", t] = local["b", t] + state_jacobian("b", b[t - 1]).T @ total["b", t - 1]
    deltas = {(side, t): (1 - h[t] ** 2) * total[side, t] for side, h in (("f", f), ("b", b))
              for t in range(1, T + 1)}
    W_b = sum(np.outer(deltas["b", t], X[t - 1]) for t in range(1, T + 1))
    U_f = sum(np.outer(deltas["f", t], f[t - 1]) for t in range(1, T + 1))
    return local, total, deltas, W_b, U_f


def format_state_name(direction, t):
    """Return the name of a state, such as "h₁⁽ᶠ⁾"."""
    return f"h{'₀₁₂₃₄'[t]}{SIDE[direction]}"


def error_percent(value, expected):
    """Return the largest difference of two arrays in percent of the largest entry."""
    return 100 * np.abs(value - expected).max() / np.abs(expected).max()


@question("000.3.2", "A bidirectional RNN's gradients through time, and its Jacobians")
def solve_state_gradients(say, step, answer, check, claim):
    """Give the gradients of L_t in the states, and the Jacobians by entries and as matrices."""
    (f, b, y, _), (local, total, *_) = forward(), compute_printed_gradients()
    e, J_f, J_b, W = y - Z, state_jacobian("f", f[2]), state_jacobian("b", b[1]), WEIGHTS
    entries = " + ".join(f"{v:.2f}" for v in [*W["W_f"][0] * X[0], *W["U_f"][0] * f[0]])
    say(*EXAMPLE)
    step("Compute the forward pass: h⁽ᶠ⁾ from the left, h⁽ᵇ⁾ from the right, then the outputs and "
         "their errors.", "hₜ⁽ᶠ⁾ = tanh(W⁽ᶠ⁾ xₜ + U⁽ᶠ⁾ hₜ₋₁⁽ᶠ⁾)   hₜ⁽ᵇ⁾ = tanh(W⁽ᵇ⁾ xₜ + U⁽ᵇ⁾ "
         "hₜ₊₁⁽ᵇ⁾)", f"(h₁⁽ᶠ⁾)₁ = tanh({entries}) = {f[1][0]:.3f}",
         format_arrays({"h₁⁽ᶠ⁾": f[1], "h₂⁽ᶠ⁾": f[2], "h₂⁽ᵇ⁾": b[2], "h₁⁽ᵇ⁾": b[1]}),
         format_arrays({"y₁ − z₁": e[0], "y₂ − z₂": e[1]}))
    step("(a) Differentiate Lₜ only. Its gradient with respect to yₜ is twice the error. Because "
         "yₜ = V⁽ᶠ⁾ hₜ⁽ᶠ⁾ + …, the gradient with respect to a state is this vector times the "
         "transpose of V.", "∇hₜ⁽ᶠ⁾ Lₜ = 2 V⁽ᶠ⁾ᵀ (yₜ − zₜ)      ∇hₜ⁽ᵇ⁾ Lₜ = 2 V⁽ᵇ⁾ᵀ (yₜ − zₜ)",
         f"(∇h₁⁽ᶠ⁾ L₁)₂ = 2 · ({W['V_f'][0, 1]} · ({e[0][0]:.3f}) + {W['V_f'][1, 1]} · "
         f"{e[0][1]:.3f}) = {local['f', 1][1]:.3f}",
         format_arrays({"V⁽ᶠ⁾": W["V_f"], "∇h₁⁽ᶠ⁾ L₁": local["f", 1], "∇h₂⁽ᶠ⁾ L₂": local["f", 2]}),
         format_arrays({"∇h₁⁽ᵇ⁾ L₁": local["b", 1], "∇h₂⁽ᵇ⁾ L₂": local["b", 2]}))
    step("(a) Differentiate one entry of the next state. The derivative of tanh is 1 − tanh², and "
         "entry j of the previous state enters entry i with the weight U_ij.",
         "(∂hₜ₊₁⁽ᶠ⁾/∂hₜ⁽ᶠ⁾)_ij = (1 − (hₜ₊₁⁽ᶠ⁾)_i²) (U⁽ᶠ⁾)_ij",
         "(∂hₜ₋₁⁽ᵇ⁾/∂hₜ⁽ᵇ⁾)_ij = (1 − (hₜ₋₁⁽ᵇ⁾)_i²) (U⁽ᵇ⁾)_ij",
         f"(∂h₂⁽ᶠ⁾/∂h₁⁽ᶠ⁾)₁₂ = (1 − {f[2][0]:.3f}²) · ({W['U_f'][0, 1]:.3f}) = {J_f[0, 1]:.3f}")
    step("(b) Write all entries as one matrix. Each row of U is multiplied by its own factor. This "
         "is a product with a diagonal matrix on the left.",
         "∂hₜ₊₁⁽ᶠ⁾/∂hₜ⁽ᶠ⁾ = diag(1 − hₜ₊₁⁽ᶠ⁾²) U⁽ᶠ⁾      ∂hₜ₋₁⁽ᵇ⁾/∂hₜ⁽ᵇ⁾ = diag(1 − hₜ₋₁⁽ᵇ⁾²) U⁽ᵇ⁾",
         format_arrays({"U⁽ᶠ⁾": W["U_f"], "∂h₂⁽ᶠ⁾/∂h₁⁽ᶠ⁾": J_f}),
         format_arrays({"U⁽ᵇ⁾": W["U_b"], "∂h₁⁽ᵇ⁾/∂h₂⁽ᵇ⁾": J_b}))
    g2 = total["f", 2]
    step("Go back along each chain from its last state: h⁽ᶠ⁾ from t = T to 1, and h⁽ᵇ⁾ from t = 1 "
         "to T.", "∇h_T⁽ᶠ⁾ L = ∇h_T⁽ᶠ⁾ L_T      ∇hₜ⁽ᶠ⁾ L = ∇hₜ⁽ᶠ⁾ Lₜ + (∂hₜ₊₁⁽ᶠ⁾/∂hₜ⁽ᶠ⁾)ᵀ ∇hₜ₊₁⁽ᶠ⁾ "
         "L", "∇h₁⁽ᵇ⁾ L = ∇h₁⁽ᵇ⁾ L₁         ∇hₜ⁽ᵇ⁾ L = ∇hₜ⁽ᵇ⁾ Lₜ + (∂hₜ₋₁⁽ᵇ⁾/∂hₜ⁽ᵇ⁾)ᵀ ∇hₜ₋₁⁽ᵇ⁾ L",
         f"(∇h₁⁽ᶠ⁾ L)₁ = {local['f', 1][0]:.3f} + ({J_f[0, 0]:.3f}) · ({g2[0]:.3f}) + "
         f"({J_f[1, 0]:.3f}) · ({g2[1]:.3f}) = {total['f', 1][0]:.3f}",
         format_arrays({f"∇{format_state_name(side, t)} L": total[side, t]
                        for side in "fb" for t in (1, 2)}))
    answer("The gradient of Lₜ is 2 Vᵀ(yₜ − zₜ). The Jacobians are diag(1 − h⁽ᶠ⁾²) U⁽ᶠ⁾ with the "
           "later state, and diag(1 − h⁽ᵇ⁾²) U⁽ᵇ⁾ with the earlier state. The recursions combine "
           "them.")
    errors = {side: max(np.abs(total[side, t] - state_derivative(side, t)).max()
                        for t in range(1, T + 1)) for side in "fb"}
    check("Finite differences of L in each entry of h₁⁽ᶠ⁾, h₂⁽ᶠ⁾, h₁⁽ᵇ⁾, h₂⁽ᵇ⁾ agree.",
          max(errors.values()) <= 1e-8)
    wrong = local["b", 1] + state_jacobian("b", b[2]).T @ total["b", 2]
    for side, when, end in (("f", "t + 1", "holds for t < T"), ("b", "t - 1", "holds for t > 1")):
        other = when.replace(" ", "")
        claim("", f"The gradient in {side}_t is that of L_t plus the Jacobian's transpose times "
              f"the gradient in {side}_({other}).", "formula given in the question", end,
              judge(errors[side] <= 1e-8),
              f"finite differences in {side}_t: error {errors[side]:.1g}")
    claim("", "Both recursions express the gradients at t by those at t + 1.",
          "the text says t + 1 for both", "t + 1 for f, t - 1 for b, as in the formulas",
          judge(np.allclose(wrong, total["b", 1]), if_false="slip"), "with t + 1 for b, the "
          f"gradient in b_1 has an error of {error_percent(wrong, total['b', 1]):.0f} %")
    claim("", "The recursions determine all gradients.", "no start is given",
          "they start from the gradient of L_T in f_T and that of L_1 in b_1",
          judge(max(errors.values()) <= 1e-8, "under-specified"),
          "f_(T+1) and b_0 do not exist; from these two starts, every gradient has an error of at "
          f"most {max(errors.values()):.1g}")
    t, e, V_f = T, y[-1] - Z[-1], WEIGHTS["V_f"]

    def claim_formula(statement, formula, value, numerical):
        error = np.abs(value - numerical).max()
        claim("a", statement, formula, formula, judge(error <= 1e-8),
              f"finite differences: error {error:.1g}")

    z = np.linspace(-5, 5, 101)
    claim_formula("The derivative of tanh(z) is 1 - tanh^2(z).", "1 - tanh^2(z)",
                  1 - np.tanh(z) ** 2, np.diag(derivative(np.tanh, z)))
    claim_formula("The gradient of L_t in y_t is 2 (y_t - z_t).", "2 (y_t - z_t)", 2 * e,
                  derivative(lambda v: ((Z[t - 1] - v) ** 2).sum(), y[t - 1]))
    for side in "fb":
        y_jacobian = state_derivative(side, t, output_index=2)[t - 1]        # d y_t / d f_t
        claim_formula(f"dy_t / d{side}_t = V_{side}.", f"V_{side}", WEIGHTS["V_" + side],
                      y_jacobian)
        claim_formula(f"The gradient of L_t in {side}_t is 2 V_{side}^T (y_t - z_t).",
                      f"2 V_{side}^T (y_t - z_t)", local[side, t], 2 * y_jacobian.T @ e)
    row, column, truth = 2 * e @ V_f, V_f @ (2 * e), local["f", t]
    claim("a", "That gradient is (dL_t / dy_t)(dy_t / df_t), in this order.",
          "2 (y_t - z_t) times V, then V^T in front in the result",
          "with rows: 2 (y - z)^T V; with columns: V^T 2 (y - z); a column times V is not defined",
          judge(np.allclose(row, truth, 0, 1e-8) and not np.allclose(column, truth), "convention"),
          "the row agrees with the gradient above; V times the column, without a transpose, has an "
          f"error of {error_percent(column, truth):.0f} %")
    for side, after, before, x, text in (("f", f[2], f[1], X[1], "f_(t+1)"),
                                         ("b", b[1], b[2], X[0], "b_(t-1)")):
        W, U = WEIGHTS["W_" + side], WEIGHTS["U_" + side]
        jacobian = derivative(lambda h, W=W, U=U, x=x: np.tanh(W @ x + U @ h), before)
        error = np.abs(state_jacobian(side, after) - jacobian).max()
        other = error_percent(U @ np.diag(1 - after**2), jacobian)
        claim("a", f"Entry (i, j) of d{text} / d{side}_t is (1 - {text}_i^2) (U_{side})_ij.",
              "as claimed", "as claimed", judge(error <= 1e-8),
              f"finite differences: error {error:.1g}")
        claim("b", f"As a matrix it is diag(1 - {text} * {text}) U_{side}.",
              "derived in (a) already", "as claimed", judge(error <= 1e-8), "finite differences: "
              f"error {error:.1g}; the other order, U diag, has an error of {other:.1f} %")


@question("000.3.3", "A bidirectional RNN's gradients in the weights W⁽ᵇ⁾ and U⁽ᶠ⁾")
def solve_weight_gradients(say, step, answer, check, claim):
    """Give the gradients of L with respect to W^(b) and U^(f)."""
    (f, b, _, _), (local, total, delta, W_b, U_f) = forward(), compute_printed_gradients()
    d_b, d_f = ([delta[side, t] for t in (1, 2)] for side in "bf")
    say(*EXAMPLE)
    step("Start from the gradients in the states (Question 3.2). Going back through the tanh "
         "multiplies each entry by its derivative 1 − h².",
         "δₜ = (1 − hₜ²) * ∇hₜ L, elementwise, in both directions",
         format_arrays({"δ₁⁽ᵇ⁾": d_b[0], "δ₂⁽ᵇ⁾": d_b[1], "δ₁⁽ᶠ⁾": d_f[0], "δ₂⁽ᶠ⁾": d_f[1]}))
    step("Each use of a matrix as W x contributes δ xᵀ to its gradient. Entry (i, j) is δ_i x_j, "
         "because W_ij is multiplied by x_j and added to entry i.",
         "W⁽ᵇ⁾ at step t: δₜ⁽ᵇ⁾ xₜᵀ      U⁽ᶠ⁾ at step t: δₜ⁽ᶠ⁾ hₜ₋₁⁽ᶠ⁾ᵀ",
         f"entry (1, 1) of δ₁⁽ᵇ⁾ x₁ᵀ = {d_b[0][0]:.3f} · {X[0, 0]:.3f} = {d_b[0][0] * X[0, 0]:.3f}",
         format_arrays({"δ₁⁽ᵇ⁾ x₁ᵀ": np.outer(d_b[0], X[0]), "δ₂⁽ᵇ⁾ x₂ᵀ": np.outer(d_b[1], X[1])}),
         format_arrays({"δ₁⁽ᶠ⁾ h₀⁽ᶠ⁾ᵀ": np.outer(d_f[0], f[0]),
                        "δ₂⁽ᶠ⁾ h₁⁽ᶠ⁾ᵀ": np.outer(d_f[1], f[1])}))
    step("The same matrix is used at every step, so its gradients add. Nothing else is needed, "
         "because ∇hₜ L already contains the effect of a step on the following steps.",
         "∂L/∂W⁽ᵇ⁾ = Σₜ diag(1 − hₜ⁽ᵇ⁾²) ∇hₜ⁽ᵇ⁾ L xₜᵀ      ∂L/∂U⁽ᶠ⁾ = Σₜ diag(1 − hₜ⁽ᶠ⁾²) ∇hₜ⁽ᶠ⁾ L "
         "hₜ₋₁⁽ᶠ⁾ᵀ", format_arrays({"∂L/∂W⁽ᵇ⁾": W_b, "∂L/∂U⁽ᶠ⁾": U_f}))
    answer("∂L/∂W⁽ᵇ⁾ = Σₜ diag(1 − hₜ⁽ᵇ⁾²) ∇hₜ⁽ᵇ⁾ L xₜᵀ and ∂L/∂U⁽ᶠ⁾ = Σₜ diag(1 − hₜ⁽ᶠ⁾²) ∇hₜ⁽ᶠ⁾ "
           "L hₜ₋₁⁽ᶠ⁾ᵀ, t = 1 to T.")
    errors = {name: np.abs(ours - derivative(
        lambda matrix, name=name: forward(WEIGHTS | {name: matrix})[3], WEIGHTS[name])).max()
        for name, ours in (("W_b", W_b), ("U_f", U_f))}
    check("Finite differences of L give the same two matrices.", max(errors.values()) <= 1e-8)
    for name, side, other, factor, rest, extra in (
            ("W_b", "b", "x_t", X[1], WEIGHTS["U_b"] @ b[3], "t = 1 to T"),
            ("U_f", "f", "h_(t-1)^(f)", f[1], WEIGHTS["W_f"] @ X[1],
             "t = 1 is included if f_0 is not zero")):
        claim("",
              f"The gradient in {name} is the sum over t of diag(1 - (h_t^({side}))^2) times the "
              f"gradient in h_t^({side}) times {other}^T.", "as claimed", f"as claimed; {extra}",
              judge(errors[name] <= 1e-8), f"finite differences: error {errors[name]:.1g}")
        tensor = derivative(lambda matrix, x=factor, rest=rest: np.tanh(matrix @ x + rest),
                            WEIGHTS[name])
        slope = 1 - np.tanh(WEIGHTS[name] @ factor + rest) ** 2
        exact = np.einsum("i,ik,l->ikl", slope, np.eye(D), factor)
        check(f"The derivative of a state with respect to {name} has three indices.",
              np.allclose(exact, tensor, 0, 1e-8))
        defined = np.diag(slope).shape[1] == factor[None].shape[0]      # (d, d) times (1, d)
        claim("", f"d{side}_t / d{name} is diag(1 - {side}_t^2) {other}^T.",
              "a d x d matrix times a 1 x d row", "a d x d x d array: entry (i, k, l) is (1 - "
              f"{side}_i^2) [i = k] ({other})_l", judge(defined),
              f"d = {D}: finite differences give {' x '.join(map(str, tensor.shape))} numbers; d x "
              "d times 1 x d is not defined for d > 1")
    whole, twice, once = 0, 0, 0                                        # whole: d b_t / d W_b
    for t in range(T, 0, -1):
        now = np.einsum("i,ik,l->ikl", 1 - b[t] ** 2, np.eye(D), X[t - 1])
        whole = now + np.tensordot(state_jacobian("b", b[t]), whole, 1) if t < T else now
        twice = twice + np.tensordot(total["b", t], whole, 1)
        once = once + np.tensordot(local["b", t], whole, 1)
    claim("", "The gradient in W_b is the sum over t of (dL / db_t)(db_t / dW_b).",
          "chain rule, without saying which derivative of b_t", "either db_t / dW_b with b_(t+1) "
          "held fixed, or the total derivative with the gradient of L_t alone",
          judge(np.allclose(once, W_b) and not np.allclose(twice, W_b), "under-specified"), "both "
          "readings agree with finite differences; the total gradient times the total derivative "
          f"counts later effects twice and has an error of {error_percent(twice, W_b):.0f} %")


def list_edges(T):
    """Return the graph as (from, to, weight). A node is (kind, t), with a kind of x, f, b, y."""
    return [edge for t in range(1, T + 1) for edge in (
        (("x", t), ("f", t), "W_f"), (("f", t - 1), ("f", t), "U_f"),
        (("x", t), ("b", t), "W_b"), (("b", t + 1), ("b", t), "U_b"),
        (("f", t), ("y", t), "V_f"), (("b", t), ("y", t), "V_b"))]


def find_reachable(node, edges):
    """Return the set of nodes that arrows lead to from a node, including the node."""
    return {node}.union(*(find_reachable(end, edges) for start, end, _ in edges if start == node))


def draw_unrolled_graph(figure, T=3):
    """Draw the unrolled graph, each arrow with its weight."""
    figure.set_size_inches(9.5, 6)
    ax = figure.subplots()
    kinds = {"x": ("x", "#e0e0e0", 0, 0), "f": ("h^{(f)}", "#cfe2f3", -0.22, 1),    # shift, height
             "b": ("h^{(b)}", "#f9dcc4", 0.22, 2), "y": ("y", "#d9ead3", 0, 3)}
    line = {"f": "#1f5fa8", "b": "#c0561a"}
    nodes = {node for arrow in list_edges(T) for node in arrow[:2]}
    place = {(kind, t): (t + kinds[kind][2], kinds[kind][3]) for kind, t in nodes}
    for start, end, weight in list_edges(T):
        (x0, y0), (x1, y1) = place[start], place[end]
        ax.annotate("", (x1, y1), (x0, y0), zorder=1, arrowprops={
            "arrowstyle": "-|>", "color": line[weight[-1]], "shrinkA": 17, "shrinkB": 17})
        at = {"V_f": 0.27, "W_b": 0.73, "U_f": 0.64, "U_b": 0.64}.get(weight, 0.5)
        ax.text(x0 + at * (x1 - x0), y0 + at * (y1 - y0), f"${weight[0]}^{{({weight[-1]})}}$",
                color=line[weight[-1]], ha="center", va="center", fontsize=10,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})
    for (kind, t), at in place.items():
        text, colour, *_ = kinds[kind]
        ax.text(*at, f"${text}_{t}$", ha="center", va="center", zorder=3, fontsize=12, bbox={
            "boxstyle": "circle,pad=0.35", "facecolor": colour, "edgecolor": "black",
            "linestyle": "--" if (kind, t) in (("f", 0), ("b", T + 1)) else "-"})
    ax.set_xlim(-0.6, T + 1.6)
    ax.set_ylim(-0.4, 3.4)
    ax.set_axis_off()
    ax.set_title("The bidirectional RNN for three steps (dashed: initial states)")


@question("000.3.1", "The graph of a bidirectional RNN", draw_unrolled_graph)
def solve_birnn_graph(say, step, answer, check, claim):
    """Draw the graph of a bidirectional RNN for three steps, with the initial states."""
    def node_name(node):
        return format_state_name(*node) if node[0] in SIDE else f"{node[0]}{'₀₁₂₃'[node[1]]}"

    arrows, large = list_edges(T), list_edges(3)
    states = [(side, t) for side in "fb" for t in range(1, T + 1)]
    reachable = {node: sorted(end for end in find_reachable(node, arrows) if end[0] == "y")
                 for node in states}
    nodes = {node for arrow in large for node in arrow[:2]}
    say(EXAMPLE[0])
    step("Make a node for every vector: the inputs, both kinds of states (with the initial states "
         "h₀⁽ᶠ⁾ and h_(T+1)⁽ᵇ⁾), and the outputs.", "T = 2: x₁..x₂, h₀⁽ᶠ⁾..h₂⁽ᶠ⁾, h₁⁽ᵇ⁾..h₃⁽ᵇ⁾, "
         f"y₁..y₂: {len({node for arrow in arrows for node in arrow[:2]})} nodes")
    step("Draw an arrow for every product in the three equations. The chain h⁽ᶠ⁾ goes to the right "
         "and the chain h⁽ᵇ⁾ to the left. They meet only in y.", "hₜ⁽ᶠ⁾ = tanh(W⁽ᶠ⁾ xₜ + U⁽ᶠ⁾ "
         "hₜ₋₁⁽ᶠ⁾)   hₜ⁽ᵇ⁾ = tanh(W⁽ᵇ⁾ xₜ + U⁽ᵇ⁾ hₜ₊₁⁽ᵇ⁾)", "yₜ = V⁽ᶠ⁾ hₜ⁽ᶠ⁾ + V⁽ᵇ⁾ hₜ⁽ᵇ⁾",
         format_table(("weight", "arrows"), [
             (kind[0] + SIDE[kind[-1]], " ".join(
                f"{node_name(a)}→{node_name(b)}" for a, b, weight in arrows if weight == kind))
             for kind in WEIGHTS]))
    step("Read the dependencies from the graph. The gradient of a state is a sum over all outputs "
         "that its arrows reach.", *(f"{node_name(node)} reaches {', '.join(map(node_name, ends))}"
                                     for node, ends in reachable.items()))
    answer(f"The graph has {len(arrows)} arrows for T = 2 and {len(large)} for T = 3, one for each "
           "weight and step. No arrow connects h⁽ᶠ⁾ and h⁽ᵇ⁾.")
    changed = {node: [("y", s + 1)
                      for s, slope in enumerate(state_derivative(*node, output_index=2))
                      if np.abs(slope).max() > 0] for node in states}
    check("A perturbation of a state changes exactly the outputs that its arrows reach.",
          changed == reachable)
    claim("", "The graph for three steps, with both initial states, is to be completed.",
          "no drawing", f"{len(nodes)} nodes (x_1..x_3, f_0..f_3, b_1..b_4, y_1..y_3) and "
          f"{len(large)} arrows, {len(large) // len(WEIGHTS)} for each of W_f, U_f, V_f, W_b, U_b, "
          "V_b; no arrow connects an f and a b", judge(changed == reachable, "no answer given"),
          "T = 2: a perturbation of a state changes exactly the outputs that its arrows reach "
          f"({sum(map(len, reachable.values()))} pairs); --figures draws the graph")
