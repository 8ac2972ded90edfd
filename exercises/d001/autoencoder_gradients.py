"""Document 001, Question 3: the gradients of an autoencoder that combines two word vectors.

x = [x₁; x₂], h = W₁ x + b₁, p = ReLU(h), x' = W₂ p + b₂, J₁ = ½ ‖x' − x‖²; the label is
predicted by ŷ = W₃ p + b₃, with J₂ = CE(y, ŷ) and J = J₁ + J₂.
"""

import math

import numpy as np

from exercises.course import arrays, judge, question, table
from exercises.d001.bptt_shapes import derivative
from npdl.layers.activation import ReLU
from npdl.losses import CrossEntropy
from npdl.models.autoencoder import Autoencoder, AutoencoderLoss

W_1, b_1 = np.array([[1.0, 0, 1, 0], [0, 1, 0, -1]]), np.array([0.0, -1])
W_2, b_2 = np.array([[1.0, 0], [0, 1], [1, 1], [0, 2]]), np.array([0.0, 0, 1, 0])
W_3, b_3, X = np.eye(2), np.zeros(2), np.array([1.0, 2, 1, 3])
GIVEN = arrays({"W₁": W_1, "b₁": b_1, "W₂": W_2, "b₂": b_2, "x": X})
EXAMPLE = "Two words of width D_x = 2, x₁ = (1, 2) and x₂ = (1, 3), and a code of D_p = 2 units."
SAME = "differences of J₁ give the same numbers"

h = W_1 @ X + b_1
p = np.maximum(h, 0)
e = W_2 @ p + b_2 - X                       # x' − x
d_1 = W_2.T @ e
d_2 = np.where(h > 0, d_1, 0)
dW_1 = np.outer(d_2, X)


def loss(p):
    """Return J₁ of a code."""
    return ((W_2 @ p + b_2 - X) ** 2).sum() / 2


def library_gradients():
    """Return ∂J₁/∂W₁ and ∂J/∂W₁ of npdl's autoencoder, for the label 0."""
    model = Autoencoder(2, 2, 2, dtype="float64")
    for layer, W, b in ((model.encoder, W_1, b_1), (model.decoder, W_2, b_2),
                        (model.classifier, W_3, b_3)):
        layer.W.data[...], layer.b.data[...] = W.T, b
    J, found = AutoencoderLoss(model), []
    for upstream in ((1.0, None), (1.0, 1.0)):
        J.zero_grad()
        _, cache = J.forward(X[None, :2], X[None, 2:], np.array([0]))
        J.backward(upstream, cache)
        found.append(model.encoder.W.grad.T.copy())
    return found


def gradient_claim(check, claim, says, answer, ours, slopes, evidence="differences"):
    """Check a gradient against differences, and add the claim that asks for it."""
    same = np.allclose(ours, slopes, 0, 1e-7)
    check(SAME, same)
    claim("", says, "none", answer, judge(same, "no answer given"), f"{evidence}: error below 1e-7")


@question("001.3.1", "An autoencoder's gradient in its code p")
def by_code(say, step, answer, check, claim):
    """Give δ₁ = ∂J₁/∂p."""
    squares = " + ".join(f"{v * v:.0f}" for v in e)
    products = " + ".join(f"({a:.0f}) · {w:.0f}" for a, w in zip(e, W_2[:, 0], strict=True))
    say(EXAMPLE, GIVEN)
    step("Run it forwards.", "h = W₁ x + b₁    p = ReLU(h)    x' = W₂ p + b₂",
         f"J₁ = ½ ‖x' − x‖² = ({squares}) / 2 = {loss(p):.1f}",
         arrays({"h": h, "p": p, "x'": e + X, "x' − x": e}))
    step("Write J₁ as a sum, and differentiate it by one entry of p: p_k enters every x'_i "
         "with the weight (W₂)_ik; the ½ cancels the 2 of the square.",
         "∂J₁/∂p_k = Σ_i (x'_i − x_i) (W₂)_ik", f"∂J₁/∂p₁ = {products} = {d_1[0]:.0f}")
    step("The sum runs over the rows of W₂, so it is a product with the transpose. x itself "
         "is held fixed: it is the target here.", "δ₁ = W₂ᵀ (x' − x)", arrays({"δ₁": d_1}))
    answer("δ₁ = W₂ᵀ (x' − x), D_p numbers.")
    gradient_claim(check, claim, "dJ_1/dp.", "W_2^T (x' - x), D_p numbers", d_1,
                   derivative(loss, p))
    matrix, logits, relu = np.array([[5, 0], [-3, 7]]), W_3 @ p + b_3, ReLU()
    value, _ = CrossEntropy().forward(logits[None], np.array([0]))
    right, left = (abs(relu.forward(np.array([s]))[0][0] / s) for s in (1e-6, -1e-6))
    ours = relu.backward(np.ones(1), relu.forward(np.zeros(1))[1])[0]
    claim("", "W_1 x = W_11 x_1 + W_12 x_2.", "as claimed", "as claimed",
          judge(np.allclose(W_1[:, :2] @ X[:2] + W_1[:, 2:] @ X[2:], W_1 @ X, 0, 1e-12)),
          "identity error below 1e-12")
    claim("", "J_1 computes the Euclidean distance between input and reconstruction.",
          "Euclidean distance", "half its square",
          judge(math.isclose(loss(p), np.linalg.norm(e)), if_false="slip"),
          f"in the example the distance is {np.linalg.norm(e):.3f}, J_1 = {loss(p):g}; their "
          "gradients differ too")
    claim("", "J_2 is the cross-entropy of the label y and the prediction y^ = W_3 p + b_3.",
          "CE(y, y^)", f"CE(y, softmax(y^)) = {value:.3f} here",
          judge(logits.sum() != 1, "under-specified"),
          f"y^ = ({logits[0]:g}, {logits[1]:g}) is no distribution; holds if CE applies the "
          "softmax, as npdl's does")
    claim("", "1{[[5, 0], [-3, 7]] > 0} = [[1, 0], [0, 1]].", "[[1, 0], [0, 1]]",
          str((matrix > 0).astype(int).tolist()), judge(np.array_equal(matrix > 0, np.eye(2))),
          "entry by entry")
    claim("", "The derivative of ReLU at 0 is 0.", "1{x > 0}: 0 at 0",
          f"none: the slope is {right:g} on the right and {left:g} on the left",
          judge(left <= ours <= right and left < right, "convention"),
          f"any number from {left:g} to {right:g} is a subgradient; npdl takes {ours:g}")


@question("001.3.2", "An autoencoder's gradient before the ReLU")
def before_relu(say, step, answer, check, claim):
    """Give δ₂ = ∂J₁/∂h in terms of δ₁."""
    say(EXAMPLE, GIVEN)
    step("p_k = max(0, h_k) depends on h_k alone, with the slope 1 above 0 and 0 below.",
         "∂p_k/∂h_k = 1{h_k > 0}",
         table(("unit", "h", "1{h > 0}", "δ₁", "δ₂"),
               list(zip((1, 2), h, (h > 0).astype(int), d_1, d_2, strict=True)), 0))
    step("Multiply entry by entry: what did not pass forwards lets nothing pass backwards. "
         "(At h = 0 there is no slope; 0 is the usual choice.)", "δ₂ = δ₁ * 1{h > 0}",
         arrays({"δ₂": d_2}))
    answer("δ₂ = δ₁ * 1{h > 0}, entry by entry.")
    gradient_claim(check, claim, "dJ_1/dh in terms of d_1.", "d_1 * 1{h > 0}, entry by entry", d_2,
                   derivative(lambda h: loss(np.maximum(h, 0)), h))


@question("001.3.3", "An autoencoder's gradient in W_1")
def by_weights(say, step, answer, check, claim):
    """Give ∂J₁/∂W₁ in terms of δ₂."""
    say(EXAMPLE, GIVEN)
    step("Start from δ₂ = ∂J₁/∂h of Question 3.2. (W₁)_kj multiplies x_j and is added into "
         "h_k, and into nothing else.", "∂h_k/∂(W₁)_kj = x_j   →   ∂J₁/∂(W₁)_kj = (δ₂)_k x_j",
         f"entry (1, 2): {d_2[0]:.0f} · {X[1]:.0f} = {d_2[0] * X[1]:.0f}",
         arrays({"δ₂ (3.2)": d_2, "x": X}))
    step("All entries together are a column times a row: it has the shape of W₁.",
         "∂J₁/∂W₁ = δ₂ xᵀ = [δ₂ x₁ᵀ  δ₂ x₂ᵀ]", arrays({"δ₂": d_2, "xᵀ": X[None], "∂J₁/∂W₁": dW_1}))
    answer("∂J₁/∂W₁ = δ₂ xᵀ, D_p x 2 D_x; its halves are the gradients of W₁₁ and W₁₂.")
    first, total = library_gradients()
    check("npdl's autoencoder has the same gradient of J₁", np.allclose(first, dW_1, 0, 1e-11))
    gradient_claim(check, claim, "dJ_1/dW_1 in terms of d_2.",
                   "d_2 x^T (D_p x 2 D_x): [d_2 x_1^T, d_2 x_2^T]", dW_1,
                   derivative(lambda W: loss(np.maximum(W @ X + b_1, 0)), W_1),
                   "differences, and npdl's backward of J_1 alone")
    share = abs(total - first).max() / abs(total).max()
    claim("", "The network is trained with these gradients.", "total loss J, gradients of J_1",
          "J_2 adds (W_3^T (softmax(y^) - y) * 1{h > 0}) x^T to the gradient in W_1",
          judge(share > 1e-3, "under-specified"),
          f"npdl's backward of J and of J_1 differ by {100 * share:.0f} % of the largest entry")
