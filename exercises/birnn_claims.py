"""What document 000, Question 3 claims, judged with the functions of d000_birnn."""

from functools import partial

import numpy as np

from exercises.d000_birnn import (
    WEIGHTS,
    difference,
    document_gradients,
    edges,
    example,
    forward,
    jacobian,
    library_gradients,
    relative,
    state_slopes,
    weight_slopes,
)
from exercises.framework import Claim, judge
from exercises.shown import below

LIMIT = 1e-8

claim = partial(Claim, "000", "Q3")


def all_claims(net=None):
    net = net or example()
    return [graph_claim(net), *recursion_claims(net), *local_claims(net), *jacobian_claims(net),
            *weight_claims(net)]


def sound(net):
    """Whether what we compare by is right: npdl's BiRNN, which is written apart, agrees, as do
    the entries of a Jacobian, and the differences of a sine."""
    library, L = library_gradients(net)
    f, b, _, ours = forward(net)
    by_states = sum(np.outer((1 - b[t] ** 2) * state_slopes(net, "b", t), x)
                    for t, x in enumerate(net.x, 1))
    errors = [abs(L - ours) / L, np.abs(f[0] - net.f_first).max(),
              relative(library["W_b"], by_states), relative(difference(np.sin, b[1]),
                                                            np.diag(np.cos(b[1]))),
              *(relative(jacobian(net.weights, side, b[1]),
                         (1 - b[1] ** 2)[:, None] * net.weights["U_" + side]) for side in "fb"),
              *(relative(library[name], weight_slopes(net, name)) for name in WEIGHTS)]
    return bool(max(errors) < LIMIT)


def dependencies(net):
    """{(from, to)}: which x_t, f_t, b_t move which y_s, counted by differences and by the graph.

    Returns both sets; an end is reached when any entry of the slope is not zero.
    """
    T = len(net.x)
    measured = set()
    for direction in "fb":
        for t in range(1, T + 1):
            slopes = state_slopes(net, direction, t, value=2)
            measured |= {((direction, t), s + 1) for s in range(T) if np.abs(slopes[s]).max() > 0}
    children = {}
    for start, end, _ in edges(T):
        children.setdefault(start, set()).add(end)

    def reached(node):
        return {node}.union(*(reached(child) for child in children.get(node, ())))

    drawn = {((direction, t), end[1]) for direction in "fb" for t in range(1, T + 1)
             for end in reached((direction, t)) if end[0] == "y"}
    return measured, drawn


def graph_claim(net):
    measured, drawn = dependencies(net)
    arrows = edges(3)
    nodes = {node for start, end, _ in arrows for node in (start, end)}
    each = len(arrows) // len(WEIGHTS)
    return claim(
        "1", "The graph for three steps, with both initial states, is to be completed.",
        "no drawing",
        f"{len(nodes)} nodes (x_1..x_3, f_0..f_3, b_1..b_4, y_1..y_3) and {len(arrows)} arrows, "
        f"{each} for each of W_f, U_f, V_f, W_b, U_b, V_b; no arrow joins an f and a b",
        judge(measured == drawn, "no answer given"),
        f"moving each state moves exactly the outputs that the arrows reach "
        f"({len(measured & drawn)} of {len(drawn)} pairs)",
    )


def recursion_claims(net):
    g, T = document_gradients(net), len(net.x)
    errors = {side: max(relative(g["total", side, t], state_slopes(net, side, t))
                        for t in range(1, T + 1)) for side in "fb"}
    wrong_way = relative(
        g["local", "b", 1] + jacobian(net.weights, "b", forward(net)[1][2]).T @ g["total", "b", 2],
        state_slopes(net, "b", 1))
    ours = sound(net)
    return [
        claim("2", "The gradient in f_t is that of L_t plus the Jacobian's transpose times the "
              "gradient in f_(t+1).", "formula given in the question", "holds for t < T",
              judge(errors["f"] < LIMIT, provided=ours),
              f"differences in f_t: error {below(errors['f'])}"),
        claim("2", "The gradient in b_t is that of L_t plus the Jacobian's transpose times the "
              "gradient in b_(t-1).", "formula given in the question", "holds for t > 1",
              judge(errors["b"] < LIMIT, provided=ours),
              f"differences in b_t: error {below(errors['b'])}"),
        claim("2", "Both recursions express the gradients at t by those at t + 1.",
              "the text says t + 1 for both", "t + 1 for f, t - 1 for b, as in the formulas",
              judge(wrong_way < LIMIT, if_false="slip", provided=errors["b"] < LIMIT),
              f"with t + 1 for b the gradient in b_1 is off by {100 * wrong_way:.0f} %"),
        claim("2", "The recursions determine all gradients.", "no start is given",
              "they start from the gradient of L_T in f_T and that of L_1 in b_1",
              judge(max(errors.values()) < LIMIT, "under-specified"),
              "f_(T+1) and b_0 do not exist; with these two starts every gradient is right to "
              f"{below(max(errors.values()))}"),
    ]


def local_claims(net):
    g, (_, _, y, _) = document_gradients(net), forward(net)
    found, t, ours = [], 2, sound(net)
    e = y[t - 1] - net.z[t - 1]
    slope = difference(lambda value: ((net.z[t - 1] - value) ** 2).sum(), y[t - 1])
    error = relative(2 * e, slope)
    found.append(claim("2a", "The gradient of L_t in y_t is 2 (y_t - z_t).", "2 (y_t - z_t)",
                       "2 (y_t - z_t)", judge(error < LIMIT, provided=ours),
                       f"differences: {below(error)}"))
    for side in "fb":
        V = net.weights["V_" + side]
        moved = state_slopes(net, side, t, value=2)[t - 1]  # d y_t / d f_t
        error = relative(V, moved)
        found.append(claim("2a", f"dy_t / d{side}_t = V_{side}.", f"V_{side}", f"V_{side}",
                           judge(error < LIMIT, provided=ours), f"differences: {below(error)}"))
        error = relative(g["local", side, t], 2 * moved.T @ e)
        found.append(claim("2a", f"The gradient of L_t in {side}_t is 2 V_{side}^T (y_t - z_t).",
                           f"2 V_{side}^T (y_t - z_t)", f"2 V_{side}^T (y_t - z_t)",
                           judge(error < LIMIT, provided=ours), f"differences: {below(error)}"))
    truth = difference(lambda f_t: ((net.z[t - 1] - net.weights["V_f"] @ f_t
                                     - net.weights["V_b"] @ forward(net)[1][t]) ** 2).sum(),
                       forward(net)[0][t])
    row = relative(2 * e @ net.weights["V_f"], truth)
    wrong = relative(net.weights["V_f"] @ (2 * e), truth)
    found.append(claim(
        "2a", "That gradient is (dL_t / dy_t)(dy_t / df_t), in this order.",
        "2 (y_t - z_t) times V, then V^T in front in the result",
        "as rows: 2 (y - z)^T V; as columns: V^T 2 (y - z); a column times V does not exist",
        judge(row < LIMIT < wrong, "convention"),
        f"the row agrees with differences to {below(row)}; V times the column (no transpose) is "
        f"off by {100 * wrong:.0f} %"))
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
        error = relative(entries, slope)
        found.append(claim("2a", f"Entry (i, j) of d{text} / d{side}_t is (1 - {text}_i^2) "
                           f"(U_{side})_ij.", "as claimed", "as claimed",
                           judge(error < LIMIT, provided=ours),
                           f"differences: {below(error)}"))
        matrix = jacobian(W, side, after)
        error = relative(matrix, slope)
        other = relative(W["U_" + side] @ np.diag(1 - after ** 2), slope)
        found.append(claim("2b", f"As a matrix it is diag(1 - {text} * {text}) U_{side}.",
                           "derived in (a) already", "as claimed",
                           judge(error < LIMIT, provided=ours),
                           f"differences: {below(error)}; the other order, U diag, is off by "
                           f"{100 * other:.0f} %"))
    return found


def weight_claims(net):
    g, (library, _) = document_gradients(net), library_gradients(net)
    found = []
    for name, state, other in (("W_b", "b", "x_t"), ("U_f", "f", "f_(t-1)")):
        error = relative(g[name], library[name])
        extra = "t = 1 counts too when f_0 is not zero" if name == "U_f" else "t = 1 to T"
        found.append(claim(
            "3", f"The gradient in {name} is the sum over t of diag(1 - {state}_t^2) times the "
            f"gradient in {state}_t times {other}^T.", "as claimed", f"as claimed; {extra}",
            judge(error < LIMIT, provided=sound(net)),
            f"differences and npdl's BiRNN: {below(error)}"))
        found.append(shape_claim(net, name, state, other))
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
    error = relative(exact, tensor)
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
    right = relative(g["W_b"], truth) < LIMIT and relative(once, truth) < LIMIT
    return claim(
        "3", "The gradient in W_b is the sum over t of (dL / db_t)(db_t / dW_b).",
        "chain rule, without saying which derivative of b_t",
        "db_t / dW_b with b_(t+1) held fixed; or the total derivative, but then with the gradient "
        "of L_t alone",
        judge(right, "under-specified"),
        "both readings agree with differences; total times total counts later effects twice and "
        f"is off by {100 * relative(twice, truth):.0f} %")
