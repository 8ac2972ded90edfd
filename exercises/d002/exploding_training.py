"""Document 002, Problem 1: what exploding gradients do to training.

A recurrence of one unit, h' = tanh(w h) or h' = w h, learns by plain gradient descent through 30
steps; its weight and its loss are followed from update to update.
"""

import math
from functools import partial
from itertools import pairwise

import numpy as np

from exercises.framework import Claim, judge
from exercises.worked import Solution, Table, listing, num, sub
from npdl.losses import SequenceLoss

QUESTION = """\
Problem 1, exploding gradients. Their effects are said to be weights that grow exponentially, a
saturated loss, and loss curves that oscillate or diverge. What does one recurrent unit show?"""

TITLES = {"1": "What exploding gradients do to training"}

claim_of = partial(Claim, "002", "Problem 1")


def training(w=1.5, h=1e-6, steps=30, lr=1.0, updates=8, squash=np.tanh):
    """(weights, losses) of h' = squash(w h) before and after each update of gradient descent.

    The loss is (h_T + 1)^2; squash is tanh or None, for the identity. Stops when the weight is
    no longer finite.
    """
    weights, losses = [w], []
    for _ in range(updates + 1):
        state, slope = h, 0.0                                       # slope = dh / dw
        with np.errstate(all="ignore"):
            for _ in range(steps):
                slope = state + w * slope
                state = w * state
                if squash is not None:
                    state = squash(state)
                    slope = slope * (1 - state * state)
            losses.append(float((state + 1) ** 2))
            w = w - lr * 2 * (state + 1) * slope
        weights.append(float(w))
        if not math.isfinite(w):
            break
    return weights[:updates + 1], losses


def cross_entropy_slopes(margins=(1.0, 10.0, 100.0)):
    """[(loss, |dloss/dlogit|)] where the right class of two is behind by each margin."""
    found, layer = [], SequenceLoss()
    for margin in margins:
        logits = np.array([[[0.0, margin]]])
        loss, cache = layer.forward(logits, np.array([[0]]), np.array([[True]]))
        found.append((float(loss), float(np.abs(layer.backward(1.0, cache)[0, 0, 0]))))
    return found


def claims():
    bent, straight = training(updates=4)[0], training(squash=None)[0]
    slopes = cross_entropy_slopes()
    grow = exponential(bent), exponential(straight)
    yield claim_of("exploding",
                   "exploding gradients make the weights grow exponentially during training",
                   "weights grow exponentially",
                   "it depends on the net: without tanh the weight grows at every update, faster "
                   f"than exponentially, |w| = {listing(np.abs(straight), '.3g')}; with tanh "
                   f"there is one jump and then nothing, w = {listing(bent, '.2f')}",
                   judge(all(grow), if_false="under-specified" if any(grow) else "wrong"),
                   "h' = w h and h' = tanh(w h), 30 steps, plain descent; what always is "
                   "exponential is the gradient in the number of time steps")
    yield claim_of("exploding",
                   "a rapidly rising loss under exploding gradients is a saturation of the loss",
                   "called loss function saturation",
                   "a rising loss; saturated means flat, where the gradient is near 0",
                   judge(all(slope < 0.1 for _, slope in slopes), if_false="slip"),
                   "cross-entropy " + listing([loss for loss, _ in slopes]) + " has slopes "
                   + listing([slope for _, slope in slopes]) + ": it does not flatten as it rises")


def exponential(weights):
    """Whether |w| grows by 20 % or more at every update."""
    return all(b >= 1.2 * a for a, b in pairwise(map(abs, weights)))


START, STEPS = 1.0, 3                       # h_0, and how often w is used
PLAIN, BENT = (2.0, 0.1), (1.5, 30.0)       # (w, learning rate) without tanh and with it
POWERS = "⁰¹²³⁴⁵⁶⁷⁸⁹"


def descent(w, h=1.0, steps=3, lr=0.1, updates=3, squash=False):
    """[(w, h_T, loss, dL/dw)] of h' = w h or tanh(w h), L = h_T²/2, under plain descent."""
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

    work = Solution("1", f"One unit, one weight, h₀ = {num(START, 0)}, {times} steps.")
    work.step(f"Forward, {times} steps with one weight; the wanted end state is 0.",
              f"{last} = w{POWERS[STEPS]} h₀,   L = {last}²/2",
              f"{last} = {num(w, 0)}{POWERS[STEPS]} · {num(START, 0)} = {num(h, 0)},   L = "
              f"{num(h, 0)}²/2 = {num(loss, 0)}")
    work.step("The gradient has the power of w that the way through time makes.",
              f"dL/dw = {last} · {times} w{less} h₀",
              f"dL/dw = {num(h, 0)} · {times} · {num(w, 0)}{less} · {num(START, 0)} = "
              f"{num(slope, 0)}")
    work.step(f"Plain descent, learning rate {num(lr, 1)}, no tanh: the step goes over 0 and "
              "lands further out, where the gradient is longer still.",
              f"w ← w − {num(lr, 1)} dL/dw",
              f"w = {num(w, 0)} − {num(lr, 1)} · {num(slope, 0)} = {num(straight[1][0], 1)}",
              table=table(straight))
    work.step(f"The same with tanh in every step, from w = {num(w_bent, 1)} with learning rate "
              f"{num(lr_bent, 0)}: one jump, and then every tanh is at its end, the gradient is "
              "0, and nothing moves.", "hₜ = tanh(w hₜ₋₁),   slope 1 − hₜ² in each step",
              table=table(bent))
    work.answer = ("It depends: without a bound |w| runs away, faster than exponentially "
                   f"({', '.join(f'{abs(row[0]):.3g}' for row in straight)}); with tanh one jump "
                   f"ends on a plateau at L = {num(bent[-1][2])}, where dL/dw = {vanished}.")
    work.check("dL/dw of the first row against a difference of two losses",
               abs(numeric - slope) < 1e-4)
    work.check("without tanh |w| grows at every update, by a growing factor", growing(straight))
    work.check("with tanh the weight stops after the first jump",
               abs(bent[1][0] - bent[0][0]) > 0.5 and abs(bent[-1][0] - bent[1][0]) < 0.01)
    return work


def growing(rows):
    """Whether |w| rises at every update, and the factor of the rise as well."""
    sizes = [abs(row[0]) for row in rows]
    factors = [b / a for a, b in zip(sizes, sizes[1:], strict=False)]
    return min(factors) > 1 and factors == sorted(factors)


def solutions():
    return [exploding()]
