"""Question 5: layers and width. The claims on it are in q5_claims."""

import math

from experiments.study.measures import A_VAL, L_VAL, mean
from experiments.study.records import NAMES, SEEDS, parameters, variant

LAYERS, WIDTHS = (1, 2, 3), (64, 128, 256)
CONFIGS = {model: {(L, d): variant(model, layers=L, width=d) for L in LAYERS for d in WIDTHS}
           for model in NAMES}
RUNS = [variant(m, layers=L, width=d, seed=seed) for seed in SEEDS for L in LAYERS
        for d in WIDTHS for m in NAMES]
NARROW, WIDE = [(L, 64) for L in LAYERS], [(L, 256) for L in LAYERS]
SHALLOW, DEEP = [(1, d) for d in WIDTHS], [(3, d) for d in WIDTHS]


def by_size(runs):
    """The runs {(L, d): Run} in the order of their parameters, and those."""
    ordered = sorted(runs.values(), key=lambda run: parameters(run.config))
    return ordered, [parameters(run.config) for run in ordered]


def gain(runs, few, many):
    """Decades by which L_val falls between settings paired with each other, mean."""
    return mean(math.log10(runs[a].best(L_VAL) / runs[b].best(L_VAL))
                for a, b in zip(few, many, strict=True))


def rise(runs, few, many):
    """By how much A_val rises between settings paired with each other, mean."""
    return mean(runs[b].best(A_VAL) - runs[a].best(A_VAL) for a, b in zip(few, many, strict=True))


def logarithms(runs):
    """(log10 of P, log10 of L_val), in the order of P."""
    ordered, sizes = by_size(runs)
    return [math.log10(P) for P in sizes], [math.log10(run.best(L_VAL)) for run in ordered]
