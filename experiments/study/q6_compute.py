"""Question 6: batch sizes, and fractions of a training. The claims on it are in q6_claims."""

import statistics

from experiments.study.records import BASE, NAMES, SEEDS, variant

BATCHES = (32, 64, 128, 256, 512)
ALPHAS = tuple(round(0.1 * i, 1) for i in range(1, 11))
T = 20001
CONFIGS = {m: {B: variant(m, batch=B, steps=T) for B in BATCHES} for m in NAMES}
RUNS = [variant(m, batch=B, steps=T, seed=seed) for seed in SEEDS for B in BATCHES for m in NAMES]
TRAINED = int(BASE.r_train * BASE.p**2)     # equations in the training set
LAST = 10                   # evaluations before a moment, whose median stands for it


def after(run, metric, alpha):
    """Where a run stands after alpha T steps: a best value over more steps cannot get worse."""
    return statistics.median([v for t, v in run.points(metric) if t <= alpha * T][-LAST:])
