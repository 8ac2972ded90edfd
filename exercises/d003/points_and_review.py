"""Document 003, Questions 7 and 8, and its points: what can be computed about them.

The paper under review, on scaling laws, is only linked to. What is computed here: a scaling law
whose exact exponent is known, and what becomes of the exponent when the floor of the loss is left
out of the fit.
"""

import math
from fractions import Fraction
from functools import partial

from exercises.framework import Claim, judge, judgement
from exercises.worked import Check, Solution, Step, Table, listing, num
from npdl.errors import InputError

QUESTION = """\
Questions 7 and 8. Summarise a paper on scaling laws, its contributions, strengths and weaknesses, \
and say what you take from it. (The paper is only linked to.) And do the points of the problem set \
add up: 21.5 for one course number, 26.5 for the other?"""

TITLES = {"7": "A review: what a scaling law needs", "8": "A review: the takeaway"}

claim_of = partial(Claim, "003")

POINTS = {"collaborators": "0.5", "Q1": 1, "Q2": 1, "Q3": 5, "Q4": 5, "Q5": 5, "Q7": 2, "Q8": 2}
EXTRA = {"Q6": 5}
PRINTED = {"4644": "21.5", "7643": "26.5"}  # the theory's points, by course number
EXTRA_FOR = "4464"                          # as printed beside Question 6


def total(points):
    """The exact sum of points."""
    return sum(Fraction(value) for value in points.values())


def expected_loss(n, p=0.3):
    """Exact mean cross-entropy, in nats, of predicting a coin of bias p after n tosses.

    The prediction for heads is (heads + 1/2) / (n + 1). The least possible loss is the entropy.
    """
    if n < 1 or not 0 < p < 1:
        raise InputError(f"n = {n!r}, p = {p!r}; n must be at least 1 and p between 0 and 1")
    losses = []
    for heads in range(n + 1):
        q = (heads + 0.5) / (n + 1)
        log_weight = (math.lgamma(n + 1) - math.lgamma(heads + 1) - math.lgamma(n - heads + 1)
                      + heads * math.log(p) + (n - heads) * math.log(1 - p))
        losses.append(-math.exp(log_weight) * (p * math.log(q) + (1 - p) * math.log(1 - q)))
    return math.fsum(losses)


def entropy(p=0.3):
    return -p * math.log(p) - (1 - p) * math.log(1 - p)


def exponent(sizes, losses):
    """The least-squares slope of log loss against log size, with the sign of a decay."""
    if len(sizes) != len(losses) or len(sizes) < 2 or min(*sizes, *losses) <= 0:
        raise InputError(f"{len(sizes)} sizes and {len(losses)} losses; as many of each, at least "
                         "two, all positive")
    x, y = [math.log(n) for n in sizes], [math.log(v) for v in losses]
    mean_x, mean_y = math.fsum(x) / len(x), math.fsum(y) / len(y)
    top = math.fsum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return -top / math.fsum((a - mean_x) ** 2 for a in x)


def course_of(points):
    """The course number whose printed total is this sum."""
    found = [course for course, printed in PRINTED.items() if Fraction(printed) == points]
    if len(found) != 1:
        raise InputError(f"{float(points):g} points are the total of {len(found)} courses; "
                         f"there must be one of {', '.join(PRINTED)}")
    return found[0]


def points_claims():
    """Claims on the points and the course numbers."""
    one, both = total(POINTS), total(POINTS | EXTRA)
    graded = course_of(one)
    yield claim_of(
        "Points", "", "the theory answers give 21.5 points, and 26.5 with Question 6",
        "21.5 (CS 4644), 26.5 (CS 7643)", f"{float(one):g} and {float(both):g}",
        judge([one, both] == [Fraction(points) for points in PRINTED.values()]),
        " + ".join(str(value) for value in POINTS.values()) + f"; + {EXTRA['Q6']}")
    yield claim_of(
        "Points", "", "Question 6 is extra credit for course 4464", "4464",
        f"{graded}: the course whose points leave out Question 6",
        judge(graded == EXTRA_FOR, if_false="slip"),
        f"{graded} is graded out of {PRINTED[graded]}, the sum without Question 6; "
        f"{'the same digits in another order' if sorted(graded) == sorted(EXTRA_FOR) else ''}")


def review_claims():
    """Claims on Questions 7 and 8."""
    sizes = (10, 30, 100, 300, 1000)
    losses = [expected_loss(n) for n in sizes]
    excess = [loss - entropy() for loss in losses]
    right, plain = exponent(sizes, excess), exponent(sizes, losses)
    guess = extrapolated(sizes[:2], losses[:2])
    yield claim_of(
        "Q7", "", "summary, strengths and weaknesses of a paper on scaling laws", "an essay",
        "without the paper only this: a power law of the loss needs its floor; here the excess "
        f"over the entropy falls as n^-{right:.2f} (theory: 1/(2n)), and a fit without the floor "
        f"gives n^-{plain:.2f}",
        judgement("essay", provided=abs(right - 1) < 0.1),
        f"coin of bias 0.3, exact mean loss after n = {listing(sizes, 'd')} tosses: "
        f"{listing(losses, '.4f')}; 2 n times the excess: "
        f"{listing([2 * n * e for n, e in zip(sizes, excess, strict=True)])}")
    yield claim_of(
        "Q8", "", "a takeaway from the paper", "an essay",
        "extrapolating a loss curve from small sizes is as good as the form that is fitted",
        judgement("essay", provided=guess < entropy() < losses[-1]),
        f"from n = 10 and 30, a pure power law predicts {guess:.4f} "
        f"at 1000; the true value is {losses[-1]:.4f}, the floor {entropy():.4f}")
    yield claim_of(
        "Q8", "premise", "the takeaway relates the paper to explainability techniques",
        "traditional understanding of explainability techniques",
        "the paper announced for this section is on scaling laws; the sentence does not fit it; "
        "the link, which would decide, is not printed",
        judgement("essay"), "the section's first line and this question name different subjects")


def extrapolated(sizes, losses, size=1000):
    """The loss at `size` by the power law through the given ones, from the last of them."""
    return losses[-1] * (size / sizes[-1]) ** -exponent(sizes, losses)


def claims():
    return [*points_claims(), *review_claims()]


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
