"""Document 001, Question 3: the gradients of an autoencoder that combines two word vectors."""

import math
from functools import partial

import numpy as np

from exercises.framework import Claim, judge
from exercises.probes import difference
from exercises.worked import Check, Solution, Table, below, num
from npdl.layers.activation import ReLU
from npdl.losses import CrossEntropy
from npdl.models.autoencoder import Autoencoder, AutoencoderLoss

QUESTION = """\
Two word vectors are joined, x = [x_1; x_2] (2 D_x), and combined:
  h = W_1 x + b_1,  p = ReLU(h) (D_p),  x' = W_2 p + b_2,  J_1 = |x' - x|^2 / 2,
  y^ = W_3 p + b_3,  J_2 = CE(y, y^),  J = J_1 + J_2,  with W_1 = [W_11 W_12].
Give  1. d_1 = dJ_1/dp   2. d_2 = dJ_1/dh in terms of d_1   3. dJ_1/dW_1 in terms of d_2."""
GROUND = "The document gives no numbers; D_x = 3, D_p = 4 and random matrices are used here."
TITLES = {
    "3.1": "An autoencoder's gradient in its code p",
    "3.2": "An autoencoder's gradient before the ReLU",
    "3.3": "An autoencoder's gradient in W_1",
}

claim = partial(Claim, "001", "Q3")


def example(d_x=3, d_p=4, classes=3, seed=0):
    """{"W_1" (D_p, 2 D_x), "b_1", "W_2" (2 D_x, D_p), "b_2", "W_3" (C, D_p), "b_3", "x"}."""
    rng = np.random.default_rng(seed)
    shapes = {"W_1": (d_p, 2 * d_x), "b_1": (d_p,), "W_2": (2 * d_x, d_p), "b_2": (2 * d_x,),
              "W_3": (classes, d_p), "b_3": (classes,), "x": (2 * d_x,)}
    return {name: rng.standard_normal(shape) for name, shape in shapes.items()}


def forward(net):
    """(h, p, x', J_1)."""
    d_p, width = net["W_1"].shape
    h = net["W_1"] @ net["x"] + net["b_1"]
    p = np.maximum(h, 0)
    x_new = net["W_2"] @ p + net["b_2"]
    return h, p, x_new, ((x_new - net["x"]) ** 2).sum() / 2


def gradients(net):
    """{"d_1", "d_2", "W_1"}: our answers, by formula."""
    h, _, x_new, _ = forward(net)
    d_1 = net["W_2"].T @ (x_new - net["x"])
    d_2 = d_1 * (h > 0)
    return {"d_1": d_1, "d_2": d_2, "W_1": np.outer(d_2, net["x"])}


def numerical_gradients(net):
    """The same by differences: J_1 as a function of p, of h, and of W_1, x staying what it is."""
    h, p, _, _ = forward(net)

    def loss_of_p(p):
        return ((net["W_2"] @ p + net["b_2"] - net["x"]) ** 2).sum() / 2

    return {
        "d_1": difference(loss_of_p, p),
        "d_2": difference(lambda h: loss_of_p(np.maximum(h, 0)), h, 1e-4),
        "W_1": difference(lambda W: forward(net | {"W_1": W})[3], net["W_1"], 1e-4),
    }


def library_gradients(net, label=0):
    """(dJ_1/dW_1, dJ/dW_1) by npdl's autoencoder, in the document's orientation."""
    d_p, width = net["W_1"].shape
    model = Autoencoder(width // 2, d_p, len(net["b_3"]), dtype="float64")
    for layer, number in ((model.encoder, 1), (model.decoder, 2), (model.classifier, 3)):
        layer.W.data[...], layer.b.data[...] = net[f"W_{number}"].T, net[f"b_{number}"]
    loss, x = AutoencoderLoss(model), net["x"].reshape(2, 1, -1)
    found = []
    for upstream in ((1.0, None), (1.0, 1.0)):
        loss.zero_grad()
        _, cache = loss.forward(x[0], x[1], np.array([label]))
        loss.backward(upstream, cache)
        found.append(model.encoder.W.grad.T.copy())
    return found


def claims():
    net = example()
    return [*answer_claims(net), split_claim(net), distance_claim(), *label_claims(net),
            *indicator_claims()]


def answer_claims(net):
    own, slopes = gradients(net), numerical_gradients(net)
    library, whole = library_gradients(net)
    off = {name: np.abs(own[name] - slopes[name]).max() / np.abs(slopes[name]).max()
           for name in own}
    agree = np.abs(library - own["W_1"]).max()
    live = int((forward(net)[0] > 0).sum())
    answers = {
        "d_1": ("1", "dJ_1/dp.", "W_2^T (x' - x), D_p numbers", "differences"),
        "d_2": ("2", "dJ_1/dh in terms of d_1.", "d_1 * 1{h > 0}, entry by entry",
                f"differences, with {live} of {len(own['d_2'])} units above 0"),
        "W_1": ("3", "dJ_1/dW_1 in terms of d_2.", "d_2 x^T (D_p x 2 D_x): [d_2 x_1^T, d_2 x_2^T]",
                "differences, and npdl's backward of J_1 alone "
                f"({below(agree, 1e-12)})"),
    }
    found = [claim(part, text, "none", answer,
                   judge(off[name] < 1e-8 and agree < 1e-12, "no answer given"),
                   f"{how}: error {below(off[name], 1e-8)}")
             for name, (part, text, answer, how) in answers.items()]
    share = np.abs(whole - library).max() / np.abs(whole).max()
    percent = 100 * share
    found.append(claim(
        "3", "The network is trained with these gradients.", "total loss J, gradients of J_1",
        "J_2 adds (W_3^T (softmax(y^) - y) * 1{h > 0}) x^T to the gradient in W_1",
        judge(share > 1e-3, "under-specified"),
        "an example, seed 0: "
        f"npdl's backward of J and of J_1 differ by {percent:.0f} % of the largest entry"))
    return found


def split_claim(net):
    half = len(net["x"]) // 2
    W, x = net["W_1"], net["x"]
    parts = W[:, :half] @ x[:half] + W[:, half:] @ x[half:]
    error = np.abs(parts - W @ x).max()
    return claim("", "W_1 x = W_11 x_1 + W_12 x_2.", "as claimed", "as claimed",
                 judge(error < 1e-12), f"identity error {below(error, 1e-12)}")


def distance_claim(e=(3.0, 4.0)):
    distance = math.hypot(*e)
    loss = sum(value**2 for value in e) / 2
    return claim(
        "", "J_1 computes the Euclidean distance between input and reconstruction.",
        "Euclidean distance", "half its square",
        judge(math.isclose(loss, distance), if_false="slip"),
        f"x' - x = {e}: distance {distance:g}, J_1 = {loss:g}; their "
        "gradients differ too, (x' - x) against (x' - x) / |x' - x|")


def label_claims(net):
    logits = net["W_3"] @ forward(net)[1] + net["b_3"]
    usable = bool((logits > 0).all() and abs(logits.sum() - 1) < 1e-9)
    value, _ = CrossEntropy().forward(logits[None], np.array([0]))
    shown = ", ".join(f"{v:.2f}" for v in logits)
    return [claim(
        "", "J_2 is the cross-entropy of the label y and the prediction y^ = W_3 p + b_3.",
        "CE(y, y^)", f"CE(y, softmax(y^)) = {value:.3f} here",
        judge(not usable, "under-specified"),
        "an example, seed 0: "
        f"y^ = ({shown}) is no distribution, and -log of a negative entry does not exist; it holds "
        "if CE applies the softmax itself, as npdl's CrossEntropy does")]


def indicator_claims():
    matrix = np.array([[5, 0], [-3, 7]])
    wanted = np.array([[1, 0], [0, 1]])
    relu = ReLU()
    right, left = (float(relu.forward(np.array([s]))[0][0] / s) for s in (1e-6, -1e-6))
    y, cache = relu.forward(np.zeros(1))
    ours = float(relu.backward(np.ones(1), cache)[0])
    return [
        claim("", "1{[[5, 0], [-3, 7]] > 0} = [[1, 0], [0, 1]].", "[[1, 0], [0, 1]]",
              str((matrix > 0).astype(int).tolist()),
              judge(np.array_equal(matrix > 0, wanted == 1)), "entry by entry"),
        claim("", "The derivative of ReLU at 0 is 0.", "1{x > 0}: 0 at 0",
              f"none: the slope is {right:g} on the right and {left:g} on the left",
              judge(right != left, "convention", provided=left <= ours <= right),
              f"any number from {left:g} to {right:g} serves as a subgradient; npdl takes "
              f"{ours:g}"),
    ]


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

    squares, entry = [num(v * v, 0) for v in e.tolist()], d_2[0] * NET["x"][1]
    products = [f"({num(a, 0)}) · {num(w, 0)}"
                for a, w in zip(e.tolist(), NET["W_2"][:, 0].tolist(), strict=True)]
    work = Solution("3.1", EXAMPLE, GIVEN)
    work.step("Run it forwards.", "h = W₁ x + b₁    p = ReLU(h)    x' = W₂ p + b₂",
              f"J₁ = ½ ‖x' − x‖² = ({' + '.join(squares)}) / 2 = {num(J, 1)}",
              {"h": h, "p": p, "x'": again, "x' − x": e})
    work.step("Write J₁ as a sum, and differentiate it by one entry of p: p_k enters every x'_i "
              "with the weight (W₂)_ik; the ½ cancels the 2 of the square.",
              "∂J₁/∂p_k = Σ_i (x'_i − x_i) (W₂)_ik",
              f"∂J₁/∂p₁ = {' + '.join(products)} = {num(d_1[0], 0)}")
    work.step("The sum runs over the rows of W₂, so it is a product with the transpose. x itself "
              "is held fixed: it is the target here.", "δ₁ = W₂ᵀ (x' − x)", arrays={"δ₁": d_1})
    work.answer = "δ₁ = W₂ᵀ (x' − x), D_p numbers."
    work.checks.append(differences("d_1", d_1))
    yield work
    work = Solution("3.2", EXAMPLE, GIVEN)
    work.step("p_k = max(0, h_k) depends on h_k alone, with the slope 1 above 0 and 0 below.",
              "∂p_k/∂h_k = 1{h_k > 0}",
              table=Table(
                  ("unit", "h", "1{h > 0}", "δ₁", "δ₂"),
                  tuple((k + 1, *row) for k, row in enumerate(zip(
                      h.tolist(), (h > 0).astype(int).tolist(), d_1.tolist(), d_2.tolist(),
                      strict=True))), 0))
    work.step("Multiply entry by entry: what did not pass forwards lets nothing pass backwards. "
              "(At h = 0 there is no slope; 0 is the usual choice.)", "δ₂ = δ₁ * 1{h > 0}",
              arrays={"δ₂": d_2})
    work.answer = "δ₂ = δ₁ * 1{h > 0}, entry by entry."
    work.checks.append(differences("d_2", d_2))
    yield work
    work = Solution("3.3", EXAMPLE, GIVEN)
    work.step("Start from δ₂ = ∂J₁/∂h of Question 3.2. (W₁)_kj multiplies x_j and is added into "
              "h_k, and into nothing else.", "∂h_k/∂(W₁)_kj = x_j   →   ∂J₁/∂(W₁)_kj = (δ₂)_k x_j",
              f"entry (1, 2): {num(d_2[0], 0)} · {num(NET['x'][1], 0)} = {num(entry, 0)}",
              {"δ₂ (3.2)": d_2, "x": NET["x"]})
    work.step("All entries together are a column times a row: it has the shape of W₁.",
              "∂J₁/∂W₁ = δ₂ xᵀ = [δ₂ x₁ᵀ  δ₂ x₂ᵀ]",
              arrays={"δ₂": d_2, "xᵀ": NET["x"][None], "∂J₁/∂W₁": whole})
    work.answer = "∂J₁/∂W₁ = δ₂ xᵀ, D_p x 2 D_x; its halves are the gradients of W₁₁ and W₁₂."
    work.checks.append(differences("W_1", whole))
    work.check("npdl's autoencoder has the same gradient of J₁.",
               np.allclose(whole, library_gradients(NET)[0], atol=1e-11))
    yield work
