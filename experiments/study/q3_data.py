"""Question 3: the share of the equations that is trained on."""

import math

from experiments.study.judge import Claim
from experiments.study.measures import (
    A_TRAIN,
    A_VAL,
    GENERAL,
    L_VAL,
    MEMORISED,
    ONLY,
    falls,
    mean,
    slope,
)
from experiments.study.records import NAMES, SEEDS, variant

SHARES = [round(0.1 * i, 1) for i in range(1, 10)]
CONFIGS = {model: {r: variant(model, r_train=r) for r in SHARES} for model in NAMES}
RUNS = [variant(m, r_train=r, seed=seed) for seed in SEEDS for r in SHARES for m in NAMES]
LSTM = {("lstm", r): config for r, config in CONFIGS["lstm"].items()}
BOTH = {(m, r): config for m in CONFIGS for r, config in CONFIGS[m].items()}


def best(runs, model, metric):
    return [runs[model, r].best(metric) for r in SHARES]


def only_overfits(run):
    return run.best(A_TRAIN) >= MEMORISED and run.best(A_VAL) <= ONLY


def smallest_general(runs, model):
    """The smallest r_train that generalises, or infinity."""
    return min((r for r in SHARES if runs[model, r].best(A_VAL) >= GENERAL), default=math.inf)


def largest_overfit(runs, model):
    """The largest r_train that only overfits, or minus infinity."""
    return max((r for r in SHARES if only_overfits(runs[model, r])), default=-math.inf)


# --- claims ---------------------------------------------------------------------------------------
def monotone(runs):
    return falls(best(runs, "lstm", L_VAL)), best(runs, "lstm", L_VAL)


def scales_better(runs):
    """A steeper fall of log L_val over r_train."""
    fall = [slope(SHARES, [math.log10(v) for v in best(runs, m, L_VAL)]) for m in NAMES]
    return fall[0] < fall[1], fall


def both_improve(runs):
    ends = [runs[m, r].best(A_VAL) for m in NAMES for r in (0.1, 0.9)]
    return ends[1] > ends[0] and ends[3] > ends[2], ends


def steadier(runs):
    lost = [mean(runs[m, r].shortfall() for r in SHARES) for m in NAMES]
    return lost[0] < lost[1], lost


def first_general(runs):
    return smallest_general(runs, "lstm") == 0.6, [smallest_general(runs, "lstm")]


def overfits_below(runs):
    return all(only_overfits(runs["lstm", r]) for r in (0.1, 0.2)), best(runs, "lstm", A_VAL)[:2]


def claims():
    return [
        Claim("3 (c)", "the LSTM's L_val falls with every step of r_train",
              "decreases monotonically", LSTM, monotone, "L_val"),
        Claim("3 (c)", "in L_val the LSTM scales better than the GPT",
              "superior scaling, particularly in L_val", BOTH, scales_better,
              "decades of L_val per unit of r_train, LSTM, GPT"),
        Claim("3 (c)", "A_val improves with r_train for both models", "both models improve",
              BOTH, both_improve, "A_val at 0.1 and 0.9, LSTM, GPT"),
        Claim("3 (c)", "the LSTM's A_val is the steadier one over all r_train",
              "more stable performance across all r_train", BOTH, steadier,
              "mean shortfall, LSTM, GPT"),
        Claim("3 (d)", "the LSTM first generalises at r_train = 0.6", "0.6", LSTM,
              first_general, "at r_train",
              against="its table of question 2 has A_val = 1 at r_train = 0.5"),
        Claim("3 (d)", "below r_train = 0.3 the LSTM only overfits", "below 0.3", LSTM,
              overfits_below, "A_val at 0.1, 0.2"),
    ]
