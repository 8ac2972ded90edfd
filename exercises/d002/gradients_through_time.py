"""Document 002, Problem 1: vanishing and exploding gradients of a recurrent network, and remedies.

The gradient of a late loss reaches the state k steps earlier through a product of k Jacobians
Wᵀ diag(1 - h²).
"""

import math

import numpy as np

from exercises.course import format_arrays, format_table, judge, question, vec
from npdl.layers.batch_norm import BatchNorm
from npdl.layers.recurrent import RNNCell

W, GRADIENT = np.array([[0.85, 0.35], [0.35, 0.85]]), np.array([1.0, 0.0])


def npdl_gradients_back(W, gradient, steps):
    """Return the gradients 0 to `steps` steps back, by npdl's RNN cell h' = W h at h = 0."""
    cell, gradients = RNNCell(1, 2, bias=False, dtype="float64"), [np.asarray(gradient)]
    cell.W_h.data[...] = W.T
    _, cache = cell.forward(np.zeros((1, 1)), np.zeros((1, 2)))
    for _ in range(steps):
        gradients.append(cell.backward(gradients[-1][None], cache)[1][0])
    return gradients


@question("002.1", "Why gradients that vanish or explode are a problem for recurrent networks")
def solve_vanishing_and_exploding(say, step, answer, check, claim):
    """Explain why vanishing and exploding gradients are a problem for a recurrent network."""
    trace, det = np.trace(W), np.linalg.det(W)
    root = math.sqrt(trace**2 / 4 - det)
    large, small = trace / 2 + root, trace / 2 - root
    along = across = GRADIENT[0] / 2                                # of (1, 1) and of (1, −1)
    lags = (0, 1, 2, 10, 50)
    growing, fading = [along * large**k for k in lags], [across * small**k for k in lags]
    closed = [np.array([a + b, a - b]) for a, b in zip(growing, fading, strict=True)]
    sizes = [float(np.linalg.norm(np.linalg.matrix_power(W, k), 2)) for k in lags]
    factor, gradients = large * (1 - 0.9**2), npdl_gradients_back(W, GRADIENT, 50)
    say("The network has two units and a symmetric W. The gradient starts in the first unit only.")
    step("Go one step back. The gradient of the earlier state is the gradient of the later state "
         "times the transposed Jacobian of the step.", "hₜ = tanh(z),  z = W hₜ₋₁ + xₜ",
         "∂L/∂hₜ₋₁ = Wᵀ diag(1 − hₜ²) ∂L/∂hₜ", "h near 0: 1 − h² = 1, so ∂L/∂hₜ₋₁ = Wᵀ ∂L/∂hₜ = "
         f"{vec(W.T @ GRADIENT)}", format_arrays({"W": W, "∂L/∂h_T": GRADIENT}))
    step("Go k steps back. The Jacobian is applied k times, and the eigenvalues determine its k-th "
         "power.", "det(W − λ I) = λ² − tr(W) λ + det(W) = 0", "λ = tr/2 ± √(tr²/4 − det)",
         f"λ² − {trace:.3f} λ + {det:.3f} = 0",
         f"λ₁ = {large:.3f} on (1, 1),  λ₂ = {small:.3f} on (1, −1)")
    step("Split the gradient along the eigenvectors. Each component keeps its direction and is "
         "multiplied by its λ at every step.", "g = a (1, 1) + b (1, −1)   →   g_k = a λ₁ᵏ (1, 1) "
         "+ b λ₂ᵏ (1, −1)", f"a = {along:.3f}, b = {across:.3f}",
         format_table(("steps back k", "a λ₁ᵏ", "b λ₂ᵏ", "g_k", "|g_k|", "‖Wᵏ‖"), [
             (k, f"{a:.3g}", f"{b:.3g}", vec(g), float(np.linalg.norm(g)), size)
             for k, a, b, g, size in zip(lags, growing, fading, closed, sizes, strict=True)]))
    step("|g_k| is the norm of this gradient only. The norm of the matrix power bounds the norm of "
         "every gradient that starts with length 1.", "|g_k| ≤ ‖Wᵏ‖ |g_0|,   and for a symmetric W "
         "‖Wᵏ‖ = λ₁ᵏ", f"k = 10: {np.linalg.norm(closed[3]):.3f} ≤ {sizes[3]:.3f} = {large:.3f}¹⁰")
    step("The derivative of tanh is another factor of every step. If a unit is saturated, this "
         "factor is small, and the product with λ₁ is below 1.", "factor of a step = λ (1 − h²)",
         f"h = 0.9: {large:.3f} · (1 − {0.9**2:.2f}) = {factor:.3f};  after 10 steps "
         f"{factor**10:.1e}")
    step("See what this means for a weight. One unit has hₜ = w hₜ₋₁ + xₜ with all x = 1. dL/dw is "
         "a sum over all uses of w, and the use k steps back has the factor w^k.",
         "∂h_T/∂w = h_T₋₁ + w h_T₋₂ + w² h_T₋₃ + …",
         f"w = {small:.1f}, h → 1/(1 − w) = {1 / (1 - small):.1f}: "
         + " + ".join(f"{small**k / (1 - small):.2f}" for k in range(5))
         + " + …; the distant past adds almost nothing")
    answer("Every step multiplies the gradient by a Jacobian. If |λ| (1 − h²) is below 1, the "
           f"gradient vanishes ({fading[-1]:.0e} at λ = {small:.3f} after 50 steps), and effects "
           "of the distant past are not learned. If it is above 1, the gradient explodes "
           f"({growing[-1]:.0f} at λ = {large:.3f}), and one update ruins the weights.")
    check("npdl's RNN cell at h = 0, step by step, gives the same g_k as the eigenvalues.",
          np.allclose([gradients[k] for k in lags], closed))
    parts = np.array(gradients[:11]) @ [[1, 1], [1, -1]]                # along the eigenvectors
    uses = np.array([small**k / (1 - small) for k in range(60)])        # of w in dL/dw
    far, near = uses[20:].sum() / uses.sum(), uses[:3].sum() / uses.sum()
    claim("vanishing, exploding", "over many steps back a gradient shrinks or grows exponentially",
          "decreases or increases rapidly", "its components are multiplied by the eigenvalues 1.2 "
          "and 0.5 at every step", judge(np.allclose(parts[1:] / parts[:-1], [1.2, 0.5])),
          f"after 50 steps: {growing[-1]:.0f} and {fading[-1]:.1e}")
    claim("vanishing", "vanishing gradients make the weight updates negligible",
          "negligible updates, stalled training", "true only for the distant past: the uses of w "
          f"20 and more steps before the loss are a fraction {far:.1e} of dL/dw, the last three "
          f"are {near:.2f}", judge(far < 1e-3 < 0.1 < near, "under-specified"),
          f"the unit above with w = {small:.1f}; dL/dw is a sum over the uses of w")
    by_gradients = np.prod(gradients[:11], axis=0)
    x = np.linspace(-10, 10, 20001)
    s = 1 / (1 + np.exp(-x))
    sigmoid, tanh = (s * (1 - s)).max(), (1 - np.tanh(x) ** 2).max()
    claim("cause", "gradients are multiplied by one another on the way back",
          "repeated multiplication of gradients", "the Jacobians dh_t/dh_(t-1) are multiplied, and "
          "the gradient of the loss is multiplied by them",
          judge(np.allclose(by_gradients, gradients[10]), if_false="under-specified"), "true if a "
          "gradient means any derivative of a step: after 10 steps, the product of Jacobians gives "
          f"{vec(gradients[10])}, but the product of the loss's gradients is {vec(by_gradients)}")
    claim("cause", "the flat parts of the sigmoid and of tanh make gradients vanish",
          "activations with steep or flat gradients (sigmoid, tanh)",
          f"a step multiplies the gradient by {factor:.3f} if tanh is saturated, and by "
          f"{large:.3f} if tanh is near the identity", judge(factor < 1 < large),
          f"h = 0.9: {factor**10:.1e} after 10 steps, compared with {large**10:.2f}")
    claim("cause", "steep activation functions such as the sigmoid and tanh are behind explosion",
          "activations with steep or flat gradients (sigmoid, tanh)",
          f"neither is steep: their derivatives are at most {sigmoid:.2f} and {tanh:.2f}; they can "
          "only make a gradient smaller, and growth comes from W_h", judge(max(sigmoid, tanh) > 1),
          f"a factor of {large:.1f} per step where tanh is near the identity")


def descend_one_unit(w, lr, updates, use_tanh=False):
    """Return (w, h₃, loss, dL/dw) before and after each of `updates` gradient-descent updates of w.

    The network has one unit with h' = w h, or tanh(w h) if `use_tanh`, and h₀ = 1. Its loss is
    h₃²/2.
    """
    rows = []
    for _ in range(updates + 1):
        state, slope = 1.0, 0.0                                     # slope = dh/dw
        for _ in range(3):
            slope, state = state + w * slope, w * state
            if use_tanh:
                state = math.tanh(state)
                slope *= 1 - state * state
        rows.append((w, state, state * state / 2, state * slope))
        w -= lr * rows[-1][3]
    return rows


@question("002.1", "What exploding gradients do to training")
def solve_effects_of_explosion(say, step, answer, check, claim):
    """Show on one recurrent unit what exploding gradients do to weights, loss and loss curve."""
    straight = descend_one_unit(2.0, 0.1, 3)
    bent = descend_one_unit(1.5, 30.0, 3, use_tanh=True)
    w, h, loss, slope = straight[0]
    up, down = (descend_one_unit(w + move, 0, 0)[0][2] for move in (1e-6, -1e-6))

    def format_updates(rows):
        return format_table(("update", "w", "h₃", "L", "dL/dw"), [
            (str(n), *(f"{value:.3g}" for value in row)) for n, row in enumerate(rows)])

    say("The example has one unit with one weight, h₀ = 1, and 3 steps.")
    step("Compute the forward pass. The target of the last state is 0.", "h₃ = w³ h₀,   L = h₃²/2",
         f"h₃ = {w:.0f}³ · 1 = {h:.0f},   L = {h:.0f}²/2 = {loss:.0f}")
    step("Differentiate the loss. The three steps make the gradient proportional to a power of w.",
         "dL/dw = h₃ · 3 w² h₀", f"dL/dw = {h:.0f} · 3 · {w:.0f}² · 1 = {slope:.0f}")
    step("Use gradient descent with the learning rate 0.1, without tanh. The step overshoots 0 and "
         "ends further away, where the gradient is even larger.", "w ← w − 0.1 dL/dw",
         f"w = {w:.0f} − 0.1 · {slope:.0f} = {straight[1][0]:.1f}", format_updates(straight))
    step("Now use tanh in every step, from w = 1.5 with the learning rate 30. After one large "
         "update every tanh is saturated. The gradient is almost 0, so w does not change any more.",
         "hₜ = tanh(w hₜ₋₁),   derivative 1 − hₜ² in each step", format_updates(bent))
    answer("It depends on the network. Without tanh, |w| diverges faster than exponentially "
           f"({', '.join(f'{abs(row[0]):.3g}' for row in straight)}). With tanh, one large update "
           f"ends on a plateau at L = {bent[-1][2]:.3f}, where dL/dw = {bent[-1][3]:.0e}.")
    free, bound = (np.array([row[0] for row in rows]) for rows in (straight, bent))
    sizes = np.abs(free)
    check("A finite difference of the loss agrees with dL/dw of the first row.",
          abs((up - down) / 2e-6 - slope) < 1e-4)
    grow = [bool((np.abs(ws[1:]) >= 1.2 * np.abs(ws[:-1])).all()) for ws in (free, bound)]
    margins = np.array([1, 10, 100])                # by which the correct class of two is behind
    losses, slopes = np.logaddexp(0, margins), 1 / (1 + np.exp(-margins))
    claim("exploding", "exploding gradients make the weights grow exponentially during training",
          "weights grow exponentially", "it depends on the network: without tanh the weight grows "
          f"at every update, faster than exponentially, |w| = {vec(sizes, '.2g')}; with tanh there "
          f"is one large update and then no change, w = {vec(bound, 2)}",
          judge(all(grow), if_false="under-specified" if any(grow) else "wrong"), "the runs above; "
          "only the gradient always grows exponentially, with the number of time steps")
    claim("exploding", "a rapidly rising loss under exploding gradients is a saturation of the "
          "loss", "called loss function saturation", "it is a rising loss; saturated means that "
          "the gradient is near 0", judge(max(slopes) < 0.1, if_false="slip"), "cross-entropy "
          f"{vec(losses, 2)} has derivatives {vec(slopes, 2)}, so it does not saturate")


def cosine(a, b):
    """Return the cosine of the angle between two vectors."""
    return float(np.dot(a, b) / (np.linalg.norm(a) * np.linalg.norm(b)))


def gradient_factor_per_step(weight_scale, normalised, steps=50, width=32):
    """Return the factor per step of the gradient of h' = tanh(BN(h W + x)), or without BN."""
    rng = np.random.default_rng(8)
    W = rng.standard_normal((width, width)) * weight_scale / math.sqrt(width)
    h, norm, caches = rng.standard_normal((64, width)), BatchNorm(width, dtype="float64"), []
    for x in 0.5 * rng.standard_normal((steps, 64, width)):
        z, cache = h @ W + x, None
        if normalised:
            z, cache = norm.forward(z)
        h = np.tanh(z)
        caches.append((h, cache))
    d = rng.standard_normal(h.shape)
    start = np.linalg.norm(d)
    for h, cache in reversed(caches):
        d = d * (1 - h * h)
        d = (norm.backward(d, cache) if normalised else d) @ W.T
    return float((np.linalg.norm(d) / start) ** (1 / steps))


@question("002.1", "The effects of clipping, gates, initialisation and batch normalisation")
def solve_remedies(say, step, answer, check, claim):
    """Name remedies for vanishing and exploding gradients, and say what each of them does."""
    g = np.array([3.0, 4.0])
    tiny = 1e-5 * g
    scaled, kept = (v * min(1.0, 1 / np.linalg.norm(v)) for v in (g, tiny))
    cut = np.clip(g, -1, 1)
    gates, n = (0.5, 0.9, 0.99), 100
    xavier, he = math.sqrt(n / n), math.sqrt(n * 2 / n)
    z = np.array([1.0, 2.0, 3.0])
    small, large = (0.5 * z).std(), (4 * z).std()
    say("The examples use g = (3, 4), one forget gate, n = 100 inputs, and a batch of three.")
    step("Clip by the global norm. This makes the gradient shorter and keeps its direction.",
         "g ← g · min(1, c/|g|)", f"|{vec(g, 0)}| = {np.linalg.norm(g):.3f}, c = 1: {vec(scaled)}, "
         f"cosine with g {cosine(g, scaled):.3f}",
         f"each entry clipped to ±1 instead: {vec(cut)}, cosine {cosine(g, cut):.3f}")
    step("Clipping does not help a vanished gradient. It is shorter than c, so it does not change.",
         f"|g| = {np.linalg.norm(tiny):.0e} before and {np.linalg.norm(kept):.0e} after")
    step("Use gates. The path through the memory cell multiplies by the forget gate, not by W.",
         "cₜ = f cₜ₋₁ + …   →   ∂c_T/∂c₀ = f^T along this path",
         format_table(("f", "f¹⁰", "f⁵⁰"),
                      [(f"{f:.2f}", f"{f**10:.2g}", f"{f**50:.1e}") for f in gates]))
    step("Choose the initialisation. With n inputs and weights of variance v, a step multiplies "
         "the length of h by √(n v) on average.", "E|W h|² = n v |h|²",
         f"v = 1/n (Xavier): √1 = {xavier:.3f} per step",
         f"v = 2/n (He): √2 = {he:.3f} per step, {he**20:.0f} after 20 steps near h = 0")
    step("Batch normalisation divides by the standard deviation of z, so that the size of W "
         "cancels.", "z ← a z  →  std(z) ← a std(z)  →  W/std(z) unchanged",
         f"z = {vec(z, 0)} over a batch: std = {small:.3f} for a = 0.5, {large:.3f} for a = 4; "
         f"ratio {large / small:.3f} = {4 / 0.5:.3f}")
    answer("Clipping helps only against explosion. A gate helps if f is near 1 (f⁵⁰ = "
           f"{gates[-1]**50:.2f} at {gates[-1]}, {gates[0]**50:.0e} at {gates[0]}). Xavier "
           "initialisation starts near a factor of 1. Batch normalisation removes the effect of "
           "W's size.")
    check("The clipped gradient has length 1 and the direction of g.",
          math.isclose(np.linalg.norm(scaled), 1) and cosine(g, scaled) > 1 - 1e-12)
    long, length, short, same = map(np.linalg.norm, (g, scaled, tiny, kept))
    claim("clipping", "clipping keeps an exploding gradient within a threshold", "limits gradient "
          "values, prevents explosion", f"the global norm {long:.2f} becomes {length:.2f}, and the "
          "direction remains the same", judge(length <= 1 + 1e-9 and cosine(g, scaled) > 1 - 1e-9),
          f"cosine with the true gradient: clipped by norm {cosine(g, scaled):.3f}; every value "
          f"clipped {cosine(g, cut):.3f}")
    claim("clipping", "clipping mitigates, as one of a list for vanishing and exploding gradients",
          "in the list for both; its own line says explosion",
          f"true for explosion only: a vanished gradient of length {short:.1e} remains at "
          f"{same:.1e}", judge(same > short, if_false="under-specified"), "clipping multiplies it "
          f"by {same / short:.3f}; the document's own line on clipping is right")
    biases = np.array([0, 1, 5])
    left = (1 / (1 + np.exp(-biases))) ** 50
    plain, normed = ([gradient_factor_per_step(scale, way) for scale in (0.25, 4.0)]
                     for way in (False, True))
    claim("gates", "LSTM and GRU cells regulate the flow of gradients", "gating regulates it",
          "true for a forget gate near 1; at the usual initialisation near 1/2, an LSTM's gradient "
          f"vanishes too: f^50 is {vec(left, '.1e')} for forget biases {vec(biases)}",
          judge(left[0] < 1e-6 and left[-1] > 0.01, "under-specified"),
          "along the path through the memory cell, with inputs and state near 0")
    claim("initialisation", "Xavier or He initialisation stabilises an RNN",
          "helps stabilise training", "Xavier's variance 1/H keeps the length of the state, and "
          f"He's 2/H multiplies it by {he:.2f} per step, so it explodes until tanh saturates",
          judge(he > 1.3, "under-specified"), f"near the origin: length {he**100:.1e} after 100 "
          "steps; both variances were derived for layers that use their own weights once")
    claim("normalisation", "batch normalisation between steps prevents extreme gradients",
          "helps prevent them",
          f"it brings the factor per step nearer to 1, but not to 1: from {plain[0]:.2f} to "
          f"{normed[0]:.2f} with small weights, from {plain[1]:.2f} to {normed[1]:.2f} with large "
          "weights", judge(normed[0] < 0.9 and normed[1] < plain[1], "under-specified"),
          f"an example with seed 8, after 50 steps: {normed[0]**50:.1e} instead of "
          f"{plain[0]**50:.1e}, and {normed[1]**50:.1e} instead of {plain[1]**50:.1e}")
