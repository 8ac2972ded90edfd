"""The statistical rule that decides if a claim of the assignment agrees with npdl's runs.

claims.csv has the claims. A claim is expressed as one or more effects. An effect is one number for
each seed, above zero if the claim holds for that seed. Its mean over seeds gets a 90 % interval
(Student t). The claim is

  reproduced       if the intervals of all its effects lie above zero (intersection-union test,
                   each at 5 %),
  not reproduced   if the interval of one effect lies below zero, at 5 % / (number of effects)
                   (Bonferroni),
  inconclusive     otherwise.
"""

import csv
import dataclasses
import functools
import math
from pathlib import Path

import numpy as np

from npdl.errors import InputError

WORDS = ("reproduced", "not reproduced", "inconclusive")
REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE = WORDS
CLAIMS = Path(__file__).with_name("claims.csv")
LEVEL = 0.05                # probability outside the interval, on each side
# Practical margins: effects smaller than these count as "no difference".
SAME_ACCURACY = 0.01        # of an accuracy: one equation in a hundred
SAME_FACTOR = 1.25          # of steps and losses: a quarter


@dataclasses.dataclass(frozen=True)
class Claim:
    """A claim of the assignment.

    where          its place in the assignment, such as "Figure 12" or "5 (c)"
    claim          the claim in our words
    document       the assignment's own words or numbers
    effects        arrays (n seeds,), each above zero where the claim holds
    unit           the unit of the effects
    any_of         True if one effect above zero is enough
    rounding_unit  of effects that are counts; 0 for others
    """

    where: str
    claim: str
    document: str
    effects: list
    unit: str
    any_of: bool = False
    rounding_unit: float = 0.0

    @functools.cached_property
    def verdict(self):
        return judge_claim(self.effects, self.any_of, self.rounding_unit)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """One of WORDS, and the mean and interval of the effect that decides (the weakest one)."""

    word: str
    mean: float
    low: float
    high: float

    def __str__(self):
        return f"{self.mean:+.2g} ({self.low:+.2g} to {self.high:+.2g})"


def read_claims(question, effects):
    """Return the Claims of a question from claims.csv; `effects` is {claim: its effects}."""
    with open(CLAIMS, encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["question"] == question]
    if unlike := {row["claim"] for row in rows} ^ set(effects):
        raise InputError(f"{CLAIMS.name}: {sorted(unlike)} are either not in the file or not "
                         f"computed by the module of the question {question}")
    return [Claim(row["where"], row["claim"], row["document"], effects[row["claim"]], row["unit"],
                  row["any_of"] == "yes", float(row["rounding_unit"] or 0)) for row in rows]


def judge_claim(effects, any_of=False, rounding_unit=0.0):
    """Return the Verdict on a claim. The arguments are fields of Claim with these names."""
    if any_of:                  # the negation of "all of the opposites hold"
        all_of = judge_claim([-np.asarray(effect) for effect in effects], False, rounding_unit)
        opposite = {REPRODUCED: NOT_REPRODUCED, NOT_REPRODUCED: REPRODUCED}
        return Verdict(opposite.get(all_of.word, all_of.word), -all_of.mean, -all_of.high,
                       -all_of.low)
    strict = [mean_and_interval(effect, LEVEL / len(effects), rounding_unit) for effect in effects]
    lowest = min(strict, key=lambda found: found[2])
    if lowest[2] < 0:
        return Verdict(NOT_REPRODUCED, *lowest)
    weakest = min((mean_and_interval(effect, LEVEL, rounding_unit) for effect in effects),
                  key=lambda found: found[1])
    return Verdict(REPRODUCED if weakest[1] > 0 else INCONCLUSIVE, *weakest)


def mean_and_interval(values, level=LEVEL, rounding_unit=0.0):
    """Return (mean, low, high): the mean and its Student t interval with `level` on each side.

    The standard deviation is at least that of rounding to multiples of `rounding_unit`.
    """
    values = np.asarray(values, float)
    mean, n = float(values.mean()), len(values)
    if n < 2:
        return mean, -math.inf, math.inf
    std = max(float(values.std(ddof=1)), rounding_unit / math.sqrt(12))
    half = student_t_quantile(n - 1, level) * std / math.sqrt(n)
    return mean, mean - half, mean + half


@functools.cache
def student_t_quantile(df, tail):
    """Return the value that Student's t with df degrees of freedom exceeds with probability `tail`.

    It is found by bisection of a finite series (Abramowitz and Stegun, 26.7.3-4).
    """
    def probability_within(t):             # P(-t < T < t)
        angle = math.atan(t / math.sqrt(df))
        term = total = math.cos(angle) if df % 2 else 1.0
        for k in range(2 + df % 2, df - 1, 2):
            term *= math.cos(angle) ** 2 * (k - 1) / k
            total += term
        if df % 2 == 0:
            return math.sin(angle) * total
        return 2 / math.pi * (angle + (math.sin(angle) * total if df > 1 else 0.0))

    low, high = 0.0, 1e6
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if probability_within(middle) < 1 - 2 * tail else (low, middle)
    return (low + high) / 2


# --- effects --------------------------------------------------------------------------------------
def log_ratio_effect(smaller, larger):
    """Return log10(larger / smaller), above 0 if `smaller` is indeed below `larger`."""
    return np.log10(larger) - np.log10(smaller)


def fall_effects(values):
    """Return effects above 0 if each value is lower than the one before, along the first axis."""
    return list(-np.diff(np.log10(values), axis=0))


def rise_effects(values):
    """Return effects above 0 if each value is higher than the one before, along the first axis."""
    return list(np.diff(values, axis=0))


def margin_effects(difference, margin):
    """Return two effects, above 0 if the absolute difference is below the margin (equivalence)."""
    return [margin - difference, margin + difference]


def spearman(x, y):
    """Return Spearman's rank correlation of x (k,) with each column of y (k, n); 0 if constant."""
    def centred_ranks(values):
        ranks = (values[:, None] > values).sum(1) + ((values[:, None] == values).sum(1) + 1) / 2
        return ranks - ranks.mean()

    a = centred_ranks(np.asarray(x, float))
    rows = [centred_ranks(column) for column in np.asarray(y, float).T]
    sizes = [math.sqrt((a @ a) * (row @ row)) for row in rows]
    return np.array([a @ row / size if size else 0.0 for row, size in zip(rows, sizes,
                                                                          strict=True)])


def fit_slope(x, y):
    """Return the least-squares slope of each column of y (k, n) over x (k,)."""
    x = np.asarray(x, float) - np.mean(x)
    return x @ np.asarray(y) / (x @ x)
