"""Document 002, Problem 2: the sigmoid's symmetry, and what a GRU remembers.

npdl's GRUCell is the document's GRU: z near 1 takes the candidate, r scales U h after the product.
"""

import math
from fractions import Fraction
from functools import partial

import numpy as np

from exercises.framework import Claim, judge, judgement, proved
from exercises.worked import Solution, Table, below, listing, num
from npdl.functions import sigmoid
from npdl.layers.recurrent import GRUCell

QUESTION = """\
Problem 2. A GRU has z_t = sigmoid(W_z x_t + U_z h_(t-1)), r_t = sigmoid(W_r x_t + U_r h_(t-1)), the
candidate h^_t = tanh(W x_t + r_t * U h_(t-1)) and the state h_t = (1 - z_t) * h_(t-1) + z_t * h^_t.
(a) Show sigmoid(-x) = 1 - sigmoid(x).
(b) True or false: with z_t near 0 the state hardly changes.
(c) True or false: for z_t near 1 together with r_t near 0, the past is remembered very well."""

TITLES = {"2a": "The sigmoid's symmetry", "2b": "A GRU with its update gate near 0",
          "2c": "A GRU with its update gate near 1 and its reset gate near 0"}

claim_of = partial(Claim, "002", "Problem 2")


def symmetry_error(x):
    """Largest |sigmoid(-x) - (1 - sigmoid(x))| of npdl's sigmoid over x, any shape."""
    x = np.atleast_1d(np.asarray(x, float))
    return float(np.abs(sigmoid(-x) - (1 - sigmoid(x))).max())


def exact_derivation(e):
    """The document's four lines as fractions, for e = exp(-x) any positive rational number.

    1 - 1/(1+e),  ((1+e) - 1)/(1+e),  e/(1+e),  1/(1+1/e), which is sigmoid(-x).
    """
    e = Fraction(e)
    return [1 - 1 / (1 + e), ((1 + e) - 1) / (1 + e), e / (1 + e), 1 / (1 + 1 / e)]


def gated_cell(z=None, r=None, d_in=3, width=8, seed=0):
    """A float64 GRUCell with random weights; gates are fixed at z and r where these are given.

    A fixed gate gets weights 0 and the bias that makes it so; at exactly 0 or 1, a bias of -+1000.
    """
    cell = GRUCell(d_in, width, rng=seed, dtype="float64")
    cell.b.data[...] = 0
    cell.W_h.data *= 3
    for place, gate in enumerate((z, r)):
        if gate is not None:
            block = slice(place * width, (place + 1) * width)
            cell.W_x.data[:, block] = cell.W_h.data[:, block] = 0
            cell.b.data[block] = _logit(gate)
    return cell


def step(cell, seed=1, samples=200):
    """x, h inside (-1, 1), the new state, and the step's cache, for random samples."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((samples, cell.W_x.shape[0]))
    h = rng.uniform(-1, 1, (samples, cell.d_hidden))
    new, cache = cell.forward(x, h)
    return x, h, new, cache


def largest_update(z):
    """(largest |h' - h|, largest |h' - h| - z |h^ - h|) at a fixed update gate z."""
    _, h, new, cache = step(gated_cell(z=z))
    return (float(np.abs(new - h).max()),
            float((np.abs(new - h) - z * np.abs(cache.h_hat - h)).max()))


def memory(z, r, seed=2):
    """Length of the Jacobian dh'/dh (Frobenius) at one state, by backward, gates fixed."""
    cell = gated_cell(z, r)
    _, _, _, cache = step(cell, seed, samples=1)
    rows = [cell.backward(row[None], cache)[1][0] for row in np.eye(cell.d_hidden)]
    return float(np.linalg.norm(rows))


def kept(z, steps):
    """The share of the first state that is left after `steps` steps with the gate at z."""
    return (1 - z) ** steps


def placement_difference(seed=3):
    """Largest difference of r * (h U) and (r * h) U, with a full and with a diagonal U."""
    rng = np.random.default_rng(seed)
    h, r, U = rng.uniform(-1, 1, 8), rng.uniform(0, 1, 8), rng.standard_normal((8, 8))
    return tuple(float(np.abs(r * (h @ M) - (r * h) @ M).max()) for M in (U, np.diag(np.diag(U))))


def _logit(gate):
    if gate in (0, 1):
        return 1000.0 * (2 * gate - 1)
    return math.log(gate / (1 - gate))


def symmetry():
    """Claims of part (a)."""
    error = symmetry_error(np.linspace(-50, 50, 10001))
    lines = [exact_derivation(Fraction(n, d)) for n in range(1, 30) for d in range(1, 30)]
    yield claim_of(
        "a", "sigmoid(-x) = 1 - sigmoid(x), and every line of the proof",
        "shown by four equal fractions",
        "all four lines are equal as exact fractions",
        judge(all(len(set(line)) == 1 for line in lines), provided=error < 1e-12),
        f"{len(lines)} rational values of exp(-x), no difference; npdl's sigmoid on [-50, 50]: "
        f"error {below(error)}")
    x = np.linspace(-3, 3, 7)
    printed = np.abs(sigmoid(-x) - 1 * sigmoid(x))
    yield claim_of(
        "a, question", "what is to be shown is sigmoid(-x) = 1 sigmoid(x), without a minus",
        "so in the question; the solution has 1 - sigmoid(x)",
        "the minus is lost: as printed it holds at x = 0 alone",
        judge(float(printed.max()) < 1e-12, if_false="slip"),
        f"x = {listing(x, 'g')}: equal at {int((printed < 1e-12).sum())} of {len(x)}, off by up to "
        f"{printed.max():.2f}")


def update_gate():
    """Claims of part (b)."""
    gates = (0.1, 0.01, 0.001)
    moves = [largest_update(z) for z in gates]
    left = [kept(z, 50) for z in gates]
    percent = [100 * share for share in left]
    bounded = all(excess < 1e-12 for _, excess in moves)
    yield claim_of(
        "b", "with z near 0 the state hardly changes", "True",
        "true: |h' - h| = z |h^ - h|, at most 2 z while |h| <= 1",
        judge(all(m <= 2 * z for (m, _), z in zip(moves, gates, strict=True)), provided=bounded),
        "an example (seeds 0 and 1): "
        f"largest change of 200 random states: {listing([m for m, _ in moves], '.4f')} at "
        f"z = {listing(gates, 'g')}")
    yield claim_of(
        "b", "with z near 0 the state is carried over long spans",
        "preserves long-term dependencies",
        "near 0 has to mean well below 1/T for T steps: (1 - z)^T is left",
        judge(left[0] < 0.01 < 0.9 < left[-1], "under-specified"),
        f"after 50 steps {percent[0]:.2f} % at z = 0.1, {percent[1]:.0f} % at 0.01, "
        f"{percent[2]:.0f} % at 0.001")
    low, high = (largest_update(z)[0] for z in (0.01, 0.99))
    yield claim_of(
        "b", "it is the update gate near 0, not near 1, that keeps the state",
        "h' = (1 - z) h + z h^",
        "as printed, z near 0 keeps; many libraries compute z h + (1 - z) h^, where z near 1 keeps",
        judgement("convention", provided=low < high),
        "an example (seeds 0 and 1): "
        f"npdl's cell, the document's: largest change {low:.2f} at z = 0.01, {high:.2f} at 0.99; "
        "there the two change places")


def reset_gate():
    """Claims of part (c)."""
    cell = gated_cell(z=1, r=0)
    x, _, new, _ = step(cell)
    by_input = np.tanh(x @ cell.W_x.data[:, 2 * cell.d_hidden:])
    error = float(np.abs(new - by_input).max())
    settings = ((1, 0), (0.99, 0.01), (0.9, 0.1))
    left = [memory(z, r) for z, r in settings]
    five_back = left[1]**5
    full, diagonal = placement_difference()
    yield claim_of(
        "c", "with z near 1 and r near 0 the past state is remembered very well", "False",
        "false: at z = 1, r = 0 the new state is tanh(x W), with no h in it",
        proved(max(left[0], error) < 1e-12),
        f"h' against tanh(x W): error {below(error)}; dh'/dh has length {below(left[0])}")
    yield claim_of(
        "c", "the GRU then behaves much like a feed-forward network", "like a feedforward network",
        "at z = 1, r = 0 each output is a function of its own input alone; near it, of the last "
        f"few: {five_back:.0e} of a change 5 steps back is left at z = 0.99, r = 0.01",
        judge(left[1] < 1, provided=error < 1e-12),
        "an example (seeds 0 and 2): "
        f"one-layer tanh(x W) and the cell agree: {below(error)}; estimated by "
        f"{left[1]:.3f}^5, from the length of dh'/dh at one state")
    yield claim_of(
        "c", "where the reset gate stands: tanh(W x + r * U h)", "r * U h",
        "read as r * (U h), as npdl does; U (r * h) is the other usual form, and the print does "
        "not say which comes first",
        judge(full > 1e-3, "convention", provided=diagonal < 1e-12),
        "an example, seed 3: "
        f"a random U of 8 x 8: they differ by up to {full:.2f}; with a diagonal U by "
        f"{below(diagonal)}; part (c) holds for both")


def claims():
    return [*symmetry(), *update_gate(), *reset_gate()]


E = Fraction(1, 3)                          # exp(-x) at x = ln 3


def proof_lines(e):
    """1 - 1/(1+e), e/(1+e), 1/(1+1/e) for e = exp(-x), a Fraction."""
    return 1 - 1 / (1 + e), e / (1 + e), 1 / (1 + 1 / e)


def new_state(z, h, candidate):
    """(1 - z) h + z candidate."""
    return (1 - z) * h + z * candidate


def candidate_of(x, h, r, W=1.0, U=2.0):
    """tanh(W x + r U h)."""
    return math.tanh(W * x + r * U * h)


def worked_symmetry():
    """Part (a)."""
    right, middle, left = proof_lines(E)
    denominator, e_to_x = 1 + E, 1 / E
    sigma, rest = 1 / denominator, 1 - left
    total = left + sigma
    work = Solution("2a", "x = ln 3, so that eˣ = 3 and everything is a fraction.")
    work.step("Write the right-hand side over one denominator.",
              "1 − σ(x) = 1 − 1/(1 + e⁻ˣ) = e⁻ˣ/(1 + e⁻ˣ)",
              f"e⁻ˣ = {num(E)}:  1 − 1/({num(denominator)}) = 1 − {num(sigma)} = {num(right)};  "
              f"({num(E)}) / ({num(denominator)}) = {num(middle)}")
    work.step("Multiply numerator and denominator by eˣ.", "e⁻ˣ/(1 + e⁻ˣ) = 1/(eˣ + 1)",
              f"eˣ = {num(e_to_x)}:  1/({num(e_to_x)} + 1) = {num(left)}")
    work.step("That is the definition of σ at −x, since e⁻⁽⁻ˣ⁾ = eˣ.", "σ(−x) = 1/(1 + eˣ)",
              f"σ(−ln 3) = {num(left)},  σ(ln 3) = {num(sigma)},  sum {num(total)}")
    work.answer = (f"σ(−x) = 1/(1 + eˣ) = 1 − σ(x) for every x; at x = ln 3: {num(left)} = 1 − "
                   f"{num(rest)}.")
    work.check("the three fractions are equal", right == middle == left)
    work.check("with exp in floating point at ±ln 3",
               abs(sigmoid(-math.log(3)) - float(left)) < 1e-15)
    return work


def worked_update_gate(h=0.8, candidate=-0.4):
    """Part (b)."""
    gates, T = (0.5, 0.1, 0.01, 0.001), 50
    moves = [z * (candidate - h) for z in gates]
    rows = [(num(z), num(new_state(z, h, candidate), 4), num(new_state(z, h, candidate) - h, 4),
             num(move, 4), num((1 - z) ** T)) for z, move in zip(gates, moves, strict=True)]
    z = gates[1]
    keep, last_move = 1 - z, abs(moves[-1])
    work = Solution("2b", f"One unit, hₜ₋₁ = {h}, candidate ĥₜ = {num(candidate, 1)}.")
    work.step("Put zₜ into the update.", "hₜ = (1 − zₜ) hₜ₋₁ + zₜ ĥₜ",
              f"zₜ = {z}:  {num(keep, 1)} · {num(h, 1)} + {num(z, 1)} · {num(candidate, 1)} = "
              f"{num(new_state(z, h, candidate), 2)}")
    work.step("Subtract hₜ₋₁: the change is zₜ times the distance to the candidate.",
              "hₜ − hₜ₋₁ = zₜ (ĥₜ − hₜ₋₁),   |hₜ − hₜ₋₁| ≤ 2 zₜ, as |hₜ₋₁| ≤ 1 and |ĥₜ| < 1",
              f"{num(z, 1)} · ({num(candidate, 1)} − {num(h, 1)}) = {num(moves[1], 2)}")
    work.step("Smaller zₜ, smaller change. Over T steps (1 − zₜ)^T of the first state is left, so "
              "that 'near 0' has to mean well below 1/T for a long memory.",
              table=Table(("zₜ", "hₜ", "hₜ − hₜ₋₁", "zₜ (ĥₜ − hₜ₋₁)", "(1 − zₜ)⁵⁰"), tuple(rows)))
    work.answer = (f"True: |hₜ − hₜ₋₁| = zₜ |ĥₜ − hₜ₋₁| ≤ 2 zₜ; at zₜ = {gates[-1]} the state "
                   f"moves by {last_move:.4f} in a step.")
    work.check("hₜ − hₜ₋₁ equals zₜ (ĥₜ − hₜ₋₁) in every row",
               all(abs(new_state(z, h, candidate) - h - z * (candidate - h)) < 1e-15
                   for z in gates))
    work.check("no change is larger than 2 zₜ",
               all(abs(new_state(z, a, b) - a) <= 2 * z + 1e-15 for z in gates
                   for a in (-1, 0.3, 1) for b in (-1, 0.5, 1)))
    return work


def influence(z, r, x=0.5, h=0.9, step=1e-6):
    """dh'/dh of the one-unit GRU with gates fixed, by central difference."""
    above, below = (new_state(z, h + s, candidate_of(x, h + s, r)) for s in (step, -step))
    return (above - below) / (2 * step)


def worked_reset_gate(x=0.5, h=0.9):
    """Part (c)."""
    rows = []
    for z, r in ((1, 0), (0.99, 0.01), (0.9, 0.1), (0.5, 0.5), (0, 0)):
        ends = [new_state(z, a, candidate_of(x, a, r)) for a in (h, -h)]
        rows.append((num(z), num(r), *(num(end, 4) for end in ends), num(ends[0] - ends[1], 4)))
    alone = math.tanh(x)
    z, r = 0.99, 0.01
    c = candidate_of(x, h, r)
    keep, bend = 1 - z, 1 - c * c
    slope = keep + z * bend * r * 2
    work = Solution("2c",
                    f"One unit, xₜ = {x}, W = 1, U = 2, once from hₜ₋₁ = {h} and once from −{h}.")
    work.step("rₜ = 0 takes the past out of the candidate.",
              "ĥₜ = tanh(W xₜ + rₜ U hₜ₋₁) = tanh(W xₜ)",
              f"tanh(1 · {num(x, 1)} + 0 · 2 · {num(h, 1)}) = tanh({num(x, 1)}) = {num(alone, 4)}")
    work.step("zₜ = 1 takes it out of the update as well.", "hₜ = (1 − zₜ) hₜ₋₁ + zₜ ĥₜ = ĥₜ",
              f"hₜ = 0 · {num(h, 1)} + 1 · {num(alone, 4)} = {num(alone, 4)}")
    work.step("Near these values a little is left. Two opposite pasts show how much: compare the "
              "new states.",
              table=Table(("zₜ", "rₜ", f"hₜ from {h}", f"hₜ from −{h}", "difference"), tuple(rows)))
    work.step("As a derivative.", "∂hₜ/∂hₜ₋₁ = (1 − zₜ) + zₜ (1 − ĥₜ²) rₜ U",
              f"zₜ = {z}, rₜ = {r}: {num(keep, 2)} + {z} · {num(bend)} · {r} · 2 = "
              f"{num(slope, 4)}")
    work.answer = (f"False: at zₜ = 1, rₜ = 0 the new state is tanh(W xₜ) = {num(alone, 4)} "
                   "whatever hₜ₋₁ was; near it, about (1 − zₜ) + rₜ U of a change is left.")
    work.check("from both pasts the same state at zₜ = 1, rₜ = 0",
               new_state(1, h, candidate_of(x, h, 0)) == new_state(1, -h, candidate_of(x, -h, 0)))
    work.check("the derivative against a difference", abs(slope - influence(z, r)) < 1e-8)
    return work


def solutions():
    return [worked_symmetry(), worked_update_gate(), worked_reset_gate()]
