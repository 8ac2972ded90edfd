"""The worked solution of document 001, Question 1: a divergence taken apart, term by term."""

import math
from fractions import Fraction

import numpy as np

from exercises.d001_kl_identity import bayes, random_case
from exercises.d001_kl_identity import terms as split
from exercises.worked import Check, Solution, Step, Table, num, terms
from npdl.losses import kl_divergence

Q, PRIOR, LIKELIHOOD = ([Fraction(*pair) for pair in row] for row in (
    ((1, 2), (1, 4), (1, 4)), ((1, 4), (1, 2), (1, 4)), ((3, 5), (1, 5), (2, 5))))


def columns(q, prior, likelihood, posterior):
    """The terms Q log Q/posterior, Q log P(c | o) and Q log Q/prior of each output."""
    return [(q * np.log(of)).tolist() for of in (q / posterior, likelihood, q / prior)]


def right_side(evidence, expected, to_prior):
    return math.log(evidence) - sum(expected) + sum(to_prior)


def solutions():
    evidence, posterior = bayes(PRIOR, LIKELIHOOD)
    q, prior, like, post = (np.array(row, float) for row in (Q, PRIOR, LIKELIHOOD, posterior))
    left, expected, to_prior = columns(q, prior, like, post)
    right = right_side(evidence, expected, to_prior)
    outputs = "abd"
    found = split(q, prior, like)
    rng = np.random.default_rng(1)
    others = max(abs(case["left"] - case["right"])
                 for case in (split(*random_case(rng)) for _ in range(20)))
    return [Solution(
        "1",
        (Step("Write the posterior by Bayes' rule. P(c), the probability of the context, is what "
              "makes it sum to 1.", "P(o | c) = P(c | o) P(o) / P(c),   P(c) = Σ_o P(c | o) P(o)",
              f"P(c) = {' + '.join(num(a * b) for a, b in zip(LIKELIHOOD, PRIOR, strict=True))} = "
              f"{num(evidence)}",
              table=Table(("output", "Q", "P(o)", "P(c | o)", "P(o | c)"), tuple(
                  (o, *map(num, row)) for o, *row in zip(outputs, Q, PRIOR, LIKELIHOOD, posterior,
                                                         strict=True)))),
         Step("Put it into the logarithm of the divergence, and take the quotient apart: a product "
              "below the line becomes a difference of logarithms.",
              "log Q(o)/P(o | c) = log [ P(c) Q(o) / (P(c | o) P(o)) ]\n"
              "                  = log P(c) − log P(c | o) + log Q(o)/P(o)",
              f"o = a:  {num(math.log(Q[0] / posterior[0]), 4)} = {num(math.log(evidence), 4)} − "
              f"({num(math.log(LIKELIHOOD[0]), 4)}) + {num(math.log(Q[0] / PRIOR[0]), 4)}"),
         Step("Take the expectation under Q of every term. It is linear; P(c) does not depend on "
              "o, so its expectation is itself; the last one is a divergence again.",
              "D(Q ‖ posterior) = log P(c) − E_Q[log P(c | o)] + D(Q ‖ prior)",
              table=Table(("output", "Q log Q/posterior", "Q log P(c | o)", "Q log Q/prior"), tuple(
                  zip(outputs, left, expected, to_prior, strict=True)), 4)),
         Step("Add the columns, and compare both sides.",
              numbers=f"left:   {terms(left, 4)} = {num(sum(left), 4)}\n"
                      f"right:  {num(math.log(evidence), 4)} − ({num(sum(expected), 4)}) + "
                      f"{num(sum(to_prior), 4)} = {num(right, 4)}")),
        "The identity is Bayes' rule under a logarithm, averaged over Q; it needs P(c) > 0, and "
        "Q = 0 where the posterior is 0.",
        (Check("npdl's kl_divergence gives the left side and D(Q ‖ prior).",
               math.isclose(float(kl_divergence(q, post)), sum(left))
               and math.isclose(float(kl_divergence(q, prior)), sum(to_prior))),
         Check("Both sides are equal here, and in 20 random cases.",
               math.isclose(sum(left), right) and others < 1e-12
               and math.isclose(found["right"], right))),
        "Three outputs o = a, b, d, and one context c.")]
