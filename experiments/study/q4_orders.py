"""Question 4: sums of two and of three numbers modulo 11, learned together."""

import math

from experiments.study.judge import Claim
from experiments.study.measures import APART, GENERAL, MEMORISED, NEAR
from experiments.study.records import NAMES, SEEDS, variant

CONFIGS = {model: variant(model, p=11, orders=(2, 3), stratified=True) for model in NAMES}
RUNS = [variant(m, p=11, orders=(2, 3), stratified=True, seed=seed) for seed in SEEDS
        for m in NAMES]
ORDERS = {2: "binary", 3: "ternary"}
LIMITS = {"train": MEMORISED, "validation": GENERAL}


def reached(run, part):
    """The steps at which each order's accuracy reaches the limit of a part."""
    return [run.reach(f"{part}_accuracy_order{order}", LIMITS[part]) for order in ORDERS]


def sooner(part):
    """Is the accuracy on binary operations the first to reach the limit?"""
    def test(runs):
        two, three = reached(runs["gpt"], part)
        return two < three, [two, three]
    return test


def steadier_on_binary(runs):
    lost = [runs["gpt"].shortfall(f"validation_accuracy_order{order}") for order in ORDERS]
    return lost[0] < lost[1], lost


def less_steady(runs):
    lost = [runs[model].shortfall() for model in NAMES]
    return lost[0] > lost[1], lost


def no_preference(runs):
    even, numbers = True, []
    for part in LIMITS:
        found = reached(runs["lstm"], part)
        high = [runs["lstm"].best(f"{part}_accuracy_order{order}") for order in ORDERS]
        even &= (abs(high[0] - high[1]) <= NEAR if all(map(math.isinf, found)) else
                 max(found) <= APART * min(found))
        numbers += found
    return even, numbers


def claims():
    gpt, lstm = {"gpt": CONFIGS["gpt"]}, {"lstm": CONFIGS["lstm"]}
    steps = "steps, binary, ternary"
    return [
        Claim("4 (c)", "the GPT memorises binary operations sooner than ternary ones",
              "binary are learned faster", gpt, sooner("train"), steps),
        Claim("4 (c)", "the GPT generalises on binary operations sooner than on ternary ones",
              "binary are learned faster", gpt, sooner("validation"), steps),
        Claim("4 (c)", "the GPT's A_val is steadier on binary operations",
              "more stably than ternary", gpt, steadier_on_binary,
              "mean shortfall, binary, ternary"),
        Claim("4 (c)", "the LSTM's learning is less steady than the GPT's",
              "unstable learning overall, in contrast", CONFIGS, less_steady,
              "mean shortfall, LSTM, GPT"),
        Claim("4 (c)", "the LSTM has no clear preference for either order",
              "no clear preference or efficiency", lstm, no_preference,
              "steps to A_train and to A_val, binary, ternary"),
    ]
