"""Document 002, Problem 2: the sigmoid's symmetry, and what a GRU remembers.

npdl's GRUCell is the document's GRU: z, r = σ(W x + U h), each with its own W and U,
ĥ = tanh(W x + r U h), h' = (1 − z) h + z ĥ.
"""

import math
from fractions import Fraction

import numpy as np

from exercises.course import format_table, judge, question, vec
from npdl.functions import sigmoid
from npdl.layers.recurrent import GRUCell


def sigmoid_proof_values(e):
    """Return the lines of the proof as fractions, where the Fraction e stands for exp(-x)."""
    return [1 - 1 / (1 + e), ((1 + e) - 1) / (1 + e), e / (1 + e), 1 / (1 + 1 / e)]


@question("002.2a", "The sigmoid's symmetry")
def solve_sigmoid_symmetry(say, step, answer, check, claim):
    """Show that sigmoid(-x) = 1 - sigmoid(x)."""
    e = Fraction(1, 3)
    right, _, middle, left = sigmoid_proof_values(e)
    say("We take x = ln 3 as an example, so that eˣ = 3 and all values are fractions.")
    step("Write the right-hand side over one denominator.",
         "1 − σ(x) = 1 − 1/(1 + e⁻ˣ) = e⁻ˣ/(1 + e⁻ˣ)", f"e⁻ˣ = {e}:  1 − 1/({1 + e}) = 1 − "
         f"{1 / (1 + e)} = {right};  ({e}) / ({1 + e}) = {middle}")
    step("Multiply numerator and denominator by eˣ.", "e⁻ˣ/(1 + e⁻ˣ) = 1/(eˣ + 1)",
         f"eˣ = {1 / e}:  1/({1 / e} + 1) = {left}")
    step("This is the definition of σ at −x, because e⁻⁽⁻ˣ⁾ = eˣ.", "σ(−x) = 1/(1 + eˣ)",
         f"σ(−ln 3) = {left},  σ(ln 3) = {1 / (1 + e)},  sum {left + 1 / (1 + e)}")
    answer(f"σ(−x) = 1/(1 + eˣ) = 1 − σ(x) for every x. At x = ln 3: {left} = 1 − {1 - left}.")
    lines = [sigmoid_proof_values(Fraction(n, d)) for n in range(1, 30) for d in range(1, 30)]
    x = np.linspace(-50, 50, 10001)
    error = np.abs(sigmoid(-x) - (1 - sigmoid(x))).max()
    check("npdl's sigmoid has this symmetry on [−50, 50].", error <= 1e-12)
    claim("", "sigmoid(-x) = 1 - sigmoid(x), and every line of the proof",
          "shown by four equal fractions", "all four lines are equal as exact fractions",
          judge(all(len(set(line)) == 1 for line in lines)), f"{len(lines)} rational values of "
          f"exp(-x); npdl's sigmoid on [-50, 50]: error {error:.1g}")
    x = np.arange(-3.0, 4.0)
    printed = np.abs(sigmoid(-x) - 1 * sigmoid(x))
    claim("question", "what is to be shown is sigmoid(-x) = 1 sigmoid(x), without a minus",
          "so in the question; the solution has 1 - sigmoid(x)", "the minus sign is missing; as "
          "printed, it holds only at x = 0", judge(printed.max() < 1e-12, if_false="slip"),
          f"x = {vec(x, 0)}: equal at {(printed < 1e-12).sum()} of {len(x)} values, with errors of "
          f"up to {printed.max():.2f}")


@question("002.2b", "A GRU with its update gate near 0")
def solve_update_gate_near_0(say, step, answer, check, claim):
    """Decide: with z_t near 0 the state hardly changes."""
    h, candidate, gates = 0.8, -0.4, (0.5, 0.1, 0.01, 0.001)

    def h_next(z, h=h, candidate=candidate):
        return (1 - z) * h + z * candidate

    moves = [z * (candidate - h) for z in gates]
    say(f"The example has one unit with hₜ₋₁ = {h} and the candidate ĥₜ = {candidate}.")
    step("Insert zₜ into the update.", "hₜ = (1 − zₜ) hₜ₋₁ + zₜ ĥₜ",
         f"zₜ = 0.1:  {1 - 0.1:.1f} · {h} + 0.1 · {candidate} = {h_next(0.1):.2f}")
    step("Subtract hₜ₋₁. The change is zₜ times the difference to the candidate.",
         "hₜ − hₜ₋₁ = zₜ (ĥₜ − hₜ₋₁),   |hₜ − hₜ₋₁| ≤ 2 zₜ, because |hₜ₋₁| ≤ 1 and |ĥₜ| < 1",
         f"0.1 · ({candidate} − {h}) = {moves[1]:.2f}")
    step("A smaller zₜ gives a smaller change. After T steps, (1 − zₜ)^T of the first state "
         "remains. So for a long memory, zₜ must be well below 1/T.",
         format_table(("zₜ", "hₜ", "hₜ − hₜ₋₁", "zₜ (ĥₜ − hₜ₋₁)", "(1 − zₜ)⁵⁰"),
                      [(f"{z:.3f}", f"{h_next(z):.4f}", f"{h_next(z) - h:.4f}", f"{move:.4f}",
                        f"{(1 - z)**50:.3f}") for z, move in zip(gates, moves, strict=True)]))
    answer(f"True: |hₜ − hₜ₋₁| = zₜ |ĥₜ − hₜ₋₁| ≤ 2 zₜ. At zₜ = {gates[-1]} the state changes by "
           f"{abs(moves[-1]):.4f} in a step.")
    check("No change is larger than 2 zₜ.",
          all(abs(h_next(z, a, b) - a) <= 2 * z + 1e-15 for z in gates
              for a in (-1, 0.3, 1) for b in (-1, 0.5, 1)))
    remaining = [100 * (1 - z) ** 50 for z in gates]
    claim("", "with z near 0 the state hardly changes", "True",
          "true: |h' - h| = z |h^ - h|, which is at most 2 z if |h| <= 1",
          judge(all(abs(move) <= 2 * z for move, z in zip(moves, gates, strict=True))),
          f"changes {vec(moves, 4)} at z = {vec(gates, 'g')}")
    claim("", "with z near 0 the state is carried over long spans", "preserves long-term "
          "dependencies", "for T steps z must be well below 1/T, because (1 - z)^T of the state "
          "remains", judge(remaining[1] < 1 < 90 < remaining[3], "under-specified"),
          f"after 50 steps {remaining[1]:.2f} % remain at z = 0.1, {remaining[2]:.0f} % at 0.01, "
          f"{remaining[3]:.0f} % at 0.001")
    low, high = (abs(h_next(z) - h) for z in (0.01, 0.99))
    claim("", "it is the update gate near 0, not near 1, that keeps the state",
          "h' = (1 - z) h + z h^", "as printed, z near 0 keeps the state; many libraries compute z "
          "h + (1 - z) h^, where z near 1 keeps it", judge(low < high, "convention"),
          f"the state changes by {low:.3f} at z = 0.01, and by {high:.3f} at z = 0.99")


@question("002.2c", "A GRU with its update gate near 1 and its reset gate near 0")
def solve_update_near_1_and_reset_near_0(say, step, answer, check, claim):
    """Decide: with z_t near 1 and r_t near 0, the past is remembered very well."""
    x, start = 0.5, 0.9

    def h_next(z, r, h):
        return (1 - z) * h + z * math.tanh(x + r * 2 * h)

    rows = [(f"{z:.3f}", f"{r:.3f}", f"{h_next(z, r, start):.4f}", f"{h_next(z, r, -start):.4f}",
             f"{h_next(z, r, start) - h_next(z, r, -start):.4f}")
            for z, r in ((1, 0), (0.99, 0.01), (0.9, 0.1), (0.5, 0.5), (0, 0))]
    z, r = 0.99, 0.01
    bend = 1 - math.tanh(x + r * 2 * start) ** 2
    slope = 1 - z + z * bend * r * 2
    say(f"The example has one unit with xₜ = {x}, W = 1, U = 2. It is run once from hₜ₋₁ = {start} "
        f"and once from −{start}.")
    step("rₜ = 0 removes the past from the candidate.", "ĥₜ = tanh(W xₜ + rₜ U hₜ₋₁) = tanh(W xₜ)",
         f"tanh(1 · {x} + 0 · 2 · {start}) = tanh({x}) = {math.tanh(x):.4f}")
    step("zₜ = 1 removes the past from the update as well.", "hₜ = (1 − zₜ) hₜ₋₁ + zₜ ĥₜ = ĥₜ",
         f"hₜ = 0 · {start} + 1 · {math.tanh(x):.4f} = {math.tanh(x):.4f}")
    step("Near these values, a little of the past remains. Compare two opposite past states.",
         format_table(("zₜ", "rₜ", f"hₜ from {start}", f"hₜ from −{start}", "difference"), rows))
    step("Compute the effect of the past as a derivative.", "∂hₜ/∂hₜ₋₁ = (1 − zₜ) + zₜ (1 − ĥₜ²) "
         "rₜ U", f"zₜ = {z}, rₜ = {r}: {1 - z:.2f} + {z} · {bend:.3f} · {r} · 2 = {slope:.4f}")
    answer(f"False: at zₜ = 1, rₜ = 0 the new state is tanh(W xₜ) = {math.tanh(x):.4f} for every "
           "hₜ₋₁. Near these values, about (1 − zₜ) + rₜ U of a change in hₜ₋₁ remains.")
    check("The derivative agrees with a finite difference.",
          abs(slope - (h_next(z, r, start + 1e-6) - h_next(z, r, start - 1e-6)) / 2e-6) < 1e-8)
    cell = GRUCell(1, 1, dtype="float64")
    cell.W_x.data[...], cell.W_h.data[...] = [[0, 0, 1]], [[0, 0, 2]]
    cell.b.data[...] = [math.log(z / (1 - z)), math.log(r / (1 - r)), 0]    # gates of z and r
    states = [cell.forward(np.full((1, 1), x), np.full((1, 1), h))[0] for h in (start, -start)]
    check(f"npdl's GRU cell gives the same new states at zₜ = {z}, rₜ = {r}.",
          np.allclose(np.ravel(states), [h_next(z, r, start), h_next(z, r, -start)]))
    claim("", "with z near 1 and r near 0 the past state is remembered very well", "False",
          "false: at z = 1, r = 0 the new state is tanh(x W), which does not depend on h",
          judge(h_next(1, 0, start) == h_next(1, 0, -start)),
          "the same new state from two opposite past states")
    claim("", "the GRU then behaves much like a feed-forward network", "like a feedforward network",
          "at z = 1, r = 0 each output depends only on its own input; near these values, it "
          f"depends on the last few inputs: at z = {z}, r = {r}, {slope**5:.0e} of a change 5 "
          "steps back remains", judge(slope < 1 and h_next(1, 0, start) == math.tanh(x)),
          f"estimated as {slope:.4f}^5, with the derivative above")
    reset, U, h = np.array([0.2, 0.9]), np.array([[1.0, 2.0], [-1.0, 1.0]]), np.array([0.5, -0.5])
    before, after = reset * (U @ h), U @ (reset * h)
    claim("", "the place of the reset gate: tanh(W x + r * U h)", "r * U h",
          "read as r * (U h), as in npdl; U (r * h) is also common",
          judge(not np.allclose(before, after), "convention"), f"two units, r = {vec(reset, 1)}: r "
          f"* (U h) = {vec(before, 2)}, U (r * h) = {vec(after, 2)}; part (c) holds for both")
