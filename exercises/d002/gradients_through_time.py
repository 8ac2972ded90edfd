"""Document 002, Problem 1: why gradients that vanish or explode trouble a recurrent network.

The gradient of a late loss reaches the state k steps earlier through a product of k Jacobians
W_h diag(1 - h^2). `gradient_norms` carries a unit gradient back through any npdl cell and returns
its length after every step. What explosion does to training is in
exploding_training, the remedies are in gradient_remedies.
"""

import math
from functools import partial

import numpy as np

from exercises.framework import Claim, judge, proved
from exercises.worked import Solution, Table, below, listing, num, terms, vec
from npdl.errors import InputError
from npdl.layers.recurrent import RNNCell

QUESTION = """\
Problem 1. Why do vanishing and exploding gradients trouble recurrent networks? The document gives \
effects and one common cause, without numbers. Here each is an experiment on npdl's RNN cell: a \
gradient of length 1 at the last step is carried back through up to 100 steps."""

TITLES = {"1": "Why gradients that vanish or explode trouble a recurrent network"}

claim_of = partial(Claim, "002", "Problem 1")


def recurrent_matrix(radius, width=32, seed=1):
    """A random (H, H) matrix whose largest eigenvalue has modulus `radius`."""
    W = np.random.default_rng(seed).standard_normal((width, width))
    return W * (radius / np.abs(np.linalg.eigvals(W)).max())


def rnn_cell(W_h, d_in=4, seed=0):
    """A tanh RNNCell in float64 with the recurrent matrix W_h (H, H) and no bias."""
    W_h = np.asarray(W_h, float)
    cell = RNNCell(d_in, len(W_h), bias=False, rng=seed, dtype="float64")
    cell.W_h.data[...] = W_h
    return cell


def gradient_norms(cell, steps=100, input_size=0.0, seed=2):
    """(steps + 1,) lengths of dL/d(state), L = a unit combination of the last h, going back.

    Entry k belongs to the state k steps before the last. `input_size` scales the inputs, standard
    normal; 0 leaves the state near 0, where tanh is the identity.
    """
    rng = np.random.default_rng(seed)
    H, parts = cell.d_hidden, cell.parts
    state = tuple(1e-14 * rng.standard_normal((1, H)) for _ in range(parts))
    caches = []
    for x in input_size * rng.standard_normal((steps, 1, cell.W_x.shape[0])):
        state, cache = cell.forward(x, state)
        caches.append(cache)
    d = np.full((1, H), 1 / math.sqrt(H))
    norms = [1.0]
    for cache in reversed(caches):
        _, d = cell.backward(d, cache)
        norms.append(math.sqrt(sum((part * part).sum() for part in _parts(d))))
    return np.array(norms)


def rate(norms):
    """The factor by which the gradient changes at a step, over the second half of the way."""
    half = len(norms) // 2
    return float((norms[-1] / norms[half]) ** (1 / (len(norms) - 1 - half)))


def jacobian_product_error(steps=12, seed=3):
    """How far from the gradient by backward (relative to its largest entry) are the product of
    the steps' Jacobians, applied to the last gradient, and the product of the steps' gradients."""
    rng = np.random.default_rng(seed)
    cell = rnn_cell(recurrent_matrix(1.1, 6, seed))
    h, product, caches = np.zeros((1, 6)), np.eye(6), []
    for x in rng.standard_normal((steps, 1, 4)):
        h, cache = cell.forward(x, h)
        caches.append(cache)
        product = product @ (cell.W_h.data * (1 - h * h))           # dh' / dh, row vectors
    d = upstream = rng.standard_normal((1, 6))
    seen = []
    for cache in reversed(caches):
        seen.append(d)
        _, d = cell.backward(d, cache)
    by_gradients = np.prod(seen, axis=0)
    return tuple(float(np.abs(other - d).max() / np.abs(d).max())
                 for other in (upstream @ product.T, by_gradients))


def weight_gradient_by_lag(radius=0.5, steps=60, seed=4):
    """(steps,) length of what each lag adds to dL/dW_h, and the length of their sum.

    L is a unit combination of the last state; lag k is the use of W_h k steps before the last.
    """
    rng = np.random.default_rng(seed)
    cell = rnn_cell(recurrent_matrix(radius))
    h, caches = np.zeros((1, cell.d_hidden)), []
    for x in rng.standard_normal((steps, 1, 4)):
        h, cache = cell.forward(x, h)
        caches.append(cache)
    d = np.full_like(h, 1 / math.sqrt(h.size))
    pieces = []
    for cache in reversed(caches):
        cell.zero_grad()
        _, d = cell.backward(d, cache)
        pieces.append(cell.W_h.grad.copy())
    return np.linalg.norm(pieces, axis=(1, 2)), float(np.linalg.norm(sum(pieces)))


def steepest_slopes(limit=10.0, points=20001):
    """The largest slopes of the sigmoid and of tanh on a grid."""
    x = np.linspace(-limit, limit, points)
    s = 1 / (1 + np.exp(-x))
    return float((s * (1 - s)).max()), float((1 - np.tanh(x) ** 2).max())


def _parts(state):
    return state if isinstance(state, tuple) else (state,)


def effects():
    """Claims on what vanishing and exploding gradients are and do."""
    radii = (0.8, 0.9, 1.1, 1.25)
    norms = {radius: gradient_norms(rnn_cell(recurrent_matrix(radius))) for radius in radii}
    rates = [rate(norms[radius]) for radius in radii]
    follows = max(abs(a - b) for a, b in zip(rates, radii, strict=True)) < 0.01
    lags, total = weight_gradient_by_lag()
    far, near = lags[20:].max() / total, lags[:3].max() / total
    yield claim_of(
        "vanishing, exploding", "over many steps back a gradient shrinks or grows exponentially",
        "decreases or increases rapidly",
        f"factor per step {listing(rates, '.3f')} at spectral radius {listing(radii, '.2f')}",
        proved(follows),
        "an example (seeds 0, 1, 2): "
        f"near h = 0; length after 100 steps: {norms[0.8][-1]:.1e} at radius 0.8, "
        f"{norms[1.25][-1]:.1e} at 1.25, from 1")
    yield claim_of(
        "vanishing", "vanishing gradients make the weight updates negligible",
        "negligible updates, stalled training",
        f"only the part from far back is: the steps 20 and more before the loss add at most "
        f"{far:.1e} of the length of dL/dW, the last three steps up to {near:.2f}",
        judge(far < 1e-3 < 0.1 < near, "under-specified"),
        "an example (seeds 0, 1 and 4): "
        f"radius 0.5, 60 steps: dL/dW is a sum over uses of W, and its total length is {total:.2f}")


def causes():
    """Claims on the common cause."""
    by_jacobians, by_gradients = jacobian_product_error()
    sigmoid, tanh = steepest_slopes()
    linear = gradient_norms(rnn_cell(recurrent_matrix(1.25)))[-1]
    bent = gradient_norms(rnn_cell(recurrent_matrix(1.25)), input_size=1.0)[-1]
    open_rate, flat_rate = (rate(gradient_norms(rnn_cell(recurrent_matrix(1.0)), input_size=size))
                            for size in (0.0, 3.0))
    known = rate(gradient_norms(rnn_cell(recurrent_matrix(0.8))))   # 0.8: all steps are linear
    yield claim_of(
        "cause", "gradients are multiplied by one another on the way back",
        "repeated multiplication of gradients",
        "what is multiplied are the Jacobians dh_t/dh_(t-1) of the steps; one gradient of the "
        "loss runs through them",
        judge(by_gradients < 1e-9, if_false="under-specified", provided=by_jacobians < 1e-9),
        "holds if a gradient is any derivative of a step: over 12 steps the product of Jacobians "
        f"is off by {below(by_jacobians)}, the product of the loss's gradients by "
        f"{by_gradients:.1f} times the largest entry")
    yield claim_of(
        "cause", "the flat parts of the sigmoid and of tanh make gradients vanish",
        "activations with steep or flat gradients (sigmoid, tanh)",
        f"a step multiplies the gradient by {flat_rate:.2f} where inputs push tanh to its ends, "
        f"by {open_rate:.2f} where it is the identity",
        judge(flat_rate < 0.9 * open_rate, provided=abs(known - 0.8) < 0.01),
        "an example (seeds 0, 1, 2): "
        "spectral radius 1.00, 100 steps, npdl's RNN cell, inputs of standard deviation 3 and 0")
    yield claim_of(
        "cause", "steep activation functions such as the sigmoid and tanh are behind explosion",
        "activations with steep or flat gradients (sigmoid, tanh)",
        f"neither is steep: slopes at most {sigmoid:.2f} and {tanh:.2f}; they can only shrink a "
        "gradient, and growth comes from W_h",
        judge(max(sigmoid, tanh) > 1,
              provided=math.isclose(sigmoid, 0.25) and math.isclose(tanh, 1)),
        "an example (seeds 0, 1, 2): "
        f"radius 1.25, 100 steps: length {linear:.1e} where tanh is the identity, {bent:.1e} "
        "where inputs bend it")


def claims():
    return [*effects(), *causes()]


W = ((0.85, 0.35), (0.35, 0.85))            # eigenvalues 1.2 on (1, 1) and 0.5 on (1, −1)
GRADIENT = (1.0, 0.0)


def eigenvalues_2(W):
    """(trace, determinant, the two eigenvalues) of a symmetric (2, 2) matrix, the larger first."""
    (a, b), (c, d) = W
    if b != c:
        raise InputError(f"W = {W} is not symmetric: its eigenvalues may be complex")
    trace, det = a + d, a * d - b * c
    root = math.sqrt(trace**2 / 4 - det)
    return trace, det, (trace / 2 + root, trace / 2 - root)


def gradient_back(W, g, steps, slope=1.0):
    """dL/dh `steps` steps back: slope W applied that often to g (2,), by plain products."""
    W, g = np.array(W), np.array(g, float)
    for _ in range(steps):
        g = slope * (W @ g)
    return g


def through_time():
    """Two linear units: what the eigenvalues make of a gradient."""
    trace, det, (large, small) = eigenvalues_2(W)
    along, across = (GRADIENT[0] + GRADIENT[1]) / 2, (GRADIENT[0] - GRADIENT[1]) / 2
    lags = (0, 1, 2, 10, 50)
    growing, fading = [along * large**k for k in lags], [across * small**k for k in lags]
    closed = [np.array([a + b, a - b]) for a, b in zip(growing, fading, strict=True)]
    stepped = [gradient_back(W, GRADIENT, k) for k in lags]
    powers = [float(np.linalg.norm(np.linalg.matrix_power(np.array(W), k), 2)) for k in lags]
    h = 0.9
    squared = h * h
    factor = large * (1 - squared)
    ten_steps = factor**10
    w, limit = small, 1 / (1 - small)
    work = Solution("1", "Two units, W symmetric, a gradient that begins in the first unit alone.")
    work.step("One step back. The gradient at the older state is the gradient at the newer one "
              "times the Jacobian of the step.",
              "hₜ = tanh(z),  z = W hₜ₋₁ + xₜ\n∂L/∂hₜ₋₁ = Wᵀ diag(1 − hₜ²) ∂L/∂hₜ",
              f"h near 0: 1 − h² = 1, so ∂L/∂hₜ₋₁ = Wᵀ ∂L/∂hₜ = {vec(stepped[1])}",
              {"W": np.array(W), "∂L/∂h_T": np.array(GRADIENT)})
    work.step("k steps back the Jacobian has been applied k times. Its eigenvalues say what a "
              "power does.", "det(W − λ I) = λ² − tr(W) λ + det(W) = 0\nλ = tr/2 ± √(tr²/4 − det)",
              f"λ² − {num(trace)} λ + {num(det)} = 0\nλ₁ = {num(large)} on (1, 1),  λ₂ = "
              f"{num(small)} on (1, −1)")
    work.step("Split the gradient along the eigenvectors; each part keeps its direction and is "
              "multiplied by its λ at every step.",
              "g = a (1, 1) + b (1, −1)   →   g_k = a λ₁ᵏ (1, 1) + b λ₂ᵏ (1, −1)",
              f"a = {num(along)}, b = {num(across)}",
              table=Table(("steps back k", "a λ₁ᵏ", "b λ₂ᵏ", "g_k", "|g_k|", "‖Wᵏ‖"),
                          tuple((k, f"{a:.3g}", f"{b:.3g}", vec(g), num(float(np.linalg.norm(g))),
                                 num(size)) for k, a, b, g, size in zip(
                                     lags, growing, fading, closed, powers, strict=True))))
    work.step("|g_k| is of this one gradient; the norm of the matrix power, beside it, is the "
              "most that any gradient of length 1 can become.",
              "|g_k| ≤ ‖Wᵏ‖ |g_0|,   and for a symmetric W ‖Wᵏ‖ = λ₁ᵏ",
              f"k = 10: {num(float(np.linalg.norm(closed[3])))} ≤ {num(powers[3])} = "
              f"{num(large)}¹⁰")
    work.step("tanh adds its slope to every step. Where a unit is near its ends the factor is "
              "small, and even λ₁ is not enough.", "factor of a step = λ (1 − h²)",
              f"h = {h}: {num(large)} · (1 − {num(squared, 2)}) = {num(factor)};  after 10 "
              f"steps {ten_steps:.1e}")
    work.step("What the weights see: one unit hₜ = w hₜ₋₁ + xₜ with all x = 1. dL/dw adds up the "
              "uses of w; the use k steps back counts w^k times.",
              "∂h_T/∂w = h_T₋₁ + w h_T₋₂ + w² h_T₋₃ + …",
              f"w = {num(w, 1)}, h → 1/(1 − w) = {num(limit, 1)}: "
              + terms([w**k / (1 - w) for k in range(5)], 2) + " + …: nothing of the far past")
    work.answer = ("Every step multiplies the gradient by a Jacobian: with |λ| (1 − h²) below 1 "
                   f"it vanishes ({fading[-1]:.0e} at λ = {num(small)} after 50 steps) "
                   f"and far causes are not learned; above 1 it explodes ({growing[-1]:.0f} "
                   f"at λ = {num(large)}) and one update throws the weights away.")
    work.check("W applied step by step gives the same g_k as the eigenvalues",
               all(np.allclose(a, b) for a, b in zip(closed, stepped, strict=True)))
    work.check("the norm of each power is λ₁ᵏ, and no g_k is longer",
               np.allclose(powers, [large**k for k in lags])
               and all(np.linalg.norm(g) <= size + 1e-9
                       for g, size in zip(stepped, powers, strict=True)))
    work.check("both eigenvectors: W (1, 1) = λ₁ (1, 1) and W (1, −1) = λ₂ (1, −1)",
               np.allclose(np.array(W) @ [1, 1], large) and
               np.allclose(np.array(W) @ [1, -1], [small, -small]))
    return work


def solutions():
    return [through_time()]
