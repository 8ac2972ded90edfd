"""Document 003, Question 5: h_t = W^T h_(t-1), its eigenvalues, and vanishing or exploding.

The textbook answer (|lambda| < 1 vanishes, > 1 explodes) needs three additions, each shown here:
a defective W at |lambda| = 1 grows, a non-normal W grows before it vanishes, and a start without
the large eigenvector's component does not explode.
"""

import math
from fractions import Fraction
from functools import partial
from math import comb

import numpy as np

from exercises.framework import Claim, judge, proved
from exercises.worked import Solution, Step, Table, below, listing, num, vec
from npdl.layers.recurrent import RNNCell

QUESTION = """\
Question 5. h_t = W^T h_(t-1), W complex n x n with eigenvalues lambda_1 .. lambda_n and spectral \
radius rho = max |lambda|. Write h_t by h_0, and explain what the eigenvalues have to do with \
vanishing and exploding as t grows."""

TITLES = {"5": "Eigenvalues, and gradients that vanish or explode"}

claim_of = partial(Claim, "003", "Q5")


def spectral_radius(W):
    return float(moduli(W)[-1])


def states(W, h_0, steps):
    """(steps + 1, n): h_0 (n,), then h_t = W^T h_(t-1), one step after the other."""
    W, found = np.asarray(W), [np.asarray(h_0)]
    for _ in range(steps):
        found.append(W.T @ found[-1])
    return np.array(found)


def state_norms(W, h_0, steps):
    """(steps + 1,) lengths of the states."""
    return np.linalg.norm(states(W, h_0, steps), axis=1)


def jordan(eigenvalue, size):
    """The defective matrix: one eigenvalue, ones above the diagonal, a single eigenvector."""
    return eigenvalue * np.eye(size) + np.eye(size, k=1)


def jordan_power(eigenvalue, size, t):
    """The last column of jordan(...)^t as exact fractions: comb(t, k) lambda^(t - k), k from 0."""
    return [comb(t, k) * Fraction(eigenvalue) ** (t - k) if t >= k else Fraction(0)
            for k in range(size)]


def random_orthogonal(n, seed=0):
    """The Q of a random matrix's Q R, its signs such that R's diagonal is positive."""
    Q, R = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))
    return Q * np.sign(np.diag(R))


def closed_form(W, h_0, t):
    """h_t = (W^t)^T h_0."""
    return np.linalg.matrix_power(W, t).T @ h_0


def moduli(W):
    """The |lambda_k| of W, the smallest first."""
    return np.sort(np.abs(np.linalg.eigvals(W)))


def gradient_through(W, g, steps):
    """dL/dh_0 for dL/dh_t = g (n,), by npdl's RNN cell, backward through t steps from h = 0."""
    cell = RNNCell(1, len(W), bias=False, dtype="float64")
    cell.W_h.data[...] = W
    h, caches, d = np.zeros((1, len(W))), [], np.asarray(g)[None]
    for _ in range(steps):
        h, cache = cell.forward(np.zeros((1, 1)), h)                # row h W: the column W^T h
        caches.append(cache)
    for cache in reversed(caches):
        _, d = cell.backward(d, cache)
    return d[0]


def share_vanishing(gain, n=32, count=200, seed=2):
    """The share of random W, entries normal of variance gain^2 / n, with rho < 1."""
    W = np.random.default_rng(seed).standard_normal((count, n, n)) * gain / np.sqrt(n)
    return float(np.mean([spectral_radius(each) < 1 for each in W]))


def answers():
    """The answer, in parts."""
    rng, n = np.random.default_rng(0), 5
    W = (rng.standard_normal((n, n)) + 1j * rng.standard_normal((n, n))) / np.sqrt(2 * n)
    h_0 = rng.standard_normal(n)
    closed = np.abs(closed_form(W, h_0, 12) - states(W, h_0, 12)[-1]).max()
    eigen = np.abs(moduli(W) - moduli(W.T)).max()
    W, g = W.real * np.sqrt(2), rng.standard_normal(n)
    back = np.linalg.matrix_power(W, 10) @ g
    gradient = np.abs(gradient_through(W, g, 10) - back).max() / np.abs(back).max()
    small, transient = jordan(0.9, 3), np.array([[0.9, 10.0], [0.0, 0.8]])
    down, up = state_norms(small, np.ones(3), 300), state_norms(transient, np.array([1.0, 0]), 300)
    yield claim_of(
        "", "h_t in terms of h_0", "none printed", "h_t = (W^T)^t h_0 = (W^t)^T h_0",
        judge(max(closed, eigen) < 1e-9, "no answer given"),
        f"12 steps of a random complex W: error {below(closed)}; W and W^T have the same "
        f"eigenvalues, moduli differ by {below(eigen)}")
    yield claim_of(
        "", "the gradient through t steps", "none printed",
        "dL/dh_0 = W^t dL/dh_t: the same eigenvalues decide",
        judge(gradient < 1e-9, "no answer given"),
        f"npdl's RNN at h = 0, 10 steps back: error {below(gradient)}")
    yield claim_of(
        "rho < 1", "with rho < 1 everything vanishes", "none printed",
        "for every h_0, W defective or not; but at first it may grow",
        judge(max(down[-1], up[-1]) < 1e-6 < 1 < up.max(), "no answer given"),
        f"defective, rho = 0.9: length {down[0]:.1f}, at most {down.max():.1f}, after 300 steps "
        f"{down[-1]:.0e}; non-normal [[0.9, 10], [0, 0.8]]: from 1 up to {up.max():.0f}, "
        f"then {up[-1]:.0e}")
    W = np.diag([1.2, 0.5])
    spared, hit = (state_norms(W, np.array(h), 100)[-1] for h in ((0.0, 1.0), (1e-6, 1.0)))
    yield claim_of(
        "rho > 1", "with rho > 1 it explodes", "none printed",
        "for almost every h_0: those without a component along the large eigenvalue don't",
        judge(spared < 1e-6 and hit > 1, "no answer given"),
        f"W = diag(1.2, 0.5), 100 steps: from (0, 1) {spared:.0e}, from (0.000001, 1) {hit:.0f}")
    turning = state_norms(random_orthogonal(8), np.ones(8), 1000)
    growing, change = jordan_power(1, 3, 1000), abs(turning[-1] / turning[0] - 1)
    yield claim_of(
        "rho = 1", "with rho = 1 it neither vanishes nor explodes", "none printed",
        "if the eigenvalues of modulus 1 have full sets of eigenvectors; a Jordan block of size k "
        "grows as t^(k - 1)",
        judge(change < 1e-9 and growing[2] > 1e5, "no answer given"),
        f"orthogonal W: length after 1000 steps changed by {below(change)}; "
        f"Jordan block of size 3 at 1: exactly {', '.join(map(str, growing))}")
    yield claim_of(
        "diagonalising", "h_t = sum_k c_k lambda_k^t v_k explains it", "none printed",
        "only for a diagonalisable W; in general each lambda^t comes with a polynomial in t, and "
        "the norms obey |W^t|^(1/t) -> rho",
        judge(np.linalg.matrix_rank(small - 0.9 * np.eye(3)) == 2, "no answer given"),
        f"the block of size 3 at 0.9 has 1 eigenvector, not 3; |W^t|^(1/t) = "
        f"{listing([_root(small, t) for t in (10, 100, 1000)], '.3f')} at t = 10, 100, 1000")


def premises():
    """Claims on what the question takes for granted."""
    roots = [_root(random_orthogonal(6, 3) @ np.diag([0.2, 0.5, 0.8, 1.0, 1.1, 1.3]), t)
             for t in (10, 1000)]
    rho = spectral_radius(random_orthogonal(6, 3) @ np.diag([0.2, 0.5, 0.8, 1.0, 1.1, 1.3]))
    Q = random_orthogonal(8)
    turning = state_norms(Q, np.ones(8), 1000)
    gains = (0.7, 1.0, 1.3)
    shares = [share_vanishing(gain) for gain in gains]
    percents = [100 * share for share in shares]
    yield claim_of(
        "(15)", "the spectral radius max |lambda| is what decides in the long run",
        "rho = max |lambda_k|", f"it is the limit of |W^t|^(1/t): {rho:.3f}",
        proved(abs(roots[-1] - rho) < 0.01),
        "an example, seed 3: "
        f"a random 6 x 6 matrix: {roots[0]:.3f} at t = 10, {roots[1]:.3f} at t = 1000")
    yield claim_of(
        "premise", "gradients over many steps either vanish or explode",
        "tend to either vanish or explode",
        "not at rho = 1: an orthogonal W keeps every length",
        judge(abs(turning[-1] / turning[0] - 1) > 1e-3, "confirmed", "under-specified",
              provided=np.allclose(Q.T @ Q, np.eye(8))),
        f"1000 steps: length {turning[0]:.4f} becomes {turning[-1]:.4f}")
    yield claim_of(
        "premise", "they vanish frequently and explode rarely", "frequently, rarely",
        "it depends on how W is drawn, here without an activation; a bounded one such as tanh "
        "makes vanishing likelier",
        judge(min(shares) > 0.5, "confirmed", "under-specified"),
        f"32 x 32 normal entries of variance g^2/32: rho < 1 in "
        f"{listing(percents, '.0f')} % of 200 (seed 2) at g = {listing(gains, 'g')}")


def _root(W, t):
    """|W^t|^(1/t), the spectral norm, by repeated scaling: never overflows."""
    M, log = np.eye(len(W)), 0.0
    for _ in range(t):
        M = M @ W
        size = np.abs(M).max()
        M, log = M / size, log + np.log(size)
    return float(np.exp((log + np.log(np.linalg.norm(M, 2))) / t))


def claims():
    return [*answers(), *premises()]


W_T = ((0.5, 0.35), (0.0, 1.2))             # Wᵀ; its eigenvectors are (1, 0) and (1, 2)
H_0 = (1.0, 1.0)
SKEW = np.array([[0.5, 4.0], [0.0, 0.6]])   # Wᵀ of the case that grows first


def triangular_pairs(M):
    """[(eigenvalue, eigenvector with first entry 1)] of an upper triangular (2, 2) matrix."""
    (a, b), (_, d) = M
    return [(a, (1.0, 0.0)), (d, (1.0, (d - a) / b))]


def shares(pairs, h):
    """c_1, c_2 with h = c_1 v_1 + c_2 v_2, for v_1 = (1, 0)."""
    (_, _), (_, v) = pairs
    second = h[1] / v[1]
    return h[0] - second * v[0], second


def closed_form_of(pairs, c, t):
    return sum(share * value**t * np.array(v) for share, (value, v) in zip(c, pairs, strict=True))


def power_norm(M, t):
    """The spectral norm of M^t: the longest that a vector of length 1 can become in t steps."""
    return float(np.linalg.norm(np.linalg.matrix_power(np.array(M), t), 2))


def short(value):
    return f"{value:.3g}".replace("-", "−")


def left_out(v_1):
    """What the eigenvalues alone do not say; v_1 is the eigenvector of the smaller one."""
    block, t = jordan_power(1, 2, 10), 10
    spared = state_norms(np.array(W_T).T, np.array(v_1), 50)
    early = state_norms(SKEW.T, (0.0, 1.0), 50)
    return Step("Three cases the rule leaves out. A start without a share along v₂ does not "
                "explode. A Jordan block at |λ| = 1 grows like t, since eigenvectors are "
                "missing. Before the end hₜ may grow though ρ < 1, where the eigenvectors are far "
                "from orthogonal.",
                "[1 1; 0 1]ᵗ = [1 t; 0 1]",
                f"h₀ = v₁: |h₅₀| = {short(float(spared[-1]))};   Jordan block at t = {t}: last "
                f"column ({num(block[1])}, {num(block[0])})\n"
                f"Wᵀ = [{' '.join(map(short, SKEW[0]))}; {' '.join(map(short, SKEW[1]))}], ρ = "
                f"{num(spectral_radius(SKEW), 1)}, from (0, 1): |h₁| = {short(early[1])}, "
                f"|h₅₀| = {short(early[-1])}\n‖W‖ = {short(power_norm(SKEW, 1))}, ‖W⁵⁰‖ = "
                f"{short(power_norm(SKEW, 50))}")


def powers():
    """Question 5."""
    pairs = triangular_pairs(W_T)
    (small, v_1), (large, v_2) = pairs
    c = shares(pairs, H_0)
    times = (0, 1, 2, 3, 10, 50)
    states, h = {}, np.array(H_0)
    for t in range(max(times) + 1):
        states[t], h = h, np.array(W_T) @ h
    late, turn = power_norm(W_T, 50), np.array([[0.0, -1.0], [1.0, 0.0]])
    root = late ** (1 / 50)
    turned = state_norms(turn.T, np.array(H_0), 50)
    back = [gradient_through(np.array(W_T).T, (1.0, 0.0), t) for t in range(3)]
    work = Solution("5", f"n = 2, h₀ = {vec(H_0, 0)}.")
    work.step("Put the recurrence into itself.", "hₜ = Wᵀ hₜ₋₁ = Wᵀ Wᵀ hₜ₋₂ = … = (Wᵀ)ᵗ h₀",
              f"h₁ = Wᵀ h₀ = {vec(states[1], 2)},   h₂ = Wᵀ h₁ = {vec(states[2])}",
              {"Wᵀ": np.array(W_T), "h₀": np.array(H_0)}, digits=2)
    work.step("Eigenvalues: W and Wᵀ have the same. A triangular matrix shows them on its "
              "diagonal.", "det(Wᵀ − λ I) = (λ₁ − λ)(λ₂ − λ) = 0,   Wᵀ vₖ = λₖ vₖ",
              f"λ₁ = {num(small, 1)} with v₁ = {vec(v_1, 0)},   λ₂ = {num(large, 1)} with v₂ = "
              f"{vec(v_2, 0)};   ρ = {num(max(small, large), 1)}")
    work.step("Split h₀ along the eigenvectors; a step multiplies each share by its λ and does "
              "nothing else.", "h₀ = c₁ v₁ + c₂ v₂   →   hₜ = c₁ λ₁ᵗ v₁ + c₂ λ₂ᵗ v₂",
              f"entry 2: {num(v_2[1], 0)} c₂ = {num(H_0[1], 0)}, so c₂ = {num(c[1], 1)};   entry "
              f"1: c₁ + c₂ = {num(H_0[0], 0)}, so c₁ = {num(c[0], 1)}\n{vec(H_0, 0)} = "
              f"{num(c[0], 1)} · {vec(v_1, 0)} + {num(c[1], 1)} · {vec(v_2, 0)}",
              table=Table(("t", "c₁ λ₁ᵗ", "c₂ λ₂ᵗ", "hₜ", "|hₜ|", "‖Wᵗ‖"), tuple(
                  (n, short(c[0] * small**n), short(c[1] * large**n), vec(states[n]),
                   short(float(np.linalg.norm(states[n]))), short(power_norm(W_T, n)))
                  for n in times)))
    work.step("|hₜ| is what becomes of one start. The norm of the power is the most that any "
              "start of length 1 can become, and it bounds every gradient on its way back.",
              "|hₜ| ≤ ‖Wᵗ‖ |h₀|,   ‖Wᵗ‖^(1/t) → ρ",
              f"t = 50: {short(float(np.linalg.norm(states[50])))} ≤ {short(late)} · "
              f"{num(math.hypot(*H_0))};   {short(late)}^(1/50) = {num(root)}")
    work.step("Read it: the share at |λ| < 1 vanishes, the one at |λ| > 1 explodes, and in the "
              "end hₜ points along the eigenvector of the largest |λ|. Complex λ turn as well; "
              "only the modulus |λ| makes longer or shorter.", "|λᵗ| = |λ|ᵗ",
              f"a turn by 90°, λ = ±i: |h₀| = {num(float(turned[0]))}, |h₅₀| = "
              f"{num(float(turned[-1]))}")
    work.steps.append(left_out(v_1))
    work.step("The gradient goes the same way back, with W for Wᵀ: the same λ.",
              "∂L/∂h₀ = Wᵗ ∂L/∂hₜ",
              f"∂L/∂h₂ = {vec(back[0], 0)}:  ∂L/∂h₁ = W {vec(back[0], 0)} = {vec(back[1], 2)},   "
              f"∂L/∂h₀ = W ∂L/∂h₁ = {vec(back[2])}")
    work.answer = ("hₜ = (Wᵀ)ᵗ h₀ = Σ cₖ λₖᵗ vₖ: with ρ < 1 all vanishes, with ρ > 1 almost every "
                   f"start explodes; here |h₅₀| = {short(float(np.linalg.norm(states[50])))} at ρ "
                   f"= {num(spectral_radius(np.array(W_T)), 1)}.")
    work.check("the closed form equals the states that were stepped",
               all(np.allclose(closed_form_of(pairs, c, n), states[n]) for n in times))
    work.check("no state is longer than the norm of the power times the start's length",
               all(np.linalg.norm(states[n]) <= power_norm(W_T, n) * math.hypot(*H_0) + 1e-9
                   for n in times))
    work.check("both eigenvectors satisfy Wᵀ v = λ v, and ρ is the one a library finds",
               all(np.allclose(np.array(W_T) @ v, value * np.array(v)) for value, v in pairs)
               and math.isclose(spectral_radius(np.array(W_T)), large))
    work.check("the Jordan block to the power 10, by products",
               np.linalg.matrix_power(jordan(1.0, 2), 10)[0, 1] == jordan_power(1, 2, 10)[1])
    return work


def solutions():
    return [powers()]
