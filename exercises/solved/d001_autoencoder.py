"""The worked solutions of document 001, Question 3: an autoencoder forwards and backwards."""

import numpy as np

from exercises.d001_autoencoder import forward, library_gradients, numerical_gradients
from exercises.worked import Check, Solution, Step, Table, num

NET = {
    "W_1": np.array([[1.0, 0, 1, 0], [0, 1, 0, -1]]), "b_1": np.array([0.0, -1]),
    "W_2": np.array([[1.0, 0], [0, 1], [1, 1], [0, 2]]), "b_2": np.array([0.0, 0, 1, 0]),
    "W_3": np.eye(2), "b_3": np.zeros(2), "x": np.array([1.0, 2, 1, 3]),
}
GIVEN = {"W₁": NET["W_1"], "b₁": NET["b_1"], "W₂": NET["W_2"], "b₂": NET["b_2"], "x": NET["x"]}
EXAMPLE = "Two words of width D_x = 2, x₁ = (1, 2) and x₂ = (1, 3), and a code of D_p = 2 units."


def backward(net, h, again):
    """(x' - x, d_1, d_2, dJ_1/dW_1)."""
    e = again - net["x"]
    d_1 = net["W_2"].T @ e
    d_2 = np.where(h > 0, d_1, 0)
    return e, d_1, d_2, np.outer(d_2, net["x"])


def solutions():
    h, p, again, J = forward(NET)
    (e, d_1, d_2, whole), slopes = backward(NET, h, again), numerical_gradients(NET)

    def differences(name, ours):
        return Check("Differences of J₁ give the same numbers.",
                     np.allclose(ours, slopes[name], atol=1e-7))

    products = [f"({num(a, 0)}) · {num(w, 0)}"
                for a, w in zip(e.tolist(), NET["W_2"][:, 0].tolist(), strict=True)]
    return [
        Solution("3.1", (
            Step("Run it forwards.", "h = W₁ x + b₁    p = ReLU(h)    x' = W₂ p + b₂",
                 f"J₁ = ½ ‖x' − x‖² = ({' + '.join(f'{num(v * v, 0)}' for v in e.tolist())}) / 2 = "
                 f"{num(J, 1)}", {"h": h, "p": p, "x'": again, "x' − x": e}),
            Step("Write J₁ as a sum, and differentiate it by one entry of p: p_k enters every "
                 "x'_i with the weight (W₂)_ik; the ½ cancels the 2 of the square.",
                 "∂J₁/∂p_k = Σ_i (x'_i − x_i) (W₂)_ik",
                 f"∂J₁/∂p₁ = {' + '.join(products)} = {num(d_1[0], 0)}"),
            Step("The sum runs over the rows of W₂, so it is a product with the transpose. x "
                 "itself is held fixed: it is the target here.", "δ₁ = W₂ᵀ (x' − x)",
                 arrays={"δ₁": d_1})),
            "δ₁ = W₂ᵀ (x' − x), D_p numbers.", (differences("d_1", d_1),), EXAMPLE, GIVEN),
        Solution("3.2", (
            Step("p_k = max(0, h_k) depends on h_k alone, with the slope 1 above 0 and 0 below.",
                 "∂p_k/∂h_k = 1{h_k > 0}", table=Table(
                     ("unit", "h", "1{h > 0}", "δ₁", "δ₂"),
                     tuple((k + 1, *row) for k, row in enumerate(zip(
                         h.tolist(), (h > 0).astype(int).tolist(), d_1.tolist(), d_2.tolist(),
                         strict=True))), 0)),
            Step("Multiply entry by entry: what did not pass forwards lets nothing pass backwards. "
                 "(At h = 0 there is no slope; 0 is the usual choice.)",
                 "δ₂ = δ₁ * 1{h > 0}", arrays={"δ₂": d_2})),
            "δ₂ = δ₁ * 1{h > 0}, entry by entry.", (differences("d_2", d_2),), EXAMPLE, GIVEN),
        Solution("3.3", (
            Step("Start from δ₂ = ∂J₁/∂h of Question 3.2. (W₁)_kj multiplies x_j and is added into "
                 "h_k, and into nothing else.",
                 "∂h_k/∂(W₁)_kj = x_j   →   ∂J₁/∂(W₁)_kj = (δ₂)_k x_j",
                 f"entry (1, 2): {num(d_2[0], 0)} · {num(NET['x'][1], 0)} = "
                 f"{num(d_2[0] * NET['x'][1], 0)}", {"δ₂ (3.2)": d_2, "x": NET["x"]}),
            Step("All entries together are a column times a row: it has the shape of W₁.",
                 "∂J₁/∂W₁ = δ₂ xᵀ = [δ₂ x₁ᵀ  δ₂ x₂ᵀ]",
                 arrays={"δ₂": d_2, "xᵀ": NET["x"][None], "∂J₁/∂W₁": whole})),
            "∂J₁/∂W₁ = δ₂ xᵀ, D_p x 2 D_x; its halves are the gradients of W₁₁ and W₁₂.",
            (differences("W_1", whole),
             Check("npdl's autoencoder has the same gradient of J₁.",
                   np.allclose(whole, library_gradients(NET)[0], atol=1e-11))), EXAMPLE, GIVEN),
    ]
