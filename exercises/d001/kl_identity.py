"""Document 001, Question 1: the divergence of an approximate posterior, taken apart."""

import math
from fractions import Fraction
from functools import partial

import numpy as np

from exercises.framework import Claim, judge, proved
from exercises.probes import estimate
from exercises.worked import Solution, Table, below, num, terms
from npdl.losses import KLDivergence, kl_divergence

QUESTION = """\
A language model has a prior P(output), a likelihood P(context | output) and so a posterior
P(output | context); Q(output | context) approximates the posterior. With
D(P || Q) = E_(y from P) log(P(y) / Q(y)), show that
  D(Q || posterior) = log P(context) - E_Q[log P(context | output)] + D(Q || prior)."""
GROUND = "The document gives no numbers; random distributions over 5 outputs are used here."
TITLES = {"1": "The divergence of an approximate posterior, taken apart"}

claim = partial(Claim, "001", "Q1")


def bayes(prior, likelihood):
    """(P(context), posterior): of prior (V,) and P(this context | output) (V,), any numbers.

    Works on fractions as well as on floats.
    """
    joint = [p * q for p, q in zip(prior, likelihood, strict=True)]
    evidence = sum(joint)
    return evidence, [value / evidence for value in joint]


def identity(q, prior, likelihood):
    """{"left": D(Q || posterior), "log evidence", "expected", "prior": D(Q || prior), "right"}.

    q, prior, likelihood (V,) floats.
    """
    evidence, posterior = bayes(prior, likelihood)
    q, prior, posterior = (np.asarray(values, float) for values in (q, prior, posterior))
    possible = q > 0
    with np.errstate(divide="ignore"):
        log_likelihood = np.log(np.asarray(likelihood, float))
    found = {
        "left": float(kl_divergence(q, posterior)),
        "log evidence": float(np.log(evidence)),
        "expected": float((q[possible] * log_likelihood[possible]).sum()),
        "prior": float(kl_divergence(q, prior)),
    }
    return found | {"right": found["log evidence"] - found["expected"] + found["prior"]}


def exact_ratios_agree(q, prior, likelihood):
    """Whether q / posterior = P(context) q / (likelihood prior) for each output, in fractions.

    Both sides of the identity are E_Q of the logarithms of these two ratios.
    """
    evidence, posterior = bayes(prior, likelihood)
    return all(a / p == evidence * a / (like * before)
               for a, p, like, before in zip(q, posterior, likelihood, prior, strict=True))


def random_case(rng, V=5):
    """(q, prior, likelihood) of V outputs, floats."""
    q, prior = rng.dirichlet(np.ones(V), 2)
    return q, prior, rng.uniform(0.05, 0.95, V)


def sampled_right(q, prior, likelihood, draws=20_000, seed=0):
    """(mean, standard error) of the right side's expectation from draws of outputs out of Q."""
    rng = np.random.default_rng(seed)
    y = rng.choice(len(q), draws, p=q)
    evidence, _ = bayes(prior, likelihood)
    values = np.log(evidence) - np.log(likelihood[y]) + np.log(q[y] / prior[y])
    return estimate(values.tolist())


def claims(cases=200):
    rng = np.random.default_rng(0)
    q, prior, likelihood = random_case(rng)
    found = identity(q, prior, likelihood)
    return [identity_claim(rng, cases), sampling_claim(q, prior, likelihood, found),
            *condition_claims(q, prior, likelihood, found), *meaning_claims(q, prior, likelihood)]


def identity_claim(rng, cases):
    error = 0.0
    for _ in range(cases):
        found = identity(*random_case(rng))
        error = max(error, abs(found["left"] - found["right"]))
    exact = exact_ratios_agree(*([Fraction(k, 15) for k in order] for order in
                                 ((1, 2, 3, 4, 5), (5, 1, 4, 2, 3), (14, 3, 7, 1, 9))))
    return claim(
        "1", "D(Q || posterior) = log P(context) - E_Q log P(context | output) + D(Q || prior).",
        "to be shown, no proof given", "holds",
        proved(exact and error < 1e-12),
        f"{cases} random cases: error {below(error, 1e-12)}; in fractions q / posterior = "
        "P(context) q / (likelihood prior) for each output; both sides are E_Q of its logarithm")


def sampling_claim(q, prior, likelihood, found):
    mean, error = sampled_right(q, prior, likelihood)
    return claim(
        "1", "The terms on the right are expectations under Q.", "E_Q",
        f"left {found['left']:.4f}; right, sampled from Q: {mean:.4f} +- {error:.4f}",
        proved(abs(mean - found["left"]) < 4 * error),
        "an example, seed 0: Monte Carlo, 20,000 outputs drawn from Q")


def condition_claims(q, prior, likelihood, found):
    no_prior = np.array([0.0, *prior[1:]]) / prior[1:].sum()
    never = np.array([0.0, *likelihood[1:]])
    infinite = [identity(q, no_prior, likelihood), identity(q, prior, never)]
    both = all(np.isinf(t["left"]) and np.isinf(t["right"]) for t in infinite)
    reverse = float(kl_divergence(np.array(bayes(prior, likelihood)[1]), q))
    return [
        claim("1", "The identity needs no condition.", "none is stated",
              "P(context) > 0, and Q = 0 wherever the posterior is 0; otherwise both sides are "
              "infinite", judge(both, "under-specified"),
              "an output of prior 0, and one of likelihood 0, with Q > 0: infinity on both sides"),
        claim("1", "The divergence is defined with the true distribution first.",
              "D(P || Q) in the definition, D(Q || P) in the identity",
              f"D(Q || posterior) = {found['left']:.4f}, D(posterior || Q) = {reverse:.4f}",
              judge(abs(found["left"] - reverse) > 1e-3, "convention"),
              "an example, seed 0: "
              "two numbers, one name: the expectation is under the distribution that stands first"),
    ]


def meaning_claims(q, prior, likelihood):
    total = float(np.sum(likelihood))
    start, end, bound, evidence = descend(q, prior, likelihood)
    gap = abs(bound - evidence)
    return [
        claim("1", "P(context | output) is a likelihood.", "a likelihood",
              f"over the outputs it sums to {total:.3f}",
              judge(abs(total - 1) > 1e-3),
              "an example, seed 0: as a function of the output it is no distribution"),
        claim("1", "Q can be used to estimate the posterior.", "an approximate distribution",
              f"lowering -E_Q log likelihood + D(Q || prior) takes D(Q || posterior) from "
              f"{start:.4f} to {below(end, 1e-6)}",
              proved(end < 1e-6),
              f"an example, seed 0: gradient descent with npdl's KLDivergence, which never saw the "
              f"posterior; the bound reaches log P(context) = {evidence:.4f} (off by "
              f"{below(gap, 1e-6)})"),
    ]


def descend(q, prior, likelihood, steps=3000, rate=1.0):
    """Minimise the right side without log P(context) over the logits of Q.

    Returns D(Q || posterior) before and after, the lower bound at the end and log P(context).
    """
    layer, logits = KLDivergence("sum"), np.log(q)
    evidence, posterior = bayes(prior, likelihood)
    log_prior, log_likelihood = np.log(prior), np.log(likelihood)
    start = float(kl_divergence(q, np.array(posterior)))
    for _ in range(steps):
        _, cache = layer.forward(logits, log_prior)
        dlogits, _ = layer.backward(1.0, cache)
        now = cache.p
        dlogits = dlogits - now * (log_likelihood - (now * log_likelihood).sum())
        logits = logits - rate * dlogits
    divergence, cache = layer.forward(logits, log_prior)
    bound = float((cache.p * log_likelihood).sum() - divergence)
    end = float(kl_divergence(cache.p, np.array(posterior)))
    return start, end, bound, float(np.log(evidence))


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
    joint = [num(a * b) for a, b in zip(LIKELIHOOD, PRIOR, strict=True)]
    to_posterior_a, to_prior_a = (math.log(Q[0] / row[0]) for row in (posterior, PRIOR))
    found = identity(q, prior, like)
    rng = np.random.default_rng(1)
    others = max(abs(case["left"] - case["right"])
                 for case in (identity(*random_case(rng)) for _ in range(20)))
    work = Solution("1", "Three outputs o = a, b, d, and one context c.")
    work.step("Write the posterior by Bayes' rule. P(c), the probability of the context, is what "
              "makes it sum to 1.", "P(o | c) = P(c | o) P(o) / P(c),   P(c) = Σ_o P(c | o) P(o)",
              f"P(c) = {' + '.join(joint)} = {num(evidence)}",
              table=Table(("output", "Q", "P(o)", "P(c | o)", "P(o | c)"), tuple(
                  (o, *map(num, row)) for o, *row in zip(outputs, Q, PRIOR, LIKELIHOOD, posterior,
                                                         strict=True))))
    work.step("Put it into the logarithm of the divergence, and take the quotient apart: a "
              "product below the line becomes a difference of logarithms.",
              "log Q(o)/P(o | c) = log [ P(c) Q(o) / (P(c | o) P(o)) ]\n                  = log "
              "P(c) − log P(c | o) + log Q(o)/P(o)",
              f"o = a:  {num(to_posterior_a, 4)} = {num(math.log(evidence), 4)} − "
              f"({num(math.log(LIKELIHOOD[0]), 4)}) + {num(to_prior_a, 4)}")
    work.step("Take the expectation under Q of every term. It is linear; P(c) does not depend on "
              "o, so its expectation is itself; the last one is a divergence again.",
              "D(Q ‖ posterior) = log P(c) − E_Q[log P(c | o)] + D(Q ‖ prior)",
              table=Table(("output", "Q log Q/posterior", "Q log P(c | o)", "Q log Q/prior"), tuple(
                  zip(outputs, left, expected, to_prior, strict=True)), 4))
    work.step("Add the columns, and compare both sides.",
              numbers=f"left:   {terms(left, 4)} = {num(sum(left), 4)}\nright:  "
                      f"{num(math.log(evidence), 4)} − ({num(sum(expected), 4)}) + "
                      f"{num(sum(to_prior), 4)} = {num(right, 4)}")
    work.answer = ("The identity is Bayes' rule under a logarithm, averaged over Q; it needs P(c) "
                   "> 0, and Q = 0 where the posterior is 0.")
    work.check("npdl's kl_divergence gives the left side and D(Q ‖ prior).",
               math.isclose(float(kl_divergence(q, post)), sum(left))
               and math.isclose(float(kl_divergence(q, prior)), sum(to_prior)))
    work.check("Both sides are equal here, and in 20 random cases.",
               math.isclose(sum(left), right) and others < 1e-12
               and math.isclose(found["right"], right))
    yield work
