"""Document 003, Questions 7 and 8, its points and its notebook: a review of a scaling law.

The document only links to its paper. We review arXiv:2203.15556, whose law has a floor E:
L(N, D) = E + A / N^α + B / D^β (N parameters, D tokens). We compare it with arXiv:2001.08361, whose
laws have no floor, and arXiv:2404.10102, which fits the first law again. The effect of a floor on a
fit is shown for a coin, where everything is known.
"""

import math

import numpy as np

from exercises.course import format_table, judge, question
from npdl.layers.attention import MultiHeadAttention
from npdl.layers.transformer import Block
from npdl.models.gpt import GPT
from npdl.models.seq2seq import Seq2Seq

FITTED = (1.69, 406.4, 410.7, 0.34, 0.28)           # E, A, B, α, β: arXiv:2203.15556
AGAIN = (1.8172, 482.01, 2085.43, 0.3478, 0.3658)   # the same law by arXiv:2404.10102
OLDER = 0.73                                        # arXiv:2001.08361: best N as a power of compute
OLD, NEW = (280e9, 300e9), (70e9, 1.4e12)           # (N, D) of the earlier model, and of the test
C = 6 * OLD[0] * OLD[1]                             # operations of a training run: 6 N D
SIZES = np.array([10, 100, 1000])                   # tosses of the coin
FLOOR = -(0.3 * math.log(0.3) + 0.7 * math.log(0.7))


def scaling_law_loss(N, D, fit=FITTED):
    """Return the law's loss of N parameters trained on D tokens."""
    E, A, B, alpha, beta = fit
    return E + A / N**alpha + B / D**beta


def size_exponent(fit=FITTED):
    """Return the exponent with which the best N grows with the compute."""
    return fit[4] / (fit[3] + fit[4])


def best_size(C, fit=FITTED):
    """Return the N with the lowest loss among those with 6 N D = C (zero derivative)."""
    _, A, B, alpha, beta = fit
    return (alpha * A / (beta * B)) ** (1 / (alpha + beta)) * (C / 6) ** size_exponent(fit)


def expected_coin_loss(n, p=0.3):
    """Return the exact mean cross-entropy of predicting a coin of bias p after n tosses.

    The prediction for heads is (heads + 1/2) / (n + 1).
    """
    weights = np.array([math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)])
    q = (np.arange(n + 1) + 0.5) / (n + 1)
    return float(-weights @ (p * np.log(q) + (1 - p) * np.log(1 - q)))


@question("003.points", "The points of the problem set")
def solve_point_totals(say, step, answer, check, claim):
    """Do the points of the theory answers add up to 21.5 and 26.5, for two course numbers?"""
    graded, extra = (0.5, 1, 1, 5, 5, 5, 2, 2), 5       # the extra points are for Question 6
    total, printed = sum(graded), {"4644": 21.5, "7643": 26.5}
    course = next((name for name, points in printed.items() if points == total), "none")
    answer(f"The theory answers give {total} points, and {total + extra} points with Question 6.")
    check("The points of one course are the sum without Question 6.", course != "none")
    claim("", "the theory answers give 21.5 points, and 26.5 with Question 6",
          "21.5 (CS 4644), 26.5 (CS 7643)", f"{total} and {total + extra}",
          judge([total, total + extra] == list(printed.values())),
          " + ".join(map(str, graded)) + f"; + {extra}")
    claim("", "Question 6 is extra credit for course 4464", "4464", f"{course}, because the points "
          "of this course leave out Question 6", judge(course == "4464", if_false="slip"),
          f"course {course} is graded out of {total} points, the sum without Question 6")


@question("003.7", "A review of a scaling law")
def solve_paper_review(say, step, answer, check, claim):
    """Summarise a paper on scaling laws with its contributions, strengths and weaknesses."""
    fits, grid = (FITTED, AGAIN), 10 ** np.linspace(8, 13, 20_001)
    best = [best_size(C, fit) for fit in fits]
    searched = [grid[scaling_law_loss(grid, C / (6 * grid), fit).argmin()] for fit in fits]
    printed, repeated = ratios = [C / 6 / N**2 for N in best]
    losses = [scaling_law_loss(*pair, fit) for fit in fits for pair in (OLD, NEW)]
    say("The document does not print the link. We review arXiv:2203.15556 and its fitted law.")
    step("The paper trains over 400 language models and describes their losses by one law. The law "
         "is the sum of a floor, a term that decreases with the parameters N, and a term that "
         "decreases with the tokens D. For a given compute, N and D should grow at about the same "
         "rate, so the large models of that time were trained on too few tokens. The strength is a "
         "test outside the fit: a model a quarter as large, trained on more tokens with about the "
         "same compute, was better, as the law predicts. The weakness is the printed fit. It "
         f"predicts {printed:.0f} tokens per parameter for the best model, but the paper uses "
         f"{NEW[1] / NEW[0]:.0f}, which its two other methods support. arXiv:2404.10102 reads the "
         "runs from the figures and repeats the fit. It finds that the original search stopped "
         f"early and that the printed values are biased by rounding, and gets {repeated:.0f} "
         "tokens per parameter. The paper does not consider repeated data or the cost of a model "
         "after training.", "L(N, D) = E + A/N^α + B/D^β,   C = 6 N D   →   N ∝ C^(β/(α+β))",
         f"L for 280e9 and 70e9 parameters: {losses[0]:.3f} and {losses[1]:.3f}; with the repeated "
         f"fit {losses[2]:.3f} and {losses[3]:.3f}",
         format_table(("fit", "exponent of C", f"best N at C = {C:.2e}", "D", "D / N"), [
             (name, f"{size_exponent(fit):.2f}", f"{N / 1e9:.0f}e9", f"{C / 6 / N / 1e12:.2f}e12",
              f"{ratio:.0f}") for name, fit, N, ratio in
             zip(("printed", "repeated"), fits, best, ratios, strict=True)]))
    answer("Parameters and tokens should grow at the same rate. The paper tests this outside the "
           "fit, but its printed fit contradicts it.")
    check("A search over 20,001 sizes finds both best N, to within 0.1 %.",
          np.allclose(best, searched, rtol=1e-3))
    sizes = (10, 30, 100, 300, 1000)
    coin = np.array([expected_coin_loss(n) for n in sizes])
    right, plain = (-np.polyfit(np.log(sizes), np.log(falling), 1)[0]   # powers of a decay
                    for falling in (coin - FLOOR, coin))
    check("The coin's loss falls to its floor nearly as 1/n.", abs(right - 1) < 0.1)
    claim("", "summary, strengths and weaknesses of a paper on scaling laws", "an essay",
          "for equal compute, a smaller model trained on more tokens is better, as the law "
          f"predicts: {losses[0]:.3f} with 280e9 parameters, {losses[1]:.3f} with 70e9; the "
          "weakness is the printed fit", "essay",
          f"best number of tokens per parameter: {printed:.0f} by the printed fit, {repeated:.0f} "
          f"by the repeated fit, {NEW[1] / NEW[0]:.0f} in the paper's test; a coin's loss falls to "
          f"its floor as n^-{right:.2f}, but a fit without the floor gives n^-{plain:.2f}")


@question("003.8", "A review of a scaling law: the takeaway")
def solve_paper_takeaway(say, step, answer, check, claim):
    """State your takeaway from the paper."""
    losses = np.array([expected_coin_loss(n) for n in SIZES])
    excess, grown = losses - FLOOR, (10**OLDER, 10 ** size_exponent())
    plain, right = (math.log10(values[0] / values[1]) for values in (losses, excess))
    pure, floored = losses[1] * 10**-plain, FLOOR + excess[1] * 10**-right
    say("We compare the laws of two papers, and test such a law on a coin. The prediction for the "
        "coin is (heads + 1/2)/(n + 1).")
    step("An extrapolation is only as good as the form of its law and its fit. For ten times the "
         "compute, an older law without a floor (arXiv:2001.08361) predicts nearly twice as much "
         "growth of the model as this one. So test a form where the truth is known: a coin of bias "
         "0.3, predicted from n tosses. Extrapolated from n = 10 and 100 to 1000, a pure power law "
         "ends below the lowest possible loss. If the floor is subtracted first, the extrapolation "
         "is right. Next I would leave out the largest runs in the fit and see how well it "
         "predicts them. I would also publish the runs, so that anyone can repeat the fit.",
         f"N ∝ C^{OLDER}   or   N ∝ C^(β/(α+β));      L(n₂) = L(n₁) (n₂/n₁)^(−α)",
         f"10^{OLDER} = {grown[0]:.1f} times;   10^{size_exponent():.2f} = {grown[1]:.1f} times",
         f"{losses[1]:.4f} · 10^(−{plain:.3f}) = {pure:.4f}, below the floor {FLOOR:.4f}",
         f"{FLOOR:.4f} + {excess[1]:.5f} · 10^(−{right:.3f}) = {floored:.4f};   true: "
         f"{losses[2]:.4f}")
    answer(f"The extrapolation gives {pure:.4f} without a floor and {floored:.4f} with it, and the "
           f"true value is {losses[2]:.4f}. So ask which form was fitted, and if the fit can be "
           "repeated.")
    check("With the floor, the error is at least 100 times smaller.",
          100 * abs(floored - losses[2]) < abs(pure - losses[2]))
    check("The law's best sizes for ten times the compute have the same ratio.",
          math.isclose(best_size(10 * C) / best_size(C), grown[1]))
    claim("", "a takeaway from the paper", "an essay", "an extrapolation is only as good as the "
          "form that is fitted: for ten times the compute, two published laws predict "
          f"{grown[0]:.1f} or {grown[1]:.1f} times the parameters", "essay",
          f"the exponents are {OLDER} and {size_exponent():.2f}; for the coin, a pure power law "
          f"from n = 10 and 100 predicts {pure:.4f} at 1000; the true value is {losses[2]:.4f}, "
          f"and the floor is {FLOOR:.4f}")
    claim("premise", "the takeaway relates the paper to explainability techniques",
          "traditional understanding of explainability techniques",
          "the section announces a paper on scaling laws; its link is not printed",
          "essay", "the first line of the section and this question have different topics")


@question("003.s5", "The notebook: Transformer architectures and language modelling")
def solve_notebook_task(say, step, answer, check, claim):
    """Implement Transformer architectures and train them (report 5 points, tests 11)."""
    classes = {"attention with several heads": MultiHeadAttention, "a block": Block,
               "encoder and decoder": Seq2Seq, "language model": GPT}
    say("The cells of the notebook are in an archive and not in the document, so we can't judge "
        "its claims. npdl has the architectures that the title names.",
        format_table(("architecture", "class", "module"), [
            (name, one.__name__, one.__module__) for name, one in classes.items()]))
    answer("`python -m npdl homework --out homework --layers Block` writes an exercise in which "
           "you implement a block. experiments/train_gpt.py trains a language model, and "
           "experiments/train_seq2seq.py trains an encoder and decoder.")
    logits, _ = GPT(7, 4, 1, 2).forward(np.zeros((2, 3), int))
    check("npdl's language model returns logits for each token of the vocabulary.",
          logits.shape == (2, 3, 7))
