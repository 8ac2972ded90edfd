"""Document 001, Questions 2 and 3: the shapes of derivatives, and the gradients of an autoencoder.

The autoencoder combines two word vectors: x = [x₁; x₂], h = W₁ x + b₁, p = ReLU(h), x' = W₂ p + b₂,
J₁ = ½ ‖x' − x‖²; the label is predicted by ŷ = W₃ p + b₃, with J₂ = CE(y, ŷ) and J = J₁ + J₂.
"""

import math

import numpy as np

from exercises.course import format_arrays, format_table, judge, question
from npdl.layers.activation import ReLU
from npdl.losses import CrossEntropy
from npdl.models.autoencoder import Autoencoder, AutoencoderLoss

N, M, P = 2, 2, 3
H = np.array([[1.0, 2.0], [0.0, -1.0]])
V = np.array([[1.0, 0.0], [2.0, -1.0]])
TARGET = np.array([[4.0, -1.0], [-2.0, 2.0]])
X = np.array([1.0, 0.0, -1.0])
A = np.array([[[1, 0, 2], [0, 1, 0]], [[1, 1, 0], [0, 0, -1]]], float)     # H = A x
EXAMPLE = f"n = {N}, m = {M}, p = {P}. O = H V, and L is the sum of squares of O − target."
RULE = ("The derivative of an array of shape s with respect to an array of shape t has one entry "
        "for each pair of their entries. Its shape is s followed by t.")


def derivative(function, x, spacing=1e-3):
    """Return d function(x) / dx by finite differences, with the shape of the value, then of x."""
    def shifted(entry, shift):
        point = x.copy()
        point[entry] += shift
        return np.asarray(function(point))

    partials = [(8 * (shifted(i, spacing) - shifted(i, -spacing))
                 - (shifted(i, 2 * spacing) - shifted(i, -2 * spacing)))
                / (12 * spacing) for i in np.ndindex(x.shape)]
    return np.stack(partials, -1).reshape(*partials[0].shape, *x.shape)


def squared_error(out):
    """Return the sum of squared differences from TARGET."""
    return ((out - TARGET) ** 2).sum()


def format_shape(shape):
    """Return a shape as text, such as "2 x 2 x 3"."""
    return " x ".join(map(str, shape))


def claim_shape(check, claim, symbol, numeric, ours, answer, more=""):
    """Check our derivative `ours` against finite differences, and add a claim on its shape."""
    check(f"Finite differences give an array {format_shape(numeric.shape)} with the same entries.",
          numeric.shape == ours.shape and np.allclose(numeric, ours, atol=1e-6))
    claim("", f"Dimensions of {symbol}.", "none", answer,
          judge(numeric.shape == ours.shape, "no answer given"),
          f"n = {N}, m = {M}, p = {P}: finite differences: {format_shape(numeric.shape)} numbers"
          + more)


@question("001.2.1", "The shape of dL/dO")
def solve_shape_of_dL_dO(say, step, answer, check, claim):
    """Give the dimensions of ∂L/∂O for a scalar loss L and an output matrix O (n x m)."""
    out = H @ V
    dL = 2 * (out - TARGET)
    say(EXAMPLE)
    step(RULE, "∂L/∂O: () and (n, m) give (n, m)")
    step("L is a scalar, so there is one partial derivative for each entry of O. The gradient has "
         "the shape of O.", "∂L/∂O_ij = 2 (O_ij − target_ij)",
         f"entry (1, 1): 2 · ({out[0, 0]:.0f} − {TARGET[0, 0]:.0f}) = {dL[0, 0]:.0f}",
         format_arrays({"O": out, "target": TARGET, "∂L/∂O": dL}))
    answer(f"∂L/∂O is n x m, here {format_shape(out.shape)}.")
    claim_shape(check, claim, "dL/dO", derivative(squared_error, out), dL, "n x m")
    dO, dH = derivative(squared_error, A @ X @ V), derivative(lambda h: h @ V, A @ X)
    chained = np.tensordot(np.tensordot(dO, dH, 2), derivative(lambda x: A @ x, X), 2)
    direct = derivative(lambda x: squared_error(A @ x @ V), X)
    claim("", "The shape of a derivative is settled by the shapes of both sides.",
          "layout not stated", "here the indices of the value come first, then those of the "
          "variable, so a gradient has its variable's shape; the other layout gives m x n for part "
          "1", judge(np.allclose(chained, direct, 1e-8, 1e-8), "convention"),
          "the chain rule sums over neighbouring indices: dL/dX agrees with finite differences, "
          f"error {abs(chained - direct).max():.1g}")


@question("001.2.2", "The shape of dO/dH")
def solve_shape_of_dO_dH(say, step, answer, check, claim):
    """Give the dimensions of ∂O/∂H for matrices O and H (n x m)."""
    jacobian = np.kron(np.eye(N), V.T)
    say(EXAMPLE)
    step(RULE, "∂O/∂H: (n, m) and (n, m) give (n, m, n, m)",
         f"{N} · {M} · {N} · {M} = {jacobian.size} entries")
    step("Write one entry of O, and differentiate it with respect to every entry of H. It depends "
         "only on the same row of H.", "O_ij = Σ_k H_ik V_kj  →  ∂O_ij/∂H_lk = V_kj if l = i, else "
         "0", f"∂O₁₁/∂H₁₂ = V₂₁ = {V[1, 0]:.0f};   ∂O₁₁/∂H₂₁ = {jacobian[0, M]:.0f}")
    step("To show all entries as a matrix, number the entries row by row. The matrix has nm rows "
         "for O and nm columns for H.", format_arrays({"V": V, "∂O/∂H as nm x nm": jacobian}))
    answer(f"∂O/∂H is n x m x n x m, or nm x nm as a matrix; here {format_shape((N, M, N, M))}.")
    claim_shape(check, claim, "dO/dH", derivative(lambda h: h @ V, H), jacobian.reshape(N, M, N, M),
                "n x m x n x m (as a matrix, nm x nm)", "; with O = H V at most n m^2 of them are "
                "not zero, because row i of O depends only on row i of H")
    wider = derivative(lambda h: h @ np.ones((M, 5)), H).shape
    claim("", "O and H have the same number of columns.", "n x m for both",
          "the number of classes k and the number of hidden units m may differ; then n x k x n x m",
          judge(wider == (N, 5, N, M), "under-specified"), f"k = 5: {format_shape(wider)} numbers")


@question("001.2.3", "The shape of dH/dX")
def solve_shape_of_dH_dX(say, step, answer, check, claim):
    """Give the dimensions of ∂H/∂X for a matrix H (n x m) and an input vector X of p elements."""
    say(EXAMPLE)
    step(RULE, "∂H/∂X: (n, m) and (p) give (n, m, p)", f"{N} · {M} · {P} = {A.size} entries")
    step("Each entry of H depends on each entry of X. As an example, take H = A X with a "
         "three-dimensional array A, whose entries are the partial derivatives.",
         "H_ij = Σ_k A_ijk X_k  →  ∂H_ij/∂X_k = A_ijk", f"∂H₁₁/∂X₃ = A₁₁₃ = {A[0, 0, 2]:.0f}",
         format_arrays({"∂H/∂X as nm x p": A.reshape(N * M, P)}))
    answer(f"∂H/∂X is n x m x p, here {format_shape(A.shape)}.")
    claim_shape(check, claim, "dH/dX", derivative(lambda x: A @ x, X), A, "n x m x p")


@question("001.2.4", "The shape of the second derivative d²L/dH²")
def solve_shape_of_d2L_dH2(say, step, answer, check, claim):
    """Give the dimensions of ∂²L/∂H² for a scalar loss L and a matrix H (n x m)."""
    size, hessian = N * M, np.kron(np.eye(N), 2 * V @ V.T)
    say(EXAMPLE)
    step("The first derivative of L with respect to H has the shape of H. Differentiate it with "
         "respect to H again.", "∂L/∂H: (n, m)   →   ∂²L/∂H²: (n, m, n, m)",
         f"{N} · {M} · {N} · {M} = {hessian.size} entries")
    step("If O = H V, the first derivative is linear in H, so the second derivative is constant. "
         "It is zero for entries of different rows.",
         "∂L/∂H = 2 (H V − target) Vᵀ  →  ∂²L/∂H_ik ∂H_lj = 2 (V Vᵀ)_kj if l = i, else 0",
         format_arrays({"2 V Vᵀ": 2 * V @ V.T, "∂²L/∂H² as nm x nm": hessian}))
    step("The order of differentiation does not matter, so this matrix is symmetric.", "at most nm "
         "(nm + 1) / 2 different entries", f"{size} · {size + 1} / 2 = {math.comb(size + 1, 2)}")
    answer("∂²L/∂H² is n x m x n x m. As a matrix, it is the nm x nm Hessian. Here it is "
           f"{format_shape((N, M, N, M))}.")
    numeric = derivative(lambda h: derivative(lambda h: squared_error(h @ V), h, 1e-2), H, 1e-2)
    claim_shape(check, claim, "d2L/dH2", numeric, hessian.reshape(N, M, N, M),
                "n x m x n x m (as a matrix, the nm x nm Hessian)",
                f"; it is symmetric, so at most {math.comb(size + 1, 2)} numbers differ")


@question("001.marks", "The marks of the questions and of their parts")
def solve_missing_marks(say, step, answer, check, claim):
    """Add up the marks of the four questions, and find the marks that are not printed."""
    total, parts = (4, 4, 6, 6), ((4,), (None, 1, 1, 1), (2, 2, None), (None, None, 1))
    missing = [f"Q{i}: {whole - sum(filter(None, row))} for part{'s' * (row.count(None) > 1)} "
               + " and ".join(str(part) for part, mark in enumerate(row, 1) if mark is None)
               for i, (whole, row) in enumerate(zip(total, parts, strict=True), 1) if None in row]
    printed = [mark is not None for row in parts for mark in row]
    answer(f"{' + '.join(map(str, total))} = {sum(total)}. The document does not print these "
           f"marks: {', '.join(missing)}.")
    check("No question has parts with more marks than the question.", all(
        whole >= sum(filter(None, row)) for whole, row in zip(total, parts, strict=True)))
    claim("", "The marks of the four questions add up to the total.", "20",
          f"{' + '.join(map(str, total))} = {sum(total)}", judge(sum(total) == 20),
          "the sum of the rows of the table")
    claim("parts", "How many marks has each part?", f"printed for {sum(printed)} of the "
          f"{len(printed)} parts", ", ".join(missing), judge(not all(printed), "no answer given"),
          "the question's marks minus the printed marks; it is open how the parts of Q4 share "
          "theirs")


W_1, b_1 = np.array([[1.0, 0, 1, 0], [0, 1, 0, -1]]), np.array([0.0, -1])
W_2, b_2 = np.array([[1.0, 0], [0, 1], [1, 1], [0, 2]]), np.array([0.0, 0, 1, 0])
W_3, b_3, PAIR = np.eye(2), np.zeros(2), np.array([1.0, 2, 1, 3])
GIVEN = format_arrays({"W₁": W_1, "b₁": b_1, "W₂": W_2, "b₂": b_2, "x": PAIR})
WORDS = "Two words have D_x = 2, x₁ = (1, 2) and x₂ = (1, 3), and the code has D_p = 2 units."
SAME = "Finite differences of J₁ give the same numbers."

h = W_1 @ PAIR + b_1
p = np.maximum(h, 0)
e = W_2 @ p + b_2 - PAIR                       # x' − x
d_1 = W_2.T @ e
d_2 = np.where(h > 0, d_1, 0)
dW_1 = np.outer(d_2, PAIR)


def loss_J_1(code):
    """Return J₁ for a code p."""
    return ((W_2 @ code + b_2 - PAIR) ** 2).sum() / 2


def npdl_encoder_gradients():
    """Return ∂J₁/∂W₁ and ∂J/∂W₁ of npdl's autoencoder, for the label 0."""
    model = Autoencoder(2, 2, 2, dtype="float64")
    for layer, W, b in ((model.encoder, W_1, b_1), (model.decoder, W_2, b_2),
                        (model.classifier, W_3, b_3)):
        layer.W.data[...], layer.b.data[...] = W.T, b
    J, gradients = AutoencoderLoss(model), []
    for upstream in ((1.0, None), (1.0, 1.0)):
        J.zero_grad()
        _, cache = J.forward(PAIR[None, :2], PAIR[None, 2:], np.array([0]))
        J.backward(upstream, cache)
        gradients.append(model.encoder.W.grad.T.copy())
    return gradients


def claim_gradient(check, claim, statement, answer, ours, numeric, evidence="finite differences"):
    """Check a gradient against finite differences, and add a claim with the `answer`."""
    error = np.abs(ours - numeric).max()
    check(SAME, error <= 1e-7)
    claim("", statement, "none", answer, judge(error <= 1e-7, "no answer given"),
          f"{evidence}: error {error:.1g}")


@question("001.3.1", "An autoencoder's gradient with respect to its code p")
def solve_gradient_of_code(say, step, answer, check, claim):
    """Give δ₁ = ∂J₁/∂p."""
    squares = " + ".join(f"{v * v:.0f}" for v in e)
    products = " + ".join(f"({a:.0f}) · {w:.0f}" for a, w in zip(e, W_2[:, 0], strict=True))
    say(WORDS, GIVEN)
    step("Compute the forward pass.", "h = W₁ x + b₁    p = ReLU(h)    x' = W₂ p + b₂",
         f"J₁ = ½ ‖x' − x‖² = ({squares}) / 2 = {loss_J_1(p):.1f}",
         format_arrays({"h": h, "p": p, "x'": e + PAIR, "x' − x": e}))
    step("Write J₁ as a sum, and differentiate it with respect to one entry of p. p_k enters every "
         "x'_i with the weight (W₂)_ik. The factor ½ cancels the 2 of the square.",
         "∂J₁/∂p_k = Σ_i (x'_i − x_i) (W₂)_ik", f"∂J₁/∂p₁ = {products} = {d_1[0]:.0f}")
    step("The sum is over the rows of W₂, so it is a product with the transpose. x is held fixed, "
         "because it is the target here.", "δ₁ = W₂ᵀ (x' − x)", format_arrays({"δ₁": d_1}))
    answer("δ₁ = W₂ᵀ (x' − x). It has D_p entries.")
    claim_gradient(check, claim, "dJ_1/dp.", "W_2^T (x' - x), D_p entries", d_1,
                   derivative(loss_J_1, p))
    matrix, logits, relu = np.array([[5, 0], [-3, 7]]), W_3 @ p + b_3, ReLU()
    value, _ = CrossEntropy().forward(logits[None], np.array([0]))
    from_right, from_left = (abs(relu.forward(np.array([s]))[0][0] / s) for s in (1e-6, -1e-6))
    ours = relu.backward(np.ones(1), relu.forward(np.zeros(1))[1])[0]
    claim("", "W_1 x = W_11 x_1 + W_12 x_2.", "as claimed", "as claimed",
          judge(np.allclose(W_1[:, :2] @ PAIR[:2] + W_1[:, 2:] @ PAIR[2:], W_1 @ PAIR, 0, 1e-12)),
          "tested on the example")
    claim("", "J_1 computes the Euclidean distance between input and reconstruction.",
          "Euclidean distance", "half the square of the distance",
          judge(math.isclose(loss_J_1(p), np.linalg.norm(e)), if_false="slip"),
          f"in the example the distance is {np.linalg.norm(e):.3f}, J_1 = {loss_J_1(p):g}; their "
          "gradients differ too")
    claim("", "J_2 is the cross-entropy of the label y and the prediction y^ = W_3 p + b_3.",
          "CE(y, y^)", f"CE(y, softmax(y^)) = {value:.3f} here",
          judge(logits.sum() != 1, "under-specified"), f"y^ = ({logits[0]:g}, {logits[1]:g}) is "
          "not a distribution; true if CE applies the softmax, as npdl's does")
    claim("", "1{[[5, 0], [-3, 7]] > 0} = [[1, 0], [0, 1]].", "[[1, 0], [0, 1]]",
          str((matrix > 0).astype(int).tolist()), judge(np.array_equal(matrix > 0, np.eye(2))),
          "compared elementwise")
    claim("", "The derivative of ReLU at 0 is 0.", "1{x > 0}: 0 at 0", "it does not exist: the "
          f"one-sided derivatives are {from_right:g} on the right and {from_left:g} on the left",
          judge(from_left <= ours <= from_right and from_left < from_right, "convention"),
          f"any number from {from_left:g} to {from_right:g} is a subgradient; npdl takes {ours:g}")


@question("001.3.2", "An autoencoder's gradient before the ReLU")
def solve_gradient_before_relu(say, step, answer, check, claim):
    """Give δ₂ = ∂J₁/∂h in terms of δ₁."""
    say(WORDS, GIVEN)
    step("p_k = max(0, h_k) depends only on h_k. Its derivative is 1 above 0 and 0 below.",
         "∂p_k/∂h_k = 1{h_k > 0}",
         format_table(("unit", "h", "1{h > 0}", "δ₁", "δ₂"),
                      list(zip((1, 2), h, (h > 0).astype(int), d_1, d_2, strict=True)), 0))
    step("Multiply elementwise. A unit that was set to 0 in the forward pass gets the gradient 0. "
         "At h = 0 the derivative does not exist, and 0 is the usual choice.", "δ₂ = δ₁ * 1{h > 0}",
         format_arrays({"δ₂": d_2}))
    answer("δ₂ = δ₁ * 1{h > 0}, elementwise.")
    claim_gradient(check, claim, "dJ_1/dh in terms of d_1.", "d_1 * 1{h > 0}, elementwise", d_2,
                   derivative(lambda h: loss_J_1(np.maximum(h, 0)), h))


@question("001.3.3", "An autoencoder's gradient with respect to W_1")
def solve_gradient_of_W_1(say, step, answer, check, claim):
    """Give ∂J₁/∂W₁ in terms of δ₂."""
    say(WORDS, GIVEN)
    step("Start from δ₂ = ∂J₁/∂h of Question 3.2. (W₁)_kj is multiplied by x_j and added to h_k, "
         "and it is used nowhere else.", "∂h_k/∂(W₁)_kj = x_j   →   ∂J₁/∂(W₁)_kj = (δ₂)_k x_j",
         f"entry (1, 2): {d_2[0]:.0f} · {PAIR[1]:.0f} = {d_2[0] * PAIR[1]:.0f}",
         format_arrays({"δ₂ (3.2)": d_2, "x": PAIR}))
    step("All entries together are the product of a column and a row. It has the shape of W₁.",
         "∂J₁/∂W₁ = δ₂ xᵀ = [δ₂ x₁ᵀ  δ₂ x₂ᵀ]",
         format_arrays({"δ₂": d_2, "xᵀ": PAIR[None], "∂J₁/∂W₁": dW_1}))
    answer("∂J₁/∂W₁ = δ₂ xᵀ. Its shape is D_p x 2 D_x, and its halves are the gradients of W₁₁ and "
           "W₁₂.")
    first, total = npdl_encoder_gradients()
    check("npdl's autoencoder computes the same gradient of J₁.",
          np.allclose(first, dW_1, 0, 1e-11))
    claim_gradient(check, claim, "dJ_1/dW_1 in terms of d_2.",
                   "d_2 x^T (D_p x 2 D_x): [d_2 x_1^T, d_2 x_2^T]", dW_1,
                   derivative(lambda W: loss_J_1(np.maximum(W @ PAIR + b_1, 0)), W_1),
                   "finite differences, and npdl's backward of J_1 alone")
    share = abs(total - first).max() / abs(total).max()
    claim("", "The network is trained with these gradients.", "total loss J, gradients of J_1",
          "J_2 adds (W_3^T (softmax(y^) - y) * 1{h > 0}) x^T to the gradient in W_1",
          judge(share > 1e-3, "under-specified"),
          f"npdl's gradients of J and of J_1 differ by {100 * share:.0f} % of the largest entry")
