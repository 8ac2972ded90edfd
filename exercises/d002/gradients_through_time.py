"""Document 002, Problem 1: vanishing and exploding gradients of a recurrent network.

The gradient of a late loss reaches the state k steps earlier through a product of k Jacobians
W_h diag(1 - h²). `gradient_norms` carries a unit gradient back through a cell of npdl.
"""

import math

import numpy as np

from exercises.course import arrays, judge, question, table, vec
from npdl.layers.recurrent import RNNCell
from npdl.losses import SequenceLoss


def recurrent_matrix(radius, width=32, seed=1):
    """Return a random (H, H) matrix whose largest eigenvalue has modulus `radius`."""
    W = np.random.default_rng(seed).standard_normal((width, width))
    return W * (radius / np.abs(np.linalg.eigvals(W)).max())


def rnn_cell(W_h):
    """Return a tanh cell without bias, with the recurrent matrix W_h (H, H)."""
    cell = RNNCell(4, len(W_h), bias=False, rng=0, dtype="float64")
    cell.W_h.data[...] = W_h
    return cell


def forward(cell, xs, state=None):
    """Return the last state and the caches of a cell that reads xs (T, B, D)."""
    caches = []
    for x in xs:
        state, cache = cell.forward(x, state)
        caches.append(cache)
    return state, caches


def back(cell, d, caches):
    """Yield the gradient of the state step by step, going back from the gradient d of the last."""
    for cache in reversed(caches):
        _, d = cell.backward(d, cache)
        yield d


def gradient_norms(cell, steps=100, input_size=0.0):
    """Return (steps + 1,) lengths of dL/d(state) for a unit gradient of the last h, going back.

    `input_size` scales normal inputs; 0 leaves the state near 0, where tanh is the identity.
    """
    rng = np.random.default_rng(2)
    state = tuple(1e-14 * rng.standard_normal((1, cell.d_hidden)) for _ in range(cell.parts))
    xs = input_size * rng.standard_normal((steps, 1, cell.W_x.shape[0]))
    _, caches = forward(cell, xs, state)
    d = np.full((1, cell.d_hidden), cell.d_hidden**-0.5)
    return np.array([1.0, *(np.linalg.norm(g) for g in back(cell, d, caches))])


def rate(norms):
    """Return the factor of the gradient in a step, over the second half of the way."""
    half = len(norms) // 2
    return float((norms[-1] / norms[half]) ** (1 / (len(norms) - 1 - half)))


def radius_norms(radius, input_size=0.0):
    """Return gradient_norms of a tanh cell with this spectral radius."""
    return gradient_norms(rnn_cell(recurrent_matrix(radius)), input_size=input_size)


def product_errors(steps=12):
    """Return by how much two products differ from the gradient that backward computes.

    The first is the product of the steps' Jacobians, the second the product of their gradients;
    both errors are relative to the gradient's largest entry.
    """
    rng = np.random.default_rng(3)
    cell = rnn_cell(recurrent_matrix(1.1, 6, 3))
    _, caches = forward(cell, rng.standard_normal((steps, 1, 4)))
    upstream = rng.standard_normal((1, 6))
    *gradients, last = [upstream, *back(cell, upstream, caches)]
    by_jacobians = upstream
    for cache in reversed(caches):
        by_jacobians = by_jacobians * (1 - cache.h**2) @ cell.W_h.data.T
    return [float(np.abs(product - last).max() / np.abs(last).max())
            for product in (by_jacobians, np.prod(gradients, axis=0))]


def weight_gradients(steps=60):
    """Return what each use of W_h adds to dL/dW_h, the last use first: (steps, H, H)."""
    cell = rnn_cell(recurrent_matrix(0.5))
    h, caches = forward(cell, np.random.default_rng(4).standard_normal((steps, 1, 4)))
    sums = [cell.W_h.grad.copy() for _ in back(cell, np.full_like(h, h.size**-0.5), caches)]
    return np.diff(sums, axis=0, prepend=0)


W, GRADIENT = np.array([[0.85, 0.35], [0.35, 0.85]]), np.array([1.0, 0.0])


@question("002.1", "Why gradients that vanish or explode trouble a recurrent network")
def through_time(work):
    """Explain why vanishing and exploding gradients trouble a recurrent network."""
    trace, det = np.trace(W), np.linalg.det(W)
    root = math.sqrt(trace**2 / 4 - det)
    large, small = trace / 2 + root, trace / 2 - root
    along, across = (GRADIENT[0] + GRADIENT[1]) / 2, (GRADIENT[0] - GRADIENT[1]) / 2
    lags = (0, 1, 2, 10, 50)
    growing, fading = [along * large**k for k in lags], [across * small**k for k in lags]
    closed = [np.array([a + b, a - b]) for a, b in zip(growing, fading, strict=True)]
    powers = [np.linalg.matrix_power(W, k) for k in lags]
    sizes = [float(np.linalg.norm(power, 2)) for power in powers]
    factor = large * (1 - 0.9**2)
    work.say("Two units, W symmetric, a gradient that begins in the first unit alone.")
    work.step("One step back. The gradient at the older state is the gradient at the newer one "
              "times the Jacobian of the step.",
              "hₜ = tanh(z),  z = W hₜ₋₁ + xₜ", "∂L/∂hₜ₋₁ = Wᵀ diag(1 − hₜ²) ∂L/∂hₜ",
              f"h near 0: 1 − h² = 1, so ∂L/∂hₜ₋₁ = Wᵀ ∂L/∂hₜ = {vec(W.T @ GRADIENT)}",
              arrays({"W": W, "∂L/∂h_T": GRADIENT}))
    work.step("k steps back the Jacobian has been applied k times. Its eigenvalues say what a "
              "power does.", "det(W − λ I) = λ² − tr(W) λ + det(W) = 0",
              "λ = tr/2 ± √(tr²/4 − det)",
              f"λ² − {trace:.3f} λ + {det:.3f} = 0",
              f"λ₁ = {large:.3f} on (1, 1),  λ₂ = {small:.3f} on (1, −1)")
    work.step("Split the gradient along the eigenvectors; each part keeps its direction and is "
              "multiplied by its λ at every step.",
              "g = a (1, 1) + b (1, −1)   →   g_k = a λ₁ᵏ (1, 1) + b λ₂ᵏ (1, −1)",
              f"a = {along:.3f}, b = {across:.3f}",
              table(("steps back k", "a λ₁ᵏ", "b λ₂ᵏ", "g_k", "|g_k|", "‖Wᵏ‖"),
                    [(k, f"{a:.3g}", f"{b:.3g}", vec(g), float(np.linalg.norm(g)), size)
                     for k, a, b, g, size in zip(lags, growing, fading, closed, sizes,
                                                 strict=True)]))
    work.step("|g_k| is of this one gradient; the norm of the matrix power, next to it, is the "
              "most that any gradient of length 1 can become.",
              "|g_k| ≤ ‖Wᵏ‖ |g_0|,   and for a symmetric W ‖Wᵏ‖ = λ₁ᵏ",
              f"k = 10: {np.linalg.norm(closed[3]):.3f} ≤ {sizes[3]:.3f} = {large:.3f}¹⁰")
    work.step("tanh adds its slope to every step. Where a unit is near its ends the factor is "
              "small, and even λ₁ is not enough.", "factor of a step = λ (1 − h²)",
              f"h = 0.9: {large:.3f} · (1 − {0.9**2:.2f}) = {factor:.3f};  after 10 steps "
              f"{factor**10:.1e}")
    work.step("What the weights see: one unit hₜ = w hₜ₋₁ + xₜ with all x = 1. dL/dw adds up the "
              "uses of w; the use k steps back counts w^k times.",
              "∂h_T/∂w = h_T₋₁ + w h_T₋₂ + w² h_T₋₃ + …",
              f"w = {small:.1f}, h → 1/(1 − w) = {1 / (1 - small):.1f}: "
              + " + ".join(f"{small**k / (1 - small):.2f}" for k in range(5))
              + " + …: nothing of the far past")
    work.answer("Every step multiplies the gradient by a Jacobian: with |λ| (1 − h²) below 1 it "
                f"vanishes ({fading[-1]:.0e} at λ = {small:.3f} after 50 steps) and far causes are "
                f"not learned; above 1 it explodes ({growing[-1]:.0f} at λ = {large:.3f}) and one "
                "update throws the weights away.")
    work.check("W applied step by step gives the same g_k as the eigenvalues",
               np.allclose(closed, [power.T @ GRADIENT for power in powers]))
    work.check("the norm of each power is λ₁ᵏ, and no g_k is longer",
               np.allclose(sizes, [large**k for k in lags])
               and all(np.linalg.norm(g) <= size + 1e-9
                       for g, size in zip(closed, sizes, strict=True)))
    work.check("both eigenvectors: W (1, 1) = λ₁ (1, 1) and W (1, −1) = λ₂ (1, −1)",
               np.allclose(W @ [1, 1], large) and np.allclose(W @ [1, -1], [small, -small]))
    effects(work)
    causes(work)


def effects(work):
    """Add the claims on what vanishing and exploding gradients are and do."""
    radii = (0.8, 0.9, 1.1, 1.25)
    norms = [radius_norms(radius) for radius in radii]
    rates = [rate(way) for way in norms]
    uses = weight_gradients()
    total = np.linalg.norm(uses.sum(0))
    far, near = (np.linalg.norm(part, axis=(1, 2)).max() / total for part in (uses[20:], uses[:3]))
    work.claim("vanishing, exploding",
               "over many steps back a gradient shrinks or grows exponentially",
               "decreases or increases rapidly",
               f"factor per step {vec(rates)} at spectral radius {vec(radii, 2)}",
               judge(np.abs(np.subtract(rates, radii)).max() < 0.01),
               "an example (seeds 0, 1, 2): near h = 0; length after 100 steps: "
               f"{norms[0][-1]:.1e} at radius 0.8, {norms[-1][-1]:.1e} at 1.25, from 1")
    work.claim("vanishing", "vanishing gradients make the weight updates negligible",
               "negligible updates, stalled training",
               "only the part from far back is: the steps 20 and more before the loss add at most "
               f"{far:.1e} of the length of dL/dW, the last three steps up to {near:.2f}",
               judge(far < 1e-3 < 0.1 < near, "under-specified"),
               "an example (seeds 0, 1 and 4): radius 0.5, 60 steps: dL/dW is a sum over uses of "
               f"W, and its total length is {total:.2f}")


def causes(work):
    """Add the claims on the common cause."""
    by_jacobians, by_gradients = product_errors()
    x = np.linspace(-10, 10, 20001)
    s = 1 / (1 + np.exp(-x))
    sigmoid, tanh = (s * (1 - s)).max(), (1 - np.tanh(x) ** 2).max()
    linear, bent = (radius_norms(1.25, size)[-1] for size in (0.0, 1.0))
    open_rate, flat_rate = (rate(radius_norms(1.0, size)) for size in (0.0, 3.0))
    work.check("the product of the steps' Jacobians is the gradient that backward computes",
               by_jacobians < 1e-9)
    work.claim("cause", "gradients are multiplied by one another on the way back",
               "repeated multiplication of gradients",
               "what is multiplied are the Jacobians dh_t/dh_(t-1) of the steps; one gradient of "
               "the loss runs through them", judge(by_gradients < 1e-9, if_false="under-specified"),
               "holds if a gradient is any derivative of a step: over 12 steps the product of "
               "Jacobians is off by below 1e-09, the product of the loss's gradients by "
               f"{by_gradients:.1f} times the largest entry")
    work.claim("cause", "the flat parts of the sigmoid and of tanh make gradients vanish",
               "activations with steep or flat gradients (sigmoid, tanh)",
               f"a step multiplies the gradient by {flat_rate:.2f} where inputs push tanh to its "
               f"ends, by {open_rate:.2f} where it is the identity",
               judge(flat_rate < 0.9 * open_rate),
               "an example (seeds 0, 1, 2): spectral radius 1.00, 100 steps, npdl's RNN cell, "
               "inputs of standard deviation 3 and 0")
    work.claim("cause",
               "steep activation functions such as the sigmoid and tanh are behind explosion",
               "activations with steep or flat gradients (sigmoid, tanh)",
               f"neither is steep: slopes at most {sigmoid:.2f} and {tanh:.2f}; they can only "
               "shrink a gradient, and growth comes from W_h", judge(max(sigmoid, tanh) > 1),
               f"an example (seeds 0, 1, 2): radius 1.25, 100 steps: length {linear:.1e} where "
               f"tanh is the identity, {bent:.1e} where inputs bend it")


def descent(w, h, target, steps, lr, updates, squash=False):
    """Return (w, h_T, loss, dL/dw) before and after each update of gradient descent on w.

    One unit with h' = w h or tanh(w h); the loss is (h_T - target)²/2. It stops where w is no
    longer finite.
    """
    rows = []
    for _ in range(updates + 1):
        state, slope = h, 0.0                                       # slope = dh/dw
        for _ in range(steps):
            slope, state = state + w * slope, w * state
            if squash:
                state = math.tanh(state)
                slope *= 1 - state * state
        rows.append((w, state, (state - target) ** 2 / 2, (state - target) * slope))
        w -= lr * rows[-1][3]
        if not math.isfinite(w):
            return [*rows, (w, math.inf, math.inf, math.inf)]
    return rows


def cross_entropy_slope(margin):
    """Return (loss, |dloss/dlogit|) if the right class of two is behind by `margin`."""
    layer = SequenceLoss()
    loss, cache = layer.forward(np.array([[[0.0, margin]]]), np.array([[0]]), np.array([[True]]))
    return float(loss), float(np.abs(layer.backward(1.0, cache)[0, 0, 0]))


@question("002.1", "What exploding gradients do to training")
def exploding(work):
    """Show on one recurrent unit what exploding gradients do to weights, loss and loss curve."""
    straight = descent(2.0, 1.0, 0.0, 3, 0.1, 3)
    bent = descent(1.5, 1.0, 0.0, 3, 30.0, 3, squash=True)
    w, h, loss, slope = straight[0]
    up, down = (descent(w + move, 1.0, 0.0, 3, 0, 0)[0][2] for move in (1e-6, -1e-6))
    heads = ("update", "w", "h₃", "L", "dL/dw")

    def shown(rows):
        return table(heads, [(str(n), *(f"{value:.3g}" for value in row))
                             for n, row in enumerate(rows)])

    work.say("One unit, one weight, h₀ = 1, 3 steps.")
    work.step("Forward, 3 steps with one weight; the wanted end state is 0.",
              "h₃ = w³ h₀,   L = h₃²/2",
              f"h₃ = {w:.0f}³ · 1 = {h:.0f},   L = {h:.0f}²/2 = {loss:.0f}")
    work.step("The gradient has the power of w that the way through time makes.",
              "dL/dw = h₃ · 3 w² h₀", f"dL/dw = {h:.0f} · 3 · {w:.0f}² · 1 = {slope:.0f}")
    work.step("Plain descent, learning rate 0.1, no tanh: the step goes over 0 and lands further "
              "out, where the gradient is longer still.",
              "w ← w − 0.1 dL/dw", f"w = {w:.0f} − 0.1 · {slope:.0f} = {straight[1][0]:.1f}",
              shown(straight))
    work.step("The same with tanh in every step, from w = 1.5 with learning rate 30: one jump, and "
              "then every tanh is at its end, the gradient is 0, and nothing moves.",
              "hₜ = tanh(w hₜ₋₁),   slope 1 − hₜ² in each step", shown(bent))
    work.answer("It depends: without a bound |w| runs away, faster than exponentially "
                f"({', '.join(f'{abs(row[0]):.3g}' for row in straight)}); with tanh one jump ends "
                f"on a plateau at L = {bent[-1][2]:.3f}, where dL/dw = {bent[-1][3]:.0e}.")
    sizes = np.abs([row[0] for row in straight])
    work.check("dL/dw of the first row against a difference of two losses",
               abs((up - down) / 2e-6 - slope) < 1e-4)
    work.check("without tanh |w| grows at every update, by a growing factor",
               sizes[1] > sizes[0] and (np.diff(sizes[1:] / sizes[:-1]) > 0).all())
    work.check("with tanh the weight stops after the first jump",
               abs(bent[1][0] - 1.5) > 0.5 and abs(bent[-1][0] - bent[1][0]) < 0.01)
    free, bound = (np.array([row[0] for row in descent(1.5, 1e-6, -1.0, 30, 2.0, n, squash)])
                   for n, squash in ((8, False), (4, True)))
    grow = [bool((np.abs(ws[1:]) >= 1.2 * np.abs(ws[:-1])).all()) for ws in (free, bound)]
    losses, slopes = zip(*map(cross_entropy_slope, (1.0, 10.0, 100.0)), strict=True)
    work.claim(
        "exploding", "exploding gradients make the weights grow exponentially during training",
        "weights grow exponentially",
        "it depends on the net: without tanh the weight grows at every update, faster than "
        f"exponentially, |w| = {vec(np.abs(free), '.3g')}; with tanh there is one jump and then "
        f"nothing, w = {vec(bound, 2)}",
        judge(all(grow), if_false="under-specified" if any(grow) else "wrong"),
        "h' = w h and h' = tanh(w h), 30 steps, plain descent; what always is exponential is the "
        "gradient in the number of time steps")
    work.claim(
        "exploding", "a rapidly rising loss under exploding gradients is a saturation of the loss",
        "called loss function saturation",
        "a rising loss; saturated means flat, where the gradient is near 0",
        judge(max(slopes) < 0.1, if_false="slip"),
        f"cross-entropy {vec(losses, 2)} has slopes {vec(slopes, 2)}: it does not flatten as it "
        "rises")
