"""Document 003, Questions 7 and 8, and its points: a review of a scaling law, and its sums.

The paper under review is only linked to. Reviewed here is arXiv:2203.15556, whose law with a floor
is L(N, D) = E + A / N^alpha + B / D^beta (N parameters, D tokens), beside arXiv:2001.08361, whose
laws have none, and arXiv:2404.10102, which fits the first again; what they say can be computed.
What a floor does to a fit is shown on a coin, where everything is known.
"""

import math
from fractions import Fraction
from functools import partial

from exercises.framework import Claim, judge, judgement
from exercises.worked import Solution, Table, listing, num
from npdl.errors import InputError

QUESTION = """\
Questions 7 and 8. Summarise a paper on scaling laws, its contributions, strengths and weaknesses, \
and say what you take from it. (The paper is only linked to; reviewed here: arXiv:2203.15556.) \
And do the points of the problem set add up: 21.5 for one course number, 26.5 for the other?"""

TITLES = {"7": "A review of a scaling law", "8": "A review: the takeaway"}

claim_of = partial(Claim, "003")

POINTS = {"collaborators": "0.5", "Q1": 1, "Q2": 1, "Q3": 5, "Q4": 5, "Q5": 5, "Q7": 2, "Q8": 2}
EXTRA = {"Q6": 5}
PRINTED = {"4644": "21.5", "7643": "26.5"}  # the theory's points, by course number
EXTRA_FOR = "4464"                          # as printed beside Question 6

FITTED = (1.69, 406.4, 410.7, 0.34, 0.28)           # E, A, B, alpha, beta: arXiv:2203.15556
AGAIN = (1.8172, 482.01, 2085.43, 0.3478, 0.3658)   # the same law by arXiv:2404.10102
OLDER = 0.73                                # arXiv:2001.08361: best N as a power of compute
OLD, NEW = (280e9, 300e9), (70e9, 1.4e12)   # (N, D) of the model that was there, and of the test


def total(points):
    """The exact sum of points."""
    return sum(Fraction(value) for value in points.values())


def law(N, D, fit=FITTED):
    """The reviewed law's loss of N parameters trained on D tokens."""
    E, A, B, alpha, beta = fit
    return E + A / N**alpha + B / D**beta


def compute(N, D):
    """Operations of a training run: 6 N D."""
    return 6 * N * D


def written(number, tens, digits=0):
    """A large number as so many times 10^tens: 70e9."""
    multiple = number / 10**tens
    return f"{num(multiple, digits)}e{tens}"


def power(fit=FITTED):
    """The power of the compute with which the best N grows."""
    *_, alpha, beta = fit
    return beta / (alpha + beta)


def best_split(C, fit=FITTED):
    """(N, D) of least loss with 6 N D = C: where the derivative along that curve is 0.

    alpha A / N^alpha = beta B / D^beta, so N = (alpha A / (beta B))^(1/(alpha + beta))
    (C/6)^(beta/(alpha + beta)).
    """
    _, A, B, alpha, beta = fit
    N = (alpha * A / (beta * B)) ** (1 / (alpha + beta)) * (C / 6) ** power(fit)
    return N, C / (6 * N)


def searched_split(C, fit=FITTED, points=20_001):
    """The same by trying sizes from 1e8 to 1e13 on an even grid of logarithms."""
    sizes = [10 ** (8 + 5 * k / (points - 1)) for k in range(points)]
    return min(((N, C / (6 * N)) for N in sizes), key=lambda pair: law(*pair, fit))


def expected_loss(n, p=0.3):
    """Exact mean cross-entropy, in nats, of predicting a coin of bias p after n tosses.

    The prediction for heads is (heads + 1/2) / (n + 1). The least possible loss is the entropy.
    """
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
    splits = {fit: best_split(compute(*OLD), fit) for fit in (FITTED, AGAIN)}
    sound = all(abs(N / searched_split(compute(*OLD), fit)[0] - 1) < 1e-3 and law(*NEW, fit)
                < law(*OLD, fit) for fit, (N, _) in splits.items())
    *ratios, trained = [D / N for N, D in [*splits.values(), NEW]]
    best = [f"{written(N, 9)} parameters and {ratio:.0f} tokens for each"
            for (N, _), ratio in zip(splits.values(), ratios, strict=True)]
    older, newer = 10**OLDER, 10**power()
    yield claim_of(
        "Q7", "", "summary, strengths and weaknesses of a paper on scaling laws", "an essay",
        "of arXiv:2203.15556: at equal compute a smaller model on more tokens is better, and its "
        f"law says so: {law(*OLD):.3f} with {written(OLD[0], 9)} parameters, {law(*NEW):.3f} with "
        f"{written(NEW[0], 9)}; weak is the printed fit, which contradicts the "
        f"{trained:.0f} tokens a parameter that the paper trains with",
        judgement("essay", provided=sound and abs(right - 1) < 0.1),
        f"best of {compute(*OLD):.2e} operations: {best[0]}, and by the fit of arXiv:2404.10102 "
        f"{best[1]}, by derivative and by search; a coin of bias 0.3, exact mean loss after n = "
        f"{listing(sizes, 'd')} tosses: {listing(losses, '.4f')}, falls to its floor as "
        f"n^-{right:.2f}, and a fit without the floor gives n^-{plain:.2f}")
    yield claim_of(
        "Q8", "", "a takeaway from the paper", "an essay",
        "an extrapolation is as good as the form that is fitted: two published laws give ten times "
        f"the compute {older:.1f} or {newer:.1f} times the parameters",
        judgement("essay", provided=sound and guess < entropy() < losses[-1]),
        f"powers {OLDER} and {power():.2f}; on the coin, from n = 10 and 30, a pure power law "
        f"predicts {guess:.4f} at 1000; the true value is {losses[-1]:.4f}, the floor "
        f"{entropy():.4f}")
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
    C = compute(*OLD)
    splits = [best_split(C, fit) for fit in (FITTED, AGAIN)]
    searched = [searched_split(C, fit) for fit in (FITTED, AGAIN)]
    wanted, again, taken = (num(D / N, 0) for N, D in [*splits, NEW])
    rows = [(name, num(power(fit), 2), written(N, 9), written(D, 12, 2), ratio)
            for name, fit, (N, D), ratio in zip(
                ("printed", "fitted again"), (FITTED, AGAIN), splits, (wanted, again), strict=True)]
    losses = [law(*pair, fit) for fit in (FITTED, AGAIN) for pair in (OLD, NEW)]
    text = (
        "The paper trains over 400 language models and describes their losses by one law: a floor, "
        "a term that more parameters N lower, a term that more tokens D lower. For a given compute "
        "both should grow about alike, so the large models of its day had seen too few tokens. "
        "Strong: this was tried outside the fit. A model a quarter as large, on more tokens at "
        "about the same compute, was better, as the law says. Weak: the printed fit. By it the "
        f"best model has {wanted} tokens for each parameter; the paper trains with {taken}, which "
        "its two other methods support. arXiv:2404.10102 read the runs off the figures and fitted "
        "again: the search had stopped early, and rounding biases what is printed; now "
        f"{again} come out. Not looked at: data that is used twice, and what a model costs after "
        "training.")
    work = Solution("7",
                    "The link is not printed; this is arXiv:2203.15556, with the numbers of its "
                    "fitted law.")
    work.step(text, "L(N, D) = E + A/N^α + B/D^β,   C = 6 N D   →   N ∝ C^(β/(α+β))",
              f"L of {written(OLD[0], 9)} and {written(NEW[0], 9)} parameters: {num(losses[0])} "
              f"and {num(losses[1])}; fitted again {num(losses[2])} and {num(losses[3])}",
              table=Table(("fit", "power of C", f"best N at C = {C:.2e}", "D", "D / N"),
                          tuple(rows)))
    work.answer = ("Parameters and tokens should grow alike; tried outside the fit, but printed "
                   "with a fit that contradicts it.")
    work.check("both best N are found by a search over 20,001 sizes as well, to 0.1 %",
               all(abs(a[0] / b[0] - 1) < 1e-3 for a, b in zip(splits, searched, strict=True)))
    work.check("by both fits the smaller model on more tokens is better",
               losses[1] < losses[0] and losses[3] < losses[2])
    return work


def takeaway():
    """Question 8."""
    losses, excess, plain, right = measured()
    n, factor = SIZES[1], SIZES[2] / SIZES[1]
    older, newer = 10**OLDER, 10**power()
    pure = losses[1] * factor ** -plain[0]
    floored = entropy() + excess[1] * factor ** -right[0]
    grown = best_split(10 * compute(*OLD))[0] / best_split(compute(*OLD))[0]
    text = (
        "An extrapolation is as good as its form and its fit. For ten times the compute an older "
        "law without a floor (arXiv:2001.08361) asks for nearly twice as much growth of the model "
        "as this one. So try a form where the truth is known: a coin of bias 0.3, foretold from n "
        f"tosses. From n = {SIZES[0]} and {n} to {SIZES[2]} a pure power law ends below the "
        "least loss that there can be; with the floor taken off first it is right. Next I would "
        "fit with the largest runs left out, see how well it foretells them, and publish the runs, "
        "so that anyone can fit again.")
    work = Solution("8", "The laws of two papers, and a coin, predicted by (heads + 1/2)/(n + 1).")
    work.step(text, f"N ∝ C^{OLDER}   against   N ∝ C^(β/(α+β));      L(n₂) = L(n₁) (n₂/n₁)^(−α)",
              f"10^{OLDER} = {num(older, 1)} times;   10^{num(power(), 2)} = "
              f"{num(newer, 1)} times\n{num(losses[1], 4)} · "
              f"{num(factor, 0)}^(−{num(plain[0])}) = {num(pure, 4)}, below the floor "
              f"{num(entropy(), 4)}\n{num(entropy(), 4)} + {num(excess[1], 5)} · "
              f"{num(factor, 0)}^(−{num(right[0])}) = {num(floored, 4)};   true: "
              f"{num(losses[2], 4)}")
    work.answer = (f"{num(pure, 4)} without a floor, {num(floored, 4)} with it, "
                   f"{num(losses[2], 4)} in truth: ask what form was fitted, and whether the fit "
                   "can be repeated.")
    work.check("with the floor the error is at least 100 times smaller",
               100 * abs(floored - losses[2]) < abs(pure - losses[2]))
    work.check("a least-squares fit of the coin's three excesses has an exponent within 0.05 of 1",
               abs(exponent(SIZES, excess) - 1) < 0.05)
    work.check("ten times the compute, by the law's best sizes", math.isclose(grown, newer))
    return work


def solutions():
    return [review(), takeaway()]
