"""Document 000, Questions 3.2 and 3.3: gradients of a bidirectional RNN, and its Jacobians."""

from functools import partial

import numpy as np

from exercises.d000.birnn_network import (
    EQUATIONS,
    EXAMPLE,
    LIMIT,
    NO_NUMBERS,
    document_gradients,
    example,
    forward,
    given,
    jacobian,
    library_gradients,
    small,
    sound,
    state,
    state_slopes,
    weight_slopes,
)
from exercises.framework import Claim, judge, proved
from exercises.probes import difference
from exercises.worked import Check, Solution, below, num, terms
from npdl_study.deviation import deviation

QUESTION = f"""{EQUATIONS}\
3.2   The gradients of L in h_t^(f) and h_t^(b) follow recursions. (a) Give the gradients of L_t,
      and the Jacobians dh_(t+1)^(f)/dh_t^(f) and dh_(t-1)^(b)/dh_t^(b) entry by entry, (b) as
      matrices.
3.3   Give the gradients of L in W^(b) and U^(f)."""
GROUND = NO_NUMBERS
TITLES = {"3.2": "Its gradients through time, and the Jacobians",
          "3.3": "Its gradients in the weights W⁽ᵇ⁾ and U⁽ᶠ⁾"}

claim = partial(Claim, "000", "Q3")


def claims(net=None):
    net = net or example()
    return [*recursion_claims(net), *local_claims(net), *jacobian_claims(net),
            *weight_claims(net), tanh_claim()]


def tanh_claim():
    z = np.linspace(-5, 5, 101)
    error = float(np.abs(np.diag(difference(np.tanh, z)) - (1 - np.tanh(z) ** 2)).max())
    return Claim("000", "Q3", "2a", "The derivative of tanh(z) is 1 - tanh^2(z).", "1 - tanh^2(z)",
                 "1 - tanh^2(z)", proved(error < 1e-9), f"differences on [-5, 5]: {below(error)}")


def recursion_claims(net):
    g, T = document_gradients(net), len(net.x)
    errors = {side: max(deviation(g["total", side, t], state_slopes(net, side, t))
                        for t in range(1, T + 1)) for side in "fb"}
    wrong_way = deviation(
        g["local", "b", 1] + jacobian(net.weights, "b", forward(net)[1][2]).T @ g["total", "b", 2],
        state_slopes(net, "b", 1))
    wrong_percent = 100 * wrong_way
    ours = sound(net)
    yield claim("2",
                "The gradient in f_t is that of L_t plus the Jacobian's transpose times the "
                "gradient in f_(t+1).", "formula given in the question", "holds for t < T",
                proved(ours and errors["f"] < LIMIT),
                f"differences in f_t: error {below(errors['f'])}")
    yield claim("2",
                "The gradient in b_t is that of L_t plus the Jacobian's transpose times the "
                "gradient in b_(t-1).", "formula given in the question", "holds for t > 1",
                proved(ours and errors["b"] < LIMIT),
                f"differences in b_t: error {below(errors['b'])}")
    yield claim("2", "Both recursions express the gradients at t by those at t + 1.",
                "the text says t + 1 for both", "t + 1 for f, t - 1 for b, as in the formulas",
                judge(wrong_way < LIMIT, if_false="slip", provided=errors["b"] < LIMIT),
                "an example, seed 0: "
                f"with t + 1 for b the gradient in b_1 is off by {wrong_percent:.0f} %")
    yield claim("2", "The recursions determine all gradients.", "no start is given",
                "they start from the gradient of L_T in f_T and that of L_1 in b_1",
                judge(max(errors.values()) < LIMIT, "under-specified"),
                "f_(T+1) and b_0 do not exist; with these two starts every gradient is right to "
                f"{below(max(errors.values()))}")


def local_claims(net):
    g, (_, _, y, _) = document_gradients(net), forward(net)
    found, t, ours = [], 2, sound(net)
    e = y[t - 1] - net.z[t - 1]
    slope = difference(lambda value: ((net.z[t - 1] - value) ** 2).sum(), y[t - 1])
    error = deviation(2 * e, slope)
    found.append(claim("2a", "The gradient of L_t in y_t is 2 (y_t - z_t).", "2 (y_t - z_t)",
                       "2 (y_t - z_t)", proved(ours and error < LIMIT),
                       f"differences: {below(error)}"))
    for side in "fb":
        V = net.weights["V_" + side]
        moved = state_slopes(net, side, t, value=2)[t - 1]  # d y_t / d f_t
        error = deviation(V, moved)
        found.append(claim("2a", f"dy_t / d{side}_t = V_{side}.", f"V_{side}", f"V_{side}",
                           proved(ours and error < LIMIT), f"differences: {below(error)}"))
        error = deviation(g["local", side, t], 2 * moved.T @ e)
        found.append(claim("2a", f"The gradient of L_t in {side}_t is 2 V_{side}^T (y_t - z_t).",
                           f"2 V_{side}^T (y_t - z_t)", f"2 V_{side}^T (y_t - z_t)",
                           proved(ours and error < LIMIT), f"differences: {below(error)}"))
    truth = difference(lambda f_t: ((net.z[t - 1] - net.weights["V_f"] @ f_t
                                     - net.weights["V_b"] @ forward(net)[1][t]) ** 2).sum(),
                       forward(net)[0][t])
    row = deviation(2 * e @ net.weights["V_f"], truth)
    wrong = deviation(net.weights["V_f"] @ (2 * e), truth)
    wrong_percent = 100 * wrong
    found.append(claim(
        "2a", "That gradient is (dL_t / dy_t)(dy_t / df_t), in this order.",
        "2 (y_t - z_t) times V, then V^T in front in the result",
        "as rows: 2 (y - z)^T V; as columns: V^T 2 (y - z); a column times V does not exist",
        judge(row < LIMIT < wrong, "convention"),
        "an example, seed 0: "
        f"the row agrees with differences to {below(row)}; V times the column (no transpose) is "
        f"off by {wrong_percent:.0f} %"))
    return found


def jacobian_claims(net):
    found, (f, b, _, _), ours = [], forward(net), sound(net)
    W = net.weights
    for side, after, before, x, text in (("f", f[3], f[2], net.x[2], "f_(t+1)"),
                                         ("b", b[1], b[2], net.x[0], "b_(t-1)")):
        slope = difference(lambda h, s=side, u=x: np.tanh(W["W_" + s] @ u + W["U_" + s] @ h),
                           before)
        entries = np.array([[(1 - after[i] ** 2) * W["U_" + side][i, j] for j in range(len(after))]
                            for i in range(len(after))])
        error = deviation(entries, slope)
        found.append(claim("2a", f"Entry (i, j) of d{text} / d{side}_t is (1 - {text}_i^2) "
                           f"(U_{side})_ij.", "as claimed", "as claimed",
                           proved(ours and error < LIMIT),
                           f"differences: {below(error)}"))
        matrix = jacobian(W, side, after)
        error = deviation(matrix, slope)
        other_percent = 100 * deviation(W["U_" + side] @ np.diag(1 - after ** 2), slope)
        found.append(claim("2b", f"As a matrix it is diag(1 - {text} * {text}) U_{side}.",
                           "derived in (a) already", "as claimed",
                           proved(ours and error < LIMIT),
                           "an example, seed 0: "
                           f"differences: {below(error)}; the other order, U diag, is off by "
                           f"{other_percent:.0f} %"))
    return found


def weight_claims(net):
    g, (library, _) = document_gradients(net), library_gradients(net)
    found = []
    for name, side, other in (("W_b", "b", "x_t"), ("U_f", "f", "h_(t-1)^(f)")):
        error = deviation(g[name], library[name])
        extra = "t = 1 counts too when f_0 is not zero" if name == "U_f" else "t = 1 to T"
        found.append(claim(
            "3", f"The gradient in {name} is the sum over t of diag(1 - (h_t^({side}))^2) times "
            f"the gradient in h_t^({side}) times {other}^T.", "as claimed", f"as claimed; {extra}",
            proved(error < LIMIT and sound(net)),
            f"differences and npdl's BiRNN: {below(error)}"))
        found.append(shape_claim(net, name, side, other))
    return [*found, partial_claim(net)]


def shape_claim(net, name, state, other):
    f, b, _, _ = forward(net)
    before, after = (b[3], b[2]) if name == "W_b" else (f[1], f[2])
    u, d = net.x[1], len(net.x[1])
    W = net.weights

    def step(matrix):
        if name == "W_b":
            return np.tanh(matrix @ u + W["U_b"] @ before)
        return np.tanh(W["W_f"] @ u + matrix @ before)

    tensor = difference(step, W[name])                      # (d, d, d)
    factor = u if name == "W_b" else before
    exact = np.einsum("i,ik,l->ikl", 1 - after ** 2, np.eye(d), factor)
    error = deviation(exact, tensor)
    try:                                                    # as printed: (d, d) times (1, d)
        printed = np.diag(1 - after ** 2) @ factor[None]
    except ValueError:
        printed = None
    return claim(
        "3", f"d{state}_t / d{name} is diag(1 - {state}_t^2) {other}^T.",
        "a d x d matrix times a 1 x d row",
        f"a d x d x d array: entry (i, k, l) is (1 - {state}_i^2) [i = k] ({other})_l",
        judge(printed is not None and np.allclose(printed.ravel(), tensor.ravel()),
              provided=error < LIMIT),
        f"d = {d}: differences give {' x '.join(map(str, tensor.shape))} numbers, the array above "
        f"to {below(error)}; d x d times 1 x d is not defined for d > 1",
        error="a vector's derivative by a matrix")


def partial_claim(net):
    """Which derivative belongs in the sum: with the total one, later effects count twice."""
    g, T, W = document_gradients(net), len(net.x), net.weights
    b = forward(net)[1]
    truth = weight_slopes(net, "W_b")
    total = [np.zeros((len(net.f_first), *W["W_b"].shape))]  # d b_(T+1) / d W_b
    for t in range(T, 0, -1):
        now = np.einsum("i,ik,l->ikl", 1 - b[t] ** 2, np.eye(len(b[t])), net.x[t - 1])
        total.append(now + np.einsum("ij,jkl->ikl", jacobian(W, "b", b[t]), total[-1]))
    twice = sum(np.einsum("i,ikl->kl", g["total", "b", t], total[T + 1 - t])
                for t in range(1, T + 1))
    once = sum(np.einsum("i,ikl->kl", g["local", "b", t], total[T + 1 - t])
               for t in range(1, T + 1))
    right = deviation(g["W_b"], truth) < LIMIT and deviation(once, truth) < LIMIT
    twice_percent = 100 * deviation(twice, truth)
    return claim(
        "3", "The gradient in W_b is the sum over t of (dL / db_t)(db_t / dW_b).",
        "chain rule, without saying which derivative of b_t",
        "db_t / dW_b with b_(t+1) held fixed; or the total derivative, but then with the gradient "
        "of L_t alone",
        judge(right, "under-specified"),
        "an example, seed 0: "
        "both readings agree with differences; total times total counts later effects twice and "
        f"is off by {twice_percent:.0f} %")


def solutions():
    net = small()
    return [state_solution(net), weight_solution(net)]


def state_solution(net):
    W, T = net.weights, len(net.x)
    f, b, y, _ = forward(net)
    g, e = document_gradients(net), y - net.z
    J_f, J_b = jacobian(W, "f", f[2]), jacobian(W, "b", b[1])
    right = max(deviation(g["total", side, t], state_slopes(net, side, t))
                for side in "fb" for t in range(1, T + 1))
    inputs_of_first = [*W["W_f"][0] * net.x[0], *W["U_f"][0] * f[0]]
    work = Solution("3.2", EXAMPLE, given(net))
    work.step("Run it forwards: h⁽ᶠ⁾ from the left, h⁽ᵇ⁾ from the right, then the outputs and "
              "their errors.",
              "hₜ⁽ᶠ⁾ = tanh(W⁽ᶠ⁾ xₜ + U⁽ᶠ⁾ hₜ₋₁⁽ᶠ⁾)   hₜ⁽ᵇ⁾ = tanh(W⁽ᵇ⁾ xₜ + U⁽ᵇ⁾ hₜ₊₁⁽ᵇ⁾)",
              f"(h₁⁽ᶠ⁾)₁ = tanh({terms(inputs_of_first, 2)}) = "
              f"{num(f[1][0])}",
              {"h₁⁽ᶠ⁾": f[1], "h₂⁽ᶠ⁾": f[2], "h₂⁽ᵇ⁾": b[2], "h₁⁽ᵇ⁾": b[1], "y₁ − z₁": e[0],
               "y₂ − z₂": e[1]})
    work.step("(a) Differentiate Lₜ alone. Its gradient in yₜ is twice the error; yₜ is V⁽ᶠ⁾ "
              "hₜ⁽ᶠ⁾ + …, and a gradient goes back through a matrix by its transpose.",
              "∇hₜ⁽ᶠ⁾ Lₜ = 2 V⁽ᶠ⁾ᵀ (yₜ − zₜ)      ∇hₜ⁽ᵇ⁾ Lₜ = 2 V⁽ᵇ⁾ᵀ (yₜ − zₜ)",
              f"(∇h₁⁽ᶠ⁾ L₁)₂ = 2 · ({num(W['V_f'][0, 1], 1)} · ({num(e[0][0])}) + "
              f"{num(W['V_f'][1, 1], 1)} · {num(e[0][1])}) = {num(g['local', 'f', 1][1])}",
              {"V⁽ᶠ⁾": W["V_f"], "∇h₁⁽ᶠ⁾ L₁": g["local", "f", 1], "∇h₂⁽ᶠ⁾ L₂": g["local", "f", 2],
                      "∇h₁⁽ᵇ⁾ L₁": g["local", "b", 1], "∇h₂⁽ᵇ⁾ L₂": g["local", "b", 2]})
    work.step("(a) Differentiate one entry of the next state: tanh' is 1 − tanh², and entry j of "
              "the state before enters entry i with the weight U_ij.",
              "(∂hₜ₊₁⁽ᶠ⁾/∂hₜ⁽ᶠ⁾)_ij = (1 − (hₜ₊₁⁽ᶠ⁾)_i²) (U⁽ᶠ⁾)_ij\n"
              "(∂hₜ₋₁⁽ᵇ⁾/∂hₜ⁽ᵇ⁾)_ij = (1 − (hₜ₋₁⁽ᵇ⁾)_i²) (U⁽ᵇ⁾)_ij",
              f"(∂h₂⁽ᶠ⁾/∂h₁⁽ᶠ⁾)₁₂ = (1 − {num(f[2][0])}²) · ({num(W['U_f'][0, 1])}) = "
              f"{num(J_f[0, 1])}")
    work.step(
        "(b) All entries together: row i of U is multiplied by a number of row i, which is a "
        "diagonal matrix on the left.",
        "∂hₜ₊₁⁽ᶠ⁾/∂hₜ⁽ᶠ⁾ = diag(1 − hₜ₊₁⁽ᶠ⁾²) U⁽ᶠ⁾      ∂hₜ₋₁⁽ᵇ⁾/∂hₜ⁽ᵇ⁾ = diag(1 − hₜ₋₁⁽ᵇ⁾²) U⁽ᵇ⁾",
        arrays={"U⁽ᶠ⁾": W["U_f"], "∂h₂⁽ᶠ⁾/∂h₁⁽ᶠ⁾": J_f, "U⁽ᵇ⁾": W["U_b"], "∂h₁⁽ᵇ⁾/∂h₂⁽ᵇ⁾": J_b})
    work.step("Go back along each chain, from its own last state: h⁽ᶠ⁾ from t = T to 1, h⁽ᵇ⁾ from "
              "t = 1 to T.",
              "∇h_T⁽ᶠ⁾ L = ∇h_T⁽ᶠ⁾ L_T      ∇hₜ⁽ᶠ⁾ L = ∇hₜ⁽ᶠ⁾ Lₜ + (∂hₜ₊₁⁽ᶠ⁾/∂hₜ⁽ᶠ⁾)ᵀ ∇hₜ₊₁⁽ᶠ⁾ "
              "L\n∇h₁⁽ᵇ⁾ L = ∇h₁⁽ᵇ⁾ L₁         ∇hₜ⁽ᵇ⁾ L = ∇hₜ⁽ᵇ⁾ Lₜ + (∂hₜ₋₁⁽ᵇ⁾/∂hₜ⁽ᵇ⁾)ᵀ "
              "∇hₜ₋₁⁽ᵇ⁾ L",
              f"(∇h₁⁽ᶠ⁾ L)₁ = {num(g['local', 'f', 1][0])} + ({num(J_f[0, 0])}) · "
              f"({num(g['total', 'f', 2][0])}) + ({num(J_f[1, 0])}) · "
              f"({num(g['total', 'f', 2][1])}) = {num(g['total', 'f', 1][0])}",
              {f"∇{state(side, t)} L": g["total", side, t] for side in "fb" for t in (1, 2)})
    work.answer = ("Local part 2 Vᵀ(y − z); Jacobians diag(1 − h⁽ᶠ⁾²) U⁽ᶠ⁾ (of the later state) "
                   "and diag(1 − h⁽ᵇ⁾²) U⁽ᵇ⁾ (of the earlier state); then the two recursions.")
    work.check("Moving each entry of h₁⁽ᶠ⁾, h₂⁽ᶠ⁾, h₁⁽ᵇ⁾, h₂⁽ᵇ⁾ by a little changes L at these "
               "rates.", right < LIMIT)
    return work


def weight_solution(net):
    f, b, _, _ = forward(net)
    g, (library, _) = document_gradients(net), library_gradients(net)
    a_b = [(1 - b[t] ** 2) * g["total", "b", t] for t in (1, 2)]
    a_f = [(1 - f[t] ** 2) * g["total", "f", t] for t in (1, 2)]
    entry = a_b[0][0] * net.x[0, 0]
    work = Solution("3.3", EXAMPLE, given(net))
    work.step("Start from the gradients in the states (Question 3.2), and go through the tanh: "
              "each entry is multiplied by its own slope.",
              "δₜ = (1 − hₜ²) * ∇hₜ L, entry by entry, in both directions",
              arrays={"δ₁⁽ᵇ⁾": a_b[0], "δ₂⁽ᵇ⁾": a_b[1], "δ₁⁽ᶠ⁾": a_f[0], "δ₂⁽ᶠ⁾": a_f[1]})
    work.step("One use of a matrix in W x makes the gradient δ xᵀ: entry (i, j) is δ_i x_j, "
              "because W_ij multiplies x_j and is added into entry i.",
              "W⁽ᵇ⁾ at step t: δₜ⁽ᵇ⁾ xₜᵀ      U⁽ᶠ⁾ at step t: δₜ⁽ᶠ⁾ hₜ₋₁⁽ᶠ⁾ᵀ",
              f"entry (1, 1) of δ₁⁽ᵇ⁾ x₁ᵀ = {num(a_b[0][0])} · {num(net.x[0, 0])} = "
              f"{num(entry)}",
              {"δ₁⁽ᵇ⁾ x₁ᵀ": np.outer(a_b[0], net.x[0]), "δ₂⁽ᵇ⁾ x₂ᵀ": np.outer(a_b[1], net.x[1]),
               "δ₁⁽ᶠ⁾ h₀⁽ᶠ⁾ᵀ": np.outer(a_f[0], f[0]), "δ₂⁽ᶠ⁾ h₁⁽ᶠ⁾ᵀ": np.outer(a_f[1], f[1])})
    work.step("The same matrix is used at every step, so its gradients are added. Nothing else is "
              "needed: what a step does to later ones is in ∇hₜ L already.",
              "∂L/∂W⁽ᵇ⁾ = Σₜ diag(1 − hₜ⁽ᵇ⁾²) ∇hₜ⁽ᵇ⁾ L xₜᵀ      ∂L/∂U⁽ᶠ⁾ = Σₜ diag(1 − hₜ⁽ᶠ⁾²) "
              "∇hₜ⁽ᶠ⁾ L hₜ₋₁⁽ᶠ⁾ᵀ",
              arrays={"∂L/∂W⁽ᵇ⁾": a_b[0][:, None] * net.x[0] + a_b[1][:, None] * net.x[1],
                      "∂L/∂U⁽ᶠ⁾": a_f[0][:, None] * f[0] + a_f[1][:, None] * f[1]})
    work.answer = ("∂L/∂W⁽ᵇ⁾ = Σₜ diag(1 − hₜ⁽ᵇ⁾²) ∇hₜ⁽ᵇ⁾ L xₜᵀ and ∂L/∂U⁽ᶠ⁾ = Σₜ diag(1 − "
                   "hₜ⁽ᶠ⁾²) ∇hₜ⁽ᶠ⁾ L hₜ₋₁⁽ᶠ⁾ᵀ, t = 1 to T.")
    work.checks.extend(
        tuple(Check(f"{whose}: the same two matrices.", all(
            deviation(sum(np.outer(a, v) for a, v in zip(deltas, inputs, strict=True)),
                     found[name]) < LIMIT
            for name, deltas, inputs in (("W_b", a_b, net.x), ("U_f", a_f, f[:2]))))
            for whose, found in (("npdl's BiRNN", library), (
                "Differences of L", {name: weight_slopes(net, name) for name in ("W_b", "U_f")}))))
    return work
