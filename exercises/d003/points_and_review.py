"""Document 003, Questions 7 and 8, and its points: a review of a scaling law, and its sums.

The paper under review is only linked to. Reviewed here is arXiv:2203.15556, whose law with a floor
is L(N, D) = E + A / N^alpha + B / D^beta (N parameters, D tokens), beside arXiv:2001.08361, whose
laws have none; what they say can be computed. What a floor does to a fit is shown on a coin, where
everything is known.
"""

import math
from fractions import Fraction
from functools import partial

from exercises.framework import Claim, judge, judgement
from exercises.worked import Check, Solution, Step, Table, listing, num
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

FLOOR, A, B, ALPHA, BETA = 1.69, 406.4, 410.7, 0.34, 0.28      # arXiv:2203.15556, its fit
OLDER = 0.73                                # arXiv:2001.08361: best N as a power of compute
OLD, NEW = (280e9, 300e9), (70e9, 1.4e12)   # (N, D) of the model that was there, and of the test


def total(points):
    """The exact sum of points."""
    return sum(Fraction(value) for value in points.values())


def law(N, D):
    """The reviewed law's loss of N parameters trained on D tokens."""
    return FLOOR + A / N**ALPHA + B / D**BETA


def compute(N, D):
    """Operations of a training run: 6 N D."""
    return 6 * N * D


def best_split(C):
    """(N, D) of least loss with 6 N D = C: where the derivative along that curve is 0.

    alpha A / N^alpha = beta B / D^beta, so N = (alpha A / (beta B))^(1/(alpha + beta))
    (C/6)^(beta/(alpha + beta)).
    """
    N = (ALPHA * A / (BETA * B)) ** (1 / (ALPHA + BETA)) * (C / 6) ** (BETA / (ALPHA + BETA))
    return N, C / (6 * N)


def searched_split(C, points=20_001):
    """The same by trying sizes from 1e8 to 1e13 on an even grid of logarithms."""
    sizes = [10 ** (8 + 5 * k / (points - 1)) for k in range(points)]
    return min(((N, C / (6 * N)) for N in sizes), key=lambda pair: law(*pair))


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
    found, searched = best_split(compute(*OLD)), searched_split(compute(*OLD))
    sound = abs(found[0] / searched[0] - 1) < 1e-3
    power = BETA / (ALPHA + BETA)
    yield claim_of(
        "Q7", "", "summary, strengths and weaknesses of a paper on scaling laws", "an essay",
        "of arXiv:2203.15556: at equal compute a smaller model on more tokens is better, and its "
        f"law says so: {law(*OLD):.3f} with {OLD[0] / 1e9:.0f}e9 parameters, {law(*NEW):.3f} with "
        f"{NEW[0] / 1e9:.0f}e9; weak is what hangs on a fit, the exponent {power:.2f} of the best "
        "size and the floor",
        judgement("essay", provided=sound and law(*NEW) < law(*OLD) and abs(right - 1) < 0.1),
        f"best of {compute(*OLD):.2e} operations: {found[0] / 1e9:.0f}e9 parameters, "
        f"{found[1] / 1e12:.1f}e12 tokens, by derivative and by search; a coin of bias 0.3, exact "
        f"mean loss after n = {listing(sizes, 'd')} tosses: {listing(losses, '.4f')}, falls to its "
        f"floor as n^-{right:.2f}, and a fit without the floor gives n^-{plain:.2f}")
    yield claim_of(
        "Q8", "", "a takeaway from the paper", "an essay",
        "an extrapolation is as good as the form that is fitted: two published laws give ten times "
        f"the compute {10**OLDER:.1f} or {10**power:.1f} times the parameters",
        judgement("essay", provided=sound and guess < entropy() < losses[-1]),
        f"powers {OLDER} and {BETA}/({ALPHA} + {BETA}) = {power:.2f}; on the coin, from n = 10 and "
        f"30, a pure power law predicts {guess:.4f} at 1000; the true value is {losses[-1]:.4f}, "
        f"the floor {entropy():.4f}")
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


def elasticities():
    """(name, power of the best N in C, best N at the compute of OLD): the fit, and exponents that
    differ from it by 0.02."""
    rows = []
    for alpha, beta in ((ALPHA, BETA), (ALPHA + 0.02, BETA), (ALPHA, BETA + 0.02)):
        N = ((alpha * A / (beta * B)) ** (1 / (alpha + beta))
             * (compute(*OLD) / 6) ** (beta / (alpha + beta)))
        rows.append((f"α = {num(alpha, 2)}, β = {num(beta, 2)}", beta / (alpha + beta),
                     f"{N / 1e9:.0f}e9"))
    return rows


def review():
    """Question 7."""
    losses, excess, plain, right = measured()
    C = compute(*OLD)
    N, D = best_split(C)
    searched = searched_split(C)
    terms_of = {pair: (A / pair[0]**ALPHA, B / pair[1]**BETA) for pair in (OLD, NEW)}
    return Solution(
        "7",
        (
            Step("Summary. Over 400 language models, from 70 million to 16 thousand million "
                 "parameters, are trained, and one law is fitted to their losses: a floor, a term "
                 "that more parameters N lower, a term that more tokens D lower.",
                 "L(N, D) = E + A/N^α + B/D^β",
                 f"E = {FLOOR}, A = {A}, B = {B}, α = {ALPHA}, β = {BETA}"),
            Step("Contribution: how to spend a given compute C = 6 N D. Put D = C/(6N) into the "
                 "law; the derivative by N is 0 where the two terms, weighed by their exponents, "
                 "are equal.", "α A/N^α = β B/D^β   →   N ∝ C^(β/(α+β)),  D ∝ C^(α/(α+β))",
                 f"powers {num(BETA / (ALPHA + BETA), 2)} and {num(ALPHA / (ALPHA + BETA), 2)}: "
                 f"both grow about as √C\nC = {C:.2e}: N = {N / 1e9:.0f}e9, D = {D / 1e12:.1f}e12"),
            Step("Strength: the law was tried where it had not been fitted. At about the compute "
                 "of a model that was there, a quarter of its size was trained on more tokens, and "
                 "was better, as the law says.",
                 table=Table(("parameters", "tokens", "6 N D", "A/N^α", "B/D^β", "L"), tuple(
                     (f"{n / 1e9:.0f}e9", f"{d / 1e12:.1f}e12", f"{compute(n, d):.2e}",
                      *terms_of[n, d], law(n, d)) for n, d in (OLD, NEW)))),
            Step("Weakness: the best size hangs on the difference of two fitted exponents, far "
                 "beyond the fitted sizes. Move one by 0.02:",
                 table=Table(("exponents", "power of C", "best N at that compute"),
                             tuple(elasticities()))),
            Step("Weakness: the floor E is fitted too, and no run comes near it. On a coin of bias "
                 "0.3, predicted after n tosses by (heads + 1/2)/(n + 1), the floor is known, the "
                 "entropy; without it the exponent comes out wrong.",
                 "L(n) − L_∞ ≈ 1/(2n),   α = −ln(L₂/L₁)/ln(n₂/n₁)",
                 table=Table(("n", "L", "L − L_∞", "α from L", "α from L − L_∞"), tuple(
                     (n, num(a, 4), num(b, 5), *("" if i == 0 else num(slopes[i - 1])
                                                 for slopes in (plain, right)))
                     for i, (n, a, b) in enumerate(zip(SIZES, losses, excess, strict=True))))),
            Step("Not looked at: data that is used more than once, other kinds of data, and what "
                 "the model costs after training, which speaks for smaller ones still."),
        ),
        f"At a fixed compute parameters and tokens should grow alike (powers "
        f"{num(BETA / (ALPHA + BETA), 2)} and {num(ALPHA / (ALPHA + BETA), 2)}); strong: tried "
        "outside the fit; weak: all hangs on fitted exponents and a floor that no run reaches.",
        (Check("the best N by a search over 20,001 sizes is the one of the derivative, to 0.1 %",
               abs(searched[0] / N - 1) < 1e-3),
         Check("the larger model's data term is the larger one: it saw too few tokens",
               terms_of[OLD][1] > terms_of[OLD][0] and law(*NEW) < law(*OLD)),
         Check("a least-squares fit of the coin's three excesses has an exponent within 0.05 of 1",
               abs(exponent(SIZES, excess) - 1) < 0.05),
         Check("twice n times the excess goes to 1", abs(2 * SIZES[-1] * excess[-1] - 1) < 0.02)),
        "The link is not printed; this is arXiv:2203.15556, with the numbers of its fitted law.")


def takeaway():
    """Question 8."""
    losses, excess, plain, right = measured()
    n, factor = SIZES[1], SIZES[2] / SIZES[1]
    pure = losses[1] * factor ** -plain[0]
    floored = entropy() + excess[1] * factor ** -right[0]
    power = BETA / (ALPHA + BETA)
    grown = best_split(10 * compute(*OLD))[0] / best_split(compute(*OLD))[0]
    return Solution(
        "8",
        (
            Step("Two papers, two laws, one question: ten times the compute, how much larger the "
                 "model? The older one (arXiv:2001.08361) fits power laws without a floor.",
                 f"N ∝ C^{OLDER}   against   N ∝ C^(β/(α+β))",
                 f"10^{OLDER} = {num(10**OLDER, 1)} times;   10^{num(power, 2)} = "
                 f"{num(10**power, 1)} times"),
            Step("So before an extrapolation is believed, try its form where the answer is known. "
                 f"The coin of Question 7, from n = {SIZES[0]} and {n} to {SIZES[2]}, without a "
                 "floor.", "L(n₂) = L(n₁) (n₂/n₁)^(−α)",
                 f"{num(losses[1], 4)} · {num(factor, 0)}^(−{num(plain[0])}) = {num(pure, 4)}, "
                 f"below the floor {num(entropy(), 4)}"),
            Step("The same points with the floor taken off first.",
                 "L(n₂) = L_∞ + (L(n₁) − L_∞) (n₂/n₁)^(−α)",
                 f"{num(entropy(), 4)} + {num(excess[1], 5)} · {num(factor, 0)}^(−{num(right[0])}) "
                 f"= {num(floored, 4)};   true: {num(losses[2], 4)}"),
            Step("What to look at next: the same fit with the largest runs left out, and how well "
                 "it foretells them; a law that is only drawn through its points has not been "
                 "tried."),
        ),
        f"An extrapolation is as good as its form: {num(pure, 4)} without a floor, "
        f"{num(floored, 4)} with it, {num(losses[2], 4)} in truth; and two laws of language models "
        f"differ by {num(10**OLDER / 10**power, 1)} times for ten times the compute.",
        (Check("with the floor the error is at least 100 times smaller",
               100 * abs(floored - losses[2]) < abs(pure - losses[2])),
         Check("ten times the compute, by the law's best sizes", math.isclose(grown, 10**power))),
        "The laws of two papers, and the coin of Question 7.")


def solutions():
    return [review(), takeaway()]
