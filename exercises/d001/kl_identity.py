"""Document 001, Question 1: the divergence between an approximate posterior and the posterior."""

import math
from fractions import Fraction

import numpy as np

from exercises.course import format_table, judge, question
from npdl.losses import KLDivergence

Q, PRIOR, LIKELIHOOD = (np.array([Fraction(*pair) for pair in row]) for row in (
    ((1, 2), (1, 4), (1, 4)), ((1, 4), (1, 2), (1, 4)), ((3, 5), (1, 5), (2, 5))))


def apply_bayes_rule(prior, likelihood):
    """Return P(context) and the posterior. `likelihood` is P(context | output) per output."""
    joint = prior * likelihood
    return joint.sum(), joint / joint.sum()


def kl_divergence(p, q):
    """Return D(P ‖ Q) of probabilities p > 0 and q ≥ 0. It is infinite if q has a 0."""
    with np.errstate(divide="ignore"):
        return p @ np.log(p / q)


def identity_sides(q, prior, likelihood):
    """Return the left and the right side of the identity for a distribution q."""
    evidence, posterior = apply_bayes_rule(prior, likelihood)
    with np.errstate(divide="ignore"):
        right = np.log(evidence) - q @ np.log(likelihood) + kl_divergence(q, prior)
    return float(kl_divergence(q, posterior)), float(right)


@question("001.1", "The KL divergence from an approximate posterior to the posterior")
def solve_divergence_identity(say, step, answer, check, claim):
    """Show: D(Q ‖ posterior) = log P(context) − E_Q log P(context | output) + D(Q ‖ prior)."""
    exact_evidence, exact_posterior = apply_bayes_rule(PRIOR, LIKELIHOOD)
    q, prior, likelihood, posterior = (
        row.astype(float) for row in (Q, PRIOR, LIKELIHOOD, exact_posterior))
    evidence = math.log(exact_evidence)
    to_posterior, to_prior = np.log(q / posterior), np.log(q / prior)
    left, expected, rest = q * to_posterior, q * np.log(likelihood), q * to_prior
    right = evidence - expected.sum() + rest.sum()
    say("There are three outputs o = a, b, d, and one context c.")
    step("Write the posterior by Bayes' rule. It is divided by P(c), the probability of the "
         "context, so that it sums to 1.", "P(o | c) = P(c | o) P(o) / P(c),   P(c) = Σ_o P(c | o) "
         "P(o)", f"P(c) = {' + '.join(map(str, PRIOR * LIKELIHOOD))} = {exact_evidence}",
         format_table(("output", "Q", "P(o)", "P(c | o)", "P(o | c)"),
                      list(zip("abd", Q, PRIOR, LIKELIHOOD, exact_posterior, strict=True))))
    step("Insert the posterior into the logarithm of the divergence. Then write the logarithm of "
         "the quotient as a sum of logarithms.", "log Q(o)/P(o | c) = log [ P(c) Q(o) / (P(c | o) "
         "P(o)) ]\n                  = log P(c) − log P(c | o) + log Q(o)/P(o)",
         f"o = a:  {to_posterior[0]:.4f} = {evidence:.4f} − ({math.log(likelihood[0]):.4f}) + "
         f"{to_prior[0]:.4f}")
    step("Take the expectation of every term under Q. The expectation is linear. log P(c) does not "
         "depend on o, so it is its own expectation. The expectation of the last term is a "
         "divergence.", "D(Q ‖ posterior) = log P(c) − E_Q[log P(c | o)] + D(Q ‖ prior)",
         format_table(("output", "Q log Q/posterior", "Q log P(c | o)", "Q log Q/prior"),
                      list(zip("abd", left, expected, rest, strict=True)), 4))
    step("Add the columns, and compare both sides.",
         f"left:   {' + '.join(f'{v:.4f}' for v in left)} = {left.sum():.4f}",
         f"right:  {evidence:.4f} − ({expected.sum():.4f}) + {rest.sum():.4f} = {right:.4f}")
    answer("The identity is the logarithm of Bayes' rule, averaged over Q. It needs P(c) > 0, and "
           "Q = 0 where the posterior is 0.")
    rng = np.random.default_rng(0)
    pairs = [identity_sides(*rng.dirichlet(np.ones(5), 2), rng.uniform(0.05, 0.95, 5))
             for _ in range(200)]
    both, _ = KLDivergence("none").forward(np.log([q, q]), np.log([posterior, prior]))
    check("npdl's KLDivergence gives the same left side and the same D(Q ‖ prior).",
          np.allclose(both, (left.sum(), rest.sum()), 0, 1e-12))
    check("Both sides are equal here, and in 200 random cases.",
          np.ptp([(left.sum(), right), *pairs], 1).max() < 1e-12)
    claim("", "D(Q || posterior) = log P(context) - E_Q log P(context | output) + D(Q || prior).",
          "to be shown, no proof given", "holds",
          judge(np.array_equal(Q / exact_posterior, exact_evidence * Q / (LIKELIHOOD * PRIOR))),
          "in exact fractions, q / posterior = P(context) q / (likelihood prior) for each output; "
          "both sides are E_Q of the logarithm of this quotient")
    evidence, left = prior @ likelihood, left.sum()
    y = np.random.default_rng(0).choice(3, 20_000, p=q)
    sample = np.log(evidence * q[y] / (likelihood[y] * prior[y]))
    error = sample.std() / len(sample) ** 0.5
    infinite = [identity_sides(q, np.array([0, 0.5, 0.5]), likelihood),
                identity_sides(q, prior, likelihood * (0, 1, 1))]
    reverse = float(kl_divergence(posterior, q))
    nearer, lowered = identity_sides((q + posterior) / 2, prior, likelihood)
    claim("", "The terms on the right are expectations under Q.", "E_Q",
          f"left side {left:.4f}; right side, sampled from Q: {sample.mean():.4f} +- {error:.4f}",
          judge(abs(sample.mean() - left) < 4 * error), "20,000 outputs drawn from Q, seed 0")
    claim("", "The identity needs no condition.", "none is stated",
          "P(context) > 0, and Q = 0 wherever the posterior is 0; otherwise both sides are "
          "infinite", judge(np.isposinf(infinite).all(), "under-specified"),
          "tested with an output of prior 0 and with one of likelihood 0, both with Q > 0")
    claim("", "The divergence is defined with the true distribution first.", "D(P || Q) in the "
          "definition, D(Q || P) in the identity", f"D(Q || posterior) = {left:.5f}, D(posterior "
          f"|| Q) = {reverse:.5f}", judge(abs(left - reverse) > 1e-5, "convention"),
          "both are called the divergence; the expectation is under the first distribution")
    claim("", "P(context | output) is a likelihood.", "a likelihood",
          f"its sum over the outputs is {likelihood.sum():g}",
          judge(likelihood.sum() != 1), "as a function of the output it is not a distribution")
    claim("", "Q can be used to estimate the posterior.", "an approximate distribution",
          "minimising -E_Q log likelihood + D(Q || prior) minimises D(Q || posterior), because "
          "they differ by log P(context), which does not depend on Q",
          judge(math.isclose(nearer, lowered) and nearer < left),
          f"halfway from Q to the posterior, both are lower by {left - nearer:.4f}")
