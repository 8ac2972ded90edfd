"""Document 002, Problem 1, worked: one unit whose weight explodes, and one that gets stuck."""

import math

from exercises.worked import Check, Solution, Step, Table, num, sub
from npdl.errors import InputError

START, STEPS = 1.0, 3                       # h_0, and how often w is used
PLAIN, BENT = (2.0, 0.1), (1.5, 30.0)       # (w, learning rate) without tanh and with it
POWERS = "⁰¹²³⁴⁵⁶⁷⁸⁹"


def descent(w, h=1.0, steps=3, lr=0.1, updates=3, squash=False):
    """[(w, h_T, loss, dL/dw)] of h' = w h or tanh(w h), L = h_T²/2, under plain descent."""
    if steps < 1 or updates < 0:
        raise InputError(f"steps = {steps}, updates = {updates}; at least 1 and 0")
    rows = []
    for _ in range(updates + 1):
        state, slope = h, 0.0
        for _ in range(steps):
            slope, state = state + w * slope, w * state
            if squash:
                state = math.tanh(state)
                slope *= 1 - state * state
        rows.append((w, state, state * state / 2, state * slope))
        w -= lr * rows[-1][3]
    return rows


def exploding():
    """One unit that learns through a few steps, without tanh and with it."""
    (w, lr), (w_bent, lr_bent) = PLAIN, BENT
    straight = descent(w, START, STEPS, lr)
    bent = descent(w_bent, START, STEPS, lr_bent, squash=True)
    _, h, loss, slope = straight[0]
    step = 1e-6
    up, down = (descent(w + move, START, STEPS, updates=0)[0][2] for move in (step, -step))
    numeric = (up - down) / (2 * step)
    times, last, less = num(STEPS), f"h{sub(STEPS)}", POWERS[STEPS - 1]
    vanished = f"{bent[-1][3]:.0e}".replace("-", "−")
    heads = ("update", "w", last, "L", "dL/dw")

    def table(rows):
        return Table(heads, tuple((n, *(f"{value:.3g}".replace("-", "−") for value in row))
                                  for n, row in enumerate(rows)))

    return Solution(
        "1",
        (
            Step(f"Forward, {times} steps with one weight; the wanted end state is 0.",
                 f"{last} = w{POWERS[STEPS]} h₀,   L = {last}²/2",
                 f"{last} = {num(w, 0)}{POWERS[STEPS]} · {num(START, 0)} = {num(h, 0)},   "
                 f"L = {num(h, 0)}²/2 = {num(loss, 0)}"),
            Step("The gradient has the power of w that the way through time makes.",
                 f"dL/dw = {last} · {times} w{less} h₀",
                 f"dL/dw = {num(h, 0)} · {times} · {num(w, 0)}{less} · {num(START, 0)} = "
                 f"{num(slope, 0)}"),
            Step(f"Plain descent, learning rate {num(lr, 1)}, no tanh: the step goes over 0 and "
                 "lands further out, where the gradient is longer still.",
                 f"w ← w − {num(lr, 1)} dL/dw",
                 f"w = {num(w, 0)} − {num(lr, 1)} · {num(slope, 0)} = {num(straight[1][0], 1)}",
                 table=table(straight)),
            Step(f"The same with tanh in every step, from w = {num(w_bent, 1)} with learning rate "
                 f"{num(lr_bent, 0)}: one jump, and then every tanh is at its end, the gradient is "
                 "0, and nothing moves.",
                 "hₜ = tanh(w hₜ₋₁),   slope 1 − hₜ² in each step", table=table(bent)),
        ),
        f"It depends: without a bound |w| runs away, faster than exponentially "
        f"({', '.join(f'{abs(row[0]):.3g}' for row in straight)}); with tanh one jump ends on a "
        f"plateau at L = {num(bent[-1][2])}, where dL/dw = {vanished}.",
        (Check("dL/dw of the first row against a difference of two losses",
               abs(numeric - slope) < 1e-4),
         Check("without tanh |w| grows at every update, by a growing factor", growing(straight)),
         Check("with tanh the weight stops after the first jump",
               abs(bent[1][0] - bent[0][0]) > 0.5 and abs(bent[-1][0] - bent[1][0]) < 0.01)),
        f"One unit, one weight, h₀ = {num(START, 0)}, {times} steps.")


def growing(rows):
    """Whether |w| rises at every update, and the factor of the rise as well."""
    sizes = [abs(row[0]) for row in rows]
    factors = [b / a for a, b in zip(sizes, sizes[1:], strict=False)]
    return min(factors) > 1 and factors == sorted(factors)


def solutions():
    return [exploding()]
