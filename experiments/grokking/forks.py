"""How much of the step of generalising is rounding alone? Forks of one run by one last digit.

  python experiments/grokking/forks.py --list      the trials and their minutes
  python experiments/grokking/forks.py             make what is not made yet
  python experiments/report.py                     the answer, from what there is

An LSTM of the study's question 5 (one layer, d = 64, the release recipe, float32, one thread). The
trunk is its run with seed 0. A fork is the same run after one number of the recurrent matrix, a
place drawn by the fork's number, is one unit in the last place larger at step 0. A seed is the
trunk's recipe with another seed: other split, other start.

Predicted before any of these was run (26 November 2026): (1) every fork leaves the trunk; (2) all
forks generalise; (3) the deviation of log10 of the step at which A_val reaches 0.9 is for forks
between a third and the whole of that for seeds: a seed is not what decides the step to better than
that, and half of what is called the luck of a seed is the luck of rounding; (4) which number was
moved does not matter: the forks' steps are not told from one bell curve.
"""

if __name__ == "__main__":
    from npdl_train.console import begin

    begin()         # Ctrl-C is quiet from here on

import dataclasses
import sys

import numpy as np

from experiments.study.measures import A_VAL
from experiments.study.records import variant, with_recipe
from experiments.trials import Trial, columns_of, evaluations, main, settings
from npdl_train.runs.loop import Trainer

FOLDER = "grokking/forks"
MOVED = "lstm.layers.0.cell.W_h"
FORKS, SEEDS = range(20), range(1, 11)
ENOUGH = 0.95               # A_val that ends a trial
CONFIG = with_recipe(variant("lstm", layers=1, width=64), "release")


def train(fork=None, **changed):
    """The columns of a training: step, losses, accuracies, norm."""
    trainer, rows = Trainer(dataclasses.replace(CONFIG, **changed)), []
    if fork is not None:
        numbers = dict(trainer.model.params())[MOVED].data.reshape(-1)
        place = np.random.default_rng(fork).integers(numbers.size)
        numbers[place] = np.nextafter(numbers[place], np.float32(np.inf))
    for row in evaluations(trainer):
        rows.append(row)
        if row[A_VAL] >= ENOUGH:
            break
    return columns_of(rows)


def trial(name, **facts):
    return Trial(name, {**settings(CONFIG), "seed": 0, "moved": MOVED, **facts}, 0.5,
                 lambda: train(**facts))


TRIALS = [trial("trunk"), *(trial(f"fork{number}", fork=number) for number in FORKS[:10]),
          *(trial(f"seed{seed}", seed=seed) for seed in SEEDS[:5]),
          *(trial(f"fork{number}", fork=number) for number in FORKS[10:]),
          *(trial(f"seed{seed}", seed=seed) for seed in SEEDS[5:])]

if __name__ == "__main__":
    sys.exit(main(FOLDER, TRIALS, __doc__))
