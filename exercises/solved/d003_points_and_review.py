"""Document 003, Questions 7 and 8, worked: a power law with a floor, measured by hand."""

import math

from exercises.d003_points_and_review import entropy, expected_loss, exponent
from exercises.worked import Check, Solution, Step, Table, num

SIZES = (10, 100, 1000)


def local_slopes(sizes, values):
    """-log(v_2/v_1)/log(n_2/n_1) between neighbours: the power of n that two points show."""
    return [-math.log(b / a) / math.log(n / m)
            for a, b, m, n in zip(values, values[1:], sizes, sizes[1:], strict=False)]


def measured():
    losses = [expected_loss(n) for n in SIZES]
    excess = [loss - entropy() for loss in losses]
    return losses, excess, local_slopes(SIZES, losses), local_slopes(SIZES, excess)


def review():
    """Question 7."""
    losses, excess, plain, right = measured()
    p = 0.3
    after = [-p * math.log(q) - (1 - p) * math.log(1 - q) for q in (1 / 4, 3 / 4)]
    loss = expected_loss(1, p)
    return Solution(
        "7",
        (
            Step("A review of a scaling-law paper has to say what is fitted. The usual law of a "
                 "loss has a floor that no amount of data removes.", "L(n) = L_∞ + c n^(−α)"),
            Step("A case where everything is known: predict a coin of bias 0.3 after n tosses by "
                 "(heads + 1/2)/(n + 1). The floor is the coin's entropy.",
                 "L_∞ = −p ln p − (1 − p) ln(1 − p),   L(n) − L_∞ ≈ 1/(2n)",
                 f"L_∞ = {num(entropy(), 4)}"),
            Step("With one toss the mean loss is a sum of two: tails (probability 1 − p) predicts "
                 "1/4 for heads, heads predicts 3/4.",
                 "L(1) = (1 − p) [−p ln ¼ − (1 − p) ln ¾] + p [−p ln ¾ − (1 − p) ln ¼]",
                 f"{num(1 - p, 1)} · {num(after[0])} + {num(p, 1)} · {num(after[1])} = "
                 f"{num(loss, 4)}, {num(loss - entropy(p), 4)} above the floor"),
            Step("Take the exponent from two points, once of L and once of what is above the "
                 "floor.", "α = −ln(L₂/L₁)/ln(n₂/n₁)",
                 table=Table(("n", "L", "L − L_∞", "α from L", "α from L − L_∞"), tuple(
                     (n, num(a, 4), num(b, 5), *("" if i == 0 else num(slopes[i - 1])
                                                 for slopes in (plain, right)))
                     for i, (n, a, b) in enumerate(zip(SIZES, losses, excess, strict=True))))),
            Step("Strength of such papers: one line on a log-log plot over many sizes. Weakness to "
                 "look for: is the floor fitted, and is the line tried outside the sizes it was "
                 "fitted on?"),
        ),
        f"An essay; its core: without the floor the exponent comes out as {num(plain[-1])} in "
        f"place of {num(right[-1])}.",
        (Check("a least-squares fit of the three excesses has an exponent within 0.05 of 1",
               abs(exponent(SIZES, excess) - 1) < 0.05),
         Check("one toss by hand", math.isclose((1 - p) * after[0] + p * after[1], loss)),
         Check("twice n times the excess goes to 1", abs(2 * SIZES[-1] * excess[-1] - 1) < 0.02)),
        "Exact mean losses, no sampling.")


def takeaway():
    """Question 8."""
    losses, excess, plain, right = measured()
    n, factor = SIZES[1], SIZES[2] / SIZES[1]
    pure = losses[1] * factor ** -plain[0]
    floored = entropy() + excess[1] * factor ** -right[0]
    return Solution(
        "8",
        (
            Step("A takeaway should be something one would do otherwise from now on. Here: try an "
                 "extrapolation where the answer is known.",
                 "L(n₂) = L(n₁) (n₂/n₁)^(−α)"),
            Step(f"From n = {SIZES[0]} and {n} to {SIZES[2]}, without a floor.",
                 numbers=f"{num(losses[1], 4)} · {num(factor, 0)}^(−{num(plain[0])}) = "
                 f"{num(pure, 4)}"),
            Step("The same points with the floor taken off first.",
                 "L(n₂) = L_∞ + (L(n₁) − L_∞) (n₂/n₁)^(−α)",
                 f"{num(entropy(), 4)} + {num(excess[1], 5)} · {num(factor, 0)}^(−{num(right[0])}) "
                 f"= {num(floored, 4)};   true: {num(losses[2], 4)}"),
        ),
        f"An essay; ours: an extrapolation is as good as its form: {num(pure, 4)} without a floor, "
        f"{num(floored, 4)} with it, {num(losses[2], 4)} in truth (the floor is "
        f"{num(entropy(), 4)}).",
        (Check("with the floor the error is at least 100 times smaller",
               100 * abs(floored - losses[2]) < abs(pure - losses[2])),),
        "The coin of Question 7.")


def solutions():
    return [review(), takeaway()]
