"""How far rounding alone moves a training: the same seed, the same settings, other last bits.

  python experiments/rounding.py --list         the trials and their minutes
  python experiments/rounding.py                make what is not made yet
  python experiments/report.py                  the scatter beside that of the seeds

The default recipe of the study with seed 0, for both models, as

  usual     the fast engine, one thread, float32
  threads   two threads: the gradient's parts are added in another order
  plain     the textbook's engine
  rows      the same with the rows of every batch in the opposite order; the fast engine sorts them
  float64   sixteen digits instead of seven
"""

if __name__ == "__main__":
    from npdl_train.console import start_script

    start_script()         # Ctrl-C is quiet from here on

import dataclasses
import sys

from experiments.study.records import variant as recipe
from experiments.trials import Trial, columns_of, evaluations, main, settings
from npdl_train.runs.engine import Batch
from npdl_train.runs.loop import Trainer

FOLDER = "rounding"
SEED = 0
VARIANTS = {"usual": {}, "threads": {"threads": 2}, "plain": {"engine": "plain"},
            "rows": {"engine": "plain"}, "float64": {"dtype": "float64"}}
MINUTES = {"gpt": {"plain": 12, "rows": 12, "float64": 32},
           "lstm": {"plain": 8, "rows": 8, "float64": 6}}
USUAL = {"gpt": 4, "lstm": 2}


class Reversed(Trainer):
    """A Trainer whose batches have their rows in the opposite order."""

    def __init__(self, config):
        super().__init__(config)
        self.before, self.turned = None, None
        inner = self.task.batch

        def batch(step):
            given = inner(step)
            if given is not self.before:            # the same object again: its pieces are kept
                self.before = given
                self.turned = Batch(given.inputs[::-1].copy(), given.targets[::-1].copy(),
                                    given.counted[::-1].copy())
            return self.turned

        self.task.batch = batch


def config_of(model, variant):
    return recipe(model, seed=SEED, **VARIANTS[variant])


def train(model, variant, **changed):
    """The columns of a training: step, losses, accuracies, norm."""
    config = dataclasses.replace(config_of(model, variant), **changed)
    trainer = (Reversed if variant == "rows" else Trainer)(config)
    return columns_of(list(evaluations(trainer)))


def trial(model, variant):
    config = config_of(model, variant)
    facts = {"model": model, "variant": variant, "seed": SEED, **settings(config),
             "engine": config.engine, "threads": config.threads}
    return Trial(f"{model}-{variant}", facts, MINUTES[model].get(variant, USUAL[model]),
                 lambda: train(model, variant))


TRIALS = [trial(model, variant) for model in USUAL for variant in VARIANTS]

if __name__ == "__main__":
    sys.exit(main(FOLDER, TRIALS, __doc__))
