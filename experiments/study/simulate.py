"""What the rule of the verdicts does where the truth is known, and how firm its thresholds are.

  python -m experiments.study.simulate                  draw claims, judge them; move the thresholds
  python -m experiments.study.simulate --before PAGE    the words that changed since a page

Writes experiments/results/rule.json, which experiments/report.py puts on experiments/RULE.md. PAGE
is an older docs/generated/verdicts.md.
"""

import argparse
import contextlib
import json
import sys
from pathlib import Path

import numpy as np

from experiments.study import measures, questions
from experiments.study.judge import (
    NOT_REPRODUCED,
    ON_START,
    OPEN,
    REPRODUCED,
    estimate,
    joint_word,
    together,
)
from experiments.study.measures import THRESHOLDS
from experiments.study.pages import Table
from experiments.study.records import RESULTS, Store
from npdl_train.console import OneLineParser, guarded

KEPT = RESULTS.with_name("rule.json")
SEEDS, CLAIMS = (2, 5, 10), 2000
FACTORS = (0.99, 1.01, 0.75, 1.25)
NEAR_ONE = ("GENERAL", "MEMORISED", "ALL")      # moved in their distance to 1


# --- known truths ---------------------------------------------------------------------------------
def normal(rng, shape):
    return rng.normal(size=shape)


def skewed(rng, shape):
    """A shifted exponential, mean 0, deviation 1: most seeds a little below, a few far above."""
    return rng.exponential(size=shape) - 1


def two_kinds(rng, shape):
    """One seed in five is 3 away from the others; mean 0."""
    return (rng.normal(size=shape) + 3 * (rng.random(shape) < 0.2) - 0.6) / np.sqrt(2.44)


def one_recipe(draw, truths):
    """A case: parts with these means, judged by one recipe."""
    return lambda rng, n: estimate((draw(rng, (n, len(truths))) + truths).tolist()).word


def two_recipes(truths):
    """Two recipes whose seeds share half of the variance."""
    def case(rng, n):
        rows = (rng.normal(size=(n, 1)) + rng.normal(size=(n, 2))) / np.sqrt(2) + truths
        recipes = {i: {seed: [rows[seed, i]] for seed in range(n)} for i in range(2)}
        own = {i: estimate(list(found.values())) for i, found in recipes.items()}
        return joint_word(estimate(together(recipes)), own)
    return case


def looked_at_again(rng, n):
    """Truth 0, judged after every seed from the third on, stopped at the first word."""
    rows = rng.normal(size=(n, 1)).tolist()
    return next((word for k in range(min(3, n), n + 1)
                 if (word := estimate(rows[:k]).word) != OPEN), OPEN)


CASES = {
    **{f"one part, truth {truth:g}": one_recipe(normal, [truth])
       for truth in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, -1.5)},
    "one part, skewed, truth 0": one_recipe(skewed, [0.0]),
    "one part, two kinds, truth 0": one_recipe(two_kinds, [0.0]),
    "three parts, all 0": one_recipe(normal, [0.0] * 3),
    "three parts, one 0, others 3": one_recipe(normal, [0.0, 3.0, 3.0]),
    "three parts, all 2": one_recipe(normal, [2.0] * 3),
    "three parts, one -2, others 2": one_recipe(normal, [-2.0, 2.0, 2.0]),
    "two recipes, both 0": two_recipes([0.0, 0.0]),
    "two recipes, both 1.5": two_recipes([1.5, 1.5]),
    "two recipes, 2 and -2": two_recipes([2.0, -2.0]),
    "one part, truth 0, looked at after each seed": looked_at_again,
}


def simulated(claims=CLAIMS):
    """{case: {seeds: [per cent of each of the words]}}."""
    made = {}
    for number, (name, case) in enumerate(CASES.items()):
        made[name] = {}
        for n in SEEDS:
            rng = np.random.default_rng([number, n])
            words = [case(rng, n) for _ in range(claims)]
            made[name][str(n)] = [round(100 * words.count(word) / claims, 1) for word in (
                REPRODUCED, NOT_REPRODUCED, ON_START, OPEN)]
    return made


# --- thresholds -----------------------------------------------------------------------------------
@contextlib.contextmanager
def moved(name, factor):
    """Meanwhile a threshold is another one, in every module of the study."""
    value = THRESHOLDS[name][0]
    new = tuple(factor * v for v in value) if isinstance(value, tuple) else \
        1 - factor * (1 - value) if name in NEAR_ONE else factor * value
    modules = [module for module in (measures, *vars(questions).values())
               if getattr(module, name, None) == value]
    for module in modules:
        setattr(module, name, new)
    try:
        yield
    finally:
        for module in modules:
            setattr(module, name, value)


def changes(store, factors=FACTORS, names=tuple(THRESHOLDS)):
    """{factor: {threshold: [claims whose word it changes]}}, those that change any."""
    known, made = {(v.where, v.claim): v.word for v in questions.verdicts(store)}, {}
    for factor in factors:
        made[str(factor)] = {}
        for name in names:
            with moved(name, factor):
                other = questions.verdicts(store)
            claims = [f"{v.where}: {v.claim}" for v in other if known[v.where, v.claim] != v.word]
            if claims:
                made[str(factor)][name] = claims
    return made


# --- what the page has ----------------------------------------------------------------------------
def values():
    """{name: text or Table} for the page of the rule."""
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    rows = [(name, *(" / ".join(f"{share:.0f}" for share in found[str(n)]) for n in SEEDS))
            for name, found in kept["simulated"].items()]
    claims = {factor: {claim for claims in found.values() for claim in claims}
              for factor, found in kept["moved"].items()}
    words, little = {f: len(found) for f, found in claims.items()}, claims["0.99"] | claims["1.01"]
    return {"rule simulation": Table(("truth", *(f"{n} seeds" for n in SEEDS)), rows),
            "simulated": f"{kept['claims']:,}",
            "moved 1": str(len(little)), "moved 1 which": "; ".join(sorted(little)) or "none",
            "moved 25": f"{words['0.75']} (down) and {words['1.25']} (up)"}


def words_of(page):
    """{(where, claim): (word, count or estimate)} of a page of verdicts."""
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")]
            for line in page.splitlines() if line.startswith("|") and "**" in line]
    return {(row[0], row[1]): (row[3].strip("*"), row[4]) for row in rows}


def changed(page):
    """A Table of every verdict whose word is not the page's, and why."""
    before, rows = words_of(page), []
    for v in questions.verdicts():
        word, count = before.get((v.where, v.claim), ("not there", ""))
        if word != v.word:
            rows.append((v.where, v.claim, f"{word}, {count}", v.word, v.estimate, v.note))
    return Table(("where", "claim", "before", "now", "estimate", "why"), rows, left=6)


def main(arguments=None):
    p = OneLineParser(prog="python -m experiments.study.simulate", description=__doc__,
                      formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--before", metavar="PAGE", help="show the words that changed since this page")
    options = p.parse_args(arguments)

    def work():
        if options.before:
            print(changed(Path(options.before).read_text(encoding="utf-8")))
            return 0
        made = {"claims": CLAIMS, "simulated": simulated(), "moved": changes(Store())}
        KEPT.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
        print(f"{KEPT}: written; python experiments/report.py puts it on the page")
        return 0

    return guarded(p.prog, work)


if __name__ == "__main__":
    sys.exit(main())
