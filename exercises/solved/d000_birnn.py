"""The worked solutions of document 000, Question 3: a bidirectional RNN's graph and gradients."""

import numpy as np

from exercises.birnn_claims import dependencies
from exercises.d000_birnn import (
    WEIGHTS,
    Network,
    document_gradients,
    edges,
    forward,
    jacobian,
    library_gradients,
    relative,
    state_slopes,
    weight_slopes,
)
from exercises.worked import Check, Solution, Step, Table, num, sub, terms

EXAMPLE = "T = 2 steps of width d = 2, with matrices of halves and wholes; f₀ and b₃ are not zero."
LIMIT = 1e-8


def small():
    """The example: T = 2, d = 2."""
    matrices = ([[1, 0], [0.5, 1]], [[0.5, -1], [0, 0.5]], [[1, 0.5], [0, 1]],
                [[0, 1], [1, 0]], [[0.5, 0], [1, -0.5]], [[1, 0], [-1, 1]])
    weights = {name: np.array(matrix, float) for name, matrix in zip(WEIGHTS, matrices,
                                                                     strict=True)}
    return Network(weights, np.array([[1, 0], [0.5, -0.5]]), np.array([[1.0, 0], [0, 1]]),
                   np.array([0.5, 0]), np.array([0, -0.5]))


def given(net):
    """The example's matrices and vectors by name."""
    T = len(net.x)
    return net.weights | {f"x{sub(t)}": net.x[t - 1] for t in range(1, T + 1)} | {
        f"z{sub(t)}": net.z[t - 1] for t in range(1, T + 1)} | {
        "f₀": net.f_first, f"b{sub(T + 1)}": net.b_last}


def solutions():
    net = small()
    return [graph_solution(net), state_solution(net), weight_solution(net)]


def graph_solution(net):
    T = len(net.x)
    measured, drawn = dependencies(net)
    rows = tuple((kind, " ".join(f"{a}{sub(i)}→{b}{sub(j)}" for (a, i), (b, j), weight in edges(T)
                                 if weight == kind)) for kind in WEIGHTS)
    return Solution(
        "3.1",
        (Step("Make a node for every vector: inputs, both kinds of states (with the initial states "
              "f₀ and b_(T+1)), outputs.",
              numbers=f"T = {T}: x₁..x{sub(T)}, f₀..f{sub(T)}, b₁..b{sub(T + 1)}, y₁..y{sub(T)}: "
                      f"{4 * T + 2} nodes"),
         Step("Draw an arrow for every product in the three equations. The f-chain runs to the "
              "right, the b-chain to the left, and they meet only in y.",
              "fₜ = tanh(W_f xₜ + U_f fₜ₋₁)   bₜ = tanh(W_b xₜ + U_b bₜ₊₁)   yₜ = V_f fₜ + V_b bₜ",
              table=Table(("weight", "arrows"), rows)),
         Step("Read from it what depends on what: the gradient of a state collects from all "
              "outputs that its arrows reach.",
              numbers="\n".join(f"{side}{sub(t)} reaches " + ", ".join(
                  f"y{sub(s)}" for (node, s) in sorted(drawn) if node == (side, t))
                  for side in "fb" for t in range(1, T + 1)))),
        f"{len(edges(T))} arrows for T = {T} ({len(edges(3))} for T = 3), one of each weight "
        "a step, none between an f and a b.",
        (Check("Moving each state by a little moves exactly the outputs that its arrows reach.",
               measured == drawn),), EXAMPLE, picture="the graph for three steps")


def state_solution(net):
    W, T = net.weights, len(net.x)
    f, b, y, _ = forward(net)
    g, e = document_gradients(net), y - net.z
    J_f, J_b = jacobian(W, "f", f[2]), jacobian(W, "b", b[1])
    right = max(relative(g["total", side, t], state_slopes(net, side, t))
                for side in "fb" for t in range(1, T + 1))
    return Solution(
        "3.2",
        (Step("Run it forwards: f from the left, b from the right, then the outputs and their "
              "errors.", "fₜ = tanh(W_f xₜ + U_f fₜ₋₁)   bₜ = tanh(W_b xₜ + U_b bₜ₊₁)",
              f"(f₁)₁ = tanh({terms([*W['W_f'][0] * net.x[0], *W['U_f'][0] * f[0]], 2)}) = "
              f"{num(f[1][0])}",
              {"f₁": f[1], "f₂": f[2], "b₂": b[2], "b₁": b[1], "y₁ − z₁": e[0],
                      "y₂ − z₂": e[1]}),
         Step("(a) Differentiate L_t alone. Its gradient in yₜ is twice the error; yₜ is V_f fₜ + "
              "…, and a gradient goes back through a matrix by its transpose.",
              "∇_f L_t = 2 V_fᵀ (yₜ − zₜ)      ∇_b L_t = 2 V_bᵀ (yₜ − zₜ)",
              f"(∇f₁ L₁)₂ = 2 · ({num(W['V_f'][0, 1], 1)} · ({num(e[0][0])}) + "
              f"{num(W['V_f'][1, 1], 1)} · {num(e[0][1])}) = {num(g['local', 'f', 1][1])}",
              {"V_f": W["V_f"], "∇f₁ L₁": g["local", "f", 1], "∇f₂ L₂": g["local", "f", 2],
                      "∇b₁ L₁": g["local", "b", 1], "∇b₂ L₂": g["local", "b", 2]}),
         Step("(a) Differentiate one entry of the next state: tanh' is 1 − tanh², and entry j of "
              "the state before enters entry i with the weight U_ij.",
              "(∂fₜ₊₁/∂fₜ)_ij = (1 − (fₜ₊₁)_i²) (U_f)_ij"
              "      (∂bₜ₋₁/∂bₜ)_ij = (1 − (bₜ₋₁)_i²) (U_b)_ij",
              f"(∂f₂/∂f₁)₁₂ = (1 − {num(f[2][0])}²) · ({num(W['U_f'][0, 1])}) = {num(J_f[0, 1])}"),
         Step("(b) All entries together: row i of U is multiplied by a number of row i, which is a "
              "diagonal matrix on the left.",
              "∂fₜ₊₁/∂fₜ = diag(1 − fₜ₊₁²) U_f      ∂bₜ₋₁/∂bₜ = diag(1 − bₜ₋₁²) U_b",
              arrays={"U_f": W["U_f"], "∂f₂/∂f₁": J_f, "U_b": W["U_b"], "∂b₁/∂b₂": J_b}),
         Step("Go back along each chain, from its own last state: f from t = T to 1, b from t = 1 "
              "to T.",
              "∇f_T L = ∇f_T L_T      ∇fₜ L = ∇fₜ L_t + (∂fₜ₊₁/∂fₜ)ᵀ ∇fₜ₊₁ L\n"
              "∇b₁ L = ∇b₁ L₁         ∇bₜ L = ∇bₜ L_t + (∂bₜ₋₁/∂bₜ)ᵀ ∇bₜ₋₁ L",
              f"(∇f₁ L)₁ = {num(g['local', 'f', 1][0])} + ({num(J_f[0, 0])}) · "
              f"({num(g['total', 'f', 2][0])}) + ({num(J_f[1, 0])}) · "
              f"({num(g['total', 'f', 2][1])}) = {num(g['total', 'f', 1][0])}",
              {f"∇{side}{sub(t)} L": g["total", side, t] for side in "fb" for t in (1, 2)})),
        "Local part 2 Vᵀ(y − z); Jacobians diag(1 − f²) U_f (of the later state f) and "
        "diag(1 − b²) U_b (of the earlier state b); then the two recursions.",
        (Check("Moving each entry of f₁, f₂, b₁, b₂ by a little changes L at these rates.",
               right < LIMIT),), EXAMPLE, given(net))


def weight_solution(net):
    f, b, _, _ = forward(net)
    g, (library, _) = document_gradients(net), library_gradients(net)
    a_b = [(1 - b[t] ** 2) * g["total", "b", t] for t in (1, 2)]
    a_f = [(1 - f[t] ** 2) * g["total", "f", t] for t in (1, 2)]
    return Solution(
        "3.3",
        (Step("Start from the gradients in the states (Question 3.2), and go through the tanh: "
              "each entry is multiplied by its own slope.",
              "δₜ = (1 − hₜ²) * ∇hₜ L, entry by entry, for h = b and h = f",
              arrays={"δᵇ₁": a_b[0], "δᵇ₂": a_b[1], "δᶠ₁": a_f[0], "δᶠ₂": a_f[1]}),
         Step("One use of a matrix in W x makes the gradient δ xᵀ: entry (i, j) is δ_i x_j, "
              "because W_ij multiplies x_j and is added into entry i.",
              "W_b at step t: δᵇₜ xₜᵀ      U_f at step t: δᶠₜ fₜ₋₁ᵀ",
              f"entry (1, 1) of δᵇ₁ x₁ᵀ = {num(a_b[0][0])} · {num(net.x[0, 0])} = "
              f"{num(a_b[0][0] * net.x[0, 0])}",
              {"δᵇ₁ x₁ᵀ": np.outer(a_b[0], net.x[0]), "δᵇ₂ x₂ᵀ": np.outer(a_b[1], net.x[1]),
               "δᶠ₁ f₀ᵀ": np.outer(a_f[0], f[0]), "δᶠ₂ f₁ᵀ": np.outer(a_f[1], f[1])}),
         Step("The same matrix is used at every step, so its gradients are added. Nothing else is "
              "needed: what a step does to later ones is in ∇hₜ L already.",
              "∂L/∂W_b = Σₜ diag(1 − bₜ²) ∇bₜ L xₜᵀ      ∂L/∂U_f = Σₜ diag(1 − fₜ²) ∇fₜ L fₜ₋₁ᵀ",
              arrays={"∂L/∂W_b": a_b[0][:, None] * net.x[0] + a_b[1][:, None] * net.x[1],
                      "∂L/∂U_f": a_f[0][:, None] * f[0] + a_f[1][:, None] * f[1]})),
        "∂L/∂W_b = Σₜ diag(1 − bₜ²) ∇bₜ L xₜᵀ and ∂L/∂U_f = Σₜ diag(1 − fₜ²) ∇fₜ L fₜ₋₁ᵀ, "
        "t = 1 to T.",
        tuple(Check(f"{whose}: the same two matrices.", all(
            relative(sum(np.outer(a, v) for a, v in zip(deltas, inputs, strict=True)),
                     found[name]) < LIMIT
            for name, deltas, inputs in (("W_b", a_b, net.x), ("U_f", a_f, f[:2]))))
            for whose, found in (("npdl's BiRNN", library), (
                "Differences of L", {name: weight_slopes(net, name) for name in ("W_b", "U_f")}))),
        EXAMPLE, given(net))
