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

NET = {
    "W₁": np.array([[1.0, 0, 1, 0], [0, 1, 0, -1]]), "b₁": np.array([0.0, -1]),
    "W₂": np.array([[1.0, 0], [0, 1], [1, 1], [0, 2]]), "b₂": np.array([0.0, 0, 1, 0]),
    "W₃": np.eye(2), "b₃": np.zeros(2), "x": np.array([1.0, 2, 1, 3]),
}
GIVEN = arrays({name: NET[name] for name in ("W₁", "b₁", "W₂", "b₂", "x")})
EXAMPLE = "Two words of width D_x = 2, x₁ = (1, 2) and x₂ = (1, 3), and a code of D_p = 2 units."


def random_net(d_x=3, d_p=4, classes=3):
    """Return a network of normal entries, of seed 0."""
    rng = np.random.default_rng(0)
    shapes = {"W₁": (d_p, 2 * d_x), "b₁": (d_p,), "W₂": (2 * d_x, d_p), "b₂": (2 * d_x,),
              "W₃": (classes, d_p), "b₃": (classes,), "x": (2 * d_x,)}
    return {name: rng.standard_normal(shape) for name, shape in shapes.items()}


def encode(net, W_1=None):
    """Return h and p."""
    h = (net["W₁"] if W_1 is None else W_1) @ net["x"] + net["b₁"]
    return h, np.maximum(h, 0)


def errors(net, p):
    """Return x' − x for a code p."""
    return net["W₂"] @ p + net["b₂"] - net["x"]


def gradients(net):
    """Return δ₁, δ₂ and ∂J₁/∂W₁ by the formulas of the answers."""
    h, p = encode(net)
    d_1 = net["W₂"].T @ errors(net, p)
    d_2 = np.where(h > 0, d_1, 0)
    return d_1, d_2, np.outer(d_2, net["x"])


def slopes(net):
    """Return the same gradients by differences of J₁; x, the target, stays what it is."""
    h, p = encode(net)

    def loss(p):
        return (errors(net, p) ** 2).sum() / 2

    return (derivative(loss, p), derivative(lambda h: loss(np.maximum(h, 0)), h, 1e-4),
            derivative(lambda W: loss(encode(net, W)[1]), net["W₁"], 1e-4))


def library_gradients(net):
    """Return ∂J₁/∂W₁ and ∂J/∂W₁ of npdl's autoencoder, for the label 0."""
    d_p, width = net["W₁"].shape
    model = Autoencoder(width // 2, d_p, len(net["b₃"]), dtype="float64")
    for layer, number in ((model.encoder, "₁"), (model.decoder, "₂"), (model.classifier, "₃")):
        layer.W.data[...], layer.b.data[...] = net["W" + number].T, net["b" + number]
    loss, (x_1, x_2) = AutoencoderLoss(model), net["x"].reshape(2, 1, -1)
    found = []
    for upstream in ((1.0, None), (1.0, 1.0)):
        loss.zero_grad()
        _, cache = loss.forward(x_1, x_2, np.array([0]))
        loss.backward(upstream, cache)
        found.append(model.encoder.W.grad.T.copy())
    return found


def judge_gradient(work, place, says, answer, how):
    """Check a gradient of the example against differences, and claim it on the random network."""
    work.check("differences of J₁ give the same numbers",
               np.allclose(gradients(NET)[place], slopes(NET)[place], atol=1e-7))
    net = random_net()
    ours, found = gradients(net)[place], slopes(net)[place]
    work.claim("", says, "none", answer,
               judge(abs(ours - found).max() < 1e-8 * abs(found).max(), "no answer given"),
               f"{how}: error below 1e-8")


@question("001.3.1", "An autoencoder's gradient in its code p")
def by_code(work):
    """Give δ₁ = ∂J₁/∂p."""
    (h, p), (d_1, _, _) = encode(NET), gradients(NET)
    e = errors(NET, p)
    squares = " + ".join(f"{v * v:.0f}" for v in e)
    products = " + ".join(f"({a:.0f}) · {w:.0f}" for a, w in zip(e, NET["W₂"][:, 0], strict=True))
    work.say(EXAMPLE, GIVEN)
    work.step("Run it forwards.", "h = W₁ x + b₁    p = ReLU(h)    x' = W₂ p + b₂",
              f"J₁ = ½ ‖x' − x‖² = ({squares}) / 2 = {e @ e / 2:.1f}",
              arrays({"h": h, "p": p, "x'": e + NET["x"], "x' − x": e}))
    work.step("Write J₁ as a sum, and differentiate it by one entry of p: p_k enters every x'_i "
              "with the weight (W₂)_ik; the ½ cancels the 2 of the square.",
              "∂J₁/∂p_k = Σ_i (x'_i − x_i) (W₂)_ik", f"∂J₁/∂p₁ = {products} = {d_1[0]:.0f}")
    work.step("The sum runs over the rows of W₂, so it is a product with the transpose. x itself "
              "is held fixed: it is the target here.", "δ₁ = W₂ᵀ (x' − x)", arrays({"δ₁": d_1}))
    work.answer("δ₁ = W₂ᵀ (x' − x), D_p numbers.")
    judge_gradient(work, 0, "dJ_1/dp.", "W_2^T (x' - x), D_p numbers", "differences")
    statement_claims(work)


@question("001.3.2", "An autoencoder's gradient before the ReLU")
def before_relu(work):
    """Give δ₂ = ∂J₁/∂h in terms of δ₁."""
    (h, _), (d_1, d_2, _) = encode(NET), gradients(NET)
    work.say(EXAMPLE, GIVEN)
    work.step("p_k = max(0, h_k) depends on h_k alone, with the slope 1 above 0 and 0 below.",
              "∂p_k/∂h_k = 1{h_k > 0}",
              table(("unit", "h", "1{h > 0}", "δ₁", "δ₂"),
                    list(zip((1, 2), h, (h > 0).astype(int), d_1, d_2, strict=True)), 0))
    work.step("Multiply entry by entry: what did not pass forwards lets nothing pass backwards. "
              "(At h = 0 there is no slope; 0 is the usual choice.)", "δ₂ = δ₁ * 1{h > 0}",
              arrays({"δ₂": d_2}))
    work.answer("δ₂ = δ₁ * 1{h > 0}, entry by entry.")
    h, _ = encode(random_net())
    judge_gradient(work, 1, "dJ_1/dh in terms of d_1.", "d_1 * 1{h > 0}, entry by entry",
                   f"differences, with {(h > 0).sum()} of {len(h)} units above 0")


@question("001.3.3", "An autoencoder's gradient in W_1")
def by_weights(work):
    """Give ∂J₁/∂W₁ in terms of δ₂."""
    _, d_2, whole = gradients(NET)
    x = NET["x"]
    work.say(EXAMPLE, GIVEN)
    work.step("Start from δ₂ = ∂J₁/∂h of Question 3.2. (W₁)_kj multiplies x_j and is added into "
              "h_k, and into nothing else.", "∂h_k/∂(W₁)_kj = x_j   →   ∂J₁/∂(W₁)_kj = (δ₂)_k x_j",
              f"entry (1, 2): {d_2[0]:.0f} · {x[1]:.0f} = {d_2[0] * x[1]:.0f}",
              arrays({"δ₂ (3.2)": d_2, "x": x}))
    work.step("All entries together are a column times a row: it has the shape of W₁.",
              "∂J₁/∂W₁ = δ₂ xᵀ = [δ₂ x₁ᵀ  δ₂ x₂ᵀ]",
              arrays({"δ₂": d_2, "xᵀ": x[None], "∂J₁/∂W₁": whole}))
    work.answer("∂J₁/∂W₁ = δ₂ xᵀ, D_p x 2 D_x; its halves are the gradients of W₁₁ and W₁₂.")
    first, total = library_gradients(random_net())
    work.check("npdl's autoencoder has the same gradient of J₁, here and in a random network",
               np.allclose(whole, library_gradients(NET)[0], atol=1e-11)
               and np.allclose(first, gradients(random_net())[2], atol=1e-12))
    judge_gradient(work, 2, "dJ_1/dW_1 in terms of d_2.",
                   "d_2 x^T (D_p x 2 D_x): [d_2 x_1^T, d_2 x_2^T]",
                   "differences, and npdl's backward of J_1 alone")
    share = abs(total - first).max() / abs(total).max()
    work.claim(
        "", "The network is trained with these gradients.", "total loss J, gradients of J_1",
        "J_2 adds (W_3^T (softmax(y^) - y) * 1{h > 0}) x^T to the gradient in W_1",
        judge(share > 1e-3, "under-specified"), "an example, seed 0: npdl's backward of J and of "
        f"J_1 differ by {100 * share:.0f} % of the largest entry")


def statement_claims(work):
    """Add the claims on the statements before the questions."""
    net, matrix = random_net(), np.array([[5, 0], [-3, 7]])
    W, x = net["W₁"], net["x"]
    split = abs(W[:, :3] @ x[:3] + W[:, 3:] @ x[3:] - W @ x).max()
    logits = net["W₃"] @ encode(net)[1] + net["b₃"]
    value, _ = CrossEntropy().forward(logits[None], np.array([0]))
    relu = ReLU()
    right, left = (relu.forward(np.array([s]))[0][0] / s for s in (1e-6, -1e-6))
    ours = relu.backward(np.ones(1), relu.forward(np.zeros(1))[1])[0]
    work.claim("", "W_1 x = W_11 x_1 + W_12 x_2.", "as claimed", "as claimed",
               judge(split < 1e-12), "identity error below 1e-12")
    work.claim(
        "", "J_1 computes the Euclidean distance between input and reconstruction.",
        "Euclidean distance", "half its square",
        judge(math.hypot(3, 4) == (3**2 + 4**2) / 2, if_false="slip"),
        f"x' - x = (3, 4): distance {math.hypot(3, 4):g}, J_1 = {(3**2 + 4**2) / 2:g}; their "
        "gradients differ too, (x' - x) against (x' - x) / |x' - x|")
    work.claim(
        "", "J_2 is the cross-entropy of the label y and the prediction y^ = W_3 p + b_3.",
        "CE(y, y^)", f"CE(y, softmax(y^)) = {value:.3f} here",
        judge((logits <= 0).any() or abs(logits.sum() - 1) > 1e-9, "under-specified"),
        f"an example, seed 0: y^ = ({', '.join(f'{v:.2f}' for v in logits)}) is no distribution, "
        "and -log of a negative entry does not exist; it holds if CE applies the softmax itself, "
        "as npdl's CrossEntropy does")
    work.claim("", "1{[[5, 0], [-3, 7]] > 0} = [[1, 0], [0, 1]].", "[[1, 0], [0, 1]]",
               str((matrix > 0).astype(int).tolist()), judge(np.array_equal(matrix > 0, np.eye(2))),
               "entry by entry")
    work.claim(
        "", "The derivative of ReLU at 0 is 0.", "1{x > 0}: 0 at 0",
        f"none: the slope is {right:g} on the right and {left:g} on the left",
        judge(left <= ours <= right and left < right, "convention"),
        f"any number from {left:g} to {right:g} serves as a subgradient; npdl takes {ours:g}")
